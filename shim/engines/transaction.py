"""Files that are written together, and restored: `remove` gives each file what `configure` found in it.

A record (shim.engines.undo_records) with the old bytes is written before the first file is changed, so that a crash
leaves a way back. Each file is replaced as a whole (shim.base.files); when one of them cannot be written, those before
it are restored.

A file that still has the bytes that configure wrote gets its old bytes. One that was changed since keeps that change:
only our keys are removed (shim.engines.texts.editing.revert).
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
    """Save a record, then write the files and the low-level link.

    Arguments:
        host: the machine.
        record: complete.
        contents: path -> new bytes; None for a file that is to be removed.
        check: examines the result, and raises CdiError when it must not stay.
    Raises:
        CdiError: CONFIG_BACKUP, CONFIG_WRITE, or what `check` raised; everything is then as it was, an earlier
            registration of the same name included.
    """
    before = {path: host.read(path) for path in contents}
    linked = host.readlink(record.link)
    earlier = find(host, record.engine, record.config, record.name)
    directories = _missing_directories(host, [*contents, record.link])
    record.made = [*(earlier.made if earlier else []), *directories]
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
        _remove_directories(host, directories)
        forget(host, record)
        if earlier:
            save(host, earlier)
        raise


def restored(host: Host, record: Record) -> dict[str, bytes | None]:
    """The content of each file of a record without what configure did.

    Raises:
        CdiError: ENGINE_CONFIG_SYNTAX or ENGINE_CONFIG_SHAPE, for a file that was changed since and cannot be read.
    """
    contents: dict[str, bytes | None] = {}
    others = [other for other in every(host) if other.key != record.key]
    for file in record.files:
        now = host.read(file.path)
        # a file of ours that another runtime needs as well stays, with the content of the latest configure
        is_shared = file.is_whole and any(other.file(file.path) for other in others)
        contents[file.path] = now if is_shared else without(file, now)
    return contents


def without(file: File, now: bytes | None) -> bytes | None:
    """The content of a file without what configure did to it.

    Arguments:
        file: the file in a record.
        now: its bytes, None when it is missing.
    Raises:
        CdiError: as shim.engines.texts.editing.revert.
    """
    if now is None or digest(now) == file.after:
        return file.before if now is not None else None
    return revert(file.edits, now, file.before)


def undo(host: Host, record: Record) -> None:
    """Restore the files and the link of a record, and remove it. The link stays where another record needs it.

    Raises:
        CdiError: CONFIG_WRITE, CONFIG_BACKUP; ENGINE_CONFIG_SYNTAX or ENGINE_CONFIG_SHAPE as in `restored`.
    """
    for path, data in restored(host, record).items():
        old = host.read(path)
        put(host, path, data)
        _update_later_records(host, record, path, old, data)
    sharers = _sharers_of_link(host, record)
    if owns_link(host, record):
        point(host, record.link, record.linked)
    elif sharers and record.linked != record.low_level:  # the last of the records restores the original target
        sharers[0].linked = record.linked
        save(host, sharers[0])
    left = _remove_directories(host, record.made)
    forget(host, record)
    others = every(host)
    if left and others:  # the last of the records removes a directory that several need
        others[0].made = [*others[0].made, *left]
        save(host, others[0])


def owns_link(host: Host, record: Record) -> bool:
    """Whether the low-level link of a record has the target that it was given, and no other record needs it."""
    return bool(record.link) and not _sharers_of_link(host, record) and host.readlink(record.link) == record.low_level


def _update_later_records(host: Host, record: Record, path: str, old: bytes | None, new: bytes | None) -> None:
    """Take what a record did to a file out of the former contents that later records hold.

    Arguments:
        host: the machine.
        record: the one that is undone.
        path: the file.
        old, new: its content before and after.
    """
    file = record.file(path)
    for other in every(host):
        later = other.file(path)
        if other.time > record.time and file and later and later.before is not None:
            later.before = without(file, later.before)
            later.after = digest(new) if digest(old) == later.after else later.after
            save(host, other)


def _sharers_of_link(host: Host, record: Record) -> list[Record]:
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
    """Give a link its target, None: remove it. Raises CdiError: CONFIG_WRITE."""
    real = host.real(link)
    if host.readlink(link) == target:  # without root only a link that is there already can be used
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


def _missing_directories(host: Host, paths: Iterable[str]) -> list[str]:
    """The directories that have to be made for paths, each behind its parent."""
    directories: list[str] = []
    for path in paths:
        directory = parent(path)
        missing = []
        while directory and directory not in directories and not host.real(directory).is_dir():
            missing.append(directory)
            directory = parent(directory)
        directories += reversed(missing)
    return directories


def _remove_directories(host: Host, directories: list[str]) -> list[str]:
    """Remove directories that were made, if they are empty. Returns those that are still there."""
    for path in reversed(directories):
        with contextlib.suppress(OSError):
            host.real(path).rmdir()
    return [path for path in directories if host.real(path).is_dir()]
