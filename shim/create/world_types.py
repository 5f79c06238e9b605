"""Types of what a World offers to the modules that it calls, which cannot import it. Only a type checker reads this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shim.host.look import Look, Reader

if TYPE_CHECKING:
    from shim.cdi.types import Named
    from shim.host.trust import Trust


class Judging(Look, Protocol):
    """Answers what lies at a path, and whose files count."""

    def trust(self, *, rootful: bool, user: int) -> Trust:
        """A judge of whose files count, see shim.create.world.World.trust."""


class Reading(Judging, Reader, Protocol):
    """Answers what files hold, too."""

    def content(self, path: str) -> bytes:
        """What a file holds. Raises OSError."""


class Serving(Look, Protocol):
    """Answers which devices the specs serve, too."""

    def served(self) -> Named:
        """The devices of the configured directories, see shim.create.world.World.served."""
