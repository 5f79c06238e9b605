"""Merge: put a plan into a config.json in which some of it may stand already. Pure. HOT.

An engine may have applied the same names itself and left the annotation for us, and a create may come a second time to
the same bundle. So some steps of `edits.apply` have others in their place here, which add nothing that is there: a
config that has everything stays exactly as it is.

    variable        by name; ours replaces (the step of edits does so already)
    device node     by its path, cleaned; it stays if it has our numbers and all our members, else ours replaces
    cgroup rule     by all of it, behind the last rule that denies something
    mount           by destination and source, if it can be made at all
    hook            by stage, path and arguments
    group           by value
    network device  by its name on the host; it stays if it gets our name

Where the plan itself names a node or a mount target twice, the last one counts, as in the reference library. Nodes that
`userns.adapt` marked `bind` become bind mounts, and keep their cgroup rule; an entry of linux.devices for the same
path, by an engine or an earlier create, gives way. Mounts that it marked `plain` are not idmapped. Where a mount goes
among those of config.json is decided in shim.create.mounts.
"""

from __future__ import annotations

from shim.base.paths import clean
from shim.cdi import edits
from shim.create import mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.cdi.edits import Step
    from shim.cdi.plan import Plan

    Json = dict[str, Any]

# `dev` is the kernel's default: `nodev` must not be there. No propagation, no programs to run from it.
_NODE_MOUNT_OPTIONS = ("bind", "rprivate", "nosuid", "noexec")


class Entries:
    """The entries of a plan, each once, as they go into a config that has nothing of it.

    Attributes:
        devices: cleaned path -> entry of linux.devices.
        rules: cgroup rules.
        mounts: cleaned destination -> entry of mounts.
        hooks: hooks of the plan.
    """

    __slots__ = ("devices", "hooks", "mounts", "rules")

    def __init__(self) -> None:
        self.devices: dict[str, Json] = {}
        self.rules: list[Json] = []
        self.mounts: dict[str, Json] = {}
        self.hooks: list[Json] = []


def add(plan: Plan, config: Json, entries: Entries | None = None) -> Json:
    """A new config that has everything of the plan; equal to `config` when that has it already.

    Arguments:
        plan: what `rules.impose`, or after it `userns.adapt`, gave.
        config: a decoded config.json; it is not changed, and the result may share parts with it.
        entries: gets the entries of the plan, for an answer (shim.create.answers).
    Raises:
        CdiError: CONFIG_JSON, when a section that must be edited has another type.
    """
    bound = [node for origin in plan.origins for node in origin["edits"].get("deviceNodes") or () if node.get("bind")]
    made = entries or Entries()
    own: dict[str, Step] = {
        "deviceNodes": lambda result, nodes: _add_nodes(result, nodes, made),
        "netDevices": _add_net_devices,
        "mounts": lambda result, items: _add_mounts(result, bound, items, made),
        "hooks": lambda result, hooks: _add_hooks(result, hooks, made),
    }
    result = dict(config)
    blocks = [origin["edits"] for origin in plan.origins]
    for kind, (usual, _) in edits.KINDS.items():
        own.get(kind, usual)(result, edits.collect(blocks, kind))
    return result


def _last(items: list[Json], member: str) -> dict[str, Json]:
    """The items by the cleaned path in a member, without those whose path comes again later."""
    kept: dict[str, Json] = {}
    for item in items:
        path = clean(item[member])
        kept.pop(path, None)
        kept[path] = item
    return kept


def _entries(config: Json, *way: str) -> list[Json]:
    """The objects of the list that lies there; what has another type is left to the step that edits it, to complain."""
    value: Any = config
    for step in way:
        value = value.get(step) if isinstance(value, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# --- nodes and their rules ------------------------------------------------------------------------------------------


def _add_nodes(config: Json, nodes: list[Json], made: Entries) -> None:
    _add_devices(config, [node for node in nodes if not node.get("bind")], made)
    _take_devices(config, {clean(node["path"]) for node in nodes if node.get("bind")})
    made.rules = rules(nodes)
    _put_rules(config, made.rules)


def _add_devices(config: Json, nodes: list[Json], made: Entries) -> None:
    if not nodes:
        return
    owner = edits.process_owner(config)
    made.devices = {path: edits.device(node, owner) for path, node in _last(nodes, "path").items()}
    present: dict[str, list[Json]] = {}
    for entry in _entries(config, "linux", "devices"):
        present.setdefault(clean(str(entry.get("path"))), []).append(entry)
    missing = []
    for path, wanted in made.devices.items():
        there = present.get(path, [])
        if any(_says_as_much(entry, wanted) for entry in there):
            continue
        # with the text of the path that is there, so that ours takes its place
        missing.append({**wanted, "path": there[0]["path"]} if there else wanted)
    edits.add_devices(config, missing)


def _take_devices(config: Json, paths: set[str]) -> None:
    """Take the entries of these paths out of linux.devices: the low-level runtime would make a second mount of each."""
    devices = _entries(config, "linux", "devices")
    if not any(clean(str(entry.get("path"))) in paths for entry in devices):
        return
    linux = dict(config["linux"])
    linux["devices"] = [
        entry for entry in linux["devices"] if not isinstance(entry, dict) or clean(str(entry.get("path"))) not in paths
    ]
    config["linux"] = linux


def _says_as_much(entry: Json, wanted: Json) -> bool:
    return wanted.keys() <= entry.keys() and all(entry[name] == wanted[name] for name in ("type", "major", "minor"))


def add_rules(config: Json, nodes: list[Json]) -> None:
    """Append the cgroup rules of nodes that the config does not have.

    Arguments:
        config: changed in place, down to the sections that hold the rules, which become new ones.
        nodes: resolved nodes of a plan.
    Raises:
        CdiError: CONFIG_JSON, when one of these sections has another type.
    """
    _put_rules(config, rules(nodes))


def _put_rules(config: Json, wanted: list[Json]) -> None:
    # A rule counts from its place on: one in front of a later denial opens nothing any more.
    present: set[str] = set()
    for rule in _entries(config, "linux", "resources", "devices"):
        if rule.get("allow") is True:
            present.add(_whole(rule))
        else:
            present.clear()
    edits.add_rules(config, [rule for rule in wanted if not present or _whole(rule) not in present])


def rules(nodes: Iterable[Json]) -> list[Json]:
    """The cgroup rules of resolved nodes, each once."""
    wanted: dict[tuple[object, ...], Json] = {}
    for rule in map(edits.cgroup_rule, nodes):
        if rule:
            wanted.setdefault(tuple(rule.values()), rule)
    return list(wanted.values())


def _whole(item: Json) -> str:
    """A key by which two objects are equal when all their members are."""
    return repr(sorted(item.items()))


# --- mounts, hooks, network devices ---------------------------------------------------------------------------------


def _add_mounts(config: Json, bound: list[Json], items: list[Json], made: Entries) -> None:
    userns = edits.has_user_namespace(config)
    wanted = [
        {
            "destination": node["path"],
            "type": "bind",
            "source": node["hostPath"],
            "options": list(_NODE_MOUNT_OPTIONS),
        }
        for node in bound
    ]
    wanted += [edits.mount(item, userns=userns and not item.get("plain")) for item in items]
    if not wanted:
        return
    present = {
        (clean(str(entry.get("destination"))), clean(str(entry.get("source")))): entry
        for entry in _entries(config, "mounts")
    }
    made.mounts = _last(wanted, "destination")
    missing = []
    for path, entry in made.mounts.items():
        there = present.get((path, clean(entry["source"])))
        if there is None:
            missing.append(entry)
        elif _can_be_made(entry) and not _can_be_made(there):  # the same words, so that ours takes its place
            missing.append({**entry, "destination": there["destination"]})
    if missing:
        present_mounts = edits.without_first(config, "mounts", "destination", missing)
        config["mounts"] = mounts.placed(present_mounts, missing)


def _can_be_made(entry: Json) -> bool:
    """Whether a low-level runtime can make a mount; an engine's own CDI leaves out `rbind` where the spec does."""
    options = entry.get("options")
    return not edits.lacks_bind(entry.get("type"), options if isinstance(options, list) else ())


def _add_hooks(config: Json, hooks: list[Json], made: Entries) -> None:
    """Add the hooks that are not there; of two that are the same in the plan the first."""
    missing: list[Json] = []
    present: dict[str, list[tuple[object, object]]] = {}
    for item in hooks:
        if item in made.hooks:
            continue
        made.hooks.append(item)
        stage = item["hookName"]
        if stage not in present:
            present[stage] = [_call(entry) for entry in _entries(config, "hooks", stage)]
        if _call(item) not in present[stage]:
            missing.append(item)
    edits.add_hooks(config, missing)


def _call(hook: Json) -> tuple[object, object]:
    return hook.get("path"), list(hook.get("args") or ())


def _add_net_devices(config: Json, net_devices: list[Json]) -> None:
    linux = config.get("linux")
    there = linux.get("netDevices") if isinstance(linux, dict) else None
    if isinstance(there, dict):
        net_devices = [
            item for item in net_devices if not _is_moved(there.get(item["hostInterfaceName"]), item["name"])
        ]
    edits.add_net_devices(config, net_devices)


def _is_moved(entry: object, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name
