"""The running containers that have a device: what a revocation leaves as it is, and how they are stopped.

They are known by the records of creates that injected. A grant that ends counts from the next create on; a container
that runs keeps its device until it is stopped.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from shim.base.paths import parent
from shim.cli import containers
from shim.engines import table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from shim.engines.in_use import Container
    from shim.grants.reader import Grants
    from shim.host.host import Host

_PATIENCE = 60  # seconds: docker and podman wait 10 of them before they kill
_KUBERNETES = "k8s.io"  # containerd's namespace of Pods


class Holder:
    """A running container with devices that were revoked.

    Attributes:
        id: of the container.
        label: its name, "" if unknown.
        engine: that started it, "" for a caller that is none.
        devices: those of the revoked devices that it has.
        command: what stops it; empty where its program is not here.
        how: the same as text, also where the program is not here.
        others: subjects that still have one of these devices, where the record names none: it may be theirs.
        result: "" until it was stopped; then "stopped", or why not.
    """

    def __init__(self, record: dict[str, Any], devices: list[str], words: list[str], program: str) -> None:
        self.id = str(record["id"])
        self.label = str(record["label"])
        self.engine = ""
        self.devices = devices
        self.how = " ".join(words)
        self.command = [program, *words[1:]] if program else []
        self.others: list[str] = []
        self.result = ""

    def to_json(self) -> dict[str, Any]:
        """The container as plain values."""
        return {
            "id": self.id,
            "name": self.label,
            "engine": self.engine,
            "devices": self.devices,
            "stop": self.how,
            "otherSubjects": self.others,
            "result": self.result,
        }


def find(host: Host, subject: str, devices: Collection[str], grants: Grants) -> list[Holder]:
    """The containers that run and have one of the devices, without those whose record names another subject.

    Arguments:
        host: the machine.
        subject: whose grants ended.
        devices: qualified names, as they were requested.
        grants: the state behind the revocation.
    """
    known: dict[str, Container] = {}
    holders = []
    for record in containers.every():
        held = [name for name in record["wanted"] if name in devices]
        owner = record.get("subject", "")
        if not held or owner not in ("", subject) or not _runs(host, record):
            continue
        known = known or {container.id: container for container in table.under_launchers(host)}
        container = known.get(record["id"])
        words = _stop(record, container)
        holder = Holder(record, held, words, host.find(words[0]))
        holder.engine = container.engine if container else ""
        if not owner:  # created while grants were not enforced
            holder.others = sorted({grant.subject for grant in grants.all if grant.device in held})
        holders.append(holder)
    return holders


def stop(holders: Iterable[Holder]) -> bool:
    """Stop containers by the client of their engine, those whose subject is certain.

    Arguments:
        holders: of `find`; each gets its `result`.
    Returns:
        whether all were stopped.
    """
    done = True
    for holder in holders:
        if holder.others:
            holder.result = f"left alone: {', '.join(holder.others)} has the device, too, and may own the container"
        elif not holder.command:
            holder.result = f"left alone: {holder.how.partition(' ')[0]} is not here"
        else:
            holder.result = _run(holder.command)
        done = done and holder.result == "stopped"
    return done


def _runs(host: Host, record: dict[str, Any]) -> bool:
    """Whether the low-level runtime has a state of the container, or may have one where that cannot be seen."""
    try:
        return not record["states"] or any(host.exists(state) for state in record["states"])
    except OSError:
        return True


def _stop(record: dict[str, Any], container: Container | None) -> list[str]:
    """The words of the command that stops a container."""
    id, engine = str(record["id"]), container.engine if container else ""
    if engine in ("docker", "podman"):
        return [engine, "stop", id]
    if engine == "crio":
        return ["crictl", "stop", id]
    if engine == "containerd" and container:
        namespace = parent(parent(container.evidence)).rpartition("/")[2]
        if namespace == _KUBERNETES:
            return ["crictl", "stop", id]
        return ["ctr", "--namespace", namespace, "tasks", "kill", "--signal", "SIGKILL", id]
    root = ["--root", str(record["root"])] if record["root"] else []
    return [str(record["name"]), *root, "kill", id, "KILL"]


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, cwd="/"
        )
    except subprocess.TimeoutExpired:
        return f"not stopped: `{' '.join(command)}` did not end within {_PATIENCE} s"
    except OSError as error:
        return f"not stopped: {error.strerror}"
    if done.returncode == 0:
        return "stopped"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"not stopped: {lines[-1] if lines else f'exit status {done.returncode}'}"
