"""A rule of modes takes a difference only where it is exactly what the rule states."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from conformance import generate_nvidia, runner
from shim.cdi.deviations import TABLE

VECTORS = Path(__file__).parent / "vectors" / "generate-nvidia.json"
CASES = {case["id"]: case for case in runner.read_cases(VECTORS)}
LISTS = "/etc/nvidia-container-runtime/host-files-for-container.d"
LIBRARIES = "/usr/lib/aarch64-linux-gnu/tegra"
READ_ONLY = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
ENV = {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}


def node(path: str, minor: int = 0) -> dict[str, Any]:
    return {"path": path, "kind": "c", "major": 195, "minor": minor, "mode": "0666"}


def mount(path: str, root: str = "") -> dict[str, Any]:
    return {"containerPath": path, "hostPath": root + path, "options": READ_ONLY}


def case(argv: str, root: list[dict[str, Any]], spec: dict[str, Any], **given: Any) -> dict[str, Any]:
    words = [*argv.split(), "--nvidia-cdi-hook-path", "{HOOK}"]
    return {
        "id": "x",
        "input": {"argv": words, "root": root, "nvml": None, **given},
        "expect": {"status": 0, "spec": spec},
    }


def spec(common: dict[str, Any], **devices: dict[str, Any]) -> dict[str, Any]:
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": common,
        "devices": [{"name": name.removeprefix("_"), "containerEdits": edits} for name, edits in devices.items()],
    }


def hook(name: str, *arguments: str) -> dict[str, Any]:
    return {"hookName": "createContainer", "path": "{HOOK}", "args": ["nvidia-cdi-hook", name, *arguments]}


DRV = {"deviceNodes": [{"path": "/dev/gdrdrv"}]}
OWN_CLASS = case("--mode gdrcopy", [node("/dev/gdrdrv")], spec(ENV, all=DRV))
RELEASE = {"path": "{ROOT}/etc/nv_tegra_release", "kind": "f"}
NODES = {"deviceNodes": [{"path": "/dev/nvmap", "hostPath": "{ROOT}/dev/nvmap"}]}
LINKS = {
    **ENV,
    "hooks": [hook("create-symlinks", "--link", f"liba.so.1::{{ROOT}}{LIBRARIES}/liba.so")],
}
ROOT = case(
    "--mode csv --driver-root {ROOT}",
    [
        node("{ROOT}/dev/nvmap"),
        {"path": f"{{ROOT}}{LIBRARIES}/liba.so", "kind": "l", "target": "liba.so.1"},
        {"path": f"{{ROOT}}{LIBRARIES}/liba.so.1", "kind": "f"},
        {"path": f"{LISTS}/devices.csv", "kind": "f", "content": f"dev, /dev/nvmap\nsym, {LIBRARIES}/liba.so\n"},
        RELEASE,
    ],
    spec(LINKS, _0=NODES, all=NODES),
)
MAP = {"deviceNodes": [{"path": "/dev/nvmap"}]}
PATTERN = case(
    "--mode csv --csv.ignore-pattern liba.so",
    [
        node("/dev/nvmap"),
        {"path": f"{LIBRARIES}/liba.so", "kind": "l", "target": "liba.so.1"},
        {"path": f"{LIBRARIES}/liba.so.1", "kind": "f"},
        {"path": f"{LISTS}/devices.csv", "kind": "f", "content": f"dev, /dev/nvmap\nsym, {LIBRARIES}/liba.so\n"},
    ],
    spec({**ENV, "hooks": [hook("create-symlinks", "--link", f"liba.so.1::{LIBRARIES}/liba.so")]}, _0=MAP, all=MAP),
)
ONLY_RELEASE = {"mounts": [mount("/etc/nv_tegra_release")]}
NOTHING = case(
    "--mode csv",
    [{"path": "/etc/nv_tegra_release", "kind": "f"}],
    spec(ENV, _0=ONLY_RELEASE, all=ONLY_RELEASE),
)
FEATURE = case("--mode gdrcopy --class gpu --feature-flag none", [node("/dev/gdrdrv")], spec(ENV, all=DRV))
DEVICE = case("--mode gdrcopy --class gpu --device-id 0", [node("/dev/gdrdrv")], spec(ENV, all=DRV))
RULES = {
    "own-class": OWN_CLASS,
    "tegra-root": ROOT,
    "tegra-pattern": PATTERN,
    "tegra-nothing": NOTHING,
    "unknown-word": FEATURE,
}


def verdict(case: dict[str, Any], top: Path) -> str | None:
    top.mkdir(exist_ok=True)
    return generate_nvidia.run(case, str(top))


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_taken(rule: str, tmp_path: Path) -> None:
    assert verdict(RULES[rule], tmp_path) == rule
    assert rule in TABLE


def test_a_device_that_does_not_exist_is_an_unknown_word(tmp_path: Path) -> None:
    assert verdict(DEVICE, tmp_path) == "unknown-word"


def test_a_device_that_the_reference_has_is_no_unknown_word(tmp_path: Path) -> None:
    changed = copy.deepcopy(DEVICE)
    changed["expect"]["spec"]["devices"][0]["name"] = "0"
    assert "no such device" in (verdict(changed, tmp_path) or "")


@pytest.mark.parametrize("rule", RULES)
def test_another_difference_beside_it_is_none_of_the_rule(rule: str, tmp_path: Path) -> None:
    changed = copy.deepcopy(RULES[rule])
    edits = changed["expect"]["spec"]["devices"][0]["containerEdits"]
    edits.setdefault("mounts", []).append(mount("/etc/other"))
    got = verdict(changed, tmp_path)
    # what is refused as a whole is refused whatever the spec has
    assert (got == rule) is (rule == "unknown-word")


def test_a_release_of_the_host_is_what_the_root_replaces(tmp_path: Path) -> None:
    changed = copy.deepcopy(ROOT)
    changed["input"]["root"].append({"path": "/etc/nv_tegra_release", "kind": "f"})
    changed["expect"]["spec"]["containerEdits"]["mounts"] = [mount("/etc/nv_tegra_release")]
    assert verdict(changed, tmp_path) == "tegra-root"


def test_a_link_to_something_else_is_none_of_the_rule(tmp_path: Path) -> None:
    changed = copy.deepcopy(ROOT)
    links = changed["expect"]["spec"]["containerEdits"]["hooks"][0]["args"]
    links[3] = links[3].replace("liba.so.1::", "libb.so.1::")
    assert verdict(changed, tmp_path) not in {None, "tegra-root"}


OTHER = {"path": "/dev/other", "hostPath": "/dev/other"}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("csv-three-gpus", "tegra-gpus"),
        ("sandboxutils-one", "sandboxutils"),
        ("sandboxutils-other-version", "sandboxutils"),
    ],
)
def test_rules_about_nvml_take_what_it_answers_alone(name: str, rule: str, tmp_path: Path) -> None:
    assert verdict(CASES[name], tmp_path / "as-it-is") == rule
    changed = copy.deepcopy(CASES[name])
    changed["expect"]["spec"]["devices"][-1]["containerEdits"]["deviceNodes"].append(OTHER)
    assert verdict(changed, tmp_path / "changed") not in {None, rule}


def test_a_version_that_nvml_does_not_tell_is_not_taken_from_files(tmp_path: Path) -> None:
    changed = copy.deepcopy(CASES["management"])
    changed["input"]["nvml"]["error"] = {"Init": 999}
    assert verdict(changed, tmp_path / "failed") == "driver-version"
    changed["input"]["nvml"]["error"] = {"DeviceGetName": 999}
    assert verdict(changed, tmp_path / "known") == "own-class"


def test_a_node_that_is_needed_and_missing_is_an_error_beside_the_spec(tmp_path: Path) -> None:
    changed = copy.deepcopy(CASES["mofed"])
    changed["input"]["root"] = [entry for entry in changed["input"]["root"] if "uverbs" not in entry["path"]]
    nodes = changed["expect"]["spec"]["devices"][0]["containerEdits"]["deviceNodes"]
    nodes[:] = [node for node in nodes if "uverbs" not in node["path"]]
    assert verdict(changed, tmp_path / "missing") == "required-missing"
    nodes.append({"path": "/dev/infiniband/uverbs0"})
    assert verdict(changed, tmp_path / "theirs") not in {None, "required-missing"}
