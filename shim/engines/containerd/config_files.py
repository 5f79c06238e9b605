"""containerd's configuration files: what they import, and what they come to together.

Files are read breadth first from the main one, each path once; a later file wins. What winning means changed:

* containerd 1.x takes the *whole table* of a plugin from the last file that has one. A drop-in with one runtime in it
  takes all others away.
* containerd 2.x merges tables key by key; a list is a value like any other.

The names of plugins changed with the version that a file states. 1.x expects one version in all files, the last that is
stated. 2.0 to 2.2 do so, too, and rewrite the names afterwards; they do not do it for version 1, whose CRI tables they
drop. From 2.3 on each file is rewritten before it is merged. So for 2.x `Merged.document` always has the names of
version 3. All of this was measured with `containerd config dump` of 1.6.20, 1.7.24 and 2.1.9.

Sources: containerd, cmd/containerd/server/config/config.go (1.x: services/server/config/config.go), LoadConfig,
resolveImports, mergeConfig; docs/man/containerd-config.toml.5.md.
"""

from __future__ import annotations

import copy
import fnmatch
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.texts import template_edit, toml_edit
from shim.engines.texts.editing import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.model import Keys, Location
    from shim.host.host import Host

IMAGES = "io.containerd.cri.v1.images"
# The CRI plugin, in which runtimes are registered, by version of the file
CRI = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
LATEST = 4  # of the file; it differs from 3 in nothing that concerns runtimes
_EACH_FILE = (2, 3)  # the containerd from which on each file has a version of its own


@dataclass(frozen=True)
class File:
    """A file of the configuration.

    Attributes:
        path: where it is.
        text: its text.
        document: what that means.
        version: that it states, 0 when it states none.
    """

    path: str
    text: str
    document: dict[str, Any]
    version: int

    def plugin(self, name: str) -> dict[str, Any]:
        """The table of a plugin, {} when there is none."""
        return table(self.document, ("plugins", name))


@dataclass
class Merged:
    """What all files come to.

    Attributes:
        version: which version's names our keys must have.
        modern: whether it is taken as containerd 2.x takes it.
        document: all files together.
        files: in the order in which they were read; the main file is missing when it is not there.
        findings: met on the way.
    """

    version: int
    modern: bool
    document: dict[str, Any] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def cri(self) -> str:
        """The name that the CRI plugin has in `document`."""
        return CRI[3] if self.modern else cri(self.version)

    @property
    def ours(self) -> str:
        """The name that it must have in our keys: runtimes under the new one hide those under the old one."""
        newer = any(table(file.plugin(CRI[3]), ("containerd", "runtimes")) for file in self.files)
        return CRI[3] if self.modern and newer else cri(self.version)


def cri(version: int) -> str:
    """The name of the CRI plugin in a file of this version."""
    return CRI[min(max(version, 1), 3)]


def table(document: Any, keys: Keys) -> dict[str, Any]:
    """The table at a key, {} when there is none, or something else."""
    found = toml_edit.get(document, keys)
    return found if isinstance(found, dict) else {}


def merged(host: Host, location: Location) -> Merged:
    """Read all files of a configuration.

    Arguments:
        host: the machine.
        location: `config`, `version` and `daemon` of it count.
    Raises:
        CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX; ENGINE_CONFIG_VERSION for a version that nobody knows.
    """
    findings: list[Finding] = []
    files = _load(host, location, findings)
    main = files[0] if files else None
    modern = location.version >= (2,) if location.version else bool(main and main.version >= 3)
    version = _version(files, location.version, modern)
    result = Merged(version, modern, {}, files, findings)
    documents = [one.document for one in files]
    result.document = _document(files, version, location.version) if modern else join(documents, False)
    for file in _added(host, location):
        overlay(result.document, file.document)
        result.files.append(file)
    return result


def file_at(host: Host, path: str) -> File | None:
    """One file, None when it is missing.

    Raises:
        CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_VERSION.
    """
    data = host.read(path)
    if data is None:
        return None
    text = decoded(data, path)
    document = toml_edit.loads(text, path)
    version = document.get("version", 0)
    if type(version) is not int or not 0 <= version <= LATEST:
        said = f"version = {version!r}, and {LATEST} is the latest known: what it calls the tables is unknown"
        line = toml_edit.line_of(text, ("version",))
        raise CdiError([Finding("ENGINE_CONFIG_VERSION", said, path=path, line=line)])
    return File(path, text, document, version)


def patterns(file: File, location: Location) -> list[str]:
    """What a file imports, as absolute paths, in which only * makes a pattern.

    A relative path begins at the file's directory. With * in it, containerd up to 1.6 begins at the directory in which
    the daemon runs.
    """
    found = file.document.get("imports", [])
    here = posixpath.dirname(file.path)
    there = (location.daemon.cwd if location.daemon else "/") if () < location.version < (1, 7) else here
    imports = [one for one in found if isinstance(one, str) and one] if isinstance(found, list) else []
    return [posixpath.normpath(posixpath.join(there if "*" in one else here, one)) for one in imports]


def matches(host: Host, pattern: str) -> list[str]:
    """The files that a pattern of `patterns` stands for; a path without * stands for itself, also a missing one."""
    return host.glob(pattern) if "*" in pattern else [pattern]


def covers(pattern: str, path: str) -> bool:
    """Whether a pattern of `patterns` matches a path."""
    return path == pattern or (
        "*" in pattern and pattern.count("/") == path.count("/") and fnmatch.fnmatchcase(path, pattern)
    )


def join(documents: Iterable[dict[str, Any]], modern: bool) -> dict[str, Any]:
    """Documents merged into one, as containerd 2.x (modern) or 1.x does."""
    result: dict[str, Any] = {}
    for document in documents:
        for key, value in copy.deepcopy(document).items():
            old = result.get(key)
            if isinstance(old, list) and isinstance(value, list):
                result[key] = [*old, *(one for one in value if one not in old)]
            elif isinstance(old, dict) and isinstance(value, dict):
                overlay(old, value, deep=modern or key in {"grpc", "ttrpc", "debug", "metrics", "cgroup"})
            elif old is None or value not in ("", 0):  # an empty value is none, outside of plugins
                result[key] = value
    return result


def overlay(below: dict[str, Any], above: dict[str, Any], deep: bool = True) -> None:
    """Put the keys of a table over those of another, in place; tables inside become one when `deep`."""
    for key, value in above.items():
        if deep and isinstance(value, dict) and isinstance(below.get(key), dict):
            overlay(below[key], value)
        else:
            below[key] = value


def _added(host: Host, location: Location) -> list[File]:
    """What a distribution will add to the file that it writes, when it starts next."""
    if location.layout == "k0s":
        found = [file_at(host, path) for path in host.glob("/etc/k0s/containerd.d/*.toml")]
        return [one for one in found if one]
    data = host.read(location.drop_in) if location.drop_in.endswith(".tmpl") else None
    if data is None:
        return []
    text = decoded(data, location.drop_in)
    try:
        document = template_edit.loads(text, location.drop_in)
    except CdiError:
        return []  # what it says stands in the file that is written from it
    return [File(location.drop_in, template_edit.plain(text), document, 0)]


def _load(host: Host, location: Location, findings: list[Finding]) -> list[File]:
    files: list[File] = []
    pending, seen = [location.config], set()
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        file = file_at(host, path)
        if file:
            files.append(file)
            pending += [one for pattern in patterns(file, location) for one in matches(host, pattern)]
        elif path != location.config:
            by = next(one for one in files if path in patterns(one, location))
            said = f"it imports {path}, which is missing: containerd does not start"
            line = toml_edit.line_of(by.text, ("imports",))
            findings.append(Finding("ENGINE_CONFIG_UNREADABLE", said, path=by.path, line=line))
            break  # nothing behind it is read
    return files


def _version(files: list[File], program: tuple[int, ...], modern: bool) -> int:
    stated = [one.version for one in files if one.version]
    if not files:
        return 3 if modern else 2
    if not modern:
        return stated[-1] if stated else 1
    if program >= _EACH_FILE:
        return files[0].version or 3
    return {1: 3}.get(stated[-1], stated[-1]) if stated else 3


def _document(files: list[File], version: int, program: tuple[int, ...]) -> dict[str, Any]:
    """All files together as containerd 2.x takes them, the CRI plugin under its name of version 3."""
    lifted = [_renamed(one.document, 1, 2) if one.version < 2 else one.document for one in files]
    if program >= _EACH_FILE:
        pairs = zip(files, lifted, strict=True)
        return join([_renamed(document, 2, 3) if file.version < 3 else document for file, document in pairs], True)
    document = join(lifted, True)
    return _renamed(document, 2, 3) if version == 2 else document


def _renamed(document: dict[str, Any], old: int, new: int) -> dict[str, Any]:
    """A document in which the CRI plugin has the name of another version.

    Where it has both names, a key under the new one wins; so does one in `containerd`, `runtimes` as a whole.
    """
    plugins = dict(table(document, ("plugins",)))
    if not isinstance(plugins.get(CRI[old]), dict):
        return document
    below, above = plugins.pop(CRI[old]), table(plugins, (CRI[new],))
    plugins[CRI[new]] = {**below, **above}
    if "containerd" in plugins[CRI[new]]:
        plugins[CRI[new]]["containerd"] = {**table(below, ("containerd",)), **table(above, ("containerd",))}
    return {**document, "plugins": plugins}
