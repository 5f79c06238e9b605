"""update: resources with device rules get those of the container's devices, through a file or standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.create.update_cases import DENY, KEPT, NODES, NULL, OURS, UPDATES

from shim.cdi.plan import Plan
from shim.config.settings import Settings
from shim.create import record, record_files, update_rules
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.recipe import Decision

Json = dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A directory of records with that of container c1, which was given NODES."""
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    config = tmp_path / "config.json"
    config.write_text("{}")
    plan = Plan(["v.example/c=d"], [{"spec": "/etc/cdi/x.json", "device": "d", "edits": {"deviceNodes": NODES}}])
    bundle = Bundle(str(config))
    edited = {"edited": True}
    assert bundle.put(edited)
    decision = Decision(Settings())
    decision.plan = plan
    record.write(f"{directory}/c", call(bundle=str(tmp_path)), decision, bundle, edited, [])
    return f"{directory}/c"


def words(**said: str) -> list[str]:
    """The launcher's words for an update of c1."""
    usual = {"low": "/bin/cat", "name": "shim", "self": "/x", "verb": "update", "id": "c1"}
    usual["key"] = record_files.key("shim", "", "c1")
    return [*(f"{key}={value}" for key, value in {**usual, **said}.items()), "--", "cat"]


def call(**said: str) -> Invocation:
    return Invocation(words(**said))


def by_file(tmp_path: Path, place: str, data: bytes, **said: str) -> bytes:
    file = tmp_path / "resources.json"
    file.write_bytes(data)
    update_rules.complete(call(**{"resources": str(file), **said}), place)
    return file.read_bytes()


SCRIPT = """
import os, sys
from shim.create import update_rules
from shim.create.invocation import Invocation
from shim.create.recipe import Decision
update_rules.complete(Invocation(sys.argv[2:]), sys.argv[1])
os.execv("/bin/cat", ["cat"])
"""


def by_input(_: Path, place: str, data: bytes, **said: str) -> bytes:
    """What the program that comes after us reads."""
    argv = [sys.executable, "-c", SCRIPT, place, *words(**{"resources": "-", **said})]
    return subprocess.run(argv, input=data, capture_output=True, check=True).stdout


WAYS = pytest.mark.parametrize("way", [by_file, by_input], ids=["file", "standard input"])


@WAYS
@pytest.mark.parametrize("case", UPDATES)
def test_rules_of_the_device_are_added_where_there_are_rules(tmp_path: Path, place: str, way: Any, case: str) -> None:
    update = UPDATES[case]
    data = json.dumps({**update.rest, "devices": update.given}).encode()
    assert json.loads(way(tmp_path, place, data)) == {**update.rest, "devices": update.wanted}


@WAYS
@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_resources_that_are_not_ours_to_change_arrive_byte_for_byte(
    tmp_path: Path, place: str, way: Any, data: bytes
) -> None:
    assert way(tmp_path, place, data) == data


@WAYS
@pytest.mark.parametrize(
    "said", [{"id": "c2"}, {"root": "/other"}, {"name": "shim-crun"}, {"key": ""}, {"key": "0" * 16}], ids=str
)
def test_another_container_is_left_alone(tmp_path: Path, place: str, way: Any, said: dict[str, str]) -> None:
    data = json.dumps({"devices": [DENY]}).encode()
    assert way(tmp_path, place, data, **said) == data


@WAYS
def test_large_resources_arrive_whole(tmp_path: Path, place: str, way: Any) -> None:
    """More than a pipe holds at once."""
    given = {"devices": [DENY] + [{**NULL, "minor": minor} for minor in range(5000)]}
    assert json.loads(way(tmp_path, place, json.dumps(given).encode()))["devices"] == [*given["devices"], *OURS]


def test_not_even_a_defect_of_ours_stops_an_update(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_rules, "_completed", lambda *_: 1 / 0)
    data = json.dumps({"devices": [DENY]}).encode()
    assert by_file(tmp_path, place, data) == data
    read, write = os.pipe()
    before = os.dup(0)
    try:
        os.write(write, data)
        os.close(write)
        os.dup2(read, 0)
        update_rules.complete(call(resources="-"), place)
        assert os.read(0, 1000) == data
    finally:
        os.dup2(before, 0)
        for fd in (read, before):
            os.close(fd)
