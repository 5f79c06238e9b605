"""Lock writer: the lock of specs made, and compared with what is there. Cold: `shim cdi lock`."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.cdi import edits
from shim.create import lock_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from shim.cdi.spec import Spec

    Json = dict[str, Any]

_SHORT = 16  # letters of the digest of a device, which only tells whether it is another


class OfHost:
    """Answers about the files of this host."""

    lstat, stat, digest = staticmethod(os.lstat), staticmethod(os.stat), staticmethod(lock_file.digest)


def make(specs: Iterable[Spec]) -> Json:
    """The lock of specs as they and their files are now. Raises OSError where a file cannot be read."""
    locked: Json = {"format": lock_file.FORMAT, "specs": {}, "files": {}}
    for spec in sorted(specs, key=lambda spec: spec.path):
        locked["specs"][spec.path] = {**_entry(spec.path), **_digests(spec)}
        locked["files"].update(dict.fromkeys(_files(spec)))
    locked["files"] = {path: _entry(path) for path in sorted(locked["files"])}
    return locked


def encode(lock: Json) -> str:
    """The text of a lock: an entry on each line."""
    parts = []
    for part in ("specs", "files"):
        lines = ",\n".join(f"  {json.dumps(path)}: {json.dumps(entry)}" for path, entry in lock[part].items())
        parts.append(f'"{part}": {{\n{lines}\n}}' if lines else f'"{part}": {{}}')
    return f'{{"format": {lock["format"]},\n' + ",\n".join(parts) + "}\n"


def differences(lock: Json, specs: Iterable[Spec]) -> list[Finding]:
    """SPEC_UNLOCKED for all that a create would refuse, and warnings about entries that no spec needs any more.

    Arguments:
        lock: of shim.create.lock_file.read.
        specs: all that are usable now.
    """
    look = OfHost()
    present = {spec.path: spec for spec in specs}
    findings = []
    for path, spec in present.items():
        entry = lock["specs"].get(path)
        text = "is not in the lock" if entry is None else lock_file.difference(path, entry, look)
        if text:
            devices = f": {_of_devices(entry, _digests(spec))}" if entry else ""
            findings.append(Finding("SPEC_UNLOCKED", f"the spec {text}{devices}", path=path))
        for file in _files(spec):
            entry = lock["files"].get(file)
            text = "is not in the lock" if entry is None else lock_file.difference(file, entry, look)
            if text:
                findings.append(Finding("SPEC_UNLOCKED", f"{file} {text}", path=path))
    needed = {*present, *(file for spec in present.values() for file in _files(spec))}
    gone = [path for part in ("specs", "files") for path in lock[part] if path not in needed]
    return findings + [Finding("SPEC_UNLOCKED", f"no spec has {path} any more").as_warning() for path in gone]


def renewed(lock: Json) -> list[str]:
    """The files whose content is as it was locked and whose identity is not: each create reads them anew."""
    listed = []
    for part in ("specs", "files"):
        for path, entry in lock[part].items():
            status = _status(path)
            if entry["type"] == lock_file.FILE and status and lock_file.identity(status) != entry["identity"]:
                listed.append(path)
    return listed


def _files(spec: Spec) -> Iterator[str]:
    """The programs of hooks on the host and the sources of bind mounts, each once."""
    seen = set()
    for block in (spec.edits, *spec.devices.values()):
        paths = [hook["path"] for hook in block.get("hooks", ()) if hook["hookName"] != "startContainer"]
        paths += [mount["hostPath"] for mount in block.get("mounts", ()) if _is_bound(mount)]
        for path in paths:
            if path not in seen:
                seen.add(path)
                yield path


def _is_bound(mount: Json) -> bool:
    """Whether a create makes it a bind mount of a path of the host (shim.create.rules)."""
    options = mount.get("options", ())
    return mount["hostPath"].startswith("/") and (
        edits.is_bind(options) or edits.lacks_bind(mount.get("type"), options)
    )


def _entry(path: str) -> Json:
    status = _status(path)
    kind = lock_file.kind_of(status)
    if kind != lock_file.FILE or status is None:
        return {"type": kind}
    return {"type": kind, "identity": lock_file.identity(status), "sha256": lock_file.digest(path)}


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _digests(spec: Spec) -> Json:
    return {"edits": _digest(spec.edits), "devices": {name: _digest(block) for name, block in spec.devices.items()}}


def _digest(value: Json) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_SHORT]


def _of_devices(entry: Json, now: Json) -> str:
    """Which devices of a spec differ, as text."""
    before, after = entry.get("devices", {}), now["devices"]
    words = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and before[name] != after[name]],
    }
    parts = [f"{word} {', '.join(names)}" for word, names in words.items() if names]
    if entry.get("edits") != now["edits"]:
        parts.append("changed what all devices have")
    return "; ".join(parts) or "its devices are the same"
