"""Precreate: podman's own stage for editing a config.json, before the low-level runtime is called. HOT.

    podman ── config.json ──> `shim hook precreate` ── config.json ──> podman ──> runc

So podman users get their devices without another runtime: a file in a hooks directory names this hook, with the
annotations that it is for (docs/precreate.json). The recipe, its rules and its errors are those of create. What differs
comes from not being the runtime:

    folding   is left out: nobody says which low-level runtime will come, or where the bundle will be.
    exec      there is no record, since config.json is written later and by podman: `podman exec` does not see the
              variables of the device.
    errors    podman 4 shows the exit status alone, so the reason stands in the log (shim.create.log), too.

The bytes are handed back as they came when nothing is asked for.

Source: oci-hooks(5), schema 1.0.0; the stage is an extension of podman.
"""

from __future__ import annotations

from posix import _exit, read, write

from shim import create
from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.create import log, report
from shim.create.invocation import Invocation
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from shim.config.settings import Settings

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
    story = log.Story()
    rootful = identity.is_rootful()
    try:
        try:
            edited = _edit(_read_all(), call, story, rootful)
        except CdiError:
            raise
        except Exception as error:  # as in create
            raise create.internal(error) from error
    except CdiError as error:
        story.tell(error.findings)
        log.append(call, story, rootful=rootful, failed=True)
        report.fail(error, "", "text")
        _exit(1)
    for finding in story.findings:
        report.warn(finding)
    log.append(call, story, rootful=rootful)
    _exit(_write_all(edited))


def _edit(raw: bytes, call: Invocation, story: log.Story, rootful: bool) -> bytes:
    """The bytes of the config with the devices that it asks for. Raises CdiError."""
    what = create.what_is_known()
    story.file = what[0].log_file
    config = _decoded(raw, what[0])
    made, heard = create.demand(config, call, what, story, rootful)
    if made is None:
        return raw
    edited = create.edit(config, made, call, rootful, heard)
    story.changed = edited != config
    return fastjson.dumps(edited).encode("ascii") if story.changed else raw


def _decoded(raw: bytes, found: Settings) -> Json:
    """The decoded config; one that is none matters only where something could be asked for, as in create."""
    repeated: list[str] = []

    def pairs(members: list[tuple[str, Any]]) -> Json:
        section = dict(members)
        if len(section) != len(members):
            names = [name for name, _ in members]
            repeated.extend(name for name in section if names.count(name) > 1)
        return section

    try:
        config = fastjson.loads(raw.decode("utf-8"), pairs)
        if not isinstance(config, dict):
            raise ValueError("it is no object")
        if repeated:
            raise ValueError(f"it holds the name {repeated[0]!r} twice in one object")
    except ValueError as error:
        if not any(needle.encode() in raw for needle in found.needles()):
            return {}
        text = f"standard input holds no config.json that can be edited: {error}"
        raise CdiError([Finding("CONFIG_JSON", text)]) from None
    return config


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
