"""RDMA adapters: their nodes by sysfs, named by adapter and PCI address, and their network interface when asked for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from conformance import trees
from unit.discover.machines import CM, TWO_ADAPTERS, WISH, Entries, hca, paths, reported, specs

from shim.discover import rdma
from shim.host.host import Host

NETWORK = dataclasses.replace(WISH, has_network=True)


def test_two_adapters_have_their_own_nodes_and_two_names(tmp_path: Path) -> None:
    host = trees.build(TWO_ADAPTERS, str(tmp_path))
    discovery = rdma.discover(host, WISH)
    assert rdma.is_present(host, WISH)
    devices = specs(discovery)["rdma/hca"]
    assert list(devices) == ["0000:3b:00.0", "0000:5e:00.0", "all", "mlx5_0", "mlx5_1", ""]
    own = ["/dev/infiniband/issm1", "/dev/infiniband/umad1", "/dev/infiniband/uverbs1"]
    assert paths(devices["mlx5_0"]) == paths(devices["0000:3b:00.0"]) == own
    assert len(paths(devices["all"])) == 6
    assert paths(devices[""]) == ["/dev/infiniband/rdma_cm"]
    assert "netDevices" not in str(devices)
    assert not discovery.findings


def test_the_inventory_is_in_the_order_of_the_bus(tmp_path: Path) -> None:
    first, second = rdma.discover(trees.build(TWO_ADAPTERS, str(tmp_path)), WISH).devices
    assert (first.name, second.name) == ("mlx5_0", "mlx5_1")
    assert (first.vendor, first.model, first.numa_node, first.uuid) == ("rdma", "MT4129", 1, "b83f:d203:00b5:1c2a")
    assert first.cdi_names == ("rdma/hca=mlx5_0", "rdma/hca=0000:3b:00.0")
    assert "/dev/infiniband/uverbs1" in first.nodes


def test_the_network_interface_comes_with_its_adapter_when_it_is_asked_for(tmp_path: Path) -> None:
    port = "/sys/devices/pci0000:00/0000:3b:00.0/net"
    representors = {f"{port}/eth{n}/phys_port_name": text for n, text in enumerate(("pf0vf0\n", "c1pf0sf88\n"))}
    discovery = rdma.discover(trees.build(TWO_ADAPTERS | representors, str(tmp_path)), NETWORK)
    devices = specs(discovery, NETWORK)["rdma/hca"]
    assert devices["mlx5_0"]["netDevices"] == [{"hostInterfaceName": "ens1", "name": "ens1"}]
    assert len(devices["all"]["netDevices"]) == 2


def test_an_adapter_without_an_interface_is_reported_when_one_is_asked_for(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in TWO_ADAPTERS.items() if "/net/ens1" not in path}
    discovery = rdma.discover(trees.build(entries, str(tmp_path)), NETWORK)
    assert [finding.id for finding in discovery.findings] == ["DISCOVERY_PART"]
    assert "rdma/hca=mlx5_0 is written without a network interface" in discovery.findings[0].text
    assert not rdma.discover(Host(str(tmp_path)), WISH).findings


def test_adapters_that_share_a_function_are_named_by_their_names_alone(tmp_path: Path) -> None:
    host = trees.build(hca("0000:3b:00.0", 0, "mlx4_0") | hca("0000:3b:00.0", 1, "mlx4_1") | CM, str(tmp_path))
    assert set(specs(rdma.discover(host, WISH))["rdma/hca"]) == {"mlx4_0", "mlx4_1", "all", ""}


def test_an_adapter_without_a_pci_function_is_named_by_its_name(tmp_path: Path) -> None:
    entries: Entries = {
        "/sys/class/infiniband/rxe0": {"link": "../../devices/virtual/infiniband/rxe0"},
        "/sys/devices/virtual/infiniband/rxe0/node_guid": "5054:00ff:fe12:3456\n",
        "/sys/class/infiniband_verbs/uverbs0/ibdev": "rxe0\n",
        "/dev/infiniband/uverbs0": {"node": ["c", 231, 192], "mode": "0666"},
    }
    discovery = rdma.discover(trees.build(entries | CM, str(tmp_path)), WISH)
    assert paths(specs(discovery)["rdma/hca"]["rxe0"]) == ["/dev/infiniband/uverbs0"]
    assert [device.pci_address for device in discovery.devices] == [""]


def test_the_ports_of_gaudi_cards_belong_to_these(tmp_path: Path) -> None:
    host = trees.build(hca("0000:19:00.0", 0, "hlib_0", "habanalabs", 0x1DA3) | CM, str(tmp_path))
    assert not rdma.is_present(host, WISH)
    assert rdma.discover(host, WISH).drafts == ()


@pytest.mark.parametrize(
    ("missing", "id"),
    [
        ("uverbs1", "DISCOVERY_DEVICE"),
        ("umad1", "DISCOVERY_PART"),
        ("issm1", "DISCOVERY_PART"),
        ("rdma_cm", "DISCOVERY_PART"),
    ],
)
def test_a_missing_node_is_reported(tmp_path: Path, missing: str, id: str) -> None:
    path = f"/dev/infiniband/{missing}"
    host = trees.build({name: entry for name, entry in TWO_ADAPTERS.items() if name != path}, str(tmp_path))
    discovery = rdma.discover(host, WISH)
    assert reported(discovery) == [(id, path)]
    devices = specs(discovery)["rdma/hca"]
    assert path not in str(devices)
    assert ("mlx5_0" in devices) == (missing != "uverbs1")


def test_an_adapter_without_verbs_is_reported(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in hca("0000:3b:00.0", 0, "mlx5_0").items() if "verbs" not in path}
    discovery = rdma.discover(trees.build(entries, str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_DEVICE", "/sys/class/infiniband/mlx5_0")]
    assert discovery.drafts == ()
    assert [device.cdi_names for device in discovery.devices] == [()]


def test_a_host_without_devices_has_nothing_to_report(tmp_path: Path) -> None:
    host = trees.build({"/dev/null": {"node": ["c", 1, 3]}}, str(tmp_path))
    assert not rdma.is_present(host, WISH)
    discovery = rdma.discover(host, WISH)
    assert (discovery.drafts, discovery.devices, discovery.findings, discovery.waits_for) == ((), (), (), "")
