"""Paths as text, and system errors as words. HOT: imports nothing.

Paths of a spec or a config.json belong to another machine's view (a container), so they are cleaned as text and never
looked up. Errors are worded here once, because engines read our text: "no such file or directory" and "permission
denied" in an error turn a refused container into "command not found" (exit status 127 or 126).
"""

from __future__ import annotations

# In C: `problems` in native/report.c, for the launcher and the hooks; a test compares the two.
_REASONS = {
    "ENOENT": "it is missing",
    "EACCES": "it is not accessible to this user",
    "EPERM": "access is not allowed",
    "ENOTDIR": "it is not a directory, or lies below a file",
    "EISDIR": "it is a directory",
    "ELOOP": "its links form a loop",
    "ENAMETOOLONG": "the path is too long",
    "ENXIO": "it is a socket, or a device without driver",
    "EMFILE": "this process has no file descriptor left (EMFILE)",
    "ENFILE": "the system has no file descriptor left (ENFILE)",
    "ENOSPC": "the file system is full",
    "EDQUOT": "the disk quota is used up",
    "EROFS": "the file system is read-only",
    "EEXIST": "it exists already",
    "EIO": "the disk reports an error (EIO)",
    "ENOEXEC": "it is not a program for this machine",
    "E2BIG": "the command line and the environment are too long",
    "EINVAL": "it cannot be the name of a file",  # Python's own, for a NUL in it
}


def reason(error: OSError | ValueError) -> str:
    """What went wrong, a clause of its own: "it is missing", "its links form a loop"."""
    import errno  # late: its numbers take a tenth of a millisecond

    number = error.errno if isinstance(error, OSError) else errno.EINVAL
    if number is None:
        return str(error)  # not the system's, and worded where it was raised
    name = errno.errorcode.get(number, "an unnamed system error")
    return _REASONS.get(name, f"the system refuses it ({name})")


def unexpected(error: Exception) -> str:
    """An unexpected exception as text: its type and message, a system error in the words above."""
    text = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        text = f"{error.filename}: {reason(error)}" if error.filename else reason(error)
    return f"{type(error).__name__}: {text}"


def clean(path: str) -> str:
    """The shortest path that means the same as text: no empty parts, no ".", ".." taken back where possible.

    An empty path is "."; ".." above the root is dropped, above a relative path it stays. No link is looked at.
    """
    rooted = path.startswith("/")
    if rooted and "//" not in path and "/." not in path and path[-1] != "/":
        return path  # as nearly all are: a create cleans hundreds
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if kept and kept[-1] != "..":
                kept.pop()
                continue
            if rooted:
                continue
        kept.append(part)
    text = "/".join(kept)
    if rooted:
        return "/" + text
    return text or "."


def parent(path: str) -> str:
    """The directory in which a path lies, as text."""
    return path.rpartition("/")[0]
