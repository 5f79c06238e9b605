"""Gaudi cards: the accelerator, its control node and its verbs node, named as Intel's generator names them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from conformance import trees
from unit.discover.machines import WISH, Entries, paths, pci, reported, specs
from unit.discover.machines import gaudi as card

from shim.discover import habana

GAUDI2 = 0x1020


def verbs(number: int) -> Entries:
    return {f"/dev/infiniband/uverbs{number}": {"node": ["c", 231, 192 + number], "mode": "0666"}}


def test_a_card_has_its_accelerator_its_control_node_and_its_verbs(tmp_path: Path) -> None:
    entries: Entries = {}
    for number in range(12):  # more than ten: 10 behind 9, and 1 is not 11
        entries |= card(number, **{f"infiniband_verbs__uverbs{number + 1}__dev": "231:1"}) | verbs(number + 1)
    discovery = habana.discover(trees.build(entries, str(tmp_path)), WISH)
    devices = specs(discovery)["intel.com/gaudi"]
    assert list(devices) == [*(f"accel{number}" for number in range(12)), "all", ""]
    assert paths(devices["accel1"]) == ["/dev/accel/accel1", "/dev/accel/accel_controlD1", "/dev/infiniband/uverbs2"]
    assert len(paths(devices["all"])) == 36
    assert not discovery.findings


def test_cards_are_named_by_address_and_model_when_that_is_asked_for(tmp_path: Path) -> None:
    wish = dataclasses.replace(WISH, names=("uuid",))
    discovery = habana.discover(trees.build(card(0), str(tmp_path)), wish)
    assert set(specs(discovery, wish)["intel.com/gaudi"]) == {"0000-10-00-0-0x1020", "all", ""}
    assert discovery.devices[0].cdi_names == ("intel.com/gaudi=0000-10-00-0-0x1020",)


def test_the_inventory_has_the_model(tmp_path: Path) -> None:
    entries = card(0, numa_node="1") | {"/sys/module/habanalabs/version": "1.19.0\n"}
    host = trees.build(entries, str(tmp_path))
    assert habana.is_present(host, WISH)
    (device,) = habana.discover(host, WISH).devices
    assert (device.name, device.model, device.driver_version, device.numa_node) == ("accel0", "Gaudi2", "1.19.0", 1)
    assert (device.pci_address, device.nodes) == ("0000:10:00.0", ("/dev/accel/accel0", "/dev/accel/accel_controlD0"))


def test_an_accelerator_that_the_class_directory_alone_shows_is_known(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in card(3).items() if "/accel/accel3/dev" not in path}
    entries["/sys/class/accel/accel3/device"] = {"link": "../../../devices/pci0000:00/0000:13:00.0"}
    devices = specs(habana.discover(trees.build(entries, str(tmp_path)), WISH))["intel.com/gaudi"]
    assert paths(devices["accel3"]) == ["/dev/accel/accel3", "/dev/accel/accel_controlD3"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"/sys/class/infiniband_verbs/uverbs7/ibdev": "hlib_0\n"}, ["/dev/infiniband/uverbs7"]),
        ({"/sys/class/infiniband_verbs/uverbs7/ibdev": "hlib_01\n"}, []),
        ({f"/sys/devices/pci0000:00/0000:10:00.0/infiniband_verbs/uverbs{n}/dev": "1:1" for n in (6, 7)}, []),
    ],
)
def test_verbs_count_when_they_are_surely_those_of_the_card(
    tmp_path: Path, entries: Entries, expected: list[str]
) -> None:
    host = trees.build(card(0) | verbs(6) | verbs(7) | entries, str(tmp_path))
    devices = specs(habana.discover(host, WISH))["intel.com/gaudi"]
    assert paths(devices["accel0"])[2:] == expected


def test_a_missing_accelerator_takes_its_card_and_no_other(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in (card(0) | card(1)).items() if path != "/dev/accel/accel0"}
    discovery = habana.discover(trees.build(entries, str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_DEVICE", "/dev/accel/accel0")]
    assert set(specs(discovery)["intel.com/gaudi"]) == {"accel1", "all", ""}
    assert discovery.devices[0].cdi_names == ()


def test_a_missing_control_node_is_reported_and_the_card_is_written(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in card(0).items() if path != "/dev/accel/accel_controlD0"}
    discovery = habana.discover(trees.build(entries, str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_PART", "/dev/accel/accel_controlD0")]
    assert paths(specs(discovery)["intel.com/gaudi"]["accel0"]) == ["/dev/accel/accel0"]


def test_a_card_without_an_accelerator_is_reported(tmp_path: Path) -> None:
    entries = pci("0000:10:00.0", 0x1DA3, GAUDI2, 0x1200, "habanalabs")
    discovery = habana.discover(trees.build(entries, str(tmp_path)), WISH)
    assert [finding.id for finding in discovery.findings] == ["DISCOVERY_DEVICE"]
    assert [device.name for device in discovery.devices] == ["0000-10-00-0-0x1020"]


def test_a_card_without_driver_is_waited_for(tmp_path: Path) -> None:
    host = trees.build(pci("0000:10:00.0", 0x1DA3, GAUDI2, 0x1200), str(tmp_path))
    discovery = habana.discover(host, WISH)
    assert not habana.is_present(host, WISH)
    assert reported(discovery) == [("DISCOVERY_INCOMPLETE", "")]
    assert discovery.waits_for == "the driver habanalabs"


def test_a_host_without_devices_has_nothing_to_report(tmp_path: Path) -> None:
    host = trees.build({"/dev/null": {"node": ["c", 1, 3]}}, str(tmp_path))
    assert not habana.is_present(host, WISH)
    discovery = habana.discover(host, WISH)
    assert (discovery.drafts, discovery.devices, discovery.findings, discovery.waits_for) == ((), (), (), "")
