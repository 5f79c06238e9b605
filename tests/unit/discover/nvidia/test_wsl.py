"""Mode wsl: /dev/dxg, libdxcore and the files of NVIDIA's driver store, whichever other stores are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from conformance import hosts

from shim.discover import nvidia, vendors
from shim.discover.model import Discovery, Wish
from shim.discover.nvidia import dxcore, gpus, wsl
from shim.discover.nvidia.snapshot import Gpu, Snapshot
from shim.host.host import Host

STORE = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef"
OLD_STORE = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_old"
INTEL = "/usr/lib/wsl/drivers/iigd_dch.inf_amd64_1"
DXG: dict[str, Any] = {"path": "/dev/dxg", "kind": "c", "major": 10, "minor": 125, "mode": "0666"}
DXCORE: dict[str, Any] = {"path": "/usr/lib/wsl/lib/libdxcore.so", "kind": "elf", "role": "dxcore"}
TAKEN = ["libcuda.so.1.1", "libnvdxgdmal.so.1", "nvcubins.bin", "nvidia-smi", "nvgpucomp64.dll"]
LEFT = ["nvidia.cat", "nv_dispi.inf", "softwarelist.so_old"]
WISH = Wish("/usr/bin/nvidia-cdi-hook", mode="wsl")


def store(directory: str, *names: str) -> list[dict[str, Any]]:
    return [{"path": f"{directory}/{name}", "kind": "f", "content": name} for name in names]


ENTRIES = [DXG, DXCORE, *store(STORE, *TAKEN, *LEFT), *store(INTEL, "libigc.so.1")]


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The answers of libdxcore, which a test can change."""
    answers: dict[str, Any] = {"adapters": [{"wddm": 3100, "store": INTEL}, {"wddm": 3000, "store": STORE}]}
    monkeypatch.setattr(dxcore, "ask", lambda *_: answers)
    return answers


def discover(top: Path, entries: list[dict[str, Any]] = ENTRIES, wish: Wish = WISH) -> Discovery:
    hosts.build(entries, top)
    return nvidia.discover(Host(str(top)), wish)


def written(discovery: Discovery, wish: Wish = WISH) -> dict[str, Any]:
    [(_, document)] = vendors.documents(discovery, wish)
    return document


def without(path: str) -> list[dict[str, Any]]:
    return [entry for entry in ENTRIES if entry["path"] != path]


def test_the_spec_has_the_node_and_the_files_of_the_store_of_nvidia_alone(tmp_path: Path) -> None:
    discovery = discover(tmp_path)
    document = written(discovery)
    assert discovery.findings == ()
    assert document["kind"] == "nvidia.com/gpu"
    assert document["devices"] == [{"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/dxg"}]}}]
    common = document["containerEdits"]
    paths = {f"{STORE}/{name}" for name in TAKEN} | {"/usr/lib/wsl/lib/libdxcore.so"}
    assert {mount["containerPath"] for mount in common["mounts"]} == paths
    assert all(mount["containerPath"] == mount["hostPath"] for mount in common["mounts"])
    assert [hook["args"][1:] for hook in common["hooks"]] == [
        ["create-symlinks", "--link", f"{STORE}/nvidia-smi::/usr/bin/nvidia-smi"],
        ["update-ldcache", "--folder", STORE, "--folder", "/usr/lib/wsl/lib"],
    ]


def test_the_inventory_has_the_gpus_of_nvml_else_a_device_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [device] = discover(tmp_path).devices
    assert (device.name, device.platform, device.cdi_names) == ("all", "wsl", ("nvidia.com/gpu=all",))
    assert device.nodes == ("/dev/dxg",)
    cards = (Gpu(0, 0, "GPU-a", name="NVIDIA RTX 4090", memory=1 << 30), Gpu(1, error="lost"))
    asked: list[Wish] = []

    def take(_: object, __: object, wish: Wish) -> Snapshot:
        asked.append(wish)
        return Snapshot("552.44", "", cards, "nvml")

    monkeypatch.setattr(gpus, "take", take)
    [device] = discover(tmp_path, []).devices
    assert (device.name, device.model, device.driver_version) == ("0", "NVIDIA RTX 4090", "552.44")
    assert (device.memory, device.uuid, device.platform) == (1 << 30, "GPU-a", "wsl")
    assert (device.cdi_names, device.nodes) == (("nvidia.com/gpu=all",), ("/dev/dxg",))
    assert asked[0].library_paths == ("/usr/lib/wsl/lib",)


def test_a_driver_root_is_left_out_of_the_paths_in_the_container(tmp_path: Path) -> None:
    entries = [{**entry, "path": "/r" + entry["path"]} for entry in ENTRIES]
    document = written(discover(tmp_path, entries, Wish("/x", mode="wsl", driver_root="/r")))
    assert all(mount["hostPath"] == "/r" + mount["containerPath"] for mount in document["containerEdits"]["mounts"])
    [node] = document["devices"][0]["containerEdits"]["deviceNodes"]
    assert node == {"path": "/dev/dxg", "hostPath": "/r/dev/dxg"}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("/dev/dxg", "no device node /dev/dxg"),
        ("/usr/lib/wsl/lib/libdxcore.so", "no libdxcore.so below /usr/lib/wsl/lib"),
    ],
)
def test_what_is_required_and_missing_is_named(missing: str, message: str, tmp_path: Path) -> None:
    discovery = discover(tmp_path, without(missing))
    [finding] = discovery.findings
    assert (discovery.drafts, finding.id) == ((), "DISCOVERY_INCOMPLETE")
    assert message in finding.text
    assert "wsl.exe --update" in finding.remedy


def test_a_store_without_nvidia_smi_gets_no_link_and_a_warning(tmp_path: Path) -> None:
    discovery = discover(tmp_path, without(f"{STORE}/nvidia-smi"))
    assert [hook["args"][1] for hook in written(discovery)["containerEdits"]["hooks"]] == ["update-ldcache"]
    assert [(finding.id, finding.text) for finding in discovery.findings] == [
        ("DISCOVERY_PART", f"{STORE} has no nvidia-smi")
    ]


@pytest.mark.parametrize(
    ("adapters", "message"),
    [
        ([{"wddm": 2600, "store": STORE}], "for WDDM 2.6, too old: WSL needs WDDM 2.7"),
        ([{"wddm": 3100, "store": INTEL}], "Windows shows no GPU of NVIDIA"),
        ([], "Windows shows no GPU of NVIDIA"),
        ([{"error": ["x", "0x1"]}, {"wddm": 3100, "store": "/nowhere"}], "Windows shows no GPU of NVIDIA"),
    ],
)
def test_no_usable_adapter_is_an_error_with_its_cause(
    adapters: list[dict[str, Any]], message: str, tmp_path: Path, windows: dict[str, Any]
) -> None:
    windows["adapters"] = adapters
    discovery = discover(tmp_path)
    [finding] = discovery.findings
    assert (discovery.drafts, finding.id) == ((), "DISCOVERY_INCOMPLETE")
    assert message in finding.text


def test_of_two_stores_of_nvidia_the_first_of_windows_is_used_alone(tmp_path: Path, windows: dict[str, Any]) -> None:
    windows["adapters"] = [{"wddm": 3000, "store": path} for path in (STORE, STORE, OLD_STORE)]
    discovery = discover(tmp_path, [*ENTRIES, *store(OLD_STORE, "libcuda.so.1.1", "libold.so")])
    [finding] = discovery.findings
    assert finding.id == "DISCOVERY_PART"
    assert f"the first is used: {STORE}, {OLD_STORE}" in finding.text
    assert OLD_STORE not in str(written(discovery))


@pytest.mark.parametrize("answer", [{"unloadable": "x"}, {"error": ["call", "0x1"]}, "it crashed"])
def test_without_an_answer_the_store_with_the_newest_libcuda_is_used(
    answer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dxcore, "ask", lambda *_: answer)
    hosts.build(store(OLD_STORE, "libcuda.so.1.1"), tmp_path)
    os.utime(tmp_path / OLD_STORE[1:] / "libcuda.so.1.1", (1000, 1000))
    discovery = discover(tmp_path)
    [finding] = discovery.findings
    assert finding.id == "DISCOVERY_PART"
    assert f"{STORE} is used, the newest of 2: {STORE}, {OLD_STORE}" in finding.text
    assert OLD_STORE not in str(written(discovery))
    os.utime(tmp_path / STORE[1:] / "libcuda.so.1.1", (500, 500))
    assert f"{OLD_STORE} is used" in discover(tmp_path, []).findings[0].text


def test_without_an_answer_and_without_a_store_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dxcore, "ask", lambda *_: "it crashed")
    discovery = discover(tmp_path, [DXG, DXCORE, *store(INTEL, "libigc.so")])
    [finding] = discovery.findings
    assert (discovery.drafts, finding.id) == ((), "DISCOVERY_INCOMPLETE")
    assert "no driver store below /usr/lib/wsl/drivers has libcuda.so.1.1" in finding.text


def test_wsl_is_known_by_node_and_library(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    assert not wsl.is_present(host, WISH)
    hosts.build([DXG], tmp_path)
    assert not wsl.is_present(host, WISH)
    hosts.build([DXCORE], tmp_path)
    assert wsl.is_present(host, WISH)
    assert not wsl.is_present(host, Wish("/x", library_paths=("/opt/lib",)))
