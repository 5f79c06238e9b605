"""The class Engine: the mandatory and optional methods of an engine's package.

A new engine is a package with a subclass of it, and a line in shim.engines.table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from shim.engines import runtime_programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shim.base.findings import Finding
    from shim.engines import in_use
    from shim.engines.model import Edit, KnownContainer, Location, NewRuntime, Registry, Runtime
    from shim.engines.running import Container
    from shim.engines.texts.values import Keys
    from shim.host.host import Host


class Engine(ABC):
    """An engine. No method writes anything, and methods reach the machine only through `host`.

    The four abstract methods are what configure, verify and remove need. Each of the others is an ability that only
    some engines have; the default stands for an engine without it.

    Attributes:
        name: by which it is chosen; also in messages and records.
        program: the file name of its program or daemon.
        unread: why it may not find a runtime in a file that was named for it, a clause.
        has_hooks: whether `hook_edits` can register shim without a runtime.
        has_runtime_classes: whether it may be the engine of a kubelet, whose Pods choose runtimes by RuntimeClass.
        finds_runtimes_by_name: whether it looks for the program of a running container's runtime in its configuration
            at each call. The others keep the program with the container.
        end_containers: how people end its containers.
        shim_namespaces: of containerd, in which its containers are; model.EVERY_OTHER for all that no other has.
        manager: what it writes as io.container.manager, an annotation of each container; "" for none.
        usual_files: that register its runtimes, as patterns (Host.glob).
        form: of those files, as in shim.engines.model.Edit.
    """

    name: str
    program: str
    unread = "it does not read this file"
    has_hooks = False
    has_runtime_classes = True
    finds_runtimes_by_name = False
    end_containers = "stop and delete them"
    usual_files: tuple[str, ...] = ()
    shim_namespaces: tuple[str, ...] = ()
    manager = ""
    form = "toml"

    @abstractmethod
    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find the engine's configuration.

        Arguments:
            host: the machine.
            config: the main file, if the user names it, else "".
            drop_in: the file for our keys, if the user names it, else "".
        Raises:
            CdiError: the configuration is of a kind that cannot be changed here (a remedy names the way), or a file
                that was named does not go with this engine.
        """

    @abstractmethod
    def read(self, host: Host, location: Location) -> Registry:
        """Read the configuration as the engine does. Missing files are no error: then its defaults hold.

        Raises:
            CdiError: a file cannot be read, or is not valid TOML or JSON.
        """

    @abstractmethod
    def edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """What registers a runtime. Edits that change nothing are dropped by the caller.

        Raises:
            CdiError: it cannot be done in this configuration.
        """

    @abstractmethod
    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What is wrong, or unexpected, with the runtime `name` in this configuration; `registry.findings` aside."""

    def runtime_keys(self, location: Location, name: str) -> Sequence[Keys]:
        """The keys, in any of its files, below which the entry of a runtime can be; () where no entry can go."""
        return ()

    def hook_edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """What registers shim as an OCI hook, for the engine's usual runtime. Only where `has_hooks`.

        Raises:
            CdiError: it cannot be done in this configuration.
        """
        raise NotImplementedError(f"{self.name} has no hooks that edit config.json")

    def program_fault(self, host: Host, location: Location, registry: Registry, runtime: Runtime) -> str:
        """The program of a runtime and why the engine cannot start it, as `runtime_programs.fault`; "" where it can."""
        return runtime_programs.fault(host, location, runtime.path)

    def preview(self, host: Host, location: Location, changes: Mapping[str, bytes | None]) -> Registry | None:
        """The configuration of changed files, by the engine's own check.

        Arguments:
            host: the machine.
            location: where the configuration is.
            changes: path -> new content, None for a file that shall be missing.
        Returns:
            the configuration as the engine's program understands it; None where there is no such check, it cannot be
            run, or it refuses the files.
        Raises:
            CdiError: the check refuses the changed files, with its reason.
        """
        return None

    def ask_daemon(self, host: Host, location: Location, registry: Registry) -> Sequence[Finding] | None:
        """RESTART_NEEDED, for each difference between the files and what the running daemon itself reports.

        Returns:
            None where the daemon cannot be asked; then the times of its files decide.
        """
        return None

    def state_directory(self, runtime: Runtime) -> str:
        """Where the configuration lets a runtime keep the state of containers, "" for the runtime's own choice."""
        return ""

    def restart_command(self, location: Location) -> str:
        """The command that restarts the engine, as it was installed here."""
        return f"systemctl restart {self.name}"

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """How a container of this engine, in this version of it, asks the runtime `name` for devices; a clause."""
        return "ask by annotation or --device"

    def pod_annotation(self, host: Host, registry: Registry, handler: str, key: str) -> str:
        """What becomes of a Pod's annotation; a clause that begins with the engine, "" where it is a request.

        Arguments:
            host: the machine.
            registry: the configuration.
            handler: the Pod's runtime.
            key: of the annotation.
        """
        return f"{self.name} passes no annotation of a Pod on to its containers"

    def resolves_annotations(self, location: Location, registry: Registry) -> bool:
        """Whether the engine looks for the devices of a container's annotations itself, and refuses unknown ones."""
        return False

    def spec_dirs_line(self, location: Location, registry: Registry, directories: Sequence[str]) -> str:
        """The line that gives the engine's own CDI support these directories, and where it belongs; "" for none."""
        return ""

    def containers(self, host: Host) -> list[Container]:
        """The containers of this engine that run now, as far as they can be found."""
        return []

    def stored_containers(self, host: Host) -> Iterable[KnownContainer]:
        """The containers that this engine has written down, running or not: see shim.engines.lookup."""
        return []

    def under_launchers(self, host: Host) -> Iterable[in_use.Container]:
        """The containers of this engine that need a launcher of shim: see shim.engines.in_use."""
        return []
