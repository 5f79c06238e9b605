"""Devices that an exclusive grant reserves, by name and by hardware."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.grants.grant_scene import Scene, qualified

from shim.grants import reader
from shim.grants.exclusive import exclusive_units


@pytest.fixture
def scene(trusted_path: Path) -> Scene:
    return Scene(trusted_path)


def units(scene: Scene, *names: str) -> dict[str, str]:
    """The last parts of the names that are reserved, with their subjects."""
    wanted = qualified(*names) if names else None
    found = exclusive_units(reader.read(str(scene.path)), scene.served(), wanted)
    return {name.rpartition("=")[2]: subject for name, subject in found.items()}


def test_without_grants_nothing_is_reserved(scene: Scene) -> None:
    assert units(scene) == {}
    scene.add("a", "0")
    assert units(scene) == {}, "a shared grant reserves nothing"


def test_other_names_of_the_hardware_are_reserved_too(scene: Scene) -> None:
    scene.add("a", "0", exclusive=True)
    assert units(scene) == dict.fromkeys(("0", "uuid", "all", "0:0", "0:1"), "a")
    scene.add("b", "eth", exclusive=True)
    assert units(scene, "1", "all", "eth", "eth-again") == {"all": "a", "eth": "b", "eth-again": "b"}


def test_a_partition_reserves_not_its_neighbour(scene: Scene) -> None:
    scene.add("a", "0:0", exclusive=True)
    assert units(scene) == dict.fromkeys(("0:0", "0", "uuid", "all"), "a")


def test_a_grant_of_the_name_alone_reserves_the_name_alone(scene: Scene) -> None:
    scene.add("a", "0", exclusive=True, name_only=True)
    assert units(scene) == {"0": "a"}


def test_a_name_that_no_spec_serves_is_reserved_by_its_name(scene: Scene) -> None:
    scene.add("a", "0", exclusive=True)
    scene.write_spec({"uuid": {"deviceNodes": [{"path": "/dev/gpu0"}]}})
    assert units(scene) == {}
    assert units(scene, "0", "uuid") == {"0": "a"}
