"""What lies around the chain: shim's own files, the namespaces of engines, and settings of other toolkits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.cdi import index
from shim.config import location
from shim.doctor.model import DIRECTORY, REGISTRATION, REQUEST, TRUST, Check
from shim.engines import launcher, table
from shim.host import identity, run_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.doctor.machine import Machine
    from shim.host.host import Daemon, Host

_VENDOR_FILE = "/etc/nvidia-container-runtime/config.toml"
_CONTEXT = ".docker/config.json"
_NAMESPACE = "/proc/{pid}/ns/mnt"


def checks(machine: Machine) -> Iterator[Check]:
    """All of them."""
    host = machine.host
    if machine.faults:
        yield Check(REQUEST, "configuration", "does not count", list(machine.faults))
    elif machine.settings.warnings:
        yield Check(REQUEST, "configuration", machine.settings.path, list(machine.settings.warnings))
    yield from _installation(host)
    directory = run_directory.findings(identity.RUN_DIR, host.look, 0) if machine.rootful else []
    if directory:
        yield Check(TRUST, identity.RUN_DIR, "", directory)
    unused = list(_unused_index(host))
    if unused:
        yield Check(TRUST, unused[0].path, "", unused)
    hidden = [*_hidden_from_us(machine), *_hidden_from_engines(machine)]
    if hidden:
        yield Check(DIRECTORY, "mount namespaces", "", hidden)
    others = [*_no_cgroups(host), *_context(host)]
    if others:
        yield Check(REGISTRATION, "other settings", "", others)


def _installation(host: Host) -> Iterator[Check]:
    """What is wrong with the launcher."""
    program = host.find("shim")
    if not program:
        return
    yield Check(REGISTRATION, program, "the launcher", launcher.faults(host, program))


def _unused_index(host: Host) -> Iterator[Finding]:
    """INDEX_UNUSED, for an index that another version of shim has written, or that is damaged."""
    path = location.index_path(location.candidates()[0]) if host.root == "/" else ""
    if path and host.exists(path) and index.last_settings(path) is None:
        text = "it is of another version of shim or damaged, so each create reads every spec until one writes it anew"
        yield Finding("INDEX_UNUSED", text, f"rm {path}", path=path)


def _hidden_from_us(machine: Machine) -> Iterator[Finding]:
    """SPEC_DIR_HIDDEN, where this process is in a user namespace whose spec directories hold nothing."""
    host = machine.host
    uid_map = host.text("/proc/self/uid_map").split()
    if machine.rootful or host.user != 0 or uid_map[-1:] == ["4294967295"] or machine.served.specs:
        return
    text = (
        f"in this user and mount namespace {' and '.join(machine.settings.spec_dirs)} have no spec; the host may have "
        "some, which rootlesskit and unshare hide"
    )
    yield Finding("SPEC_DIR_HIDDEN", text)


def _hidden_from_engines(machine: Machine) -> Iterator[Finding]:
    """SPEC_DIR_HIDDEN, for each daemon whose mount namespace lacks a spec that we see."""
    host = machine.host
    ours = host.readlink(_NAMESPACE.format(pid="self"))
    specs = sorted({spec.path for spec in machine.served.specs})
    for engine in table.ENGINES.values():
        for daemon in host.daemons(engine.program):
            theirs = host.readlink(_NAMESPACE.format(pid=daemon.pid))
            lacking = [path for path in specs if theirs not in (None, ours) and _lacks(host, daemon, path)]
            if lacking:
                text = (
                    f"{engine.name} (process {daemon.pid}) is in a mount namespace of its own, in which {lacking[0]} "
                    f"{f'and {len(lacking) - 1} more are' if len(lacking) > 1 else 'is'} missing"
                )
                yield Finding("SPEC_DIR_HIDDEN", text)


def _lacks(host: Host, daemon: Daemon, path: str) -> bool:
    """Whether a process does not see a file; False where its root cannot be looked into."""
    root = f"/proc/{daemon.pid}/root"
    try:
        return host.exists(f"{root}/etc") and not host.exists(f"{root}{path}")
    except OSError:  # a process of another user
        return False


def _no_cgroups(host: Host) -> Iterator[Finding]:
    """CGROUPS_OFF, for the switch of NVIDIA's toolkit that is meant for users without root."""
    for line in host.text(_VENDOR_FILE).splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "no-cgroups" and value.strip() == "true" and host.user == 0:
            text = "no-cgroups is on: containers of root, too, get no rule for their devices from NVIDIA's toolkit"
            yield Finding("CGROUPS_OFF", text, path=_VENDOR_FILE)


def _context(host: Host) -> Iterator[Finding]:
    """DOCKER_CONTEXT, where `docker` talks to another daemon than that of this machine."""
    home = host.environment.get("HOME", "")
    path = f"{home}/{_CONTEXT}"
    name = host.environment.get("DOCKER_CONTEXT", "")
    remote = host.environment.get("DOCKER_HOST", "")
    if not name and not remote and home:
        try:
            document = json.loads(host.read(path) or b"{}")
            name = document.get("currentContext") or "" if isinstance(document, dict) else ""
        except (CdiError, ValueError):
            return
    if remote and not remote.startswith("unix://"):
        yield Finding("DOCKER_CONTEXT", f"DOCKER_HOST is {remote}: containers of `docker` are not on this machine")
    elif name not in ("", "default"):
        yield Finding(
            "DOCKER_CONTEXT", f"the current context is {name}: `docker` may talk to another daemon", path=path
        )
