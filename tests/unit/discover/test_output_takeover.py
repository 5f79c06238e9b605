"""A spec of another generator is moved aside with the units that write it, and comes back as it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shim.base.findings import CdiError, Finding
from shim.discover import generate, output, remembered, takeover, units
from shim.discover.generate import Outcome
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.host.host import Host

pytestmark = pytest.mark.usefixtures("only_acme")

SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"
OTHER = "/var/run/cdi/acme.yaml"
TEXT = b'# ours\ncdiVersion: "0.5.0"\nkind: acme.example/gpu\ndevices: [{name: "7", containerEdits: {env: [A=B]}}]\n'
UNIT = "[Service]\nExecStart=/usr/bin/acme-generator --output=/var/run/cdi/acme.yaml\n"


def run(host: Host) -> Outcome:
    target = Target(spec_dirs=("/etc/cdi", "/var/run/cdi"), takes_over=True)
    return generate.generate(host, Wish("/usr/local/bin/shim"), target, ["auto"])


def tree(top: Path) -> dict[str, Any]:
    """Everything on a machine that counts: types, modes, owners, times of files, contents."""
    seen: dict[str, Any] = {}
    for directory in ("etc", "var/run", "usr/lib"):
        for path in sorted((top / directory).rglob("*")):
            status = path.lstat()
            what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            modified = status.st_mtime_ns if path.is_file() and not path.is_symlink() else 0
            seen[str(path)] = (what, status.st_mode, status.st_uid, status.st_gid, modified)
    return seen


@pytest.fixture
def other(host: Host, top: Path) -> Path:  # noqa: ARG001 (the machine comes first)
    """A spec of another generator, with an unusual mode and owner, written by a unit that a link starts."""
    path = Path(f"{top}{OTHER}")
    path.parent.mkdir(parents=True)
    path.write_bytes(TEXT)
    os.chown(path, 0, 44)
    path.chmod(0o640)
    os.utime(path, ns=(10**18, 10**18 + 7))
    directory = top / "usr/lib/systemd/system"
    directory.mkdir(parents=True)
    (directory / "acme-cdi.service").write_text(UNIT)
    (directory / "acme-cdi.path").write_text("[Path]\nPathChanged=/dev\n")
    (top / "etc/systemd/system").mkdir(parents=True)
    return path


def test_the_file_and_its_units_go_aside_and_come_back(host: Host, top: Path, other: Path) -> None:
    before = tree(top)
    outcome = run(host)
    assert outcome.findings == []
    assert outcome.written == {SPEC}
    assert not other.exists()
    assert [os.readlink(top / "etc/systemd/system" / name) for name in ("acme-cdi.service", "acme-cdi.path")] == [
        "/dev/null",
        "/dev/null",
    ]
    undone = takeover.undo_takeover(host)
    assert (undone.restored, undone.removed, undone.findings) == ([OTHER], [SPEC], [])
    assert tree(top) == before
    assert remembered.every(host) == []
    assert not (top / "var/lib/shim/takeover").exists()
    assert takeover.undo_takeover(host) == takeover.Undone()


def test_a_link_comes_back_as_a_link(host: Host, top: Path, other: Path) -> None:
    other.rename(top / "etc/acme-spec")
    other.symlink_to("../../../etc/acme-spec")
    before = tree(top)
    assert run(host).written == {SPEC}
    assert not other.is_symlink()
    assert takeover.undo_takeover(host).restored == [OTHER]
    assert tree(top) == before


@pytest.mark.usefixtures("other")
def test_a_unit_of_the_administrator_is_disabled_and_enabled_again(host: Host, top: Path) -> None:
    own = top / "etc/systemd/system"
    (top / "usr/lib/systemd/system/acme-cdi.service").rename(own / "acme-cdi.service")
    (own / "multi-user.target.wants").mkdir()
    (own / "multi-user.target.wants/acme-cdi.service").symlink_to("/etc/systemd/system/acme-cdi.service")
    before = tree(top)
    run(host)
    assert (own / "acme-cdi.service").read_text() == UNIT
    assert list((own / "multi-user.target.wants").iterdir()) == []
    takeover.undo_takeover(host)
    assert tree(top) == before


class Systemd(Host):
    """A machine on which systemd runs; `calls` are the command lines that it got."""

    calls: list[str]

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.calls = []

    def ask(self, *argv: str) -> str | None:
        return "active\n" if argv == ("systemctl", "is-active", "acme-cdi.path") else None

    def refusal(self, *argv: str) -> str:
        self.calls.append(" ".join(argv))
        return ""


@pytest.mark.usefixtures("other")
def test_a_unit_that_waits_is_stopped_and_started_again(top: Path) -> None:
    (top / "run/systemd/system").mkdir(parents=True)
    host = Systemd(str(top))
    run(host)
    assert host.calls == ["systemctl daemon-reload", "systemctl stop acme-cdi.path"]
    host.calls.clear()
    takeover.undo_takeover(host)
    assert host.calls == ["systemctl daemon-reload", "systemctl start acme-cdi.path"]


def test_a_spec_of_ours_in_another_directory_is_taken_over_with_its_wish(host: Host, top: Path) -> None:
    wish = Wish("/usr/local/bin/shim", has_all=False)
    elsewhere = Target(directory="/etc/cdi", spec_dirs=("/etc/cdi", "/var/run/cdi"))
    generate.generate(host, wish, elsewhere, ["auto"])
    kept = remembered.every(host)
    assert run(host).written == {SPEC}
    assert [one.path for one in remembered.every(host)] == [SPEC]
    takeover.undo_takeover(host)
    assert remembered.every(host) == kept
    assert not Path(f"{top}{SPEC}").exists()


def test_our_spec_that_was_there_before_stays(host: Host, top: Path, other: Path) -> None:
    aside = other.rename(other.with_suffix(".aside"))
    run(host)
    aside.rename(other)
    run(host)
    assert not other.exists()
    assert takeover.undo_takeover(host).removed == []
    assert Path(f"{top}{SPEC}").exists()


@pytest.mark.usefixtures("other")
def test_a_spec_that_cannot_be_written_leaves_what_was_there(
    host: Host, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(top)
    monkeypatch.setattr(output, "write", _fail)
    outcome = run(host)
    assert [finding.id for finding in outcome.findings] == ["SPEC_WRITE"]
    assert tree(top) == before
    assert not (top / "var/lib/shim/takeover").exists()


def _fail(*_: Any) -> bool:
    raise CdiError([Finding("SPEC_WRITE", "the disk is full")])


def test_another_file_at_the_path_is_never_overwritten(host: Host, other: Path) -> None:
    run(host)
    other.write_text("mine")
    undone = takeover.undo_takeover(host)
    (finding,) = undone.findings
    assert (finding.id, finding.text, finding.path) == ("TAKEOVER", "another file is there now", OTHER)
    assert other.read_text() == "mine"
    other.unlink()
    assert takeover.undo_takeover(host).restored == [OTHER]
    assert other.read_bytes() == TEXT


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("step", ["stop", "forget", "unlink"])
def test_a_takeover_that_was_cut_off_is_undone(
    host: Host, top: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A process that is killed leaves the journal, and what it had changed by then."""
    before = tree(top)
    module = {"stop": units, "forget": remembered, "unlink": Path}[step]
    with monkeypatch.context() as patched:
        patched.setattr(module, step, _killed)
        with pytest.raises(KeyboardInterrupt):
            run(host)
    assert takeover.undo_takeover(host).restored == [OTHER]
    assert tree(top) == before


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("other")
def test_a_copy_that_is_gone_is_reported(host: Host, top: Path) -> None:
    run(host)
    (record,) = takeover.taken(host)
    Path(f"{top}{record.kept}").unlink()
    (finding,) = takeover.undo_takeover(host).findings
    assert (finding.id, finding.text) == ("TAKEOVER", f"its copy, {record.kept}, is missing")


@pytest.mark.usefixtures("other")
def test_the_journal_tells_what_was_there(host: Host) -> None:
    run(host)
    (record,) = takeover.taken(host)
    assert (record.path, record.target, record.is_new, record.mode, record.group) == (OTHER, SPEC, True, 0o640, 44)
    assert [unit.name for unit in record.units] == ["acme-cdi.service", "acme-cdi.path"]
