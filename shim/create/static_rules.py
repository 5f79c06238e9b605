"""Static rules: what a create refuses of a spec, or warns of, whatever the host has. Cold: `shim cdi validate`.

Each rule stands where the create applies it, in shim.create.rules and shim.create.netdevices; here they are laid over
every item of a spec. What hangs on the host (missing files, nodes, trust) or on the container is left to the create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.create import netdevices, rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from shim.base.findings import Finding

    Json = dict[str, Any]
    Way = tuple[str | int, ...]


def objections(document: Json, path: str) -> Iterator[tuple[Way, Finding]]:
    """What a create refuses or warns of.

    Arguments:
        document: a decoded spec without faults (shim.cdi.spec.examine).
        path: the file it is from, for the findings.
    Returns:
        (way to the item, finding), the same finding once in each block of edits.
    """
    yield from _of_block(document["containerEdits"], ("containerEdits",), path)
    for index, device in enumerate(document["devices"]):
        yield from _of_block(device["containerEdits"], ("devices", index, "containerEdits"), path)


def _of_block(edits: Json, way: Way, path: str) -> Iterator[tuple[Way, Finding]]:
    known = set()
    for kind, judge in _RULES.items():
        for index, item in enumerate(edits.get(kind, ())):
            for finding in judge(item, path):
                if (finding.id, finding.text) not in known:
                    known.add((finding.id, finding.text))
                    finding.path = path
                    yield (*way, kind, index), finding


def _interface(item: Json, _: str) -> list[Finding]:
    return netdevices.name_objections(item["hostInterfaceName"], item["name"])


def _hook(hook: Json, path: str) -> list[Finding]:
    return [*rules.stage_warnings(hook["hookName"], path), *rules.environment_warnings(hook, path)]


# Kind of edits -> what judges an item of it. That the program of a hook is absolute is a rule of the reader.
_RULES: dict[str, Callable[[Json, str], list[Finding]]] = {
    "deviceNodes": rules.node_objections,
    "netDevices": _interface,
    "mounts": rules.mount_objections,
    "hooks": _hook,
}
