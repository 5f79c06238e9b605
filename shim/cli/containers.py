"""Containers that have a record, and their names.

A record has the id that the engine gives to its runtime. A CRI engine and nerdctl write the names of Pod and container
into the annotations of config.json as well; docker and podman do not.
"""

from __future__ import annotations

from typing import Any

from shim.base import fastjson, files
from shim.base.findings import CdiError, Finding
from shim.create import record_files, record_reader
from shim.engines.lookup import NAMES

Json = dict[str, Any]

_REMEDY = (
    "`shim explain --list` shows the containers with a record; the id for a name: `docker inspect -f '{{.Id}}' NAME`, "
    "`podman inspect -f '{{.Id}}' NAME`, `crictl ps --name NAME`"
)


def every() -> list[Json]:
    """The records that can be read, sorted by id; each has a `label`, the container's name, "" if unknown."""
    entries = [{**entry, "label": _label(entry)} for entry in record_reader.entries(record_files.directory())]
    return sorted(entries, key=lambda entry: entry["id"])


def find(container: str, root: str | None, name: str | None) -> Json:
    """The record of a container.

    Arguments:
        container: its id, the beginning of it, or its name: NAME, POD/NAME or NAMESPACE/POD/NAME.
        root: the --root that it must have, None for any.
        name: what the launcher must have been called as, None for any.
    Raises:
        CdiError: RECORD_MISSING, when no record matches, or several.
    """
    there = [entry for entry in every() if root in (None, entry["root"]) and name in (None, entry["name"])]
    begun = [entry for entry in there if entry["id"].startswith(container)]
    called = [entry for entry in there if f"/{entry['label']}".endswith(f"/{container}")]
    matches = [entry for entry in begun if entry["id"] == container] or begun or called
    if len(matches) == 1:
        return matches[0]
    if matches:
        which = ", ".join(_which(entry) for entry in matches)
        raise CdiError([Finding("RECORD_MISSING", f"{container!r} can be each of {which}", "say which is meant")])
    where = record_files.directory() or "a directory below $XDG_RUNTIME_DIR, which is not set"
    text = f"there is no record of a container {container!r} in {where}: shim has injected nothing into it"
    raise CdiError([Finding("RECORD_MISSING", text, _REMEDY)])


def _which(entry: Json) -> str:
    label = f"{entry['label']}, " if entry["label"] else ""
    return f"{entry['id']} ({label}--name {entry['name']} --root '{entry['root']}')"


def _label(entry: Json) -> str:
    """NAMESPACE/POD/CONTAINER, or less, from the annotations of config.json."""
    try:
        annotations = fastjson.loads(files.read(entry["config"]).decode("utf-8"))["annotations"]
        rows: list[list[str]] = [
            [annotations[key] for key in keys if isinstance(annotations.get(key), str)] for keys in NAMES
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # gone, or without such annotations
        return ""
    longest = max(rows, key=len)
    return "/".join(longest)
