"""Fake hosts of the other vendors' vectors: a map of paths to what lies there, made below a directory.

    "text"                                   a file
    {"text": ..., "mode": "0644"}            a file
    {"dir": true}, {"link": target}          a directory, a symbolic link
    {"node": [type, major, minor], "mode": "0660", "gid": 0, "uid": 0}

A missing directory above an entry is made.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.host.host import Host
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    Entries = dict[str, Any]

_TYPES = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
_MODE = "0660"


def build(tree: Entries, top: str) -> Host:
    """Make a tree below an existing directory.

    Arguments:
        tree: path -> what lies there; paths are without links of the tree.
        top: the `/` of the host.
    Returns:
        the host.
    """
    for path, entry in tree.items():
        at = Path(top, path.lstrip("/"))
        at.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, str):
            at.write_text(entry)
        elif "text" in entry:
            at.write_text(entry["text"])
            at.chmod(int(entry["mode"], 8))
        elif "link" in entry:
            at.symlink_to(entry["link"])
        elif "node" in entry:
            kind, major, minor = entry["node"]
            os.mknod(at, _TYPES[kind], os.makedev(major, minor))
            os.chown(at, entry.get("uid", 0), entry.get("gid", 0))
            at.chmod(int(entry.get("mode", _MODE), 8))
        else:
            at.mkdir(exist_ok=True)
    return Host(top)


def container(document: dict[str, Any], host: Host) -> dict[str, Any]:
    """What containers get of a spec: name of a device -> its nodes, hooks, mounts, variables.

    Arguments:
        document: the spec; edits of the whole spec are added to those of each device.
        host: whose nodes give what the spec leaves out, as engines do it (CDI, "fillMissingInfo").
    """
    common = document.get("containerEdits", {})
    return {device["name"]: _edits([common, device["containerEdits"]], host) for device in document["devices"]}


def existing(devices: dict[str, Any], is_needed: Callable[[str], bool]) -> dict[str, Any]:
    """What remains of devices when nodes that are not on the host are left out, and devices that need one of them.

    Arguments:
        devices: as `container` returns them.
        is_needed: whether a device cannot do without the node at a path. `all` has what is left of the others.
    """
    rest: dict[str, Any] = {}
    for name, edits in devices.items():
        there = {path: node for path, node in edits["nodes"].items() if node is not None}
        if name == "all" or not any(is_needed(path) and node is None for path, node in edits["nodes"].items()):
            rest[name] = {**edits, "nodes": there}
    if "all" in rest:
        own = {path for name, edits in rest.items() if name != "all" for path in edits["nodes"]}
        rest["all"] = {**rest["all"], "nodes": {path: rest["all"]["nodes"][path] for path in sorted(own)}}
    return rest if set(rest) - {"all"} else {}


def absent(devices: dict[str, Any], counts: Callable[[str], bool]) -> set[str]:
    """The paths of nodes of devices that are not on the host, as far as they count."""
    nodes = (item for edits in devices.values() for item in edits["nodes"].items())
    return {path for path, node in nodes if node is None and counts(path)}


def _edits(every: list[dict[str, Any]], host: Host) -> dict[str, Any]:
    result: dict[str, Any] = {"nodes": {}, "same_as": {}, "mounts": set(), "env": set(), "gids": set(), "hooks": []}
    for edits in every:
        for node in edits.get("deviceNodes", ()):
            result["nodes"][node["path"]] = _node(node, Tree(host))
        for mount in edits.get("mounts", ()):
            if not _is_node_again(mount, host, result["same_as"]):
                result["mounts"].add((mount["hostPath"], mount["containerPath"], *sorted(mount.get("options", ()))))
        result["env"] |= set(edits.get("env", ()))
        result["gids"] |= set(edits.get("additionalGids", ()))
        result["hooks"] += edits.get("hooks", ())
    return result


def _node(node: dict[str, Any], tree: Tree) -> dict[str, Any] | None:
    """A node as a container gets it, None when there is none on the host: engines refuse the container.

    The group is compared where it decides: others than the group are kept out.
    """
    on_host = tree.node(node.get("hostPath", node["path"]))
    if on_host is None:
        return None
    mode = node.get("fileMode", on_host[3]) & 0o777
    kind, major, minor = on_host[:3]
    numbers = (node.get("type", kind), node.get("major", major), node.get("minor", minor if "major" not in node else 0))
    return {"numbers": numbers, "mode": mode, "gid": 0 if mode & 0o006 == 0o006 else node.get("gid", 0)}


def _is_node_again(mount: dict[str, Any], host: Host, same_as: dict[str, str]) -> bool:
    """Whether a bind mount gives a node of the host a second path, as links below /dev/dri/by-path are mounted."""
    target = Tree(host).resolve(mount["hostPath"])
    if target is None or Tree(host).node(target) is None:
        return False
    same_as[mount["containerPath"]] = target
    return True
