"""Doctor: the whole chain from kernel module to container, with one finding for each cause.

    module ── nodes ── library ── spec ── directory ── trust ── registration ── default ── request ── grant ── result

Each module has the checks of a few links. They have no rules of their own: the vendors' modules are asked what the host
has, the reader of the directories which specs count, create's decision what a container would get, and the engines'
verify whether the runtime works. What is added here is the order: what follows from another fault is no ERROR.

Nothing is written, and no container is entered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.doctor import container, devices, grants, hardware, registrations, specs, surroundings
from shim.doctor.machine import moved
from shim.doctor.model import LIBRARY, MODULE, NODES, SPEC, Check, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.doctor.machine import Machine


def examine_container(machine: Machine, word: str) -> Report:
    """Examine a container of a machine.

    Arguments:
        machine: the machine.
        word: its name, its id or the beginning of that.
    """
    return _report(machine, container.checks(machine, word))


def examine(machine: Machine, device: str = "", engine: str = "") -> Report:
    """Examine a machine.

    Arguments:
        machine: the machine.
        device: a qualified name: only what it depends on is examined. "" for all devices.
        engine: only this engine is examined, "" for all.
    """
    return _report(machine, _checks(machine, device, engine))


def _report(machine: Machine, checks: Iterable[Check]) -> Report:
    """The report, with the paths that the machine itself has."""
    made = list(checks)
    root = machine.host.root
    for check in made if root != "/" else ():
        check.findings = [moved(finding, root) for finding in check.findings]
    return Report(made)


def _checks(machine: Machine, device: str, engine: str) -> Iterator[Check]:
    """The checks, causes first."""
    yield from surroundings.checks(machine)
    there, faults = hardware.look(machine)
    if faults:
        yield Check(SPEC, "generated specs", "", faults)
    concerns = _everything if not device else _Concerned(machine, there, device)
    yield from filter(concerns, hardware.checks(machine, there))
    yield from filter(concerns, specs.checks(machine, there))
    if device:
        yield devices.device(machine, there, device)
    else:
        yield from devices.checks(machine, there)
    yield from filter(concerns, hardware.freshness(there))
    yield from filter(concerns, hardware.unserved(machine, there))
    yield from grants.checks(machine, device)
    yield from devices.links(machine, device)
    yield from devices.rights(machine, device)
    yield from registrations.checks(machine, engine)


def _everything(_: Check) -> bool:
    return True


class _Concerned:
    """Whether a check is about what one device depends on: its vendor and its spec; without a spec, any of them.

    Arguments:
        machine: the machine.
        there: what the host has.
        name: the device's qualified name.
    """

    def __init__(self, machine: Machine, there: hardware.Hardware, name: str) -> None:
        serving = machine.served.get(name)
        self._path = serving[0].path if serving else ""
        self._vendor = there.vendor_of(name.partition("=")[0])

    def __call__(self, check: Check) -> bool:
        if check.link in (MODULE, NODES, LIBRARY):
            return check.subject == self._vendor
        return not self._path or check.subject == self._path
