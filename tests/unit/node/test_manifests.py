"""packaging/kubernetes: its commands exist, each privilege has its reason, and the class is that of the command."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import shim
from shim.cli import shim as commands
from shim.engines import manifest

TOP = Path(__file__).parents[3] / "packaging/kubernetes"
DAEMONSET = TOP / "daemonset.yaml"
# Lines that give a container or a Pod more than any has
PRIVILEGES = re.compile(
    r"^ *(hostPID: true|runAsUser: 0|priorityClassName:.*|readOnly: false|privileged: true|- [A-Z_]+)$"
)


def _pod() -> dict[str, Any]:
    document = yaml.safe_load(DAEMONSET.read_text())
    pod: dict[str, Any] = document["spec"]["template"]["spec"]
    return pod


CONTAINERS = {container["name"]: container for container in _pod()["containers"]}


def test_the_kustomization_has_every_file_and_the_version() -> None:
    document = yaml.safe_load((TOP / "kustomization.yaml").read_text())
    assert {*document["resources"], "kustomization.yaml"} == {path.name for path in TOP.glob("*.yaml")}
    assert [image["newTag"] for image in document["images"]] == [shim.__version__]
    assert {container["image"] for container in CONTAINERS.values()} == {f"localhost/cdi-shim:{shim.__version__}"}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_command_of_a_container_is_taken(name: str) -> None:
    words = list(CONTAINERS[name]["args"])
    command: click.Command = commands
    context = click.Context(commands)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    command.parse_args(context, words)


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_has_the_least_that_it_needs(name: str) -> None:
    container = CONTAINERS[name]
    security = container["securityContext"]
    assert security["capabilities"]["drop"] == ["ALL"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts.keys() <= {volume["name"] for volume in _pod()["volumes"]}
    if name != "install":
        assert "add" not in security["capabilities"]
        assert mounts["host"]["readOnly"]
    assert not _pod()["automountServiceAccountToken"]


def test_the_line_above_a_privilege_is_its_reason() -> None:
    lines = DAEMONSET.read_text().splitlines()
    privileges = [(above, line) for above, line in pairwise(lines) if PRIVILEGES.match(line)]
    explained = {line.strip() for above, line in privileges if above.strip().startswith("#")}
    assert {line.strip() for _, line in privileges} - explained <= {
        "- ALL",
        "- FOWNER",
        "priorityClassName: system-node-critical",
    }, "FOWNER has the reason of CHOWN above it"
    assert len(explained) >= 6


def test_the_class_is_that_of_the_command() -> None:
    assert yaml.safe_load((TOP / "runtimeclass.yaml").read_text()) == yaml.safe_load(
        manifest.runtime_class("shim", "shim", {}, [], {})
    )


@pytest.mark.parametrize("path", sorted((TOP / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_names_the_class_and_a_device(path: Path) -> None:
    pod = yaml.safe_load(path.read_text())
    assert pod["spec"]["runtimeClassName"] == "shim"
    assert any("limits" in container.get("resources", {}) for container in pod["spec"]["containers"])
