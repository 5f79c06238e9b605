"""Process 1 of a sandbox: arranges the private mounts, says `ready`, and waits until the test process is gone.

usage (inside new mount, pid, net, ipc and uts namespaces): inside.py SCRATCH VENV hybrid|v1 [USER:UID]

Its standard input is a pipe from the test process. When that closes, by intent or because pytest was killed, this
process ends, and with it, by the rule of pid namespaces, every daemon and container started inside. No clean-up code
has to run for that, so none can be forgotten.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

PRIVATE = Path("/etc/shim-tests")  # ours, in an overlay of /etc, all of it owned by root: paths that the shim trusts


def mount(*arguments: str) -> None:
    subprocess.run(["/bin/mount", *arguments], check=True)


def bind(source: Path, target: Path) -> None:
    """Show a directory of the scratch directory at target, so that tests outside can write what is seen inside."""
    target.mkdir(parents=True, exist_ok=True)
    mount("--bind", str(source), str(target))


def private_directories(scratch: Path, venv: Path) -> None:
    """Make /run and /var/lib/containers empty, where engines write whatever they are told; /etc, /var/lib: overlays."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path("/run/lock").mkdir()
    Path("/run/lock").chmod(0o1777)
    # A runtime gives its standard streams to the container's user: without a node of our own the machine's /dev/null.
    os.mknod("/run/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    Path("/run/null").chmod(0o666)
    mount("--bind", "/run/null", "/dev/null")
    for place in ("/etc", "/var/lib"):  # below the latter the shim keeps what configure found
        upper, work = Path(f"/run/overlay{place}"), Path(f"/run/overlay/work{place}")
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        mount("-t", "overlay", "-o", f"lowerdir={place},upperdir={upper},workdir={work}", "overlay", place)
    if Path("/var/lib/containers").is_dir():
        mount("-t", "tmpfs", "-o", "mode=700", "tmpfs", "/var/lib/containers")
    bind(scratch / "etc-cdi", Path("/etc/cdi"))
    bind(scratch / "run-cdi", Path("/run/cdi"))
    bind(scratch / "etc-shim", Path("/etc/shim"))
    bind(scratch / "host", PRIVATE / "host")
    bind(scratch / "log", Path("/var/log"))
    bind(venv, PRIVATE / "venv")


def cgroup_view(mode: str) -> None:
    """In mode v1 the unified hierarchy beside the v1 ones is taken away: crun refuses to run on such a hybrid."""
    if mode == "v1" and Path("/sys/fs/cgroup/unified").is_mount():
        subprocess.run(["/bin/umount", "/sys/fs/cgroup/unified"], check=True)


def add_user(name: str, uid: int) -> None:
    """An unprivileged user with 65536 subordinate ids, known in this sandbox only."""
    lines = {
        "passwd": f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh",
        "group": f"{name}:x:{uid}:",
        "subuid": f"{name}:{uid * 100000}:65536",
        "subgid": f"{name}:{uid * 100000}:65536",
    }
    for file, line in lines.items():
        with Path("/etc", file).open("a", encoding="ascii") as stream:
            stream.write(line + "\n")


def main() -> None:
    scratch, venv, mode, *users = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    private_directories(Path(scratch), Path(venv))
    cgroup_view(mode)
    for user in users:
        name, _, uid = user.partition(":")
        add_user(name, int(uid))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the orphans that engines leave to process 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
