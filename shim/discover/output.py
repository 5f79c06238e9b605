"""From discoveries to spec files: what each file would hold, what stands in its way, and writing it.

    discoveries ──> prepare ──> [SpecFile] ──> write
                    documents, versions, conflicts, losses

Each spec is on its own: what is wrong with one does not keep the others from being written. A file is replaced by
rename, and only where its content changes, so a reader sees the old spec or the new one and engines are not woken for
nothing. What stands in the way of a spec leaves the old file as it is.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR, CdiError, Finding
from shim.base.paths import clean
from shim.cdi import spec, store
from shim.cdi.names import spec_name, split_kind
from shim.discover import conflicts, engine_versions, remembered, shrink
from shim.discover.document import document, narrowed
from shim.discover.remembered import Remembered
from shim.discover.state import make_directory
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from shim.discover.model import Discovery, Wish
    from shim.host.host import Host

DIRECTORY = "/var/run/cdi"
_MODE = 0o644
_SHOWN = 8  # losses that a message names
_SHORTEST = 2  # letters of a vendor and of a class: CDI 1.1.0 in engines fails on fewer

NEW, CHANGED, UNCHANGED, REFUSED = "new", "changed", "unchanged", "refused"


@dataclass(frozen=True)
class Target:
    """Where specs go, and under which conditions.

    Attributes:
        directory: for files named shim-VENDOR-CLASS.
        file: in place of that, the one file for the one spec; "-" for no file at all.
        format: yaml or json.
        engines: ENGINE=VERSION of each engine that must be able to read it.
        spec_dirs: every directory in which specs are read on this host.
        may_shrink: whether a spec may lose devices.
        takes_over: whether files in the way will be moved aside, so that they are none.
    """

    directory: str = DIRECTORY
    file: str = ""
    format: Literal["yaml", "json"] = "yaml"
    engines: tuple[str, ...] = ()
    spec_dirs: tuple[str, ...] = ()
    may_shrink: bool = False
    takes_over: bool = False


@dataclass
class SpecFile:
    """A spec that is to be written.

    Attributes:
        path: the file; "-" for none.
        vendor: the module that discovered its devices.
        suffix: of the draft.
        document: the spec.
        data: its text.
        before: the bytes of the file that is there, None for none.
        in_the_way: other files that serve its kind.
        losses: what the file that is there has and the new one lacks.
        findings: about this spec; an ERROR keeps it from being written.
        has_mode: whether the file that is there can be read by everybody.
    """

    path: str
    vendor: str
    suffix: str
    document: dict[str, Any]
    data: bytes
    before: bytes | None = None
    in_the_way: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    has_mode: bool = True

    @property
    def kind(self) -> str:
        """VENDOR/CLASS."""
        return str(self.document["kind"])

    @property
    def devices(self) -> list[str]:
        """The qualified names of its devices."""
        return [f"{self.kind}={device['name']}" for device in self.document["devices"]]

    @property
    def state(self) -> str:
        """What writing it means: new, changed, unchanged or refused."""
        if any(finding.level == ERROR for finding in self.findings):
            return REFUSED
        if self.before is None:
            return NEW
        return UNCHANGED if self.before == self.data and self.has_mode else CHANGED

    @cached_property
    def old(self) -> dict[str, Any] | None:
        """The document of the file that is there; None for a file that is none, or is broken."""
        if self.before is None:
            return None
        try:
            return spec.parse(self.before).document
        except CdiError:
            return None


def prepare(
    host: Host, discoveries: Iterable[Discovery], wish: Wish, target: Target, ours: Iterable[str] = ()
) -> tuple[list[SpecFile], list[Finding]]:
    """The specs of what was discovered.

    Arguments:
        host: the machine.
        discoveries: of the vendors.
        wish: what was asked for.
        target: where the specs go.
        ours: further files that are not in the way.
    Returns:
        the specs; and findings about drafts of which no spec can be made.
    Raises:
        CdiError: DISCOVERY_WISH for a device that nothing has, an engine, or more specs than files.
    """
    limit = engine_versions.limit(target.engines)
    discovered = [(discovery.vendor, draft) for discovery in discoveries for draft in discovery.drafts]
    findings: list[Finding] = []
    specs: list[SpecFile] = []
    for (vendor, draft), asked in zip(discovered, narrowed([draft for _, draft in discovered], wish), strict=True):
        try:
            content = document(draft, asked) if asked else None
            if content is not None:
                _check_length(content["kind"])
                content, warnings = engine_versions.lowered(content, limit, Tree(host).node)
                path = _path(target, content["kind"], draft.suffix)
                data = store.encode(content, target.format)
                specs.append(SpecFile(path, vendor, draft.suffix, content, data, findings=warnings))
        except CdiError as error:
            findings += error.findings
    _check_paths(specs, target)
    for planned in specs:
        if planned.path != "-":
            _compare(host, planned, [*ours, *(other.path for other in specs)], target)
    return specs, findings


def write(host: Host, planned: SpecFile, wish: Wish, target: Target) -> bool:
    """Write a spec, where it is new or changed, and remember how it was generated.

    Arguments:
        host: the machine.
        planned: of `prepare`.
        wish, target: as of `prepare`.
    Returns:
        whether its file was written.
    Raises:
        CdiError: SPEC_WRITE, DISCOVERY_STATE; the old file is as it was.
    """
    if planned.state == REFUSED:
        return False
    directory, _, name = planned.path.rpartition("/")
    is_written = planned.state != UNCHANGED
    if is_written:
        real = host.real(directory or "/")
        with store.refusals(planned.path, "written"):
            make_directory(real)
        store.put(planned.data, str(real), name)
    if directory in map(clean, (target.directory, *target.spec_dirs)):
        kept = Remembered(
            planned.path, planned.vendor, planned.kind, planned.suffix, target.format, target.engines, wish
        )
        remembered.save(host, kept)
    return is_written


def _check_length(kind: str) -> None:
    vendor, klass = split_kind(kind)
    for part, text in (("vendor", vendor), ("class", klass)):
        if len(text) < _SHORTEST:
            reason = f"the {part} {text!r} of {kind} has one letter, on which the CDI library 1.1.0 of engines fails"
            raise CdiError([Finding("DISCOVERY_WISH", reason, "choose a longer one with --class")])


def _path(target: Target, kind: str, suffix: str) -> str:
    if target.file:
        return target.file
    name = f"shim-{spec_name(*split_kind(kind))}{f'-{suffix}' if suffix else ''}.{target.format}"
    return f"{clean(target.directory).rstrip('/')}/{name}"


def _check_paths(specs: list[SpecFile], target: Target) -> None:
    """Raise CdiError where two specs would be one file."""
    paths = [planned.path for planned in specs]
    if len(set(paths)) == len(paths):
        return
    kinds = ", ".join(f"{planned.kind} of {planned.vendor}" for planned in specs if paths.count(planned.path) > 1)
    if target.file:
        text = f"there are {len(specs)} specs ({kinds}), and --output takes one"
        raise CdiError([Finding("DISCOVERY_WISH", text, "choose with --vendor, or name a directory with --spec-dir")])
    text = f"there are several specs of one kind: {kinds}"
    raise CdiError([Finding("DISCOVERY_WISH", text, "choose with --vendor, or give --class a CLASS without a vendor")])


def _compare(host: Host, planned: SpecFile, ours: list[str], target: Target) -> None:
    """Note what is at the path of a spec, and beside it."""
    status = host.status(planned.path)
    if status is not None:
        planned.before = _bytes(host, planned)
        planned.has_mode = stat.S_IMODE(status.st_mode) == _MODE
    old = planned.old
    if old is not None and old["kind"] == planned.kind:
        planned.losses = shrink.losses(old, planned.document)
    if planned.losses and not target.may_shrink:
        planned.findings.append(shrinks(planned))
    spec_dirs = dict.fromkeys(map(clean, (*target.spec_dirs, target.directory)))
    if planned.path.rpartition("/")[0] not in spec_dirs:
        return  # no engine reads it there
    planned.in_the_way = conflicts.others(host, spec_dirs, planned.kind, ours)
    if not target.takes_over:
        known = {kept.path for kept in remembered.every(host)} if planned.in_the_way else set()
        planned.findings += [
            conflicts.finding(host, path, planned.kind, planned.path, is_ours=path in known)
            for path in planned.in_the_way
        ]


def shrinks(planned: SpecFile) -> Finding:
    """SPEC_SHRINKS for what a spec would lose."""
    shown = ", ".join(planned.losses[:_SHOWN]) + (
        f" and {len(planned.losses) - _SHOWN} more" * (len(planned.losses) > _SHOWN)
    )
    return Finding("SPEC_SHRINKS", f"it would lose {shown}", path=planned.path)


def _bytes(host: Host, planned: SpecFile) -> bytes | None:
    try:
        return spec.read_bytes(str(host.real(planned.path)))
    except CdiError as error:
        planned.findings += [_at(finding, planned.path) for finding in error.findings]
        return None


def _at(finding: Finding, path: str) -> Finding:
    return Finding(finding.id, finding.text, finding.remedy, path=path, rule=finding.rule)
