"""Trust: which files count as configuration. One function for specs, configuration, hook paths and the index. HOT.

A spec names programs that run as root, so a file counts only if trusted users alone could have put it there: it and
every directory above it belong to a trusted uid and can be written by no group (other than gid 0) and by no others,
nor by anybody else whom a POSIX access list names. The sticky bit does not help: it keeps others from replacing a file,
not from making one. Links are followed step by step, and each path that a link leads through is judged like any other.

Which users are trusted depends on the identity of this process (shim.host.identity): host root trusts uid 0 alone. Any
other user trusts its own uid and root, and below the system directories also the overflow uid, since host root
looks like nobody from inside a user namespace (user_namespaces(7), /proc/sys/kernel/overflowuid).
"""

from __future__ import annotations

import posix

from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.host.look import FileStatus, Look

_S_IFMT, _S_IFLNK = 0o170000, 0o120000
_GROUP_WRITE, _OTHERS_WRITE = 0o020, 0o002
# include/uapi/linux/posix_acl_xattr.h and posix_acl.h: a version, then entries of tag, permissions and id
_ACL_VERSION, _ACL_WRITE = b"\2\0\0\0", 2
_ACL_USER, _ACL_OWNING_GROUP, _ACL_GROUP = 0x02, 0x04, 0x08
_MAX_LINKS = 40  # as the kernel (path_resolution(7))
_DEFAULT_OVERFLOW_UID = 65534

OVERFLOW_UID = "/proc/sys/kernel/overflowuid"

# Where host root's files lie; elsewhere the overflow uid may be anybody
SYSTEM_DIRS = ("/etc", "/usr", "/opt", "/nix", "/run/cdi", "/var/run/cdi", "/var/lib/shim")


class Trust:
    """Judges paths for one identity. Places found good are remembered, so make one for each piece of work.

    Attributes:
        places: every directory, link and file that was looked at so far; trust hangs on their owners and modes.
    """

    __slots__ = ("_good", "_look", "_overflow", "_uids", "places")

    def __init__(
        self,
        *,
        rootful: bool | None = None,
        euid: int | None = None,
        overflow: int | None = None,
        look: Look = posix,
    ) -> None:
        """Decide which users are trusted.

        Arguments:
            rootful: whether we are the host's root; found out when not given.
            euid: our effective uid; found out when not given.
            overflow: the overflow uid; read from OVERFLOW_UID when not given.
            look: answers what lies at a path.
        """
        self._look = look
        if identity.is_rootful() if rootful is None else rootful:
            self._uids = frozenset({0})
            self._overflow = -1
        else:
            self._uids = frozenset({0, posix.geteuid() if euid is None else euid})
            self._overflow = overflow_uid(_read(OVERFLOW_UID)) if overflow is None else overflow
        self._good: set[str] = set()
        self.places: set[str] = set()

    def objection(self, path: str) -> str:
        """Why a path is not trusted.

        Arguments:
            path: an absolute path, to a file or directory that exists.
        Returns:
            "" when it is trusted, else one clause that names the path and the cause.
        Raises:
            OSError: a part of the path is missing, cannot be looked at, or is a circle of links (ELOOP).
        """
        ahead = _parts(path)
        here = ""
        links = 0
        self.places.add("/")
        objection = self._judge("/", self._look.lstat("/"))
        while ahead and not objection:
            part = ahead.pop()
            if part == "..":
                here = here.rpartition("/")[0]
                continue
            there = f"{here}/{part}"
            if there in self._good:
                here = there
                continue
            self.places.add(there)
            status = self._look.lstat(there)
            if status.st_mode & _S_IFMT == _S_IFLNK:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(40, "Too many levels of symbolic links", path)
                target = self._look.readlink(there)
                here = "" if target.startswith("/") else here
                ahead += _parts(target)
                continue
            objection = self._judge(there, status)
            here = there
        return objection

    def _judge(self, path: str, status: FileStatus) -> str:
        trusted = status.st_uid in self._uids or (status.st_uid == self._overflow and _is_system(path))
        if not trusted:
            return f"{path} belongs to uid {status.st_uid}"
        if status.st_mode & _OTHERS_WRITE:
            return f"{path} can be written by everybody"
        if status.st_mode & _GROUP_WRITE:
            writer = self._other_writer(path, status.st_gid)
            if writer:
                return f"{path} can be written by {writer}"
        self._good.add(path)
        return ""

    def _other_writer(self, path: str, group: int) -> str:
        """Another than owner, root and gid 0 who can write where the group's bits allow it, "" for nobody."""
        acl = identity.access_list(path, self._look)
        if not acl:
            return f"group {group}" if group else ""
        if acl[:4] != _ACL_VERSION:
            return "others: its access list has an unknown form"
        for at in range(4, len(acl), 8):
            tag, permissions, id = (int.from_bytes(acl[at + a : at + b], "little") for a, b in ((0, 2), (2, 4), (4, 8)))
            if not permissions & _ACL_WRITE:
                continue
            if tag == _ACL_USER and id not in self._uids:
                return f"uid {id}, by its access list"
            if tag == _ACL_GROUP and id != 0:
                return f"group {id}, by its access list"
            if tag == _ACL_OWNING_GROUP and group != 0:
                return f"group {group}"
        return ""


def _parts(path: str) -> list[str]:
    """The components of a path, last first, without empty ones and `.`."""
    return [part for part in reversed(path.split("/")) if part not in {"", "."}]


def _is_system(path: str) -> bool:
    """Whether host root's files lie there; the directories above them count too: `/`, `/run`, `/var` and so on."""
    return any(
        path == directory or path.startswith(f"{directory}/") or f"{directory}/".startswith(f"{path.rstrip('/')}/")
        for directory in SYSTEM_DIRS
    )


def overflow_uid(text: str) -> int:
    """The uid that stands for those outside of a user namespace; `text` is the content of OVERFLOW_UID, "" for none."""
    return int(text) if text.strip().isdigit() else _DEFAULT_OVERFLOW_UID


def _read(path: str) -> str:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return posix.read(fd, 16).decode("ascii", "replace")
    finally:
        posix.close(fd)
