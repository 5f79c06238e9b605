"""Any DRM card by its render node and PCI address; a host needs it for cards that no other module serves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from conformance import trees
from unit.discover import machines
from unit.discover.machines import NOUVEAU, VIDEO, WISH, Entries, paths, pci, reported, specs

from shim.discover import amd, drm, vendors

INTEL = pci("0000:00:02.0", 0x8086, 0x9A49, 0x0300, "i915", ("card1", "renderD129"))
NVIDIA = pci("0000:01:00.0", 0x10DE, 0x2520, 0x0300, "nvidia", ("card0", "renderD128"))
BMC = pci("0000:02:00.0", 0x1A03, 0x2000, 0x0300, "ast", ("card2",))


def board(driver: str = "panfrost", card: str = "card0", render: str = "renderD128") -> Entries:
    """The GPU of an ARM board, a device of the platform."""
    at = "/sys/devices/platform/fb000000.gpu"
    return {
        f"{at}/drm/{card}/dev": "226:0\n",
        f"{at}/drm/{render}/dev": "226:128\n",
        f"{at}/driver": {"link": f"../../../bus/platform/drivers/{driver}"},
        f"/sys/class/drm/{card}": {"link": f"../../devices/platform/fb000000.gpu/drm/{card}"},
        f"/sys/class/drm/{render}": {"link": f"../../devices/platform/fb000000.gpu/drm/{render}"},
        "/dev/dri/by-path/platform-fb000000.gpu-card": {"link": f"../{card}"},
        **machines.dri(card),
        **machines.dri(render),
    }


def test_a_card_has_the_names_of_its_render_node_and_its_address(tmp_path: Path) -> None:
    host = trees.build(NOUVEAU, str(tmp_path))
    discovery = drm.discover(host, WISH)
    assert drm.is_present(host, WISH)
    devices = specs(discovery)["drm/gpu"]
    assert list(devices) == ["0000:01:00.0", "all", "renderD128", ""]
    assert devices["0000:01:00.0"] == devices["renderD128"] == devices["all"]
    assert paths(devices["renderD128"]) == ["/dev/dri/card0", "/dev/dri/renderD128"]
    assert devices["renderD128"]["additionalGids"] == [VIDEO, machines.RENDER]
    assert [mount["containerPath"] for mount in devices["renderD128"]["mounts"]] == [
        "/dev/dri/by-path/pci-0000:01:00.0-card",
        "/dev/dri/by-path/pci-0000:01:00.0-render",
    ]
    assert not discovery.findings


def test_the_inventory_has_what_no_other_module_has(tmp_path: Path) -> None:
    ids = {"/usr/share/misc/pci.ids": "10de  NVIDIA\n\t2520  GA106M\n", "/sys/module/nouveau/version": "1.4\n"}
    (device,) = drm.discover(trees.build(NOUVEAU | INTEL | ids, str(tmp_path)), WISH).devices
    assert (device.name, device.vendor, device.model, device.numa_node) == ("renderD128", "drm", "GA106M", 1)
    assert (device.pci_address, device.driver_version) == ("0000:01:00.0", "1.4")
    assert device.cdi_names == ("drm/gpu=renderD128", "drm/gpu=0000:01:00.0")
    assert device.nodes == ("/dev/dri/card0", "/dev/dri/renderD128")


@pytest.mark.parametrize("word", ["128", "renderD128", "card0", "0000:01:00.0"])
def test_a_card_is_selected_by_number_node_or_address(tmp_path: Path, word: str) -> None:
    wish = dataclasses.replace(WISH, devices=(word,), has_all=False)
    discovery = drm.discover(trees.build(NOUVEAU | INTEL, str(tmp_path)), wish)
    ((_, written),) = vendors.documents(discovery, wish)
    assert [device["name"] for device in written["devices"]] == ["0000:01:00.0", "renderD128"]


def test_where_every_card_has_its_vendors_module_it_is_written_on_demand_only(tmp_path: Path) -> None:
    host = trees.build(INTEL | NVIDIA | BMC, str(tmp_path))
    assert not drm.is_present(host, WISH)
    discovery = drm.discover(host, WISH)
    assert [device.name for device in discovery.devices] == ["0000:02:00.0"]
    assert set(specs(discovery)["drm/gpu"]) == {
        "renderD128", "0000:01:00.0", "renderD129", "0000:00:02.0", "0000:02:00.0", "all", "",
    }  # fmt: skip


def test_a_gpu_of_amd_that_cannot_compute_is_served_here(tmp_path: Path) -> None:
    entries = pci("0000:03:00.0", 0x1002, 0x74A1, 0x0300, "amdgpu", ("card0", "renderD128"))
    entries |= pci("0000:04:00.0", 0x1002, 0x1681, 0x0300, "amdgpu", ("card1", "renderD129"), mem_info_vram_total="99")
    host = trees.build(entries | machines.kfd((128, 0x300, 1)), str(tmp_path))
    assert drm.is_present(host, WISH)
    assert [device.name for device in amd.discover(host, WISH).devices] == ["0"]
    (device,) = drm.discover(host, WISH).devices
    assert (device.name, device.memory) == ("renderD129", 99)


def test_a_device_of_a_platform_has_the_name_of_its_render_node(tmp_path: Path) -> None:
    host = trees.build(board(), str(tmp_path))
    devices = specs(drm.discover(host, WISH))["drm/gpu"]
    assert drm.is_present(host, WISH)
    assert set(devices) == {"renderD128", "all", ""}
    (mount,) = devices["renderD128"]["mounts"]
    assert mount["hostPath"] == mount["containerPath"] == "/dev/dri/by-path/platform-fb000000.gpu-card"


def test_a_card_without_render_node_and_address_is_named_by_its_card(tmp_path: Path) -> None:
    at = "/sys/devices/platform/simple-framebuffer.0/drm/card0"
    entries: Entries = {f"{at}/dev": "226:0\n", "/sys/class/drm/card0": {"link": f"../..{at.removeprefix('/sys')}"}}
    host = trees.build(entries | machines.dri("card0"), str(tmp_path))
    assert not drm.is_present(host, WISH)
    assert paths(specs(drm.discover(host, WISH))["drm/gpu"]["card0"]) == ["/dev/dri/card0"]


def test_a_missing_node_takes_its_card_and_no_other(tmp_path: Path) -> None:
    entries = {path: entry for path, entry in (NOUVEAU | INTEL).items() if path != "/dev/dri/renderD128"}
    discovery = drm.discover(trees.build(entries, str(tmp_path)), WISH)
    assert reported(discovery) == [("DISCOVERY_DEVICE", "/dev/dri/renderD128")]
    assert set(specs(discovery)["drm/gpu"]) == {"renderD129", "0000:00:02.0", "all", ""}
    assert [device.cdi_names for device in discovery.devices] == [()]


def test_connectors_and_other_entries_are_no_cards(tmp_path: Path) -> None:
    connector = {
        "/sys/devices/pci0000:00/0000:01:00.0/drm/card0/card0-DP-1/status": "connected\n",
        "/sys/class/drm/card0-DP-1": {"link": "../../devices/pci0000:00/0000:01:00.0/drm/card0/card0-DP-1"},
        "/sys/class/drm/version": "drm 1.1.0\n",
    }
    discovery = drm.discover(trees.build(NOUVEAU | connector, str(tmp_path)), WISH)
    assert [device.names for device in discovery.drafts[0].devices] == [("renderD128", "0000:01:00.0")]


def test_a_host_without_devices_has_nothing_to_report(tmp_path: Path) -> None:
    host = trees.build({"/dev/null": {"node": ["c", 1, 3]}}, str(tmp_path))
    assert not drm.is_present(host, WISH)
    discovery = drm.discover(host, WISH)
    assert (discovery.drafts, discovery.devices, discovery.findings, discovery.waits_for) == ((), (), (), "")
