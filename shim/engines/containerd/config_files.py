"""containerd's configuration files: what they import, and the configuration that they make together.

Files are read breadth first from the main file, each path once; a later file takes precedence. The rules changed:

* containerd 1.x takes the *whole table* of a plugin from the last file that has it. A drop-in with a single runtime
  removes all others.
* containerd 2.x merges tables key by key; a list is a value like any other.

The names of plugins changed with the version that a file states. 1.x expects one version in all files, the last that is
stated. 2.0 to 2.2 do so, too, and rename them afterwards, except for version 1, whose CRI tables they drop. From
2.3 on each file is rewritten before it is merged. So for 2.x `Merged.document` always has the names of version 3. All
of this was measured with `containerd config dump` of 1.6.20, 1.7.24 and 2.1.9.

Sources: containerd, cmd/containerd/server/config/config.go (1.x: services/server/config/config.go), LoadConfig,
resolveImports, mergeConfig; docs/man/containerd-config.toml.5.md.
"""

from __future__ import annotations

import copy
import fnmatch
import posixpath
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines.texts import template_edit, toml_edit
from shim.engines.texts.editing import decoded
from shim.engines.texts.values import table_at, texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.engines.model import Location
    from shim.engines.texts.values import Table
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
        path: the file.
        text: its text.
        document: what the text means.
        version: the version that it states, 0 when it states none.
    """

    path: str
    text: str
    document: Table
    version: int

    def plugin(self, name: str) -> Table:
        """The table of a plugin, {} when there is none."""
        return table_at(self.document, ("plugins", name))


@dataclass
class Merged:
    """All files of a configuration, merged.

    Attributes:
        version: the version whose names our keys must have.
        modern: whether they are merged as containerd 2.x does it.
        document: all files together.
        files: in the order in which they were read; without the main file when that is missing.
        findings: met while reading.
    """

    version: int
    modern: bool
    document: Table = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def cri(self) -> str:
        """The name that the CRI plugin has in `document`."""
        return CRI[3] if self.modern else cri(self.version)

    @property
    def ours(self) -> str:
        """The name that it must have in our keys: runtimes under the new name hide those under the old name."""
        newer = any(table_at(file.plugin(CRI[3]), ("containerd", "runtimes")) for file in self.files)
        return CRI[3] if self.modern and newer else cri(self.version)


def cri(version: int) -> str:
    """The name of the CRI plugin in a file of this version."""
    return CRI[min(max(version, 1), 3)]


def merged(host: Host, location: Location) -> Merged:
    """Read all files of a configuration.

    Arguments:
        host: the machine.
        location: its `config`, `version` and `daemon` count.
    Raises:
        CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX; ENGINE_CONFIG_VERSION for a version that is unknown.
    """
    findings: list[Finding] = []
    if is_whole_template(host, location):
        location = replace(location, config=location.drop_in)
    files = _load(host, location, findings)
    main = files[0] if files else None
    modern = location.version >= (2,) if location.version else bool(main and main.version >= 3)
    version = _version(files, location.version, modern)
    result = Merged(version, modern, {}, files, findings)
    documents = [file.document for file in files]
    result.document = _modern_document(files, version, location.version) if modern else join(documents, False)
    for file in _added_later(host, location, version):
        overlay(result.document, _renamed(file.document, 2, 3) if modern and version == 2 else file.document)
        result.files.append(file)
    return result


def is_whole_template(host: Host, location: Location) -> bool:
    """Whether our keys go into a template of k3s or rke2 which is a whole configuration, in place of theirs."""
    data = host.read(location.drop_in) if location.drop_in.endswith(".tmpl") else None
    return data is not None and template_edit.is_whole(decoded(data, location.drop_in))


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
        cause = f"version = {version!r}, and {LATEST} is the latest known: the names of its tables are unknown"
        line = toml_edit.line_of(text, ("version",))
        raise CdiError([Finding("ENGINE_CONFIG_VERSION", cause, path=path, line=line)])
    return File(path, text, document, version)


def patterns(file: File, location: Location) -> list[str]:
    """What a file imports, as absolute paths, in which only * makes a pattern.

    A relative path begins at the file's directory. With * in it, containerd up to 1.6 begins at the working directory
    of the daemon.
    """
    directory = posixpath.dirname(file.path)
    of_patterns = directory
    if () < location.version < (1, 7):
        of_patterns = location.daemon.cwd if location.daemon else "/"
    imports = [path for path in texts(file.document.get("imports")) if path]
    return [posixpath.normpath(posixpath.join(of_patterns if "*" in path else directory, path)) for path in imports]


def matches(host: Host, pattern: str) -> list[str]:
    """The files that a pattern of `patterns` stands for; a path without * stands for itself, also if it is missing."""
    return host.glob(pattern) if "*" in pattern else [pattern]


def covers(pattern: str, path: str) -> bool:
    """Whether a pattern of `patterns` matches a path."""
    return path == pattern or (
        "*" in pattern and pattern.count("/") == path.count("/") and fnmatch.fnmatchcase(path, pattern)
    )


def join(documents: Iterable[Table], modern: bool) -> Table:
    """Documents merged as by containerd 2.x (modern) or 1.x."""
    result: Table = {}
    for document in documents:
        for key, value in copy.deepcopy(document).items():
            old = result.get(key)
            if isinstance(old, list) and isinstance(value, list):
                result[key] = [*old, *(item for item in value if item not in old)]
            elif isinstance(old, dict) and isinstance(value, dict):
                overlay(old, value, deep=modern or key in {"grpc", "ttrpc", "debug", "metrics", "cgroup"})
            elif old is None or value not in ("", 0):  # an empty value is none, outside of plugins
                result[key] = value
    return result


def overlay(below: Table, above: Table, deep: bool = True) -> None:
    """Update a table with the keys of another; tables inside are merged when `deep`."""
    for key, value in above.items():
        old = below.get(key)
        if deep and isinstance(value, dict) and isinstance(old, dict):
            overlay(old, value)
        else:
            below[key] = value


def _added_later(host: Host, location: Location, version: int) -> list[File]:
    """Files that a distribution will add to the file that it writes, at its next start; a template has its version."""
    if location.layout == "k0s":
        paths = host.glob("/etc/k0s/containerd.d/*.toml")
        return [file for file in (file_at(host, path) for path in paths) if file]
    data = host.read(location.drop_in) if location.drop_in.endswith(".tmpl") else None
    if data is None or location.config == location.drop_in:
        return []
    text = decoded(data, location.drop_in)
    try:
        document = template_edit.loads(text, location.drop_in)
    except CdiError:
        return []  # its content is in the file that was written from it
    return [File(location.drop_in, template_edit.plain(text), document, version)]


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
            pending += [imported for pattern in patterns(file, location) for imported in matches(host, pattern)]
        elif path != location.config:
            importer = next(file for file in files if path in patterns(file, location))
            cause = f"it imports {path}, which is missing: containerd does not start"
            line = toml_edit.line_of(importer.text, ("imports",))
            remedy = f"take {path} out of imports, or write it as a pattern ({posixpath.dirname(path)}/*.toml)"
            findings.append(Finding("ENGINE_CONFIG_UNREADABLE", cause, remedy, path=importer.path, line=line))
            break  # nothing behind it is read
    return files


def _version(files: list[File], program: tuple[int, ...], modern: bool) -> int:
    stated = [file.version for file in files if file.version]
    if not files:
        return 3 if modern else 2
    if not modern:
        return stated[-1] if stated else 1
    if program >= _EACH_FILE:
        return files[0].version or 3
    return {1: 3}.get(stated[-1], stated[-1]) if stated else 3


def _modern_document(files: list[File], version: int, program: tuple[int, ...]) -> Table:
    """All files merged as containerd 2.x does it, the CRI plugin under its name of version 3."""
    documents = [_renamed(file.document, 1, 2) if file.version < 2 else file.document for file in files]
    if program >= _EACH_FILE:
        pairs = zip(files, documents, strict=True)
        return join([_renamed(document, 2, 3) if file.version < 3 else document for file, document in pairs], True)
    document = join(documents, True)
    return _renamed(document, 2, 3) if version == 2 else document


def _renamed(document: Table, old: int, new: int) -> Table:
    """A document in which the CRI plugin has the name of another version.

    If it has both names, a key under the new name takes precedence; so does a key in `containerd`, `runtimes` as a
    whole.
    """
    plugins = dict(table_at(document, ("plugins",)))
    if not isinstance(plugins.get(CRI[old]), dict):
        return document
    below, above = table_at(plugins, (CRI[old],)), table_at(plugins, (CRI[new],))
    del plugins[CRI[old]]
    merged = {**below, **above}
    if "containerd" in merged:
        merged["containerd"] = {**table_at(below, ("containerd",)), **table_at(above, ("containerd",))}
    plugins[CRI[new]] = merged
    return {**document, "plugins": plugins}
