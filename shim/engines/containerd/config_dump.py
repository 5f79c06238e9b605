"""What containerd itself makes of files, before they are written: `containerd config dump`.

It reads what the daemon would read, adds its defaults, and starts nothing. The candidates are in a directory of our
own, mode 0700, since they may hold passwords of registries. So that they mean the same there, each file is copied as it
is except for `imports`: where that names files by relative paths and patterns, the copy lists the copies of just those
files, in the same order. A file that is missing stays missing. With k3s, rke2 or k0s it is not used, since these write
the file again, by rules that containerd does not know.

Source: containerd(8), containerd-config(8).
"""

from __future__ import annotations

import posixpath
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import CdiError
from shim.engines.containerd import config_files, runtime_tables
from shim.engines.texts import toml_edit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.engines.containerd.config_files import File
    from shim.engines.model import Location, Registry
    from shim.engines.texts.values import Value
    from shim.host.host import Host


def preview(host: Host, location: Location, changes: Mapping[str, bytes | None]) -> Registry | None:
    """The configuration as containerd understands it, with other contents of some files.

    Arguments:
        host: the machine.
        location: where the configuration is.
        changes: path -> content, None for a file that shall be missing.
    Returns:
        the whole configuration, defaults included; None where there is no program, it refuses the files, or a
        distribution of Kubernetes writes them.
    """
    if host.root != "/" or not location.program or location.layout in {"k3s", "rke2", "k0s"}:
        return None
    with tempfile.TemporaryDirectory(prefix="shim-containerd-") as directory:
        try:
            main = _copied(host.with_files(changes), location, directory)
            dumped = host.ask(location.program, "--config", main, "config", "dump")
            document = toml_edit.loads(dumped or "", main)
        except (CdiError, OSError):
            return None
    if not document:
        return None
    stated = document.get("version")
    version = stated if isinstance(stated, int) else 2
    merged = config_files.Merged(version, version > 2, document)
    return runtime_tables.registry(host, replace(location, layout=""), merged)


def _copied(host: Host, location: Location, directory: str) -> str:
    """Copy a configuration into a directory. Returns the path of its main file there."""
    merged = config_files.merged(host, location)
    read = merged.files or [config_files.File(location.config, f"version = {merged.version}\n", {}, merged.version)]
    copies = {file.path: posixpath.join(directory, f"{number}.toml") for number, file in enumerate(read)}
    for file in read:
        text = file.text
        if "imports" in file.document:
            named: list[Value] = [copies.get(path, path) for path in _imported(host, location, file)]
            text = toml_edit.put(text, ("imports",), named, file.path)
        Path(copies[file.path]).write_text(text, encoding="utf-8")
    return copies[location.config]


def _imported(host: Host, location: Location, file: File) -> list[str]:
    return [path for pattern in config_files.patterns(file, location) for path in config_files.matches(host, pattern)]
