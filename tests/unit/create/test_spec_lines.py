"""Where in its spec stands what a create refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shim.base.findings import CdiError, Finding
from shim.create import spec_lines
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import decide
from shim.create.world import World

SPEC = """cdiVersion: 0.6.0
kind: v.example/gpu
containerEdits:
  hooks:
  - {hookName: createContainer, path: /usr/bin/gone}
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - {path: /proc/x}
    mounts:
    - {hostPath: /usr/share, containerPath: /a}
    - hostPath: /usr/gone
      containerPath: /b
    - {hostPath: /usr/share, containerPath: /sys/x}
"""
LINES = {
    "/usr/gone is missing on the host, which the spec mounts at /b": 13,
    "the mount at '/sys/x' in the container lies in the kernel's own file systems": 15,
    "the device node at '/proc/x' in the container lies in the kernel's own file systems": 10,
    "the createContainer hook /usr/bin/gone: there is no such file": 5,
    "something else": 0,
}


@pytest.mark.parametrize(("text", "line"), LINES.items())
def test_b3_a_finding_names_the_line_of_the_item(tmp_path: Path, text: str, line: int) -> None:
    """It named the file only, which has 600 lines where a vendor's generator wrote it."""
    (tmp_path / "spec.yaml").write_text(SPEC)
    finding = Finding("MOUNT_MISSING", text, path=str(tmp_path / "spec.yaml"))
    spec_lines.add([finding], World())
    assert finding.line == line


@pytest.mark.parametrize("spec", ["", "- a", "a: [", "devices: 1\ncontainerEdits: []", SPEC + "x: [" + "1, " * 30_000])
def test_a_spec_that_cannot_be_read_leaves_the_finding_as_it_is(tmp_path: Path, spec: str) -> None:
    (tmp_path / "spec.yaml").write_text(spec)
    findings = [
        Finding("MOUNT_MISSING", "/usr/gone at /b", path=str(tmp_path / name)) for name in ("spec.yaml", "none")
    ]
    spec_lines.add(findings, World())
    assert [finding.line for finding in findings] == [0, 0]


def test_b3_a_create_is_refused_with_the_line(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is in the text that the engine shows."""
    specs = trusted_path / "specs"
    specs.mkdir()
    mount = {"hostPath": "/usr/gone", "containerPath": "/b"}
    spec = {"cdiVersion": "0.6.0", "kind": "v.example/gpu"}
    spec["devices"] = [{"name": "0", "containerEdits": {"mounts": [mount]}}]  # type: ignore[assignment]  # of JSON
    (specs / "gpu.json").write_text(json.dumps(spec, indent=1))
    settings = trusted_path / "config.toml"
    settings.write_text(f'[cdi]\nspec-dirs = ["{specs}"]\n')
    monkeypatch.setenv("SHIM_CONFIG", str(settings))
    (trusted_path / "config.json").write_text(json.dumps({"annotations": {"cdi.k8s.io/x": "v.example/gpu=0"}}))
    call = Invocation(
        ["low=/bin/true", "name=shim", "self=/bin/true", "verb=create", f"bundle={trusted_path}", "--", "x"]
    )
    decision = decide(Question(call, Bundle(call.config), rootful=True), World())
    assert isinstance(decision.refusal, CdiError)
    lines = (specs / "gpu.json").read_text().splitlines()
    [line] = [number for number, text in enumerate(lines, 1) if '"hostPath"' in text]
    assert f"{specs}/gpu.json:{line - 1}: /usr/gone is missing" in str(decision.refusal)
