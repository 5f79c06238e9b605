"""Which engine would call for a bundle, as `shim explain` supposes it: from config.json and PATH, through a World."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.create import supposed_caller
from shim.create.annotation_origin import PODMAN_UNKNOWN
from shim.create.recorded import Recorded
from shim.create.supposed_caller import SupposedCaller


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of PATH, behind one that is missing and one in which podman is no program."""
    (tmp_path / "no-program/podman").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setitem(os.environ, "PATH", f"{tmp_path}/missing::relative:{tmp_path}/no-program:{tmp_path}/bin")
    return tmp_path / "bin"


@pytest.mark.usefixtures("path")
def test_without_a_podman_in_path_its_version_is_unknown() -> None:
    assert SupposedCaller({}).podman("create")[:2] == (
        PODMAN_UNKNOWN,
        "there is no podman in PATH whose version could be known",
    )


def test_the_podman_of_path_is_the_file_behind_its_links(path: Path) -> None:
    program = path.parent / "opt/podman-5/bin/podman"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    (path.parent / "current").symlink_to("opt/./podman-5")
    (path / "podman").symlink_to("../current/bin/../bin/podman")
    kind, source, _ = SupposedCaller({}).podman("create")
    assert (kind, source) == (PODMAN_UNKNOWN, f"the version of {program} is not recorded")


def test_links_that_form_a_loop_end(path: Path) -> None:
    for name, target in (("a", "b"), ("b", "a")):
        (path / name).symlink_to(target)
    assert supposed_caller._resolved(f"{path}/a", SupposedCaller({})).startswith(f"{path}/")


def test_each_question_is_in_the_trace(path: Path) -> None:
    """PATH and the file were looked up beside the World, so no report had them, and a replay asked its own host."""
    program = path / "podman"
    program.write_text("#!/bin/true\n")
    program.chmod(0o755)
    world = SupposedCaller({})
    answer = world.podman("create")
    asked = {kind: argument for kind, argument, _ in world.trace}
    assert asked["environ"] == "PATH"
    assert ("stat", str(program)) in {(kind, argument) for kind, argument, _ in world.trace}
    program.unlink()
    assert Recorded(world.trace).podman("create") == answer
    again = supposed_caller._podman(Recorded(world.trace))
    assert (again.kind, again.source) == answer[:2]


@pytest.mark.parametrize(("manager", "value"), [("cri-o", "1"), ("podman", ""), (None, "")])
def test_the_variable_of_cri_o_is_taken_from_the_annotation(manager: str | None, value: str) -> None:
    annotations = {"io.container.manager": manager} if manager else {}
    assert SupposedCaller(annotations).environ("CRI_O_EXTERNAL") == value
