"""Counters of a gate, as metrics."""

from __future__ import annotations

import time

from shim.base.prometheus import Counters, family


class Metrics:
    """The counters of a gate; several threads use them.

    Arguments:
        subject: whose gate it is: a label of each metric.
    """

    def __init__(self, subject: str) -> None:
        self._label = {"subject": subject}
        self._decisions: Counters[tuple[str, str]] = Counters()
        self._counts: Counters[str] = Counters()
        self._since = time.time()

    def decided(self, *, is_allowed: bool, reason: str) -> None:
        """Count a decision."""
        self._decisions.add(("allow" if is_allowed else "deny", reason))

    def add(self, name: str, count: int = 1) -> None:
        """Change a counter: connections, tunnels, refused or unanswered."""
        self._counts.add(name, count)

    def text(self, *, grants_readable: bool) -> str:
        """All metrics.

        Arguments:
            grants_readable: whether the grants can be read now.
        """
        decisions, counts = self._decisions.values(), self._counts.values()
        label = self._label
        samples = [
            ({**label, "decision": decision, "reason": reason}, decisions[decision, reason])
            for decision, reason in sorted(decisions)
        ]
        lines = family("shim_gate_decisions_total", "counter", samples)
        for name, kind, metric in _METRICS:
            lines += family(metric, kind, [(label, counts.get(name, 0))])
        lines += family("shim_gate_grants_readable", "gauge", [(label, int(grants_readable))])
        lines += family("shim_gate_start_time_seconds", "gauge", [(label, f"{self._since:.3f}")])
        return "\n".join([*lines, ""])


_METRICS = (
    ("connections", "gauge", "shim_gate_connections"),
    ("tunnels", "gauge", "shim_gate_tunnels"),
    ("refused", "counter", "shim_gate_connections_refused_total"),
    ("unanswered", "counter", "shim_gate_upstream_errors_total"),
)
