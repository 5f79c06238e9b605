"""NVIDIA: GPUs, MIG devices and what else the driver has, one module a mode.

    Host, Wish ──> mode ──> discover of the mode's module ──> Discovery
                              │
                              ├── snapshot: the GPUs, from NVML in a child process, else from /proc
                              ├── devices: nodes and names of each of them
                              └── driver: libraries, programs, firmware, sockets

Three roots are apart: the machine's own, whose /proc and /sys describe the hardware; that of the driver's files
(--driver-root); that of the device nodes (--dev-root).
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from shim.base.findings import CdiError, Finding
from shim.discover.nvidia import options, pci

if TYPE_CHECKING:
    from shim.discover.model import Discovery, Wish
    from shim.host.host import Host

# --mode -> module with a function `discover`, as `Mode` has it
MODES: dict[str, str] = {
    "auto": "shim.discover.nvidia.auto",
    "nvml": "shim.discover.nvidia.native",
    "gds": "shim.discover.nvidia.companions",
    "mofed": "shim.discover.nvidia.companions",
    "gdrcopy": "shim.discover.nvidia.companions",
    "nvswitch": "shim.discover.nvidia.companions",
    "imex": "shim.discover.nvidia.imex",
    "wsl": "shim.discover.nvidia.wsl",
    "csv": "shim.discover.nvidia.tegra",
    "management": "shim.discover.nvidia.management",
}


class Mode(Protocol):
    """The module of a mode."""

    def discover(self, host: Host, wish: Wish) -> Discovery:
        """What the host has in this mode. Raises CdiError only for a wish that makes no sense."""


def is_present(host: Host, wish: Wish) -> bool:
    """Whether the host has a GPU of NVIDIA or its driver.

    Arguments:
        host: the machine.
        wish: which mode is asked for: one that is named counts as present.
    """
    if wish.mode not in {"auto", ""} or host.exists("/proc/driver/nvidia") or host.exists("/dev/nvidiactl"):
        return True
    if host.exists("/dev/dxg") or options.is_tegra(host):
        return True
    return bool(pci.gpus(host))


def discover(host: Host, wish: Wish) -> Discovery:
    """What the host has of NVIDIA, in the mode that is asked for.

    Raises CdiError: DISCOVERY_WISH for a mode, feature, strategy or device that does not exist.
    """
    name = MODES.get(wish.mode.lower())
    if name is None:
        text = f"--mode {wish.mode}: NVIDIA has no such mode (there are: {', '.join(MODES)})"
        raise CdiError([Finding("DISCOVERY_WISH", text)])
    options.check_features(wish)
    return cast("Mode", import_module(name)).discover(host, replace(wish, mode=wish.mode.lower()))
