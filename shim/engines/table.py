"""The engines that shim knows, and which of them are on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import containerd, crio, docker, podman

if TYPE_CHECKING:
    from shim.engines.model import Engine
    from shim.host.host import Host

ENGINES: dict[str, Engine] = {"containerd": containerd, "crio": crio, "docker": docker, "podman": podman}

_PROGRAMS = {"containerd": "containerd", "crio": "crio", "docker": "dockerd", "podman": "podman"}


def found(host: Host) -> list[Engine]:
    """The engines that are installed on a machine, or run there.

    Raises:
        CdiError: ENGINE_MISSING when there is none.
    """
    names = [name for name, program in _PROGRAMS.items() if host.find(program) or host.daemons(program)]
    if not names:
        text = f"no engine is installed here or runs: there is none of {', '.join(_PROGRAMS.values())}"
        raise CdiError([Finding("ENGINE_MISSING", text)])
    return [ENGINES[name] for name in names]
