"""Files that are written together, and restored: `remove` gives each file its content before `configure`.

A record (shim.engines.undo_records) with the old bytes is written before the first file is changed, so that a crash
leaves a way back. Each file is replaced as a whole (shim.base.files); when one of them cannot be written, those before
it are restored.

A file that still has the bytes that configure wrote gets its old bytes. A file that was changed since keeps these
changes: only our keys are removed (shim.engines.texts.editing.revert).
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
    from collections.abc import Callable, Collection, Iterable, Mapping

    from shim.engines.undo_records import Link
    from shim.host.host import Host


def commit(
    host: Host,
    record: Record,
    contents: Mapping[str, bytes | None],
    used: Collection[str] = (),
    check: Callable[[], None] = lambda: None,
) -> None:
    """Save a record, then write the files and the low-level link. Links of an earlier configure are restored.

    Arguments:
        host: the machine; in a rehearsal everything happens in memory.
        record: complete but for `made` and `kept`.
        contents: path -> new bytes; None for a file that is to be removed.
        used: links that containers need, which therefore stay.
        check: examines the result, and raises CdiError when it must not stay.
    Raises:
        CdiError: CONFIG_BACKUP, CONFIG_WRITE, or what `check` raised; everything is then as it was, an earlier
            registration of the same name included.
    """
    before = {path: host.read(path) for path in contents}
    earlier = find(host, record.engine, record.config, record.name)
    former = [link for link in earlier.links if link.path != record.link] if earlier else []
    links = [record.link, *(link.path for link in former)] if record.link else [link.path for link in former]
    targets = {path: host.readlink(path) for path in links}
    others = every(host)
    directories = missing_directories(host, [*contents, record.link])
    record.made = [*(earlier.made if earlier else []), *directories]
    record.kept = former
    save(host, record)
    try:
        for path, data in contents.items():
            put(host, path, data)
        if record.link:
            point(host, record.link, record.low_level)
        if former:
            record.kept = [link for link in former if not _release(host, record, link, used)]
            save(host, record)
        check()
    except CdiError:
        for path, data in before.items():
            if host.read(path) != data:
                put(host, path, data)
        for path, target in targets.items():
            point(host, path, target)
        remove_directories(host, directories)
        forget(host, record)
        for other in others if former else [earlier] if earlier else []:
            save(host, other)
        raise


def restored(host: Host, record: Record) -> dict[str, bytes | None]:
    """The content of each file of a record without the changes of configure.

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
    """The content of a file without the changes of configure.

    Arguments:
        file: the file in a record.
        now: its bytes, None when it is missing.
    Raises:
        CdiError: as shim.engines.texts.editing.revert.
    """
    if now is None or digest(now) == file.after:
        return file.before if now is not None else None
    return revert(file.edits, now, file.before)


def undo(host: Host, record: Record, used: Collection[str] = ()) -> None:
    """Restore the files and the links of a record, and remove it. A link stays where another record needs it.

    Arguments:
        host: the machine; in a rehearsal everything happens in memory.
        record: the record; while containers need one of its links, it stays with that link alone.
        used: links that containers need.
    Raises:
        CdiError: CONFIG_WRITE, CONFIG_BACKUP; ENGINE_CONFIG_SYNTAX or ENGINE_CONFIG_SHAPE as in `restored`.
    """
    for path, data in restored(host, record).items():
        old = host.read(path)
        put(host, path, data)
        _update_later_records(host, record, path, old, data)
    kept = [link for link in record.links if not _release(host, record, link, used)]
    left = remove_directories(host, record.made)
    forget(host, record)
    if kept:
        save(host, Record(record.engine, record.config, record.name, kept=kept, made=left))
        return
    others = every(host)
    if left and others:  # the last of the records removes a directory that several need
        others[0].made = [*others[0].made, *left]
        save(host, others[0])


def owns_link(host: Host, record: Record, path: str = "") -> bool:
    """Whether a low-level link has the target that this record gave it, and no other record needs it.

    Arguments:
        host: the machine.
        record: the record.
        path: of the link, that of the record when it is not given.
    """
    path = path or record.link
    return any(
        link.path == path and host.readlink(path) == link.target and not sharers(host, record, path)
        for link in record.links
    )


def _release(host: Host, record: Record, link: Link, used: Collection[str]) -> bool:
    """Give a link of a record its former target; whether the record need not know it any more."""
    others = sharers(host, record, link.path)
    if others:
        if link.former != link.target:  # the last of the records restores the original target
            _hand_over(others[0], link)
            save(host, others[0])
        return True
    if host.readlink(link.path) != link.target:
        return True  # another registration has changed it since
    if link.path in used:
        return False
    point(host, link.path, link.former)
    return True


def _hand_over(record: Record, link: Link) -> None:
    if record.link == link.path:
        record.linked = link.former
    for kept in record.kept:
        kept.former = link.former if kept.path == link.path else kept.former


def _update_later_records(host: Host, record: Record, path: str, old: bytes | None, new: bytes | None) -> None:
    """Remove the changes of a record to a file from the former contents in later records.

    Arguments:
        host: the machine.
        record: which is undone.
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


def sharers(host: Host, record: Record, path: str) -> list[Record]:
    """The other records that need a link."""
    others = [other for other in every(host) if other.key != record.key]
    return [other for other in others if any(link.path == path for link in other.links)]


# --- on the disk ------------------------------------------------------------------------------------------------------


def put(host: Host, path: str, data: bytes | None) -> None:
    """Give a file its bytes, None: remove it. Raises CdiError: CONFIG_WRITE."""
    if host.is_rehearsal:
        host.keep_file(path, data)
        return
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
    if host.is_rehearsal:
        host.keep_link(link, target)
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


def missing_directories(host: Host, paths: Iterable[str]) -> list[str]:
    """The missing directories of paths, each after its parent."""
    directories: list[str] = []
    for path in paths:
        directory = parent(path)
        missing = []
        while directory and directory not in directories and not host.real(directory).is_dir():
            missing.append(directory)
            directory = parent(directory)
        directories += reversed(missing)
    return directories


def remove_directories(host: Host, directories: list[str]) -> list[str]:
    """Remove directories, if they are empty. Returns those that still exist."""
    if host.is_rehearsal:
        return []
    for path in reversed(directories):
        with contextlib.suppress(OSError):
            host.real(path).rmdir()
    return [path for path in directories if host.real(path).is_dir()]
