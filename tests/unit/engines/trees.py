"""Machines for tests of shim.engines: the small root trees of tests/configs, with changes of a test's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shim.base.findings import Finding
from shim.engines.model import Location, NewRuntime, Registry
from shim.engines.texts import editing, toml_edit
from shim.host.host import Daemon, Host

CONFIGS = Path(__file__).parents[2] / "configs"
LAUNCHER = "/usr/local/bin/shim"
WANTED = NewRuntime("shim", LAUNCHER)


def names(engine: str) -> list[str]:
    """The trees of an engine."""
    return sorted(path.name for path in (CONFIGS / engine).iterdir())


def tree(engine: str, name: str, files: dict[str, str] | None = None, daemon: tuple[str, ...] = (), **who: Any) -> Host:
    """The machine of a tree.

    Arguments:
        engine, name: the tree.
        files: path -> text of files that the test adds or replaces.
        daemon: the command line of the engine's daemon, when it runs.
        who: user and environment of the caller.
    """
    daemons = [Daemon(7, daemon, 0.0)] if daemon else []
    texts = {path: text.encode() for path, text in (files or {}).items()}
    return Host(str(CONFIGS / engine / name), texts, daemons, **who)


def toml(text: str | bytes) -> Any:
    """What a TOML text means, to be indexed without a look at types."""
    return toml_edit.loads(text.decode() if isinstance(text, bytes) else text)


def stub_version(host: Host, program: str) -> tuple[int, ...]:
    """The version that a program of a tree would say; nothing of a tree is ever started. () where it says none."""
    text = host.real(program).read_text() if program and host.root != "/" and host.exists(program) else ""
    found = re.fullmatch(r"#!/bin/sh\necho \w+ version ([0-9.]+)\n", text)
    return tuple(map(int, found[1].split("."))) if found else ()


class Machine:
    """An engine's module on a machine.

    Arguments:
        engine: the module.
        host: the machine.
        version: the version of the engine's program, when it matters.
        location: what locate was told.
    """

    def __init__(self, engine: Any, host: Host, version: tuple[int, ...] = (), **location: str) -> None:
        self.engine, self.host = engine, host
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Host, "version", lambda _host, _program: version)  # no program runs in a tree
            self.location: Location = engine.locate(self.host, **location)

    def read(self) -> Registry:
        """The configuration as it is."""
        registry: Registry = self.engine.read(self.host, self.location)
        return registry

    def texts(self, new: NewRuntime = WANTED, steps: str = "edits") -> dict[str, bytes]:
        """The files as they are after the edits that register the runtime."""
        described = getattr(self.engine, steps)(self.host, self.location, self.read(), new)
        return editing.apply(described, {one.path: self.host.read(one.path) for one in described})

    def configured(self, new: NewRuntime = WANTED, steps: str = "edits") -> Machine:
        """The same machine with these edits made."""
        other = object.__new__(Machine)
        other.engine, other.location = self.engine, self.location
        other.host = self.host.with_files(self.texts(new, steps))
        return other

    def faults(self, name: str = "shim") -> list[Finding]:
        """What is wrong, with what was found while reading."""
        registry = self.read()
        return [*registry.findings, *self.engine.faults(self.host, self.location, registry, name)]

    def ids(self, name: str = "shim") -> list[str]:
        """The ids of faults."""
        return [one.id for one in self.faults(name)]
