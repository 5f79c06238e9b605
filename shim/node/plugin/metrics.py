"""Counters of the device plugin, as metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from shim.base.prometheus import Counters, family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.node.plugin.snapshot import ResourceState

_PREFIX = "shim_node_plugin"


class Metrics:
    """The counters of the plugin; several threads use them."""

    def __init__(self) -> None:
        self._since = time.time()
        self.allocations: Counters[tuple[str, str]] = Counters()
        self.registrations: Counters[tuple[str, str]] = Counters()
        self.lists: Counters[str] = Counters()

    def text(self, states: Mapping[str, ResourceState], connected: Mapping[str, bool], form: str) -> str:
        """All metrics.

        Arguments:
            states: the resources now, by name.
            connected: name of a resource -> whether the kubelet follows its list.
            form: of the answers to Allocate.
        """
        lines = _results("allocations", self.allocations) + _results("registrations", self.registrations)
        lists = sorted(self.lists.values().items())
        lines += family(f"{_PREFIX}_lists_total", "counter", [({"resource": name}, count) for name, count in lists])
        devices = []
        for name, state in states.items():
            healthy = sum(not unit.fault for unit in state.ids.values())
            counts = {"healthy": healthy, "unhealthy": len(state.ids) - healthy}
            devices += [({"resource": name, "health": health}, count) for health, count in counts.items()]
        lines += family(f"{_PREFIX}_devices", "gauge", devices)
        units = [
            ({"resource": name, "device": unit.unit.name}, int(not unit.fault))
            for name, state in states.items()
            for unit in state.units
        ]
        lines += family(f"{_PREFIX}_device_healthy", "gauge", units)
        streams = [({"resource": name}, int(is_connected)) for name, is_connected in connected.items()]
        lines += family(f"{_PREFIX}_registered", "gauge", streams)
        lines += family(f"{_PREFIX}_form", "gauge", [({"form": form}, 1)])
        lines += family(f"{_PREFIX}_start_time_seconds", "gauge", [({}, f"{self._since:.3f}")])
        return "\n".join([*lines, ""])


def _results(name: str, counters: Counters[tuple[str, str]]) -> list[str]:
    samples = [
        ({"resource": resource, "result": result}, count)
        for (resource, result), count in sorted(counters.values().items())
    ]
    return family(f"{_PREFIX}_{name}_total", "counter", samples)
