"""The device nodes that NVIDIA's driver is used by, where nobody made them: what nvidia-modprobe does.

Majors are those of /proc/devices: only 195 is fixed. Minors of the control nodes are fixed by the driver, those of GPUs
stand in /proc/driver/nvidia/gpus/*/information, those of capabilities in /proc/driver/nvidia-caps. Mode and owner are
the driver's own wish (/proc/driver/nvidia/params).

Source: README of the driver, chapter "Frequently Asked Questions" (device files, DeviceFileMode), chapter "MIG".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.host.device_files import WantedNode

if TYPE_CHECKING:
    from shim.host.host import Host

MODULES = ("nvidia", "nvidia-uvm", "nvidia-modeset")  # that `modprobe` loads for these nodes

# node -> names of its major in /proc/devices, the first that is there counts; and its minor
_CONTROL = {
    "/dev/nvidiactl": (("nvidia", "nvidia-frontend"), 255),
    "/dev/nvidia-modeset": (("nvidia", "nvidia-frontend"), 254),
    "/dev/nvidia-uvm": (("nvidia-uvm",), 0),
    "/dev/nvidia-uvm-tools": (("nvidia-uvm",), 1),
}
_LINE = re.compile(r"\s*(\d+) (\S+)")
_MINOR = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"^DeviceFile(UID|GID|Mode): (\d+)$", re.MULTILINE)
_CAPABILITY = re.compile(r"^(?:config|monitor|gpu\d+/gi\d+/(?:ci\d+/)?access) (\d+)$", re.MULTILINE)


def wanted(host: Host, *, control_only: bool) -> tuple[list[WantedNode], list[Finding]]:
    """The nodes that the running driver needs.

    Arguments:
        host: the machine, whose /proc tells numbers.
        control_only: whether those of GPUs and capabilities are left out.
    Returns:
        the nodes, and DISCOVERY_PART for each control node whose module is not loaded.
    Raises:
        CdiError: DISCOVERY_INCOMPLETE where the driver is not loaded at all.
    """
    majors = _majors(host)
    if "nvidia" not in majors and "nvidia-frontend" not in majors:
        text = "/proc/devices has no nvidia: the driver is not loaded"
        raise CdiError([Finding("DISCOVERY_INCOMPLETE", text, "load it: `modprobe nvidia`")])
    parameters = {name: int(value) for name, value in _PARAMETER.findall(host.text("/proc/driver/nvidia/params"))}
    uid, gid, mode = parameters.get("UID", 0), parameters.get("GID", 0), parameters.get("Mode", 0) or 0o666
    nodes, findings = [], []
    for path, (names, minor) in _CONTROL.items():
        major = next((majors[name] for name in names if name in majors), None)
        if major is None:
            text = f"{path} cannot be made: /proc/devices has no {names[0]}"
            findings.append(Finding("DISCOVERY_PART", text, f"load its module: `modprobe {names[0]}`"))
        else:
            nodes.append(WantedNode(path, "c", major, minor, mode, uid, gid))
    if not control_only:
        major = majors.get("nvidia", majors.get("nvidia-frontend", 0))
        nodes += [WantedNode(f"/dev/nvidia{minor}", "c", major, minor, mode, uid, gid) for minor in _gpu_minors(host)]
        if "nvidia-caps" in majors:
            nodes += [
                WantedNode(f"/dev/nvidia-caps/nvidia-cap{minor}", "c", majors["nvidia-caps"], minor, mode, uid, gid)
                for minor in _capability_minors(host)
            ]
    return nodes, findings


def _majors(host: Host) -> dict[str, int]:
    """Names of character devices in /proc/devices, see proc(5)."""
    characters = host.text("/proc/devices").partition("Block devices:")[0]
    return {name: int(major) for major, name in (match.groups() for match in _LINE.finditer(characters))}


def _gpu_minors(host: Host) -> list[int]:
    texts = map(host.text, host.glob("/proc/driver/nvidia/gpus/*/information"))
    return sorted({int(match[1]) for match in map(_MINOR.search, texts) if match})


def _capability_minors(host: Host) -> list[int]:
    return sorted({int(minor) for minor in _CAPABILITY.findall(host.text("/proc/driver/nvidia-caps/mig-minors"))})
