"""The comparison with NVIDIA's generator can fail, and a rule takes only what NVML or the host bears out."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from conformance import device_rules, generate_nvidia, runner
from conformance.device_rules import Devices
from shim.base.findings import Finding
from shim.cdi.deviations import TABLE
from shim.host.host import Host
from shim.host.tree import Tree

CASES = {case["id"]: case for case in runner.read_cases(Path(__file__).parent / "vectors" / "generate-nvidia.json")}
RULES = {
    "node-missing": "mig-cap-node-missing",
    "pci-domain": "pci-domain",
    "resolved-root": "drm-prefix-root",
    "required-missing": "no-control-nodes",
    "healthy-devices": "nvml-gpu-lost",
    "driver-version": "nvml-version-empty",
}
OTHER = {"hostPath": "/etc/other", "containerPath": "/etc/other", "options": ["ro"]}


def verdict(case: dict[str, Any], top: Path) -> str | None:
    return generate_nvidia.run(case, str(top))


@pytest.mark.parametrize(("rule", "name"), RULES.items())
def test_the_rule_is_taken(rule: str, name: str, tmp_path: Path) -> None:
    assert verdict(CASES[name], tmp_path) == rule
    assert rule in TABLE


@pytest.mark.parametrize("rule", ["node-missing", "pci-domain", "resolved-root", "required-missing"])
def test_another_difference_beside_it_is_none_of_the_rule(rule: str, tmp_path: Path) -> None:
    changed = copy.deepcopy(CASES[RULES[rule]])
    changed["expect"]["spec"]["containerEdits"]["mounts"].append(OTHER)
    assert "mount /etc/other: None" in (verdict(changed, tmp_path) or "")


def first(edits: dict[str, Any], name: str) -> Any:
    return edits["containerEdits"][name][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["containerEdits"]["mounts"].pop(),
        lambda spec: spec["containerEdits"]["mounts"].append(OTHER),
        lambda spec: first(spec, "mounts").update(hostPath="/etc/other"),
        lambda spec: first(spec, "mounts").update(options=["rw"]),
        lambda spec: spec["containerEdits"]["env"].append("A=b"),
        lambda spec: first(spec, "deviceNodes").update(fileMode=0o600),
        lambda spec: first(spec, "deviceNodes").update(path="/dev/other"),
        lambda spec: spec["containerEdits"].update(additionalGids=[44]),
        lambda spec: spec["devices"].pop(),
        lambda spec: spec["devices"].append({"name": "1", "containerEdits": {}}),
        lambda spec: spec.update(kind="nvidia.com/other"),
        lambda spec: first(spec, "hooks")["args"].extend(["--link", "a::/b"]),
        lambda spec: spec["containerEdits"]["hooks"][1]["args"].append("--other"),
        lambda spec: spec["containerEdits"]["hooks"][2]["args"].extend(["--folder", "/other"]),
        lambda spec: spec["containerEdits"]["hooks"].pop(),
    ],
)
def test_any_change_of_what_a_container_gets_is_seen(change: Any, tmp_path: Path) -> None:
    changed = copy.deepcopy(CASES["one-gpu"])
    change(changed["expect"]["spec"])
    got = verdict(changed, tmp_path)
    assert got is not None
    assert got not in TABLE


def test_a_host_for_which_one_of_both_writes_nothing_is_seen(tmp_path: Path) -> None:
    refused = {**CASES["one-gpu"], "expect": {"status": 1, "error": "no reason"}}
    assert "they refuse (no reason), we write" in (verdict(refused, tmp_path / "a") or "")
    written = {**CASES["no-gpu"], "expect": CASES["one-gpu"]["expect"]}
    assert "they write, we do not" in (verdict(written, tmp_path / "b") or "")


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()


def test_a_gpu_in_mig_mode_is_no_device_as_a_whole(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["mig-1g-x3"])
    case["input"]["argv"] += ["--device-id", "0"]
    case["expect"]["spec"]["devices"][0]["name"] = "0"
    assert verdict(case, tmp_path / "a") == "unusable-device"
    case["input"]["argv"][-1] = case["expect"]["spec"]["devices"][0]["name"] = "7"
    assert "they write, we do not" in (verdict(case, tmp_path / "b") or "")


def seen(tmp_path: Path, *names: str, texts: tuple[str, ...] = (), gpus: int = 2) -> Devices:
    """Devices of a host with some GPUs: those that we write, and what we report."""
    nvml = {"gpus": [{"uuid": f"GPU-{number}", "pci": "0000:01:00.0"} for number in range(gpus)]}
    findings = [Finding("DISCOVERY_DEVICE", text) for text in texts]
    ours: dict[str, Any] = {f"nvidia.com/gpu={name}": {"node": {}} for name in names}
    return Devices(Tree(Host(str(tmp_path))), nvml, (), (), findings, ours, {})


LOST = "GPU 1 (GPU-1, 0000:01:00.0) is left out: it is lost"


def test_every_device_is_written_or_left_out(tmp_path: Path) -> None:
    assert device_rules.healthy(seen(tmp_path, "0", texts=(LOST,)), "GPU is lost") == "healthy-devices"
    assert device_rules.healthy(seen(tmp_path, "GPU-0", texts=(LOST,)), "GPU is lost") == "healthy-devices"
    assert device_rules.healthy(seen(tmp_path, "0"), "GPU is lost") is None
    assert device_rules.healthy(seen(tmp_path, texts=(LOST,), gpus=1), "GPU is lost") is None
    assert device_rules.healthy(seen(tmp_path, "0", texts=(LOST, "another error")), "GPU is lost") is None
    assert device_rules.healthy(seen(tmp_path, "0", "1"), "ERROR_LIBRARY_NOT_FOUND") is None
    assert device_rules.healthy(seen(tmp_path, "0", "1"), "GPU is lost") is None


def test_what_no_device_needs_may_be_untold(tmp_path: Path) -> None:
    devices = seen(tmp_path, "0", "1")
    devices.nvml["gpus"][0]["error"] = {"DeviceGetPciInfo": 3}
    assert device_rules.healthy(devices, "Not Supported") == "healthy-devices"


def test_a_version_that_nvml_tells_is_known(tmp_path: Path) -> None:
    devices = seen(tmp_path, texts=("the driver's version is unknown",))
    assert device_rules.refusal(devices) == "driver-version"
    devices.nvml["driver_version"] = "570.1"
    assert device_rules.refusal(devices) is None
    devices.nvml["error"] = {"SystemGetDriverVersion": 999}
    assert device_rules.refusal(devices) == "driver-version"
