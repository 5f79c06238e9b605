"""Specs beside what would be generated now: nothing is written, and a spec of another program is compared, too."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.discover import acme

from shim.discover import generate
from shim.discover.against_host import FRESH, STALE, UNKNOWN, WAITING, AgainstHost, Compared
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.host.host import Host

pytestmark = pytest.mark.usefixtures("only_acme")

WISH = Wish("/usr/local/bin/shim")
SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"
FOREIGN = "/etc/cdi/acme.yaml"
DIRS = ("/etc/cdi", "/var/run/cdi")


def compared(host: Host, *paths: str) -> tuple[list[Compared], list[str]]:
    judge = AgainstHost(host, DIRS, "/usr/local/bin/shim")
    made = judge.compare(paths) if paths else judge.every()
    return made, [finding.id for finding in judge.findings]


def states(host: Host, *paths: str) -> dict[str, str]:
    return {one.path: one.state for one in compared(host, *paths)[0]}


def changes(one: Compared) -> dict[str, str]:
    return {change.name: change.state for change in one.changes}


def made(host: Host, wish: Wish = WISH) -> dict[str, Any]:
    outcome = generate.generate(host, wish, Target(spec_dirs=DIRS), ["auto"])
    return outcome.specs[0].document


def foreign(host: Host, document: dict[str, Any]) -> None:
    path = host.real(FOREIGN)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))


def test_a_fresh_spec_of_ours_has_no_changes(host: Host) -> None:
    made(host, dataclasses.replace(WISH, names=("uuid",), has_all=False))
    [one] = compared(host)[0]
    assert (one.path, one.is_ours, one.state, one.changes) == (SPEC, True, FRESH, [])


def test_a_stale_spec_of_ours_is_compared_and_left_as_it_is(host: Host, top: Path) -> None:
    made(host)
    before = host.real(SPEC).read_bytes()
    acme.node(top, "acme/2", 3)
    (top / "dev/acme/1").unlink()
    [one] = compared(host, SPEC)[0]
    assert one.state == STALE
    assert changes(one) == {
        "acme.example/gpu=1": "removed",
        "acme.example/gpu=id-1": "removed",
        "acme.example/gpu=2": "added",
        "acme.example/gpu=id-2": "added",
        "acme.example/gpu=all": "changed",
    }
    assert host.real(SPEC).read_bytes() == before


def test_a_spec_that_is_gone_would_be_written(host: Host) -> None:
    made(host)
    host.real(SPEC).unlink()
    [one] = compared(host)[0]
    assert (one.state, set(changes(one).values())) == (STALE, {"added"})


def test_a_driver_that_is_not_there_yet_is_waited_for(host: Host, top: Path) -> None:
    made(host)
    Path(f"{top}{acme.WAITS}").write_text("the module acme")
    assert states(host) == {SPEC: WAITING}


def test_a_spec_of_another_program_is_compared_with_what_its_kind_has(host: Host, top: Path) -> None:
    document = made(host)
    host.real(SPEC).unlink()
    foreign(host, document)
    [one] = compared(host, FOREIGN)[0]
    assert (one.is_ours, one.state) == (False, FRESH)
    acme.node(top, "acme/2", 3)
    assert changes(compared(host, FOREIGN)[0][0])["acme.example/gpu=2"] == "added"


@pytest.mark.parametrize(
    "wish",
    [
        dataclasses.replace(WISH, has_all=False),
        dataclasses.replace(WISH, has_numbers=True),
        dataclasses.replace(WISH, hook_path="/opt/nvidia/nvidia-cdi-hook"),
    ],
)
def test_the_manner_of_another_program_is_no_difference(host: Host, top: Path, wish: Wish) -> None:
    (top / f"{acme.LIBRARIES[1:]}/libacme.so.1").touch()
    program = host.real("/opt/nvidia/nvidia-cdi-hook")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    foreign(host, made(host, wish))
    assert states(host, FOREIGN) == {FOREIGN: FRESH}


def test_the_root_of_a_driver_in_a_container_of_its_own_is_seen_in_the_spec(host: Host, top: Path) -> None:
    acme.machine(top / "run/driver", "0")
    (top / f"run/driver/{acme.LIBRARIES[1:]}/libacme.so.1").touch()
    foreign(host, made(host, dataclasses.replace(WISH, driver_root="/run/driver")))
    assert states(host, FOREIGN) == {FOREIGN: FRESH}


def test_a_kind_that_nothing_discovers_is_named(host: Host) -> None:
    document = made(host)
    foreign(host, {**document, "kind": "other.example/fpga"})
    found, findings = compared(host, FOREIGN)
    assert ([one.state for one in found], findings) == ([UNKNOWN], ["DISCOVERY_NOTHING"])


def test_a_broken_spec_is_a_finding_and_the_others_are_compared(host: Host) -> None:
    foreign(host, {"kind": "x"})
    made(host)
    found, findings = compared(host, FOREIGN, SPEC)
    assert [one.path for one in found] == [SPEC]
    assert set(findings) == {"SPEC_INVALID"}
