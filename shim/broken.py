"""What is left to say when our own modules cannot be loaded: SHIM_BROKEN, in the form of shim.create.report.

The launcher says the same when Python itself cannot be started. This is the other half: an installation that is half
removed, or modules that were built for another Python. It needs builtin modules only.
"""

import sys
import time


def tell(words: list[str], error: ImportError) -> None:
    """Report on stderr and, for a create, in the runtime's --log file.

    Arguments:
        words: what the launcher handed over (shim.create.invocation), or a command line.
        error: what could not be imported.
    """
    said = dict(word.partition("=")[::2] for word in words[: words.index("--")]) if "--" in words else {}
    cause = ascii(str(error))[1:-1].replace('"', "'")
    message = f"shim: SHIM_BROKEN: its modules cannot be loaded: {cause} (install shim again)"
    sys.stderr.write(f"{message}\n")
    if said.get("log", "/dev/stderr") == "/dev/stderr":
        return
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f'time="{now}" level=error msg="{message}"'
    if said.get("log-format") == "json":
        line = f'{{"level":"error","msg":"{message}","time":"{now}"}}'
    try:
        with open(said["log"], "a", encoding="ascii") as log:
            log.write(f"{line}\n")
    except OSError:  # a log that cannot be written changes nothing
        pass
