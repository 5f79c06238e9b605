"""Labels about MIG devices, by the strategy with which the device plugin offers them.

single: all are alike and stand for GPUs: their labels are gpu.*. Where they are not alike the product ends in
-MIG-INVALID, and nothing can be had.
mixed: each profile is a resource nvidia.com/mig-PROFILE with labels of its own, mig-PROFILE.*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.nvidia import nvml
from shim.node.labels import values

if TYPE_CHECKING:
    from shim.discover.nvidia.facts import GpuFacts, MigFacts
    from shim.node.labels.model import Request

RESOURCE = "nvidia.com/gpu"

Owned = tuple["GpuFacts", "MigFacts"]  # a MIG device and its GPU


def labels(request: Request, gpus: tuple[GpuFacts, ...]) -> tuple[dict[str, str], list[Finding]]:
    """The labels of MIG devices, without their prefix; none where no GPU is in MIG mode.

    Arguments:
        request: what is asked for, with the strategy single or mixed.
        gpus: of the node.
    Returns:
        the labels, and LABELS_INCOMPLETE for what the driver does not answer.
    """
    enabled = [gpu for gpu in gpus if gpu.is_mig_enabled]
    every = [(gpu, mig) for gpu in enabled for mig in gpu.mig]
    findings = [finding for gpu in enabled for finding in _refusals(gpu)]
    if findings or not enabled:
        return {}, findings
    if request.mig_strategy == "mixed":
        return _mixed(request, every), []
    why = _invalid(gpus, every)
    if why:
        text = f"MIG strategy single does not fit this node: {why}"
        finding = Finding("LABELS_PART", text, "make all MIG devices alike, or take --mig-strategy mixed")
        return _nothing(enabled[0]), [finding]
    return _device(request, "gpu", RESOURCE, every[0], len(every)), []


def _mixed(request: Request, every: list[Owned]) -> dict[str, str]:
    by_profile: dict[str, list[Owned]] = {}
    for owned in every:
        by_profile.setdefault(_profile(owned[1]), []).append(owned)
    written: dict[str, str] = {}
    for profile, devices in by_profile.items():
        written |= _device(request, f"mig-{profile}", f"nvidia.com/mig-{profile}", devices[0], len(devices))
    return written


def _device(request: Request, name: str, resource: str, owned: Owned, count: int) -> dict[str, str]:
    """The labels of MIG devices that are alike."""
    gpu, mig = owned
    strategy, replicas = request.sharing.of(resource)
    suffix = f"-MIG-{_profile(mig)}{request.sharing.mark(resource)}"
    return {
        f"{name}.product": values.value(values.cleaned(gpu.name), suffix),
        f"{name}.count": str(count),
        f"{name}.replicas": str(replicas),
        f"{name}.sharing-strategy": strategy,
        **{f"{name}.{attribute}": str(number) for attribute, number in mig.attributes.items()},
    }


def _nothing(gpu: GpuFacts) -> dict[str, str]:
    """The labels of a node whose MIG devices do not fit the strategy."""
    return {
        "gpu.product": values.value(values.cleaned(gpu.name), "-MIG-INVALID"),
        "gpu.count": "0",
        "gpu.replicas": "0",
        "gpu.memory": "0",
        "gpu.sharing-strategy": "",
    }


def _invalid(gpus: tuple[GpuFacts, ...], every: list[Owned]) -> str:
    """Why the devices of a node are not alike; "" when they are."""
    if any(gpu.is_mig_enabled and not gpu.mig for gpu in gpus):
        return "a GPU in MIG mode has no MIG device"
    if not all(gpu.is_mig_enabled for gpu in gpus):
        return "one GPU is in MIG mode and another is not"
    profiles = dict.fromkeys(_profile(mig) for _, mig in every)
    return f"it has several profiles ({', '.join(profiles)})" if len(profiles) > 1 else ""


def _profile(mig: MigFacts) -> str:
    """The profile as resources and labels name it."""
    return mig.profile.replace("+", ".")


def _refusals(gpu: GpuFacts) -> list[Finding]:
    """What the driver does not answer about the MIG devices of a GPU."""
    calls = {**{call: code for call, code in gpu.refused.items() if call == "DeviceGetMaxMigDeviceCount"}}
    if gpu.mig and gpu.memory < 0 and "DeviceGetMemoryInfo" in gpu.refused:
        calls["DeviceGetMemoryInfo"] = gpu.refused["DeviceGetMemoryInfo"]
    texts = [f"GPU {gpu.index}: {nvml.explained([call, code])}" for call, code in calls.items()]
    for mig in gpu.mig:
        which = f"MIG device {gpu.index}:{mig.index}"
        texts += [f"{which}: {nvml.explained([call, code])}" for call, code in mig.refused.items()]
        if not mig.profile and not mig.refused:
            texts.append(f"{which}: its GPU has no such profile")
    return [Finding("LABELS_INCOMPLETE", text) for text in texts]
