"""Running containers, by the config.json with which they were created. Only read; for counting, not for deciding.

Each running container has a monitor. containerd and docker start a containerd-shim, whose working directory is the
bundle of its first container; it serves a whole Pod, and the bundles of the Pod's other containers are beside that
bundle. CRI-O and podman start conmon, whose command line names the bundle. So monitors lead to the bundles of any
state directory.

Sources: containerd, core/runtime/v2 (1.x: runtime/v2), Bundle; conmon(8)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError
from shim.base.paths import parent
from shim.engines.in_use import SHIMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shim.host.host import Host


@dataclass(frozen=True)
class Container:
    """A container that runs.

    Attributes:
        id: its id.
        config: its config.json.
        program: the runtime that its monitor names, "" where it names none and runs runc.
    """

    id: str
    config: dict[str, Any]
    program: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its process; of two entries of the same name the last."""
        process = self.config.get("process")
        entries = process.get("env") if isinstance(process, dict) else None
        pairs = (entry.partition("=") for entry in entries or () if isinstance(entry, str))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def annotations(self) -> dict[str, Any]:
        """Its annotations."""
        annotations = self.config.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def is_privileged(self) -> bool:
        """Whether CAP_SYS_ADMIN is in the bounding set of its process."""
        process = self.config.get("process")
        sets = process.get("capabilities") if isinstance(process, dict) else None
        bounding = sets.get("bounding") if isinstance(sets, dict) else None
        return isinstance(bounding, list) and "CAP_SYS_ADMIN" in bounding


def of_shims(host: Host, is_of: Callable[[str], bool]) -> list[Container]:
    """The containers that run under a containerd-shim, ordered by id; without those whose config.json cannot be read.

    Arguments:
        host: the machine.
        is_of: whether a namespace of containerd belongs to the engine.
    """
    shims = [shim for name in SHIMS for shim in host.daemons(name)]
    bundles = []
    for tasks in dict.fromkeys(parent(shim.cwd) for shim in shims if is_of(shim.option("-namespace"))):
        for path in host.glob(f"{tasks}/*/init.pid"):
            pid = host.text(path)
            if pid.isdecimal() and host.exists(f"/proc/{pid}"):
                bundle = parent(path)
                bundles.append((bundle, bundle.rpartition("/")[2], host.text(f"{bundle}/runtime")))
    return _readable(host, bundles)


def of_conmon(host: Host, manager: str) -> list[Container]:
    """The containers that run under a conmon, as `of_shims`.

    Arguments:
        host: the machine.
        manager: what the engine writes as io.container.manager, an annotation of each container.
    """
    options = (("-b", "--bundle"), ("-c", "--cid"), ("-r", "--runtime"))
    monitors = [tuple(monitor.option(*names) for names in options) for monitor in host.daemons("conmon")]
    containers = _readable(host, [(bundle, id, program) for bundle, id, program in monitors if bundle.startswith("/")])
    return [container for container in containers if container.annotations.get("io.container.manager") == manager]


def _readable(host: Host, bundles: Iterable[tuple[str, str, str]]) -> list[Container]:
    configs = {id: (_config(host, f"{bundle}/config.json"), program) for bundle, id, program in bundles}
    return [Container(id, config, program) for id, (config, program) in sorted(configs.items()) if config is not None]


def _config(host: Host, path: str) -> dict[str, Any] | None:
    try:
        config = json.loads(host.read(path) or b"")
    except (CdiError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None
