"""The create path's import budget: the exact modules that each kind of create loads.

Measured with -X importtime on the way to the exec, so that late imports are seen, too. A module more is milliseconds
for every container with a device: take it out, or defend it here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# What every create needs. The interpreter's own (sys, io, encodings …) are taken off by comparison with a bare start.
HOT = {
    "__future__",
    "_json",
    "errno",
    "shim",
    "shim.cdi",
    "shim.cdi.annotations",
    "shim.cdi.directories",
    "shim.cdi.edits",
    "shim.cdi.fastjson",
    "shim.cdi.findings",
    "shim.cdi.names",
    "shim.cdi.paths",
    "shim.cdi.plan",
    "shim.create",
    "shim.create.become",
    "shim.create.bundle",
    "shim.create.report",
    "shim.create.request",
    "shim.create.settings",
    "shim.create.verdict",
    "shim.host",
    "shim.host.identity",
    "shim.host.nodes",
}
# What reading a spec adds; YAML adds PyYAML with all that it drags in, which is why there will be an index.
SPEC_READER = {
    "math",  # builtin
    "shim.cdi.decode",
    "shim.cdi.jsontext",
    "shim.cdi.rules",
    "shim.cdi.scalars",
    "shim.cdi.spec",
    "shim.cdi.versions",
}

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}],
}


def _python(*arguments: str) -> set[str]:
    """Modules loaded by a run of the interpreter, by its own report."""
    command = [sys.executable, "-I", "-S", "-B", "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in lines} - {"imported package"}


@pytest.fixture
def created(tmp_path: Path, modules: Path) -> object:
    """Run a create to its end (the low-level runtime is /bin/true); the modules beyond a bare start."""

    def run(config: dict[str, object], spec: str = "", name: str = "x.json") -> set[str]:
        (tmp_path / "cdi").mkdir()
        if spec:
            (tmp_path / "cdi" / name).write_text(spec)
        (tmp_path / "config.json").write_text(json.dumps(config))
        main = str(modules / "shim" / "__main__.py")
        start = "import sys; sys.argv[0] = sys.argv.pop(1); sys.path.insert(0, sys.argv.pop(1))"
        redirect = f"import shim.cdi.directories as d; d.DEFAULT = ({str(tmp_path / 'cdi')!r},)"
        recipe = f"{start}; {redirect}; from shim.create import main; main(sys.argv[1:])"
        words = ["low=/bin/true", "name=shim", "self=/x/shim", "verb=create", f"bundle={tmp_path}", "--", "true"]
        return _python("-c", recipe, main, str(modules), *words) - _python("-c", "pass")

    return run


ASKING: dict[str, object] = {"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}}


def test_a_create_that_asks_for_nothing_loads_the_hot_modules_alone(created: object) -> None:
    assert callable(created)
    assert created({}) == HOT


def test_a_create_with_a_json_spec_adds_the_spec_reader(created: object) -> None:
    assert callable(created)
    assert created(ASKING, json.dumps(SPEC)) == HOT | SPEC_READER


def test_a_create_with_a_yaml_spec_adds_pyyaml(created: object) -> None:
    assert callable(created)
    loaded = created(ASKING, f"# YAML\n{json.dumps(SPEC)}", "x.yaml")
    assert loaded >= HOT | SPEC_READER | {"yaml"}
    assert not loaded & {"json", "typing", "logging", "subprocess", "dataclasses", "pathlib", "click", "rich"}
