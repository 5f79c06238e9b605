"""Mode auto: which mode fits the host.

WSL is known by /dev/dxg and libdxcore. A Tegra system (Jetson) is described by lists where NVML is missing or knows
the integrated GPU; with a discrete GPU alone it is an ordinary host, as everything else is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shim.discover.nvidia import gpus, native, options, tegra, wsl

if TYPE_CHECKING:
    from shim.discover.model import Discovery, Wish
    from shim.host.host import Host


def discover(host: Host, wish: Wish) -> Discovery:
    """What the host has, by the mode that fits it."""
    if wsl.is_present(host, wish):
        return wsl.discover(host, replace(wish, mode="wsl"))
    if options.is_tegra(host):
        snapshot = gpus.take(host, options.driver_tree(host, wish), wish)
        if snapshot.source != "nvml" or tegra.has_integrated(snapshot):
            return tegra.discover_with(host, replace(wish, mode="csv"), snapshot)
    return native.discover(host, replace(wish, mode="nvml"))
