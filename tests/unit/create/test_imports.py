"""The create path's import budget: the exact modules that each kind of create loads.

Measured with -X importtime on the way to the exec, so that late imports are seen, too. A module more is milliseconds
for every container with a device: take it out, or defend it here.
"""

from __future__ import annotations

import json
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.rootful

HOT_FILE: tuple[str, ...] = runpy.run_path(str(Path(__file__).parents[3] / "packaging/hot.py"))["MODULES"]
# What every create needs, as the build has it. The interpreter's own (sys, io, encodings …) are taken off by comparison
# with a bare start. Trust is in the file since most specs have hooks, and is loaded where a plan has one.
HOT = {"_json", *HOT_FILE} - {"shim.host.trust"}
# What a missing or stale index adds. A spec in YAML adds PyYAML with all that it drags in: hence the index.
SPEC_READER = {
    "math",  # builtin
    "shim.cdi.directories",
    "shim.cdi.index_writer",
    "shim.create.unindexed",
    "shim.cdi.decode",
    "shim.cdi.jsontext",
    "shim.cdi.rules",
    "shim.cdi.scalars",
    "shim.cdi.spec",
    "shim.cdi.versions",
    "shim.config.needles",
    "shim.host.trust",
}

# What a plan with a hook of ours adds: the C core. All hooks: whose programs are trusted.
FOLDING = {
    "_cffi_backend",
    "errno",
    "shim.create.fold",
    "shim.create.hook_entries",
    "shim.create.known_hooks",
    "shim.hooks",
    "shim.hooks._core",
    "shim.hooks.core",
}

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}],
}
ASKING = {"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}}


def _modules(report: str) -> set[str]:
    """What -X importtime tells of, but for __future__, which every module brings along that is not hot."""
    lines = [line for line in report.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines} - {"imported package", "__future__"}


@pytest.fixture(scope="module")
def bare() -> set[str]:
    """What the interpreter loads by itself."""
    command = [sys.executable, "-I", "-S", "-B", "-X", "importtime", "-c", "pass"]
    return _modules(subprocess.run(command, capture_output=True, text=True, check=True).stderr)


class Creates:
    """Creates in a /run of their own, where the only spec lies in /run/cdi; the low-level runtime is /bin/true.

    The modules are loaded from their files, one by one, so that each is seen; test_hot.py takes the one file.
    """

    def __init__(self, modules: Path, directory: Path, launcher: Path, bare: set[str]) -> None:
        self._main = modules / "shim" / "__main__.py"
        self._directory = directory
        self._launcher = launcher
        self._bare = bare

    def __call__(
        self, config: Any, spec: str, name: str = "x.json", *, warm: bool, settings: str = "", lock: bool = False
    ) -> set[str]:
        """Modules that one create loads beyond a bare start; `warm`: after another one, when an index is there.

        With `lock` the specs are locked before.
        """
        (self._directory / "c.toml").write_text(settings)
        (self._directory / name).write_text(spec)
        (self._directory / "config.json").write_text(json.dumps(config))
        words = ["low=/run/b/runc", "name=shim", f"self={self._launcher}", "verb=create", "bundle=/run/b", "--", "true"]
        start = [sys.executable, "-I", "-S", "-B"]
        create = shlex.join([str(self._main), "create", *words])
        here = shlex.quote(str(self._directory))
        lines = [
            "mount -t tmpfs tmpfs /var/log && mount -t tmpfs -o mode=0755 tmpfs /run && mkdir -p /run/cdi /run/b/r/etc",
            "ln -s /bin/true /run/b/runc",
            f"cp {here}/{name} /run/cdi/ && cp {here}/config.json /run/b/ && cp {here}/c.toml /run/",
            f"SHIM_CONFIG=/run/c.toml {self._launcher} cdi lock >/dev/null 2>&1" if lock else "true",
            # an index is written only when the specs have been at rest for a while
            f"sleep 0.3; {shlex.join(start)} {create} || exit 1" if warm else "true",
            f"exec {shlex.join(start)} -X importtime {create}",
        ]
        configured = ["SHIM_CONFIG=/run/c.toml"] if settings else ["-u", "SHIM_CONFIG"]
        command = ["unshare", "--mount", "env", *configured, "sh", "-c", "\n".join(lines)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return _modules(done.stderr) - self._bare


@pytest.fixture
def created(modules: Path, trusted_path: Path, copied: Path, installed: Path, bare: set[str]) -> Creates:
    (copied / "shim/hot").unlink()
    for path in (modules / "yaml", modules / "_yaml", *modules.glob("_cffi_backend*.so")):
        (trusted_path / path.name).symlink_to(path)
    return Creates(copied, trusted_path, installed, bare)


@pytest.mark.parametrize("config", [{}, ASKING], ids=["that asks for nothing", "that asks"])
def test_a_warm_create_loads_the_hot_modules_alone(created: Creates, config: Any) -> None:
    assert created(config, f"# YAML\n{json.dumps(SPEC)}", "x.yaml", warm=True) == HOT


def test_a_cold_create_with_a_json_spec_adds_the_spec_reader(created: Creates) -> None:
    assert created(ASKING, json.dumps(SPEC), warm=False) == HOT | SPEC_READER


def test_a_cold_create_with_a_yaml_spec_adds_pyyaml_and_what_it_needs(created: Creates) -> None:
    loaded = created(ASKING, f"# YAML\n{json.dumps(SPEC)}", "x.yaml", warm=False)
    assert loaded >= HOT | SPEC_READER | {"yaml", "shim.cdi.yamltext"}
    assert not loaded & {"json", "typing", "logging", "subprocess", "dataclasses", "pathlib", "click", "rich"}


def test_a_create_that_moves_an_interface_adds_what_places_its_hooks(created: Creates) -> None:
    edits = {"netDevices": [{"hostInterfaceName": "eth5", "name": "net0"}]}
    spec = {**SPEC, "cdiVersion": "1.1.0", "containerEdits": edits}
    config = {**ASKING, "linux": {"namespaces": [{"type": "network"}]}}
    places = {"shim.create.netdevices", "shim.host.abilities", "shim.host.netnames"}
    assert created(config, json.dumps(spec), warm=True) == HOT | places


@pytest.mark.parametrize(
    ("fold", "readonly", "program", "loads"),
    [
        ("ours", False, "", True),
        ("auto", True, "", True),
        ("auto", False, "", False),
        ("off", True, "", False),
        ("ours", True, "/bin/true", False),
        ("known", True, "/bin/true", False),
    ],
)
def test_only_a_create_that_may_fold_a_hook_adds_the_c_core(
    created: Creates, installed: Path, fold: str, readonly: bool, program: str, loads: bool
) -> None:
    """An import that fails is measured as well: this passed without cffi's library, when nothing was folded.

    The core costs more than 2 ms, and each create whose spec had hooks loaded it, foreign ones too.
    """
    hook = {
        "hookName": "createContainer",
        "path": program or str(installed),
        "args": ["shim", "hook", "update-ldcache"],
    }
    spec = {**SPEC, "containerEdits": {"hooks": [hook]}}
    config = {**ASKING, "root": {"path": "r", "readonly": readonly}}
    settings = f'[hooks]\nfold = "{fold}"\n'
    loaded = created(config, json.dumps(spec), warm=True, settings=settings)
    assert loaded == HOT | {"shim.host.trust"} | (FOLDING if loads else set())


@pytest.mark.parametrize("state", ["off", "any"])
def test_a_warm_create_with_a_configuration_adds_the_compatibility_sources_where_one_is_on(
    created: Creates, state: str
) -> None:
    config = {"process": {"env": ["X=0"]}, "annotations": {} if state == "any" else ASKING["annotations"]}
    settings = f'[sources]\nenvironment = "{state}"\nvariables = {{X = "acme.example/gpu"}}\n'
    loaded = created(config, json.dumps(SPEC), warm=True, settings=settings)
    assert loaded == HOT | ({"shim.create.image_requests"} if state == "any" else set())


def test_only_a_create_with_locked_specs_adds_the_lock(created: Creates) -> None:
    modules = {"shim.create.locked", "shim.create.lock_file", "shim.host.trust"}
    lock = "[cdi]\nlocked = true\n"
    loaded = created(ASKING, json.dumps(SPEC), warm=True, settings=lock, lock=True)
    assert loaded == HOT | modules
