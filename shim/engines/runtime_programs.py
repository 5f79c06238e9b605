"""Programs of runtimes as an engine looks for them: by an absolute path, or by a name that it searches in its own PATH.

A daemon's PATH is that of the service that started it, often shorter than that of a user. A program that only a user
finds is missing for the daemon, which reports it when a container of that runtime is created, not when it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shim.engines.model import Location
    from shim.host.host import Host


def fault(host: Host, location: Location, program: str) -> str:
    """A program and why an engine cannot start it, as "/usr/bin/x, which is missing"; "" where it can.

    Arguments:
        host, location: the machine, and where the configuration of the engine is; its running daemon counts.
        program: as the engine names it; "" where it starts none.
    """
    if not program:
        return ""
    daemon = location.daemon
    if "/" in program or not daemon or not daemon.path:
        return "" if host.find(program) else f"{program}, which is missing"
    if host.find_in(program, daemon.path):
        return ""
    elsewhere = host.find(program)
    there = f"; there is {elsewhere}" if elsewhere else ""
    where = f"of the PATH of the running daemon (process {daemon.pid}): {daemon.path}"
    return f"{program}, which is in no directory {where}{there}"
