"""Labels about NVIDIA's GPUs, below nvidia.com/ with the names that GPU feature discovery uses.

    facts of the driver ──> models ──> gpu.*, of the model that stands for the node
                              │
                              └── strategy ──> MIG devices in place of GPUs (single), or beside them (mixed)

Several models on one node have one set of gpu.* labels: of GPUs that are not in MIG mode the model with most devices,
the first of several. Each model then has labels of its own, too: gpu.model.PRODUCT.count and .memory.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover import pci
from shim.discover.model import Wish
from shim.discover.nvidia import cuda, facts, nvml, options, tegra, vfio
from shim.host.tree import Tree
from shim.node.labels import mig, values
from shim.node.labels.machine import UNKNOWN, machine, vgpu
from shim.node.labels.model import Labels
from shim.node.labels.sharing import MPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.discover.nvidia.facts import Facts, GpuFacts
    from shim.host.host import Host
    from shim.node.labels.model import Request

PREFIX = "nvidia.com/"
_MIB = 1 << 20
_DRIVER_PARTS = (2, 3)
_MODES = {0x0300: "graphics", 0x0302: "compute"}
_NEEDED = ("class", "device", "numa_node", "resource")  # files of a PCI device, without which its class is not stated
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
# Functions without whose answer a GPU cannot be described
_REQUIRED = {
    "DeviceGetName",
    "DeviceGetMigMode",
    "DeviceGetCudaComputeCapability",
    "DeviceGetGpuFabricInfo",
    "DeviceGetGpuFabricInfoV",
}
_FAMILIES = {
    1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 9: "hopper", 10: "blackwell", 12: "blackwell",
    13: "rubin",
}  # fmt: skip
_TURING, _ADA = 5, 9  # minor numbers from which 7.x and 8.x are another family


def labels(host: Host, request: Request, now: float | None = None) -> Labels:
    """The labels of a node.

    Arguments:
        host: the machine.
        request: what is asked for.
        now: seconds since 1970; the clock's when not given.
    """
    driver = _driver(host, request)
    about_vgpu, findings = vgpu(host)
    written = dict(about_vgpu)
    if request.has_timestamp:
        written["gfd.timestamp"] = str(int(time.time() if now is None else now))
    if isinstance(driver, nvml.Failure):
        is_left = request.may_lack_driver and driver.call in {"", "Init", "cuInit"}
        is_fault = not is_left and not (driver.is_absent and "nvidia" not in request.vendors)
        finding = Finding("LABELS_INCOMPLETE", driver.text)
        findings.append(finding if is_fault else finding.as_warning())
    elif driver.gpus:
        about_gpus, more = _labels(host, request, driver)
        written |= about_gpus
        findings += more
    return Labels(_valid(written), tuple(findings))


def family(compute: tuple[int, int]) -> str:
    """The name of an architecture by its compute capability."""
    major, minor = compute
    if major == 7:
        return "turing" if minor >= _TURING else "volta"
    if major == 8:
        return "ada-lovelace" if minor >= _ADA else "ampere"
    return _FAMILIES.get(major, "undefined")


def _driver(host: Host, request: Request) -> Facts | nvml.Failure:
    """The facts by the source that is asked for, or that fits the host."""
    wish = Wish("", driver_root=request.driver_root)
    tree = options.driver_tree(host, wish)
    if request.source == "vfio":
        return vfio.take(host)
    if request.source == "tegra":
        return cuda.take(host, tree, wish)
    answer = facts.take(host, tree, wish)
    if request.source == "nvml" or not options.is_tegra(host):
        return answer
    if isinstance(answer, nvml.Failure):
        return cuda.take(host, tree, wish) if answer.is_absent else answer
    is_integrated = bool(answer.gpus) and all(map(tegra.is_integrated, (gpu.name for gpu in answer.gpus)))
    return cuda.take(host, tree, wish) if is_integrated else answer


def _labels(host: Host, request: Request, driver: Facts) -> tuple[dict[str, str], list[Finding]]:
    findings = _refusals(driver)
    has_mig = any(gpu.is_mig_enabled for gpu in driver.gpus)
    if request.sharing.strategy == MPS and has_mig:
        text = "MPS is configured, and a GPU is in MIG mode: MIG devices cannot be shared by MPS"
        findings.append(Finding("LABELS_INCOMPLETE", text, "share them by time slicing, or switch MIG mode off"))
    if findings:
        return {}, findings
    written = {
        "gpu.machine": machine(host, request.machine_file),
        **_driver_version(driver, findings),
        **_cuda_version(driver),
        "mig.capable": _word(is_true=any(gpu.is_mig_capable for gpu in driver.gpus)),
        "mps.capable": _word(is_true=request.sharing.strategy == MPS),
        **_models(request, driver.gpus, findings),
        "gpu.mode": _mode(host, driver),
        **_clique(driver.gpus, findings),
    }
    if request.mig_strategy != "none":
        about_mig, more = mig.labels(request, driver.gpus)
        written |= {"mig.strategy": request.mig_strategy, **about_mig}
        findings += more
    return written, findings


def _refusals(driver: Facts) -> list[Finding]:
    """What the driver did not answer, and labels cannot be without."""
    refused = [("", call, code) for call, code in driver.refused.items()]
    for gpu in driver.gpus:
        refused += [(f"GPU {gpu.index}: ", call, code) for call, code in gpu.refused.items() if call in _REQUIRED]
    return [Finding("LABELS_INCOMPLETE", f"{which}{nvml.explained([call, code])}") for which, call, code in refused]


def _driver_version(driver: Facts, findings: list[Finding]) -> dict[str, str]:
    """The labels of the driver's version, under the names of today and those before."""
    version = driver.driver_version if driver.source == "nvml" else ".".join([UNKNOWN] * 3)
    parts = version.split(".")
    if len(parts) not in _DRIVER_PARTS:
        text = f"the driver has the version {version!r}, which is not X.Y or X.Y.Z: the node gets no label of it"
        findings.append(Finding("LABELS_PART", text))
        return {}
    major, minor, revision = (*parts, "")[:3]
    return {
        "cuda.driver-version.full": version,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
    }


def _cuda_version(driver: Facts) -> dict[str, str]:
    """The labels of the newest CUDA that the driver supports: 12080 is 12.8."""
    number = driver.cuda_version
    major = str(number // 1000)
    minor = str((number % 100 if driver.source == "cuda" else number % 1000) // 10)
    return {
        "cuda.runtime-version.full": f"{major}.{minor}",
        "cuda.runtime-version.major": major,
        "cuda.runtime-version.minor": minor,
        "cuda.runtime.major": major,
        "cuda.runtime.minor": minor,
    }


def _models(request: Request, gpus: tuple[GpuFacts, ...], findings: list[Finding]) -> dict[str, str]:
    """The labels gpu.* of the model that stands for the node, and labels of each model where there are several."""
    counts = Counter(gpu.name for gpu in gpus)
    whole = Counter(gpu.name for gpu in gpus if not gpu.is_mig_enabled)
    name = max(whole or counts, key=lambda name: counts[name])  # the first of several
    of_model = [gpu for gpu in gpus if gpu.name == name]
    gpu = next((gpu for gpu in reversed(of_model) if not gpu.is_mig_enabled), of_model[-1])
    strategy, replicas = request.sharing.of(mig.RESOURCE) if whole else ("none", 0)
    mark = request.sharing.mark(mig.RESOURCE) if whole else ""
    written = {
        "gpu.product": values.value(values.cleaned(name), mark),
        "gpu.count": str(counts[name]),
        "gpu.replicas": str(replicas),
        "gpu.sharing-strategy": strategy,
        **_memory(gpu, "gpu", findings),
    }
    if gpu.compute is not None and gpu.compute[0] != 0:
        written["gpu.family"] = family(gpu.compute)
        written["gpu.compute.major"], written["gpu.compute.minor"] = map(str, gpu.compute)
    if len(counts) > 1:
        written |= _each_model(gpus, counts, findings)
    return written


def _each_model(gpus: tuple[GpuFacts, ...], counts: Mapping[str, int], findings: list[Finding]) -> dict[str, str]:
    """The labels gpu.model.PRODUCT.* of each model."""
    written: dict[str, str] = {}
    for name, count in counts.items():
        own = values.model_name("gpu", name)
        written[f"{own}.count"] = str(count)
        written |= _memory(next(gpu for gpu in gpus if gpu.name == name), own, [])
    models = ", ".join(f"{count} {name}" for name, count in counts.items())
    text = f"the node has several models ({models}): gpu.* describe one of them, gpu.model.PRODUCT.* each"
    findings.append(Finding("LABELS_PART", text, "select by gpu.model.PRODUCT.count where the model matters"))
    return written


def _memory(gpu: GpuFacts, name: str, findings: list[Finding]) -> dict[str, str]:
    if gpu.memory < 0 and gpu.refused:
        findings.append(Finding("LABELS_PART", f"GPU {gpu.index} does not answer how much memory it has"))
    return {f"{name}.memory": str(gpu.memory // _MIB)} if gpu.memory > 0 else {}


def _mode(host: Host, driver: Facts) -> str:
    """Whether the GPUs drive displays, by their PCI class; unknown where that differs or cannot be read."""
    tree = Tree(host)
    modes = set()
    for gpu in driver.gpus:
        device = pci.PciDevice(tree, gpu.pci_address) if gpu.pci_address else None
        is_whole = device is not None and all(device.text(name) for name in _NEEDED)
        is_ours = device is not None and device.vendor == pci.NVIDIA
        modes.add(_MODES.get(device.klass, UNKNOWN) if device and is_whole and is_ours else UNKNOWN)
    return modes.pop() if len(modes) == 1 else UNKNOWN


def _clique(gpus: tuple[GpuFacts, ...], findings: list[Finding]) -> dict[str, str]:
    """Cluster and clique of the NVLink fabric, where all GPUs that have joined one have the same."""
    every = {gpu.fabric for gpu in gpus if gpu.fabric is not None}
    if len(every) > 1:
        text = "the GPUs have joined several cliques of the NVLink fabric: the node gets no label of it"
        findings.append(Finding("LABELS_PART", text))
    if len(every) != 1:
        return {}
    cluster, clique = every.pop()
    return {"gpu.clique": f"{cluster}.{clique}"} if cluster != _NO_CLUSTER else {}


def _word(*, is_true: bool) -> str:
    return "true" if is_true else "false"


def _valid(written: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": values.value(value) for name, value in written.items()}
