"""What a container gets of a spec, whatever its text looks like: two generators are compared by it.

Nodes are as an engine makes them: type and numbers from the host, mode and owner from the spec, else from the host.
The hooks of links and of libraries are what they do; another hook is its name and arguments. What is common to all
devices and what a device has itself make no difference.
"""

from __future__ import annotations

import posixpath
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shim.host import elf
from shim.host.tree import natural

if TYPE_CHECKING:
    from shim.host.tree import Tree

    # device, group, key, our value, their value
    Difference = tuple[str, str, str, Any, Any]
    Document = dict[str, Any]
    Effects = dict[str, dict[str, Any]]  # group -> key -> value

_OPEN = 0o006
_PERMISSIONS = 0o777
_PROGRAMS = ("nvidia-cdi-hook", "nvidia-ctk")


def of_document(document: Document, host: Tree) -> dict[str, Effects]:
    """Qualified name of each device -> what a container that asks for it gets."""
    common = document.get("containerEdits") or {}
    return {
        f"{document['kind']}={device['name']}": of_edits([common, device.get("containerEdits") or {}], host)
        for device in document["devices"]
    }


def of_edits(every: list[dict[str, Any]], host: Tree) -> Effects:
    """The effects of containerEdits that are applied one after another."""
    effects: Effects = {name: {} for name in ("node", "mount", "env", "link", "folder", "hook", "gid", "net")}
    for edits in every:
        for node in edits.get("deviceNodes", ()):
            effects["node"][posixpath.normpath(node["path"])] = _node(node, host)
        for mount in edits.get("mounts", ()):
            options = sorted(mount.get("options", ()))
            effects["mount"][posixpath.normpath(mount["containerPath"])] = [mount["hostPath"], options]
        effects["env"].update(variable.split("=", 1) for variable in edits.get("env", ()))
        effects["gid"].update((str(gid), True) for gid in edits.get("additionalGids", ()))
        effects["net"].update((net["hostInterfaceName"], net["name"]) for net in edits.get("netDevices", ()))
        for hook in edits.get("hooks", ()):
            _add_hook(effects, hook)
    # the order of directories is that of the search
    effects["folder"] = {path: number for number, path in enumerate(effects["folder"])}
    for directory in effects["folder"]:
        for link, target in _loader_links(effects, directory, host).items():
            effects["link"].setdefault(link, target)
    return effects


def _loader_links(effects: Effects, directory: str, host: Tree) -> dict[str, str]:
    """The links that ldconfig makes in a directory: DT_SONAME of a library -> its newest file."""
    links: dict[str, str] = {}
    for path, (source, _) in sorted(effects["mount"].items(), key=lambda mount: natural(mount[0])):
        file = host.open(source) if posixpath.dirname(path) == directory and ".so" in path else None
        if file is None:
            continue
        try:
            with file:
                soname = elf.read(file).soname
        except elf.NotAnElfError:
            continue
        if soname and soname != posixpath.basename(path):
            links[f"{directory}/{soname}"] = path
    return links


def _node(node: dict[str, Any], host: Tree) -> list[Any]:
    path = node.get("hostPath") or node["path"]
    there = host.node(path) or ("", 0, 0, 0, 0, 0)
    mode = node.get("fileMode", there[3]) & _PERMISSIONS
    gid = node.get("gid", there[5])
    is_open = mode & _OPEN == _OPEN  # a group makes no difference where everybody may read and write
    return [path, *there[:3], mode, 0 if is_open else gid]


def _add_hook(effects: Effects, hook: dict[str, Any]) -> None:
    words = hook.get("args", [])[1:]
    if hook["path"].rpartition("/")[2] not in _PROGRAMS:
        effects["hook"][f"{hook['hookName']} {hook['path']}"] = words
        return
    if words[:1] == ["hook"]:
        words = words[1:]
    name, options = words[0], words[1:]
    values = [value for option, value in pairwise(options) if option in {"--link", "--folder"}]
    if name == "create-symlinks":
        for value in values:
            target, _, link = value.partition("::")
            # a later hook replaces the link of an earlier one
            effects["link"][link] = posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
    elif name == "update-ldcache":
        # whichever ldconfig is named, the cache is the same
        effects["folder"].update(dict.fromkeys(values))
    else:
        effects["hook"][f"{hook['hookName']} {name}"] = [hook["path"], *options]


def differences(ours: dict[str, Effects], theirs: dict[str, Effects]) -> list[Difference]:
    """What differs: device, group, key, our value, their value; None for what is not there.

    A device that one of both does not have is a difference of the group `device`.
    """
    found: list[Difference] = []
    for name in {**theirs, **ours}:
        if name not in ours or name not in theirs:
            found.append((name, "device", name, name in ours or None, name in theirs or None))
            continue
        for group, values in theirs[name].items():
            mine = ours[name][group]
            found += [
                (name, group, key, mine.get(key), values.get(key))
                for key in {**values, **mine}
                if mine.get(key) != values.get(key)
            ]
    return found
