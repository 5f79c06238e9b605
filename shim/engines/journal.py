"""Files written together, and what was there before: so that `remove` gives back what `configure` found.

    DIRECTORY/KEY.json      what was done, for one runtime name in one engine's configuration (Record)
    DIRECTORY/KEY.N         the bytes of its N-th file before; 0600, whatever the file itself was

Both are written before the first file is changed, so that a crash leaves a way back. Each file is replaced as a whole
(shim.host.files); when one of them cannot be written, those before it are put back.

A file that still has the bytes that we gave it gets its old bytes. One that somebody changed since keeps that change:
only our keys go (shim.engines.texts.edits.revert).
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

from shim.cdi.findings import CdiError, Finding
from shim.cdi.paths import reason
from shim.engines.model import Add, Edit, Put
from shim.engines.texts.edits import revert
from shim.host import files, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shim.engines.host import Host

FORMAT = 1
SYSTEM_DIRECTORY = "/var/lib/shim/engines"


@dataclass
class File:
    """One file of a record.

    Attributes:
        path: the file.
        edits: what was done to it.
        before: its bytes before, None when it was missing.
        after: digest of what was written.
    """

    path: str
    edits: list[Edit]
    before: bytes | None
    after: str


@dataclass
class Record:
    """What configure did for one runtime name in one engine's configuration.

    Attributes:
        engine: its name.
        config: the engine's main file.
        name: the runtime's name.
        launcher: path of the launcher that was registered.
        default: the engine's default runtime before.
        as_default: whether the runtime was to become the default.
        low_level: where `link` was let lead to.
        link: the low-level link, "" when none was needed.
        linked: where that link led before, None when it was missing.
        time: when, in nanoseconds since 1970.
        files: in the order in which they were written.
    """

    engine: str
    config: str
    name: str
    launcher: str = ""
    default: str = ""
    as_default: bool = False
    low_level: str = ""
    link: str = ""
    linked: str | None = None
    time: int = field(default_factory=time.time_ns)
    files: list[File] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What its files are called after."""
        return f"{self.engine}-{self.name}-{identity.short_name(self.config)}"

    def file(self, path: str) -> File | None:
        """What the record says about a file."""
        return next((file for file in self.files if file.path == path), None)


def directory() -> str:
    """Where the records of this user lie: /var/lib/shim/engines, rootless `shim/engines` in $XDG_STATE_HOME."""
    if identity.is_rootful():
        return SYSTEM_DIRECTORY
    home = os.environ.get("XDG_STATE_HOME", "")
    return f"{home if home.startswith('/') else Path.home() / '.local/state'}/shim/engines"


def records(host: Host) -> list[Record]:
    """Every record of this user, in the order of their names.

    Raises:
        CdiError: CONFIG_BACKUP, for one that is damaged.
    """
    return [_load(host, path) for path in host.glob(f"{directory()}/*.json")]


def find(host: Host, engine: str, config: str, name: str) -> Record | None:
    """The record of a runtime name in an engine's configuration, None when there is none. Raises: as `records`."""
    path = f"{directory()}/{Record(engine, config, name).key}.json"
    return _load(host, path) if host.exists(path) else None


def digest(data: bytes | None) -> str:
    """What a record says about the bytes of a file; "" for one that is missing."""
    return hashlib.sha256(data).hexdigest() if data is not None else ""


def commit(
    host: Host, record: Record, contents: Mapping[str, bytes | None], check: Callable[[], None] = lambda: None
) -> None:
    """Keep a record, then bring files and the low-level link to what it says.

    Arguments:
        host: the machine.
        record: complete.
        contents: path -> new bytes; None for a file that shall be missing.
        check: looks at the result, and raises CdiError when it must not stay.
    Raises:
        CdiError: CONFIG_BACKUP, CONFIG_WRITE, or what `check` raised; everything is then as it was, an earlier
            registration of the same name included.
    """
    before = {path: host.read(path) for path in contents}
    linked = host.readlink(record.link)
    kept = find(host, record.engine, record.config, record.name)
    _save(host, record)
    try:
        for path, data in contents.items():
            put(host, path, data)
        if record.link:
            point(host, record.link, record.low_level)
        check()
    except CdiError:
        for path, data in before.items():
            if host.read(path) != data:
                put(host, path, data)
        if record.link:
            point(host, record.link, linked)
        forget(host, record)
        if kept:
            _save(host, kept)
        raise


def restored(host: Host, record: Record) -> dict[str, bytes | None]:
    """The content that each file of a record gets back.

    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX or ENGINE_CONFIG_SHAPE, for a file that was changed since and cannot be read.
    """
    contents: dict[str, bytes | None] = {}
    for file in record.files:
        contents[file.path] = without(file, host.read(file.path))
    return contents


def without(file: File, now: bytes | None) -> bytes | None:
    """What a file would be had we not touched it.

    Arguments:
        file: what a record says about it.
        now: its bytes, None when it is missing.
    Raises:
        CdiError: as shim.engines.texts.edits.revert.
    """
    if now is None or digest(now) == file.after:
        return file.before if now is not None else None
    return revert(file.edits, now, file.before)


def undo(host: Host, record: Record) -> None:
    """Give back what a record says, and forget it. The low-level link stays where another record needs it.

    Raises:
        CdiError: CONFIG_WRITE, CONFIG_BACKUP; ENGINE_CONFIG_SYNTAX or ENGINE_CONFIG_SHAPE as in `restored`.
    """
    for path, data in restored(host, record).items():
        now = host.read(path)
        put(host, path, data)
        _hand_over(host, record, path, now, data)
    heirs = _heirs(host, record)
    if is_ours_alone(host, record):
        point(host, record.link, record.linked)
    elif heirs and record.linked != record.low_level:  # who is the last of them gives back what was there first
        heirs[0].linked = record.linked
        _save(host, heirs[0])
    forget(host, record)


def is_ours_alone(host: Host, record: Record) -> bool:
    """Whether the low-level link of a record is as it made it, and no other record needs it."""
    return bool(record.link) and not _heirs(host, record) and host.readlink(record.link) == record.low_level


def _hand_over(host: Host, record: Record, path: str, now: bytes | None, then: bytes | None) -> None:
    """What later records say was in a file before them must not hold what this one did to it."""
    mine = record.file(path)
    for other in records(host):
        theirs = other.file(path)
        if other.time > record.time and mine and theirs and theirs.before is not None:
            theirs.before = without(mine, theirs.before)
            theirs.after = digest(then) if digest(now) == theirs.after else theirs.after
            _save(host, other)


def _heirs(host: Host, record: Record) -> list[Record]:
    return [other for other in records(host) if other.key != record.key and record.link and other.link == record.link]


def forget(host: Host, record: Record) -> None:
    """Remove a record and its copies. Raises CdiError: CONFIG_BACKUP."""
    top = f"{directory()}/{record.key}"
    try:
        for path in (f"{top}.json", *host.glob(f"{top}.[0-9]*")):
            host.real(path).unlink(missing_ok=True)
    except OSError as error:
        raise _refused("CONFIG_BACKUP", "it cannot be removed", error, f"{top}.json") from None


# --- on the disk ------------------------------------------------------------------------------------------------------


def put(host: Host, path: str, data: bytes | None) -> None:
    """Give a file its bytes, None: remove it. Raises CdiError: CONFIG_WRITE."""
    real = host.real(path)
    try:
        if data is None:
            real.unlink(missing_ok=True)
            return
        real.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        files.write(real, data)
    except (OSError, ValueError) as error:
        raise _refused("CONFIG_WRITE", "it cannot be written", error, path) from None


def point(host: Host, link: str, target: str | None) -> None:
    """Let a link lead somewhere, None: remove it. Raises CdiError: CONFIG_WRITE."""
    real = host.real(link)
    if host.readlink(link) == target:  # without root, a link that root has made is all there can be
        return
    try:
        if target is None:
            real.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # it holds links of others
                real.parent.rmdir()
            return
        real.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = real.with_name(f".{real.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(real)
    except OSError as error:
        raise _refused("CONFIG_WRITE", "it cannot be written", error, link) from None


def _save(host: Host, record: Record) -> None:
    top = f"{directory()}/{record.key}"
    said = {"format": FORMAT, **asdict(record), "files": []}
    try:
        place = host.real(directory())
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.chmod(0o700)
        for number, file in enumerate(record.files):
            copy = None if file.before is None else f"{top}.{number}"
            if copy is not None and file.before is not None:
                files.write(host.real(copy), file.before, mode=0o600)
            edits = [_edit_as_json(edit) for edit in file.edits]
            said["files"].append({"path": file.path, "edits": edits, "before": copy, "after": file.after})
        files.write(host.real(f"{top}.json"), json.dumps(said, indent=1).encode(), mode=0o600)
    except (OSError, ValueError) as error:
        raise _refused("CONFIG_BACKUP", "what the files were cannot be kept", error, f"{top}.json") from None


def _load(host: Host, path: str) -> Record:
    try:
        said = json.loads(host.read(path) or b"")
        if said.pop("format") != FORMAT:
            raise ValueError("another format")
        found = []
        for file in said.pop("files"):
            before = None if file["before"] is None else host.read(file["before"])
            if before is None and file["before"] is not None:
                raise ValueError(f"{file['before']} is missing")
            found.append(File(file["path"], [_edit(edit) for edit in file["edits"]], before, file["after"]))
        return Record(**said, files=found)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        text = f"it is no record of what was configured: {error}"
        remedy = "take the runtime out of the engine's configuration by hand, then remove this file"
        raise CdiError([Finding("CONFIG_BACKUP", text, remedy, path=path)]) from None


def _edit_as_json(edit: Edit) -> dict[str, Any]:
    steps = [
        ["put", step.keys, step.value] if isinstance(step, Put) else ["add", step.keys, step.items]
        for step in edit.steps
    ]
    return {"path": edit.path, "form": edit.form, "steps": steps, "head": edit.head}


def _edit(said: dict[str, Any]) -> Edit:
    steps = [
        Put(tuple(keys), value) if kind == "put" else Add(tuple(keys), tuple(value))
        for kind, keys, value in said["steps"]
    ]
    return Edit(said["path"], said["form"], tuple(steps), said["head"])


def _refused(id: str, what: str, error: OSError | ValueError, path: str) -> CdiError:
    cause = str(error) if str(error) == files.NOT_REGULAR else reason(error)
    return CdiError([Finding(id, f"{what}: {cause}", path=path)])
