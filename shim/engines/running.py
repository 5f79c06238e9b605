"""Containers that run now, by the config.json with which they were made. Only read; for counting, not for deciding.

Each running container has a monitor. containerd and docker start a containerd-shim, whose working directory is the
bundle of its first container; one serves a whole Pod, and the bundles of the others lie beside that one. CRI-O
and podman start conmon, whose command line names the bundle. So monitors lead to the bundles of any state directory.

Sources: containerd, core/runtime/v2 (1.x: runtime/v2), Bundle; conmon(8)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError
from shim.base.paths import parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.host.host import Host

_SHIMS = ("containerd-shim-runc-v2", "containerd-shim-runc-v1", "containerd-shim")
_MANAGER = "io.container.manager"  # an annotation that CRI-O and podman set
_MANAGERS = {"crio": "cri-o", "podman": "libpod"}


@dataclass(frozen=True)
class Container:
    """A container that runs.

    Attributes:
        id: its id.
        config: its config.json.
    """

    id: str
    config: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its process; of two entries of one name the last."""
        process = self.config.get("process")
        entries = process.get("env") if isinstance(process, dict) else None
        pairs = (entry.partition("=") for entry in entries or () if isinstance(entry, str))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def is_privileged(self) -> bool:
        """Whether CAP_SYS_ADMIN is in the bounding set of its process."""
        process = self.config.get("process")
        sets = process.get("capabilities") if isinstance(process, dict) else None
        bounding = sets.get("bounding") if isinstance(sets, dict) else None
        return isinstance(bounding, list) and "CAP_SYS_ADMIN" in bounding


def containers(host: Host, engine: str) -> list[Container]:
    """The containers of an engine that run, ordered by id; those whose config.json cannot be read are left out.

    Arguments:
        host: the machine.
        engine: "containerd", "crio", "docker" or "podman".
    """
    bundles = dict(_of_shims(host, engine) if engine in {"containerd", "docker"} else _of_conmon(host))
    found = []
    for bundle, id in bundles.items():
        config = _config(host, f"{bundle}/config.json")
        if config is not None and (engine not in _MANAGERS or _manager(config) == _MANAGERS[engine]):
            found.append(Container(id, config))
    return sorted(found, key=lambda container: container.id)


def _of_shims(host: Host, engine: str) -> Iterator[tuple[str, str]]:
    """Bundles and ids. dockerd's containers are in the namespace moby, its plugins in plugins.moby."""
    shims = [shim for name in _SHIMS for shim in host.daemons(name)]
    for tasks in dict.fromkeys(parent(shim.cwd) for shim in shims if _is_of(engine, shim.option("-namespace"))):
        for path in host.glob(f"{tasks}/*/init.pid"):
            pid = (host.read(path) or b"").decode("ascii", "replace").strip()
            if pid.isdecimal() and host.exists(f"/proc/{pid}"):
                yield parent(path), parent(path).rpartition("/")[2]


def _is_of(engine: str, namespace: str) -> bool:
    return namespace == "moby" if engine == "docker" else namespace not in {"moby", "plugins.moby"}


def _of_conmon(host: Host) -> Iterator[tuple[str, str]]:
    for monitor in host.daemons("conmon"):
        bundle = monitor.option("-b", "--bundle")
        if bundle.startswith("/"):
            yield bundle, monitor.option("-c", "--cid")


def _config(host: Host, path: str) -> dict[str, Any] | None:
    try:
        config = json.loads(host.read(path) or b"")
    except (CdiError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _manager(config: dict[str, Any]) -> object:
    annotations = config.get("annotations")
    return annotations.get(_MANAGER) if isinstance(annotations, dict) else None
