"""Host rules: what of a spec this host does not have, or has otherwise. Cold: `shim cdi validate --host`.

A create judges the edits of the devices that are asked for; here each item of a spec is judged by the same functions
(shim.cdi.plan.complete, shim.create.rules.impose, shim.create.stale), so that the position of each finding is known.
Two facts do not matter to a create and are reported here alone: a network interface that is not there, which may be in
a container at present, and a node whose owner or mode is another than in the spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.cdi import plan
from shim.create import netdevices, rules, stale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.create.world import World

    Json = dict[str, Any]
    Way = tuple[str | int, ...]

_INTERFACES = "/sys/class/net"
_PERMISSIONS = 0o777


class HostRules:
    """The judge of the specs of this host.

    Arguments:
        world: answers what the host has.
        launcher: path of our own program.
        rootful: whether we are the host's root (shim.host.identity).
        user: our effective uid.
    """

    def __init__(self, world: World, launcher: str, *, rootful: bool, user: int) -> None:
        self._world = world
        self._launcher = launcher
        self._rootful, self._user = rootful, user

    def objections(self, document: Json, path: str) -> Iterator[tuple[Way, Finding]]:
        """What a create on this host refuses of a spec or warns of, and what is not there.

        Arguments:
            document: a decoded spec without faults (shim.cdi.spec.examine).
            path: the file it is from, for the findings.
        Returns:
            (way to the item, finding), each finding at the first item that it is about.
        """
        known: set[tuple[str, str]] = set()
        blocks: list[tuple[str | None, Way, Json]] = [(None, ("containerEdits",), document["containerEdits"])]
        blocks += [
            (device["name"], ("devices", index, "containerEdits"), device["containerEdits"])
            for index, device in enumerate(document["devices"])
        ]
        for device, way, edits in blocks:
            for kind in ("deviceNodes", "netDevices", "mounts", "hooks"):
                for index, item in enumerate(edits.get(kind, ())):
                    for finding in self._item(kind, item, (path, device, edits)):
                        if (finding.id, finding.text) not in known:
                            known.add((finding.id, finding.text))
                            finding.path = path
                            yield (*way, kind, index), finding

    def _item(self, kind: str, item: Json, block: plan.Block) -> list[Finding]:
        path, device, _ = block
        if kind == "netDevices":
            return self._interface(item)
        findings: list[Finding] = []
        if kind == "deviceNodes":
            try:
                made = plan.complete([], [(path, device, {kind: [item]})], numbers=plan.DISK, lookup=self._world.node)
            except plan.NodeError as error:
                return list(stale.missing_node(error, [block], self._world).findings)
            findings += [*made.findings, *self._owner(item)]
        else:
            made = plan.Plan([], [{"spec": path, "device": device, "edits": {kind: [item]}}])
        imposed, refused = rules.impose(made, self._launcher, self._world, rootful=self._rootful, user=self._user)
        known = {id(finding) for finding in made.findings}
        return [*findings, *refused, *(finding for finding in imposed.findings if id(finding) not in known)]

    def _interface(self, item: Json) -> list[Finding]:
        name = item["hostInterfaceName"]
        if netdevices.name_objections(name, item["name"]) or not self._world.is_missing(f"{_INTERFACES}/{name}"):
            return []
        text = f"the host has no network interface {name} here, which the spec hands to a container as {item['name']}"
        return [Finding("NETDEV_MISSING", text).as_warning()]

    def _owner(self, node: Json) -> list[Finding]:
        """NODE_OWNER, for a node whose owner, group or mode the spec gives otherwise than the host."""
        path = node.get("hostPath") or node["path"]
        there = self._world.node(path)
        if there is None or not there[0]:
            return []
        on_disk = {"fileMode": there[3] & _PERMISSIONS, "uid": there[4], "gid": there[5]}
        other = [member for member, value in on_disk.items() if member in node and _value(node, member) != value]
        if not other:
            return []
        given, now = (", ".join(_shown(member, of[member]) for member in other) for of in (node, on_disk))
        return [Finding("NODE_OWNER", f"the spec gives {node['path']} {given}, and {path} on the host has {now}")]


def _value(node: Json, member: str) -> int:
    value: int = node[member]
    return value & _PERMISSIONS if member == "fileMode" else value


def _shown(member: str, value: int) -> str:
    return f"mode {value & _PERMISSIONS:04o}" if member == "fileMode" else f"{member} {value}"
