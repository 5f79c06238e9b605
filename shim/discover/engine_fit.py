"""What an engine's own CDI makes of a spec (`shim cdi validate --for`), and specs of another version. Pure.

The library in an engine decodes a file strictly: a version or a member that came later is an unknown one, and the whole
spec is refused. What it takes it passes on unchanged, so a mount that shim makes a bind mount is none there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.base.findings import ERROR, CdiError, Finding
from shim.cdi import versions
from shim.cdi.advice import warnings
from shim.cdi.spec import SpecError, canonical, examine
from shim.discover import engine_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Json = dict[str, Any]
    Way = tuple[str | int, ...]

# Faults of the version alone: the document is whole
_OF_VERSION = frozenset(("unknown-version", "version-too-low"))
_STEP = re.compile(r"\w+")


def check(data: bytes, path: str, engine: str) -> list[Finding]:
    """What an engine refuses of a spec, each with its line.

    Arguments:
        data: the text of the spec file.
        path: the file it is from, for the findings.
        engine: ENGINE=VERSION.
    Returns:
        SPEC_TOO_NEW for the version and for each member that the engine does not know; KIND_SHORT and MOUNT_NOT_BOUND,
        which are errors there. Nothing for a text with other faults, which have to be mended first.
    Raises:
        CdiError: DISCOVERY_WISH for an engine that is not known.
    """
    highest = engine_versions.highest(engine)
    document, faults = examine(data, path)
    if any(finding.rule not in _OF_VERSION for finding in faults):
        return []
    found = _located(_too_new(document, path, engine, highest), data)
    return found + [_as_error(finding, engine) for finding in warnings(data, path)]


def as_version(data: bytes, path: str, version: str) -> Json:
    """The document of a spec with another version, where its members allow it.

    Arguments:
        data, path: as of `check`.
        version: a known version of the CDI specification.
    Raises:
        CdiError: SPEC_TOO_NEW for each member that came later, with its line; as the reader for other faults.
    """
    document, faults = examine(data, path)
    if any(finding.rule not in _OF_VERSION for finding in faults):
        raise SpecError(faults)
    remedy = "--lossy leaves it out, with a warning about what containers lose"
    findings = [
        (way, Finding("SPEC_TOO_NEW", f"{field} needs CDI {needed}, and {version} is asked for", remedy, path=path))
        for way, needed, field in _newer(document, version)
    ]
    if findings:
        raise CdiError(_located(findings, data))
    return canonical({**document, "cdiVersion": version})


def _newer(document: Json, version: str) -> Iterator[tuple[Way, str, str]]:
    """Way, version and text of each field that came after a version."""
    for needed, field in versions.features(document):
        if versions.rank(needed) > versions.rank(version):
            yield _way(field), needed, field


def _too_new(document: Json, path: str, engine: str, highest: str) -> Iterator[tuple[Way, Finding]]:
    fields = list(_newer(document, highest))
    refuses = f"{engine} reads up to {highest}, and refuses the whole file"
    remedy = f"`shim cdi transform version --for {engine} {path}` lowers it, and --lossy leaves out what is newer"
    declared = document["cdiVersion"].removeprefix("v")
    if versions.known(declared) and versions.rank(declared) > versions.rank(highest):
        content = f"its members need {versions.minimum(document)}"
        text = f"cdiVersion {declared} is too high: {refuses}; {content}"
        simple = f"write cdiVersion {versions.minimum(document)}, or let `shim cdi transform version` do it"
        yield ("cdiVersion",), Finding("SPEC_TOO_NEW", text, remedy if fields else simple, path=path)
    for way, needed, field in fields:
        yield way, Finding("SPEC_TOO_NEW", f"{field} needs CDI {needed}: {refuses}", remedy, path=path)


def _located(findings: Iterable[tuple[Way, Finding]], data: bytes) -> list[Finding]:
    """The findings with their lines."""
    from shim.cdi.yamltext import Document  # late, as in shim.cdi.advice

    text = Document(data)
    located = []
    for way, finding in findings:
        finding.line = text.locate(way)
        located.append(finding)
    return located


def _as_error(finding: Finding, engine: str) -> Finding:
    effects = {
        "KIND_SHORT": f"{engine} may have such a library, and does not start then",
        "MOUNT_NOT_BOUND": f"{engine} passes it on so, and the low-level runtime refuses the container",
    }
    error = Finding(finding.id, f"{finding.text}: {effects[finding.id]}", finding.remedy, path=finding.path)
    error.line, error.level = finding.line, ERROR
    return error


def _way(field: str) -> Way:
    """The steps to a field, of the text that shim.cdi.versions has for it."""
    steps = _STEP.findall(field.rpartition(" ")[2])
    return tuple(int(step) if step.isdigit() else step for step in steps)
