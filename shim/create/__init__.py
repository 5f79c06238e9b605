"""Create: a bundle goes in, a container with its devices comes out. The recipe on one page. HOT.

    ask, resolve, edit, write, exec

The launcher sends only what may ask for a device; everything else has become the low-level runtime before Python was
thought of. Two rules govern every line: a container that asked for nothing never fails because of us, and one that
asked never starts without.

Import budget, enforced by tests/create/test_imports.py: builtin modules and our hot modules. Late imports, each in one
place: what reads the files (shim.create.known, where the index is missing or stale), what places network interfaces
(shim.create.netdevices, where a plan has them). Nothing here starts a process or opens a device.
"""

from __future__ import annotations

from posix import _exit

from shim.cdi import edits, plan
from shim.cdi.findings import CdiError, Finding
from shim.cdi.index import DamagedError
from shim.create import known, report, request
from shim.create.become import become
from shim.create.bundle import Bundle
from shim.create.settings import Settings
from shim.create.verdict import Invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from shim.cdi.plan import Plan
    from shim.cdi.types import Served

    Json = dict[str, Any]


def main(words: list[str]) -> NoReturn:
    """Do what the launcher's verdict says, then become the low-level runtime; exit status 1 when refused.

    Arguments:
        words: the launcher's words, see shim.create.verdict.
    """
    call = Invocation(words)
    try:
        try:
            prepare(call)
            become(call)
        except CdiError:
            raise
        except Exception as error:  # whatever it is: the engine must show a line, not a traceback
            raise _internal(error) from error
    except CdiError as error:
        report.fail(error, call.log, call.log_format)
        _exit(1)  # no clean-up of the interpreter: 2 ms, and nothing is open


def prepare(call: Invocation) -> None:
    """Put the devices that are asked for into the bundle; leave the bundle alone when none is.

    Raises:
        CdiError: something is asked for and cannot be given.
    """
    found, served, trouble = _known()
    bundle, config = _read(call, found)
    wanted = request.ask(config, call.devices, found.annotation_prefixes, found.default_kind)
    if not wanted or bundle is None or request.is_sandbox(config):
        return
    if trouble:
        raise trouble
    if call.unknown:
        text = f"{call.unknown} in front of {call.verb} is unknown, so the command line is not certain"
        raise CdiError([Finding("OPTION_UNKNOWN", text)])
    made = _resolve(list(wanted), served)
    edited = edits.apply(made, config)
    if any(origin["edits"].get("netDevices") for origin in made.origins):
        edited = _with_interfaces(edited, made, call)
    for finding in (*found.warnings, *made.findings):
        report.warn(finding)
    bundle.write(edited)


def _with_interfaces(edited: Json, made: Plan, call: Invocation) -> Json:
    """The config in which the interfaces of the plan reach the container under every low-level runtime."""
    from shim.create import netdevices  # late, like the next: few specs move interfaces
    from shim.host import abilities, identity

    return netdevices.place(
        edited,
        netdevices.wanted(made.origins),
        native=abilities.native_net_devices(call.low),
        rootful=identity.is_rootful(),
        launcher=call.launcher,
    )


def _known() -> tuple[Settings, Served | None, CdiError | None]:
    """Configuration and devices. A broken configuration matters only where something is asked for."""
    try:
        return *known.load(), None
    except CdiError as error:
        return Settings(), None, error


def _read(call: Invocation, found: Settings) -> tuple[Bundle | None, Json]:
    """The bundle and its config. One that cannot be read matters only where something is asked for."""
    bundle = None
    try:
        bundle = Bundle(call.config)
        return bundle, bundle.config()
    except CdiError:
        if call.devices or (bundle and any(prefix.encode() in bundle.raw for prefix in found.annotation_prefixes)):
            raise
        return None, {}  # the low-level runtime says itself what is wrong with its bundle


def _resolve(names: list[str], served: Served | None) -> Plan:
    if served:
        try:
            return plan.make(names, served, numbers="disk")
        except DamagedError:
            pass
    return plan.make(names, known.load(fresh=True)[1], numbers="disk")


def _internal(error: Exception) -> CdiError:
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else ""
    return CdiError([Finding("INTERNAL", f"{type(error).__name__}: {error}{where}")])
