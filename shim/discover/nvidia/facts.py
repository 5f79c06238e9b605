"""Facts: what node labels state about NVIDIA's driver and GPUs, from NVML, or on a Tegra system from libcuda.

The specs need names and nodes, and are written without what a driver does not answer. A label is a statement about the
node instead, so each fact that the library refuses stays with the code of its function, and the labels decide.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.discover.nvidia import nvml, pci, proc

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

_COMPLETED = 3  # NVML_GPU_FABRIC_STATE_COMPLETED
_OPTIONAL = frozenset({3, 13})  # the GPU, or the library, does not have the function
_UNUSED = frozenset({"NVIDIA DGX Display", "DGX Display"})  # drives the console of a DGX Station, and computes nothing


@dataclass(frozen=True)
class MigFacts:
    """A MIG device.

    Attributes:
        index: among those of its GPU.
        profile: its name, such as 1g.5gb+me; "" when it is not known.
        attributes: memory in MiB, multiprocessors, slices.gi, engines.copy and so on.
        refused: function of NVML -> code.
    """

    index: int
    profile: str = ""
    attributes: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuFacts:
    """A GPU.

    Attributes:
        index: as the driver counts.
        name: the model.
        pci_address: as sysfs writes it; "" when unknown.
        memory: bytes, -1 when unknown.
        compute: the compute capability, None when unknown.
        is_mig_capable: whether MIG mode can be switched on.
        is_mig_enabled: whether it is on.
        mig: its MIG devices.
        fabric: cluster and clique in the NVLink fabric, None without one.
        refused: function -> code.
    """

    index: int
    name: str
    pci_address: str = ""
    memory: int = -1
    compute: tuple[int, int] | None = None
    is_mig_capable: bool = False
    is_mig_enabled: bool = False
    mig: tuple[MigFacts, ...] = ()
    fabric: tuple[str, int] | None = None
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """A driver.

    Attributes:
        source: nvml, cuda or vfio.
        driver_version: "" when unknown.
        cuda_version: a number such as 12080.
        gpus: by index.
        refused: functions about the whole system -> code.
    """

    source: str
    driver_version: str = ""
    cuda_version: int = 0
    gpus: tuple[GpuFacts, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)


def take(host: Host, tree: Tree, wish: Wish) -> Facts | nvml.Failure:
    """What NVML answers.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        wish: where libraries are searched.
    Returns:
        the facts, or why there are none; a GPU that does not answer at all is a failure.
    """
    path = nvml.locate(tree, wish, proc.driver_version(host))
    answers = nvml.answered(host, tree, path, with_facts=True)
    return answers if isinstance(answers, nvml.Failure) else of(answers)


def of(answers: dict[str, Any]) -> Facts | nvml.Failure:
    """The facts that answers of nvml_facts_child are; a failure where a GPU does not answer at all."""
    gpus = []
    for gpu in answers["gpus"]:
        if "facts" not in gpu:
            text = f"GPU {gpu['index']}: {nvml.explained(gpu['error'])}"
            return nvml.Failure(text, gpu["error"][1], call=gpu["error"][0])
        gpus.append(_gpu(gpu["index"], gpu["facts"]))
    used = tuple(gpu for gpu in gpus if gpu.name not in _UNUSED)
    return Facts("nvml", answers["driver_version"], answers["cuda_version"], used, answers["refused"])


def _gpu(index: int, facts: dict[str, Any]) -> GpuFacts:
    mode = facts["mig_mode"]
    return GpuFacts(
        index,
        facts["name"],
        pci.normal(facts["pci"]),
        facts["memory"],
        tuple(facts["compute"]) if facts["compute"] else None,
        mode is not None,
        mode is not None and mode[0] == 1,
        tuple(_mig(mig) for mig in facts["mig"]),
        _fabric(facts["fabric"]),
        {call: code for call, code in facts["refused"].items() if code not in _OPTIONAL or not _is_optional(call)},
    )


def _is_optional(call: str) -> bool:
    """Whether a GPU may be without what a function answers."""
    return call in {"DeviceGetMigMode", "DeviceGetGpuFabricInfo", "DeviceGetGpuFabricInfoV"}


def _mig(facts: dict[str, Any]) -> MigFacts:
    return MigFacts(facts["index"], facts.get("profile", ""), facts.get("attributes", {}), facts["refused"])


def _fabric(answer: list[Any] | None) -> tuple[str, int] | None:
    """Cluster and clique of a GPU that has joined its fabric."""
    if answer is None:
        return None
    state, status, digits, clique = answer
    if state != _COMPLETED or status:
        return None
    return str(uuid.UUID(digits)), clique
