"""Identity: host root, or a user in a user namespace or without privileges. HOT.

Decided once, from /proc/self/uid_map: everything that depends on it (where the configuration lies, whom to trust)
asks here and nowhere else.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.host.look import FileStatus, Look

_S_IFMT, _S_IFDIR, _S_IFREG = 0o170000, 0o040000, 0o100000
WRITABLE_BY_OTHERS = 0o022  # of a mode
RUN_DIR = "/run/shim"  # of the host's root
_WHOLE_RANGE = [b"0", b"0", b"4294967295"]


_is_whole_map: list[bool] = []  # the answer for this process, which never enters another user namespace


def is_rootful(uid_map: str = "") -> bool:
    """Whether this process is the host's root: effective uid 0 and the identity mapping of user_namespaces(7).

    Arguments:
        uid_map: the file to read, for tests. By default /proc/self/uid_map, which is read once in a process.
    """
    if posix.geteuid() != 0:
        return False
    if uid_map:
        return _is_whole(uid_map)
    if not _is_whole_map:
        _is_whole_map.append(_is_whole("/proc/self/uid_map"))
    return _is_whole_map[0]


def _is_whole(uid_map: str) -> bool:
    """Whether a mapping changes nothing; where it cannot be read there are no user namespaces."""
    try:
        fd = posix.open(uid_map, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return True
    try:
        return posix.read(fd, 4096).split() == _WHOLE_RANGE
    finally:
        posix.close(fd)


def run_dir(environ: dict[bytes, bytes] | None = None, look: Look = posix) -> str:
    """Where our files of this boot lie: index and records. It may be missing; the writer makes it, with mode 0700.

    Arguments:
        environ: the environment as bytes, for tests; the process's own when not given.
        look: answers what lies at a path.
    Returns:
        "/run/shim" for the host's root; else `shim` below $XDG_RUNTIME_DIR, or "" where that is not set, not ours, or
        can be written by others. (The XDG Base Directory Specification demands mode 0700, but podman itself lets
        everybody pass through it. What we make there is 0700.)
    """
    if is_rootful():
        return RUN_DIR
    value = (posix.environ if environ is None else environ).get(b"XDG_RUNTIME_DIR", b"")
    home = value.decode("utf-8", "surrogateescape")
    if not home.startswith("/"):
        return ""
    try:
        status = look.stat(home)
    except OSError:
        return ""
    return f"{home}/shim" if _is_ours(status, _S_IFDIR) else ""


def mount_namespace() -> str:
    """What names our mount namespace, "" where that cannot be found out."""
    try:
        return posix.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""


def user_directory(variable: bytes, usual: str, environ: dict[bytes, bytes] | None = None) -> str:
    """A directory of a user without root: the one that a variable names, else the usual one below $HOME.

    Arguments:
        variable: b"XDG_CONFIG_HOME" or b"XDG_STATE_HOME".
        usual: where it is by default: ".config", ".local/state".
        environ: the environment as bytes, for tests; the process's own when not given.
    Returns:
        its path, "" where neither variable has an absolute one: others do not count.

    Source: XDG Base Directory Specification, "Environment variables".
    """
    variables = posix.environ if environ is None else environ
    named = variables.get(variable, b"").decode("utf-8", "surrogateescape")
    if named.startswith("/"):
        return named
    home = variables.get(b"HOME", b"").decode("utf-8", "surrogateescape")
    return f"{home}/{usual}" if home.startswith("/") else ""


def short_name(text: str) -> str:
    """What a file in there is called after a text: 16 hexadecimal digits. The launcher computes the same.

    FNV-1a, 64 bits: from 0xcbf29ce484222325 on, for each byte exclusive or, then times 0x100000001b3, modulo 2^64. Two
    texts may share one, so each file holds the text, too.
    """
    number = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogateescape"):
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}"


def is_ours(path: str, look: Look = posix) -> bool:
    """Whether a directory is there, no link, belongs to us, and can be written by no other user.

    Others may pass through it: a line of tmpfiles.d makes /run/shim with mode 0755. The same rule stands in C (is_ours
    in native/places.c). For the places that $XDG_* name and those that we make ourselves; whose word a file is,
    shim.host.trust says.
    """
    try:
        return _is_ours(look.lstat(path), _S_IFDIR)
    except (OSError, ValueError):
        return False


def is_our_file(status: FileStatus) -> bool:
    """The same for an open file: regular, ours, and writable by no other user."""
    return _is_ours(status, _S_IFREG)


def access_list(path: str, look: Look = posix) -> bytes:
    """The POSIX access list of a file (acl(5)) in the kernel's form, b"" where there is none.

    With a list the group's bits of the mode are its mask, which limits all writers that it adds: without the bit for
    writing it adds none, and need not be looked at.
    """
    try:
        return look.getxattr(path, "system.posix_acl_access")
    except OSError:  # ENODATA, or EOPNOTSUPP of the file system
        return b""


def make_directory(path: str) -> bool:
    """Make a directory of ours, with mode 0700, where it is missing; whether it is ours now. Raises OSError."""
    try:
        posix.mkdir(path, 0o700)
    except FileExistsError:
        pass
    return is_ours(path)


def _is_ours(status: FileStatus, kind: int) -> bool:
    of_kind = status.st_mode & _S_IFMT == kind
    return of_kind and status.st_uid == posix.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS
