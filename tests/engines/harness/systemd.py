"""A systemd as process 1 of a pid namespace, inside a sandbox; it knows the units that it is given, and few others."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from . import programs
from .sandbox import Result, Sandbox, wait_until

UNITS = "/run/units"
_TARGETS = ("basic", "paths", "shutdown", "slices", "sockets", "sysinit", "timers", "umount")
_JOURNAL = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")
OWN = (*(f"{name}.target" for name in _TARGETS), *_JOURNAL)
PID = "/run/systemd.pid"
_CGROUPS = Path("/sys/fs/cgroup")
PROGRAM = "/lib/systemd/systemd"

# Its cgroups are below that of the sandbox, which removes them
START = f"""
for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [ -e $hierarchy/cgroup.procs ] || continue
    mkdir -p $hierarchy/$0 && echo $$ > $hierarchy/$0/cgroup.procs
done
echo $$ > {PID}
exec unshare --pid --mount --fork --kill-child=KILL --mount-proc sh -c "$1" sh \\
    env container=sandbox SYSTEMD_UNIT_PATH={UNITS} SYSTEMD_PROC_CMDLINE= PATH="$PATH" \\
    {PROGRAM} --system --unit=basic.target --show-status=no
"""
# systemd mounts a hierarchy for each controller of /proc/cgroups that has none, and one with a group in it stays in the
# kernel: every later process has it in /proc/self/cgroup, and engines find no mount of it. So it is shown only
# controllers that have one. Its directories and links are made in a tmpfs of its own, with the machine's hierarchies.
OWN_CGROUPS = """
top=/sys/fs/cgroup
if [ ! -e $top/cgroup.procs ]; then
    mkdir -p /run/cgroup && mount -t tmpfs -o mode=755 tmpfs /run/cgroup
    for hierarchy in $top/*; do
        copy=/run/cgroup/${hierarchy##*/}
        if [ -L "$hierarchy" ]; then cp -P "$hierarchy" "$copy"; continue; fi
        mkdir "$copy" && mount --rbind "$hierarchy" "$copy"
    done
    mount --rbind /run/cgroup $top
    awk '/^#/ || $2 != 0' /proc/cgroups > /run/controllers
    mount --bind /run/controllers /proc/cgroups
fi
exec "$@"
"""
ENTER = f'pid=$(cat {PID}); exec nsenter --target=$(cat /proc/$pid/task/$pid/children) --pid --mount "$0" "$@"'


def _hierarchies() -> list[str]:
    """The directories of hierarchies, and the controllers that have one."""
    names = [path.name for path in sorted(_CGROUPS.iterdir())]
    table = [line.split() for line in Path("/proc/cgroups").read_text().splitlines()[1:]]
    return names + [words[0] for words in table if words[1] != "0"]


class Systemd:
    """The manager, and its systemctl.

    Arguments:
        units: name -> text.
    """

    def __init__(self, sandbox: Sandbox, units: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        self._hierarchies = _hierarchies()
        programs.find(PROGRAM, "systemctl")
        sandbox.run("mkdir", UNITS).ok()
        sandbox.run("cp", *(f"/lib/systemd/system/{name}" for name in OWN), UNITS).ok()
        for name, text in units.items():
            sandbox.run("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat > "$0"', f"{UNITS}/{name}", stdin=text).ok()
        self._process = subprocess.Popen(
            sandbox.command("/bin/sh", "-c", START, sandbox.cgroup, OWN_CGROUPS),
            stdin=subprocess.DEVNULL,
            env=sandbox.environment(),
            start_new_session=True,
        )
        wait_until(lambda: self("is-active", "basic.target").status == 0, "systemd is ready")

    def __call__(self, *words: str) -> Result:
        """Call systemctl, as process of the same namespace: systemd answers no other."""
        return self._sandbox.run("/bin/sh", "-c", ENTER, "systemctl", *words)

    def process(self, unit: str) -> Path:
        """The directory in /proc of a service's main process, as seen from outside of the sandbox."""
        group = self("show", "--property=ControlGroup", "--value", unit).ok().strip()
        for top in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup"):
            file = Path(top + group, "cgroup.procs")
            if file.is_file():
                return Path("/proc", file.read_text().split()[0])
        raise FileNotFoundError(group)

    def stop(self) -> None:
        """End it, and with it all that it has started."""
        self._sandbox.run("/bin/sh", "-c", f"kill -KILL $(cat {PID})").ok()
        self._process.wait(30)
        assert _hierarchies() == self._hierarchies, "systemd has left hierarchies on this machine"
