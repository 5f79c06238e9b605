"""Spec directories: which files exist, which file serves which device, and why a file is not used.

HOT. The files of a directory are taken in the order of their names' bytes; a later directory has a higher priority.
The highest directory with a file that defines a device decides which spec serves it: if a single file there defines it,
that file serves it; if several do, none does (a conflict). Definitions in lower directories do not count then.

Nothing in a directory can stop the scan: each file that cannot be used and each directory that cannot be listed gets a
finding, and the rest is served. The reference library differs in both respects; see the table in `deviations`.

Source: CDI specification, "CDI JSON specification" (directories, priorities, conflicts), knowledge of the Go library.
"""

from __future__ import annotations

import posix

from shim.base.findings import Finding
from shim.base.paths import clean, parent, reason
from shim.cdi import DEFAULT_DIRS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.cdi.spec import Spec
    from shim.cdi.types import Noting
    from shim.host.trust import Trust

DEFAULT = DEFAULT_DIRS

OK = "ok"
MISSING = "missing"
_SUFFIXES = (".json", ".yaml")


class Directories:
    """The devices that a list of spec directories serves. Made by `read`.

    Attributes:
        dirs: the directories, cleaned as text, lowest priority first.
        specs: every spec that could be used, in load order; specs of a directory given twice appear twice.
        findings: path -> what is wrong with it; a refused file, a file with a conflict, or a directory.
        searched: (directory, "ok" | "missing" | why it cannot be listed), for each of `dirs`.
        conflicts: qualified name -> paths of the files of one directory that all define it, in load order.
    """

    __slots__ = ("_covered", "_served", "conflicts", "dirs", "findings", "searched", "specs")

    def __init__(self, dirs: Iterable[str]) -> None:
        self.dirs = [clean(directory) for directory in dirs]
        self.specs: list[Spec] = []
        self.findings: dict[str, list[Finding]] = {}
        self.searched: list[tuple[str, str]] = []
        self.conflicts: dict[str, list[str]] = {}
        self._served: dict[str, tuple[Spec, str]] = {}
        self._covered: dict[str, list[str]] = {}

    def get(self, name: str) -> tuple[Spec, str] | None:
        """The spec that serves the device of this qualified name and the device's name in it; None: none does.

        The name is looked up as text: there are no patterns, and `all` is a name like any other.
        """
        return self._served.get(name)

    def whole(self) -> Directories:
        """This object. An index returns here the object that also has lists for people and errors (types.Named)."""
        return self

    def driver(self, kind: str) -> list[Spec]:
        """The specs of a kind in the highest directory that has any, in load order; none where no spec is of that kind.

        Their spec-level edits are what a container needs of the driver apart from any device.
        """
        by_path = {spec.path: spec for spec in self.specs if spec.kind == kind}
        highest = parent(next(reversed(by_path), ""))
        return [spec for path, spec in by_path.items() if parent(path) == highest]

    def devices(self) -> list[str]:
        """Qualified names of all devices that are served, sorted."""
        return sorted(self._served)

    def vendors(self) -> list[str]:
        """Vendors of all usable specs, sorted, also of those whose devices are all in conflict."""
        return sorted({spec.vendor for spec in self.specs})

    def classes(self) -> list[str]:
        """Classes of all usable specs, sorted."""
        return sorted({spec.klass for spec in self.specs})

    def kinds(self) -> list[str]:
        """Kinds (VENDOR/CLASS) of all usable specs, sorted."""
        return sorted({spec.kind for spec in self.specs})

    @property
    def shadowed(self) -> list[tuple[str, str, str]]:
        """(qualified name, path that loses, path that serves it), for each definition hidden by a higher directory."""
        hidden = []
        for name in sorted(self._covered):
            served = self._served.get(name)
            if served:
                winner = served[0].path
                hidden += [(name, loser, winner) for loser in self._covered[name] if loser != winner]
        return hidden

    def add(self, specs: Sequence[Spec]) -> None:
        """Take in the specs of one more directory, of higher priority than all before.

        Arguments:
            specs: every usable spec of that directory, in load order.
        """
        self.specs += specs
        holders: dict[str, tuple[Spec, str]] = {}
        disputed: set[str] = set()
        for spec in specs:
            for device in spec.devices:
                name = f"{spec.kind}={device}"
                first = holders.setdefault(name, (spec, device))[0]
                if first is not spec:
                    disputed.add(name)
                    self._dispute(name, first.path, spec.path)
        for name, holder in holders.items():
            lower = self._served.pop(name, None)
            if lower:
                self._covered.setdefault(name, []).append(lower[0].path)
            if name not in disputed:
                self._served[name] = holder

    def _dispute(self, name: str, first: str, other: str) -> None:
        """Note on both files that neither can serve `name`."""
        for path, rival in ((first, other), (other, first)):
            text = f"device {name} is also defined by {rival}, so neither file serves it"
            self._note(path, [Finding("SPEC_CONFLICT", text, path=path, rule="conflict")])
            paths = self.conflicts.setdefault(name, [])
            if path not in paths:
                paths.append(path)

    def _note(self, path: str, findings: list[Finding]) -> None:
        self.findings.setdefault(path, []).extend(findings)

    def _read_directory(self, directory: str, priority: int, trust: Trust | None, inputs: Noting | None) -> None:
        """List one directory and take in what can be used; everything else becomes a finding."""
        # The reader loads YAML for most files. With an index of all files this is never reached.
        from shim.cdi import spec as reader

        if inputs:
            inputs.note(directory)
        try:
            objection = trust.objection(directory) if trust else ""
            paths = [] if objection else _list(directory)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            self._unlisted(directory, error)
            return
        if objection:
            self.searched.append((directory, f"not trusted: {objection}"))
            self._note(directory, [_untrusted(directory, objection)])
            return
        self.searched.append((directory, OK))
        specs = []
        for path in paths:
            if inputs:
                inputs.note(path)
            try:
                objection = _objection(path, trust)
                if not objection:
                    specs.append(reader.read(path, priority))
                elif reader.is_mask(path):  # not opened, since the owner of a directory above could change it meanwhile
                    specs.append(reader.parse(b"", path, priority))
                else:
                    self._note(path, [_untrusted(path, objection)])
            except reader.SpecError as error:
                self._note(path, error.findings)
        self.add(specs)

    def _unlisted(self, directory: str, error: OSError | ValueError) -> None:
        """Note that a directory cannot be listed: no finding if it is missing, which is usual. The scan goes on."""
        if not isinstance(error, FileNotFoundError):
            why, remedy = reason(error), ""
        else:
            try:
                posix.readlink(directory)
            except OSError:
                self.searched.append((directory, MISSING))
                return
            from shim.base import remedies  # late: few of these are links

            target, remedy = remedies.missing_target(directory), remedies.to_read(error, directory)
            why = f"it leads to {target}, which is missing"
        self.searched.append((directory, why))
        text = f"the spec directory cannot be listed: {why}"
        self._note(directory, [Finding("SPEC_DIR_UNREADABLE", text, remedy, path=directory, rule="unlistable")])


def read(dirs: Iterable[str] = DEFAULT, trust: Trust | None = None, inputs: Noting | None = None) -> Directories:
    """The devices that the given directories serve, from the files themselves.

    Arguments:
        dirs: paths, lowest priority first; missing directories are skipped. An entry may also be a file ending in
                `.json` or `.yaml`, which is then the only spec of its priority.
        trust: judges every directory and file (SPEC_UNTRUSTED); without it everything that can be read counts.
        inputs: is given each directory and file before it is read.

    No content of the directories makes it raise: look at `findings`.
    Source: CDI specification, section on spec directories; files ending in exactly `.json` or `.yaml`, no recursion.
    """
    directories = Directories(dirs)
    for priority, directory in enumerate(directories.dirs):
        directories._read_directory(directory, priority, trust, inputs)
    return directories


def _objection(path: str, trust: Trust | None) -> str:
    """Trust's objection to a spec; a path that cannot be followed is left to the reader, which reports why."""
    if trust is None:
        return ""
    try:
        return trust.objection(path)
    except OSError:
        return ""


def _untrusted(path: str, objection: str) -> Finding:
    return Finding("SPEC_UNTRUSTED", f"it is not trusted: {objection}", path=path, rule="untrusted")


def _list(directory: str) -> list[str]:
    """Paths in `directory` that may be specs, sorted by the bytes of their names; for a spec file its own path.

    Raises OSError.
    """
    try:
        with posix.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(_SUFFIXES) and not _is_directory(entry)]
    except NotADirectoryError:
        if directory.endswith(_SUFFIXES) and _exists(directory):
            return [directory]
        raise
    parent = directory.rstrip("/")
    return [f"{parent}/{name}" for name in sorted(names, key=_as_bytes)]


def _exists(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def _is_directory(entry: posix.DirEntry[str]) -> bool:
    """Whether the entry itself is a directory; a link to a directory is a spec that cannot be read."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # only where the file system does not list types, and the entry is gone or not accessible
        return False


def _as_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
