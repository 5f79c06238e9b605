"""What is left to do when our own modules cannot be loaded, or fail unexpectedly: SHIM_BROKEN.

The launcher does the same when Python itself cannot be started. This is the other half: an installation that is half
removed, damaged files, modules that were built for another Python. Builtin modules only, and shim.base.execute.

What need not fail goes on as the low-level runtime: an exec, or an update whose rules need not be judged, only lacks
what we would add, and a create in which the launcher found nothing that asks needs nothing of us. Everything else ends
here, with one line on stderr and, for a create, in the runtime's --log file.
"""

import posix
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_LONGEST = 1000  # letters of a cause


def end(part: str, words: list[str], error: Exception) -> "NoReturn":
    """Go on as the low-level runtime where that is right, else report and exit.

    Arguments:
        part: what was started: "create", "precreate", "netdevices" or "cli".
        words: what the launcher handed over (shim.create.invocation), or a command line.
        error: what went wrong.
    """
    if part == "cli" and not isinstance(error, (ImportError, SyntaxError, AttributeError)):
        raise error  # a defect of a command, whose traceback helps
    call = words if part == "create" else []
    given = _given(call)
    if given.get("verb") == "exec" or given.get("asks") == "0":
        try:
            from shim.base.execute import execute, let_interrupts_through

            if words[:1] == ["sigint=held"]:  # shim.start did not come so far
                let_interrupts_through()
            execute(given["low"], words[words.index("--") + 1 :], given.get("sigign", "").split(","))
        except Exception as failure:
            error = failure
    tell(call, error)
    posix._exit(1)


def tell(call: list[str], error: Exception) -> None:
    """Report on stderr and, for a create, in the runtime's --log file, in the form of shim.create.report.

    Arguments:
        call: what the launcher handed over for a create, else nothing.
        error: what went wrong.
    """
    given = _given(call)
    name = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    text = str(error)
    if isinstance(error, OSError):  # engines turn the usual words into exit statuses, see shim.base.paths
        text = f"{error.filename or ''} (errno {error.errno})".lstrip()
    cause = _plain(f"{name}{text}{_position(error)}")
    how = "" if sys.hexversion >= 0x030A0000 else " with Python 3.10 or later"
    message = f"shim: SHIM_BROKEN: its modules cannot be loaded: {cause} (install shim again{how})"
    log = given.get("log", "/dev/stderr")
    if log != "/dev/stderr":
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        logged = message.removeprefix("shim: ") if log.endswith("/oci-log") else message  # as in shim.create.report
        line = f'time="{now}" level=error msg="{logged}"'
        if given.get("log-format") == "json":
            line = f'{{"level":"error","msg":"{logged}","time":"{now}"}}'
        flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
        try:
            _write(posix.open(log, flags | posix.O_NONBLOCK | posix.O_NOCTTY, 0o644), line)
        except (OSError, ValueError):  # a log that cannot be written changes nothing
            pass
    _write(2, message)


def _given(call: list[str]) -> dict[str, str]:
    """The launcher's words in front of `--`."""
    return dict(word.partition("=")[::2] for word in call[: call.index("--")]) if "--" in call else {}


def _position(error: Exception) -> str:
    """The line at which an error was raised."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""


def _plain(text: str) -> str:
    """The text as one line of ASCII that needs no quoting."""
    return ascii(text[:_LONGEST])[1:-1].replace('"', "'").replace("\\", "/")


def _write(fd: int, line: str) -> None:
    try:
        posix.write(fd, f"{line}\n".encode("ascii", "replace"))
    except OSError:
        pass
