"""The engines that have a vendor's runtime, and shim registered beside it or in its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import configure as recipe
from shim.engines import replaced, table, vendors
from shim.engines.configure import Options, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.contract import Engine
    from shim.engines.model import Location, Registry
    from shim.engines.running import Container
    from shim.host.host import Host
    from shim.migrate.toolkits import Toolkit


@dataclass
class Use:
    """An engine that has the vendor's runtime.

    Attributes:
        engine: the engine.
        location: where its configuration is.
        registry: the configuration.
        name: the name that shim gets there.
        runtimes: the names of the vendor's runtimes.
        programs: their programs.
        containers: those that run now under one of them.
    """

    engine: Engine
    location: Location
    registry: Registry
    name: str
    runtimes: list[str]
    programs: list[str]
    containers: list[Container]

    @property
    def is_default(self) -> bool:
        """Whether the engine's default runtime is the vendor's."""
        return self.registry.default in self.runtimes


@dataclass
class Registration:
    """What becomes of an engine.

    Attributes:
        use: the engine.
        options: by which shim is registered there.
        earlier: by which it was registered before, None where it was not.
        outcome: of configure.
        left: vendor's runtimes that stay.
    """

    use: Use
    options: Options
    earlier: Options | None
    outcome: Outcome
    left: list[str]


def uses(host: Host, toolkit: Toolkit, engines: Iterable[Engine], name: str) -> tuple[list[Use], list[Finding]]:
    """The engines of a machine that have the vendor's runtime; and what cannot be read of the others."""
    result: list[Use] = []
    findings: list[Finding] = []
    for engine in engines:
        try:
            location = engine.locate(host)
            registry = engine.read(host, location)
        except CdiError as error:
            findings += [finding.as_warning() for finding in error.findings]
            continue
        names = replaced.names(registry, toolkit.maker)
        if names:
            programs = {host.find(registry.runtimes[one].path) or registry.runtimes[one].path for one in names}
            under = [one for one in engine.containers(host) if vendors.maker(one.program) == toolkit.maker]
            result.append(Use(engine, location, registry, name, names, sorted(filter(None, programs)), under))
    return result, findings


def present(host: Host) -> list[Engine]:
    """The engines of a machine; [] where it has none."""
    try:
        return table.present(host)
    except CdiError:
        return []


def register(host: Host, use: Use, path: str, *, removes: bool, dry_run: bool) -> Registration:
    """Register shim in an engine; as the default runtime where it takes the place of the vendor's.

    Arguments:
        host: the machine.
        use: the engine.
        path: the launcher.
        removes: whether the entries of the vendor's runtimes go.
        dry_run: whether nothing is written.
    Raises:
        CdiError: what shim.engines.configure raises; CONTAINERS_RUNNING.
    """
    earlier = recipe.options_of(host, use.engine, use.location, use.name)
    options = replace(earlier or Options(use.name, path), dry_run=dry_run)
    left, findings = use.runtimes, []
    if removes:
        try:
            replaced.edits(host, use.engine, use.location, use.registry, use.runtimes)
            gone = dict.fromkeys((*options.replaces, *use.runtimes))
            options = replace(options, replaces=tuple(gone), default=options.default or use.is_default)
            left = []
        except CdiError as error:
            if {finding.id for finding in error.findings} != {"ENGINE_CONFIG_OWNED"}:
                raise
            findings = [finding.as_warning() for finding in error.findings]
    outcome = recipe.configure(host, use.engine, options)
    known = {(finding.id, finding.text) for finding in outcome.findings}
    outcome.findings += [finding for finding in findings if (finding.id, finding.text) not in known]
    return Registration(use, options, earlier, outcome, left)
