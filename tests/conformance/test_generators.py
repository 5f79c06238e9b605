"""The families of generators can fail, and take a deviation only for what it states."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from conformance import runner, trees

VECTORS = Path(__file__).parent / "vectors"
CASES = {
    family: {case["id"]: case for case in runner.read_cases(VECTORS / f"{family}.json")}
    for family in ("generate-amd", "generate-intel")
}


def verdict(family: str, case: dict[str, Any]) -> str:
    outcome = runner.run_cases(family, [case])
    if outcome.failed:
        return outcome.failed[0][1]
    return next(iter(outcome.deviations), "passed")


def changed(family: str, name: str) -> dict[str, Any]:
    return copy.deepcopy(CASES[family][name])


def test_a_case_that_has_the_tree_of_another_is_given_it() -> None:
    assert CASES["generate-amd"]["two-list"]["input"]["tree"] == CASES["generate-amd"]["two"]["input"]["tree"]


@pytest.mark.parametrize("member", ["gid", "fileMode", "minor", "path"])
def test_a_node_that_differs_fails(member: str) -> None:
    case = changed("generate-amd", "two")
    node = case["expect"]["spec"]["devices"][0]["containerEdits"]["deviceNodes"][1]
    node[member] = f"{node[member]}0" if member == "path" else node[member] + 1
    assert "/0/nodes/" in verdict("generate-amd", case)


def test_a_device_that_differs_fails() -> None:
    case = changed("generate-amd", "two")
    case["expect"]["spec"]["devices"][0]["name"] = "7"
    assert "/0: too much" in verdict("generate-amd", case)


@pytest.mark.parametrize("name", ["two-list", "two-gpus"])
def test_a_list_that_differs_fails(name: str) -> None:
    case = changed("generate-amd", name)
    case["expect"]["stdout"] = case["expect"]["stdout"].replace("renderD129", "renderD128")
    assert "instead of" in verdict("generate-amd", case)


def test_a_failure_that_differs_fails() -> None:
    case = changed("generate-amd", "two")
    case["expect"] = {"status": 1, "error": "amdgpu driver unavailable"}
    assert "no failure" in verdict("generate-amd", case)


def test_a_file_that_is_as_fresh_is_valid_and_another_is_not() -> None:
    case = changed("generate-amd", "validate-good")
    case["expect"]["stdout"] = "CDI spec is invalid\n"
    assert verdict("generate-amd", case) == "valid: True"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("no-kfd-dev", "node-missing"),
        ("driver-built", "all-of-none"),
        ("domain-wide", "pci-domain"),
        ("domain-wide-list", "pci-domain"),
        ("apu-gpus", "unique-id-zero"),
        ("tracker-all", "no-tracker"),
    ],
)
def test_deviations_of_amd(name: str, rule: str) -> None:
    assert verdict("generate-amd", changed("generate-amd", name)) == rule


def test_of_a_node_that_is_missing_nothing_else_may_differ() -> None:
    case = changed("generate-amd", "no-kfd-dev")
    case["expect"]["spec"]["devices"][0]["containerEdits"]["deviceNodes"][0]["gid"] = 7
    assert "node-missing" not in verdict("generate-amd", case)


def test_a_link_of_udev_that_is_not_made_fails() -> None:
    case = changed("generate-intel", "flex-classic")
    edits = case["expect"]["files"]["intel.com-gpu.yaml"]["spec"]["devices"][0]["containerEdits"]
    del edits["mounts"][0]
    assert "same_as/dev/dri/by-path" in verdict("generate-intel", case).replace("//", "/")


def test_a_name_that_differs_fails() -> None:
    case = changed("generate-intel", "npu-machine")
    case["input"]["argv"] = ["npu"]
    assert "0000-00-0b-0-0x643e: missing" in verdict("generate-intel", case)


def test_deviations_of_intel() -> None:
    assert verdict("generate-intel", changed("generate-intel", "unbound-machine")) == "node-missing"
    assert verdict("generate-intel", changed("generate-intel", "gaudi-no-module-classic")) == "gaudi-module-id"


def test_with_its_nodes_each_gpu_of_vfio_is_written() -> None:
    case = changed("generate-intel", "vfio-two-classic")
    for number, path in enumerate(("12", "13", "vfio", "devices/vfio0", "devices/vfio1")):
        case["input"]["tree"][f"/dev/vfio/{path}"] = {"node": ["c", 243, number]}
    assert verdict("generate-intel", case) == "vfio-gpu"
    case["expect"]["files"] = {}
    assert verdict("generate-intel", case) == "vfio-gpu"
    case["input"]["tree"]["/dev/vfio/12"]["node"][1] = 9
    assert verdict("generate-intel", case) == "vfio-gpu"


def test_a_container_gets_what_the_host_has_where_a_spec_is_silent(tmp_path: Path) -> None:
    host = trees.build({"/dev/x": {"node": ["c", 1, 2], "mode": "0640", "gid": 9}}, str(tmp_path))
    document = {"devices": [{"name": "d", "containerEdits": {"deviceNodes": [{"path": "/dev/x"}, {"path": "/dev/y"}]}}]}
    assert trees.container(document, host)["d"]["nodes"] == {
        "/dev/x": {"numbers": ("c", 1, 2), "mode": 0o640, "gid": 0},
        "/dev/y": None,
    }
