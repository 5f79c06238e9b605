"""Other files that serve devices of the kind that a spec is written for.

Two files of one directory that define a device remove it in every engine, and of two directories the higher one hides
the other without a message. So nothing is written beside such a file; the finding names it and what writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.base.paths import clean
from shim.cdi import directories
from shim.discover import generators

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from shim.host.host import Host


def others(host: Host, spec_dirs: Iterable[str], kind: str, ours: Collection[str]) -> list[str]:
    """The files that serve a kind, of other paths than ours.

    Arguments:
        host: the machine.
        spec_dirs: the directories that are read.
        kind: VENDOR/CLASS.
        ours: paths that are written.
    """
    own = {_real(host, path) for path in ours}
    paths: dict[str, str] = {}
    for directory in dict.fromkeys(map(clean, spec_dirs)):
        for path in _specs(host, directory):
            real = _real(host, path)
            if real not in own and any(spec.kind == kind for spec in directories.read((real,)).specs):
                paths.setdefault(real, path)
    return list(paths.values())


def _specs(host: Host, directory: str) -> list[str]:
    """The paths in a directory that are named like specs."""
    try:
        names = sorted(entry.name for entry in host.real(directory).iterdir() if not entry.is_dir())
    except OSError:
        return []  # no engine reads a spec there either
    return [f"{directory}/{name}" for name in names if name.endswith((".json", ".yaml"))]


def finding(host: Host, path: str, kind: str, target: str, *, is_ours: bool) -> Finding:
    """SPEC_TAKEN for a file that serves a kind.

    Arguments:
        host: the machine.
        path: of that file.
        kind: VENDOR/CLASS.
        target: the spec that was to be written.
        is_ours: whether shim wrote that file.
    """
    same = _real(host, path.rpartition("/")[0]) == _real(host, target.rpartition("/")[0])
    effect = "no engine would serve a device of both files" if same else "one of the two would hide the other"
    if is_ours:
        remedy = f"remove it first (`rm {path}`), or let --takeover move it aside"
        return Finding("SPEC_TAKEN", f"it has the kind {kind} already, and shim wrote it: {effect}", remedy, path=path)
    units = generators.units_of(host, path, kind)
    writer = f"written by {' and '.join(units)}" if units else "and no unit of systemd is known that writes it"
    text = f"it has the kind {kind} already, {writer}: with {target} {effect}"
    stopped = f" and stops {', '.join(units)}" if units else ""
    remedy = f"--takeover moves it aside{stopped}; --class gives the spec another kind"
    return Finding("SPEC_TAKEN", text, remedy, path=path)


def _real(host: Host, path: str) -> str:
    """What names a file: its directory without links."""
    directory, _, name = path.rpartition("/")
    return f"{host.real(directory or '/').resolve()}/{name}"
