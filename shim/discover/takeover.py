"""Takeover: a spec of another generator moved aside, with the units that would write it again, and all of it undone.

/var/lib/shim/takeover/NAME-HASH.json     what was done (Taken): the journal, written before anything is changed
/var/lib/shim/takeover/NAME-HASH.spec     the bytes of the file; nothing reads specs there, nor files of that suffix

A takeover that is cut off is undone like a whole one: each step of the way back looks at what is there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base import remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cdi import spec
from shim.discover import generators, remembered, state, units
from shim.discover.units import Unit
from shim.host.identity import short_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shim.host.host import Host

_FORMAT = 1


@dataclass
class Taken:
    """A file that was moved aside.

    Attributes:
        path: where it was.
        kind: that it serves.
        target: the spec that took its place.
        is_new: whether that spec was not there before.
        link: its text, for a symbolic link; None for a file.
        kept: where its bytes are now, "" for a link.
        mode, owner, group: of the file.
        modified: when it was changed last, in nanoseconds since 1970.
        attributes: name of an extended attribute -> its value in hexadecimal digits.
        remembered: how it was generated, if shim wrote it: the text of shim.discover.remembered's file.
        units: that wrote it, as they were.
    """

    path: str
    kind: str
    target: str
    is_new: bool
    link: str | None = None
    kept: str = ""
    mode: int = 0o644
    owner: int = 0
    group: int = 0
    modified: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    remembered: str = ""
    units: list[Unit] = field(default_factory=list)


@dataclass
class Undone:
    """What undoing came to.

    Attributes:
        restored: paths of files that are where they were.
        removed: paths of specs that had taken their place.
        findings: about what could not be undone, which stays in the journal.
    """

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def taken(host: Host) -> list[Taken]:
    """What was taken over and not undone yet. Raises CdiError: DISCOVERY_STATE."""
    return [state.load(host, path, _from_json) for path in state.names(host, _directory())]


def take(host: Host, path: str, kind: str, target: str) -> Taken:
    """Move a spec aside, and stop what writes it.

    Arguments:
        host: the machine.
        path: of the spec.
        kind: that it serves.
        target: the spec that takes its place.
    Raises:
        CdiError: TAKEOVER or DISCOVERY_STATE; the file is where it was.
    """
    real = host.real(path)
    record = Taken(path, kind, target, is_new=not os.path.lexists(host.real(target)))
    try:
        status = real.lstat()
        record.link = str(real.readlink()) if stat.S_ISLNK(status.st_mode) else None
        record.mode, record.owner, record.group = stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid
        record.modified = status.st_mtime_ns
        if record.link is None:
            record.attributes = {name: os.getxattr(real, name).hex() for name in os.listxattr(real)}
            record.kept = f"{_top(path)}.spec"
            state.keep(host, record.kept, spec.read_bytes(str(real)))
    except OSError as error:
        raise _refused(path, f"it cannot be moved aside: {reason(error)}", error) from None
    record.remembered = remembered.text(host, path)
    record.units = units.look(host, generators.units_of(host, path, kind))
    _save(host, record)
    try:
        units.stop(host, record.units)
        remembered.forget(host, path)
        real.unlink()
    except (OSError, CdiError) as error:
        findings = restore(host, record)
        if isinstance(error, CdiError):
            raise CdiError([*error.findings, *findings]) from None
        raise _refused(path, f"it cannot be moved aside: {reason(error)}", error) from None
    return record


def undo_takeover(host: Host, paths: Collection[str] | None = None) -> Undone:
    """Restore files that were moved aside, and the units that wrote them; remove the specs that took their places.

    What cannot be restored stays in the journal, so that it can be tried again.

    Arguments:
        host: the machine.
        paths: of the files; every file that was moved aside when not given.
    Raises:
        CdiError: DISCOVERY_STATE.
    """
    undone = Undone()
    for record in taken(host):
        if paths is not None and record.path not in paths:
            continue
        findings = _remove_ours(host, record, undone) or restore(host, record)
        undone.findings += findings
        if not findings:
            undone.restored.append(record.path)
    return undone


def restore(host: Host, record: Taken) -> list[Finding]:
    """Restore one file and its units, and take it out of the journal; why that cannot be done, [] where it was."""
    try:
        if not _is_back(host, record):
            _put_back(host, record)
        if record.remembered:
            remembered.put_back(host, record.path, record.remembered)
        units.restore(host, record.units)
        state.forget(host, f"{_top(record.path)}.json", *([record.kept] if record.kept else ()))
    except OSError as error:
        return _refused(record.path, f"it cannot be restored: {reason(error)}", error).findings
    except CdiError as error:
        return error.findings
    return []


def _remove_ours(host: Host, record: Taken, undone: Undone) -> list[Finding]:
    """Remove the spec that took a file's place, if shim wrote it: the two would serve the same devices."""
    if not record.is_new or not remembered.text(host, record.target):
        return []
    try:
        host.real(record.target).unlink(missing_ok=True)
        remembered.forget(host, record.target)
    except OSError as error:
        return _refused(record.target, f"it cannot be removed: {reason(error)}", error).findings
    except CdiError as error:
        return error.findings
    undone.removed.append(record.target)
    return []


def _is_back(host: Host, record: Taken) -> bool:
    """Whether the file lies at its path. Raises CdiError: TAKEOVER where another one does."""
    real = host.real(record.path)
    if not os.path.lexists(real):
        return False
    if record.link is not None:
        is_same = real.is_symlink() and str(real.readlink()) == record.link
    else:
        is_same = not real.is_symlink() and real.is_file() and real.read_bytes() == _kept(host, record)
    if not is_same:
        remedy = (
            f"move it away, then undo again; what was there before is {record.kept or 'a link to ' + str(record.link)}"
        )
        raise CdiError([Finding("TAKEOVER", "another file is there now", remedy, path=record.path)])
    return True


def _kept(host: Host, record: Taken) -> bytes:
    data = host.read(record.kept)
    if data is None:
        text = f"its copy, {record.kept}, is missing"
        raise CdiError([Finding("TAKEOVER", text, "let its generator write it again", path=record.path)])
    return data


def _put_back(host: Host, record: Taken) -> None:
    """Put the file at its path, with all that it had. Raises OSError, CdiError."""
    real = host.real(record.path)
    state.make_directory(real.parent)
    temporary = real.with_name(f".{real.name[:48]}.shim-{os.getpid()}")
    try:
        if record.link is not None:
            temporary.symlink_to(record.link)
            os.chown(temporary, record.owner, record.group, follow_symlinks=False)
        else:
            temporary.write_bytes(_kept(host, record))
            os.chown(temporary, record.owner, record.group)
            for name, value in record.attributes.items():
                with contextlib.suppress(OSError):  # as far as this file system and our rights go
                    os.setxattr(temporary, name, bytes.fromhex(value))
            temporary.chmod(record.mode)
            os.utime(temporary, ns=(record.modified, record.modified))
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _save(host: Host, record: Taken) -> None:
    state.save(host, f"{_top(record.path)}.json", {"format": _FORMAT, **asdict(record)})


def _from_json(document: Mapping[str, Any]) -> Taken:
    members = dict(document)
    if members.pop("format") != _FORMAT:
        raise ValueError("another version of shim wrote it")
    return Taken(**{**members, "units": [Unit(**unit) for unit in members["units"]]})


def _directory() -> str:
    return state.directory("takeover")


def _top(path: str) -> str:
    return f"{_directory()}/{Path(path).name}-{short_name(path)}"


def _refused(path: str, text: str, error: OSError) -> CdiError:
    return CdiError([Finding("TAKEOVER", text, remedies.to_write(error), path=path)])
