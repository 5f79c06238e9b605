"""update: the resources of an engine get the device rules of the container's devices. Loaded for update only.

An engine gives new limits as a whole `linux.resources` from its own records (`update --resources`): containerd puts its
own list of device rules in, which does not know ours. runc reads past that list, crun obeys it, and so a container of a
kubelet that gave it other processors would lose its devices. The launcher adds the rules itself
(native/updaterules.c), and comes here only when the container has a record and something is unusual. Rules that are
there are not added twice, and resources without a list of rules stay as they are: crun leaves the rules alone then.

Standard input is read to its end, as the low-level runtime would, and replaced by a file in memory. Whatever is odd
about record or resources, they stay as they are, and update goes on.
"""

from __future__ import annotations

import posix

from shim.base import fastjson
from shim.create import merge, record_files, record_reader
from shim.create.bundle import edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.create.invocation import Invocation

    Json = dict[str, Any]

_INPUT = 0


def complete(call: Invocation, directory: str = "") -> None:
    """Complete the device rules in the resources of an update.

    Arguments:
        call: the call; its resources, and what names its record.
        directory: that of the records, found out when not given.
    """
    try:
        directory = directory or record_files.directory()
        entry = record_reader.read(directory, call) if directory and call.key and call.resources else None
        origins = entry["origins"] if entry else ()
        nodes = [node for origin in origins for node in origin["edits"].get("deviceNodes") or ()]
        if nodes and call.resources == "-":
            replace_input(lambda data: _edited(data, nodes))
        elif nodes:
            edit(call.resources, lambda resources: _completed(resources, nodes))
    except Exception:  # noqa: S110  # see above; not even a defect of ours may stop it
        pass


def _completed(resources: Json, nodes: list[Json]) -> Json:
    """The resources with the rules of the nodes; unchanged when they hold no rules at all."""
    if not resources.get("devices"):
        return resources
    config: Json = {"linux": {"resources": resources}}
    merge.add_rules(config, nodes)
    completed: Json = config["linux"]["resources"]
    return completed


def replace_input(edit: Callable[[bytes], bytes]) -> bytes:
    """Read standard input to its end, and put a file in memory in its place, from which it can be read again.

    Arguments:
        edit: makes of what was read what is to be read.
    Returns:
        what was read.
    Raises:
        OSError: it cannot be read, or the file cannot be made.
    """
    fd = posix.memfd_create("resources", posix.MFD_CLOEXEC)  # first: what is read must not be lost
    parts = []
    while part := posix.read(_INPUT, 1 << 16):
        parts.append(part)
    given = b"".join(parts)
    data = edit(given)
    written = 0
    while written < len(data):
        written += posix.pwrite(fd, data[written:], written)  # the reader begins at the beginning
    posix.dup2(fd, _INPUT)
    return given


def _edited(data: bytes, nodes: list[Json]) -> bytes:
    """The bytes with the rules in them; those given when nothing is to be added, or they are not what we know."""
    try:
        given, replaced = fastjson.loads_noting(data.decode("utf-8"))
        completed = given if replaced else _completed(given, nodes)
    except Exception:  # the low-level runtime reports what is wrong with them
        return data
    return fastjson.dumps(completed).encode("ascii") if completed != given else data
