"""Create: a bundle goes in, a container with its devices comes out. The recipe on one page. HOT.

    ask, resolve, rule, edit, record, exec

The launcher sends only what may ask for a device; everything else has become the low-level runtime before Python was
thought of. Two rules govern every line: a container that asked for nothing never fails because of us, and one that
asked never starts without.

Import budget, enforced by tests/unit/create/test_imports.py: builtin modules and our hot modules. Late imports, each in
one place: what reads the files (shim.create.known, where the index is missing or stale), what places network interfaces
(shim.create.netdevices, where a plan has them), the sources that an image can write to (shim.create.image_requests,
where one is switched on), user namespaces, folding, exec and update (below), trust (shim.create.rules, where a plan has
hooks). Nothing here starts a process or opens a device.
"""

from __future__ import annotations

from posix import _exit

from shim.base.execute import execute
from shim.base.findings import CdiError, Finding
from shim.cdi import edits, plan
from shim.cdi.index import DamagedError
from shim.config.settings import OFF, Settings
from shim.create import known, log, merge, record, report, request, rules
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from shim.cdi.plan import Plan
    from shim.cdi.types import Served
    from shim.create.image_requests import Heard

    Json = dict[str, Any]


def main(words: list[str]) -> NoReturn:
    """Do what the launcher's verdict says, then become the low-level runtime; exit status 1 when refused.

    Arguments:
        words: the launcher's words, see shim.create.invocation.
    """
    call = Invocation(words)
    story = log.Story()
    rootful = identity.is_rootful()
    try:
        try:
            prepare(call, story, rootful)
            log.append(call, story, rootful=rootful)
        except CdiError:
            raise
        except Exception as error:  # whatever it is: the engine must show a line, not a traceback
            if call.verb not in {"exec", "update"} and (call.may_ask or story.devices):
                raise internal(error) from error
        become(call)
    except CdiError as error:
        try:
            story.tell(error.findings)
            log.append(call, story, rootful=rootful, failed=True)
            report.fail(error, call.log, call.log_format)
        except Exception as failure:  # a module of ours is damaged; the refusal stands
            from shim import broken

            broken.tell(words, failure)
        _exit(1)  # no clean-up of the interpreter: 2 ms, and nothing is open


def become(call: Invocation) -> NoReturn:
    """Execute the low-level runtime. Raises CdiError, LOWLEVEL_EXEC."""
    try:
        execute(call.low, call.argv, call.ignored)
    except OSError as error:
        text = f"the low-level runtime {call.low} cannot be executed (errno {error.errno})"
        raise CdiError([Finding("LOWLEVEL_EXEC", text)]) from None


def prepare(call: Invocation, story: log.Story, rootful: bool) -> None:
    """Put the devices that are asked for into the bundle; leave the bundle alone when none is.

    Arguments:
        call: the call of the runtime.
        story: is told what happens.
        rootful: whether we are the host's root (shim.host.identity).
    Raises:
        CdiError: something is asked for and cannot be given.
    """
    if call.verb == "exec":
        from shim.create import exec_env  # late: no create needs it

        exec_env.complete(call)
        return
    if call.verb == "update":
        from shim.create import update_rules  # late: no create needs it

        update_rules.complete(call)
        return
    found, served, trouble = what_is_known()
    story.file = found.log_file
    bundle, config = _read(call, found)
    made, heard = demand(config, call, (found, served, trouble), story, rootful)
    if made is None or bundle is None:
        for finding in story.findings:
            report.warn(finding)
        return

    def change(config: Json) -> Json:
        edited = edit(config, made, call, rootful, heard)
        if found.fold == OFF or call.verb == "restore" or not has_hooks(made):
            return edited
        try:
            from shim.create import fold  # late, with the C core: most plans have no hooks
        except (ImportError, SyntaxError):  # such as a C module of another Python; the hooks themselves need none
            return edited
        edited, story.folded = fold.fold(edited, config, made, call, found.fold, rootful=rootful)
        return edited

    before, after = bundle.edit(change)
    for finding in story.findings:
        report.warn(finding)
    story.changed = after != before
    record.write(record.directory(), call, story.devices, made, bundle, before, after, story.folded)


def demand(
    config: Json,
    call: Invocation,
    what: tuple[Settings, Served | None, CdiError | None],
    story: log.Story,
    rootful: bool,
) -> tuple[Plan | None, Heard | None]:
    """What is asked for, as it is to be injected.

    Arguments:
        config: the decoded config.json.
        call: the create.
        what: of what_is_known().
        story: is told what happens.
        rootful: whether we are the host's root (shim.host.identity).
    Returns:
        the plan, None when nothing is asked for; and what the compatibility sources have to tidy up.
    Raises:
        CdiError: it cannot be given.
    """
    found, served, trouble = what
    if request.is_sandbox(config):
        return None, None
    if trouble:
        refuse_requests(config, call, found, trouble, story)
        return None, None
    wanted = request.ask(config, call.devices, found.annotation_prefixes, found.default_kind)
    heard = hear(config, found, wanted)
    story.tell(heard.warnings if heard else ())
    if not wanted:
        return None, heard
    story.devices = wanted
    rules.check_call(call.unknown, wanted, config)
    made = impose(resolve(list(wanted), served, heard.driver_only if heard else ()), config, call, rootful)
    story.tell([*found.warnings, *made.findings])
    story.specs = [origin["spec"] for origin in made.origins]
    return made, heard


def has_hooks(made: Plan) -> bool:
    """Whether a plan has hooks, which create may do itself."""
    return any(origin["edits"].get("hooks") for origin in made.origins)


def impose(made: Plan, config: Json, call: Invocation, rootful: bool) -> Plan:
    """The plan under the rules of create, and as it works in the container's user namespace. Raises CdiError."""
    made = rules.impose(made, call.launcher, rootful=rootful)
    if not rootful or edits.has_user_namespace(config):
        from shim.create import userns  # late: few containers have one

        made = userns.adapt(made, config)
    return made


def edit(config: Json, made: Plan, call: Invocation, rootful: bool, heard: Heard | None) -> Json:
    """The config with the devices. A restored container gets none: what runs in it was not started with them.

    Its annotations come from the archive of the checkpoint, which anybody may have written (CVE-2026-53492).
    """
    edited = merge.add(made, config)
    if heard:
        heard.tidy(edited)
    if any(origin["edits"].get("netDevices") for origin in made.origins):
        edited = _with_interfaces(edited, made, call, rootful)
    if call.verb == "restore" and edited != config and has_hooks(made):
        from shim.create import fold  # late, as above

        edited = fold.without(edited, config, made, call.launcher)
    if call.verb == "restore" and edited != config:
        text = f"the checkpoint asks for {', '.join(made.devices)}, which its container was not created with"
        raise CdiError([Finding("RESTORE_UNTRUSTED", text)])
    return edited


def _with_interfaces(edited: Json, made: Plan, call: Invocation, rootful: bool) -> Json:
    """The config in which the interfaces of the plan reach the container under every low-level runtime."""
    from shim.create import netdevices  # late, like the next: few specs move interfaces
    from shim.host import abilities

    return netdevices.place(
        edited,
        netdevices.wanted(made.origins),
        native=abilities.native_net_devices(call.low),
        rootful=rootful,
        launcher=call.launcher,
    )


def what_is_known() -> tuple[Settings, Served | None, CdiError | None]:
    """Configuration and devices. With a broken configuration every source counts, so that who asks is refused."""
    try:
        return *known.load(), None
    except Exception as error:  # also where a module that reads them is damaged
        from shim.create import unreadable  # late: the configuration is broken

        return unreadable.widest(error), None, error if isinstance(error, CdiError) else internal(error)


def refuse_requests(config: Json, call: Invocation, found: Settings, trouble: CdiError, story: log.Story) -> None:
    """Raise `trouble`, why the configuration does not count, if any source asks for a device."""
    from shim.create import unreadable  # late: as above

    story.devices = unreadable.requests(config, call.devices, found, trouble)
    if story.devices:
        raise trouble


def _read(call: Invocation, found: Settings) -> tuple[Bundle | None, Json]:
    """The bundle and its config. One that cannot be read matters only where something is asked for."""
    bundle = None
    try:
        bundle = Bundle(call.config)
        return bundle, bundle.config()
    except CdiError:
        if call.devices or (bundle and any(needle.encode() in bundle.raw for needle in found.needles())):
            raise
        return None, {}  # the low-level runtime says itself what is wrong with its bundle


def hear(config: Json, found: Settings, wanted: dict[str, str]) -> Heard | None:
    """Add what the compatibility sources ask for; None where none is switched on."""
    if found.environment == OFF and found.mounts == OFF:
        return None
    from shim.create import image_requests  # late: most machines have switched none on

    return image_requests.ask(config, found, wanted)


def resolve(names: list[str], served: Served | None, driver_only: Sequence[str]) -> Plan:
    """The plan for names that are asked for, from the index if it is whole. Raises CdiError."""
    if served:
        try:
            return plan.make(names, served, numbers="disk", driver_only=driver_only)
        except DamagedError:
            pass
    return plan.make(names, known.load(fresh=True)[1], numbers="disk", driver_only=driver_only)


def internal(error: Exception) -> CdiError:
    """What an exception that nobody expected becomes: a line with the place."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else ""
    if isinstance(error, (ImportError, SyntaxError)):
        return CdiError([Finding("SHIM_BROKEN", f"its modules cannot be loaded: {error}{where}", "install shim again")])
    return CdiError([Finding("INTERNAL", f"{type(error).__name__}: {error}{where}")])
