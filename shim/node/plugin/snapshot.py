"""A snapshot: the resources of a node at one moment, each with its units, healthy or with the cause why not.

Specs are read again when a file of their directories has changed; health is looked at each time. Which names are units
is decided anew when either has changed, since overlap of hardware depends on the nodes that are there.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.cdi import directories
from shim.grants.reader import Grants, Reader
from shim.host.tree import Tree
from shim.host.trust import Trust
from shim.node import settings as node_settings
from shim.node.plugin import exclusive, presence, units
from shim.node.plugin.messages import LONGEST_ID
from shim.node.plugin.topology import Position, Positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shim.cdi.directories import Directories
    from shim.host.host import Host
    from shim.node.plugin.units import Unit
    from shim.node.settings import Resource, Settings

_SUFFIXES = (".json", ".yaml")
_DIGEST = 10  # letters
_LATER = "write its spec: `shim cdi generate`; it is served once there is one"


@dataclass(frozen=True)
class UnitState:
    """A unit, where it is attached, and why it cannot be used now ("" when it can)."""

    unit: Unit
    position: Position
    fault: str = ""


@dataclass(frozen=True)
class ResourceState:
    """A resource at one moment.

    Attributes:
        resource: as configured.
        units: in natural order.
        left_out: the other device names of its kind, each with the reason.
    """

    resource: Resource
    units: tuple[UnitState, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def ids(self) -> dict[str, UnitState]:
        """The ids that the kubelet knows: the unit's name in its spec, with replicas NAME::0, NAME::1, ..."""
        count = self.resource.replicas
        endings = [""] if count == 1 else [f"::{number}" for number in range(count)]
        return {_short(unit.unit.device, ending): unit for unit in self.units for ending in endings}

    def healthy(self) -> list[UnitState]:
        """The units that can be used."""
        return [unit for unit in self.units if not unit.fault]


@dataclass(frozen=True)
class Snapshot:
    """The resources of a node at one moment.

    Attributes:
        resources: by name, in the order in which they took hardware.
        findings: PLUGIN_KIND for kinds that are no resource, or that no spec has; what is wrong with spec files.
    """

    resources: dict[str, ResourceState]
    findings: tuple[Finding, ...] = ()


class Observer:
    """Looks at a node again and again.

    Arguments:
        host: the machine.
        spec_dirs: paths on it, the most important last.
        settings: of the node.
        grants: path of the grants file on the machine.
    """

    def __init__(self, host: Host, spec_dirs: Iterable[str], settings: Settings, grants: str) -> None:
        self._host = host
        self._tree = Tree(host)
        self._dirs = tuple(spec_dirs)
        self._settings = settings
        self._grants = Reader(str(host.real(grants)))
        self._seen: object = None
        self._served = directories.Directories(())
        self._snapshot = Snapshot({})
        self._needs: dict[str, presence.Needs] = {}

    def look(self) -> Snapshot:
        """The node now; the same object where nothing has changed."""
        dirs = self._real_dirs()
        seen = [_files(path) for path in dirs]
        if seen != self._seen:
            self._served = directories.read(dirs, Trust())
            self._seen = seen
            self._decide()
        before = self._snapshot
        self._examine()
        if self._snapshot is not before:
            self._decide()  # a node that came or went may be hardware of two names
            self._examine()
        return self._snapshot

    def _real_dirs(self) -> list[str]:
        """The spec directories by the paths of this process; links are those of the machine."""
        if self._host.root == "/":
            return list(self._dirs)
        return [self._tree.real(self._tree.resolve(path) or path) for path in self._dirs]

    def _decide(self) -> None:
        """Which names are units, where they are attached, and what they need."""
        served, look = self._served, self._host.look
        positions = Positions(self._host)
        taken = units.Sharing()
        states: dict[str, ResourceState] = {}
        findings = [finding for found in served.findings.values() for finding in found]
        kinds = _in_order(served)
        configured = [resource for resource in self._settings.resources if resource.kind in kinds]
        wanted = configured + [
            resource for kind in kinds for resource in self._settings.of_kind(kind) if resource not in configured
        ]
        findings += [_without_kind(each, kinds) for each in self._settings.resources if each not in configured]
        self._needs = {}
        for resource in wanted:
            objection = node_settings.name_objection(resource.name)
            if objection or resource.name in states:
                findings.append(_refused(resource, objection or "another resource has it"))
                continue
            chosen, left_out = units.choose(resource, served, self._settings, taken, look)
            listed = []
            for unit in chosen:
                position = positions.of(unit.name, unit.hardware)
                listed.append(UnitState(unit, position))
                self._needs[unit.name] = self._needed(unit, position, served)
            states[resource.name] = ResourceState(resource, tuple(listed), left_out)
        self._snapshot = Snapshot(states, tuple(findings))

    @staticmethod
    def _needed(unit: Unit, position: Position, served: Directories) -> presence.Needs:
        spec, device = served.get(unit.name) or (None, "")
        return presence.needs(spec, device, position.address) if spec else presence.Needs()

    def _examine(self) -> None:
        """The faults of all units now; a new snapshot where one has changed."""
        look = presence.Look(self._host)
        every = [state.unit for resource in self._snapshot.resources.values() for state in resource.units]
        taken = exclusive.taken(every, self._granted(), self._settings.subject, self._served, self._host.look)
        changed: dict[str, ResourceState] = {}
        for name, resource in self._snapshot.resources.items():
            faults = [
                taken.get(state.unit.name) or look.fault(self._needs[state.unit.name]) for state in resource.units
            ]
            if faults != [state.fault for state in resource.units]:
                pairs = zip(resource.units, faults, strict=True)
                listed = tuple(replace(state, fault=fault) for state, fault in pairs)
                changed[name] = ResourceState(resource.resource, listed, resource.left_out)
        if changed:
            self._snapshot = replace(self._snapshot, resources={**self._snapshot.resources, **changed})

    def _granted(self) -> Grants | CdiError:
        try:
            return self._grants.grants()
        except CdiError as error:
            return error


def _in_order(served: Directories) -> list[str]:
    """The kinds, in the order in which they take hardware: last those that have nothing but `all`.

    Such a kind stands for the hardware of others, as NVIDIA's for management, or for adapters that are a kind as well.
    """
    others = {name.partition("=")[0] for name in served.devices() if not name.endswith(f"={node_settings.ALL}")}
    return sorted(served.kinds(), key=lambda kind: (kind not in others, kind))


def _refused(resource: Resource, objection: str) -> Finding:
    text = f"the kind {resource.kind} is no resource: {resource.name!r} cannot be its name: {objection}"
    remedy = f'give it another in {node_settings.FILE}: [[resource]], kind = "{resource.kind}", name = "…"'
    return Finding("PLUGIN_KIND", text, remedy)


def _without_kind(resource: Resource, kinds: list[str]) -> Finding:
    near = nearest(resource.kind, kinds)
    hint = f"the nearest is {near[0]}" if near else "`shim cdi list` shows what they have"
    return Finding("PLUGIN_KIND", f"no spec has the kind {resource.kind} of {resource.name} now; {hint}", _LATER)


def _files(directory: str) -> object:
    """What tells whether a spec directory, or a spec in it, has changed."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.path for entry in entries if entry.name.endswith(_SUFFIXES)]
    except NotADirectoryError:
        names = [directory]
    except OSError as error:
        return error.errno
    states = []
    for name in sorted(names):
        try:
            status = os.stat(name)
            states.append((name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        except OSError as error:
            states.append((name, error.errno or 0, 0, 0, 0))
    return states


def _short(device: str, ending: str) -> str:
    """An id of at most LONGEST_ID characters; a longer name is cut, and its digest keeps it apart."""
    if len(device) + len(ending) <= LONGEST_ID:
        return device + ending
    digest = hashlib.sha256(device.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]
    return f"{device[: LONGEST_ID - _DIGEST - 1 - len(ending)]}~{digest}{ending}"
