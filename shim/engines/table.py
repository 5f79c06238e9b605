"""The engines that shim knows, one line each, and which of them are on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import containerd, crio, docker, podman

if TYPE_CHECKING:
    from shim.engines.contract import Engine
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
