"""Precreate: podman's own stage for editing a config.json, before the low-level runtime is called. HOT.

    podman ── config.json ──> `shim hook precreate` ── config.json ──> podman ──> runc

So podman users get their devices without another runtime: a file in a hooks directory names this hook, with the
annotations that it is for (docs/podman-precreate.json). Recipe, rules and errors are those of create. What differs
comes from not being the runtime:

    folding   is left out: neither the low-level runtime nor the bundle is known yet.
    exec      there is no record, since config.json is written later and by podman: `podman exec` does not see the
              variables of the device.
    errors    podman 4 shows the exit status alone, so the reason stands in the log (shim.create.log), too.

The bytes are handed back as they came when nothing is asked for.

Source: oci-hooks(5), schema 1.0.0; the stage is an extension of podman.
"""

from __future__ import annotations

from posix import _exit, read, write

from shim.base import fastjson
from shim.base.findings import CdiError, Finding, internal
from shim.create import changes, log, report
from shim.create.bundle import Input
from shim.create.invocation import Invocation
from shim.create.outcome import Outcome
from shim.create.question import Question
from shim.create.recipe import decide
from shim.create.world import World
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Json = dict[str, Any]

MAX_SIZE = 16 * 1024 * 1024


def main(words: list[str]) -> NoReturn:
    """Edit the config.json on standard input and write it to standard output; exit status 1 when refused, 2 for usage.

    Arguments:
        words: `self=PATH` of the launcher, then its arguments, of which there are none.
    """
    path, *arguments = words
    call = Invocation(["low=", "name=shim", path, "verb=precreate", "--"])
    if arguments:
        report.say("shim: hook precreate takes no arguments; see `shim hook precreate --help`")
        _exit(2)
    rootful = identity.is_rootful()
    outcome, edited = _edit(call, rootful=rootful)
    log.append(call, outcome, rootful=rootful)
    if outcome.refusal:
        report.fail(outcome.refusal, "", "text")
        _exit(1)
    for finding in outcome.findings:
        report.warn(finding)
    _exit(_write_all(edited))


def _edit(call: Invocation, *, rootful: bool) -> tuple[Outcome, bytes]:
    """What comes of the config.json on standard input, and its bytes with the devices that it asks for."""
    world, outcome = World(), Outcome()
    try:
        given = Input(_read_all())
        decision = outcome.decision = decide(Question(call, given, rootful=rootful), world)
        world.save()
        outcome.refusal = decision.refusal
        outcome.changed = bool(decision.edits)
        if decision.edits:
            return outcome, fastjson.dumps(changes.make(given.config, decision.edits)).encode("ascii")
        return outcome, given.raw
    except CdiError as error:
        outcome.refusal = error
    except Exception as error:  # as in create
        outcome.refusal = internal(error)
    return outcome, b""


def _read_all() -> bytes:
    parts, size = [], 0
    while part := read(0, 1 << 20):
        parts.append(part)
        size += len(part)
        if size > MAX_SIZE:
            raise CdiError([Finding("CONFIG_JSON", "standard input has more than 16 MiB")])
    return b"".join(parts)


def _write_all(data: bytes) -> int:
    """Write to standard output; the exit status."""
    view = memoryview(data)
    try:
        while view:
            view = view[write(1, view) :]
    except OSError as error:
        report.say(f"shim: the edited config.json cannot be written to standard output (errno {error.errno})")
        return 1
    return 0
