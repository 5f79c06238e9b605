"""Create: a bundle goes in, a container with its devices comes out. HOT.

    read, decide, edit, record, execute

The launcher sends only what may ask for a device; for everything else it executes the low-level runtime itself. What a
container gets is decided in shim.create.recipe; here the decision is carried out.

Import budget, enforced by tests/unit/create/test_imports.py: builtin modules and our hot modules. Late imports, each in
one place: exec and update (below), folding (below), and those that shim.create.recipe, world and rules name. Nothing
here starts a process or opens a device.
"""

from __future__ import annotations

from posix import _exit

from shim.base.execute import execute
from shim.base.findings import CdiError, Finding, internal
from shim.create import log, record, report
from shim.create.bundle import tries
from shim.create.invocation import Invocation
from shim.create.question import Question, with_changes
from shim.create.recipe import decide
from shim.create.world import World
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from shim.create.bundle import Bundle
    from shim.create.recipe import Decision

    Json = dict[str, Any]


def main(words: list[str]) -> NoReturn:
    """Do what the launcher found out to be asked for, then execute the low-level runtime; exit status 1 when refused.

    Arguments:
        words: the launcher's words, see shim.create.invocation.
    """
    call = Invocation(words)
    outcome = log.Outcome()
    rootful = identity.is_rootful()
    try:
        try:
            prepare(call, outcome, rootful)
            log.append(call, outcome, rootful=rootful)
        except CdiError:
            raise
        except Exception as error:  # whatever it is: the engine must show a line, not a traceback
            if call.verb not in {"exec", "update"} and (call.may_ask or outcome.devices):
                raise internal(error) from error
        become(call)
    except CdiError as error:
        try:
            outcome.add(error.findings)
            log.append(call, outcome, rootful=rootful, failed=True)
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


def prepare(call: Invocation, outcome: log.Outcome, rootful: bool) -> None:
    """Change what the low-level runtime will read, where the call asks for that.

    Arguments:
        call: the call of the runtime.
        outcome: takes what happened.
        rootful: whether we are the host's root (shim.host.identity).
    Raises:
        CdiError: something is asked for and cannot be given.
    """
    if call.verb == "exec":
        from shim.create import exec_env  # late: no create needs it

        exec_env.complete(call)
    elif call.verb == "update":
        from shim.create import update_rules  # late: no create needs it

        update_rules.complete(call)
    else:
        inject(call, outcome, rootful)


def inject(call: Invocation, outcome: log.Outcome, rootful: bool) -> None:
    """Put the devices that are asked for into the bundle; leave the bundle alone when none is.

    Arguments and errors: as for `prepare`.
    """
    world = World()
    for bundle in tries(call.config):
        decision = decide(Question(call, bundle, rootful=rootful), world)
        outcome.take(decision)
        if decision.refusal:
            world.save()
            raise decision.refusal
        edited, outcome.folded = carry_out(decision, bundle, call, world, rootful)
        outcome.changed = edited != bundle.config
        if not outcome.changed or bundle.put(edited):
            break
    world.save()
    for finding in decision.findings:
        report.warn(finding)
    if decision.plan:
        place = record.directory()
        record.write(place, call, decision.wanted, decision.plan, bundle, edited, outcome.folded, decision.findings)


def carry_out(
    decision: Decision, bundle: Bundle, call: Invocation, world: World, rootful: bool
) -> tuple[Json, list[Json]]:
    """The config.json for the low-level runtime, and the hooks whose work was done beforehand.

    Arguments:
        decision: of `decide`, not refused.
        bundle: the bundle that it is about.
        call: the create.
        world: answers what lies at a path.
        rootful: whether we are the host's root (shim.host.identity).
    Returns:
        the new config, and hooks as in log.Outcome.folded.
    """
    edited = with_changes(bundle.config, decision.edits) if decision.edits else bundle.config
    if not decision.folds or not decision.plan:
        return edited, []
    from shim.create import fold  # late, with the C core: few plans have hooks that are folded

    return fold.fold(edited, bundle.config, decision.plan, call, world, decision.settings.fold, rootful=rootful)
