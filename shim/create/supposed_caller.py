"""Who would call for a bundle, for `shim explain`, which no engine calls. Cold.

A create identifies its caller by environment and parent process. Here the engine is taken from config.json instead:
enough for an explanation, and never for a create, since an image can write every annotation.
"""

from __future__ import annotations

import os
import posix
import stat
from typing import Any

from shim.create import podman_caller
from shim.create.annotation_origin import MANAGER, PODMAN_UNKNOWN, Origin
from shim.create.world import World
from shim.host import identity, podman_programs

_MANAGER_CRIO = "cri-o"
_SANDBOX_IDS = ("io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID")


class SupposedCaller(World):
    """The host, as it would be seen by a create of the engine that config.json names; podman is that of PATH.

    Arguments:
        annotations: of config.json.
    """

    __slots__ = ("_is_crio",)

    def __init__(self, annotations: object) -> None:
        super().__init__()
        self._is_crio = isinstance(annotations, dict) and annotations.get(MANAGER) == _MANAGER_CRIO

    def _look(self, kind: str, argument: Any) -> Any:
        if kind == "environ" and argument == "CRI_O_EXTERNAL":
            return "1" if self._is_crio else ""
        if kind == "podman":
            origin = _podman(self)
            return [origin.kind, origin.source, origin.remedy]
        return super()._look(kind, argument)


_MAX_LINKS = 40  # as the kernel (path_resolution(7))


def _podman(world: World) -> Origin:
    ways = podman_caller.ways(precreate=False)
    directories = [path for path in world.environ("PATH").split(":") if path.startswith("/")]
    found = next((path for path in directories if _is_program(f"{path}/podman", world)), None)
    if found is None:
        return Origin(PODMAN_UNKNOWN, "there is no podman in PATH whose version could be known", ways)
    path = _resolved(f"{found}/podman", world)  # as podman gives conmon its path
    records = podman_programs.records(rootful=identity.is_rootful(), environ=posix.environ)
    return podman_caller.judge(path, world.stat(path), records, ways, world)


def _is_program(path: str, world: World) -> bool:
    try:
        return stat.S_ISREG(world.stat(path).st_mode) and world.is_executable(path)
    except OSError:
        return False


def _resolved(path: str, world: World) -> str:
    """The path without links, as realpath(3); a part that cannot be looked at stays as it is."""
    ahead = [part for part in reversed(path.split("/")) if part]
    here, links = "", 0
    while ahead:
        part = ahead.pop()
        if part in {".", ".."}:
            here = here.rpartition("/")[0] if part == ".." else here
            continue
        try:
            target = world.readlink(f"{here}/{part}") if links < _MAX_LINKS else ""
        except OSError:  # EINVAL: no link
            target = ""
        if not target:
            here = f"{here}/{part}"
            continue
        links += 1
        here = "" if target.startswith("/") else here
        ahead += [name for name in reversed(target.split("/")) if name]
    return here


def supposed_id(annotations: object, bundle: str) -> str:
    """The id of the sandbox that config.json names, where it is a part of the bundle's path; "" elsewhere.

    Engines call the directory of a bundle, or one above it, by the container's id.
    """
    parts = os.path.realpath(bundle).split("/")
    ids = [annotations.get(key) for key in _SANDBOX_IDS] if isinstance(annotations, dict) else []
    return next((id for id in ids if isinstance(id, str) and id and id in parts), "")
