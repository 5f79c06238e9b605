"""Who would call for a bundle, for `shim explain`, which no engine calls. Cold.

A create knows its caller by the environment and the parent process. Here the engine is taken from config.json instead:
enough for an explanation, and never for a create, since an image can write every annotation.
"""

from __future__ import annotations

import os
import posix
import shutil
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


def _podman(world: World) -> Origin:
    path = shutil.which("podman")
    ways = podman_caller.ways(precreate=False)
    if path is None:
        return Origin(PODMAN_UNKNOWN, "there is no podman in PATH whose version could be known", ways)
    path = os.path.realpath(path)  # as podman gives conmon its path
    records = podman_programs.records(rootful=identity.is_rootful(), environ=posix.environ)
    return podman_caller.judge(path, world.stat(path), records, ways, world)


def supposed_id(annotations: object, bundle: str) -> str:
    """The id of the sandbox that config.json names, where it is a part of the bundle's path; "" elsewhere.

    Engines call the directory of a bundle, or one above it, by the container's id.
    """
    parts = os.path.realpath(bundle).split("/")
    ids = [annotations.get(key) for key in _SANDBOX_IDS] if isinstance(annotations, dict) else []
    return next((id for id in ids if isinstance(id, str) and id and id in parts), "")
