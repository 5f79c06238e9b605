"""Modes gds, mofed, gdrcopy and nvswitch: device nodes of the drivers that work beside that of the GPU.

Each has a class of its own, so that its spec stands beside that of the GPUs: two files that both have a device
nvidia.com/gpu=all would make each other invalid. The only device is `all`: its nodes belong together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.nvidia import options

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

_ALL = "all"


@dataclass(frozen=True)
class Companion:
    """A driver beside that of the GPU.

    Attributes:
        title: its name for people.
        required: device nodes, each of them is needed; * stands for a number, and one node of those is enough.
        optional: further device nodes.
        remedy: what brings the nodes.
        mounts: path below the driver root -> what fails without it, "" where nothing does.
    """

    title: str
    required: tuple[str, ...]
    remedy: str
    optional: tuple[str, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()


# --mode, which is the class of the spec, too -> driver
COMPANIONS = {
    "gds": Companion(
        "GPUDirect Storage",
        ("/dev/nvidia-fs*",),
        "install nvidia-fs and load it: modprobe nvidia-fs",
        mounts=(("/run/udev", "cuFile cannot look up the drives of a file system"), ("/etc/cufile.json", "")),
    ),
    "mofed": Companion(
        "RDMA",
        ("/dev/infiniband/uverbs*",),
        "load the modules of the adapter and of its verbs: modprobe -a mlx5_ib ib_uverbs",
        optional=("/dev/infiniband/rdma_cm",),
    ),
    "gdrcopy": Companion(
        "GDRCopy", ("/dev/gdrdrv",), "install gdrdrv-dkms and start its unit: systemctl start gdrcopy"
    ),
    "nvswitch": Companion(
        "NVSwitch",
        ("/dev/nvidia-nvswitchctl", "/dev/nvidia-nvswitch*"),
        "the driver makes them on a machine with NVSwitches: modprobe nvidia, systemctl start nvidia-fabricmanager",
    ),
}


def discover(host: Host, wish: Wish) -> Discovery:
    """What the host has of the driver that the mode names.

    Arguments:
        host: the machine.
        wish: its mode is a key of COMPANIONS.
    Returns:
        one draft with the device `all`, none without any node; DISCOVERY_INCOMPLETE for each kind of node that is
        missing, DISCOVERY_PART for a directory.
    """
    companion = COMPANIONS[wish.mode]
    devices = options.device_tree(host, wish)
    edits = options.new_edits(wish)
    findings = []
    for pattern in (*companion.required, *companion.optional):
        paths = _nodes(devices, pattern)
        for path in paths:
            edits.add_node(devices, path)
        if not paths and pattern in companion.required:
            text = f"there is no device node {devices.host_path(pattern)}, which {companion.title} needs"
            findings.append(Finding("DISCOVERY_INCOMPLETE", text, companion.remedy))
    if not edits.nodes:
        return Discovery(options.VENDOR, findings=tuple(findings))
    nodes = tuple(edits.nodes)
    driver = options.driver_tree(host, wish)
    for path, loss in companion.mounts:
        if driver.status(path):
            edits.add_mount(driver, path)
        elif loss:
            findings.append(Finding("DISCOVERY_PART", f"{driver.host_path(path)} is missing: {loss}"))
    kind = f"{options.DOMAIN}/{wish.mode}"
    draft = Draft(kind, options.common_edits(wish), (DraftDevice((_ALL,), edits),), can_have_all=False)
    name = f"{wish.kind_of(kind)}={_ALL}"
    device = Device(wish.mode, options.VENDOR, companion.title, cdi_names=(name,), nodes=nodes)
    return Discovery(options.VENDOR, (draft,), (device,), tuple(findings))


def _nodes(tree: Tree, pattern: str) -> list[str]:
    """The device nodes of a path in which * stands for a number."""
    start, star, _ = pattern.partition("*")
    directory, _, beginning = start.rpartition("/")
    names = [name for name in tree.names(directory) if name.startswith(beginning)]
    wanted = [name for name in names if (name[len(beginning) :].isdecimal() if star else name == beginning)]
    return [path for path in (f"{directory}/{name}" for name in wanted) if tree.node(path)]
