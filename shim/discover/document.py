"""From a draft to the document of a spec: names, `all`, what is common, the hook, the version.

The document holds what a container needs and nothing that changes at a reboot: engines look up type and numbers of a
node when they inject it. Mode and group of a node are written where others than its group are kept out, since its
copy in the container would be open to everybody else; the group becomes an additional one of the container's process.

Source: CDI specification, "CDI JSON specification".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.cdi import versions
from shim.cdi.names import BadName, parse_qualified
from shim.discover.edits import Edits
from shim.host.tree import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from shim.discover.edits import DeviceNode
    from shim.discover.model import Draft, DraftDevice, Wish

ALL = "all"
_SHOWN = 8  # names in a message when none is near
_OPEN = 0o006  # read and write for others
_OF_GROUP = 0o060  # read or write for the group
_PERMISSIONS = 0o777
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT = 10  # seconds; a hook of ours takes milliseconds
_VENDOR_PROGRAMS = {"nvidia-cdi-hook": [], "nvidia-ctk": ["hook"]}

# Hooks of ours that make files out of links and folders, in the order of the work (hook_table in hooks/hook.c)
_LINKS, _COMPAT, _CACHE = "create-symlinks", "enable-cuda-compat", "update-ldcache"
HOOKS = (_LINKS, _COMPAT, _CACHE, "disable-device-node-modification", "update-application-profile")


def document(draft: Draft, wish: Wish) -> dict[str, Any] | None:
    """The document of a draft.

    Arguments:
        draft: of a spec.
        wish: which devices are written, the hook's path, whether numbers are.
    Returns:
        a spec that our reader takes; None when no device is left to write.
    Raises:
        CdiError: DISCOVERY_WISH for a device that is not there; DISCOVERY_NAME for two devices of one name.
    """
    devices = selected(draft, wish)
    if not devices:
        return None
    kind = draft.kind_in(wish)
    entries: dict[str, dict[str, Any]] = {}
    everything = Edits(has_gids=draft.common.has_gids)
    for device in devices:
        edits = device.edits.without(draft.common)
        everything.add(edits)
        for name in dict.fromkeys(device.names):
            if name in entries or (name == ALL and wish.has_all and draft.can_have_all):
                raise CdiError([Finding("DISCOVERY_NAME", f"two devices are named {kind}={name}")])
            _check_name(kind, name)
            entries[name] = _entry(name, edits, wish, dict(device.annotations))
    if wish.has_all and draft.can_have_all:
        entries[ALL] = _entry(ALL, everything, wish, {})
    written: dict[str, Any] = {
        "cdiVersion": versions.LOWEST,
        "kind": kind,
        "devices": [entries[name] for name in sorted(entries, key=natural)],
    }
    common = container_edits(draft.common, wish)
    if common:
        written["containerEdits"] = common
    return {**written, "cdiVersion": versions.minimum(written)}


def narrowed(drafts: Sequence[Draft], wish: Wish) -> list[Wish | None]:
    """For each draft the wish with those words of --device that are in it; None where none is.

    Arguments:
        drafts: of all vendors; a device need be in one of them only.
        wish: what is asked for.
    Raises:
        CdiError: DISCOVERY_WISH for a word that no draft knows.
    """
    known = [draft.words() for draft in drafts]
    for word in wish.devices:
        if drafts and word != ALL and not any(word in words for words in known):
            selected(drafts[0], replace(wish, devices=(word,)))
    if not wish.devices or ALL in wish.devices:
        return [replace(wish, devices=wish.devices and (ALL,))] * len(drafts)
    chosen = [tuple(word for word in wish.devices if word in words) for words in known]
    return [replace(wish, devices=words) if words else None for words in chosen]


def selected(draft: Draft, wish: Wish) -> list[DraftDevice]:
    """The devices of a draft that --device selects, by a name or an id; all of them when it is not given."""
    if not wish.devices:
        return list(draft.devices)
    known = draft.words()
    if ALL in wish.devices and ALL not in known:
        return list(draft.devices)
    unknown = [word for word in wish.devices if word not in known]
    if unknown:
        names = sorted(known, key=natural)
        near = ", ".join(nearest(unknown[0], names) or names[:_SHOWN]) or "none"
        text = f"--device {unknown[0]}: no such device of {draft.kind_in(wish)} (there are: {near})"
        raise CdiError([Finding("DISCOVERY_WISH", text, "`shim device list` shows the devices of this host")])
    wanted = [known[word] for word in wish.devices]
    return [device for device in draft.devices if device in wanted]


def container_edits(edits: Edits, wish: Wish) -> dict[str, Any]:
    """The containerEdits object of a draft's edits; empty when there are none."""
    nodes = sorted(edits.nodes.values(), key=lambda node: (node.path.count("/"), natural(node.path)))
    mounts = sorted(edits.mounts.values(), key=lambda mount: (mount.path.count("/"), natural(mount.path)))
    gids = sorted({node.node[5] for node in nodes if _needs_group(node)}) if edits.has_gids else []
    members = {
        "env": [f"{name}={value}" for name, value in sorted(edits.env.items())],
        "deviceNodes": [_node(node, has_numbers=wish.has_numbers) for node in nodes],
        "netDevices": [{"hostInterfaceName": name, "name": inside} for name, inside in edits.net_devices.items()],
        "mounts": [
            {"hostPath": mount.host_path, "containerPath": mount.path, "options": list(mount.options)}
            for mount in mounts
        ],
        "hooks": [*_hooks(edits, wish), *edits.foreign_hooks],
        "additionalGids": gids,
    }
    return {name: value for name, value in members.items() if value}


def _entry(name: str, edits: Edits, wish: Wish, annotations: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if annotations:
        entry["annotations"] = annotations
    return {**entry, "containerEdits": container_edits(edits, wish)}


def _check_name(kind: str, name: str) -> None:
    try:
        parse_qualified(f"{kind}={name}")
    except BadName as error:
        text = f"{kind}={name} is no name of a device: {error}"
        raise CdiError([Finding("DISCOVERY_NAME", text)]) from None


def _needs_group(node: DeviceNode) -> bool:
    """Whether the group of a node opens it, and nothing else does."""
    return node.node[5] != 0 and bool(node.node[3] & _OF_GROUP) and not _is_open(node)


def _is_open(node: DeviceNode) -> bool:
    return node.node[3] & _OPEN == _OPEN


def _node(node: DeviceNode, *, has_numbers: bool) -> dict[str, Any]:
    kind, major, minor, mode, _, gid = node.node
    entry: dict[str, Any] = {"path": node.path}
    if node.host_path != node.path:
        entry["hostPath"] = node.host_path
    if has_numbers:
        entry.update({"type": kind, "major": major, "minor": minor})
    if not _is_open(node):
        entry["fileMode"] = mode & _PERMISSIONS
        if gid:
            entry["gid"] = gid
    return entry


def _hooks(edits: Edits, wish: Wish) -> list[dict[str, Any]]:
    """The hook objects: one process of ours does everything; the vendor's programs do one task each."""
    options: dict[str, list[str]] = {}
    if edits.links:
        options[_LINKS] = _repeated("--link", (f"{target}::{link}" for link, target in edits.links.items()))
    if edits.folders:
        options[_CACHE] = _repeated("--folder", edits.folders)
    options.update({name: list(arguments) for name, arguments in edits.hooks.items()})
    names = [name for name in HOOKS if name in options and wish.wants_hook(name)]
    program = wish.hook_path.rpartition("/")[2]
    if program in _VENDOR_PROGRAMS:
        words = [program, *_VENDOR_PROGRAMS[program]]
        return [_hook(wish.hook_path, [*words, name, *options[name]]) for name in names]
    if not names:
        return []
    return [_hook(wish.hook_path, [program, "hook", *names, *(word for name in names for word in options[name])])]


def _hook(path: str, arguments: list[str]) -> dict[str, Any]:
    return {"hookName": "createContainer", "path": path, "args": arguments, "env": [_PATH], "timeout": _TIMEOUT}


def _repeated(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
