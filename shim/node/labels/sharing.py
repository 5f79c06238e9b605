"""Sharing: how many pods may have a device at a time, as the device plugin has it configured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.node.settings import Settings

NONE, TIME_SLICING, MPS = "none", "time-slicing", "mps"
_EVERY = ("*",)  # patterns of a resource that has all devices of its kind


@dataclass(frozen=True)
class Sharing:
    """The sharing of a node's resources.

    Attributes:
        strategy: of all shared resources: none, time-slicing or mps.
        replicas: name of a resource -> as how many devices each of its devices is offered.
        renamed: shared resources that have a name of their own, so that the product needs no mark.
    """

    strategy: str = NONE
    replicas: Mapping[str, int] = field(default_factory=dict)
    renamed: frozenset[str] = frozenset()

    def of(self, resource: str) -> tuple[str, int]:
        """The strategy and the replicas of a resource: none and 1 where it is not shared."""
        count = self.replicas.get(resource, 1)
        return (self.strategy, count) if count > 1 else (NONE, 1)

    def mark(self, resource: str) -> str:
        """What the product of a shared resource ends in; "" for one that is not shared, or has another name."""
        return "-SHARED" if self.of(resource)[1] > 1 and resource not in self.renamed else ""


def configured(settings: Settings) -> Sharing:
    """The sharing that the device plugin's configuration is.

    Arguments:
        settings: of the node. A kind is shared as the resource of its name is, else as the first that has all its
            devices.
    """
    replicas = {resource.name: resource.replicas for resource in settings.resources}
    renamed = set()
    for resource in settings.resources:
        if resource.kind not in replicas and resource.devices == _EVERY:
            replicas[resource.kind] = resource.replicas
            renamed.add(resource.kind)
    is_shared = any(count > 1 for count in replicas.values())
    return Sharing(TIME_SLICING if is_shared else NONE, replicas, frozenset(renamed))
