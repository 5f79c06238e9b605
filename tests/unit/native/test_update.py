"""update of a container with a record: the launcher adds the device rules to the resources, as Python does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from unit.create.update_cases import DENY, KEPT, NODES, NULL, OURS, UPDATES
from unit.native.repeat_host import DIRECTORY, NAME, Container, Host, own_interpreter

from shim.create import record_files

WAYS = pytest.mark.parametrize("way", [Host.update_by_file, Host.update_by_input], ids=["file", "standard input"])


def _with_rules(host: Host, *, repeated: bool) -> Container:
    """A container with NODES, of a first create or of a repeated one: both leave the rules in the record."""
    nodes = []
    for number, node in enumerate(NODES):
        if repeated and node["type"] == "p":
            continue  # a decision about a pipe is not stored
        path = host.directory / f"node{number}"
        mode = {"c": 0o20666, "b": 0o60666, "p": 0o10666}[node["type"]]
        os.mknod(path, mode, os.makedev(node.get("major", 0), node.get("minor", 0)))
        nodes.append({**node, "hostPath": str(path)})
    host.write_spec(nodes=nodes)
    container = host.create()
    container = host.create() if repeated else container
    assert (container.is_repeated, container.record["rules"]) == (repeated, OURS)
    return container


@WAYS
@pytest.mark.parametrize("repeated", [False, True], ids=["the first create", "a repeated one"])
def test_update_gets_the_rules_without_python(host: Host, installed: Path, way: Any, repeated: bool) -> None:
    """The cases of Python's test. Without an interpreter an update goes on as it is: what is done is the launcher's."""
    interpreter = own_interpreter(host, installed)
    container = _with_rules(host, repeated=repeated)
    interpreter.unlink()
    for case, update in UPDATES.items():
        data = json.dumps(
            {**update.rest, "devices": update.given}, separators=(",", ":")
        ).encode()  # as engines write it
        came = way(host, container, data)
        if update.is_unusual or update.given == update.wanted:
            assert came == data, case
        assert json.loads(came)["devices"] == (update.given if update.is_unusual else update.wanted), case


@WAYS
@pytest.mark.parametrize("has_python", [True, False], ids=["with Python", "without"])
def test_resources_that_are_not_ours_to_change_arrive_byte_for_byte(
    host: Host, installed: Path, way: Any, has_python: bool
) -> None:
    interpreter = own_interpreter(host, installed)
    container = _with_rules(host, repeated=False)
    if not has_python:
        interpreter.unlink()
    for case, data in KEPT.items():
        assert way(host, container, data) == data, case


@WAYS
@pytest.mark.parametrize("count", [100, 20_000], ids=["more than a pipe holds", "more than the launcher reads"])
def test_large_resources_arrive_whole(host: Host, way: Any, count: int) -> None:
    """The launcher has read the beginning of the larger ones when it leaves them to Python."""
    container = _with_rules(host, repeated=False)
    given = {"devices": [DENY] + [{**NULL, "minor": minor, "comment": "x" * 1000} for minor in range(100)]}
    given["devices"] += [{**NULL, "minor": minor} for minor in range(100, count)]
    came = way(host, container, json.dumps(given).encode())
    assert json.loads(came)["devices"] == [*given["devices"], *OURS]


def test_every_other_byte_of_resources_stays(host: Host, installed: Path) -> None:
    interpreter = own_interpreter(host, installed)
    container = _with_rules(host, repeated=False)
    interpreter.unlink()
    rule = b',{"allow":true,"type":"c","major":60,"minor":7,"access":"rwm"}'
    rule += b',{"allow":true,"type":"b","major":8,"minor":1,"access":"r"}'
    before, after = b'{ "a" : "\\u00fc" , "devices":[ { "allow":\tfalse }', b" ] }\n"
    assert host.update_by_file(container, before + after) == before + rule + after
    assert host.update_by_input(container, before + after) == before + rule + after


def test_an_update_is_left_to_python_where_the_record_may_not_hold(host: Host) -> None:
    """An engine has saved config.json again, which still has the device."""
    container = _with_rules(host, repeated=False)
    os.utime(container.record["config"])
    data = json.dumps({"devices": [DENY]}).encode()
    assert json.loads(host.update_by_file(container, data))["devices"] == [DENY, *OURS]
    assert json.loads(host.update_by_input(container, data))["devices"] == [DENY, *OURS]


def test_a_record_without_rules_is_left_to_python(host: Host) -> None:
    """One of an earlier version."""
    container = _with_rules(host, repeated=False)
    file = DIRECTORY / "c" / record_files.key(NAME, "/run/repeat", container.record["id"])
    life, _, _ = file.read_text().partition("\n")
    file.write_text(f"{life}\n{json.dumps({n: v for n, v in container.record.items() if n != 'rules'})}\n")
    data = json.dumps({"devices": [DENY]}).encode()
    assert json.loads(host.update_by_file(container, data))["devices"] == [DENY, *OURS]


def test_the_resources_file_of_an_update_keeps_mode_and_owner(host: Host) -> None:
    container = _with_rules(host, repeated=False)
    file = host.directory / "resources.json"
    file.touch(0o640)
    os.chown(file, 1234, -1)
    host.update_by_file(container, json.dumps({"devices": [DENY]}).encode())
    assert (file.stat().st_mode & 0o7777, file.stat().st_uid) == (0o640, 1234)
    assert not list(host.directory.glob("*.shim-*"))
