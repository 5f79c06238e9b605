"""Mode nvml: the GPUs of an ordinary Linux host, with everything that a container needs of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.discover.edits import Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.nvidia import coherent, devices, gpus, names, options, pci
from shim.discover.nvidia.driver import driver_edits
from shim.discover.pci import PciIds
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.discover.nvidia.devices import Part
    from shim.host.host import Host

_NONE = "none"
# Node -> what brings it; without the first two nothing works
_REQUIRED = {
    "/dev/nvidiactl": "load the driver and make its nodes: modprobe nvidia, nvidia-modprobe -c 0",
    "/dev/nvidia-uvm": "load its module and make its nodes: nvidia-modprobe -u -c 0",
}
_OPTIONAL = ("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


def discover(host: Host, wish: Wish) -> Discovery:
    """What the host has.

    Raises CdiError: DISCOVERY_WISH for a strategy of names or a device that does not exist; the finding of a device
        that is asked for by --device and cannot be written.
    """
    names.strategies(wish)  # a wish without sense is refused before the driver is asked
    tree, nodes = options.driver_tree(host, wish), options.device_tree(host, wish)
    snapshot = gpus.take(host, tree, wish)
    findings = list(snapshot.errors)
    if not snapshot.is_loaded:
        return _without_driver(host, findings)
    builder = devices.Builder(host, nodes, wish, snapshot)
    parts = builder.parts()
    findings += _faults(wish, parts)
    inventory = tuple(builder.inventory(part) for part in parts)
    drafts = [part.draft for part in parts if part.draft]
    if _NONE in wish.devices:
        drafts = [*drafts, DraftDevice((_NONE,), Edits(env={"NVCT_EMPTY_DEVICE": ""}))]
    if not drafts:
        if not snapshot.errors:
            findings.append(Finding("DISCOVERY_INCOMPLETE", "the driver has no GPU that a container could use"))
        return Discovery(options.VENDOR, devices=inventory, findings=tuple(findings))
    common = options.common_edits(wish)
    findings += add_control(common, nodes)
    driver, faults = driver_edits(tree, snapshot.driver_version, wish)
    findings += faults
    if not snapshot.driver_version or any(fault.id == "DRIVER_MISMATCH" for fault in faults):
        return Discovery(options.VENDOR, devices=inventory, findings=tuple(findings))
    common.add(driver)
    can_have_all = wish.devices != (_NONE,)
    draft = Draft(devices.KIND, common, tuple(drafts), can_have_all)
    further: list[Draft] = []
    if options.COHERENT in wish.features:
        further, unknown = coherent.split(draft, wish, parts)
        findings += unknown
    return Discovery(options.VENDOR, (draft, *further), inventory, tuple(findings))


def _without_driver(host: Host, findings: list[Finding]) -> Discovery:
    """What the PCI bus has; the kernel module is waited for where there is a GPU for it."""
    models = PciIds(Tree(host))
    inventory = tuple(
        Device(str(index), options.VENDOR, models.model(gpu), pci_address=gpu.address, numa_node=gpu.numa_node)
        for index, gpu in enumerate(pci.gpus(host))
    )
    waits_for = "NVIDIA's kernel module" if inventory else ""
    return Discovery(options.VENDOR, devices=inventory, findings=tuple(findings), waits_for=waits_for)


def _faults(wish: Wish, parts: list[Part]) -> list[Finding]:
    """What is wrong with single devices.

    Raises CdiError: a device that --device names is wrong, or is a GPU in MIG mode.
    """
    asked = [part.finding for part in parts if part.finding and set(part.ids) & set(wish.devices)]
    if asked:
        # what is a warning among others is an error of a device that is asked for
        raise CdiError([Finding("DISCOVERY_DEVICE", finding.text, finding.remedy) for finding in asked])
    for part in parts:
        gpu = part.gpu
        word = next((word for word in wish.devices if word in {str(gpu.index), gpu.uuid, gpu.pci_address}), "")
        if part.mig and word:
            migs = ", ".join(names.index_of(gpu, mig) for mig in gpu.mig)
            text = f"--device {word}: this GPU is in MIG mode (its MIG devices are: {migs})"
            raise CdiError([Finding("DISCOVERY_WISH", text)])
    return [part.finding for part in parts if part.finding]


def add_control(edits: Edits, nodes: Tree) -> list[Finding]:
    """Add the nodes of the driver as a whole.

    Arguments:
        edits: of a spec, or of a device whose spec has others without them.
        nodes: the root of the device nodes.
    Returns:
        DISCOVERY_INCOMPLETE for each that is needed and missing.
    """
    findings = []
    for path, remedy in _REQUIRED.items():
        if not edits.add_node(nodes, path):
            text = f"there is no device node {nodes.host_path(path)}, without which no GPU can be used"
            if nodes.node(path.removeprefix("/dev")):
                text += f"; --dev-root names the directory above dev: {nodes.root.rpartition('/')[0] or '/'}"
            findings.append(Finding("DISCOVERY_INCOMPLETE", text, remedy))
    for path in _OPTIONAL:
        edits.add_node(nodes, path)
    return findings
