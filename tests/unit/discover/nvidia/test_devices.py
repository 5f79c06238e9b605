"""GPUs and MIG devices become devices of a spec, each on its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from conformance import hosts

from shim.base.findings import CdiError, Finding
from shim.discover import nvidia
from shim.discover.model import Device, Discovery, Wish
from shim.discover.nvidia import gpus, native
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
from shim.host.host import Host

WISH = Wish("/usr/bin/nvidia-cdi-hook", mode="nvml")
VERSION = "570.86.10"
GPU = Gpu(0, 0, "GPU-a", "0000:3b:00.0", "NVIDIA A100", 40 << 30)
OTHER = Gpu(1, 4, "GPU-b", "0000:5e:00.0", "NVIDIA A100", 40 << 30)
MIG = Gpu(0, 0, "GPU-a", "0000:3b:00.0", "NVIDIA A100", 40 << 30, True, (Mig(1, "MIG-a", 2, 0, "1g.5gb", 5 << 30),))
CAPS = {
    "path": "/proc/driver/nvidia-caps/mig-minors",
    "kind": "f",
    "content": "gpu0/gi2/access 12\ngpu0/gi2/ci0/access 13\n",
}
CONTROL = ("nvidiactl", "nvidia-uvm")


def node(name: str, minor: int = 0, **more: object) -> dict[str, object]:
    return {"path": f"/dev/{name}", "kind": "c", "major": 195, "minor": minor, "mode": "0666", **more}


def drm(address: str, *names: str, links: dict[str, str] | None = None) -> list[dict[str, object]]:
    """Nodes in /dev/dri of a device, and links to them by its address."""
    made: list[dict[str, object]] = []
    for name in names:
        made += [{"path": f"/sys/bus/pci/devices/{address}/drm/{name}", "kind": "d"}, node(f"dri/{name}")]
    for end, target in (links or {}).items():
        made.append({"path": f"/dev/dri/by-path/pci-{address}-{end}", "kind": "l", "target": target})
    return made


Discover = Callable[..., Discovery]


@pytest.fixture
def discover(tmp_path: Path) -> Discover:
    """Discovers with a snapshot of some GPUs, on a host with some entries and the control nodes."""

    def run(found: tuple[Gpu, ...], *entries: dict[str, object], wish: Wish = WISH, control: bool = True) -> Discovery:
        top = tmp_path / str(len(list(tmp_path.iterdir())))
        top.mkdir()
        hosts.build([*entries, *(node(name) for name in CONTROL if control)], top)
        with patch.object(gpus, "take", lambda *_: Snapshot(VERSION, "12.8", found, "nvml")):
            return native.discover(Host(str(top)), wish)

    return run


def names(discovery: Discovery) -> list[tuple[str, ...]]:
    return [device.names for draft in discovery.drafts for device in draft.devices]


def faults(discovery: Discovery) -> list[Finding]:
    """Findings about devices, not about the driver's files, which these hosts do not have."""
    return [finding for finding in discovery.findings if " is left out: " in finding.text]


def test_a_gpu_has_its_node_by_minor_and_its_names_by_index_and_uuid(discover: Discover) -> None:
    discovery = discover((GPU, OTHER), node("nvidia0"), node("nvidia4", 4), node("nvidia1", 1))
    assert names(discovery) == [("0", "GPU-a"), ("1", "GPU-b")]
    assert list(discovery.drafts[0].devices[1].edits.nodes) == ["/dev/nvidia4"]
    device = discovery.devices[1]
    assert (device.name, device.vendor, device.model, device.driver_version) == ("1", "nvidia", "NVIDIA A100", VERSION)
    assert (device.memory, device.pci_address, device.uuid) == (40 << 30, "0000:5e:00.0", "GPU-b")
    assert device.cdi_names == ("nvidia.com/gpu=1", "nvidia.com/gpu=GPU-b")
    assert device.nodes == ("/dev/nvidia4",)


@pytest.mark.parametrize(
    ("strategies", "gpu", "mig"),
    [
        (("index",), ("1",), ("0:1",)),
        (("type-index",), ("gpu1",), ("mig0:1",)),
        (("uuid", "type-index", "index"), ("GPU-b", "gpu1", "1"), ("MIG-a", "mig0:1", "0:1")),
    ],
)
def test_strategies_of_names(discover: Discover, strategies: tuple[str, ...], gpu: object, mig: object) -> None:
    caps = [node("nvidia-caps/nvidia-cap12", 12), node("nvidia-caps/nvidia-cap13", 13), CAPS]
    wish = dataclasses.replace(WISH, names=strategies)
    discovery = discover((MIG, OTHER), node("nvidia0"), node("nvidia4", 4), *caps, wish=wish)
    assert names(discovery) == [mig, gpu]


@pytest.mark.parametrize(
    ("strategies", "text"),
    [
        (("serial",), "serial: no such strategy (there are: index, uuid, type-index)"),
        (("uuid",) * 2, "uuid is given twice"),
    ],
)
def test_strategies_without_sense_are_refused(discover: Discover, strategies: tuple[str, ...], text: str) -> None:
    with pytest.raises(CdiError) as caught:
        discover((GPU,), wish=dataclasses.replace(WISH, names=strategies))
    assert (caught.value.findings[0].id, text in str(caught.value)) == ("DISCOVERY_WISH", True)


def test_a_mig_device_has_the_node_of_its_gpu_and_two_capabilities(discover: Discover) -> None:
    caps = [node("nvidia-caps/nvidia-cap12", 12), node("nvidia-caps/nvidia-cap13", 13), CAPS]
    discovery = discover((MIG,), node("nvidia0"), *caps, *drm(GPU.pci_address, "card1"))
    assert names(discovery) == [("0:1", "MIG-a")]
    assert list(discovery.drafts[0].devices[0].edits.nodes) == [
        "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13",
    ]  # fmt: skip
    assert (discovery.devices[0].model, discovery.devices[0].memory) == ("NVIDIA A100 MIG 1g.5gb", 5 << 30)


def test_a_mig_profile_with_graphics_has_the_drm_nodes(discover: Discover) -> None:
    graphics = dataclasses.replace(MIG, mig=(dataclasses.replace(MIG.mig[0], profile="1g.5gb+gfx"),))
    caps = [node("nvidia-caps/nvidia-cap12", 12), node("nvidia-caps/nvidia-cap13", 13), CAPS]
    discovery = discover((graphics,), node("nvidia0"), *caps, *drm(GPU.pci_address, "card1"))
    assert "/dev/dri/card1" in discovery.drafts[0].devices[0].edits.nodes


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (
            [CAPS, node("nvidia-caps/nvidia-cap12", 12)],
            "no device node /dev/nvidia-caps/nvidia-cap13, which gpu0/gi2/ci0/",
        ),
        (
            [node("nvidia-caps/nvidia-cap12", 12)],
            "does not list gpu0/gi2/access in /proc/",
        ),
    ],
)
def test_a_mig_device_without_its_capabilities_is_left_out(
    discover: Discover, entries: list[dict[str, object]], text: str
) -> None:
    discovery = discover((MIG, OTHER), node("nvidia0"), node("nvidia4", 4), *entries)
    assert names(discovery) == [("1", "GPU-b")]
    (finding,) = faults(discovery)
    assert finding.id == "DISCOVERY_INCOMPLETE"
    assert finding.text.startswith("MIG device 0:1 (MIG-a) is left out: ")
    assert text in finding.text


def test_mig_devices_that_nvml_was_not_asked_for_are_named_by_their_instances(discover: Discover) -> None:
    mig = dataclasses.replace(MIG, mig=(Mig(-1, gi=2, ci=0),))
    caps = [node("nvidia-caps/nvidia-cap12", 12), node("nvidia-caps/nvidia-cap13", 13), CAPS]
    assert names(discover((mig,), node("nvidia0"), *caps)) == [("0:gi2:ci0",)]


@pytest.mark.parametrize(
    ("gpu", "entries", "id", "text"),
    [
        (GPU, [], "DISCOVERY_DEVICE", "there is no device node /dev/nvidia0"),
        (GPU, [{"path": "/dev/nvidia0", "kind": "l", "target": "null"}], "DISCOVERY_DEVICE", "is a link to null"),
        (GPU, [{**node("nvidia0"), "kind": "b"}], "DISCOVERY_DEVICE", "/dev/nvidia0 is no character device"),
        (GPU, [{"path": "/dev/nvidia0", "kind": "f"}], "DISCOVERY_DEVICE", "/dev/nvidia0 is no character device"),
        (dataclasses.replace(GPU, minor=-1), [], "DISCOVERY_DEVICE", "does not tell the number of its device node"),
        (dataclasses.replace(GPU, error="it is lost"), [node("nvidia0")], "DISCOVERY_DEVICE", "it is lost"),
        (dataclasses.replace(GPU, uuid="GPU a"), [node("nvidia0")], "DISCOVERY_DEVICE", "names it 'GPU a'"),
        (dataclasses.replace(MIG, mig=()), [node("nvidia0")], "DISCOVERY_PART", "in MIG mode and has no"),
        (
            dataclasses.replace(MIG, mig=(Mig(1, "MIG-a", error="gone"),)),
            [node("nvidia0")],
            "DISCOVERY_DEVICE",
            "MIG device 0:1 (MIG-a) is left out: gone",
        ),
    ],
)  # fmt: skip
def test_a_device_with_a_fault_is_left_out_and_the_others_are_written(
    discover: Discover, gpu: Gpu, entries: list[dict[str, object]], id: str, text: str
) -> None:
    discovery = discover((gpu, OTHER), *entries, node("nvidia4", 4))
    assert names(discovery) == [("1", "GPU-b")]
    (finding,) = faults(discovery)
    assert finding.id == id
    assert text in finding.text
    assert discovery.devices[0].cdi_names == ()
    asked = dataclasses.replace(WISH, devices=(discovery.devices[0].name,))
    with pytest.raises(CdiError) as caught:
        discover((gpu, OTHER), *entries, node("nvidia4", 4), wish=asked)
    assert [finding.text for finding in caught.value.findings] == [finding.text]


def test_two_gpus_of_one_node_are_both_left_out(discover: Discover) -> None:
    same = dataclasses.replace(OTHER, minor=0)
    discovery = discover((GPU, same), node("nvidia0"))
    assert discovery.drafts == ()
    assert ["the same device node /dev/nvidia0" in finding.text for finding in faults(discovery)] == [True, True]


def test_devices_that_share_a_name_are_left_out(discover: Discover) -> None:
    third = dataclasses.replace(OTHER, index=2, minor=5, uuid="GPU-a")
    discovery = discover((GPU, OTHER, third), *(node(f"nvidia{minor}") for minor in (0, 4, 5)))
    assert names(discovery) == [("1", "GPU-b")]
    assert ["another device is named GPU-a, too" in finding.text for finding in faults(discovery)] == [True, True]


def test_chips_for_displays_are_no_devices(discover: Discover) -> None:
    display = dataclasses.replace(GPU, name="NVIDIA DGX Display")
    near = dataclasses.replace(OTHER, name="NVIDIA DGX Display 2")
    discovery = discover((display, near), node("nvidia0"), node("nvidia4", 4))
    assert names(discovery) == [("1", "GPU-b")]
    assert len(discovery.devices) == 1


def test_drm_nodes_by_address_and_links_that_lead_to_them(discover: Discover) -> None:
    links = {"card": "../card1", "render": "/dev/dri/renderD129"}
    discovery = discover(
        (GPU,), node("nvidia0"), node("dri/card0"), *drm(GPU.pci_address, "card1", "renderD129", links=links)
    )
    edits = discovery.drafts[0].devices[0].edits
    assert list(edits.nodes) == ["/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD129"]
    top = "/dev/dri/by-path/pci-0000:3b:00.0"
    assert edits.links == {f"{top}-card": "../card1", f"{top}-render": "../renderD129"}


def test_a_link_to_another_cards_node_is_not_made(discover: Discover) -> None:
    entries = drm(GPU.pci_address, "card1", links={"card": "../card0", "render": "../renderD129"})
    edits = discover((GPU,), node("nvidia0"), node("dri/card0"), *entries).drafts[0].devices[0].edits
    assert edits.links == {}


def test_missing_control_nodes_are_errors(discover: Discover) -> None:
    discovery = discover((GPU,), node("nvidia0"), control=False)
    texts = [finding.text for finding in discovery.findings if finding.id == "DISCOVERY_INCOMPLETE"]
    assert [path for path in ("/dev/nvidiactl", "/dev/nvidia-uvm") if any(path + "," in text for text in texts)] == [
        "/dev/nvidiactl", "/dev/nvidia-uvm",
    ]  # fmt: skip
    assert names(discovery) == [("0", "GPU-a")]


def test_a_dev_root_that_is_the_directory_dev_is_recognized(discover: Discover) -> None:
    discovery = discover((GPU,), node("nvidia0"), wish=dataclasses.replace(WISH, devices=("none",), dev_root="/dev"))
    assert any("--dev-root names the directory above dev: /" in finding.text for finding in discovery.findings)


def test_device_none_has_the_driver_and_no_gpu(discover: Discover) -> None:
    wish = dataclasses.replace(WISH, devices=("none",))
    (draft,) = discover((GPU,), node("nvidia0"), wish=wish).drafts
    assert draft.words()["none"].edits.env == {"NVCT_EMPTY_DEVICE": ""}
    assert not draft.can_have_all


def test_a_driver_without_gpus_writes_nothing(discover: Discover) -> None:
    discovery = discover(())
    assert discovery.drafts == ()
    assert [finding.id for finding in discovery.findings] == ["DISCOVERY_INCOMPLETE"]


def pci_device(address: str, vendor: str = "0x10de", klass: str = "0x030200") -> list[dict[str, object]]:
    top = f"/sys/bus/pci/devices/{address}"
    values = {"vendor": vendor, "device": "0x20b0", "class": klass, "numa_node": "1"}
    return [{"path": f"{top}/{name}", "kind": "f", "content": f"{value}\n"} for name, value in values.items()]


def test_a_driver_that_is_not_loaded_is_waited_for_where_there_is_a_gpu(tmp_path: Path) -> None:
    held: dict[str, object] = {
        "path": "/sys/bus/pci/devices/0000:05:00.0/driver",
        "kind": "l",
        "target": "../../../drivers/vfio-pci",
    }
    ids = {"path": "/usr/share/misc/pci.ids", "kind": "f", "content": "10de  NVIDIA\n\t20b0  GA100\n"}
    audio = pci_device("0000:03:00.1", klass="0x040300")
    others: list[dict[str, object]] = [
        *audio,
        *pci_device("0000:04:00.0", vendor="0x1002"),
        *pci_device("0000:05:00.0"),
        held,
    ]
    hosts.build(others, tmp_path)
    host = Host(str(tmp_path))
    assert not nvidia.is_present(host, Wish("/x"))
    discovery = native.discover(host, WISH)
    assert (discovery.waits_for, discovery.devices, discovery.drafts) == ("", (), ())
    assert "the kernel module is not loaded either" in discovery.findings[0].text
    hosts.build([*pci_device("0000:03:00.0"), ids], tmp_path)
    assert nvidia.is_present(host, Wish("/x"))
    discovery = native.discover(host, WISH)
    assert (discovery.waits_for, discovery.drafts) == ("NVIDIA's kernel module", ())
    assert discovery.devices == (Device("0", "nvidia", "GA100", pci_address="0000:03:00.0", numa_node=1),)


def test_gpus_of_proc_without_a_known_uuid_are_named_by_index(discover: Discover) -> None:
    unused = dataclasses.replace(GPU, uuid="")
    assert names(discover((unused,), node("nvidia0"))) == [("0",)]
    discovery = discover(
        (unused, OTHER), node("nvidia0"), node("nvidia4", 4), wish=dataclasses.replace(WISH, names=("uuid",))
    )
    assert names(discovery) == [("GPU-b",)]
    assert "its UUID is not known before the GPU was used" in faults(discovery)[0].text


def test_a_gpu_in_mig_mode_is_asked_for_by_its_mig_devices(discover: Discover) -> None:
    caps = [node("nvidia-caps/nvidia-cap12", 12), node("nvidia-caps/nvidia-cap13", 13), CAPS]
    with pytest.raises(CdiError, match=r"--device 0: this GPU is in MIG mode \(its MIG devices are: 0:1\)"):
        discover((MIG,), node("nvidia0"), *caps, wish=dataclasses.replace(WISH, devices=("0",)))
