"""Counters of a gate, in the text format of Prometheus.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters of a gate; several threads use them.

    Arguments:
        subject: whose gate it is: a label of each metric.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._lock = threading.Lock()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._counts: Counter[str] = Counter()
        self._since = time.time()

    def decided(self, *, is_allowed: bool, reason: str) -> None:
        """Count a decision."""
        with self._lock:
            self._decisions["allow" if is_allowed else "deny", reason] += 1

    def add(self, name: str, count: int = 1) -> None:
        """Change a counter: connections, tunnels, refused or unanswered."""
        with self._lock:
            self._counts[name] += count

    def text(self, *, grants_readable: bool) -> str:
        """All metrics.

        Arguments:
            grants_readable: whether the grants can be read now.
        """
        with self._lock:
            decisions, counts = dict(self._decisions), dict(self._counts)
        label = f'subject="{self._subject}"'
        lines = ["# TYPE shim_gate_decisions_total counter"]
        for (decision, reason), count in sorted(decisions.items()):
            lines.append(f'shim_gate_decisions_total{{{label},decision="{decision}",reason="{reason}"}} {count}')
        for name, type, metric in _METRICS:
            lines += [f"# TYPE {metric} {type}", f"{metric}{{{label}}} {counts.get(name, 0)}"]
        lines += ["# TYPE shim_gate_grants_readable gauge"]
        lines += [f"shim_gate_grants_readable{{{label}}} {int(grants_readable)}"]
        lines += ["# TYPE shim_gate_start_time_seconds gauge"]
        lines += [f"shim_gate_start_time_seconds{{{label}}} {self._since:.3f}", ""]
        return "\n".join(lines)


_METRICS = (
    ("connections", "gauge", "shim_gate_connections"),
    ("tunnels", "gauge", "shim_gate_tunnels"),
    ("refused", "counter", "shim_gate_connections_refused_total"),
    ("unanswered", "counter", "shim_gate_upstream_errors_total"),
)
