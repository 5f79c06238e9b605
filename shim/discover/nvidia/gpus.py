"""The snapshot of a host: from NVML, and from /proc where NVML cannot be asked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.nvidia import names, nvml, proc
from shim.discover.nvidia.snapshot import Snapshot

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree


def take(host: Host, tree: Tree, wish: Wish) -> Snapshot:
    """What the driver answers about its GPUs.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        wish: where libraries are searched.
    Returns:
        a snapshot without a source where no driver is loaded; its errors hold what went wrong with NVML. Where library
        and kernel module have different versions it has no GPUs: a container could use none.
    """
    kernel = proc.driver_version(host)
    answer = nvml.take(host, tree, nvml.locate(tree, wish, kernel))
    if isinstance(answer, Snapshot):
        version = kernel or answer.driver_version
        if answer.driver_version and kernel not in {"", answer.driver_version}:
            text = f"the kernel module has version {kernel}, NVML {answer.driver_version}"
            return Snapshot(kernel, errors=(Finding("DRIVER_MISMATCH", text),), source="nvml")
        return dataclasses.replace(answer, driver_version=version)
    if answer.code == nvml.VERSION_MISMATCH:
        return Snapshot(kernel, errors=(nvml.finding(answer),), source="nvml")
    snapshot = proc.snapshot(host)
    findings = (nvml.finding(answer, has_driver=snapshot.is_loaded), *_unnamed(snapshot))
    return dataclasses.replace(snapshot, errors=findings)


def _unnamed(snapshot: Snapshot) -> list[Finding]:
    """What /proc does not know, and NVML would: names by which devices may have been asked for so far."""
    findings = []
    unused = ", ".join(str(gpu.index) for gpu in snapshot.gpus if not gpu.uuid)
    if unused:
        text = f"the UUID of GPU {unused} is not known before it was used: no name has it"
        findings.append(Finding("DISCOVERY_PART", text, "run nvidia-smi once, then generate again"))
    migs = [names.index_of(gpu, mig) for gpu in snapshot.gpus for mig in gpu.mig]
    if migs:
        text = f"MIG devices are named by their instances ({migs[0]}): /proc has neither their index nor their UUID"
        findings.append(Finding("DISCOVERY_PART", text, "install the driver's libnvidia-ml, then generate again"))
    return findings
