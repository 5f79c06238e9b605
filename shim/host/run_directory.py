"""What is wrong with the directory of our files of this boot (shim.host.identity.run_dir). Cold."""

from __future__ import annotations

from shim.base.findings import Finding
from shim.host.identity import WRITABLE_BY_OTHERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.host.look import Look

_S_IFMT, _S_IFDIR = 0o170000, 0o040000


def findings(path: str, look: Look, user: int) -> list[Finding]:
    """Why nothing is kept in the directory: RUN_DIR_UNTRUSTED; none where it is missing, as the next create makes it.

    Arguments:
        path: the directory, "" for none.
        look: answers what lies at a path.
        user: whose directory it must be, an effective uid.
    """
    try:
        status = look.lstat(path) if path else None
    except (OSError, ValueError):
        return []
    if status is None:
        return []
    if status.st_mode & _S_IFMT != _S_IFDIR:
        objection = "it is no directory"
    elif status.st_uid != user:
        objection = f"it belongs to uid {status.st_uid}"
    elif status.st_mode & WRITABLE_BY_OTHERS:
        objection = f"others can write it (mode {status.st_mode & 0o7777:04o})"
    else:
        return []
    text = (
        f"{objection}, so nothing is kept in it: each create reads every spec, and exec finds no variables of devices"
    )
    return [Finding("RUN_DIR_UNTRUSTED", text, f"remove it (`rm -r {path}`): the next create makes it", path=path)]
