"""Which podman programs are known: what configure recorded, as long as it is the same file and nobody else's record."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.host import podman_programs
from shim.host.podman_programs import Program, parse, read, records, text, user_file


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "state/shim/podman-programs"


@pytest.fixture
def podman(tmp_path: Path) -> Path:
    program = tmp_path / "podman"
    program.write_bytes(b"\x7fELF podman")
    return program


def note(record: Path, *programs: Path, version: tuple[int, ...] = (5, 4, 2)) -> None:
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.write_text(text(Program(path.stat(), version, str(path)) for path in programs))


def found(record: Path, program: Path) -> tuple[int, ...]:
    """The version of a program, as create looks it up (shim.create.podman_caller); () for none."""
    return next((known.version for known in read(str(record)) if known.is_file(program.stat())), ())


def test_the_version_of_a_recorded_program_is_known(record: Path, podman: Path) -> None:
    assert found(record, podman) == ()
    note(record, podman)
    assert found(record, podman) == (5, 4, 2)


def test_the_form_of_a_line(record: Path, podman: Path) -> None:
    note(record, podman)
    status = podman.stat()
    numbers = f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
    assert record.read_text() == f"{numbers} 5.4.2 {podman}\n"


def test_a_link_is_the_program_that_it_leads_to(record: Path, podman: Path, tmp_path: Path) -> None:
    note(record, podman)
    (tmp_path / "link").symlink_to(podman)
    assert found(record, tmp_path / "link") == (5, 4, 2)


CHANGES: dict[str, Callable[[Path], object]] = {
    "replaced by another file": lambda path: (path.rename(f"{path}.old"), shutil.copy2(f"{path}.old", path)),
    "written to": lambda path: path.write_bytes(b"\x7fELF podman 5"),
    "of another time": lambda path: os.utime(path, ns=(0, 0)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_program_that_changed_is_not_known(record: Path, podman: Path, change: Callable[[Path], object]) -> None:
    note(record, podman)
    change(podman)
    assert found(record, podman) == ()


def test_what_is_written_is_read_line_by_line(podman: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    programs = [Program(other.stat(), (4, 3, 1), str(other)), Program(podman.stat(), (6, 0), str(podman))]
    assert [str(program) for program in parse(text(programs))] == [str(program) for program in programs]
    assert parse(text([])) == []


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="an empty one"),
        pytest.param("{dev} {ino} {size} {mtime} 5.4.2", id="without path"),
        pytest.param("{dev} {ino} {size} 5.4.2 {path}", id="a number is missing"),
        pytest.param("{dev} {ino} {size} {mtime} 5.x {path}", id="no version"),
        pytest.param("{dev} {ino} {size} {mtime}  {path}", id="an empty version"),
        pytest.param("{dev} {ino} {size} x {path}", id="no number"),
        pytest.param("{dev} {ino} {size} {mtime} 5.4.2 podman", id="a relative path"),
    ],
)
def test_a_line_in_another_form_says_nothing_and_the_next_one_counts(
    record: Path, podman: Path, tmp_path: Path, line: str
) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    note(record, other)
    status = podman.stat()
    spoilt = line.format(
        dev=status.st_dev, ino=status.st_ino, size=status.st_size, mtime=status.st_mtime_ns, path=podman
    )
    record.write_text(f"{spoilt}\n{record.read_text()}")
    assert (found(record, podman), found(record, other)) == ((), (5, 4, 2))


def test_a_path_may_hold_blanks_and_no_line_break(record: Path, tmp_path: Path) -> None:
    spaced, broken = tmp_path / "pod man", tmp_path / "pod\nman"
    for path in (spaced, broken):
        path.write_text("x")
    note(record, spaced)
    assert [program.path for program in read(str(record))] == [str(spaced)]
    with pytest.raises(ValueError, match="cannot be recorded"):
        note(record, broken)


def _as_fifo(record: Path) -> None:
    record.unlink()
    os.mkfifo(record)


def _as_directory(record: Path) -> None:
    record.unlink()
    record.mkdir()


def _as_link(path: Path) -> None:
    path.symlink_to(path.rename(path.parent / "elsewhere"))


SPOILED: dict[str, Callable[[Path], object]] = {
    "another user's": lambda record: os.chown(record, 4242, 4242),
    "writable by its group": lambda record: record.chmod(0o664),
    "writable by everybody": lambda record: record.chmod(0o646),
    "in another user's directory": lambda record: os.chown(record.parent, 4242, 4242),
    "in a directory writable by everybody": lambda record: record.parent.chmod(0o777),
    "a link": _as_link,
    "in a directory that is a link": lambda record: _as_link(record.parent),
    "a FIFO": _as_fifo,
    "a directory": _as_directory,
    "no text": lambda record: record.write_bytes(b"\xff\0" * 1000),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_record_that_others_could_have_written_says_nothing(
    record: Path, podman: Path, spoil: Callable[[Path], object]
) -> None:
    note(record, podman)
    assert found(record, podman), "the test can fail"
    spoil(record)
    assert found(record, podman) == ()


def test_the_systems_record_is_judged_with_every_directory_above(
    trusted_path: Path, podman: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = trusted_path / "var/lib/shim/podman-programs"
    monkeypatch.setattr(podman_programs, "SYSTEM_FILE", str(record))
    note(record, podman)
    assert found(record, podman) == (5, 4, 2)
    os.chown(trusted_path / "var", 4242, 4242)
    assert found(record, podman) == ()


def test_without_root_ones_own_record_counts_before_the_systems() -> None:
    assert records(rootful=True, environ={b"HOME": b"/home/a"}) == ("/var/lib/shim/podman-programs",)
    own = "/home/a/.local/state/shim/podman-programs"
    assert records(rootful=False, environ={b"HOME": b"/home/a"}) == (own, "/var/lib/shim/podman-programs")
    assert records(rootful=False, environ={}) == ("/var/lib/shim/podman-programs",)


@pytest.mark.parametrize(
    ("state_home", "home", "file"),
    [
        ("/s", "/h", "/s/shim/podman-programs"),
        ("", "/h", "/h/.local/state/shim/podman-programs"),
        ("s", "/h", "/h/.local/state/shim/podman-programs"),
        ("", "", ""),
    ],
)
def test_where_a_user_has_it(state_home: str, home: str, file: str) -> None:
    assert user_file({b"XDG_STATE_HOME": state_home.encode(), b"HOME": home.encode()}) == file


def test_reading_loads_nothing_that_costs() -> None:
    """It stands on the create path of podman's containers."""
    code = (
        "import sys; before = set(sys.modules); from shim.host import podman_programs;"
        "podman_programs.read('/nonexistent'); print(*sorted(set(sys.modules) - before))"
    )
    top = Path(podman_programs.__file__).parent.parent.parent
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(top)!r}); {code}"]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert {name for name in loaded if not name.startswith("shim")} <= {"__future__"}
