"""Spec directories of shim beside those of an engine's own CDI support.

containerd and CRI-O look for the devices of an annotation themselves, before they call a runtime, and refuse the
container where their own directories have no such device. So under these two a directory that only shim has is of no
use. docker and podman look for the devices of their own --device alone; there a difference means that a name stands for
another device, or for none, depending on which of the two was asked.

Sources: containerd, internal/cri/opts/spec_linux.go (WithCDI); CRI-O, internal/factory/container/device_linux.go
(SpecInjectCDIDevices)
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.cdi import advice, spec
from shim.config.location import SYSTEM_FILE
from shim.engines import sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.engines.contract import Engine
    from shim.engines.model import Location, Registry
    from shim.host.host import Host


def missing(host: Host, theirs: Iterable[str]) -> list[str]:
    """The spec directories of shim that an engine's own list lacks."""
    known = {_normal(path) for path in theirs}
    return [path for path in sources.settings_or_defaults(host).spec_dirs if _normal(path) not in known]


def findings(host: Host, engine: Engine, location: Location, registry: Registry) -> Iterator[Finding]:
    """CDI_REFUSES or SPEC_DIRS_DIFFER, where the two lists differ.

    Arguments:
        host: the machine.
        engine, location, registry: the engine, where its configuration is, and what that comes to.
    """
    resolves = engine.resolves_annotations(location, registry)
    if not registry.cdi and not resolves:
        return
    ours, theirs = sources.settings_or_defaults(host).spec_dirs, registry.spec_dirs
    lacking = missing(host, theirs)
    if not lacking and [*map(_normal, ours)] == [*map(_normal, theirs)]:
        return
    reads = ", ".join(theirs) or "no directory at all"
    line = engine.spec_dirs_line(location, registry, [*theirs, *lacking])
    own = ", ".join(f'"{path}"' for path in theirs)
    same = f"spec-dirs = [{own}] below [cdi] in {SYSTEM_FILE}" if own else ""
    if lacking and resolves:
        text = (
            f"{engine.name} looks for the devices of an annotation itself, in {reads}, and refuses a container for "
            f"whose name it finds none, before shim is called: so it does for each device in {', '.join(lacking)}"
        )
        remedy = f"write {line} (`shim runtime configure --enable-cdi` does)"
        yield Finding("CDI_REFUSES", text, f"{remedy}; or {same}" if same else remedy, path=location.config)
        return
    text = (
        f"the CDI support of {engine.name} itself reads {reads}, and shim reads {', '.join(ours)}, the most important "
        "last: a name may stand for another device there, or for none"
    )
    remedies = [f"write {line}"] if lacking and line else []
    yield Finding("SPEC_DIRS_DIFFER", text, "; or ".join([*remedies, f"write {same}"]), path=location.config)


def short_classes(host: Host, engine: Engine, location: Location, registry: Registry) -> Iterator[Finding]:
    """KIND_SHORT, for each spec whose class has one letter and that the engine reads itself: some panic on it."""
    reads = registry.cdi or engine.resolves_annotations(location, registry)
    patterns = [f"{path.rstrip('/')}/*.{ending}" for path in registry.spec_dirs for ending in ("json", "yaml")]
    for path in [path for pattern in patterns for path in host.glob(pattern)] if reads else []:
        try:
            data = host.read(path) or b""
        except CdiError:
            continue  # `shim cdi list` reports it
        if not spec.faults(data, path):
            yield from (finding for finding in advice.warnings(data, path) if finding.id == "KIND_SHORT")


def _normal(path: str) -> str:
    """A directory as it is compared: /var/run is a link to /run."""
    normal = posixpath.normpath(path)
    return normal.removeprefix("/var") if normal.startswith("/var/run/") else normal
