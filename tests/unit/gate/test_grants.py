"""The grants of a gate's subject: a change holds from the next request on, and a file with faults gives no device."""

from __future__ import annotations

import json
from pathlib import Path

from shim.gate.grants import GrantsFile

GPU = "nvidia.com/gpu=0"


def write(path: Path, *entries: tuple[str, str]) -> None:
    grants = [{"subject": subject, "device": device} for subject, device in entries]
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"version": 1, "serial": 1, "grants": grants}))
    new.rename(path)


def test_a_change_holds_at_once(trusted_path: Path) -> None:
    path = trusted_path / "grants.json"
    file = GrantsFile(str(path), "a")
    assert file.names() == frozenset()
    write(path, ("a", GPU), ("b", "x/y=z"))
    assert file.names() == frozenset({GPU})
    write(path, ("b", GPU))
    assert file.names() == frozenset()


def test_nothing_is_kept_of_what_was_readable(trusted_path: Path) -> None:
    path = trusted_path / "grants.json"
    file = GrantsFile(str(path), "a")
    write(path, ("a", GPU))
    assert file.names() == frozenset({GPU})
    path.write_text("{")
    assert file.names() is None
    assert file.names() is None, "also where it is not read again"


def test_a_file_that_others_can_write_gives_no_device(trusted_path: Path) -> None:
    path = trusted_path / "grants.json"
    write(path, ("a", GPU))
    path.chmod(0o666)
    assert GrantsFile(str(path), "a").names() is None
