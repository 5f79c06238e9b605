"""Telling it where the user will see it. HOT.

containerd and docker show only the last error line of the `--log` file, CRI-O only stderr, podman one or the other,
and each of them one line: so exactly one line goes to both, in runc's form, and nothing to `--log` when the create
goes on. A create that goes on writes to stderr only where that is a terminal: engines connect it to the container's
own output. Control characters are escaped: a device name must not be able to write a log line of its own.
"""

from __future__ import annotations

import posix
import time

from shim.base import fastjson
from shim.base.findings import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.base.findings import CdiError, Finding

PODMAN_LOG = "/oci-log"  # how the path ends that podman gives in --log (libpod, oci_conmon_common.go)
_LONGEST = 8192


def fail(error: CdiError, log: str, log_format: str) -> None:
    """Report an error that ends the create.

    Arguments:
        error: makes one line of its whole text, which may hold more than its findings (where was searched), between
            the id and the remedy of the first of them.
        log: the runtime's --log file, "" when none was given.
        log_format: "text" or "json", the form of runc's logrus lines.
    """
    first = error.findings[0]
    message = one_line(f"shim: {first.id}: {error} ({first.remedy})", _LONGEST)
    # the log first: it is what containerd shows, and standard error may be a pipe without a reader
    if log and log != "/dev/stderr":
        # podman puts the runtime's name in front: "Error: OCI runtime error: shim: shim: …" (in C: report)
        logged = message.removeprefix("shim: ") if log.endswith(PODMAN_LOG) else message
        _append(log, _log_line(logged, log_format))
    _write_stderr(message)


def warn(finding: Finding) -> None:
    """Report a warning where a person sees it: on stderr, if that is a terminal. The log has it in any case.

    The create goes on, so `--log` stays as it is, and so does whatever else stderr is: containerd and docker connect it
    to the container's output, so that a warning there would be a line of the application.
    """
    if not posix.isatty(2):
        return
    _write_stderr(one_line(f"shim: warning: {finding.id}: {finding} ({finding.remedy})", _LONGEST))


def say(line: str) -> None:
    """One line on stderr, about something that is no finding."""
    _write_stderr(one_line(line, _LONGEST))


def _log_line(message: str, log_format: str) -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if log_format == "json":
        return fastjson.dumps({"level": "error", "msg": message, "time": now})
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    return f'time="{now}" level=error msg="{quoted}"'


def _append(path: str, line: str) -> None:
    # O_NONBLOCK: a FIFO without a reader must not hold us up. A log that cannot be written changes nothing.
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOFOLLOW
    try:
        fd = posix.open(path, flags, 0o644)
    except OSError:
        return
    try:
        posix.write(fd, (line + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass
    finally:
        posix.close(fd)


def _write_stderr(line: str) -> None:
    try:
        posix.write(2, (line + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass
