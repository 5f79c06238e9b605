"""Spec files: reads a text into a checked document, or reports all its faults.

    text -> plain values -> document -> Spec
         jsontext         decode      rules
         yamltext

Strict JSON is read by jsontext, which is faster; other text, and any text with a fault, by yamltext, which has lines.
The rules and their order are those of the reference library (the first finding is its error); `deviations` has the
reasons for further rules. Limits: 4 MiB of text, 1000 levels, 500000 nodes.
"""

from __future__ import annotations

import posix

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cdi import jsontext
from shim.cdi.decode import MAX_FAULTS, Decoder, Fault, fold
from shim.cdi.names import split_kind
from shim.cdi.rules import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.decode import Path
    from shim.cdi.yamltext import Document

MAX_SIZE = 4 * 1024 * 1024  # bytes; a spec with 1000 devices has 0.6 MiB
_S_IFMT, _S_IFREG, _S_IFCHR = 0o170000, 0o100000, 0o020000
_NULL_DEVICE = posix.makedev(1, 3)
_MAX_FINDINGS = 100  # for a file; nobody reads more


class SpecError(CdiError):
    """A spec file that is refused. `findings` holds every fault, first the fault that the reference would report."""


class Spec:
    """A spec file that was read, without faults.

    Attributes:
        path: the file, "" for a text that is not from a file.
        priority: index of its directory in the list of directories; the highest counts.
        document: the decoded document, canonical: known members in the order of the specification, no empty members.
        kind, vendor, klass: VENDOR/CLASS and its parts.
        devices: name -> containerEdits, in the order of the file.
        edits: the edits that go with every device.
    """

    __slots__ = ("devices", "document", "edits", "kind", "klass", "path", "priority", "vendor")

    def __init__(self, document: dict[str, Any], path: str = "", priority: int = 0) -> None:
        self.path = path
        self.priority = priority
        self.document = document
        self.kind: str = document["kind"]
        self.vendor, self.klass = split_kind(self.kind)
        self.devices: dict[str, dict[str, Any]] = {item["name"]: item["containerEdits"] for item in document["devices"]}
        self.edits: dict[str, Any] = document["containerEdits"]


def parse(data: bytes, path: str = "", priority: int = 0) -> Spec:
    """Read the text of a spec file.

    Arguments:
        data: the text, JSON or YAML.
        path: the file it is from, for the findings.
        priority: see Spec.

    Raises:
        SpecError: the text is refused; nothing else is raised for any bytes.
    """
    document, findings = examine(data, path)
    if findings:
        raise SpecError(_listed(findings))
    return Spec(canonical(document), path, priority)


def read(path: str, priority: int = 0) -> Spec:
    """Read a spec file: a regular file of at most MAX_SIZE, links followed. Raises SpecError."""
    return parse(read_bytes(path), path, priority)


def faults(data: bytes, path: str = "") -> list[Finding]:
    """All faults of the text of a spec file; empty exactly when `parse` accepts it."""
    return _listed(examine(data, path)[1])


def is_mask(path: str) -> bool:
    """Whether a path leads to /dev/null, which needs no trust since it has no content."""
    try:
        status = posix.stat(path)
    except OSError:
        return False
    return status.st_rdev == _NULL_DEVICE and status.st_mode & _S_IFMT == _S_IFCHR


def read_bytes(path: str) -> bytes:
    """The content of a spec file.

    Never waits for a writer of a named pipe, opens no device and reads at most MAX_SIZE.

    Raises:
        SpecError: it cannot be opened or read, is no regular file, or is too large.
    """
    try:
        # stat before open: opening a device can start it, a watchdog for example.
        status = posix.stat(path)
        if status.st_rdev == _NULL_DEVICE and status.st_mode & _S_IFMT == _S_IFCHR:
            return b""  # a link to /dev/null masks a file, as usual
        if status.st_mode & _S_IFMT != _S_IFREG:
            raise _unreadable(path, "is no regular file")
        # O_NONBLOCK: if a pipe has replaced the file since, opening it does not block.
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, "cannot be opened", error) from None
    try:
        if posix.fstat(descriptor).st_mode & _S_IFMT != _S_IFREG:
            raise _unreadable(path, "is no regular file")
        chunks = []
        left = MAX_SIZE + 1
        while left and (chunk := posix.read(descriptor, min(left, 1 << 20))):
            chunks.append(chunk)
            left -= len(chunk)
    except OSError as error:
        raise _unreadable(path, "cannot be read", error) from None
    finally:
        posix.close(descriptor)
    return b"".join(chunks)


def _listed(findings: list[Finding]) -> list[Finding]:
    if len(findings) <= _MAX_FINDINGS:
        return findings
    text = f"there are {len(findings) - _MAX_FINDINGS} more faults or more"
    return [*findings[:_MAX_FINDINGS], Finding("SPEC_INVALID", text, path=findings[0].path, rule="more")]


def _unreadable(path: str, text: str, error: OSError | ValueError | None = None) -> SpecError:
    from shim.base import remedies  # late: only where a spec is refused

    remedy = remedies.to_read(error, path) if error else ""
    target = remedies.missing_target(path) if error else ""
    if target:
        text += f": it leads to {target}, which is missing"
    elif error:
        text += f": {reason(error)}"
    return SpecError([Finding("SPEC_UNREADABLE", text, remedy, path=path, rule="unreadable")])


def examine(data: bytes, path: str = "") -> tuple[dict[str, Any], list[Finding]]:
    """The decoded document of a text, and its findings.

    With findings the document may lack something; without any, `canonical` makes it what Spec holds.
    """
    if len(data) > MAX_SIZE:
        text = f"is larger than {MAX_SIZE >> 20} MiB, which no spec needs"
        return {}, [Finding("SPEC_UNREADABLE", text, path=path, rule="too-large")]
    try:
        value = jsontext.load(data)
    except jsontext.NotStrict:
        pass
    else:
        decoder = Decoder(json=True)
        document = decoder.document(value)
        if not decoder.faults and decoder.members == jsontext.members(data) and next(check(document), None) is None:
            return document, []
    # As YAML, which gives the same result for JSON, and has lines.
    from shim.cdi.yamltext import Document  # late: 19 ms, which a JSON spec shall not cost

    text_read = Document(data)
    first = [_of_text(fault.rule, fault.text, path, fault.line) for fault in text_read.faults if not fault.late]
    behind = [_of_text(fault.rule, fault.text, path, fault.line) for fault in text_read.faults if fault.late]
    if text_read.broken:
        return {}, first + behind
    if text_read.value is None:
        return {}, [*first, _of_text("no-data", "there is no document in it", path, 0), *behind]
    document, wrong = _judge(text_read.value)
    findings = [(fault.late, _of_field(fault, text_read, path)) for fault in wrong]
    first += [finding for late, finding in findings if not late]
    last = [finding for late, finding in findings if late]
    return document, first + last + behind


def canonical(document: dict[str, Any]) -> dict[str, Any]:
    """A decoded document without empty lists of schemata: these are needed only to check the version."""
    for edits in (document["containerEdits"], *(device["containerEdits"] for device in document["devices"])):
        if edits.get("intelRdt", {}).get("schemata") == []:
            del edits["intelRdt"]["schemata"]
    return document


def _judge(value: object) -> tuple[dict[str, Any], list[Fault]]:
    """Decode and check; rules are not applied to parts that could not be decoded."""
    decoder = Decoder()
    document = decoder.document(value)
    wrong = decoder.faults
    if any(not fault.path for fault in wrong):  # it is no mapping
        return document, wrong
    undecoded = {_folded(fault.path) for fault in wrong}
    around = {path[:length] for path in undecoded for length in range(len(path))}
    broken = (
        fault for fault in check(document) if not undecoded or not _touches(_folded(fault.path), undecoded, around)
    )
    return document, wrong + [fault for _, fault in zip(range(MAX_FAULTS), broken, strict=False)]


def _folded(path: Path) -> Path:
    return tuple(fold(step) if isinstance(step, str) else step for step in path)


def _touches(path: Path, undecoded: set[Path], around: set[Path]) -> bool:
    """Whether a part that could not be decoded is at this path, inside it or around it."""
    return path in around or any(path[:length] in undecoded for length in range(len(path) + 1))


def _of_text(rule: str, text: str, path: str, line: int) -> Finding:
    return Finding("SPEC_SYNTAX", text, path=path, line=line, rule=rule)


def _of_field(fault: Fault, text: Document, path: str) -> Finding:
    field = ""
    for step in fault.path:
        name = step if isinstance(step, int) or len(step) < 50 else f"{step[:47]}..."
        field += f"[{name}]" if isinstance(step, int) else f".{name}" if field else f"{name}"
    message = f"{field}: {fault.text}" if field else f"the document {fault.text}"
    return Finding("SPEC_INVALID", message, fault.remedy, path=path, line=text.locate(fault.path), rule=fault.rule)
