"""Where our files lie: the launcher and Python, which writes them, must come to the same answer."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.create import record_files
from shim.hooks._core import ffi, lib
from shim.host import identity

TEXT = st.binary(max_size=40).map(lambda text: os.fsdecode(text.replace(b"\0", b"")))

# prints what C and Python say, for a process whose identity and environment are of its own
ASK = """
from shim.hooks._core import ffi, lib
from shim.host import identity
out = ffi.new("char[]", 4096)
found = ffi.string(out).decode() if lib.run_directory(out, 4096) == 0 else ""
print(bool(lib.is_rootful()), identity.is_rootful(), repr(found), repr(identity.run_dir()))
"""


def _record_key(name: str, root: str, id: str) -> str:
    out = ffi.new("char[]", 17)
    lib.record_key(out, os.fsencode(name), os.fsencode(root), os.fsencode(id))
    text: bytes = ffi.string(out)
    return text.decode()


@given(TEXT, TEXT, TEXT)
@example("shim", "", "")
@example("", "", "")
@example("shim", "/run/user/\udcff", "ü")
def test_a_container_has_the_same_key_everywhere(name: str, root: str, id: str) -> None:
    assert _record_key(name, root, id) == record_files.key(name, root, id)


def test_what_is_missing_is_the_empty_text() -> None:
    out = ffi.new("char[]", 17)
    lib.record_key(out, b"shim", ffi.NULL, ffi.NULL)
    assert ffi.string(out).decode() == record_files.key("shim", "", "")


def test_the_parts_of_a_key_are_told_apart() -> None:
    assert len({_record_key("a", "b", "c"), _record_key("ab", "", "c"), _record_key("a", "", "bc")}) == 3


def test_who_we_are_is_the_same_in_c() -> None:
    assert lib.is_rootful() == identity.is_rootful()


@pytest.mark.parametrize("user", [[], ["--map-root-user"], ["--map-current-user"]], ids=str)
@pytest.mark.parametrize(
    ("mode", "home"),
    [
        (0o700, "{home}"),
        (0o700, "{home}/"),
        (0o500, "{home}"),
        (0o711, "{home}"),
        (0o755, "{home}"),
        (0o770, "{home}"),
        (0o702, "{home}"),
        (0o700, "home"),
        (0o700, ""),
        (0o700, "{home}/missing"),
        (0o700, "/tmp"),
        (0o700, "{home}/file"),
    ],
)
def test_the_directory_is_the_same_in_c(user: list[str], mode: int, home: str, tmp_path: Path) -> None:
    place = tmp_path / "home"
    place.mkdir(mode)
    (place / "file").touch(0o600)
    place.chmod(mode)
    enter = ["unshare", "--user", *user] if user else []
    done = subprocess.run(
        [*enter, sys.executable, "-c", ASK],
        env={**os.environ, "XDG_RUNTIME_DIR": home.format(home=place)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    in_c, in_python, found, expected = done.stdout.split()
    assert (in_c, found) == (in_python, expected)
    if user:
        counts = home in {"{home}", "{home}/"} and not mode & 0o022
        assert (in_c, found) == ("False", repr(f"{home.format(home=place)}/shim") if counts else "''")


def test_a_path_that_does_not_fit_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    out = ffi.new("char[]", b"untouched")
    assert lib.run_directory(out, 9) == -errno.ENAMETOOLONG
    assert ffi.string(out) == b"untouched"
    assert lib.run_directory(out, 10) == (0 if identity.is_rootful() else -errno.ENAMETOOLONG)


# --- what is ours ---------------------------------------------------------------------------------------------------


def _mode(mode: int) -> Callable[[Path], object]:
    return lambda path: path.chmod(mode)


def _as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _as_fifo(path: Path) -> None:
    path.rmdir() if path.is_dir() else path.unlink()
    os.mkfifo(path, 0o700)


OURS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "for us alone": (_mode(0o700), True),
    "that others can pass through": (_mode(0o711), True),
    "that others can read": (_mode(0o755), True),
    "that nobody can write": (_mode(0o500), True),
    "that a group can write": (_mode(0o770), False),
    "with an access list, whose mask is the mode of the group": (_mode(0o775), False),
    "that others can write": (_mode(0o702), False),
    "that everybody can write, with the sticky bit": (_mode(0o1777), False),
    "of another user": (lambda path: os.chown(path, 1, 1), False),
    "of another group, which cannot write": (lambda path: os.chown(path, -1, 1), True),
    "behind a link": (_as_link, False),
    "that is a FIFO": (_as_fifo, False),
}


@pytest.mark.parametrize(("change", "expected"), OURS.values(), ids=OURS.keys())
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_what_is_ours_is_the_same_everywhere(
    tmp_path: Path, kind: str, change: Callable[[Path], object], expected: bool
) -> None:
    """Records asked for one thing, the index for another, and the launcher for a third."""
    path = tmp_path / "x"
    path.mkdir() if kind == "directory" else path.touch()
    path.chmod(0o700)
    change(path)
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        in_c = lib.is_ours(fd, stat.S_IFDIR if kind == "directory" else stat.S_IFREG)
        in_python = identity.is_ours(str(path)) if kind == "directory" else identity.is_our_file(os.fstat(fd))
    finally:
        os.close(fd)
    assert (bool(in_c), in_python) == (expected, expected)


def test_a_file_is_no_directory_of_ours_nor_the_reverse(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not identity.is_ours(str(tmp_path / "file"))
    assert not identity.is_ours(str(tmp_path / "missing"))
    assert not identity.is_our_file(tmp_path.stat())
    fd = os.open(tmp_path, os.O_PATH)
    assert (bool(lib.is_ours(fd, stat.S_IFREG)), bool(lib.is_ours(fd, stat.S_IFDIR))) == (False, True)
    os.close(fd)
