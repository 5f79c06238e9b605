"""Engines and the versions of CDI specifications that they read, and a document made fit for one.

An engine carries a CDI library of its own, which refuses a whole file for a version or a member that it does not know.
So a host with an old engine needs a spec without the newer members; what a container loses by that is a warning.

Sources: go.mod (docker: vendor.mod) of each release of the engines, for the version of the library; of the library,
specs-go/config.go and pkg/cdi/version.go, for the version of the specification that it implements.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.cdi import versions
from shim.host.tree import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from shim.host.nodes import Node

    Json = dict[str, Any]

# engine -> (release from which on it holds, highest version of the specification), the oldest release first
TABLE: dict[str, tuple[tuple[tuple[int, ...], str], ...]] = {
    "podman": (
        ((4, 1), "0.4.0"),
        ((4, 3), "0.5.0"),
        ((4, 7), "0.6.0"),
        ((5, 1), "0.7.0"),
        ((5, 2), "0.8.0"),
        ((5, 5), "1.0.0"),
    ),
    "docker": (
        ((25,), "0.6.0"),
        ((25, 0, 17), "0.8.0"),
        ((26,), "0.6.0"),
        ((26, 1), "0.7.0"),
        ((27, 4), "0.8.0"),
        ((28, 1), "1.0.0"),
        ((29, 2), "1.1.0"),
    ),
    "containerd": (
        ((1, 7), "0.5.0"),
        ((1, 7, 12), "0.6.0"),
        ((1, 7, 16), "0.7.0"),
        ((1, 7, 27), "0.8.0"),
        ((2, 0, 5), "1.0.0"),
        ((2, 2, 1), "1.1.0"),
    ),
    "cri-o": (
        ((1, 24), "0.3.0"),
        ((1, 25), "0.5.0"),
        ((1, 28), "0.6.0"),
        ((1, 30), "0.7.0"),
        ((1, 31), "0.8.0"),
        ((1, 33), "1.0.0"),
        ((1, 35), "1.1.0"),
    ),
    "buildah": (((1, 36), "0.7.0"), ((1, 37), "0.8.0"), ((1, 40), "1.0.0"), ((1, 44), "1.1.0")),
}
_ALIASES = {"crio": "cri-o", "dockerd": "docker", "moby": "docker"}
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-+~ ].*)?", re.ASCII)


def highest(word: str) -> str:
    """The highest version of the CDI specification that an engine reads.

    Arguments:
        word: ENGINE=VERSION, as of the option --for; what a distribution adds to the version does not count.
    Raises:
        CdiError: DISCOVERY_WISH for an engine or a version that is unknown, or is too old for CDI.
    """
    name, _, version = word.partition("=")
    engine = _ALIASES.get(name.lower(), name.lower())
    known = ", ".join(TABLE)
    if engine not in TABLE:
        near = f"; perhaps {nearest(engine, TABLE)[0]}" if nearest(engine, TABLE) else ""
        raise _wish(f"--for {word}: no engine of that name is known (there are: {known}){near}")
    match = _VERSION.fullmatch(version)
    if not match:
        raise _wish(f"--for {word}: name the engine's version, for example --for podman=4.9.3")
    number = tuple(map(int, match[1].split(".")))
    reads = [highest for since, highest in TABLE[engine] if number >= since]
    if not reads:
        since = ".".join(map(str, TABLE[engine][0][0]))
        raise _wish(f"--for {word}: {engine} reads specs of this kind since {since}")
    return reads[-1]


def limit(words: Iterable[str]) -> str:
    """The version that all of these engines read, "" for no engine. Raises as `highest`."""
    return min((highest(word) for word in words), key=versions.rank, default="")


def lowered(document: Json, highest: str, node: Callable[[str], Node | None]) -> tuple[Json, list[Finding]]:
    """A document that an engine takes which reads versions up to `highest`.

    Arguments:
        document: of a spec.
        highest: a version of the specification; "" for no limit.
        node: the device node at a path of the host: its numbers stand in for a hostPath.
    Returns:
        the document, and warnings about what it lost.
    Raises:
        CdiError: SPEC_LOWERED where it cannot be done; DISCOVERY_NAME where a new name is taken.
    """
    if not highest or versions.rank(versions.minimum(document)) <= versions.rank(highest):
        return document, []
    lower = copy.deepcopy(document)
    lost = list(_lower(lower, versions.rank(highest), node))
    needed, field = versions.needs(lower)
    if versions.rank(needed) > versions.rank(highest):
        text = f"{lower['kind']} cannot be written for {highest}: {field} needs {needed}"
        remedy = "choose another class with --class, or an engine that reads a later version of CDI"
        raise CdiError([Finding("SPEC_LOWERED", text, remedy)])
    lower["cdiVersion"] = needed
    return lower, [Finding("SPEC_LOWERED", f"{lower['kind']}: {text}").as_warning() for text in dict.fromkeys(lost)]


def _lower(document: Json, highest: int, node: Callable[[str], Node | None]) -> Iterator[str]:
    """Take the members out that are newer than a version, by its rank; what a container loses by that."""
    if highest < versions.rank("0.6.0"):
        for holder in (document, *document["devices"]):
            holder.pop("annotations", None)  # a container gets nothing of them
    if highest < versions.rank("0.5.0"):
        renamed = _rename(document)
        if renamed:
            yield f"names that begin with a digit need 0.5.0, so there are {', '.join(renamed)} in their place"
    for edits in (document.get("containerEdits", {}), *(device["containerEdits"] for device in document["devices"])):
        yield from _lower_edits(edits, highest, node)
    kept = [device for device in document["devices"] if device["containerEdits"] or document.get("containerEdits")]
    gone = [device["name"] for device in document["devices"] if device not in kept]
    if gone:
        yield f"nothing is left of {', '.join(gone)}, so they are left out"
    document["devices"] = kept


def _lower_edits(edits: Json, highest: int, node: Callable[[str], Node | None]) -> Iterator[str]:
    if highest < versions.rank("0.7.0") and edits.pop("additionalGids", None):
        yield (
            "without additionalGids, which need 0.7.0, a process that is not root may use the restricted device nodes "
            "only if it is given their group, by --group-add for instance"
        )
    if highest < versions.rank("1.1.0") and edits.pop("netDevices", None):
        yield "without netDevices, which need 1.1.0, the network interfaces stay on the host"
    if highest < versions.rank("0.5.0"):
        for entry in edits.get("deviceNodes", ()):
            there = node(entry["hostPath"]) if "hostPath" in entry else None
            if there:
                entry.update({"type": there[0], "major": there[1], "minor": there[2]})
                del entry["hostPath"]
                yield "numbers of device nodes stand in for hostPath, which needs 0.5.0: they may change at a reboot"
    if highest < versions.rank("0.4.0"):
        for mount in edits.get("mounts", ()):
            mount.pop("type", None)  # the options say what it is


def _rename(document: Json) -> list[str]:
    """Give devices whose name begins with a digit a name that early versions take: 0 becomes gpu0. The new names."""
    klass = document["kind"].partition("/")[2]
    names = {device["name"] for device in document["devices"]}
    renamed = []
    for device in document["devices"]:
        if device["name"][0].isdigit():
            name = f"{klass}{device['name']}"
            if name in names:
                raise CdiError([Finding("DISCOVERY_NAME", f"two devices would be named {document['kind']}={name}")])
            device["name"] = name
            renamed.append(name)
    document["devices"].sort(key=lambda device: natural(device["name"]))
    return renamed


def _wish(text: str) -> CdiError:
    return CdiError([Finding("DISCOVERY_WISH", text)])
