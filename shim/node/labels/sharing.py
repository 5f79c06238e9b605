"""Sharing: how many pods may have a device at a time, as the device plugin has it configured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NONE, TIME_SLICING, MPS = "none", "time-slicing", "mps"


@dataclass(frozen=True)
class Sharing:
    """The sharing of a node's resources.

    Attributes:
        strategy: of all shared resources: none, time-slicing or mps.
        replicas: name of a resource -> as how many devices each of its devices is offered.
        renames: whether a shared resource has a name of its own, so that the product needs no mark.
    """

    strategy: str = NONE
    replicas: Mapping[str, int] = field(default_factory=dict)
    renames: bool = False

    def of(self, resource: str) -> tuple[str, int]:
        """The strategy and the replicas of a resource: none and 1 where it is not shared."""
        count = self.replicas.get(resource, 1)
        return (self.strategy, count) if count > 1 else (NONE, 1)

    def mark(self, resource: str) -> str:
        """What the product of a shared resource ends in; "" for one that is not shared, or has another name."""
        return "-SHARED" if self.of(resource)[1] > 1 and not self.renames else ""
