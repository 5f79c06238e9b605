"""Mode management: every device node of the driver in one device, for containers that manage the GPUs themselves.

Such a container changes MIG devices, watches health, makes device nodes. So it gets the nodes of all GPUs, all
capabilities and all IMEX channels, and the hook that keeps a container from making nodes is left out. The class is in a
domain of its own, so no request for GPUs has these devices by mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.model import Discovery, Draft, DraftDevice
from shim.discover.nvidia import gpus, imex, options
from shim.discover.nvidia.driver import driver_edits

if TYPE_CHECKING:
    from shim.discover.edits import Edits
    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

KIND = "management.nvidia.com/gpu"
_ALL = "all"
# Beginnings of names in a directory, and of those that belong to modes of their own: gds and nvswitch
_NODES = (
    ("/dev", "nvidia", ("nvidia-fs", "nvidia-nvswitch", "nvidia-nvlink")),
    ("/dev/nvidia-caps", "nvidia-cap", ()),
    (imex.DIRECTORY, imex.PREFIX, ()),
)
_UNWANTED_HOOKS = ("disable-device-node-modification", "update-application-profile")


def discover(host: Host, wish: Wish) -> Discovery:
    """The device `all`.

    Returns:
        DISCOVERY_INCOMPLETE and no draft without any node or without a driver that runs; what is missing of the
        driver's files.
    """
    tree = options.driver_tree(host, wish)
    node_tree = options.device_tree(host, wish)
    edits = options.new_edits(wish)
    for directory, beginning, others in _NODES:
        _add_nodes(edits, node_tree, directory, beginning, others)
    if not edits:
        text = f"there is no device node {node_tree.host_path('/dev')}/nvidia*"
        remedy = "load the driver and make its nodes: modprobe nvidia, nvidia-modprobe -u -c 0"
        return Discovery(options.VENDOR, findings=(Finding("DISCOVERY_INCOMPLETE", text, remedy),))
    snapshot = gpus.take(host, tree, wish)
    # the container is there to mend what NVML does not answer
    findings = [finding.as_warning() for finding in snapshot.errors if finding.id != "DISCOVERY_PART"]
    files, missing = driver_edits(tree, snapshot.driver_version, wish, has_graphics=False)
    findings += missing
    if not snapshot.driver_version or any(fault.id == "DRIVER_MISMATCH" for fault in missing):
        return Discovery(options.VENDOR, findings=tuple(findings))
    common = options.common_edits(wish)
    common.add(files)
    for name in _UNWANTED_HOOKS:
        common.hooks.pop(name, None)
    draft = Draft(KIND, common, (DraftDevice((_ALL,), edits),), can_have_all=False)
    return Discovery(options.VENDOR, (draft,), findings=tuple(findings))


def _add_nodes(edits: Edits, tree: Tree, directory: str, beginning: str, others: tuple[str, ...]) -> None:
    for name in tree.names(directory):
        if name.startswith(beginning) and not name.startswith(others or "\0"):
            edits.add_node(tree, f"{directory}/{name}")
