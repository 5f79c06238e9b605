"""Labels about the devices of every other vendor, by the kind under which containers can ask for them.

    amd.com/gpu.count          how many, of those that a spec can give
    amd.com/gpu.product        the model of most of them; each of several models has amd.com/gpu.model.PRODUCT.* too
    amd.com/gpu.memory         of one device, in MiB
    amd.com/gpu.driver-version
    amd.com/gpu.replicas, amd.com/gpu.sharing-strategy

and below the names that the vendors' own programs use: of AMD product-name, device-id, vram, cu-count, simd-count, each
value of them with its count (amd.com/gpu.device-id.74a1=8) and alone where all GPUs have it; of Intel
gpu.intel.com/device-id.CLASS-ID.present and .count. What a driver does not show has no label.

Source: ROCm/k8s-device-plugin, node labeller; intel/intel-device-plugins-for-kubernetes, labels of the GPU plugin;
Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shim.discover import amd, intel, pci
from shim.host.tree import Tree
from shim.node.labels import values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.model import Device
    from shim.host.host import Host
    from shim.node.labels.sharing import Sharing

_MIB, _GIB = 1 << 20, 1 << 30
_BESIDE = frozenset({intel.MEI})  # kinds that stand beside a device of another kind


def labels(host: Host, devices: Iterable[Device], sharing: Sharing) -> dict[str, str]:
    """The labels of devices.

    Arguments:
        host: the machine.
        devices: of one discovery or several, but for NVIDIA's.
        sharing: how the device plugin shares them.
    """
    by_kind: dict[str, list[Device]] = {}
    for device in devices:
        for kind in dict.fromkeys(name.partition("=")[0] for name in device.cdi_names):
            if kind not in _BESIDE:
                by_kind.setdefault(kind, []).append(device)
    written: dict[str, str] = {}
    for kind, every in by_kind.items():
        written |= _of_kind(kind, every, sharing)
    written |= _amd(host, by_kind.get(amd.KIND, []))
    written |= _intel(host, by_kind.get(intel.GPU, []))
    return {name: values.value(value) for name, value in written.items()}


def _of_kind(kind: str, devices: list[Device], sharing: Sharing) -> dict[str, str]:
    prefix, _, klass = kind.partition("/")
    models = Counter(device.model for device in devices)
    model = max(models, key=lambda name: (bool(name), models[name]))  # the first of several
    strategy, replicas = sharing.of(kind)
    written = {
        f"{kind}.count": str(len(devices)),
        f"{kind}.replicas": str(replicas),
        f"{kind}.sharing-strategy": strategy,
        **_facts(kind, [device for device in devices if device.model == model]),
    }
    if model:
        written[f"{kind}.product"] = values.value(values.cleaned(model), sharing.mark(kind))
    versions = {device.driver_version for device in devices if device.driver_version}
    if len(versions) == 1:
        written[f"{kind}.driver-version"] = versions.pop()
    for name in models if len(models) > 1 else ():
        own = f"{prefix}/{values.model_name(klass, name or 'unknown')}"
        of_model = [device for device in devices if device.model == name]
        written |= {f"{own}.count": str(len(of_model)), **_facts(own, of_model)}
    return written


def _facts(name: str, devices: list[Device]) -> dict[str, str]:
    """The memory of devices of a model; of several sizes, as partitions have them, the least."""
    sizes = [device.memory for device in devices]
    return {f"{name}.memory": str(min(sizes) // _MIB)} if all(sizes) else {}


def _amd(host: Host, devices: list[Device]) -> dict[str, str]:
    """What AMD's own program labels: each value with its count, and alone where there is no other."""
    tree = Tree(host)
    parts = {str(partition.index): partition for partition in amd.partitions(tree)} if devices else {}
    counts: dict[str, Counter[str]] = {}
    for device in devices:
        facts = {
            "product-name": values.cleaned(device.model).replace("-", "_"),
            "vram": _rounded(device.memory) if device.memory else "",
        }
        partition = parts.get(device.name)
        if partition is not None:
            facts["device-id"] = f"{partition.gpu.device:04x}" if partition.gpu.device >= 0 else ""
            facts |= _compute(amd.properties(tree, partition.node.path))
        for name, value in facts.items():
            if value:
                counts.setdefault(name, Counter())[value] += 1
    written: dict[str, str] = {}
    for name, every in counts.items():
        if len(every) == 1:
            written[f"{amd.KIND}.{name}"] = next(iter(every))
        written |= {f"amd.com/{values.value(f'gpu.{name}.{value}')}": str(count) for value, count in every.items()}
    return written


def _compute(properties: dict[str, str]) -> dict[str, str]:
    """Compute units and architecture of a node of the topology."""
    simds, in_unit = (pci.number(properties.get(name, "")) for name in ("simd_count", "simd_per_cu"))
    target = pci.number(properties.get("gfx_target_version", ""))
    facts = {}
    if simds > 0:
        facts["simd-count"] = str(simds)
    if simds > 0 and in_unit > 0:
        facts["cu-count"] = str(simds // in_unit)
    if target > 0:  # 90402 is gfx942: stepping and minor version are hexadecimal digits
        facts["architecture"] = f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"
    return facts


def _intel(host: Host, devices: list[Device]) -> dict[str, str]:
    """What Intel's rules for node feature discovery label: each PCI class and id, with a count."""
    tree = Tree(host)
    gpus = (pci.PciDevice(tree, device.pci_address) for device in devices if device.pci_address)
    counts = Counter(f"gpu.intel.com/device-id.{gpu.klass:04x}-{gpu.device:04x}" for gpu in gpus)
    written: dict[str, str] = {}
    for name, count in counts.items():
        written |= {f"{name}.present": "true", f"{name}.count": str(count)}
    return written


def _rounded(memory: int) -> str:
    """Bytes as whole GiB with a G, below one as MiB with an M."""
    return f"{round(memory / _GIB)}G" if memory >= _GIB else f"{memory // _MIB}M"
