"""Mode csv: what the lists of a Jetson have, and discrete GPUs beside the integrated one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import hosts

from shim.base.findings import CdiError, Finding
from shim.discover import nvidia, vendors
from shim.discover.model import Discovery, Wish
from shim.discover.nvidia import gpus
from shim.discover.nvidia.snapshot import Gpu, Snapshot
from shim.discover.nvidia.tegra_lists import DIRECTORY
from shim.host.host import Host

TEGRA = "/usr/lib/aarch64-linux-gnu/tegra"
WISH = Wish("/usr/bin/nvidia-cdi-hook", mode="csv")
THOR = Gpu(0, 0, "GPU-thor", "0000:01:00.0", "NVIDIA Thor")
FIRST, SECOND = (Gpu(n, n, f"GPU-{n}", f"000{n}:01:00.0", "NVIDIA RTX 6000 Ada") for n in (1, 2))
DEVICES = "dev, /dev/nvhost-*\ndev, /dev/nvidia[0-9]\ndev, /dev/nvidiactl\n"
DRIVERS = (
    f"lib, {TEGRA}/libcuda.so.1.1\nlib, {TEGRA}/libnvrm_gpu.so\nlib, {TEGRA}/libmissing.so\n"
    f"sym, {TEGRA}/libcuda.so\ndir, /usr/share/nvpmodel\nlib, /usr/bin/tegrastats\n"
)


def node(name: str, minor: int, mode: str = "0666", gid: int = 0) -> dict[str, Any]:
    return {"path": f"/dev/{name}", "kind": "c", "major": 195, "minor": minor, "mode": mode, "gid": gid}


ROOT: list[dict[str, Any]] = [
    node("nvhost-ctrl", 0, "0660", 44),
    {"path": f"{TEGRA}/libcuda.so.1.1", "kind": "elf", "soname": "libcuda.so.1"},
    {"path": f"{TEGRA}/libcuda.so.1", "kind": "l", "target": "libcuda.so.1.1"},
    {"path": f"{TEGRA}/libcuda.so", "kind": "l", "target": "libcuda.so.1.1"},
    {"path": f"{TEGRA}/libnvrm_gpu.so", "kind": "elf", "soname": "libnvrm_gpu.so"},
    {"path": "/usr/share/nvpmodel", "kind": "d"},
    {"path": "/usr/bin/tegrastats", "kind": "f"},
    {"path": "/etc/nv_tegra_release", "kind": "f", "content": "# R36"},
]
LISTS: list[dict[str, Any]] = [
    {"path": f"{DIRECTORY}/devices.csv", "kind": "f", "content": DEVICES},
    {"path": f"{DIRECTORY}/drivers.csv", "kind": "f", "content": DRIVERS},
]
GPUS = [node("nvidiactl", 255), node("nvidia-uvm", 0), *(node(f"nvidia{minor}", minor) for minor in range(3))]


@pytest.fixture(autouse=True)
def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """What NVML answers: the last snapshot of the list."""
    answers = [Snapshot()]
    monkeypatch.setattr(gpus, "take", lambda *_: answers[-1])
    return answers


def below(root: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, "path": root + entry["path"]} for entry in entries]


def discover(top: Path, *entries: dict[str, Any], wish: Wish = WISH) -> Discovery:
    hosts.build(list(entries), top)
    return nvidia.discover(Host(str(top)), wish)


def written(discovery: Discovery, wish: Wish = WISH) -> dict[str, Any]:
    [(_, document)] = vendors.documents(discovery, wish)
    return document


def hooks(document: dict[str, Any]) -> list[list[str]]:
    return [hook["args"][1:] for hook in document["containerEdits"]["hooks"]]


def nodes(document: dict[str, Any]) -> dict[str, list[str]]:
    return {
        device["name"]: sorted(entry["path"] for entry in device["containerEdits"].get("deviceNodes", []))
        for device in document["devices"]
    }


def test_the_device_has_what_the_lists_have(tmp_path: Path) -> None:
    discovery = discover(tmp_path, *ROOT, *LISTS)
    document = written(discovery)
    paths = ["/etc/nv_tegra_release", "/usr/bin/tegrastats", "/usr/share/nvpmodel"]
    paths += [f"{TEGRA}/libcuda.so.1.1", f"{TEGRA}/libnvrm_gpu.so"]
    assert [mount["containerPath"] for mount in document["containerEdits"]["mounts"]] == paths
    assert hooks(document) == [
        [
            "create-symlinks",
            *("--link", f"libcuda.so.1.1::{TEGRA}/libcuda.so"),
            *("--link", f"libcuda.so.1.1::{TEGRA}/libcuda.so.1"),
        ],
        ["update-ldcache", "--folder", TEGRA],
    ]
    assert document["devices"][0] == {
        "name": "0",
        "containerEdits": {
            "deviceNodes": [{"path": "/dev/nvhost-ctrl", "fileMode": 0o660, "gid": 44}],
            "additionalGids": [44],
        },
    }
    assert [device["name"] for device in document["devices"]] == ["0", "all"]


def test_what_is_missing_is_reported_once_for_each_list(tmp_path: Path) -> None:
    discovery = discover(tmp_path, *ROOT, *LISTS)
    assert [(finding.id, finding.path, finding.text) for finding in discovery.findings] == [
        (
            "DISCOVERY_PART",
            f"{DIRECTORY}/drivers.csv",
            f"entries that are not on this host: {TEGRA}/libmissing.so (line 3)",
        ),
        (
            "DISCOVERY_PART",
            f"{DIRECTORY}/devices.csv",
            "entries that are not on this host: /dev/nvidia[0-9] (line 2), /dev/nvidiactl (line 3)",
        ),
    ]


def test_without_libcuda_the_spec_is_incomplete(tmp_path: Path) -> None:
    discovery = discover(tmp_path, *(entry for entry in ROOT if "libcuda" not in entry["path"]), *LISTS)
    [error] = [finding for finding in discovery.findings if finding.id == "DISCOVERY_INCOMPLETE"]
    assert (error.path, error.line) == (f"{DIRECTORY}/drivers.csv", 1)
    assert f"{TEGRA}/libcuda.so.1.1 is missing" in error.text
    assert f"{TEGRA}/libnvrm_gpu.so" in str(written(discovery))


def test_a_driver_root_is_in_no_path_of_the_container(tmp_path: Path) -> None:
    release = {"path": "/etc/nv_tegra_release", "kind": "f", "content": "# of the machine"}
    link = {"path": "/link", "kind": "l", "target": "r/../r/"}
    wish = Wish(WISH.hook_path, mode="csv", driver_root="/link")
    document = written(discover(tmp_path, *below("/r", ROOT), *LISTS, release, link, wish=wish), wish)
    assert all(mount["hostPath"] == "/r" + mount["containerPath"] for mount in document["containerEdits"]["mounts"])
    assert "/r/" not in str(hooks(document))
    [entry] = document["devices"][0]["containerEdits"]["deviceNodes"]
    assert (entry["path"], entry["hostPath"]) == ("/dev/nvhost-ctrl", "/r/dev/nvhost-ctrl")


def test_the_release_of_the_machine_stands_in_for_that_of_the_root(tmp_path: Path) -> None:
    wish = Wish("/x", mode="csv", driver_root="/r")
    entries = [*below("/r", ROOT[:-1]), ROOT[-1], *LISTS]
    mounts = written(discover(tmp_path, *entries, wish=wish), wish)["containerEdits"]["mounts"]
    assert mounts[0] == {**mounts[0], "hostPath": "/etc/nv_tegra_release", "containerPath": "/etc/nv_tegra_release"}


CHAIN: list[dict[str, Any]] = [
    {"path": f"{TEGRA}/liba.so.1.0.0", "kind": "elf", "soname": "liba.so.1"},
    {"path": f"{TEGRA}/liba.so.1", "kind": "l", "target": "liba.so.1.0.0"},
    {"path": f"{TEGRA}/liba.so", "kind": "l", "target": "liba.so.1"},
    {"path": f"{TEGRA}/circle.so", "kind": "l", "target": "circle.so"},
    {"path": "/usr/lib/nvidia", "kind": "l", "target": "aarch64-linux-gnu/tegra"},
]


@pytest.mark.parametrize(
    "content",
    [
        f"sym, {TEGRA}/liba.so\n",
        f"lib, {TEGRA}/liba.so.1\n",
        "lib, /usr/lib/nvidia/liba.so\n",
        "sym, /usr/lib/nvidia/lib*\n",
        "lib, liba.so.1\n",
    ],
)
def test_links_are_taken_with_all_that_they_lead_through(content: str, tmp_path: Path) -> None:
    lists = {"path": "/a.csv", "kind": "f", "content": f"{content}dev, /dev/nvhost-ctrl\n"}
    wish = Wish(WISH.hook_path, mode="csv", csv_files=("/a.csv",), library_paths=(TEGRA,))
    document = written(discover(tmp_path, *CHAIN, ROOT[0], lists, wish=wish), wish)
    [links, *_] = hooks(document)
    assert sorted(links[2::2]) == [f"liba.so.1.0.0::{TEGRA}/liba.so.1", f"liba.so.1::{TEGRA}/liba.so"]
    mounted = [mount["containerPath"] for mount in document["containerEdits"].get("mounts", [])]
    assert mounted == ([f"{TEGRA}/liba.so.1.0.0"] if content.startswith("lib") else [])


@pytest.mark.parametrize("entry", ["sym, /usr/lib/aarch64-linux-gnu/tegra/circle.so", "lib, /usr/share", "dir, /etc/a"])
def test_what_is_not_as_listed_counts_as_missing(entry: str, tmp_path: Path) -> None:
    lists = {"path": "/a.csv", "kind": "f", "content": f"dev, /dev/nvhost-ctrl\n{entry}\n"}
    file = {"path": "/etc/a", "kind": "f"}
    wish = Wish("/x", mode="csv", csv_files=("/a.csv",))
    [finding] = discover(tmp_path, *CHAIN, *ROOT, file, lists, wish=wish).findings
    assert "(line 2)" in finding.text


def test_a_device_without_nodes_has_the_release_alone(tmp_path: Path) -> None:
    lists = {"path": "/a.csv", "kind": "f", "content": "dir, /usr/share/nvpmodel\n"}
    wish = Wish("/x", mode="csv", csv_files=("/a.csv",))
    document = written(discover(tmp_path, *ROOT, lists, wish=wish), wish)
    [mount] = document["devices"][0]["containerEdits"]["mounts"]
    assert mount["containerPath"] == "/etc/nv_tegra_release"
    (tmp_path / "etc/nv_tegra_release").unlink()
    discovery = discover(tmp_path, wish=wish)
    assert (discovery.drafts, discovery.findings[-1].id) == ((), "DISCOVERY_INCOMPLETE")


def test_without_lists_nothing_is_written(tmp_path: Path) -> None:
    discovery = discover(tmp_path, *ROOT)
    [finding] = discovery.findings
    assert (discovery.drafts, finding.id) == ((), "DISCOVERY_INCOMPLETE")
    assert f"{DIRECTORY}/devices.csv" in finding.text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("NVIDIA Thor", ["--host-cuda-version=13.0"]),
        ("Orin (nvgpu)", ["--host-cuda-version=13.0", "--cuda-compat-container-root=/usr/local/cuda/compat_orin"]),
    ],
)
def test_the_version_of_cuda_leads_to_the_hook_of_its_compatibility(
    name: str, arguments: list[str], tmp_path: Path, snapshots: list[Snapshot]
) -> None:
    snapshots.append(Snapshot("580.00", "13.0", (Gpu(0, name=name, uuid="GPU-a"),), "nvml"))
    discovery = discover(tmp_path, *ROOT, *LISTS)
    document = written(discovery)
    assert ["enable-cuda-compat", *arguments] in hooks(document)
    assert list(nodes(document)) == ["0", "all"]  # the lists stand for all GPUs, so there is no UUID
    [device] = discovery.devices
    assert (device.model, device.driver_version, device.uuid) == (name, "580.00", "GPU-a")
    assert device.cdi_names == ("nvidia.com/gpu=0",)
    assert list(nodes(written(discovery, Wish("/x", devices=("GPU-a",))))) == ["0", "all"]


def test_the_directory_of_newer_libraries_can_be_given(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    snapshots.append(Snapshot("580.00", "13.0", (THOR,), "nvml"))
    wish = Wish("/usr/bin/nvidia-cdi-hook", mode="csv", csv_compat_root="/opt/compat")
    document = written(discover(tmp_path, *ROOT, *LISTS, wish=wish), wish)
    arguments = ["--host-cuda-version=13.0", "--cuda-compat-container-root=/opt/compat"]
    assert ["enable-cuda-compat", *arguments] in hooks(document)


def test_discrete_gpus_are_devices_beside_the_integrated_one(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    snapshots.append(Snapshot("580.00", "13.0", (THOR, FIRST), "nvml"))
    discovery = discover(tmp_path, *ROOT, *LISTS, *GPUS)
    document = written(discovery)
    own = ["/dev/nvhost-ctrl", "/dev/nvidia0", "/dev/nvidia2", "/dev/nvidiactl"]
    other = ["/dev/nvhost-ctrl", "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidiactl"]
    every = sorted({*own, *other})
    assert nodes(document) == {"0": own, "1": other, "GPU-1": other, "GPU-thor": own, "all": every}
    assert [device.name for device in discovery.devices] == ["0", "1"]
    assert nodes(written(discovery, Wish("/x", devices=("1",)))) == {"1": other, "GPU-1": other, "all": other}


def test_the_display_node_is_not_taken_from_a_second_discrete_gpu(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    snapshots.append(Snapshot("580.00", "13.0", (THOR, FIRST, SECOND), "nvml"))
    document = written(discover(tmp_path, *ROOT, *LISTS, *GPUS))
    assert nodes(document)["0"] == ["/dev/nvhost-ctrl", "/dev/nvidia0", "/dev/nvidiactl"]
    assert nodes(document)["2"] == ["/dev/nvhost-ctrl", "/dev/nvidia-uvm", "/dev/nvidia2", "/dev/nvidiactl"]


def test_a_gpu_that_fails_leaves_the_others(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    lost = Gpu(1, 1, "GPU-1", "0005:01:00.0", "NVIDIA RTX", error="lost")
    snapshots.append(Snapshot("580.00", "13.0", (THOR, lost, SECOND), "nvml"))
    discovery = discover(tmp_path, *ROOT, *LISTS, *GPUS)
    assert [name for name in nodes(written(discovery)) if name.isdecimal()] == ["0", "2"]
    assert "DISCOVERY_DEVICE" in {finding.id for finding in discovery.findings}
    with pytest.raises(CdiError, match="lost"):
        discover(tmp_path, wish=Wish("/x", mode="csv", devices=("1",)))


@pytest.mark.parametrize(
    ("snapshot", "features"),
    [
        (Snapshot("580.00", "13.0", (THOR, FIRST), "nvml"), {"disable-multiple-csv-devices"}),
        (Snapshot("580.00", "", (THOR, FIRST), "proc"), set()),
        (Snapshot("580.00", "13.0", (SECOND, FIRST), "nvml"), set()),
    ],
)
def test_the_lists_are_one_device_where_gpus_cannot_be_told_apart(
    snapshot: Snapshot, features: set[str], tmp_path: Path, snapshots: list[Snapshot]
) -> None:
    snapshots.append(snapshot)
    wish = Wish("/x", mode="csv", features=frozenset(features))
    assert list(nodes(written(discover(tmp_path, *ROOT, *LISTS, *GPUS, wish=wish), wish))) == ["0", "all"]


def test_an_nvml_that_fails_is_a_warning_and_a_missing_one_is_usual(tmp_path: Path, snapshots: list[Snapshot]) -> None:
    snapshots.append(Snapshot(errors=(Finding("DISCOVERY_INCOMPLETE", "a"), Finding("DISCOVERY_PART", "b"))))
    findings = discover(tmp_path, *ROOT, *LISTS).findings
    assert [(finding.text, finding.level) for finding in findings if len(finding.text) == 1] == [("a", "WARNING")]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish("/x", mode="csv", devices=("1",)), r"--device 1: no such device of nvidia.com/gpu \(there are: 0\)"),
        (Wish("/x", mode="csv", names=("uuid",)), "--device-name-strategy uuid: .*has no UUID"),
        (Wish("/x", mode="csv", names=("name",)), "--device-name-strategy name: no such strategy"),
    ],
)
def test_what_the_system_does_not_have_is_refused(wish: Wish, message: str, tmp_path: Path) -> None:
    with pytest.raises(CdiError, match=message) as caught:
        written(discover(tmp_path, *ROOT, *LISTS, wish=wish), wish)
    assert caught.value.findings[0].id == "DISCOVERY_WISH"
