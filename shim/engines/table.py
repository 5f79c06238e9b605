"""The engines that shim knows, one line each; which of them are on a machine, and what runs under shim there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import containerd, crio, docker, in_use, podman

if TYPE_CHECKING:
    from shim.engines.contract import Engine
    from shim.engines.in_use import Container
    from shim.host.host import Host

ENGINES: dict[str, Engine] = {
    containerd.ENGINE.name: containerd.ENGINE,
    crio.ENGINE.name: crio.ENGINE,
    docker.ENGINE.name: docker.ENGINE,
    podman.ENGINE.name: podman.ENGINE,
}


def present(host: Host) -> list[Engine]:
    """The engines that are installed on a machine, or run there.

    Raises:
        CdiError: ENGINE_MISSING when there is none.
    """
    engines = [engine for engine in ENGINES.values() if host.find(engine.program) or host.daemons(engine.program)]
    if not engines:
        programs = ", ".join(engine.program for engine in ENGINES.values())
        raise CdiError([Finding("ENGINE_MISSING", f"no engine is installed here or runs: there is none of {programs}")])
    return engines


def under_launchers(host: Host) -> list[Container]:
    """Every container that runs under a launcher of shim, of any installation and engine, ordered by engine and id."""
    known = {container.id: container for engine in ENGINES.values() for container in engine.under_launchers(host)}
    for container in in_use.of_records(host) if host.root == "/" else ():
        known.setdefault(container.id, container)
    return sorted(known.values(), key=lambda container: (container.engine, container.id))
