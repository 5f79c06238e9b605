"""All lists of an index, for people and for errors; used instead of Directories. Cold."""

from __future__ import annotations

from shim.base.findings import from_json
from shim.base.paths import parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.base.findings import Finding
    from shim.cdi.spec import Spec
    from shim.cdi.types import IndexFile, ServingSpec

    Json = dict[str, Any]


class IndexLists:
    """The devices of an index, and the findings, conflicts and shadowed devices of its directories.

    Attributes:
        dirs: the spec directories, lowest priority first.
        searched: as in Directories.
    """

    __slots__ = ("_index", "_loaded", "dirs", "searched")

    def __init__(self, index: IndexFile) -> None:
        self._index = index
        self._loaded: Json | None = None
        self.dirs: list[str] = index.header["dirs"]
        self.searched: list[tuple[str, str]] = [(path, state) for path, state in index.header["searched"]]

    def whole(self) -> IndexLists:
        """As Directories.whole: this object."""
        return self

    def get(self, name: str) -> tuple[ServingSpec, str] | None:
        """As Directories.get. Raises DamagedError."""
        return self._index.get(name)

    def driver(self, kind: str) -> list[ServingSpec]:
        """As Directories.driver. Raises DamagedError."""
        numbers = {spec[0]: number for number, spec in enumerate(self._index.header["specs"]) if spec[1] == kind}
        highest = parent(next(reversed(numbers), ""))
        return [self._index.spec(number) for path, number in numbers.items() if parent(path) == highest]

    def devices(self) -> list[str]:
        """As Directories.devices."""
        lines = self._index.names.decode("utf-8", "surrogateescape").split("\n")
        return [line.partition("\t")[0] for line in lines if line]

    def kinds(self) -> list[str]:
        """As Directories.kinds."""
        return sorted({kind for _, kind, _, _ in self._index.header["specs"]})

    def vendors(self) -> list[str]:
        """As Directories.vendors."""
        return sorted({kind.partition("/")[0] for kind in self.kinds()})

    def classes(self) -> list[str]:
        """As Directories.classes."""
        return sorted({kind.partition("/")[2] for kind in self.kinds()})

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """As Directories.findings."""
        return {path: [from_json(value) for value in values] for path, values in self._rest()["findings"].items()}

    @property
    def conflicts(self) -> dict[str, list[str]]:
        """As Directories.conflicts."""
        conflicts: dict[str, list[str]] = self._rest()["conflicts"]
        return conflicts

    @property
    def shadowed(self) -> list[tuple[str, str, str]]:
        """As Directories.shadowed."""
        return [(name, loser, winner) for name, loser, winner in self._rest()["shadowed"]]

    @property
    def specs(self) -> list[Spec]:
        """As Directories.specs, read from the files: an index does not keep whole documents."""
        from shim.cdi.directories import read  # late: it loads the reader of specs

        return read(self.dirs).specs

    def _rest(self) -> Json:
        if self._loaded is None:
            self._loaded = self._index.record(*self._index.rest)
        return self._loaded
