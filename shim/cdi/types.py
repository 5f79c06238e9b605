"""Types for type checkers alone: what a plan needs, read from directories or from the index.

Never imported when the program runs, since `typing` costs 12 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from shim.base.findings import Finding


class ServingSpec(Protocol):
    """What a plan needs of a spec."""

    @property
    def path(self) -> str:
        """The spec file."""

    @property
    def edits(self) -> dict[str, Any]:
        """The edits that go with every device."""

    @property
    def devices(self) -> dict[str, dict[str, Any]]:
        """Name -> container edits; at least the device that was looked up."""


class Noting(Protocol):
    """Notes the identity of each file and directory before it is read (shim.cdi.index_writer.Inputs)."""

    def note(self, path: str) -> None:
        """A path that will be read next, or that is missing."""


class IndexFile(Protocol):
    """An open index (shim.cdi.index.Indexed)."""

    @property
    def header(self) -> dict[str, Any]:
        """Its header."""

    @property
    def names(self) -> bytes:
        """The lines of the devices."""

    @property
    def rest(self) -> tuple[int, int]:
        """Offset and length of the object with findings, conflicts and shadowed devices."""

    def get(self, name: str) -> tuple[ServingSpec, str] | None:
        """The spec that serves a device, and the device's name."""

    def spec(self, number: int) -> ServingSpec:
        """A spec by its number in the header."""

    def record(self, offset: int, length: int) -> dict[str, Any]:
        """An object of the file."""


class Named(Protocol):
    """The devices that spec directories serve, by their names: Directories, Indexed or IndexLists."""

    def get(self, name: str) -> tuple[ServingSpec, str] | None:
        """The spec that serves a device, and the device's name in it."""

    def whole(self) -> Served:
        """The same with the lists for people and errors."""


class Served(Named, Protocol):
    """The devices that spec directories serve: Directories, or IndexLists."""

    @property
    def dirs(self) -> list[str]:
        """The directories, lowest priority first."""

    @property
    def searched(self) -> list[tuple[str, str]]:
        """(directory, "ok", "missing" or why it cannot be listed)."""

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """Path -> its findings."""

    @property
    def conflicts(self) -> dict[str, list[str]]:
        """Qualified name -> files of a directory that all define it."""

    @property
    def shadowed(self) -> list[tuple[str, str, str]]:
        """(qualified name, path that loses, path that serves it)."""

    def driver(self, kind: str) -> Sequence[ServingSpec]:
        """The specs of the kind in the highest directory that has any; their own edits are the driver's files."""

    def devices(self) -> list[str]:
        """All qualified names, sorted."""

    def kinds(self) -> list[str]:
        """VENDOR/CLASS of all usable specs, sorted."""
