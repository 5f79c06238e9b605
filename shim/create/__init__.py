"""Create: a bundle goes in, a container with its devices comes out. HOT.

    read, decide, edit, record, log, execute

The launcher starts this only where a request is possible; for everything else it executes the low-level runtime itself.
What a container gets is decided in shim.create.recipe; here the decision is carried out.

Import budget, enforced by tests/unit/create/test_imports.py: builtin modules and our hot modules. Late imports, each at
one line: exec and update (below), folding (below), and those that shim.create.recipe, world and rules name. Nothing
here starts a program or opens a device.
"""

from __future__ import annotations

from posix import _exit, isatty
from time import time_ns

from shim.base.execute import execute
from shim.base.findings import CdiError, Finding, internal
from shim.create import answers, changes, log, record, record_files
from shim.create.bundle import tries
from shim.create.invocation import Invocation
from shim.create.outcome import Outcome
from shim.create.question import Question
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
    """Do what the command line asks for, then execute the low-level runtime; exit status 1 when refused.

    Arguments:
        words: the launcher's words, see shim.create.invocation.
    """
    call = Invocation(words)
    rootful = identity.is_rootful()
    outcome = prepare(call, rootful=rootful)
    _log(call, outcome, rootful)
    if not outcome.refusal:
        outcome.refusal = execute_low_level(call)
        _log(call, outcome, rootful)
    try:
        from shim.create import report

        report.fail(outcome.refusal, call.log, call.log_format)
    except Exception as failure:  # a module of ours is damaged; the refusal stands
        from shim import broken

        broken.tell(words, failure)
    _exit(1)  # no clean-up of the interpreter: 2 ms, and nothing is open


def prepare(call: Invocation, *, rootful: bool) -> Outcome:
    """Change what the low-level runtime will read, where the call asks for that.

    Arguments:
        call: the call of the runtime.
        rootful: whether we are the host's root (shim.host.identity).
    Returns:
        what came of it; it has a refusal where something is asked for and cannot be given, or is not granted.
    """
    if call.verb not in {"exec", "update"} and not call.is_repeated:
        return inject(call, rootful=rootful)
    outcome = Outcome()
    try:
        if call.is_repeated:
            record.clean_up(record_files.directory(), call.key)
        elif call.verb == "exec":
            from shim.create import exec_env  # late, like the next: no create needs it

            exec_env.complete(call)
        else:
            from shim.create import update_grants, update_rules

            update_grants.judge(call, outcome, rootful=rootful)
            if not outcome.refusal:
                update_rules.complete(call)
    except Exception as error:  # a module of ours is damaged: the call goes on without what we would do
        if call.verb == "update" and call.may_ask:  # the launcher has seen rules that may not be granted
            outcome.refusal = internal(error)
    return outcome


def inject(call: Invocation, *, rootful: bool) -> Outcome:
    """Put the devices that are asked for into the bundle; leave the bundle alone when none is.

    Arguments and result: as for `prepare`.
    """
    world, outcome = World(), Outcome()
    began = time_ns()
    try:
        if call.verb == "run":
            from shim.create import original  # late: engines call create

            original.give_back(call.config)
        for bundle in tries(call.config):
            question = Question(call, bundle, rootful=rootful)
            decision = outcome.decision = decide(question, world)
            if decision.refusal and _has_refreshed(decision.refusal):
                world = World()
                decision = outcome.decision = decide(question, world)
            outcome.refusal = decision.refusal
            if decision.refusal:
                break
            if decision.exclusive:
                from shim.create import holders  # late: few machines enforce grants

                holders.reserve(call, decision, world)
            edited, outcome.folded = carry_out(decision, bundle, call, world, rootful)
            outcome.changed = edited != bundle.config
            if call.verb == "run" and call.devices and outcome.changed:
                original.keep(bundle, edited)
            if not outcome.changed or bundle.put(edited):
                break
        world.save()
        if not decision.refusal:
            if decision.findings and isatty(2):  # a person sees it; the log has them in any case
                from shim.create import report  # late, as below: under an engine nothing is reported here

                for finding in decision.findings:
                    report.warn(finding)
            if decision.plan:
                record.write(record_files.directory(), call, decision, bundle, edited, outcome.folded)
            if call.question and call.answer:
                answers.leave(call, question, decision, began)
    except CdiError as error:
        outcome.refusal = error
    except Exception as error:  # whatever it is: the engine must show a line, not a traceback
        if call.may_ask or outcome.requests:
            outcome.refusal = internal(error)
    return outcome


# What is refused because of what a spec has, or because there is none
_OF_SPECS = ("DEVICE_UNKNOWN", "SPEC_STALE", "MOUNT_MISSING", "NODE_UNUSABLE", "HOOK_MISSING")


def _has_refreshed(refusal: CdiError) -> bool:
    """Whether specs were written anew while this create waited for that, which may mend what is refused."""
    if not any(finding.id in _OF_SPECS for finding in refusal.findings):
        return False
    try:
        from shim.create import stale  # late: only a create that is refused waits

        return stale.has_waited(refusal)
    except Exception:  # a module of ours is damaged: the refusal stands
        return False


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
        the new config, and hooks as in Outcome.folded.
    """
    edited = changes.make(bundle.config, decision.edits) if decision.edits else bundle.config
    if not decision.folds or not decision.plan:
        return edited, []
    from shim.create import fold  # late, with the C core: few plans have hooks that are folded

    return fold.fold(edited, bundle.config, decision.plan, call, world, decision.settings.fold, rootful=rootful)


def execute_low_level(call: Invocation) -> CdiError:
    """Execute the low-level runtime; the error (LOWLEVEL_EXEC) where that fails."""
    try:
        execute(call.low, call.argv, call.ignored)
    except OSError as error:
        text = f"the low-level runtime {call.low} cannot be executed (errno {error.errno})"
        return CdiError([Finding("LOWLEVEL_EXEC", text)])


def _log(call: Invocation, outcome: Outcome, rootful: bool) -> None:
    try:
        log.append(call, outcome, rootful=rootful)
    except Exception:  # noqa: S110  # a module of ours is damaged: a log that cannot be written changes nothing
        pass
