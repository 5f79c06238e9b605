"""apply: a plan and a config.json give a new config.json. Pure: no I/O, and the input is never changed.

HOT: imports nothing but the vocabulary of findings. The order is the reference library's: all edits of a plan are
collected first, then applied kind by kind, as the table KINDS lists them. Each step below is one kind, works on a copy
of the sections it touches, creates a missing section only when it has something to put there, and leaves every member
that it does not know. The create path replaces some steps by its own (shim.create.merge).

Source: CDI specification, "Container edits"; OCI runtime specification, config.md and config-linux.md.
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from shim.cdi.plan import Plan

    Json = dict[str, Any]  # an object of config.json or of a spec
    Step = Callable[[Json, list[Any]], None]  # changes a config in place: replaces the sections that it edits by copies

_IDMAP_OF = {"bind": "idmap", "rbind": "ridmap"}
_BINDS = frozenset(_IDMAP_OF)
_NO_FILE_SYSTEM = ("", "none", "bind", "rbind")  # types of mounts that name no file system


def apply(plan: Plan, config: Json) -> Json:
    """Put the plan's edits into a copy of `config`, kind by kind in the order of KINDS.

    Arguments:
        plan: what `plan.make` or `Plan.from_json` gave.
        config: a decoded OCI config.json; it is not changed, and the result may share parts with it.

    Returns the new config. Raises CdiError (CONFIG_JSON) when a section that must be edited has another type.
    """
    result = dict(config)
    blocks = [origin["edits"] for origin in plan.origins]
    for kind, (step, _) in KINDS.items():
        step(result, collect(blocks, kind))
    return result


def collect(blocks: list[Json], kind: str) -> list[Any]:
    """All items of a kind of edit, in the order of the plan; a value that is not a list is an item itself."""
    items: list[Any] = []
    for block in blocks:
        value = block.get(kind)
        if isinstance(value, list):
            items += value
        elif value is not None:
            items.append(value)
    return items


def add_env(config: Json, env: list[str]) -> None:
    """Set variables: an existing variable (the last, if it exists twice) is replaced, others are appended."""
    if not env:
        return
    process = _process(config)
    present = _list(process, "env", "process.env")
    indices = {_name(entry): index for index, entry in enumerate(present)}
    for entry in env:
        name = _name(entry)
        if name in indices:
            present[indices[name]] = entry
        else:
            indices[name] = len(present)
            present.append(entry)


def _name(entry: object) -> str:
    return str(entry).partition("=")[0]


def add_nodes(config: Json, nodes: list[Json]) -> None:
    """Add device nodes, and for each the cgroup rule that lets the container use it."""
    if not nodes:
        return
    owner = process_owner(config)
    add_devices(config, [device(node, owner) for node in nodes])
    add_rules(config, [rule for rule in map(cgroup_rule, nodes) if rule])


def add_devices(config: Json, devices: list[Json]) -> None:
    """Add entries of linux.devices; each replaces the first entry of the same path."""
    if not devices:
        return
    linux = _section(config, "linux", "linux")
    linux["devices"] = _replaced(_array(linux.get("devices"), "linux.devices"), "path", devices, stay=True)


def add_rules(config: Json, rules: list[Json]) -> None:
    """Append cgroup rules."""
    if not rules:
        return
    resources = _section(_section(config, "linux", "linux"), "resources", "linux.resources")
    _list(resources, "devices", "linux.resources.devices").extend(rules)


def device(node: Json, owner: tuple[int, int]) -> Json:
    """The entry of linux.devices for a resolved node.

    Arguments:
        node: a node of the plan, type and numbers filled in.
        owner: uid and gid of the process; used when the spec has none, and when they are not root's.
    """
    entry = {"path": node["path"], "type": node["type"], "major": node.get("major", 0), "minor": node.get("minor", 0)}
    if node.get("fileMode") is not None:
        entry["fileMode"] = node["fileMode"]
    for member, process_id in zip(("uid", "gid"), owner, strict=True):
        if node.get(member) is not None:
            entry[member] = node[member]
        elif process_id > 0:
            entry[member] = process_id
    return entry


def cgroup_rule(node: Json) -> Json | None:
    """The allow rule for a resolved node; None for types that cgroups do not know and for permissions "none".

    A rule without access, as the reference makes for "none", is refused by runc, and no rule means the same.
    """
    permissions = node.get("permissions") or "rwm"
    if node["type"] not in ("b", "c") or permissions == "none":
        return None
    return {
        "allow": True,
        "type": node["type"],
        "major": node.get("major", 0),
        "minor": node.get("minor", 0),
        "access": permissions,
    }


def add_net_devices(config: Json, net_devices: list[Json]) -> None:
    """Move network interfaces into the container: an entry for each name on the host, the last for a name counts."""
    if not net_devices:
        return
    moved = _section(_section(config, "linux", "linux"), "netDevices", "linux.netDevices")
    for item in net_devices:
        moved[item["hostInterfaceName"]] = {"name": item["name"]}


def add_mounts(config: Json, mounts: list[Json]) -> None:
    """Add mounts of a spec to those of the config, see put_mounts."""
    if mounts:
        userns = has_user_namespace(config)
        put_mounts(config, [mount(item, userns=userns) for item in mounts])


def put_mounts(config: Json, entries: list[Json]) -> None:
    """Add entries of mounts: the first of the same destination is removed, the new entry appended; then all are sorted.

    The sort is by depth, and stable. Without it a mount would hide those of the config that lie below its destination.
    """
    if not entries:
        return
    present = _replaced(_array(config.get("mounts"), "mounts"), "destination", entries, stay=False)
    config["mounts"] = sorted(present, key=_depth)


def _depth(entry: object) -> int:
    """How deep a mount lies: the slashes of its cleaned destination, where `/` itself counts like `/proc`."""
    destination = _member(entry, "destination")
    return clean(destination).count("/") if isinstance(destination, str) else 0


def mount(item: Json, *, userns: bool) -> Json:
    """The entry of mounts for a mount of a spec.

    Arguments:
        item: the mount of the spec.
        userns: the container gets a user namespace. A bind mount is then idmapped, so that ids on it keep their
            meaning, unless its options decide that already.
    """
    entry = {"destination": item["containerPath"], "source": item["hostPath"]}
    if item.get("type"):
        entry["type"] = item["type"]
    options = list(item.get("options") or ())
    if userns and (option := idmap_option(item)):
        options.append(option)
    if options:
        entry["options"] = options
    return entry


def idmap_option(item: Json) -> str:
    """The option to add for an idmapped mount: "idmap", "ridmap", or "" when none is needed or the mount has one."""
    options = item.get("options") or ()
    if "idmap" in options or "ridmap" in options:
        return ""
    # The last of the options counts, as in mount(8); the type decides only where the options leave it open.
    binds = [word for word in (item.get("type"), *options) if word in _IDMAP_OF]
    return _IDMAP_OF[binds[-1]] if binds else ""


def is_bind(options: Iterable[str]) -> bool:
    """Whether a low-level runtime makes a bind mount of a mount with these options; its type does not matter.

    Source: OCI runtime specification, config.md, "Mounts": the type of a bind mount is a dummy, options decide.
    """
    return not _BINDS.isdisjoint(options)


def lacks_bind(kind: str | None, options: Collection[str]) -> bool:
    """Whether a mount can be a bind mount only, by its type, and its options do not make it one.

    No low-level runtime can make such a mount: mount(2) knows no file system of these names (ENODEV). A remount needs
    no file system.
    """
    return (kind or "").casefold() in _NO_FILE_SYSTEM and not is_bind(options) and "remount" not in options


def add_hooks(config: Json, hooks: list[Json]) -> None:
    """Append hooks to their stages, after the existing hooks."""
    if not hooks:
        return
    stages = _section(config, "hooks", "hooks")
    for item in hooks:
        stage = item["hookName"]
        _list(stages, stage, f"hooks.{stage}").append(hook(item))


def hook(item: Json) -> Json:
    """The entry of a hook stage for a hook of a spec: what is empty is left out."""
    entry = {"path": item["path"]}
    for member in ("args", "env"):
        if item.get(member):
            entry[member] = list(item[member])
    if item.get("timeout") is not None:
        entry["timeout"] = item["timeout"]
    return entry


def set_intel_rdt(config: Json, sections: list[Json]) -> None:
    """Replace linux.intelRdt by the last section of the plan, as a whole: the reference does not merge members."""
    if sections:
        _section(config, "linux", "linux")["intelRdt"] = dict(sections[-1])


def add_gids(config: Json, gids: list[int]) -> None:
    """Add supplementary groups; 0 and existing groups are left out."""
    wanted = [gid for gid in gids if gid != 0]
    if not wanted:
        return
    user = _section(_process(config), "user", "process.user")
    present = _list(user, "additionalGids", "process.user.additionalGids")
    for gid in wanted:
        if gid not in present:
            present.append(gid)


# The kinds of edits: what puts the items of a kind into a config, and the members of config.json that it changes. In
# this order they are applied, and new members are added to config.json.
KINDS: dict[str, tuple[Step, tuple[tuple[str, ...], ...]]] = {
    "env": (add_env, (("process", "env"),)),
    "deviceNodes": (add_nodes, (("linux", "devices"), ("linux", "resources", "devices"))),
    "netDevices": (add_net_devices, (("linux", "netDevices"),)),
    "mounts": (add_mounts, (("mounts",),)),
    "hooks": (add_hooks, (("hooks",),)),
    "intelRdt": (set_intel_rdt, (("linux", "intelRdt"),)),
    "additionalGids": (add_gids, (("process", "user", "additionalGids"),)),
}


def _process(config: Json) -> Json:
    """A copy of the process section; a new section has the mandatory members but no program."""
    if config.get("process") is None:
        config["process"] = {"user": {"uid": 0, "gid": 0}, "cwd": ""}
    return _section(config, "process", "process")


def process_owner(config: Json) -> tuple[int, int]:
    """Uid and gid of the container's process, 0 where the config has none."""
    user = _object(_object(config.get("process"), "process").get("user"), "process.user")
    uid, gid = user.get("uid") or 0, user.get("gid") or 0
    if not isinstance(uid, int) or not isinstance(gid, int):
        raise _wrong("process.user", "must hold uid and gid as numbers")
    return uid, gid


def has_user_namespace(config: Json) -> bool:
    """Whether the container gets or joins a user namespace of its own."""
    linux = _object(config.get("linux"), "linux")
    namespaces = _array(linux.get("namespaces"), "linux.namespaces")
    return any(_member(namespace, "type") == "user" for namespace in namespaces)


def _section(parent: Json, member: str, where: str) -> Json:
    """Replace the object `member` of `parent` by a copy, or by a new object when it is absent or null."""
    section = dict(_object(parent.get(member), where))
    parent[member] = section
    return section


def _list(parent: Json, member: str, where: str) -> list[Any]:
    """Replace the list `member` of `parent` by a copy, or by a new list when it is absent or null."""
    items = list(_array(parent.get(member), where))
    parent[member] = items
    return items


def without_first(config: Json, member: str, key: str, entries: list[Json]) -> list[Any]:
    """The items of a list of config.json without the first that has the text of an entry under `key`, for each entry.

    Raises:
        CdiError: CONFIG_JSON, when the member is no list.
    """
    gone = {entry[key] for entry in entries}
    kept = []
    for item in _array(config.get(member), member):
        text = _member(item, key)
        if isinstance(text, str) and text in gone:
            gone.discard(text)
        else:
            kept.append(item)
    return kept


def _replaced(items: list[Any], key: str, entries: list[Json], *, stay: bool) -> list[Any]:
    """The items with the entries added; each entry replaces the first item with the same text under `key`.

    The first item is removed and the entry appended; if `stay`, and a second item with that text exists, the entry
    replaces that item instead. (The reference does this with devices and mounts. Indices are looked up, not searched
    for: a plan may hold thousands.)
    """
    result = list(items)
    indices: dict[object, list[int]] = {}
    for index, item in enumerate(items):
        text = _member(item, key)
        if isinstance(text, str):
            indices.setdefault(text, []).append(index)
    gone = set()
    for entry in entries:
        mine = indices.setdefault(entry[key], [])
        if mine:
            gone.add(mine.pop(0))
        if stay and mine:
            result[mine[0]] = entry
        else:
            mine.append(len(result))
            result.append(entry)
    return [item for index, item in enumerate(result) if index not in gone]


def _object(value: object, where: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, "must be an object")
    return value


def _array(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, "must be a list")
    return value


def _member(item: object, name: str) -> object:
    """A member of an item; None if the item is not an object, which the low-level runtime reports."""
    return item.get(name) if isinstance(item, dict) else None


def _wrong(where: str, what: str) -> CdiError:
    return CdiError([Finding("CONFIG_JSON", f"config.json: {where} {what}", rule="wrong-type")])
