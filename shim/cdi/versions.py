"""Versions: which versions of documents exist, and the lowest version that a document needs.

A document names the version of the CDI specification that it is written for (`cdiVersion`). It is refused when the
version is not in the list, or lower than its features need: a runtime of that version would ignore these without a
message. There are no patch releases. Imports only names: the reader runs it for every document.
"""

from __future__ import annotations

from shim.cdi.names import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

KNOWN = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
CURRENT = KNOWN[-1]
LOWEST = "0.3.0"  # needed by a document without newer features; 0.1.0 and 0.2.0 are known, yet always too low
_RANK = {version: rank for rank, version in enumerate(KNOWN)}


class BadVersion(ValueError):  # noqa: N818 - beside BadName
    """A document's version that does not fit the document.

    Arguments:
        rule: "unknown-version" or "version-too-low".
        text: a sentence with the reason.
        remedy: what to write instead.
        needs: the lowest sufficient version, "" when the version is unknown.
    """

    def __init__(self, rule: str, text: str, remedy: str, needs: str = "") -> None:
        self.rule = rule
        self.remedy = remedy
        self.needs = needs
        super().__init__(text)


def known(version: str) -> bool:
    """Is it the version of a CDI specification? One leading `v` is allowed."""
    return version.removeprefix("v") in _RANK


def rank(version: str) -> int:
    """The position of a known version, or of one with a leading `v`, among all: the higher the newer."""
    return _RANK[version.removeprefix("v")]


def needs(document: Mapping[str, Any]) -> tuple[str, str]:
    """The lowest version that has all features of a document, and the field path of a feature that asks for it.

    Arguments:
        document: a decoded document; members of the wrong type are not expected.

    Returns:
        (version, field path); the path is "" when the document uses nothing newer than LOWEST.
    """
    version, reason = LOWEST, ""
    for needed, where in features(document):
        if _RANK[needed] > _RANK[version]:
            version, reason = needed, where
    return version, reason


def minimum(document: Mapping[str, Any]) -> str:
    """The lowest version that has all features of a document."""
    return needs(document)[0]


def check(document: Mapping[str, Any]) -> None:
    """Raise BadVersion unless the document's cdiVersion is known and not lower than its features need."""
    version = document.get("cdiVersion", "")
    if not known(version):
        text = f"cdiVersion {quoted(version)} is not known" if version else "cdiVersion is missing"
        listed = ", ".join(KNOWN[_RANK[LOWEST] :])
        raise BadVersion("unknown-version", text, f"write one of {listed}; there are no patch releases")
    needed, reason = needs(document)
    if _RANK[version.removeprefix("v")] < _RANK[needed]:
        cause = f"{reason or 'any document'} needs {needed}"
        text = f"cdiVersion {version} is too low: {cause}"
        raise BadVersion("version-too-low", text, f"write cdiVersion {needed} or newer", needed)


def features(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(version, field path) of every feature of the document that is newer than LOWEST; arguments as of `needs`."""
    if "." in (document.get("kind") or "").partition("/")[2]:
        yield "0.6.0", "the dot in the class of kind"
    if document.get("annotations"):
        yield "0.6.0", "annotations"
    yield from _edits(document.get("containerEdits"), "containerEdits")
    for index, device in enumerate(document.get("devices") or ()):
        where = f"devices[{index}]"
        if device.get("annotations"):
            yield "0.6.0", f"{where}.annotations"
        if "0" <= (device.get("name") or "x")[0] <= "9":
            yield "0.5.0", f"the digit that starts {where}.name"
        yield from _edits(device.get("containerEdits"), f"{where}.containerEdits")


def _edits(edits: Mapping[str, Any] | None, where: str) -> Iterator[tuple[str, str]]:
    if not edits:
        return
    for index, mount in enumerate(edits.get("mounts") or ()):
        if mount.get("type"):
            yield "0.4.0", f"{where}.mounts[{index}].type"
    for index, node in enumerate(edits.get("deviceNodes") or ()):
        if node.get("hostPath"):
            yield "0.5.0", f"{where}.deviceNodes[{index}].hostPath"
    if edits.get("additionalGids"):
        yield "0.7.0", f"{where}.additionalGids"
    if edits.get("netDevices"):
        yield "1.1.0", f"{where}.netDevices"
    rdt = edits.get("intelRdt")
    if rdt is not None:
        yield "0.7.0", f"{where}.intelRdt"
        if rdt.get("schemata") is not None:  # an empty list counts too
            yield "1.1.0", f"{where}.intelRdt.schemata"
        if rdt.get("enableMonitoring"):
            yield "1.1.0", f"{where}.intelRdt.enableMonitoring"
