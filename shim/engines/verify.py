"""Whether a registered runtime will work: findings, from the files, from the machine and from the daemon.

This module has the checks that all engines have in common; `Engine.faults` has those of an engine.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import launcher, sources, spec_dirs, undo_records
from shim.host import identity, run_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.contract import Engine
    from shim.engines.model import Location, Registry
    from shim.host.host import Daemon, Host

_ENFORCING = "/sys/fs/selinux/enforce"
_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds: proc(5) has the start of a process in whole ticks, rounded down
_FOREIGN = "install the program, or write the right path into that runtime's entry: it is none of shim's"
_USE_DEVICES = "/sys/fs/selinux/booleans/container_use_devices"


def findings(host: Host, engine: Engine, location: Location, name: str) -> list[Finding]:
    """Everything that is wrong with a runtime in an engine's configuration, or unexpected.

    Arguments:
        host: the machine.
        engine: the engine.
        location: where its configuration is.
        name: the runtime.
    """
    try:
        registry = engine.read(host, location)
    except CdiError as error:
        return error.findings
    result = [*registry.findings, *engine.faults(host, location, registry, name)]
    result += _changeable(host, registry)
    result += _runtimes(host, engine, location, registry, name)
    result += spec_dirs.findings(host, engine, location, registry)
    result += spec_dirs.short_classes(host, engine, location, registry)
    result += _default(host, location, registry, name)
    result += _low_level(host, registry, name)
    if location.daemon and not any(finding.id == "RESTART_NEEDED" for finding in result):
        result += _restart(host, engine, location, location.daemon, registry)
    result += _selinux(host)
    result += run_directory.findings(identity.RUN_DIR, host.look, 0) if host.user == 0 else []
    if name in registry.runtimes or registry.hook:
        result += sources.findings(host, engine.ways_to_ask(location, registry, name))
    return result


def _changeable(host: Host, registry: Registry) -> Iterator[Finding]:
    """Files that the engine reads as root and another user can change."""
    for path in registry.files if host.user == 0 else ():
        objection = host.objection(path)
        if objection:
            yield Finding("CONFIG_UNTRUSTED", f"the engine reads it as root, and {objection}", path=path)


def _runtimes(host: Host, engine: Engine, location: Location, registry: Registry, name: str) -> Iterator[Finding]:
    if name not in registry.runtimes and not _is_hooked(host, registry, name):
        text = f"there is no runtime {name}; there are {registry.near(name)}"
        yield Finding("HANDLER_MISSING", text, path=location.config)
    for runtime in registry.runtimes.values():
        is_ours = runtime.name == name
        if is_ours and runtime.path.startswith("/"):
            yield from launcher.faults(host, runtime.path)
            continue
        fault = engine.program_fault(host, location, registry, runtime)
        if fault:
            text = f"the runtime {runtime.name} has the program {fault}"
            remedy = "write its absolute path; `shim runtime configure` does" if is_ours else _FOREIGN
            yield Finding("RUNTIME_BINARY_MISSING", text, remedy, path=runtime.file, line=runtime.line)
        elif is_ours:
            yield from launcher.faults(host, host.find(runtime.path or name) or name)


def _is_hooked(host: Host, registry: Registry, name: str) -> bool:
    """Whether a hook is what configure registered under this name; a hook that was written by hand has no name."""
    names = [record.name for record in undo_records.every(host) if record.file(registry.hook)]
    return bool(registry.hook) and (not names or name in names)


def _default(host: Host, location: Location, registry: Registry, name: str) -> Iterator[Finding]:
    record = undo_records.find(host, location.engine, location.config, name)
    if record and record.as_default:
        return
    if registry.default == name:
        before = f"; before it was {record.default}" if record and record.default else ""
        text = f"{name} is the default runtime, for every container, which `configure` did not do{before}"
        yield Finding("RUNTIME_DEFAULT", text, path=location.config)
    elif record and record.default and record.default != registry.default:
        text = f"the default runtime is {registry.default}; it was {record.default} when {name} was configured"
        yield Finding("RUNTIME_DEFAULT", text, path=location.config)


def _low_level(host: Host, registry: Registry, name: str) -> Iterator[Finding]:
    runtime = registry.runtimes.get(name)
    path = host.find(runtime.path or name) if runtime else ""
    if not path or not launcher.is_launcher(host, path):
        return
    link = launcher.link_of(path)
    executed = launcher.low_level_of(host, path)
    if not executed or not host.find(executed):
        text = f"{path} executes {executed or 'no runtime'}, which is missing"
        yield Finding("LOWLEVEL_MISSING", text, path=link)
        return
    try:
        used = launcher.current(host, registry, path)
    except CdiError:
        return
    if not host.is_same_file(used, executed):
        text = f"{path} executes {executed}, but the engine's default runtime is {used}"
        yield Finding("LOWLEVEL_MISMATCH", text, path=link)


def _restart(host: Host, engine: Engine, location: Location, daemon: Daemon, registry: Registry) -> Iterator[Finding]:
    """Differences between the files and the running daemon, which reads them when it starts."""
    differences = engine.ask_daemon(host, location, registry)
    if differences is not None:
        yield from differences
        return
    # right after a restart the old process may still exist: of two with the same command line the younger counts
    same = [other for other in host.daemons(engine.program) if (other.argv, other.user) == (daemon.argv, daemon.user)]
    daemon = same[-1] if same else daemon
    newer = [path for path in registry.files if host.modified(path) > daemon.started + _TICK]
    if newer:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(daemon.started))
        text = f"{engine.name} (process {daemon.pid}) runs since {since}, and {newer[0]} was changed after that"
        remedy = f"{engine.restart_command(location)}; running containers are not affected"
        yield Finding("RESTART_NEEDED", text, remedy, path=newer[0])


def _selinux(host: Host) -> Iterator[Finding]:
    """A policy by which containers may not use devices with labels of others (container_selinux(8))."""
    if host.text(_ENFORCING) == "1" and host.text(_USE_DEVICES)[:1] == "0":
        text = "SELinux is enforcing, and containers may not use devices: container_use_devices is off"
        yield Finding("SELINUX_DEVICES", text, path=_USE_DEVICES)
