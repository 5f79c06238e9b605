"""The machine that is examined: what create would see of it.

create asks a World about this process's own machine. `ExaminedWorld` answers the same questions for a machine below
another directory, too, as Host does, so that the same decision can be made there. It answers as if grants were not
enforced: to which subject a container would belong is known at its create alone (shim.doctor.grants).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError
from shim.cdi import directories
from shim.create.world import World
from shim.engines import launcher, sources
from shim.host import identity
from shim.host.trust import Trust

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.cdi.directories import Directories
    from shim.cdi.types import Named
    from shim.config.settings import Settings
    from shim.host.host import Host


_LAUNCHER = "/usr/local/bin/shim"  # of `make install`


class Machine:
    """A machine, with what its configuration and its specs come to.

    Attributes:
        host: the machine.
        settings: the configuration; the defaults where it cannot be read.
        faults: why the configuration does not count.
        world: answers what a decision asks.
        rootful: whether the examining process is the machine's root.
        trust: judges who could have written a file of the machine.
        launcher: path of shim's program.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.faults: list[Finding] = []
        self.rootful = identity.is_rootful() if host.root == "/" else host.user == 0
        self.launcher = host.find("shim") or launcher.installed() or _LAUNCHER
        try:
            self.settings = sources.settings_of(host)
        except CdiError as error:
            self.settings = sources.settings_or_defaults(host)
            self.faults = error.findings
        self.trust = Trust() if host.root == "/" else _RootedTrust(host)
        self.served = self._read()
        self.world: World = ExaminedWorld(host, self.settings, self.served)

    def nodes(self, name: str = "") -> list[str]:
        """The device nodes that specs name, as paths of the host.

        Arguments:
            name: of the device whose nodes alone are meant, "" for all.
        """
        paths: dict[str, None] = {}
        serving = self.served.get(name)
        for spec in self.served.specs if not name else [serving[0]] if serving else []:
            devices = [spec.devices[serving[1]]] if name and serving else spec.devices.values()
            for edits in (spec.edits, *devices):
                nodes = edits.get("deviceNodes") or ()
                paths.update(dict.fromkeys(node.get("hostPath") or node["path"] for node in nodes))
        return list(paths)

    def _read(self) -> Directories:
        """The devices of the configured directories, with paths of the machine."""
        if self.host.root == "/":
            return directories.read(self.settings.spec_dirs, self.trust)
        real = [str(self.host.real(path)) for path in self.settings.spec_dirs]
        return _moved(directories.read(real, self.trust), self.host.root)


class ExaminedWorld(World):
    """The World of a machine where every container may have every device, with the specs that were read already.

    Not those of the index, which has no documents: the doctor looks at these, too.
    """

    __slots__ = ("_host", "_read_already")

    def __init__(self, host: Host, settings: Settings, served: Directories) -> None:
        super().__init__()
        self._host = host
        permissive = copy.copy(settings)
        permissive.enforce = False
        self._read_already: tuple[Settings, Named] = permissive, served

    def _look(self, kind: str, argument: Any) -> Any:
        if kind == "environ":
            return self._host.environment.get(argument, "")
        if self._host.root != "/" and kind == "getxattr":
            argument = (str(self._host.real(argument[0])), argument[1])
        elif self._host.root != "/" and kind not in {"settings", "specs", "podman"}:
            argument = str(self._host.real(argument))
        return super()._look(kind, argument)

    def _load(self) -> tuple[Settings, Named]:
        return self._read_already


class _RootedTrust(Trust):
    """Judges real paths by what the machine sees of them."""

    def __init__(self, host: Host) -> None:
        super().__init__(rootful=True, look=host.look)
        self._root = host.root

    def objection(self, path: str) -> str:
        return super().objection(path.removeprefix(self._root))


def _moved(read: Directories, root: str) -> Directories:
    """The same directories with the paths that the machine itself has."""
    read.dirs = [_own(path, root) for path in read.dirs]
    read.searched = [(_own(path, root), state) for path, state in read.searched]
    read.conflicts = {name: [_own(path, root) for path in paths] for name, paths in read.conflicts.items()}
    read.findings = {
        _own(path, root): [moved(finding, root) for finding in findings] for path, findings in read.findings.items()
    }
    read._covered = {name: [_own(path, root) for path in paths] for name, paths in read._covered.items()}
    for spec in read.specs:
        spec.path = _own(spec.path, root)
    return read


def moved(finding: Finding, root: str) -> Finding:
    """A finding about real paths, changed to the paths that the machine itself has."""
    finding.path = _own(finding.path, root)
    finding.text = finding.text.replace(f"{root}/", "/")
    finding.remedy = finding.remedy.replace(f"{root}/", "/")
    return finding


def _own(path: str, root: str) -> str:
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
