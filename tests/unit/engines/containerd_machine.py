"""A machine with containerd, made of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shim.base.findings import Finding
from shim.engines.model import Location, NewRuntime
from shim.engines.table import ENGINES
from shim.engines.texts.editing import apply
from shim.host.host import Daemon, Host

containerd = ENGINES["containerd"]

CONFIG = "/etc/containerd/config.toml"
SHIM = NewRuntime("shim", "/usr/bin/shim")


class Machine(Host):
    """A host that has only the files given.

    Arguments:
        files: path -> text.
        version: of each program, () when unknown.
        daemons: that run.
    """

    def __init__(self, files: Mapping[str, str], version: tuple[int, ...] = (), daemons: Sequence[Daemon] = ()) -> None:
        super().__init__("/nonexistent", {path: text.encode() for path, text in files.items()}, daemons)
        self.said = version

    def version(self, program: str) -> tuple[int, ...]:
        return self.said


def daemon(*words: str, cwd: str = "/", started: float = 1.0) -> Daemon:
    """A process that runs."""
    return Daemon(int(started), words, started, cwd)


def written(host: Host, new: NewRuntime = SHIM, drop_in: str = "") -> dict[str, str]:
    """path -> text of the files that configure would change."""
    location = containerd.locate(host, drop_in=drop_in)
    edits = containerd.edits(host, location, containerd.read(host, location), new)
    before = {edit.path: host.read(edit.path) for edit in edits}
    after = {path: data for path, data in apply(edits, before).items() if data != before[path]}
    return {path: data.decode() for path, data in after.items()}


def faults(host: Host, name: str = "shim") -> list[Finding]:
    """Everything that is found in a configuration."""
    location: Location = containerd.locate(host)
    registry = containerd.read(host, location)
    return [*registry.findings, *containerd.faults(host, location, registry, name)]
