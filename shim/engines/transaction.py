"""Files written together, and what was there before: so that `remove` gives back what `configure` found.

A record (shim.engines.undo_records) with the old bytes is written before the first file is changed, so that a crash
leaves a way back. Each file is replaced as a whole (shim.base.files); when one of them cannot be written, those before
it are put back.

A file that still has the bytes that we gave it gets its old bytes. One that somebody changed since keeps that change:
only our keys go (shim.engines.texts.editing.revert).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from shim.base import files
from shim.base.findings import CdiError
from shim.base.paths import parent
from shim.engines.texts.editing import revert
from shim.engines.undo_records import File, Record, digest, every, find, forget, make_directory, refused, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shim.host.host import Host


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
    made = _missing(host, [*contents, record.link])
    record.made = [*(kept.made if kept else []), *made]
    save(host, record)
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
        _unmake(host, made)
        forget(host, record)
        if kept:
            save(host, kept)
        raise


def restored(host: Host, record: Record) -> dict[str, bytes | None]:
    """The content that each file of a record gets back.

    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX or ENGINE_CONFIG_SHAPE, for a file that was changed since and cannot be read.
    """
    contents: dict[str, bytes | None] = {}
    others = [other for other in every(host) if other.key != record.key]
    for file in record.files:
        now = host.read(file.path)
        # a file of ours that another runtime needs as well stays; what is in it is as new as the latest configure
        is_shared = file.is_whole and any(other.file(file.path) for other in others)
        contents[file.path] = now if is_shared else without(file, now)
    return contents


def without(file: File, now: bytes | None) -> bytes | None:
    """What a file would be had we not touched it.

    Arguments:
        file: what a record says about it.
        now: its bytes, None when it is missing.
    Raises:
        CdiError: as shim.engines.texts.editing.revert.
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
        save(host, heirs[0])
    left = _unmake(host, record.made)
    forget(host, record)
    others = every(host)
    if left and others:  # who is the last in a directory takes it away
        others[0].made = [*others[0].made, *left]
        save(host, others[0])


def is_ours_alone(host: Host, record: Record) -> bool:
    """Whether the low-level link of a record is as it made it, and no other record needs it."""
    return bool(record.link) and not _heirs(host, record) and host.readlink(record.link) == record.low_level


def _hand_over(host: Host, record: Record, path: str, now: bytes | None, then: bytes | None) -> None:
    """What later records say was in a file before them must not hold what this one did to it."""
    mine = record.file(path)
    for other in every(host):
        theirs = other.file(path)
        if other.time > record.time and mine and theirs and theirs.before is not None:
            theirs.before = without(mine, theirs.before)
            theirs.after = digest(then) if digest(now) == theirs.after else theirs.after
            save(host, other)


def _heirs(host: Host, record: Record) -> list[Record]:
    return [other for other in every(host) if other.key != record.key and record.link and other.link == record.link]


# --- on the disk ------------------------------------------------------------------------------------------------------


def put(host: Host, path: str, data: bytes | None) -> None:
    """Give a file its bytes, None: remove it. Raises CdiError: CONFIG_WRITE."""
    real = host.real(path)
    try:
        if data is None:
            real.unlink(missing_ok=True)
            return
        make_directory(real.parent)
        files.write(real, data)
    except (OSError, ValueError) as error:
        raise refused("CONFIG_WRITE", "it cannot be written", error, path) from None


def point(host: Host, link: str, target: str | None) -> None:
    """Let a link lead somewhere, None: remove it. Raises CdiError: CONFIG_WRITE."""
    real = host.real(link)
    if host.readlink(link) == target:  # without root, a link that root has made is all there can be
        return
    try:
        if target is None:
            real.unlink(missing_ok=True)
            return
        make_directory(real.parent)
        temporary = real.with_name(f".{real.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(real)
    except OSError as error:
        raise refused("CONFIG_WRITE", "it cannot be written", error, link) from None


def _missing(host: Host, paths: Iterable[str]) -> list[str]:
    """The directories that have to be made for paths, a directory behind the one that it lies in."""
    found: list[str] = []
    for path in paths:
        above = parent(path)
        missing = []
        while above and above not in found and not host.real(above).is_dir():
            missing.append(above)
            above = parent(above)
        found += reversed(missing)
    return found


def _unmake(host: Host, directories: list[str]) -> list[str]:
    """Remove directories that were made, if nothing is in them; those that are still there."""
    for path in reversed(directories):
        with contextlib.suppress(OSError):
            host.real(path).rmdir()
    return [path for path in directories if host.real(path).is_dir()]
