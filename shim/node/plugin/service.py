"""The process of the device plugin: looks at the node once a second, and does what has changed.

    look at specs, nodes, grants ──> endpoints, lists ──> sockets that are missing ──> registration

Files are looked at, not watched: inotify(7) shows nothing of /dev in another mount namespace, of /sys and of /proc, and
a second is early enough for what the kubelet does within minutes. A kubelet that was started anew has emptied its
directory and made a new socket; both are seen at the next look, and the resources are registered again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base import prometheus
from shim.base.findings import CdiError
from shim.node.plugin import kubelet
from shim.node.plugin.endpoint import Endpoint
from shim.node.plugin.snapshot import ResourceState

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType

    from shim.node.plugin.endpoint import Common
    from shim.node.plugin.form import Form
    from shim.node.plugin.kubelet import Identity
    from shim.node.plugin.snapshot import Observer, Snapshot

PAUSE = 1.0  # seconds between two looks
_UNFOLLOWED = 5.0  # seconds after a registration in which the kubelet begins to follow the list
_LONGEST = 30.0  # seconds between two attempts


@dataclass
class _Registration:
    """What is known about the registration of a resource: with which socket of the kubelet, and when to try again."""

    kubelet: Identity | None = None
    again: float = 0.0
    wait: float = PAUSE


class FormNow:
    """The form of answers, decided anew where the engine's files have changed, or it was restarted.

    Arguments:
        decide: decides it.
    """

    def __init__(self, decide: Callable[[], Form]) -> None:
        self._decide = decide
        self.form = decide()
        self._seen = self._look()

    def check(self) -> bool:
        """Decide again where it may have changed. Returns whether the form is another one now."""
        seen = self._look()
        if seen == self._seen:
            return False
        before, self._seen = self.form.form, seen
        self.form = self._decide()
        return self.form.form != before

    def _look(self) -> list[object]:
        states: list[object] = [_started(pid) for pid in self.form.daemons]
        if self.form.files and not states:
            states.append(int(time.monotonic() / _LONGEST))  # an engine that does not run yet is looked for again
        for path in self.form.files:
            try:
                status = os.stat(path)
                states.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                states.append((path, None))
        return states


class Service:
    """Serves the resources of a node.

    Arguments:
        observer: looks at the node.
        form: of the answers.
        common: what the endpoints share.
        pause: seconds between two looks.
    """

    def __init__(self, observer: Observer, form: FormNow, common: Common, pause: float = PAUSE) -> None:
        self._observer = observer
        self._form = form
        self._common = common
        self._pause = pause
        self._endpoints: dict[str, Endpoint] = {}
        self._registrations: dict[str, _Registration] = {}
        self._stop = threading.Event()
        self._snapshot: Snapshot | None = None

    def stop(self) -> None:
        """Let `run` end; callable from a signal handler and from another thread."""
        self._stop.set()

    def handle_signals(self) -> None:
        """End on SIGTERM and SIGINT."""

        def handler(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the interface of signal
            self.stop()

        signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGINT, handler)

    def run(self) -> None:
        """Serve until `stop` is called.

        Raises CdiError: PLUGIN_SOCKET or PLUGIN_RUNNING at the first look; later ones are written down and tried again.
        """
        journal = self._common.journal
        try:
            self._tell_form()
            self._tick(is_first=True)
            while not self._stop.wait(self._pause):
                self._tick()
        finally:
            for endpoint in self._endpoints.values():
                endpoint.stop()
            journal.event("end", "the plugin ends")

    def scrape(self) -> str:
        """The metrics now."""
        endpoints = dict(self._endpoints)
        states = {name: endpoint.state for name, endpoint in endpoints.items()}
        connected = {name: endpoint.is_followed for name, endpoint in endpoints.items()}
        return self._common.metrics.text(states, connected, self._form.form.form)

    def _tick(self, *, is_first: bool = False) -> None:
        if self._form.check():
            self._tell_form()
        snapshot = self._observer.look()
        if snapshot is not self._snapshot:
            self._take(snapshot, is_first=is_first)
        now = kubelet.identity(self._common.directory)
        missing = "" if now else f"{self._common.directory}/kubelet.sock is missing: waiting for the kubelet"
        self._common.journal.change("wait", "", missing)
        for name, endpoint in self._endpoints.items():
            if not endpoint.is_there() and not self._start(endpoint, is_first=is_first):
                continue
            if now is not None:
                self._register(name, endpoint, now)

    def _take(self, snapshot: Snapshot, *, is_first: bool) -> None:
        """Take in what was seen: new resources, changed ones, and those of which no spec is left."""
        self._snapshot = snapshot
        journal = self._common.journal
        for finding in snapshot.findings:
            journal.finding(finding)
        for name, endpoint in self._endpoints.items():
            self._update(endpoint, snapshot.resources.get(name, ResourceState(endpoint.state.resource)))
        for name, state in snapshot.resources.items():
            if name in self._endpoints:
                continue
            try:
                endpoint = Endpoint(state, self._common)
            except CdiError as error:
                self._report(error, is_fatal=is_first)
                continue
            self._endpoints[name] = endpoint
            self._tell(endpoint)

    def _update(self, endpoint: Endpoint, state: ResourceState) -> None:
        if endpoint.update(state):
            self._tell(endpoint)
        else:
            self._tell_faults(endpoint)  # the cause may be another one

    def _tell(self, endpoint: Endpoint) -> None:
        state = endpoint.state
        healthy = sum(not unit.fault for unit in state.ids.values())
        text = f"{endpoint.resource}: {len(state.ids)} devices, {healthy} healthy"
        self._common.journal.event("devices", text, resource=endpoint.resource, devices=len(state.ids), healthy=healthy)
        self._tell_faults(endpoint)

    def _tell_faults(self, endpoint: Endpoint) -> None:
        for unit in endpoint.state.units:
            fault = f"{unit.unit.name} is unhealthy: {unit.fault}" if unit.fault else ""
            self._common.journal.change(
                "unhealthy", unit.unit.name, fault, resource=endpoint.resource, device=unit.unit.name
            )

    def _start(self, endpoint: Endpoint, *, is_first: bool) -> bool:
        self._registrations[endpoint.resource] = _Registration()
        try:
            endpoint.start()
        except CdiError as error:
            self._report(error, is_fatal=is_first)
            return False
        return True

    def _report(self, error: CdiError, *, is_fatal: bool) -> None:
        if is_fatal:
            raise error
        for finding in error.findings:
            self._common.journal.finding(finding)

    def _register(self, name: str, endpoint: Endpoint, now: Identity) -> None:
        """Register a resource where this kubelet does not know it, or has ceased to follow it."""
        known = self._registrations[name]
        time_now = time.monotonic()
        if known.kubelet != now:
            known.kubelet, known.again, known.wait = now, time_now, self._pause
        if endpoint.is_followed:
            known.again, known.wait = time_now + _UNFOLLOWED, self._pause
            return
        if time_now < known.again:
            return
        fault = kubelet.register(self._common, name, endpoint.name)
        self._common.metrics.registrations.add((name, "failed" if fault else "OK"))
        known.wait = min(known.wait * 2, _LONGEST)
        known.again = time.monotonic() + (known.wait if fault else max(known.wait, _UNFOLLOWED))
        if fault:
            text = f"the kubelet does not register {name}: {fault}"
            self._common.journal.change("register", name, text, resource=name)
        else:
            self._common.journal.change("register", name, "")
            self._common.journal.event("register", f"{name} is registered with the kubelet", resource=name)

    def _tell_form(self) -> None:
        form = self._form.form
        self._common.journal.event("form", f"devices are handed over as {form.form}: {form.why}", form=form.form)
        for finding in form.findings:
            self._common.journal.finding(finding)


def _started(pid: int) -> str:
    """When a process began, in clock ticks (field 22 of proc(5), stat); "" where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def serve_metrics(listener: socket.socket, text: Callable[[], str]) -> None:
    """Answer scrapes in a thread, until the process ends.

    Arguments:
        listener: where they come in.
        text: gives the metrics.
    """

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            prometheus.answer(connection, text())

    threading.Thread(target=accept, name="metrics", daemon=True).start()
