"""The containers that run under a launcher of shim, so that their exec, stop and delete need it.

An engine calls the OCI runtime for as long as a container exists, and where it finds that runtime differs:

    engine              what is looked at                                         what is called later
    ------------------  --------------------------------------------------------  ----------------------------
    containerd, docker  the shim process works in the bundle of its first         the program that the bundle
                        container; each bundle beside it has a file `runtime`     names
                        with the program, empty for runc in the shim's PATH
    podman, CRI-O       conmon has the program behind --runtime                   the program that the runtime's
                                                                                  name stands for by then
    none                the record of a create that injected, while the           the launcher, by a person
                        low-level runtime keeps the state of the container

docker writes a script for a runtime with runtimeArgs; a script counts as the launcher that it names. The bundles of all
shims count: a container that ended without having been deleted needs the runtime once more.

Sources: containerd, core/runtime/v2/README.md and cmd/containerd-shim-runc-v2/runc/container.go (WriteRuntime);
conmon(8); moby, daemon/runtime_unix.go (initRuntimes)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import parent
from shim.create import record_files, record_reader
from shim.engines import launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shim.host.host import Daemon, Host

SHIMS = ("containerd-shim-runc-v2", "containerd-shim-runc-v1", "containerd-shim")

_MONITORS = ("conmon", "conmonrs")
_LARGEST_SCRIPT = 64 * 1024
_NAMED = 3  # containers that a message names


@dataclass(frozen=True)
class Container:
    """A container that needs a launcher.

    Attributes:
        engine: that started it, "" for a caller that is none.
        id: its id.
        launcher: the path by which it is called, for a record the last part alone.
        evidence: a file or process that shows it.
        end: how it is brought to its end.
    """

    engine: str
    id: str
    launcher: str
    evidence: str
    end: str

    @property
    def name(self) -> str:
        """The last part of the launcher's path, by which it finds its low-level runtime."""
        return self.launcher.rpartition("/")[2]

    def to_json(self) -> dict[str, str]:
        """The container as plain values."""
        return {"engine": self.engine, "id": self.id, "launcher": self.launcher, "evidence": self.evidence}


def under(host: Host, path: str, all_containers: Iterable[Container]) -> list[Container]:
    """Those of the containers whose launcher is the file at a path, by any link."""
    same: dict[str, bool] = {}
    for container in all_containers:
        called = container.launcher
        if called not in same:
            same[called] = host.is_same_file(called, path) if "/" in called else called == path.rpartition("/")[2]
    return [container for container in all_containers if same[container.launcher]]


def finding(running: Iterable[Container], effect: str, then: str) -> Finding:
    """CONTAINERS_RUNNING.

    Arguments:
        running: the containers, at least one.
        effect: what would happen to them, or happened instead; a clause.
        then: what is to be done when they have ended.
    """
    listed = list(running)
    shown = ", ".join(f"{container.engine or 'container'} {container.id[:12]}" for container in listed[:_NAMED])
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    count = "1 container runs" if len(listed) == 1 else f"{len(listed)} containers run"
    text = f"{count} under {listed[0].launcher} ({shown}{more}): {effect}"
    how = dict.fromkeys(container.end for container in listed)
    return Finding("CONTAINERS_RUNNING", text, f"{'; '.join(how)}; then {then}")


def of_shims(host: Host, engine: str, end: str, is_of: Callable[[str], bool]) -> Iterator[Container]:
    """The containers of an engine that a containerd-shim started by a launcher of ours.

    Arguments:
        host: the machine.
        engine: its name.
        end: how people end its containers.
        is_of: whether a namespace of containerd belongs to the engine.
    """
    shims = [shim for name in SHIMS for shim in host.daemons(name, of_every_user=True)]
    for tasks, shim in {parent(shim.cwd): shim for shim in shims if is_of(shim.option("-namespace"))}.items():
        for file in host.glob(f"{tasks}/*/runtime"):
            program = host.find(host.text(file) or "runc", path=shim.path)
            launched = _launcher(host, program)
            if launched:
                yield Container(engine, parent(file).rpartition("/")[2], launched, file, end)


def of_monitors(host: Host, engine: str, end: str, is_of: Callable[[Daemon], bool]) -> Iterator[Container]:
    """The containers of an engine that a conmon started by a launcher of ours.

    Arguments:
        host: the machine.
        engine: its name.
        end: how people end its containers.
        is_of: whether a monitor belongs to the engine.
    """
    monitors = [monitor for name in _MONITORS for monitor in host.daemons(name, of_every_user=True)]
    for monitor in filter(is_of, monitors):
        launched = _launcher(host, host.find(monitor.option("-r", "--runtime"), path=monitor.path))
        if launched:
            id = monitor.option("-c", "--cid") or f"of process {monitor.pid}"
            evidence = f"process {monitor.pid} ({monitor.argv[0]})"
            yield Container(engine, id, launched, evidence, end)


def of_records(host: Host) -> Iterator[Container]:
    """The containers of this machine for which a create left a record, and which the low-level runtime still has."""
    directory = record_files.directory()
    for entry in record_reader.entries(directory):
        if any(_is_seen(host, state) for state in entry["states"]):
            file = f"{directory}/{record_files.key(entry['name'], entry['root'], entry['id'])}"
            end = "let it end, or `shim kill` and `shim delete` it"
            yield Container("", entry["id"], entry["name"], file, end)


def _is_seen(host: Host, path: str) -> bool:
    """Whether a path exists; False also in a directory that is closed to this user, such as root's /run/runc."""
    try:
        return host.exists(path)
    except OSError:
        return False


def _launcher(host: Host, program: str) -> str:
    """The launcher that a program is, or that a script names; "" for another program."""
    if not program or launcher.is_launcher(host, program):
        return program
    try:
        data = host.read(program) if _is_script(host, program) else b""
    except CdiError:
        return ""
    words = (data or b"").decode("utf-8", "replace").replace('"', " ").replace("'", " ").split()
    return next((word for word in words if word.startswith("/") and launcher.is_launcher(host, word)), "")


def _is_script(host: Host, program: str) -> bool:
    status = host.status(program)
    return status is not None and status.st_size <= _LARGEST_SCRIPT
