"""Whose word a file is: owner x mode x link, for root and for everybody else."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from shim.host.trust import Trust

pytestmark = pytest.mark.rootful

ALICE, BOB, NOBODY = 4242, 4343, 65534


@pytest.fixture
def safe(trusted_path: Path) -> Path:
    """A directory that root alone can write, with all directories above it."""
    return trusted_path


def root() -> Trust:
    return Trust(rootful=True)


def alice() -> Trust:
    return Trust(rootful=False, euid=ALICE, overflow=NOBODY)


def _make(path: Path, owner: int, group: int, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


# (owner, group, mode) -> whom root's and alice's answer is "trusted"
FILES: dict[str, tuple[int, int, int, bool, bool]] = {
    "root's, 0644": (0, 0, 0o644, True, True),
    "root's, 0600": (0, 0, 0o600, True, True),
    "root's, writable by gid 0": (0, 0, 0o664, True, True),
    "root's, writable by another group": (0, 44, 0o664, False, False),
    "root's, of another group that cannot write": (0, 44, 0o644, True, True),
    "root's, writable by everybody": (0, 0, 0o666, False, False),
    "alice's": (ALICE, ALICE, 0o644, False, True),
    "alice's, writable by her group": (ALICE, ALICE, 0o664, False, False),
    "bob's": (BOB, BOB, 0o644, False, False),
    "nobody's": (NOBODY, NOBODY, 0o644, False, False),
}


@pytest.mark.parametrize(("owner", "group", "mode", "by_root", "by_alice"), FILES.values(), ids=FILES.keys())
def test_a_file_is_judged_by_owner_and_mode(
    safe: Path, owner: int, group: int, mode: int, by_root: bool, by_alice: bool
) -> None:
    path = _make(safe / "spec.yaml", owner, group, mode)
    assert (root().objection(str(path)) == "") is by_root
    assert (alice().objection(str(path)) == "") is by_alice


@pytest.mark.parametrize(("owner", "group", "mode", "by_root", "by_alice"), FILES.values(), ids=FILES.keys())
def test_a_directory_above_is_judged_in_the_same_way(
    safe: Path, owner: int, group: int, mode: int, by_root: bool, by_alice: bool
) -> None:
    path = _make(safe / "dir" / "spec.yaml", 0, 0, 0o644)
    os.chown(path.parent, owner, group)
    path.parent.chmod(mode | 0o111)
    assert (root().objection(str(path)) == "") is by_root
    assert (alice().objection(str(path)) == "") is by_alice


@pytest.mark.parametrize(("owner", "group", "mode", "by_root", "by_alice"), FILES.values(), ids=FILES.keys())
def test_what_a_link_leads_to_is_judged_and_where_it_leads_through(
    safe: Path, owner: int, group: int, mode: int, by_root: bool, by_alice: bool
) -> None:
    target = _make(safe / "elsewhere" / "real.yaml", owner, group, mode)
    for number, text in enumerate((str(target), "elsewhere/real.yaml", "../" + safe.name + "/elsewhere/real.yaml")):
        link = safe / f"link{number}.yaml"
        link.symlink_to(text)
        assert (root().objection(str(link)) == "") is by_root
        assert (alice().objection(str(link)) == "") is by_alice


def test_a_link_through_a_directory_of_others_is_not_trusted_though_its_end_is(safe: Path) -> None:
    _make(safe / "good.yaml", 0, 0, 0o644)
    stray = safe / "stray"
    stray.mkdir()
    (stray / "hop").symlink_to(safe / "good.yaml")
    os.chown(stray, BOB, BOB)
    (safe / "link.yaml").symlink_to(stray / "hop")
    assert "stray" in root().objection(str(safe / "link.yaml"))


def test_the_sticky_bit_does_not_make_a_directory_safe(safe: Path) -> None:
    path = _make(safe / "tmp" / "spec.yaml", 0, 0, 0o644)
    path.parent.chmod(0o1777)
    assert "everybody" in root().objection(str(path))


def test_the_real_tmp_is_not_safe_and_the_real_etc_is() -> None:
    assert root().objection("/etc/passwd") == ""
    assert root().objection("/tmp") != ""


def test_the_objection_names_the_place_and_the_cause(safe: Path) -> None:
    path = _make(safe / "spec.yaml", BOB, BOB, 0o644)
    assert root().objection(str(path)) == f"{path} belongs to uid {BOB}"


@pytest.mark.parametrize("trust", [root, alice])
def test_a_circle_of_links_and_a_missing_file_are_errors_of_the_system(safe: Path, trust: Callable[[], Trust]) -> None:
    (safe / "a").symlink_to("b")
    (safe / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        trust().objection(str(safe / "a"))
    with pytest.raises(FileNotFoundError):
        trust().objection(str(safe / "none"))


OVERFLOW = {
    "/etc/cdi/x.yaml": True,
    "/etc": True,
    "/usr/bin/hook": True,
    "/var/run/cdi/x.yaml": True,
    "/run/cdi": True,
    "/run": True,
    "/": True,
    "/etcetera": False,
    "/run/user/1/x": False,
    "/home/bob/x": False,
}


@pytest.mark.parametrize(("path", "wanted"), OVERFLOW.items())
def test_in_a_user_namespace_host_root_looks_like_nobody_and_is_trusted_where_its_files_lie(
    path: str, wanted: bool
) -> None:
    status = os.stat_result((0o100644, 1, 1, 1, NOBODY, NOBODY, 1, 0, 0, 0))
    assert (alice()._judge(path, status) == "") is wanted
    assert root()._judge(path, status) != ""


def test_a_plain_user_trusts_himself_and_root_in_a_real_process(safe: Path) -> None:
    """No arguments: everything is found out by the process itself, here one that became alice."""
    mine = _make(safe / "mine", ALICE, ALICE, 0o644)
    other = _make(safe / "other", BOB, BOB, 0o644)
    safe.chmod(0o755)  # so that she can look at it
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(ALICE, ALICE, ALICE)
        os.setresuid(ALICE, ALICE, ALICE)
        trust = Trust()
        good = trust.objection(str(mine)) == "" and trust.objection("/etc/passwd") == ""
        os._exit(0 if good and trust.objection(str(other)) else 1)
    assert os.waitpid(child, 0)[1] == 0


# --- access lists ---------------------------------------------------------------------------------------------------

OWNER, USER, OWNING_GROUP, GROUP, MASK, OTHERS = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20  # tags of acl(5)
READ, WRITE = 4, 6


def _set_acl(path: Path, *entries: tuple[int, int, int]) -> None:
    """Give a file an access list: (tag, permissions, id) beside those of owner, group and others."""
    whole = [(OWNER, WRITE, -1), (OTHERS, READ, -1), *entries]
    if all(tag != OWNING_GROUP for tag, _, _ in entries):
        whole.append((OWNING_GROUP, READ, -1))
    packed = [struct.pack("<HHi", *entry) for entry in sorted(whole)]
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(packed))


# entries -> root's objection, alice's; the file is root's, of gid 0
LISTS: dict[str, tuple[list[tuple[int, int, int]], str, str]] = {
    "another user may write": ([(USER, WRITE, BOB), (MASK, WRITE, -1)], f"uid {BOB}", f"uid {BOB}"),
    "a user may write, but the mask forbids it": ([(USER, WRITE, BOB), (MASK, READ, -1)], "", ""),
    "a user may read": ([(USER, READ, BOB), (MASK, WRITE, -1)], "", ""),
    "alice may write": ([(USER, WRITE, ALICE), (MASK, WRITE, -1)], f"uid {ALICE}", ""),
    "root may write": ([(USER, WRITE, 0), (MASK, WRITE, -1)], "", ""),
    "another group may write": ([(GROUP, WRITE, 44), (MASK, WRITE, -1)], "group 44", "group 44"),
    "gid 0 may write": ([(GROUP, WRITE, 0), (MASK, WRITE, -1)], "", ""),
    "its own group, which is gid 0": ([(OWNING_GROUP, WRITE, -1), (MASK, WRITE, -1)], "", ""),
}


@pytest.mark.parametrize("where", ["the file", "the directory above"])
@pytest.mark.parametrize(("entries", "by_root", "by_alice"), LISTS.values(), ids=LISTS.keys())
def test_an_access_list_counts(
    safe: Path, where: str, entries: list[tuple[int, int, int]], by_root: str, by_alice: str
) -> None:
    """The mode of such a file shows 0664 and root:root, which counted as writable by gid 0 alone."""
    path = _make(safe / "specs/spec.yaml", 0, 0, 0o644)
    _set_acl(path if where == "the file" else path.parent, *entries)
    for trust, expected in ((root(), by_root), (alice(), by_alice)):
        objection = trust.objection(str(path))
        assert (expected in objection) if expected else objection == ""


def test_a_group_that_the_access_list_lets_read_is_no_writer(safe: Path) -> None:
    """The bits of the group are the list's mask: they say that somebody may write, not the group."""
    path = _make(safe / "spec.yaml", 0, 44, 0o644)
    _set_acl(path, (USER, WRITE, 0), (MASK, WRITE, -1))
    assert path.stat().st_mode & 0o020
    assert root().objection(str(path)) == ""
    _set_acl(path, (USER, WRITE, 0), (OWNING_GROUP, WRITE, -1), (MASK, WRITE, -1))
    assert "group 44" in root().objection(str(path))


def test_an_access_list_is_looked_at_only_where_the_group_may_write(safe: Path) -> None:
    """It costs a system call for each directory above."""
    path = _make(safe / "spec.yaml", 0, 0, 0o644)

    class Look:
        lstat, stat, readlink = staticmethod(os.lstat), staticmethod(os.stat), staticmethod(os.readlink)
        asked: ClassVar[list[str]] = []

        def getxattr(self, path: str, _: str, /) -> bytes:
            self.asked.append(path)
            raise OSError(errno.ENODATA, "none")

    assert Trust(rootful=True, look=Look()).objection(str(path)) == ""
    assert Look.asked == []
    path.chmod(0o664)
    assert Trust(rootful=True, look=Look()).objection(str(path)) == ""
    assert Look.asked == [str(path)]
