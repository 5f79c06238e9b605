"""What the kernel module says of itself in /proc and /sys: versions, GPUs, and the numbers of MIG's capability nodes.

    /proc/driver/nvidia/version
    /proc/driver/nvidia/gpus/ADDRESS/information       a line `Key: value` each
    /proc/driver/nvidia/capabilities/gpuM/mig/giG/ciC/access
    /proc/driver/nvidia-caps/mig-minors                gpuM/giG/ciC/access N, for all that could exist

M is the minor number of the GPU's node, not its index. A GPU that was not used since the module was loaded shows a
UUID of question marks. Of MIG devices the kernel knows neither UUID nor index.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.discover.nvidia import pci
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
from shim.discover.pci import addresses
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.host.host import Host

DRIVER = "/proc/driver/nvidia"
MINORS = "/proc/driver/nvidia-caps/mig-minors"
_VERSION = re.compile(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)(?=\s|$)")
_MODULE_VERSION = re.compile(r"\d+(?:\.\d+)+")
_LINE = re.compile(r"gpu(\d+)/gi(\d+)(?:/ci(\d+))?/access\s+(\d+)")
_ACCESS = re.compile(r"DeviceFileMinor:\s*(\d+)")

Capability = tuple[int, int, int]  # minor of the GPU, GPU instance, compute instance or -1


def driver_version(host: Host) -> str:
    """The version of the kernel module that is loaded; "" when none is."""
    match = _VERSION.search(host.text(f"{DRIVER}/version"))
    if match:
        return match[1]
    text = host.text("/sys/module/nvidia/version")
    return text if _MODULE_VERSION.fullmatch(text) else ""


def snapshot(host: Host) -> Snapshot:
    """The GPUs that the kernel module drives, by PCI address as NVML counts them."""
    system = Tree(host)
    gpus: list[Gpu] = []
    for address in addresses(system, f"{DRIVER}/gpus"):
        facts = _facts(system.text(f"{DRIVER}/gpus/{address}/information"))
        if facts.get("GPU Excluded", "No") == "No":
            gpus.append(_gpu(host, system, len(gpus), address, facts))
    version = driver_version(host)
    return Snapshot(version, "", tuple(gpus), "proc" if version or gpus else "")


def capabilities(host: Host) -> dict[Capability, int]:
    """The minor numbers of capability nodes /dev/nvidia-caps/nvidia-capN, by what they give access to."""
    system = Tree(host)
    minors: dict[Capability, int] = {}
    for line in system.text(MINORS).splitlines():
        match = _LINE.fullmatch(line.strip())
        if match:
            minors.setdefault((int(match[1]), int(match[2]), int(match[3] or -1)), int(match[4]))
    for gpu in system.names(f"{DRIVER}/capabilities"):
        if gpu[:3] != "gpu" or not gpu[3:].isdecimal():
            continue
        minor = int(gpu[3:])
        for gi, ci in _instances(system, minor):
            match = _ACCESS.search(system.text(capability_file(minor, gi, ci)))
            if match:
                minors.setdefault((minor, gi, ci), int(match[1]))
    return minors


def capability_file(minor: int, gi: int, ci: int = -1) -> str:
    """The file that describes the capability of an instance, from which nvidia-modprobe makes its node."""
    return f"{DRIVER}/capabilities/gpu{minor}/mig/gi{gi}/{f'ci{ci}/' if ci >= 0 else ''}access"


def _instances(system: Tree, minor: int) -> list[tuple[int, int]]:
    """GPU instances and compute instances of a GPU: their ids, -1 for no compute instance."""
    every = []
    top = f"{DRIVER}/capabilities/gpu{minor}/mig"
    for gi in _numbered(system, top, "gi"):
        every.append((gi, -1))
        every += [(gi, ci) for ci in _numbered(system, f"{top}/gi{gi}", "ci")]
    return every


def _numbered(system: Tree, directory: str, prefix: str) -> list[int]:
    names = (name[len(prefix) :] for name in system.names(directory) if name.startswith(prefix))
    return [int(number) for number in names if number.isdecimal()]


def _gpu(host: Host, system: Tree, index: int, address: str, facts: dict[str, str]) -> Gpu:
    minor = int(facts["Device Minor"]) if facts.get("Device Minor", "").isdecimal() else -1
    uuid = facts.get("GPU UUID", "")
    mig = [(gi, ci) for gi, ci in _instances(system, minor) if ci >= 0] if minor >= 0 else []
    return Gpu(
        index,
        minor,
        "" if "?" in uuid else uuid,
        pci.normal(address),
        facts.get("Model", ""),
        mig_enabled=bool(mig),
        mig=tuple(Mig(-1, gi=gi, ci=ci) for gi, ci in mig),
        numa=pci.numa_node(host, pci.normal(address)),
    )


def _facts(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
