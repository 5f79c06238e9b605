"""The form of the answer to Allocate: CDI names for the engine, or an annotation for the shim.

"auto" chooses CDI names where it is certain that they arrive: this kubelet passes them on, and this engine resolves
them, by its configuration and by the daemon that runs. A kubelet that does not know the field drops it, and the
container starts without its device, so whatever is unknown means the annotation: that is read by the shim, and by each
engine that resolves CDI, too.

Source: KEP-4009: the field is behind the gate DevicePluginCDIDevices in Kubernetes 1.28, and on by default from 1.29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.engines import table, verify
from shim.node.settings import ANNOTATION, AUTO, CDI

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.contract import Engine
    from shim.host.host import Host

_GATED, _SINCE = (1, 28), (1, 29)
_GATE = "DevicePluginCDIDevices=true"
# Programs that are, or contain, a kubelet, and have its version
_KUBELETS = ("kubelet", "k3s", "rke2", "k0s")
_RUNTIME = "shim"


@dataclass(frozen=True)
class Form:
    """The form that is used.

    Attributes:
        form: "cdi" or "annotation".
        why: a clause.
        findings: PLUGIN_FORM, where devices may not arrive.
        files: of the engine, on which the choice depends.
        daemons: processes of the engine, on which it depends, too; () where none is seen.
    """

    form: str
    why: str
    findings: tuple[Finding, ...] = ()
    files: tuple[str, ...] = ()
    daemons: tuple[int, ...] = ()


@dataclass(frozen=True)
class _EngineState:
    """What an engine does with either form: why it does not resolve CDI names ("" when it does), and its files."""

    name: str
    against: str
    faults: tuple[Finding, ...]
    files: tuple[str, ...]
    daemons: tuple[int, ...]


def decide(host: Host, wanted: str, spec_dirs: Iterable[str], kubelet: tuple[int, ...] = ()) -> Form:
    """The form for this node now.

    Arguments:
        host: the machine.
        wanted: "auto", "cdi" or "annotation".
        spec_dirs: of the shim.
        kubelet: its version, where it is known; else it is looked for.
    """
    try:
        engines = [engine for engine in table.present(host) if engine.has_runtime_classes and engine.name != "docker"]
    except CdiError:
        engines = []
    running = [engine for engine in engines if host.daemons(engine.program)] or engines
    states = [_state(host, engine, tuple(spec_dirs)) for engine in running]
    files = tuple(file for state in states for file in state.files)
    daemons = tuple(pid for state in states for pid in state.daemons)
    against = _against(host, states, kubelet or version(host))
    if wanted == CDI or (wanted == AUTO and not against):
        why = "it is configured" if wanted == CDI else "kubelet passes CDI names on, and the engine resolves them"
        findings = [_doubt(f"CDI names are configured, but {against}")] if against else []
        return Form(CDI, why, tuple(findings), files, daemons)
    why = "it is configured" if wanted == ANNOTATION else against
    return Form(ANNOTATION, why, tuple(_unread(states)), files, daemons)


def version(host: Host) -> tuple[int, ...]:
    """The version of the kubelet, as its program prints it; () where it is unknown."""
    for name in _KUBELETS:
        daemons = host.daemons(name)
        program = daemons[-1].argv[0] if daemons else ""
        found = host.version(program or host.find(name))
        if found:
            return found
    return ()


def _against(host: Host, states: list[_EngineState], kubelet: tuple[int, ...]) -> str:
    """What speaks against CDI names, "" for nothing."""
    if not kubelet:
        return "the version of kubelet is unknown here (--kubelet-version tells it)"
    if kubelet < _GATED or (kubelet < _SINCE and not _is_gate_open(host)):
        return f"kubelet {'.'.join(map(str, kubelet))} passes no CDI names on (1.29 does)"
    if not states:
        return "no engine is seen from here"
    return next((state.against for state in states if state.against), "")


def _is_gate_open(host: Host) -> bool:
    return any(_GATE in option for daemon in host.daemons("kubelet") for option in daemon.options("--feature-gates"))


def _state(host: Host, engine: Engine, spec_dirs: tuple[str, ...]) -> _EngineState:
    daemons = tuple(daemon.pid for daemon in host.daemons(engine.program))
    try:
        location = engine.locate(host)
        registry = engine.read(host, location)
        findings = verify.findings(host, engine, location, _RUNTIME)
    except CdiError as error:
        return _EngineState(engine.name, f"{engine.name}: {error}", tuple(error.findings), (), daemons)
    errors = tuple(finding for finding in findings if finding.level == ERROR)
    against = ""
    missing = [path for path in spec_dirs if path not in registry.spec_dirs]
    if location.daemon is None:
        against = f"the process of {engine.name} is not seen from here, so nobody knows what it has read"
    elif registry.cdi is not True:
        against = f"the CDI support of {engine.name} is off or unknown"
    elif any(finding.id == "RESTART_NEEDED" for finding in findings):
        against = f"{engine.name} was not restarted since its configuration was changed"
    elif registry.spec_dirs and missing:
        against = f"{engine.name} does not read the spec directory {missing[0]}"
    reads_annotations = bool(registry.cdi)
    return _EngineState(engine.name, against, () if reads_annotations else errors, tuple(registry.files), daemons)


def _unread(states: list[_EngineState]) -> list[Finding]:
    """PLUGIN_FORM for an engine under which nothing may read the annotation."""
    return [
        _doubt(f"{state.name} may not pass annotations to the shim: {state.faults[0]}", state.faults[0].remedy)
        for state in states
        if state.faults
    ]


def _doubt(text: str, remedy: str = "") -> Finding:
    return Finding("PLUGIN_FORM", text, remedy)
