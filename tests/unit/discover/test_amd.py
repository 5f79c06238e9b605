"""AMD's GPUs and partitions: names as amd-ctk gives them, nodes that are there, and what is missing named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from conformance import trees
from unit.discover import machines
from unit.discover.machines import UNIQUE, VIDEO, WISH, Entries, cpx, kfd, paths, reported, specs
from unit.discover.machines import amd_gpu as gpu

from shim.discover import amd, vendors
from shim.discover.document import document
from shim.host.host import Host

ONE = gpu("0000:03:00.0", "card0", "renderD128") | kfd((128, 0x300, UNIQUE))


def without(entries: Entries, *paths: str) -> Entries:
    return {path: entry for path, entry in entries.items() if path not in paths}


def test_a_gpu_has_its_card_its_render_node_and_kfd(tmp_path: Path) -> None:
    discovery = amd.discover(trees.build(ONE, str(tmp_path)), WISH)
    devices = specs(discovery)["amd.com/gpu"]
    assert paths(devices["0"]) == paths(devices["all"]) == ["/dev/dri/card0", "/dev/dri/renderD128"]
    assert paths(devices[""]) == ["/dev/kfd"]
    assert devices["0"]["deviceNodes"][0] == {"path": "/dev/dri/card0", "fileMode": 0o660, "gid": VIDEO}
    assert not discovery.findings


def test_the_groups_of_its_nodes_are_additional_groups_of_the_container(tmp_path: Path) -> None:
    host = trees.build(ONE, str(tmp_path))
    devices = specs(amd.discover(host, WISH))["amd.com/gpu"]
    assert devices["0"]["additionalGids"] == [VIDEO, machines.RENDER]
    assert devices[""]["additionalGids"] == [machines.RENDER]
    wish = dataclasses.replace(WISH, features=frozenset({"no-additional-gids-for-device-nodes"}))
    assert "additionalGids" not in str(specs(amd.discover(host, wish), wish))


def test_64_partitions_are_64_devices_with_a_render_node_of_their_own(tmp_path: Path) -> None:
    discovery = amd.discover(trees.build(cpx(8, 8), str(tmp_path)), WISH)
    devices = specs(discovery)["amd.com/gpu"]
    assert not discovery.findings
    assert list(devices) == [*map(str, range(64)), "all", ""]
    for index in range(64):
        card = [] if index % 8 else [f"/dev/dri/card{index // 8}"]
        assert paths(devices[str(index)]) == [*card, f"/dev/dri/renderD{128 + index}"]
    assert len(paths(devices["all"])) == 64 + 8
    assert paths(devices[""]) == ["/dev/kfd"]


def test_indices_go_gpu_by_gpu_although_partitions_are_numbered_after_all_gpus(tmp_path: Path) -> None:
    entries = gpu("0000:0a:00.0", "card0", "renderD128") | gpu("0000:10:00.0", "card1", "renderD129")
    for number, render in enumerate((130, 131)):
        entries[f"/sys/devices/platform/amdgpu_xcp_{number}/drm/renderD{render}/dev"] = "226:0\n"
        entries |= machines.dri(f"renderD{render}")
    topology = kfd((128, 0xA00, 1), (129, 0x1000, 2), (130, 1 << 28 | 0xA00, 1), (131, 1 << 28 | 0x1000, 2))
    discovery = amd.discover(trees.build(entries | topology, str(tmp_path)), WISH)
    renders = [device.nodes[-2] for device in discovery.devices]
    assert renders == [f"/dev/dri/renderD{number}" for number in (128, 130, 129, 131)]
    assert [device.pci_address for device in discovery.devices] == ["0000:0a:00.0"] * 2 + ["0000:10:00.0"] * 2


def test_the_inventory_has_what_the_driver_and_the_topology_show(tmp_path: Path) -> None:
    entries = gpu("0000:03:00.0", "card0", "renderD128", numa_node="1", product_name="AMD Instinct MI300X OAM")
    entries |= kfd((128, 0x300, UNIQUE)) | {"/sys/module/amdgpu/version": "6.10.5\n"}
    (device,) = amd.discover(trees.build(entries, str(tmp_path)), WISH).devices
    assert (device.name, device.vendor, device.model) == ("0", "amd", "AMD Instinct MI300X OAM")
    assert (device.driver_version, device.memory, device.numa_node) == ("6.10.5", 16 << 30, 1)
    assert (device.uuid, device.pci_address) == ("0x9BAC5FE057CD5881", "0000:03:00.0")
    assert device.cdi_names == ("amd.com/gpu=0",)
    assert device.nodes == ("/dev/dri/card0", "/dev/dri/renderD128", "/dev/kfd")


def test_memory_and_model_have_other_sources(tmp_path: Path) -> None:
    entries = gpu("0000:03:00.0", "card0", "renderD128", mem_info_vram_total="536870912") | kfd((128, 0x300, 0))
    bank = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/mem_banks/0/properties"
    ids = {"/usr/share/misc/pci.ids": "1002  AMD\n\t74a1  Aqua Vanjaram [Instinct MI300X]\n"}
    host = trees.build(entries | ids | {bank: "heap_type 0\nsize_in_bytes 99\n"}, str(tmp_path))
    (device,) = amd.discover(host, WISH).devices
    assert (device.memory, device.model, device.uuid) == (512 << 20, "Aqua Vanjaram [Instinct MI300X]", "")


def test_the_unique_id_names_all_partitions_of_a_gpu_when_it_is_asked_for(tmp_path: Path) -> None:
    wish = dataclasses.replace(WISH, names=("uuid",), has_all=False)
    discovery = amd.discover(trees.build(cpx(2, 2), str(tmp_path)), wish)
    devices = specs(discovery, wish)["amd.com/gpu"]
    ids = [f"0x{UNIQUE + index:X}" for index in range(2)]
    assert set(devices) == {*ids, ""}
    assert paths(devices[ids[1]]) == ["/dev/dri/card1", "/dev/dri/renderD130", "/dev/dri/renderD131"]
    assert discovery.devices[3].cdi_names == (f"amd.com/gpu={ids[1]}",)
    both = dataclasses.replace(wish, names=("index", "uuid"))
    assert len(specs(amd.discover(Host(str(tmp_path)), both), both)["amd.com/gpu"]) == 4 + 2 + 1


def test_a_gpu_without_a_unique_id_is_named_by_its_index_in_any_case(tmp_path: Path) -> None:
    wish = dataclasses.replace(WISH, names=("uuid",))
    entries = gpu("0000:03:00.0", "card0", "renderD128") | kfd((128, 0x300, 0))
    assert "0" in specs(amd.discover(trees.build(entries, str(tmp_path)), wish), wish)["amd.com/gpu"]


@pytest.mark.parametrize("word", ["1", "renderD129", "0000:11:00.0", f"0x{UNIQUE + 1:X}"])
def test_a_device_is_selected_by_index_node_address_or_id(tmp_path: Path, word: str) -> None:
    wish = dataclasses.replace(WISH, devices=(word,), has_all=False)
    ((_, written),) = vendors.documents(amd.discover(trees.build(cpx(2, 1), str(tmp_path)), wish), wish)
    assert [device["name"] for device in written["devices"]] == ["1"]


def test_a_missing_kfd_is_an_error_and_the_rest_is_written(tmp_path: Path) -> None:
    discovery = amd.discover(trees.build(without(ONE, "/dev/kfd"), str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_INCOMPLETE", "/dev/kfd")]
    assert paths(specs(discovery)["amd.com/gpu"]["0"]) == ["/dev/dri/card0", "/dev/dri/renderD128"]


def test_a_kernel_without_the_compute_driver_is_named(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in ONE.items() if "kfd" not in path}
    drivers = {"/sys/module/amdgpu/drivers/pci:amdgpu": {"link": "../../../bus/pci/drivers/amdgpu"}}
    discovery = amd.discover(trees.build(entries | drivers, str(tmp_path)), WISH)
    topology = "/sys/class/kfd/kfd/topology/nodes"
    assert reported(discovery) == [("DISCOVERY_INCOMPLETE", topology), ("DISCOVERY_PART", "")]
    assert not discovery.drafts
    assert not discovery.devices  # the module drm serves it


def test_a_missing_render_node_takes_its_device_and_no_other_and_moves_no_index(tmp_path: Path) -> None:
    host = trees.build(without(cpx(3, 1), "/dev/dri/renderD129"), str(tmp_path))
    discovery = amd.discover(host, WISH)
    devices = specs(discovery)["amd.com/gpu"]
    assert list(devices) == ["0", "2", "all", ""]
    assert "/dev/dri/card1" not in paths(devices["all"])
    assert reported(discovery) == [("DISCOVERY_DEVICE", "/dev/dri/renderD129")]
    assert "amd.com/gpu=1 (0000:11:00.0)" in discovery.findings[0].text
    assert [(device.name, device.cdi_names, device.nodes) for device in discovery.devices][1] == ("1", (), ())


@pytest.mark.parametrize("entry", [{"link": "renderD129"}, "a file\n"])
def test_what_is_no_device_node_is_never_written(tmp_path: Path, entry: object) -> None:
    discovery = amd.discover(trees.build({**ONE, "/dev/dri/renderD128": entry}, str(tmp_path)), WISH)
    assert not discovery.drafts
    assert ("DISCOVERY_DEVICE", "/dev/dri/renderD128") in reported(discovery)
    assert "no device node" in discovery.findings[0].text


def test_a_missing_card_is_reported_and_the_gpu_is_written(tmp_path: Path) -> None:
    discovery = amd.discover(trees.build(without(ONE, "/dev/dri/card0"), str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_PART", "/dev/dri/card0")]
    assert paths(specs(discovery)["amd.com/gpu"]["0"]) == ["/dev/dri/renderD128"]


def test_a_gpu_that_cannot_compute_is_left_out_and_its_cause_named(tmp_path: Path) -> None:
    entries = gpu("0000:03:00.0", "card0") | gpu("0000:04:00.0", "card1", "renderD128")
    entries |= gpu("0000:05:00.0", "card2", "renderD129")
    discovery = amd.discover(trees.build(entries | kfd((129, 0x500, UNIQUE)), str(tmp_path)), WISH)
    assert paths(specs(discovery)["amd.com/gpu"]["0"]) == ["/dev/dri/card2", "/dev/dri/renderD129"]
    assert [finding.id for finding in discovery.findings] == ["DISCOVERY_PART"] * 2
    assert "0000:03:00.0 cannot compute and is left out: it has no render node" in discovery.findings[0].text
    assert "0000:04:00.0 cannot compute" in discovery.findings[1].text
    assert [device.name for device in discovery.devices] == ["0", "0000:03:00.0"]


def test_kfd_without_a_gpu_is_reported_and_nothing_is_written(tmp_path: Path) -> None:
    host = trees.build(kfd() | {"/sys/bus/pci/drivers/amdgpu": {"dir": True}}, str(tmp_path))
    discovery = amd.discover(host, WISH)
    assert amd.is_present(host, WISH)
    assert reported(discovery) == [("KFD_WITHOUT_RENDER", "/dev/kfd")]
    assert not discovery.drafts


def test_a_gpu_of_a_virtual_machine_is_in_the_inventory_alone(tmp_path: Path) -> None:
    entries = ONE | gpu("0000:04:00.0", driver="vfio-pci")
    discovery = amd.discover(trees.build(entries, str(tmp_path)), WISH)
    assert not discovery.findings
    assert [(device.name, device.cdi_names) for device in discovery.devices] == [
        ("0", ("amd.com/gpu=0",)),
        ("0000:04:00.0", ()),
    ]


def test_a_gpu_without_driver_is_waited_for(tmp_path: Path) -> None:
    host = trees.build(gpu("0000:03:00.0", driver=""), str(tmp_path))
    discovery = amd.discover(host, WISH)
    assert not amd.is_present(host, WISH)
    assert reported(discovery) == [("DISCOVERY_INCOMPLETE", "/sys/module/amdgpu/drivers")]
    assert discovery.waits_for == "the driver amdgpu"


def test_a_host_without_devices_has_nothing_to_report(tmp_path: Path) -> None:
    host = trees.build({"/dev/null": {"node": ["c", 1, 3]}}, str(tmp_path))
    assert not amd.is_present(host, WISH)
    discovery = amd.discover(host, WISH)
    assert (discovery.drafts, discovery.devices, discovery.findings, discovery.waits_for) == ((), (), (), "")


def test_nodes_lie_below_the_root_of_device_nodes(tmp_path: Path) -> None:
    nodes = {f"/run/host{path}" if path.startswith("/dev/") else path: entry for path, entry in ONE.items()}
    wish = dataclasses.replace(WISH, dev_root="/run/host")
    (draft,) = amd.discover(trees.build(nodes, str(tmp_path)), wish).drafts
    written = document(draft, wish)
    assert written is not None
    assert written["containerEdits"]["deviceNodes"][0]["hostPath"] == "/run/host/dev/kfd"
