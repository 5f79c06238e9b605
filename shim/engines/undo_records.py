"""Records of the changes of configure, for each runtime name in each engine's configuration, to undo them.

DIRECTORY/KEY.json      what was done (Record)
DIRECTORY/KEY.N         the former bytes of its N-th file; 0600, whatever the mode of the file itself was
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.engines.model import Add, Drop, Edit, Put
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.texts.values import Keys
    from shim.host.host import Host

FORMAT = 1
SYSTEM_DIRECTORY = "/var/lib/shim/engines"


@dataclass
class File:
    """One file of a record.

    Attributes:
        path: the file.
        edits: applied to it.
        before: its former bytes, None when it was missing.
        after: digest of the bytes that were written.
    """

    path: str
    edits: list[Edit]
    before: bytes | None
    after: str

    @property
    def is_whole(self) -> bool:
        """Whether it is ours alone, not an engine's file with keys of ours in it."""
        return all(edit.form == "text" for edit in self.edits)


@dataclass
class Link:
    """A low-level link.

    Attributes:
        path: of the link.
        target: that it was given.
        former: its target before, None when it was missing.
    """

    path: str
    target: str
    former: str | None


@dataclass
class Record:
    """What configure did for one runtime name in one engine's configuration.

    Attributes:
        engine: its name.
        config: the engine's main file.
        name: the runtime's name.
        default: the engine's former default runtime.
        as_default: whether the runtime was to become the default.
        low_level: the target that `link` was given.
        link: the low-level link, "" when none was needed.
        linked: the former target of that link, None when it was missing.
        made: directories that were created for its files and its link.
        kept: low-level links that no configuration needs any more, and containers do.
        time: of configure, in nanoseconds since 1970.
        files: in the order in which they were written.
    """

    engine: str
    config: str
    name: str
    default: str = ""
    as_default: bool = False
    low_level: str = ""
    link: str = ""
    linked: str | None = None
    made: list[str] = field(default_factory=list)
    kept: list[Link] = field(default_factory=list)
    time: int = field(default_factory=time.time_ns)
    files: list[File] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The common beginning of the names of its files."""
        return f"{self.engine}-{self.name}-{identity.short_name(self.config)}"

    @property
    def links(self) -> list[Link]:
        """All links of the record, also those that are only kept."""
        own = [Link(self.link, self.low_level, self.linked)] if self.link else []
        return [*own, *self.kept]

    @property
    def is_registered(self) -> bool:
        """Whether a runtime is registered, and not only a link kept."""
        return bool(self.files)

    def file(self, path: str) -> File | None:
        """A file of the record, None if the record does not have it."""
        return next((file for file in self.files if file.path == path), None)


def directory() -> str:
    """The directory of this user's records: /var/lib/shim/engines, rootless `shim/engines` in $XDG_STATE_HOME."""
    if identity.is_rootful():
        return SYSTEM_DIRECTORY
    home = identity.user_directory(b"XDG_STATE_HOME", ".local/state", dict(os.environb))
    return f"{home or Path.home() / '.local/state'}/shim/engines"


def every(host: Host) -> list[Record]:
    """Every record of this user, in the order of their names.

    Raises:
        CdiError: CONFIG_BACKUP, for a damaged record, and where others can write to the directory.
    """
    _check(host)
    return [_load(host, path) for path in host.glob(f"{directory()}/*.json")]


def find(host: Host, engine: str, config: str, name: str) -> Record | None:
    """The record of a runtime name in an engine's configuration, None when there is none. Raises: as `every`."""
    _check(host)
    path = f"{directory()}/{Record(engine, config, name).key}.json"
    return _load(host, path) if host.exists(path) else None


def named_files(host: Host) -> Iterator[str]:
    """The files that records name; the records are not checked."""
    for path in host.glob(f"{directory()}/*.json"):
        with contextlib.suppress(CdiError, ValueError, LookupError, TypeError):  # damaged
            yield from [str(file["path"]) for file in json.loads(host.read(path) or b"")["files"]]


def digest(data: bytes | None) -> str:
    """The digest of a file's bytes, as in records; "" for a missing file."""
    return hashlib.sha256(data).hexdigest() if data is not None else ""


def save(host: Host, record: Record) -> None:
    """Write a record and its copies. Raises CdiError: CONFIG_BACKUP."""
    _check(host)
    top = f"{directory()}/{record.key}"
    document = {"format": FORMAT, **asdict(record), "files": []}
    if not record.kept:
        del document["kept"]  # which earlier versions do not know
    try:
        if not host.is_rehearsal:
            _make_private(host.real(directory()))
        for number, file in enumerate(record.files):
            copy = None if file.before is None else f"{top}.{number}"
            if copy is not None and file.before is not None:
                _write(host, copy, file.before)
            edits = [_edit_as_json(edit) for edit in file.edits]
            document["files"].append({"path": file.path, "edits": edits, "before": copy, "after": file.after})
        _write(host, f"{top}.json", json.dumps(document, indent=1).encode())
    except (OSError, ValueError) as error:
        raise refused("CONFIG_BACKUP", "the former files cannot be saved", error, f"{top}.json") from None


def _write(host: Host, path: str, data: bytes) -> None:
    if host.is_rehearsal:
        host.keep_file(path, data)
    else:
        files.write(host.real(path), data, mode=0o600)


def _check(host: Host) -> None:
    """Raise CONFIG_BACKUP where others could have written records, since their bytes go back into root's files."""
    real = host.real(directory())
    if identity.is_rootful():
        objection = host.objection(directory())
    else:  # a home may be writable for the user's own group
        objection = "" if identity.is_ours(str(real)) or not os.path.lexists(real) else "it is not this user's alone"
    if objection:
        remedy = "move it away; what is in it cannot be trusted, so take the runtime out of the engine's files by hand"
        text = f"records of configure are in it, and {objection}"
        raise CdiError([Finding("CONFIG_BACKUP", text, remedy, path=directory())])


def _make_private(path: Path) -> None:
    """Make the directory of the records, with mode 0700, where there is none. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=0o700)


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, with mode 0755 whatever the umask is. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)


def forget(host: Host, record: Record) -> None:
    """Remove a record and its copies. Raises CdiError: CONFIG_BACKUP."""
    top = f"{directory()}/{record.key}"
    try:
        for path in (f"{top}.json", *host.glob(f"{top}.[0-9]*")):
            if host.is_rehearsal:
                host.keep_file(path, None)
            else:
                host.real(path).unlink(missing_ok=True)
        if not host.is_rehearsal and not host.glob(f"{directory()}/*"):
            host.real(directory()).rmdir()
    except OSError as error:
        raise refused("CONFIG_BACKUP", "it cannot be removed", error, f"{top}.json") from None


def _load(host: Host, path: str) -> Record:
    try:
        document = json.loads(host.read(path) or b"")
        if document.pop("format") != FORMAT:
            raise ValueError("another format")
        files = []
        for file in document.pop("files"):
            before = None if file["before"] is None else host.read(file["before"])
            if before is None and file["before"] is not None:
                raise ValueError(f"{file['before']} is missing")
            files.append(File(file["path"], [_edit(edit) for edit in file["edits"]], before, file["after"]))
        kept = [Link(**link) for link in document.pop("kept", ())]
        return Record(**document, kept=kept, files=files)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        text = f"it is no record of configure: {error}"
        remedy = "take the runtime out of the engine's configuration by hand, then remove this file"
        raise CdiError([Finding("CONFIG_BACKUP", text, remedy, path=path)]) from None


def _edit_as_json(edit: Edit) -> dict[str, Any]:
    return {"path": edit.path, "form": edit.form, "steps": [*map(_step_as_json, edit.steps)], "head": edit.head}


def _step_as_json(step: Put | Add | Drop) -> list[Any]:
    if isinstance(step, Put):
        return ["put", step.keys, step.value]
    return ["add", step.keys, step.items] if isinstance(step, Add) else ["drop", step.keys, None]


def _edit(document: dict[str, Any]) -> Edit:
    steps = tuple(_step(kind, tuple(keys), value) for kind, keys, value in document["steps"])
    return Edit(document["path"], document["form"], steps, document["head"])


def _step(kind: str, keys: Keys, value: Any) -> Put | Add | Drop:
    if kind == "drop":
        return Drop(keys)
    return Put(keys, value) if kind == "put" else Add(keys, tuple(value))


def refused(id: str, what: str, error: OSError | ValueError, path: str) -> CdiError:
    """The error for something that the system refuses.

    Arguments:
        id: of the finding.
        what: the effect, a clause.
        error: of the system.
        path: the file.
    """
    cause = str(error) if str(error) == files.NOT_REGULAR else reason(error)
    remedy = remedies.to_write(error)
    if isinstance(error, PermissionError):
        remedy = "run it as root" if os.geteuid() != 0 else ""
    return CdiError([Finding(id, f"{what}: {cause}", remedy, path=path)])
