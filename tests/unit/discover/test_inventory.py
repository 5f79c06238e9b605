"""The inventory: written by whoever discovers, read by everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.discover import inventory
from shim.discover.model import Device, Discovery
from shim.host.host import Host

GPU2 = Device(
    "2",
    "nvidia",
    model="NVIDIA H100",
    driver_version="570.86.10",
    memory=81920 << 20,
    pci_address="0000:17:00.0",
    numa_node=1,
    uuid="GPU-x",
    cdi_names=("nvidia.com/gpu=2",),
    nodes=("/dev/nvidia2",),
)
GPU10 = Device("10", "nvidia")
CARD = Device("0", "amd")


@pytest.fixture
def host(trusted_path: Path) -> Host:
    return Host(str(trusted_path))


def test_devices_are_sorted_and_come_back_as_they_were(host: Host) -> None:
    made = inventory.of([Discovery("nvidia", devices=(GPU10, GPU2)), Discovery("amd", devices=(CARD,))], now=5.0)
    assert made.devices == (CARD, GPU2, GPU10)
    inventory.write(host, made)
    assert inventory.read(host) == made
    assert host.real(inventory.path()).stat().st_mode & 0o777 == 0o644


def test_a_host_without_devices_has_an_empty_inventory(host: Host) -> None:
    assert inventory.read(host) is None
    assert inventory.update(host, ["nvidia"], []) == []
    known = inventory.read(host)
    assert known and known.devices == () and known.time > 0


def test_vendors_that_were_not_asked_are_kept(host: Host) -> None:
    inventory.write(host, inventory.Inventory((CARD, GPU2), 1.0))
    inventory.update(host, ["nvidia"], [Discovery("nvidia", devices=(GPU10,))])
    known = inventory.read(host)
    assert known and known.devices == (CARD, GPU10)
    inventory.update(host, ["nvidia", "amd"], [])
    known = inventory.read(host)
    assert known and known.devices == ()


def test_a_driver_that_is_not_ready_takes_no_device_away(host: Host) -> None:
    inventory.write(host, inventory.Inventory((GPU2,), 1.0))
    inventory.update(host, ["nvidia"], [Discovery("nvidia", waits_for="the module nvidia")])
    known = inventory.read(host)
    assert known and known.devices == (GPU2,)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "{",
        lambda _: [],
        lambda document: {**document, "format": 9},
        lambda document: {**document, "devices": [{"name": "x"}]},
        lambda document: {**document, "devices": 3},
    ],
)
def test_a_damaged_file_is_named_and_written_anew(host: Host, damage: Any) -> None:
    inventory.write(host, inventory.Inventory((GPU2,), 1.0))
    file = host.real(inventory.path())
    value = damage(json.loads(file.read_text()))
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(CdiError) as caught:
        inventory.read(host)
    assert caught.value.findings[0].id == "DISCOVERY_STATE"
    assert inventory.update(host, ["amd"], [Discovery("amd", devices=(CARD,))]) == []
    known = inventory.read(host)
    assert known and known.devices == (CARD,)


def test_a_file_that_others_could_have_written_does_not_count(host: Host) -> None:
    inventory.write(host, inventory.Inventory((GPU2,), 1.0))
    host.real(inventory.path()).chmod(0o666)
    with pytest.raises(CdiError, match="it does not count"):
        inventory.read(host)


def test_a_place_that_cannot_be_written_is_a_warning(host: Host) -> None:
    host.real("/var").write_text("a file")
    (finding,) = inventory.update(host, ["amd"], [])
    assert (finding.id, finding.level) == ("DISCOVERY_STATE", "WARNING")
