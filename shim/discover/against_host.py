"""Specs against the host: what `shim cdi generate` would write now, beside what lies there. Nothing is written.

A spec that shim wrote is compared with a dry run of its refresh, by the wish that is remembered. One of another program
is compared with what we discover for its kind, in its manner: with its hook program, below the root of its driver, and
with numbers of device nodes where it has them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.cdi import compare, directories, spec, store
from shim.cdi.directories import Directories
from shim.config.settings import VENDOR_PROGRAMS
from shim.discover import refresh, remembered, vendors
from shim.discover.model import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from shim.cdi.compare import Change
    from shim.discover.model import Discovery
    from shim.host.host import Host

    Json = dict[str, Any]

FRESH, STALE, WAITING, UNKNOWN = "fresh", "stale", refresh.WAITING, "not discovered"


@dataclass
class Compared:
    """A spec and the host.

    Attributes:
        path: of the spec.
        is_ours: whether shim wrote it.
        state: FRESH; STALE; WAITING for a driver; UNKNOWN where nothing of its kind is discovered.
        changes: what a refresh would change.
    """

    path: str
    is_ours: bool
    state: str
    changes: list[Change]


class AgainstHost:
    """Compares specs with a machine.

    Arguments:
        host: the machine.
        spec_dirs: the directories in which specs are read.
        launcher: the program of hooks, where a spec of another program names none.
        progress: is called with what is being done.

    Attributes:
        findings: about the devices and the specs.
    """

    def __init__(
        self,
        host: Host,
        spec_dirs: Iterable[str],
        launcher: str,
        progress: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._host, self._spec_dirs, self._launcher, self._progress = host, list(spec_dirs), launcher, progress
        self._discovered: dict[Wish, list[Discovery]] = {}
        self.findings: list[Finding] = []

    def every(self) -> list[Compared]:
        """All specs of the directories, and those that shim wrote and that are gone. Raises as `compare`."""
        paths = {self._real(path): path for directory in self._spec_dirs for path in _names(self._host, directory)}
        for kept in remembered.every(self._host):
            if kept.path.rpartition("/")[0] in self._spec_dirs:
                paths.setdefault(self._real(kept.path), kept.path)
        return self.compare(paths.values())

    def compare(self, paths: Iterable[str]) -> list[Compared]:
        """These specs, absolute paths of the machine; one that cannot be read is a finding.

        Raises CdiError: DISCOVERY_STATE.
        """
        asked = list(paths)
        ours = {self._real(kept.path): kept.path for kept in remembered.every(self._host)}
        wanted = {ours[real] for path in asked if (real := self._real(path)) in ours}
        refreshed = {done.path: done for done in self._refresh(wanted)}
        compared = []
        for path in asked:
            kept = ours.get(self._real(path))
            try:
                if kept is None:
                    compared.append(self._foreign(path))
                elif kept in refreshed:
                    done = refreshed[kept]
                    new = done.spec.document if done.spec else None
                    compared.append(self._compared(path, new, is_ours=True, without=WAITING))
            except CdiError as error:  # the others are compared
                self.findings += error.findings
        return compared

    def _refresh(self, paths: Collection[str]) -> list[refresh.Refreshed]:
        if not paths:
            return []
        done = refresh.refresh(self._host, self._spec_dirs, only=paths, dry_run=True, progress=self._progress)
        self.findings += done.findings
        return done.specs

    def _foreign(self, path: str) -> Compared:
        old = self._read(path)
        wish = self._wish(old.document)
        if wish not in self._discovered:
            self._discovered[wish] = list(
                vendors.discover(
                    self._host, wish, progress=lambda name: self._progress(f"looking for devices of {name}")
                )
            )
        documents, waits = [], ""
        for discovery in self._discovered[wish]:
            if any(draft.kind_in(wish) == old.kind for draft in discovery.drafts):
                self.findings += [finding for finding in discovery.findings if finding not in self.findings]
                waits = waits or discovery.waits_for
                made = vendors.documents(discovery, wish)
                documents += [document for _, document in made if document["kind"] == old.kind]
        if not documents:
            text = f"nothing of the kind {old.kind} is discovered on this host"
            remedy = "compare it with what its own program writes: `shim cdi diff FILE -`"
            self.findings.append(Finding("DISCOVERY_NOTHING", text, remedy, path=path).as_warning())
        new = documents[0] if documents and not waits else None
        return self._compared(path, new, is_ours=False, without=WAITING if waits else UNKNOWN)

    def _wish(self, document: Json) -> Wish:
        blocks = [document["containerEdits"], *(device["containerEdits"] for device in document["devices"])]
        programs = [hook["path"] for edits in blocks for hook in edits.get("hooks", ())]
        vendor = [path for path in programs if path.rpartition("/")[2] in VENDOR_PROGRAMS]
        nodes = [node for edits in blocks for node in edits.get("deviceNodes", ())]
        mounts = [(mount["hostPath"], mount["containerPath"]) for edits in blocks for mount in edits.get("mounts", ())]
        root = _root(mounts)
        return Wish(
            vendor[0] if vendor else self._launcher,
            driver_root=root,
            dev_root=_root((node.get("hostPath") or node["path"], node["path"]) for node in nodes)
            if root != "/"
            else "",
            has_all=any(device["name"] == "all" for device in document["devices"]),
            has_numbers=any(node.get("major") for node in nodes),
        )

    def _compared(self, path: str, new: Json | None, *, is_ours: bool, without: str) -> Compared:
        if new is None:
            return Compared(path, is_ours, without, [])
        before = Directories([path])
        if self._host.status(path) is not None:
            before.add([self._read(path)])
        after = Directories([path])
        after.add([spec.parse(store.encode(new, "json"), path)])
        changes = compare.compare(before, after)
        return Compared(path, is_ours, STALE if changes else FRESH, changes)

    def _read(self, path: str) -> spec.Spec:
        return spec.parse(spec.read_bytes(str(self._host.real(path))), path)

    def _real(self, path: str) -> str:
        """What names a file: its directory without links."""
        directory, _, name = path.rpartition("/")
        return f"{self._host.real(directory or '/').resolve()}/{name}"


def _root(pairs: Iterable[tuple[str, str]]) -> str:
    """The root below which most paths of the host lie, by the paths that they have in a container."""
    roots = Counter(source.removesuffix(inside) or "/" for source, inside in pairs if source.endswith(inside))
    return roots.most_common(1)[0][0] if roots else "/"


def _names(host: Host, directory: str) -> Iterator[str]:
    """The usable specs of a directory; what is wrong with the others is what `shim cdi list` reports."""
    for made in directories.read((str(host.real(directory)),)).specs:
        yield f"{directory.rstrip('/')}/{made.path.rpartition('/')[2]}"
