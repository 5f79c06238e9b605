"""An engine as small as one can be: a TOML file with a table `runtimes`, and what a test wants to go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shim.base.findings import Finding
from shim.engines.contract import Engine
from shim.engines.model import Add, Edit, Location, NewRuntime, Put, Registry, Runtime
from shim.engines.texts import editing, toml_edit
from shim.engines.texts.values import table_at
from shim.host.host import Host

CONFIG = "/etc/toy.toml"
DROP_IN = "/etc/toy.d/shim.toml"


@dataclass
class Toy(Engine):
    """The engine; each test has its own.

    Attributes:
        drop_in: whether our runtime goes into a file of its own.
        wrong: what `faults` says once our runtime is there.
        always: what it says before, too.
        forgets: runtimes that are not seen once our runtime is there.
    """

    name = "toy"
    program = "toyd"

    drop_in: bool = False
    wrong: list[Finding] = field(default_factory=list)
    always: list[Finding] = field(default_factory=list)
    forgets: tuple[str, ...] = ()

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Where the test has put it."""
        return Location(self.name, config or CONFIG, DROP_IN if self.drop_in else "")

    def read(self, host: Host, location: Location) -> Registry:
        """Every runtime of both files; the default's program is the low-level runtime."""
        registry = Registry()
        for path in (location.config, location.drop_in):
            data = host.read(path) if path else None
            if data is None:
                continue
            registry.files.append(path)
            document = toml_edit.loads(editing.decoded(data, path), path)
            for name, table in table_at(document, ("runtimes",)).items():
                if isinstance(table, dict):
                    registry.runtimes[name] = Runtime(name, str(table["path"]), table=table, file=path)
            registry.default = str(document.get("default", registry.default))
        if "shim" in registry.runtimes:
            for name in self.forgets:
                registry.runtimes.pop(name, None)
        registry.low_level = (
            registry.runtimes[registry.default].path if registry.default in registry.runtimes else host.find("runc")
        )
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """Our runtime, and its name in a list."""
        steps: list[Put | Add] = [
            Put(("runtimes", new.name), {"path": new.path}),
            Add(("names",), (new.name,)),
        ]
        if new.default:
            steps.append(Put(("default",), new.name))
        return [Edit(location.drop_in or location.config, "toml", tuple(steps), "# by shim\n" if self.drop_in else "")]

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What the test says."""
        return [*self.always, *(self.wrong if name in registry.runtimes else [])]

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """One way."""
        return f"ask {name} nicely"
