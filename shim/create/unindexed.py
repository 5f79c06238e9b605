"""What is known without an index: the configuration and every spec, read from their files. Cold.

What was read is kept for `World.save`, which leaves an index for the next create, and needles for the launcher. Nothing
is written while a decision is made.
"""

from __future__ import annotations

import posix

from shim.cdi import directories, index_writer
from shim.config import location, needles
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.cdi.types import Named
    from shim.config.settings import Settings
    from shim.create.world_types import Judging


class Unsaved:
    """One reading of the files, with their identities from before it."""

    __slots__ = ("_configured", "_inputs", "_look", "_paths", "_trust", "path")

    def __init__(self, path: str, paths: Sequence[str], look: Judging) -> None:
        """Begin.

        Arguments:
            path: the index to leave, "" for none.
            paths: the configuration files that may count.
            look: answers what lies at a path.
        """
        self.path = path
        self._paths = paths
        self._look = look
        self._trust = look.trust(rootful=identity.is_rootful(), user=posix.geteuid())
        self._inputs = index_writer.Inputs(look)

    def read(self) -> tuple[Settings, Named]:
        """The configuration and the devices that go with it. Raises CdiError: SETTINGS or SETTINGS_UNTRUSTED."""
        for path in self._paths:
            self._inputs.note(path)
        found = location.load(trust=self._trust, look=self._look)
        self._configured = self._inputs.settled()
        return found, directories.read(found.spec_dirs, self._trust, self._inputs)

    def save(self, found: Settings, served: Named) -> None:
        """Leave index and needles, unless an input has changed meanwhile. Silent.

        Arguments: of `read`.
        """
        if not self.path or not isinstance(served, directories.Directories):
            return
        ways = sorted(self._trust.places)
        if index_writer.write(self.path, self._inputs, ways, found.to_json(), served) and self._configured:
            directory, _, name = self.path.rpartition("/")
            file = f"{directory}/{name.replace('index', 'needles', 1)}"
            needles.write(file, self._configured, found.needles(), enforces=found.enforce)
