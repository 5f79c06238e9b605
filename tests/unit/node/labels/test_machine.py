"""The machine's name, and vGPUs by the PCI configuration space."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.host.host import Host
from shim.node.labels.machine import BrokenRecordError, driver, machine, vgpu

RECORD = bytes([0, 22]) + b"535.54.03\0" + b"r535_00\0\0\0"
DEVICE = "/sys/bus/pci/devices/0000:06:00.0"


def config(records: bytes, *, length: int | None = None, signature: bytes = b"VF", has_list: bool = True) -> bytes:
    capability = signature + records
    space = bytearray(256)
    space[0x06] = 0x10 if has_list else 0
    space[0x34] = 0x60
    space[0x60:0x63] = bytes([0x01, 0x80, 8])
    space[0x80:0x83] = bytes([0x09, 0, 3 + len(capability) if length is None else length])
    space[0x83 : 0x83 + len(capability)] = capability
    return bytes(space[:256])


def test_a_vgpu_shows_the_driver_of_its_host() -> None:
    assert driver(config(RECORD)) == ("535.54.03", "r535_00")
    assert driver(config(bytes([1, 4, 9, 9]) + RECORD)) == ("535.54.03", "r535_00")


@pytest.mark.parametrize(
    "space",
    [
        config(RECORD, signature=b"VX"),
        config(RECORD, has_list=False),
        config(RECORD, length=4),
        bytes(256),
    ],
)
def test_another_device_is_no_vgpu(space: bytes) -> None:
    assert driver(space) is None


def test_a_list_of_capabilities_that_leads_into_itself_ends() -> None:
    space = bytearray(config(RECORD))
    space[0x80] = 0x01
    space[0x81] = 0x60
    assert driver(bytes(space)) is None


@pytest.mark.parametrize(
    "space",
    [
        config(bytes([1, 0]) + RECORD),  # the record never ends
        config(bytes([1, 120]) + RECORD),  # it leads out of the capability
        config(RECORD[:10]),
        config(RECORD, length=200),  # the capability leads out of the configuration space
        config(bytes([1, 2])),
    ],
)
def test_records_that_lead_nowhere_are_an_error(space: bytes) -> None:
    with pytest.raises(BrokenRecordError):
        driver(space)


def host(tmp_path: Path, space: bytes | None, vendor: str = "0x10de") -> Host:
    at = tmp_path / DEVICE.lstrip("/")
    at.mkdir(parents=True)
    if vendor:
        (at / "vendor").write_text(f"{vendor}\n")
    if space is not None:
        (at / "config").write_bytes(space)
    return Host(str(tmp_path))


def test_the_labels_of_a_vgpu(tmp_path: Path) -> None:
    labels, findings = vgpu(host(tmp_path, config(RECORD)))
    assert labels == {
        "vgpu.present": "true",
        "vgpu.host-driver-version": "535.54.03",
        "vgpu.host-driver-branch": "r535_00",
    }
    assert findings == []


def test_no_vgpu_is_stated_only_where_all_devices_can_be_read(tmp_path: Path) -> None:
    assert vgpu(host(tmp_path / "a", bytes(256)))[0] == {"vgpu.present": "false"}
    assert vgpu(host(tmp_path / "b", None, "0x8086"))[0] == {"vgpu.present": "false"}
    for name, space, vendor in (("c", bytes(64), "0x10de"), ("d", bytes(256), ""), ("e", config(RECORD[:9]), "0x10de")):
        labels, findings = vgpu(host(tmp_path / name, space, vendor))
        assert labels == {}
        assert [finding.id for finding in findings] == ["LABELS_PART"]
    assert vgpu(Host(str(tmp_path))) == ({}, [])


def test_the_machine(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("  PowerEdge R750xa\t\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "folder").mkdir()
    at = Host(str(tmp_path))
    assert machine(at, "/name") == "PowerEdge-R750xa"
    assert machine(at, "/empty") == ""
    assert machine(at, "/folder") == machine(at, "/missing") == "unknown"
