"""Intel's GPUs, management engines and NPUs: names as Intel's generator gives them, and what is missing named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from conformance import trees
from unit.discover.machines import LAPTOP, RENDER, VIDEO, WISH, Entries, npu, paths, pci, reported, specs

from shim.discover import intel, vendors

ARC, NPU = 0x56A0, 0x643E
VFIO = "/sys/devices/pci0000:00/0000:03:00.0"


def arc(drm: tuple[str, ...] = (), address: str = "0000:03:00.0", driver: str = "xe", /, **files: str) -> Entries:
    return pci(address, 0x8086, ARC, 0x0300, driver, drm, **files)


def test_of_a_laptop_with_another_gpu_intels_is_written(tmp_path: Path) -> None:
    host = trees.build(LAPTOP, str(tmp_path))
    discovery = intel.discover(host, WISH)
    assert intel.is_present(host, WISH)
    (gpu,) = discovery.devices
    assert (gpu.name, gpu.pci_address, gpu.cdi_names) == (
        "0000-00-02-0-0x9a49",
        "0000:00:02.0",
        ("intel.com/gpu=0000-00-02-0-0x9a49",),
    )
    devices = specs(discovery)["intel.com/gpu"]
    assert set(devices) == {gpu.name, "all", ""}
    assert paths(devices[gpu.name]) == list(gpu.nodes) == ["/dev/dri/card1", "/dev/dri/renderD128"]
    assert devices[gpu.name]["additionalGids"] == [VIDEO, RENDER]
    links = [f"/dev/dri/by-path/pci-0000:00:02.0-{name}" for name in ("card", "render")]
    assert [(mount["hostPath"], mount["containerPath"]) for mount in devices[gpu.name]["mounts"]] == [
        (link, link) for link in links
    ]
    assert "hooks" not in devices[gpu.name]
    assert not discovery.findings


def test_all_can_be_left_out_as_intels_generator_does(tmp_path: Path) -> None:
    wish = dataclasses.replace(WISH, has_all=False)
    discovery = intel.discover(trees.build(LAPTOP, str(tmp_path)), wish)
    assert set(specs(discovery, wish)["intel.com/gpu"]) == {"0000-00-02-0-0x9a49", ""}


def test_a_link_that_leads_to_another_card_is_not_taken(tmp_path: Path) -> None:
    links = {"/dev/dri/by-path/pci-0000:03:00.0-card": {"link": "../card1"}}
    other = pci("0000:04:00.0", 0x10DE, 1, 0x0300, "nvidia", ("card1",))
    host = trees.build(arc(("card0", "renderD128")) | other | links, str(tmp_path))
    assert "mounts" not in specs(intel.discover(host, WISH))["intel.com/gpu"]["0000-03-00-0-0x56a0"]


def test_the_management_engine_of_a_gpu_is_a_device_of_its_own_kind(tmp_path: Path) -> None:
    entries = arc(("card0", "renderD128"), **{"xe.mei-gscfi.768__mei__mei1__dev": "239:1"})
    # that of the platform is another device
    entries |= pci("0000:00:16.0", 0x8086, 0xA0E0, 0x0780, "mei_me", mei__mei0__dev="239:0")
    entries |= {f"/dev/mei{number}": {"node": ["c", 239, number]} for number in (0, 1)}
    discovery = intel.discover(trees.build(entries, str(tmp_path)), WISH)
    assert paths(specs(discovery)["intel.com/gpu-mei"]["mei1"]) == ["/dev/mei1"]
    assert discovery.devices[0].cdi_names == ("intel.com/gpu=0000-03-00-0-0x56a0", "intel.com/gpu-mei=mei1")


def test_a_class_of_the_users_choice_is_that_of_the_gpus(tmp_path: Path) -> None:
    wish = dataclasses.replace(WISH, kind="x")
    host = trees.build(arc(("card0", "renderD128")) | npu(), str(tmp_path))
    discovery = intel.discover(host, wish)
    assert [document["kind"] for _, document in vendors.documents(discovery, wish)] == ["intel.com/x", "intel.com/npu"]
    names = [device.cdi_names for device in discovery.devices]
    assert names == [("intel.com/x=0000-03-00-0-0x56a0",), ("intel.com/npu=accel0",)]


@pytest.mark.parametrize(
    ("strategies", "names"),
    [
        ((), ["accel0"]),
        (("type-index",), ["accel0"]),
        (("uuid",), ["0000-00-0b-0-0x643e"]),
        (("index", "uuid"), ["0000-00-0b-0-0x643e", "accel0"]),
    ],
)
def test_an_npu_is_named_by_its_node_or_its_address(
    tmp_path: Path, strategies: tuple[str, ...], names: list[str]
) -> None:
    wish = dataclasses.replace(WISH, names=strategies)
    discovery = intel.discover(trees.build(npu(), str(tmp_path)), wish)
    devices = specs(discovery, wish)["intel.com/npu"]
    assert list(devices) == [*names, "all", ""]
    assert all(paths(devices[name]) == ["/dev/accel/accel0"] for name in names)
    assert not discovery.findings


def test_an_npu_without_a_node_is_reported(tmp_path: Path) -> None:
    entries = pci("0000:00:0b.0", 0x8086, NPU, 0x1200, "intel_vpu")
    discovery = intel.discover(trees.build(entries, str(tmp_path)), WISH)
    assert [finding.id for finding in discovery.findings] == ["DISCOVERY_DEVICE"]
    assert not discovery.drafts


def vfio(address: str, group: str, device: str) -> Entries:
    at = f"/sys/devices/pci0000:00/{address}"
    return arc((), address, "vfio-pci", **{f"vfio-dev__{device}__dev": "511:0"}) | {
        f"{at}/iommu_group": {"link": f"../../../kernel/iommu_groups/{group}"},
        f"/dev/vfio/{group}": {"node": ["c", 243, int(group)], "mode": "0600"},
        f"/dev/vfio/devices/{device}": {"node": ["c", 511, int(device.removeprefix("vfio"))], "mode": "0600"},
        "/dev/vfio/vfio": {"node": ["c", 10, 196], "mode": "0666"},
    }


def test_gpus_of_virtual_machines_have_the_nodes_of_vfio(tmp_path: Path) -> None:
    host = trees.build(vfio("0000:03:00.0", "12", "vfio0") | vfio("0000:04:00.0", "13", "vfio1"), str(tmp_path))
    devices = specs(intel.discover(host, WISH))["intel.com/gpu"]
    assert paths(devices["0000-03-00-0-0x56a0"]) == ["/dev/vfio/12", "/dev/vfio/vfio", "/dev/vfio/devices/vfio0"]
    assert paths(devices["0000-04-00-0-0x56a0"]) == ["/dev/vfio/13", "/dev/vfio/vfio", "/dev/vfio/devices/vfio1"]


def test_a_gpu_of_vfio_without_a_group_is_reported(tmp_path: Path) -> None:
    discovery = intel.discover(trees.build(arc((), "0000:03:00.0", "vfio-pci"), str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_DEVICE", VFIO)]
    assert not discovery.drafts


@pytest.mark.parametrize("missing", ["/dev/dri/card0", "/dev/dri/renderD128"])
def test_a_missing_node_takes_its_gpu_and_no_other(tmp_path: Path, missing: str) -> None:
    entries = arc(("card0", "renderD128")) | arc(("card1", "renderD129"), "0000:04:00.0")
    host = trees.build({path: entry for path, entry in entries.items() if path != missing}, str(tmp_path))
    discovery = intel.discover(host, WISH)
    assert reported(discovery) == [("DISCOVERY_DEVICE", missing)]
    assert "intel.com/gpu=0000-03-00-0-0x56a0 was left out" in discovery.findings[0].text
    assert set(specs(discovery)["intel.com/gpu"]) == {"0000-04-00-0-0x56a0", "all", ""}
    assert discovery.devices[0].cdi_names == ()


def test_a_gpu_without_a_card_is_reported(tmp_path: Path) -> None:
    discovery = intel.discover(trees.build(arc(), str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_DEVICE", VFIO)]
    assert "xe has made no DRM card" in discovery.findings[0].text


def test_gpus_without_driver_are_waited_for(tmp_path: Path) -> None:
    host = trees.build(arc((), "0000:03:00.0", ""), str(tmp_path))
    discovery = intel.discover(host, WISH)
    assert not intel.is_present(host, WISH)
    assert reported(discovery) == [("DISCOVERY_INCOMPLETE", "")]
    assert discovery.waits_for == "the driver i915 or xe"
    assert [device.cdi_names for device in discovery.devices] == [()]


def test_a_gpu_that_the_loaded_driver_does_not_serve_is_left_out(tmp_path: Path) -> None:
    host = trees.build(arc((), "0000:03:00.0", "") | arc(("card0", "renderD128"), "0000:04:00.0"), str(tmp_path))
    discovery = intel.discover(host, WISH)
    assert reported(discovery) == [("DISCOVERY_PART", "")]
    assert "0000:03:00.0" in discovery.findings[0].text
    assert discovery.waits_for == ""


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, 0),
        (
            {"tile0__physical_vram_size_bytes": "0x400000000", "tile1__physical_vram_size_bytes": "0x400000000"},
            32 << 30,
        ),
        ({"drm__card0__lmem_total_bytes": "17179869184"}, 16 << 30),
    ],
)
def test_the_inventory_has_model_numa_node_and_memory(tmp_path: Path, files: dict[str, str], memory: int) -> None:
    entries = arc(("card0", "renderD128"), numa_node="1", **files)
    ids = {"/usr/share/misc/pci.ids": "8086  Intel\n\t56a0  DG2 [Arc A770]\n"}
    (device,) = intel.discover(trees.build(entries | ids, str(tmp_path)), WISH).devices
    assert (device.model, device.numa_node, device.memory) == ("DG2 [Arc A770]", 1, memory)


def test_a_host_without_devices_has_nothing_to_report(tmp_path: Path) -> None:
    host = trees.build({"/dev/null": {"node": ["c", 1, 3]}}, str(tmp_path))
    assert not intel.is_present(host, WISH)
    discovery = intel.discover(host, WISH)
    assert (discovery.drafts, discovery.devices, discovery.findings, discovery.waits_for) == ((), (), (), "")
