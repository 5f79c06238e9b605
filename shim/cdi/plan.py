"""Plan: the edits for the names of a request, as a plain value, each with the file it comes from.

HOT. Names are looked up here, device nodes completed from the host, and nodes that cannot work refused; `edits.apply`
then needs no host. A plan holds plain JSON values only, so it can be shown, compared, recorded and read back.

Two rules for the numbers of device nodes:

    "spec"  the reference library's: the spec's values are used, missing values come from the host.
    "disk"  the create path's: the node on disk decides, since drivers get other numbers when they are loaded again
            while specs still have the old; a spec with other numbers is reported (DEVNUM_STALE).

Source: CDI specification, "OCI Edits" and "deviceNodes"; the reference's rules as the conformance vectors pin them.
"""

from __future__ import annotations

from shim.base import fastjson
from shim.base.findings import CdiError, Finding, from_json
from shim.host.nodes import lookup as lookup_on_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any, Literal

    from shim.cdi.types import Named, ServingSpec
    from shim.host.nodes import Lookup, Node

    Json = dict[str, Any]
    Block = tuple[str, str | None, Json]  # path of the spec file, device or None, container edits

SPEC: Literal["spec"] = "spec"
DISK: Literal["disk"] = "disk"


class Plan:
    """What to inject.

    Attributes:
        devices: the qualified names asked for, in the order of the request.
        origins: {"spec": path, "device": name or None, "edits": container edits} in the order of application; device
            None means the spec-level edits of the file; device nodes are complete (type, numbers, mode).
        findings: warnings that came up while resolving.
    """

    __slots__ = ("_text", "devices", "findings", "origins")

    def __init__(self, devices: Iterable[str], origins: Iterable[Json] = (), findings: Iterable[Finding] = ()) -> None:
        self.devices = list(devices)
        self.origins = list(origins)
        self.findings = list(findings)
        self._text = ""

    def text(self) -> str:
        """The origins as JSON, for a plan that does not change any more. Raises as shim.base.fastjson.dumps."""
        if not self._text:
            self._text = fastjson.dumps(self.origins)
        return self._text

    def to_json(self) -> Json:
        """The plan as plain values; it shares them with the plan."""
        findings = [finding.to_json() for finding in self.findings]
        return {"devices": self.devices, "origins": self.origins, "findings": findings}

    @classmethod
    def from_json(cls, value: Json) -> Plan:
        """The plan from the value of `to_json`. Raises ValueError for any other value."""
        try:
            origins = [{"spec": o["spec"], "device": o["device"], "edits": dict(o["edits"])} for o in value["origins"]]
            return cls(value["devices"], origins, [from_json(f) for f in value["findings"]])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a plan: {error!r}") from error


class UnresolvedError(CdiError):
    """Names that no usable spec serves. Nothing was resolved.

    Attributes:
        names: the unknown names in the order of the request, repeats kept.
        findings: of each unknown name, then the first fault of each file that was refused.

    Its text has each name with names near to it, the directories searched and the files refused.
    """

    def __init__(self, names: Sequence[str], directories: Named) -> None:
        # late: only a request that fails needs it
        from shim.cdi import unresolved

        self.names = list(names)
        served = directories.whole()
        unknown = unresolved.findings(names, served)
        refused = unresolved.refused(served.findings)
        super().__init__([*unknown, *refused])
        self.args = (unresolved.text(unknown, refused, served),)


class NodeError(CdiError):
    """A device node that cannot be injected.

    Attributes:
        node: the path it is about: on the host when that cannot be used, in the container when the spec contradicts it.
    """

    def __init__(self, node: str, finding: Finding) -> None:
        self.node = node
        super().__init__([finding])


def make(
    names: Sequence[str],
    directories: Named,
    *,
    numbers: Literal["spec", "disk"] = SPEC,
    lookup: Lookup = lookup_on_host,
    driver_only: Collection[str] = (),
) -> Plan:
    """Resolve qualified device names.

    Arguments:
        names: VENDOR/CLASS=NAME; a repeated name is applied again, as the reference does.
        directories: what `cached.open` or `directories.read` gave.
        numbers: where device numbers come from, "spec" or "disk", see above.
        lookup: returns the node at a path of the host.
        driver_only: those of the names that ask for the files of a kind's driver without a device (the spec-level edits
            of Served.driver), unless a spec serves a device of that name. Not part of the CDI specification; create
            needs it for NVIDIA_VISIBLE_DEVICES=none.

    Returns the plan. Raises UnresolvedError when any name is not served, NodeError when a device node cannot be used.
    """
    return complete(names, find(names, directories, driver_only), numbers=numbers, lookup=lookup)


def find(names: Sequence[str], directories: Named, driver_only: Collection[str] = ()) -> list[Block]:
    """The container edits that qualified device names stand for, as the specs have them: the first half of `make`.

    Arguments: as for `make`.
    Returns:
        in the order of application: path of the spec file, name of the device or None for the edits that the file has
        for all its devices, container edits.
    Raises:
        UnresolvedError: a name is not served.
    """
    return _blocks(_resolve(names, directories, driver_only))


def complete(
    names: Sequence[str],
    blocks: Iterable[Block],
    *,
    numbers: Literal["spec", "disk"] = SPEC,
    lookup: Lookup = lookup_on_host,
) -> Plan:
    """The plan of the edits from `find`, its device nodes completed from the host: the second half of `make`.

    Arguments: as for `make`. Raises NodeError when a device node cannot be used.
    """
    plan = Plan(names)
    for spec, device, edits in blocks:
        resolved = dict(edits)
        nodes = edits.get("deviceNodes")
        if nodes:
            hosts = [lookup(node.get("hostPath") or node["path"]) for node in nodes]
            pairs = list(zip(nodes, hosts, strict=True))
            resolved["deviceNodes"] = [_complete(node, host, spec, numbers) for node, host in pairs]
            if numbers == DISK:
                plan.findings += [warning for node, host in pairs for warning in _warnings(node, host, spec)]
        plan.origins.append({"spec": spec, "device": device, "edits": resolved})
    return plan


def _resolve(
    names: Sequence[str], directories: Named, driver_only: Collection[str]
) -> list[tuple[ServingSpec, str | None]]:
    """Look each name up; raise UnresolvedError with all that are unknown. Device None: the spec-level edits alone."""
    served: list[tuple[ServingSpec, str | None]] = []
    unknown = []
    for name in names:
        serving = directories.get(name)
        if serving is not None:
            served.append(serving)
            continue
        drivers = directories.whole().driver(name.partition("=")[0]) if name in driver_only else []
        served += [(spec, None) for spec in drivers]
        if not drivers:
            unknown.append(name)
    if unknown:
        raise UnresolvedError(unknown, directories)
    return served


def _blocks(served: list[tuple[ServingSpec, str | None]]) -> list[Block]:
    """The blocks of edits in order: each device's, and before the first device of a file the file's own."""
    blocks: list[Block] = []
    met: set[int] = set()
    for spec, device in served:
        if id(spec) not in met:
            met.add(id(spec))
            if spec.edits:
                blocks.append((spec.path, None, spec.edits))
        if device is not None:
            blocks.append((spec.path, device, spec.devices[device]))
    return blocks


def _complete(node: Json, host: Node | None, spec: str, numbers: str) -> Json:
    """The node with type, numbers and mode.

    Arguments:
        node: of the spec.
        host: the node on the host at its path.
        spec: path of the spec.
        numbers: SPEC or DISK.
    Raises:
        NodeError: it cannot be used.
    """
    if host is None or not host[0]:
        if not _is_full(node):
            raise _unusable(node, host, spec)
        resolved = dict(node)
    elif numbers == DISK:
        resolved = _by_disk(node, host, spec)
    else:
        resolved = _by_spec(node, host, spec)
    if resolved.get("major", 0) < 0 or resolved.get("minor", 0) < 0:
        # In a cgroup rule -1 means every number: a typing error would open all devices of the host.
        raise _contradiction(node, spec, "node-negative-number", "has a negative device number")
    return resolved


def _warnings(node: Json, host: Node | None, spec: str) -> list[Finding]:
    """A warning when spec and host differ in a node that can be used: NODE_PHANTOM or DEVNUM_STALE."""
    if host is None or not host[0]:
        return [] if node["type"] == "p" else [_phantom(node, host, spec)]
    kind, major, minor, _, _, _ = host
    old = (node.get("major", 0), node.get("minor", 0))
    if kind == "p" or old[0] == 0 or old == (major, minor):
        return []
    text = f"the spec gives {node['path']} the numbers {old[0]}:{old[1]}, the node on disk has {major}:{minor}"
    return [Finding("DEVNUM_STALE", text, path=spec, rule="node-numbers")]


def _is_full(node: Json) -> bool:
    """Whether the spec has all values, so that the host is not needed. Major 0 counts as missing."""
    return bool(node.get("type")) and (node.get("major", 0) != 0 or node["type"] == "p")


def _by_spec(node: Json, host: Node, spec: str) -> Json:
    """The spec's node, completed from the host; a full node gets only a missing mode, and is not compared."""
    kind, major, minor, mode, _, _ = host
    resolved = dict(node)
    if not _is_full(node):
        given = node.get("type") or kind
        if given != kind:
            raise _wrong_type(node, host, spec)
        resolved["type"] = kind
        if node.get("major", 0) == 0 and kind != "p":
            resolved["major"], resolved["minor"] = major, minor
    if resolved.get("fileMode") is None:
        resolved["fileMode"] = mode
    return resolved


def _by_disk(node: Json, host: Node, spec: str) -> Json:
    """The numbers of the node on disk; the types must agree, where "u" is an older name of a character device."""
    kind, major, minor, mode, _, _ = host
    given = node.get("type") or kind
    if given != kind and (given, kind) != ("u", "c"):
        raise _wrong_type(node, host, spec)
    resolved = dict(node)
    resolved["type"] = kind
    if kind != "p":
        resolved["major"], resolved["minor"] = major, minor
    if resolved.get("fileMode") is None:
        resolved["fileMode"] = mode
    return resolved


def _unusable(node: Json, host: Node | None, spec: str) -> NodeError:
    if host is None:
        rule, what = "node-stat", "does not exist or cannot be seen"
    else:
        rule, what = "node-not-a-device", "is no device (a link is not followed)"
    host_path = node.get("hostPath") or node["path"]
    text = f"the device node {host_path} of the host {what}"
    return NodeError(host_path, Finding("NODE_UNUSABLE", text, path=spec, rule=rule))


def _phantom(node: Json, host: Node | None, spec: str) -> Finding:
    """The warning of a node that exists in the spec only."""
    what = "is not on the host" if host is None else "is no device on the host"
    given = f"{node['type']} {node.get('major', 0)}:{node.get('minor', 0)}"
    host_path = node.get("hostPath") or node["path"]
    text = f"{host_path} {what}, so the container gets whatever device has the numbers of the spec, {given}"
    return Finding("NODE_PHANTOM", text, path=spec, rule="node-stat" if host is None else "node-not-a-device")


_KINDS = {"b": "block device", "c": "character device", "p": "named pipe"}


def _wrong_type(node: Json, host: Node, spec: str) -> NodeError:
    host_path = node.get("hostPath") or node["path"]
    what = f"has type {node['type']} in the spec, but {host_path} has type {host[0]}, a {_KINDS[host[0]]}"
    return _contradiction(node, spec, "node-type-mismatch", what)


def _contradiction(node: Json, spec: str, rule: str, what: str) -> NodeError:
    finding = Finding("NODE_UNUSABLE", f"the device node {node['path']} {what}", path=spec, rule=rule)
    return NodeError(node["path"], finding)
