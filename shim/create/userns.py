"""User namespaces: a plan whose ids and paths are those of the host becomes one that works inside. HOT, loaded late.

Two namespaces may lie between the host and the container: the one in which we run ourselves (rootless podman), and the
one that config.json makes or joins. Four things are different there:

    groups   additionalGids of a spec are the host's. Each is translated, through both, and left out with a warning
             (GID_UNMAPPED) where it has no meaning inside: the low-level runtime would fail on it.
    nodes    mknod is not allowed, so runc and crun bind-mount each node, and take the path in the container for the
             path on the host. Where the two differ we make it a bind mount ourselves.
    mounts   ids on a mount can be mapped only with CAP_SYS_ADMIN where the file system was mounted, that is by
             host root; for anybody else the low-level runtime would fail on what the reference library asks for. It
             fails, too, where the source's file system cannot map ids, which is tried: overlayfs, for a driver that
             a container brings.
    rights   root inside has no rights on a node of the host's root; one that will not open is reported (NODE_CLOSED).

Source: user_namespaces(7); OCI runtime specification, "User namespace mappings".
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean
from shim.cdi import edits
from shim.cdi.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.create.world import World
    from shim.host.nodes import Lookup

    Json = dict[str, Any]

_OVERFLOW = 65534  # the default of /proc/sys/kernel/overflowuid
KEEPS_GROUPS = "run.oci.keep_original_groups"  # crun's annotation, "1" by podman --group-add=keep-groups


class Mapping:
    """One id mapping: ranges of ids inside and outside of a user namespace."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: list[tuple[int, int, int]]) -> None:
        """Take (first id inside, first id outside, count) triples, as in /proc/pid/gid_map."""
        self._ranges = ranges

    def inside(self, number: int | None) -> int | None:
        """The id inside for one outside, None where it has none."""
        for first, outside, count in self._ranges:
            if number is not None and outside <= number < outside + count:
                return first + number - outside
        return None

    def outside(self, number: int | None) -> int | None:
        """The id outside for one inside, None where it has none."""
        for first, outside, count in self._ranges:
            if number is not None and first <= number < first + count:
                return outside + number - first
        return None

    def is_whole(self) -> bool:
        """Whether it changes nothing, as on the host itself."""
        return self._ranges[:1] in ([(0, 0, (1 << 32) - 1)], [(0, 0, 1 << 32)])


_SAME = Mapping([(0, 0, 1 << 32)])


class Ids:
    """The ids of one kind, users or groups, of a container.

    Attributes:
        own: between this process's namespace (inside) and the host (outside).
        container: between the container's namespace (inside) and ours (outside).
    """

    __slots__ = ("container", "own")

    def __init__(self, config: Json, kind: str, world: World, proc: str = "/proc") -> None:
        """Find the mappings.

        Arguments:
            config: the decoded config.json.
            kind: "uid" or "gid".
            world: reads the mappings of processes.
            proc: where procfs is, for tests.
        """
        self.own = _read_map(f"{proc}/self/{kind}_map", world) or _SAME
        self.container = _container_map(config, kind, world, proc)

    def hold(self, number: int) -> bool:
        """Whether the container's namespace has an id that the kernel shows to us as `number`."""
        if number == _OVERFLOW and not self.own.is_whole():
            return False  # in a namespace of our own this is what every id looks like that it lacks
        return self.container.inside(number) is not None


def adapt(plan: Plan, config: Json, world: World, *, proc: str = "/proc") -> Plan:
    """The plan for a container in a user namespace.

    Arguments:
        plan: what `rules.impose` gave; not changed.
        config: the decoded config.json.
        world: answers what node is at a path of the host, and reads the mappings of processes.
        proc: where procfs is, for tests.
    Returns:
        a plan with translated groups, in which nodes to be bind-mounted have the member `bind`, and mounts that must
        not be idmapped the member `plain`; with more findings.
    Raises:
        CdiError: NODE_UNUSABLE, where a node is missing that the low-level runtime would mount.
    """
    uids, gids = Ids(config, "uid", world, proc), Ids(config, "gid", world, proc)
    is_host = uids.own.is_whole()
    adapted = Plan(plan.devices, findings=plan.findings)
    groups: set[int] = set()
    present = _groups(config)
    for origin in plan.origins:
        block = dict(origin["edits"])
        if block.get("deviceNodes"):
            block["deviceNodes"] = [_bound(node, origin["spec"], world) for node in block["deviceNodes"]]
        if block.get("mounts"):
            block["mounts"] = [
                mount if is_host and _can_be_idmapped(mount, config, world) else {**mount, "plain": True}
                for mount in block["mounts"]
            ]
        if block.get("additionalGids"):
            numbers = block["additionalGids"]
            inside = {number: gids.container.inside(gids.own.inside(number)) for number in numbers}
            adapted.findings += _unmapped(
                [number for number in numbers if inside[number] is None], present, origin["spec"]
            )
            block["additionalGids"] = [inside[number] for number in numbers if inside[number] is not None]
            groups.update(block["additionalGids"])
        adapted.origins.append({**origin, "edits": block})
    if _keeps_groups(config):
        return adapted  # the process keeps the groups of the engine's caller, which cannot be seen from here
    caller = _Caller(config, uids, gids, groups)
    for origin in adapted.origins:
        for node in origin["edits"].get("deviceNodes") or ():
            adapted.findings += caller.warnings(node, origin["spec"], world.node)
    return adapted


def _bound(node: Json, spec: str, world: World) -> Json:
    """The node as it can be bind-mounted. Raises CdiError, NODE_UNUSABLE: the host has none."""
    host_path = node.get("hostPath")
    source = host_path or node["path"]
    if world.node(source) is None:
        text = f"the device node {source} is not on the host, and in a user namespace none can be made by numbers"
        raise CdiError([Finding("NODE_UNUSABLE", text, path=spec, rule="node-stat")])
    if host_path and clean(host_path) != clean(node["path"]):
        return {**node, "bind": True}
    return node


def _can_be_idmapped(mount: Json, config: Json, world: World) -> bool:
    """Whether the file system of a mount's source can do what `edits.mount` would ask for."""
    option = edits.idmap_option(mount) if edits.has_user_namespace(config) else ""
    return not option or world.can_map_ids(mount["hostPath"], recursive=option == "ridmap")


# --- groups ---------------------------------------------------------------------------------------------------------


def _groups(config: Json) -> list[object]:
    """The supplementary groups that config.json has."""
    process = config.get("process")
    user = process.get("user") if isinstance(process, dict) else None
    groups = user.get("additionalGids") if isinstance(user, dict) else None
    return groups if isinstance(groups, list) else []


def _unmapped(numbers: list[int], present: list[object], spec: str) -> list[Finding]:
    """A warning for each group that the container's user namespace does not have.

    Arguments:
        numbers: groups of the host.
        present: the groups that config.json has.
        spec: path of the spec that asks for them.
    """
    findings = []
    for number in numbers:
        text = f"the group {number} of the host is not mapped into the container's user namespace"
        if number in present:  # an engine's own CDI adds the number untranslated
            text += f": config.json has the number {number} already, and it stays, though it is another group inside"
        else:
            text += ", so it is left out"
        findings.append(Finding("GID_UNMAPPED", text, path=spec))
    return findings


# --- rights on nodes ------------------------------------------------------------------------------------------------

_OVERRIDE = "CAP_DAC_OVERRIDE"


class _Caller:
    """The container's process, by the ids that it has in our namespace: the kernel compares them with a node's."""

    __slots__ = ("_gids", "_groups", "_overrides", "_uid", "_uids")

    def __init__(self, config: Json, uids: Ids, gids: Ids, groups: set[int]) -> None:
        process = config.get("process")
        user = process.get("user") if isinstance(process, dict) else None
        user = user if isinstance(user, dict) else {}
        self._uids, self._gids = uids, gids
        self._uid = uids.container.outside(user.get("uid") or 0)
        numbers = {user.get("gid") or 0, *(user.get("additionalGids") or ()), *groups}
        self._groups = {gids.container.outside(number) for number in numbers} - {None}
        self._overrides = _OVERRIDE in _effective(process)

    def warnings(self, node: Json, spec: str, lookup: Lookup) -> list[Finding]:
        """A finding where the process will not be able to open a node of the host."""
        path = node.get("hostPath") or node["path"]
        host = lookup(path)
        permissions = node.get("permissions") or "rwm"
        if host is None or permissions == "none":
            return []
        _, _, _, mode, uid, gid = host
        if self._can_open(mode, uid, gid, ("r" in permissions) * 4 | ("w" in permissions) * 2):
            return []
        text = (
            f"{path} (mode {mode:04o}, uid {uid}, gid {gid}) will not open for the container's process: "
            "its user namespace does not hold the owner"
        )
        return [Finding("NODE_CLOSED", text, path=spec)]

    def _can_open(self, mode: int, uid: int, gid: int, wanted: int) -> bool:
        """What the kernel's check of a file's mode comes to (path_resolution(7), capabilities(7))."""
        if self._overrides and self._uids.hold(uid) and self._gids.hold(gid):
            return True
        shift = 6 if uid == self._uid else 3 if gid in self._groups else 0
        return mode >> shift & wanted == wanted


def _effective(process: object) -> list[str]:
    capabilities = process.get("capabilities") if isinstance(process, dict) else None
    effective = capabilities.get("effective") if isinstance(capabilities, dict) else None
    return effective if isinstance(effective, list) else []


def _keeps_groups(config: Json) -> bool:
    annotations = config.get("annotations")
    return isinstance(annotations, dict) and annotations.get(KEEPS_GROUPS) == "1"


# --- mappings -------------------------------------------------------------------------------------------------------


def _container_map(config: Json, kind: str, world: World, proc: str) -> Mapping:
    if not edits.has_user_namespace(config):
        return _SAME
    linux = config["linux"]
    given = linux.get(f"{kind}Mappings")
    if isinstance(given, list) and given:
        return Mapping([_range(entry) for entry in given if isinstance(entry, dict)])
    for namespace in linux["namespaces"]:
        path = namespace.get("path") if isinstance(namespace, dict) and namespace.get("type") == "user" else None
        if isinstance(path, str) and path.startswith("/proc/") and path.endswith("/ns/user"):
            joined = _read_map(f"{proc}{path[len('/proc') : -len('/ns/user')]}/{kind}_map", world)
            if joined:
                return joined
    return Mapping([])


def _range(entry: Json) -> tuple[int, int, int]:
    numbers = [entry.get(member) for member in ("containerID", "hostID", "size")]
    first, outside, count = (number if isinstance(number, int) else 0 for number in numbers)
    return first, outside, count


def _read_map(path: str, world: World) -> Mapping | None:
    """A mapping of /proc, None where it cannot be read: there are no user namespaces then, or the process is gone."""
    try:
        numbers = [int(word) for word in world.read(path)[1].split()]
    except (OSError, ValueError):
        return None
    return Mapping(list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=False))) if numbers else None
