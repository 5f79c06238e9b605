"""PCI devices by the attributes that /sys shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import trees
from unit.discover.machines import pci as function

from shim.discover import pci
from shim.host.tree import Tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x8086", 0x8086),
        ("0X10", 16),
        ("0200", 128),
        ("0", 0),
        ("17", 17),
        ("-1", -1),
        ("", -1),
        ("0x", -1),
        ("x", -1),
    ],
)
def test_numbers_are_read_as_in_c(text: str, value: int) -> None:
    assert pci.number(text) == value


def test_devices_are_sorted_by_their_hexadecimal_address(tmp_path: Path) -> None:
    addresses = ["0000:1a:00.0", "0000:09:00.0", "0001:00:00.0", "0000:1a:00.1", "10000:01:00.0"]
    entries = {path: entry for address in addresses for path, entry in function(address, 1, 2, 3).items()}
    host = trees.build(entries | {"/sys/bus/pci/devices/other": {"dir": True}}, str(tmp_path))
    assert [device.address for device in pci.devices(Tree(host))] == [
        "0000:09:00.0", "0000:1a:00.0", "0000:1a:00.1", "0001:00:00.0", "10000:01:00.0",
    ]  # fmt: skip


def test_a_device_has_its_attributes(tmp_path: Path) -> None:
    entries = function("0000:3b:00.0", 0x8086, 0x56A0, 0x0300, "xe", ("renderD128", "card10", "card2"), numa_node="1")
    at = "/sys/devices/pci0000:00/0000:3b:00.0"
    entries |= {f"{at}/drm/card2-DP-1": {"dir": True}, f"{at}/iommu_group": {"link": "../../../kernel/iommu_groups/12"}}
    (device,) = pci.devices(Tree(trees.build(entries, str(tmp_path))))
    assert (device.vendor, device.device, device.klass, device.is_display) == (0x8086, 0x56A0, 0x0300, True)
    assert (device.driver, device.numa_node, device.iommu_group) == ("xe", 1, "12")
    assert device.drm == ("card2", "card10", "renderD128")
    assert device.dashed == "0000-3b-00-0-0x56a0"
    assert device.path == at


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    host = trees.build({"/sys/bus/pci/devices/0000:3b:00.0": {"dir": True}}, str(tmp_path))
    (device,) = pci.devices(Tree(host))
    assert (device.vendor, device.device, device.klass, device.is_display) == (-1, -1, -1, False)
    assert (device.driver, device.numa_node, device.iommu_group, device.drm) == ("", -1, "", ())


def test_a_host_without_pci_has_no_devices(tmp_path: Path) -> None:
    assert pci.devices(Tree(trees.build({}, str(tmp_path)))) == []


def test_an_address_is_made_of_domain_and_location() -> None:
    assert pci.address_of(0, 0x1B00) == "0000:1b:00.0"
    assert pci.address_of(0x10000, 0x03 << 8 | 2 << 3 | 1) == "10000:03:02.1"


IDS = """# list
0001  First
\t56a0  Not this
8086  Intel Corporation
\t0001  Other
\t56a0  DG2 [Arc A770]
\t\t1849 0001  A board of it
# comment
\te20b  Battlemage
8087  Next
\t643e  Not this either
C 00  Unclassified
"""


@pytest.mark.parametrize(
    ("device", "name"), [(0x56A0, "DG2 [Arc A770]"), (0xE20B, "Battlemage"), (0x643E, ""), (0x1849, "")]
)
@pytest.mark.parametrize("path", ["/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"])
def test_a_model_has_its_name_of_the_list_of_pci_ids(tmp_path: Path, path: str, device: int, name: str) -> None:
    entries = function("0000:03:00.0", 0x8086, device, 0x0300)
    tree = Tree(trees.build(entries | {path: IDS}, str(tmp_path)))
    assert pci.PciIds(tree).model(pci.devices(tree)[0]) == name


def test_without_the_list_a_model_has_no_name(tmp_path: Path) -> None:
    tree = Tree(trees.build(function("0000:03:00.0", 0x8086, 0x56A0, 0x0300), str(tmp_path)))
    assert pci.PciIds(tree).model(pci.devices(tree)[0]) == ""
