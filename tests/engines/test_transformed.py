"""Specs that podman's own CDI refuses, as `shim cdi validate --for` says, and that it serves once they are transformed.

podman's runtime here is not shim, so that no other reader of specs takes part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness.podman import Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

NAME = "vendor.test-transformed.json"
DEVICE = "vendor.test/transformed=x"
VENDOR = "/usr/bin/nvidia-cdi-hook"
NOT_BOUND: dict[str, object] = {
    "mounts": [{"hostPath": "/usr/share", "containerPath": "/opt/share", "options": ["ro"]}]
}
LINK: dict[str, object] = {
    "hooks": [
        {
            "hookName": "createContainer",
            "path": VENDOR,
            "args": ["nvidia-cdi-hook", "create-symlinks", "--link", "libx.so.1::/opt/libx.so"],
        },
        {
            "hookName": "createContainer",
            "path": VENDOR,
            "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/opt"],
        },
    ]
}


class Spec:
    """A spec in a directory that podman reads."""

    def __init__(self, sandbox: Sandbox, shim: Path) -> None:
        self._sandbox, self._shim = sandbox, shim
        self._draft = sandbox.scratch / "host" / NAME
        self.path = f"/etc/cdi/{NAME}"

    def write(self, version: str, edits: dict[str, object]) -> None:
        """Put it there."""
        edits = {"env": ["GIVEN=1"], **edits}
        device = {"name": "x", "containerEdits": edits}
        self._draft.write_text(
            json.dumps({"cdiVersion": version, "kind": "vendor.test/transformed", "devices": [device]})
        )
        self._sandbox.run("mkdir", "-p", "/etc/cdi").ok()
        self._sandbox.run("cp", f"{self._sandbox.host}/{NAME}", self.path).ok()

    def faults(self, engine: str) -> list[tuple[str, str]]:
        """Id and level of what an engine refuses."""
        done = self._sandbox.run(self._shim, "cdi", "validate", "--for", engine, "-o", "json", self.path)
        return [(finding["id"], finding["level"]) for finding in json.loads(done.out)[self.path]]

    def transform(self, *words: str) -> str:
        """Transform it in its place; what is said of it."""
        done = self._sandbox.run(self._shim, "cdi", "transform", *words, "--output", self.path, self.path)
        done.ok()
        return str(done.err)

    def remove(self) -> None:
        self._sandbox.run("rm", "-f", self.path).ok()
        self._draft.unlink(missing_ok=True)


@pytest.fixture
def spec(sandbox: Sandbox, shim: Path) -> Iterator[Spec]:
    made = Spec(sandbox, shim)
    yield made
    made.remove()


@pytest.fixture
def engine(rootful: Podman) -> str:
    """The podman that is here, as --for takes it."""
    return f"podman={rootful('version', '--format', '{{.Client.Version}}').ok().strip()}"


@pytest.mark.parametrize(
    ("version", "edits", "words"),
    [
        pytest.param("1.0.0", {}, ["version"], id="a version that is too high"),
        pytest.param("0.7.0", {"additionalGids": [44]}, ["version", "--lossy"], id="a member that came later"),
    ],
)
def test_what_validate_names_podman_refuses_until_it_is_lowered(
    rootful: Podman,
    low_level: RuntimeName,
    spec: Spec,
    engine: str,
    version: str,
    edits: dict[str, object],
    words: list[str],
) -> None:
    options, script = ("--rm", f"--device={DEVICE}"), "echo given $GIVEN"
    spec.write(version, edits)
    assert set(spec.faults(engine)) == {("SPEC_TOO_NEW", "ERROR")}
    refused = rootful.run(*options, script=script, runtime=low_level)
    assert (refused.status != 0, "unresolvable CDI devices" in refused.err) == (True, True)
    spec.transform(*words, "--for", engine)
    assert spec.faults(engine) == []
    assert rootful.run(*options, script=script, runtime=low_level).ok().split() == ["given", "1"]


def test_a_mount_without_bind_is_passed_on_and_refused_by_the_low_level_runtime(
    rootful: Podman, low_level: RuntimeName, spec: Spec, engine: str
) -> None:
    spec.write("0.5.0", NOT_BOUND)
    assert spec.faults(engine) == [("MOUNT_NOT_BOUND", "ERROR")]
    assert rootful.run("--rm", f"--device={DEVICE}", script="true", runtime=low_level).status != 0


def test_hooks_of_the_vendor_work_as_one_of_shim_where_its_program_is_not_installed(
    rootful: Podman, low_level: RuntimeName, spec: Spec, shim: Path
) -> None:
    options, script = ("--rm", f"--device={DEVICE}"), "readlink /opt/libx.so"
    spec.write("0.5.0", LINK)
    assert rootful.run(*options, script=script, runtime=low_level).status != 0
    assert spec.transform("hooks", "--to", "shim", "--hook-path", str(shim)) == ""
    assert rootful.run(*options, script=script, runtime=low_level).ok().split() == ["libx.so.1"]
