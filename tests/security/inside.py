"""The part of a stage that runs inside of it: process 1 of its mount namespace, with the stage as root directory.

Reads one JSON request a line and answers with one line. It starts each command itself, so that the memory that a
command takes can be told (the figure of a child counts what its parent had: that is little here). Run as
`python3 -I -S inside.py DIRECTORY`.
"""

import base64
import json
import os
import resource  # noqa: F401 - os.wait4 would look for it when there is no library left to find
import select
import signal
import sys
from typing import Any


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Start a command and wait for its end, or end it."""
    files = [os.memfd_create(name) for name in ("in", "out", "err")]
    os.write(files[0], base64.b64decode(request["stdin"]))
    os.lseek(files[0], 0, os.SEEK_SET)
    os.chdir(request["cwd"])
    child = os.posix_spawn(
        request["argv"][0],
        request["argv"],
        request["env"],
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files)],
    )
    handle = os.pidfd_open(child)
    ended = bool(select.select([handle], [], [], request["seconds"])[0])
    if not ended:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    os.close(handle)
    os.chdir("/")
    texts = []
    for fd in files[1:]:
        texts.append(os.pread(fd, 1 << 20, 0).decode("utf-8", "replace"))
    for fd in files:
        os.close(fd)
    return {
        "status": os.waitstatus_to_exitcode(status) if ended else None,
        "out": texts[0],
        "err": texts[1],
        "memory": usage.ru_maxrss * 1024,
    }


def main() -> None:
    """Change the root, say so, and serve."""
    os.chroot(sys.argv[1])
    os.chdir("/")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
