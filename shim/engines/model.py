"""What the parts of shim.engines pass to each other: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.nearest import nearest

if TYPE_CHECKING:
    from typing import Any

    from shim.base.findings import Finding
    from shim.engines.texts.values import Keys, Table, Value
    from shim.host.host import Daemon


# The finer code (Finding.rule) of a fault with which the engine does not start
STOPS_ENGINE = "stops-engine"


@dataclass(frozen=True)
class Put:
    """The key gets this value, whatever it had. A dict is a whole table or object that is ours alone."""

    keys: Keys
    value: Value


@dataclass(frozen=True)
class Add:
    """Add these items to the list at this key, which is created if it is missing."""

    keys: Keys
    items: tuple[str, ...]


@dataclass(frozen=True)
class Drop:
    """The key, or the whole table, goes."""

    keys: Keys


@dataclass(frozen=True)
class Edit:
    """The changes to one file.

    Attributes:
        path: the file; it may be missing.
        form: "toml", "json", "template" for one of k3s, or "text" for a file that is ours alone.
        steps: in the order in which they are made; none for "text".
        head: the beginning of a new file; for "text" all of it.
    """

    path: str
    form: str
    steps: tuple[Put | Add | Drop, ...] = ()
    head: str = ""


@dataclass(frozen=True)
class NewRuntime:
    """The runtime that configure registers.

    Attributes:
        name: the runtime's name in the engine, which is also a RuntimeClass's handler.
        path: absolute path of the launcher.
        default: whether it becomes the engine's default runtime.
        cdi: whether the engine's own CDI support is switched on as well.
        low_level: path of the runtime that the launcher executes; "" for that of the engine's present configuration.
    """

    name: str
    path: str
    default: bool = False
    cdi: bool = False
    low_level: str = ""


@dataclass(frozen=True)
class Location:
    """Where the configuration of an engine on this machine is.

    Attributes:
        engine: the engine's name.
        config: the main file; it may be missing.
        drop_in: the file that holds our keys alone, "" where they go into `config`.
        program: path of the engine's program, "" when it is not installed here.
        version: of that program, as numbers, () when unknown.
        daemon: the running process, None when there is none or the engine has none.
        layout: "" for the usual layout, else what writes or confines these files: "k3s", "snap", "rootless", …
    """

    engine: str
    config: str
    drop_in: str = ""
    program: str = ""
    version: tuple[int, ...] = ()
    daemon: Daemon | None = None
    layout: str = ""


@dataclass
class Runtime:
    """A runtime as the configuration registers it.

    Attributes:
        name: its name there.
        path: its program, as written; "" when the engine searches the program by itself.
        type: containerd's and CRI-O's runtime_type, "" when not given.
        systemd_cgroup: whether it is configured for systemd's cgroups; None when the configuration leaves it open.
        table: its whole entry in the configuration, as read.
        file: where it was registered last, "" when it is built into the engine.
        line: in that file, from 1; 0 when unknown.
        option: of the running daemon's command line, that registers it; "" for none.
    """

    name: str
    path: str = ""
    type: str = ""
    systemd_cgroup: bool | None = None
    table: Table = field(default_factory=dict)
    file: str = ""
    line: int = 0
    option: str = ""


@dataclass
class Registry:
    """What an engine's configuration comes to, all its files merged as that engine merges them.

    Attributes:
        config_version: version of the file's form where the engine has such a thing (containerd), else 0.
        runtimes: by name, built-in ones included.
        default: name of the default runtime.
        low_level: path of the program of the default runtime, as the engine finds it (an unqualified name looked up on
            the host), "" when none is found.
        cdi: whether the engine injects CDI devices by itself; None when that cannot be determined.
        spec_dirs: spec directories of the engine's own CDI support, the most important last; () when unknown.
        hook: the OCI hook by which the engine calls shim without a runtime of ours, "" when there is none.
        document: the merged configuration.
        files: that were read, in order.
        findings: met while reading.
    """

    config_version: int = 0
    runtimes: dict[str, Runtime] = field(default_factory=dict)
    default: str = ""
    low_level: str = ""
    cdi: bool | None = None
    spec_dirs: tuple[str, ...] = ()
    hook: str = ""
    document: Table = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def near(self, name: str) -> str:
        """The names of all runtimes as text, those that resemble a name first."""
        first = nearest(name, self.runtimes)
        return ", ".join([*first, *sorted(self.runtimes.keys() - set(first))]) or "none at all"


EVERY_OTHER = "*"  # in Engine.shim_namespaces: those that no other engine has


@dataclass(frozen=True)
class KnownContainer:
    """A container that an engine knows.

    Attributes:
        engine: its engine, "" when unknown.
        id: its id.
        name: its name, "" when it has none.
        bundle: the directory of its config.json, "" when it has none now.
        program: the runtime by which it is called, "" when unknown.
        pid: its first process, 0 when it does not run.
        error: what the engine keeps of its last failed start, "" for nothing.
        config: its config.json, {} where that cannot be read.
    """

    engine: str
    id: str
    name: str = ""
    bundle: str = ""
    program: str = ""
    pid: int = 0
    error: str = ""
    config: dict[str, Any] = field(default_factory=dict)
