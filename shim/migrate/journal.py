"""The journal of a migration: what was done, so that it can be undone in one step.

/var/lib/shim/migrate/VENDOR.json     written before each step, so that one which is cut off is undone, too
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from shim.discover import state
from shim.discover.units import Unit
from shim.engines import undo_records
from shim.engines.configure import Options
from shim.engines.model import Edit, Put

if TYPE_CHECKING:
    from shim.host.host import Host

_FORMAT = 1


@dataclass
class Settings:
    """What was written into shim's configuration.

    Attributes:
        path: of the file.
        before: its text, None when it was missing.
        after: digest of what was written.
        steps: key and value of each line.
        made: directories that were made for it.
    """

    path: str
    before: str | None
    after: str
    steps: list[tuple[list[str], Any]]
    made: list[str] = field(default_factory=list)

    def file(self) -> undo_records.File:
        """The same in the form in which changes of files are undone."""
        steps = tuple(Put(tuple(keys), value) for keys, value in self.steps)
        before = None if self.before is None else self.before.encode()
        return undo_records.File(self.path, [Edit(self.path, "toml", steps)], before, self.after)


@dataclass
class Spec:
    """A spec of shim as it was before.

    Attributes:
        path: of the file.
        before: its text, None when it was missing.
        remembered: how it was generated, as shim.discover.remembered has it; "" for not by shim.
    """

    path: str
    before: str | None
    remembered: str


@dataclass
class Engine:
    """A registration.

    Attributes:
        engine: its name.
        name: of the runtime.
        earlier: the options of an earlier registration of that name, None when there was none.
    """

    engine: str
    name: str
    earlier: dict[str, Any] | None = None

    def options(self) -> Options | None:
        """The options of the earlier registration."""
        if self.earlier is None:
            return None
        return Options(**{**self.earlier, "replaces": tuple(self.earlier["replaces"])})


@dataclass
class Journal:
    """What a migration has done.

    Attributes:
        toolkit: name of the vendor.
        settings: of shim, where they were changed.
        engines: in which shim was registered.
        specs: that shim wrote.
        taken: paths of the vendor's specs that were moved aside.
        had_inventory: whether there was an inventory before.
        enabled: units of shim that were enabled.
        stopped: units of the vendor that were stopped, beside those of its specs.
    """

    toolkit: str
    settings: Settings | None = None
    engines: list[Engine] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    had_inventory: bool = True
    enabled: list[str] = field(default_factory=list)
    stopped: list[Unit] = field(default_factory=list)


def find(host: Host, toolkit: str) -> Journal | None:
    """The journal of a vendor, None when there is none. Raises CdiError: DISCOVERY_STATE."""
    path = _path(toolkit)
    return state.load(host, path, _from_json) if path in state.names(host, _directory()) else None


def every(host: Host) -> list[Journal]:
    """The journals of all vendors. Raises CdiError: DISCOVERY_STATE."""
    return [state.load(host, path, _from_json) for path in state.names(host, _directory())]


def save(host: Host, journal: Journal) -> None:
    """Write a journal. Raises CdiError: DISCOVERY_STATE."""
    state.save(host, _path(journal.toolkit), {"format": _FORMAT, **asdict(journal)})


def forget(host: Host, toolkit: str) -> None:
    """Remove a journal. Raises CdiError: DISCOVERY_STATE."""
    state.forget(host, _path(toolkit))


def _directory() -> str:
    return state.directory("migrate")


def _path(toolkit: str) -> str:
    return f"{_directory()}/{toolkit}.json"


def _from_json(document: dict[str, Any]) -> Journal:
    members = dict(document)
    if members.pop("format") != _FORMAT:
        raise ValueError("another version of shim wrote it")
    settings = members.pop("settings")
    return Journal(
        **{
            **members,
            "settings": settings and Settings(**settings),
            "engines": [Engine(**engine) for engine in members["engines"]],
            "specs": [Spec(**spec) for spec in members["specs"]],
            "stopped": [Unit(**unit) for unit in members["stopped"]],
        }
    )
