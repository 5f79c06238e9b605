"""Registration, default, request: what `shim runtime verify` reports of each engine, sorted into the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.discover import engine_fit
from shim.doctor import kubelet
from shim.doctor.model import DEFAULT, DIRECTORY, REGISTRATION, REQUEST, Check
from shim.engines import launcher, table, undo_records, verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.doctor.machine import Machine
    from shim.engines.contract import Engine
    from shim.engines.model import Location, Registry
    from shim.host.host import Host

USUAL = "shim"
# Why the engine does not read what is written in its file, and what verify misses then
_MISREAD = {"CONFIG_DEAD_SECTION", "CONFIG_HEADER_UNQUOTED", "CRI_DISABLED", "DROP_IN_UNUSED"}
_OF_MISREAD = {"HANDLER_MISSING", "RUNTIME_TYPE_MISSING"}
# Of the findings of verify, those that are not about the registration itself
_LINKS = {
    "RUNTIME_DEFAULT": DEFAULT,
    "CDI_REFUSES": DIRECTORY,
    "SPEC_DIRS_DIFFER": DIRECTORY,
    "CDI_OFF": DIRECTORY,
    "CDI_UNSUPPORTED": DIRECTORY,
    **dict.fromkeys(
        (
            *(
                "SOURCE_OFF",
                "SOURCE_ANY",
                "SETTINGS",
                "SETTINGS_UNTRUSTED",
                "ANNOTATION_UNSUPPORTED",
                "PODMAN_ANNOTATIONS",
            ),
            *("POD_REQUESTS", "VENDOR_REQUESTS", "RUNTIME_ANNOTATIONS", "CLASS_ELSEWHERE", "SELINUX_DEVICES"),
        ),
        REQUEST,
    ),
}


def checks(machine: Machine, engine: str = "") -> Iterator[Check]:
    """The checks of each engine that is here.

    Arguments:
        machine: the machine.
        engine: the only engine that is looked at, "" for all.
    """
    try:
        engines = [table.ENGINES[engine]] if engine else table.present(machine.host)
    except CdiError as error:  # runc and crun can be called without any
        yield Check(REGISTRATION, "engines", "none", [finding.as_warning() for finding in error.findings])
        return
    read = [(one, *_read(machine.host, one)) for one in engines]
    is_somewhere = any(names for _, _, _, names, _ in read)
    for one, location, registry, names, faults in read:
        if location is None or registry is None:
            yield Check(REGISTRATION, one.name, "its configuration is not read", faults)
        elif names or engine or not is_somewhere:
            yield from _of_engine(machine, one, location, registry, names)
        else:
            yield Check(REGISTRATION, one.name, "shim is not registered, as it is with another engine")


def _read(host: Host, engine: Engine) -> tuple[Location | None, Registry | None, list[str], list[Finding]]:
    """Where its configuration is, what that comes to, and the names under which shim is registered."""
    try:
        location = engine.locate(host)
        registry = engine.read(host, location)
    except CdiError as error:
        return None, None, [], error.findings
    try:
        recorded = [record.name for record in undo_records.every(host) if record.engine == engine.name]
    except CdiError:  # verify reports it
        recorded = []
    found = [name for name, runtime in registry.runtimes.items() if _is_ours(host, name, runtime.path)]
    names = list(dict.fromkeys([*found, *recorded, *([USUAL] if registry.hook else [])]))
    return location, registry, names, []


def _is_ours(host: Host, name: str, path: str) -> bool:
    if name == USUAL or launcher.last_part(path) == USUAL:
        return True
    return path.startswith("/") and launcher.is_launcher(host, path)


def _of_engine(
    machine: Machine, engine: Engine, location: Location, registry: Registry, names: list[str]
) -> Iterator[Check]:
    found: dict[str, list[Finding]] = {REGISTRATION: [], DEFAULT: [], DIRECTORY: [], REQUEST: []}
    for name in names or [USUAL]:
        findings = verify.findings(machine.host, engine, location, name)
        is_misread = any(finding.id in _MISREAD for finding in findings)
        for finding in findings:
            injects_itself = finding.id == "HANDLER_MISSING" and not names and registry.cdi
            follows = injects_itself or (is_misread and finding.id in _OF_MISREAD and finding.level == ERROR)
            found[_LINKS.get(finding.id, REGISTRATION)].append(finding.as_warning() if follows else finding)
    found[REGISTRATION] += kubelet.checks(machine.host, engine.name, location, registry, names)
    version = ".".join(map(str, location.version))
    what = " ".join(filter(None, [engine.name, version]))
    runtimes = ", ".join(
        f"{name} -> {registry.runtimes[name].path or '?'}" for name in names if name in registry.runtimes
    )
    runtimes = runtimes or (f"hook {registry.hook}" if registry.hook else "")
    yield Check(REGISTRATION, engine.name, f"{what}: {runtimes or 'shim is not registered'}", found[REGISTRATION])
    yield Check(DEFAULT, engine.name, registry.default or "of the engine's own", found[DEFAULT])
    own = "its own CDI is on" if registry.cdi else "its own CDI is off" if registry.cdi is not None else "CDI unknown"
    newer = list(_refused(machine, engine, location, registry))
    yield Check(
        DIRECTORY, engine.name, f"{own}: {', '.join(registry.spec_dirs) or 'no directory'}", [*found[DIRECTORY], *newer]
    )
    settings = machine.settings
    prefixes = ", ".join(f"{prefix}…" for prefix in settings.annotation_prefixes)
    evidence = f"annotations {prefixes or 'off'}; variables {settings.environment}; mounts {settings.mounts}"
    yield Check(REQUEST, engine.name, evidence, found[REQUEST])


def _refused(machine: Machine, engine: Engine, location: Location, registry: Registry) -> Iterator[Finding]:
    """What the engine's own CDI support refuses of the specs; warnings, since the runtime shim takes them."""
    if not registry.cdi or not location.version:
        return
    word = f"{engine.name}={'.'.join(map(str, location.version))}"
    try:
        for path in sorted({spec.path for spec in machine.served.specs}):
            data = machine.host.read(path) or b""
            yield from (finding.as_warning() for finding in engine_fit.check(data, path, word))
    except CdiError:  # an engine of a version that has no CDI support; verify reports it
        return
