"""Asks NVML what node labels state, and writes the answers as JSON: a program for a child process, like nvml_child.

    nvml_facts_child.py DIRECTORY LIBRARY

Each function that refuses is kept with its code, and none stops the others: what a label cannot be without is decided
where labels are made. Names of MIG profiles follow from their numbers in nvml.h, as NVIDIA's programs name them.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

if __name__ == "__main__":  # started without `site` and without a package: the modules of shim are not on the path
    sys.path.insert(0, str(Path(__file__).parents[3]))

from shim.discover.nvidia import nvml_child  # noqa: E402 - as the line above says
from shim.discover.nvidia.nvml_child import (  # noqa: E402 - as above
    INVALID,
    MARKS,
    NO_FUNCTION,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROFILES,
    Nvml,
    RefusedError,
    gigabytes,
    mark_of,
    text,
)

# Slices of profiles by their numbers in nvml.h: of GPU instances, of compute instances
_SLICES = {
    0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1, 8: 2, 9: 1, 10: 1, 11: 2, 12: 4, 13: 1, 14: 2, 15: 1, 16: 2,
}  # fmt: skip
_COMPUTE_SLICES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1}
_VERSION_1 = 1  # of a function's structure: that which every library has
_ATTRIBUTES = {
    "multiprocessors": "multiprocessorCount",
    "slices.gi": "gpuInstanceSliceCount",
    "slices.ci": "computeInstanceSliceCount",
    "engines.copy": "sharedCopyEngineCount",
    "engines.decoder": "sharedDecoderCount",
    "engines.encoder": "sharedEncoderCount",
    "engines.jpeg": "sharedJpegCount",
    "engines.ofa": "sharedOfaCount",
    "memory": "memorySizeMB",
}
_FABRIC = (
    ("DeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
    ("DeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
)


class Asked:
    """Asks functions of which none stops the others, and keeps the codes of those that refuse.

    Attributes:
        refused: name of a function without `nvml` -> its first code.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self.refused: dict[str, int] = {}

    def ask(self, call: str, *arguments: Any, default: Any = None) -> Any:
        """What a function answers, the default where it refuses."""
        try:
            return self._nvml.ask(call, *arguments)
        except RefusedError as error:
            self.refused.setdefault(call, error.code)
            return default

    def optional(self, call: str, *arguments: Any) -> Any:
        """The same, None where GPU and library do not have what is asked for, which is no refusal."""
        try:
            return self._nvml.ask(call, *arguments)
        except RefusedError as error:
            if error.code not in (INVALID, NOT_SUPPORTED):
                self.refused.setdefault(call, error.code)
            return None


def collect(module: Any) -> dict[str, Any]:
    """Every answer.

    Arguments:
        module: pynvml, or an object with its functions.
    Returns:
        driver_version, cuda_version (a number such as 12080), `refused`, and gpus, a list of objects, each with
        `facts`, or with `error`, a list of function and code, where it has no handle; or `error` alone where NVML as a
        whole refuses.
    """
    nvml = Nvml(module)
    system = Asked(nvml)
    try:
        nvml.ask("Init")
    except RefusedError as error:
        return {"error": error.answer}
    try:
        return {
            "driver_version": system.ask("SystemGetDriverVersion", default=""),
            "cuda_version": system.ask("SystemGetCudaDriverVersion", default=0),
            "refused": system.refused,
            "gpus": [_gpu(nvml, index) for index in range(nvml.ask("DeviceGetCount"))],
        }
    except RefusedError as error:
        return {"error": error.answer}
    finally:
        nvml.ask_extra(None, "Shutdown")


def _gpu(nvml: Nvml, index: int) -> dict[str, Any]:
    try:
        return {"index": index, "facts": _facts(nvml, nvml.ask("DeviceGetHandleByIndex", index))}
    except RefusedError as error:
        return {"index": index, "error": error.answer}


def _facts(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """What node labels state of a GPU; `refused` has the codes of what was not answered."""
    gpu = Asked(nvml)
    pci, memory = gpu.ask("DeviceGetPciInfo", handle), gpu.ask("DeviceGetMemoryInfo", handle)
    facts: dict[str, Any] = {
        "name": text(gpu.ask("DeviceGetName", handle, default="")),
        "pci": text(pci.busId) if pci is not None else "",
        "memory": memory.total if memory is not None else -1,
        "compute": gpu.ask("DeviceGetCudaComputeCapability", handle),
        "fabric": _fabric(nvml, gpu, handle),
        "mig_mode": gpu.ask("DeviceGetMigMode", handle),
        "mig": [],
        "refused": gpu.refused,
    }
    if facts["mig_mode"] and facts["mig_mode"][0] == 1:
        count = gpu.ask("DeviceGetMaxMigDeviceCount", handle, default=0)
        each = (_mig_facts(nvml, handle, index, max(facts["memory"], 0)) for index in range(count))
        facts["mig"] = [mig for mig in each if mig is not None]
    return facts


def _fabric(nvml: Nvml, gpu: Asked, handle: Any) -> list[Any] | None:
    """State, status, cluster in hexadecimal digits and clique of a GPU in the NVLink fabric; None without one."""
    for call, structure in _FABRIC:
        info = _structure(nvml, structure)
        if info is not None:
            gpu.ask(call, handle, ctypes.pointer(info))
            code = gpu.refused.get(call)
            if code is None:
                return [info.state, info.status, bytes(info.clusterUuid).hex(), info.cliqueId]
            if code != NO_FUNCTION:
                return None
    return None


def _structure(nvml: Nvml, name: str) -> Any:
    """A new structure of the module, None where it has none of this name."""
    of = getattr(nvml.module, name, None)
    return of() if of is not None else None


def _mig_facts(nvml: Nvml, parent: Any, index: int, total: int) -> dict[str, Any] | None:
    """The facts of a MIG device, None where the index is free."""
    mig = Asked(nvml)
    handle = mig.ask("DeviceGetMigDeviceHandleByIndex", parent, index)
    if mig.refused.get("DeviceGetMigDeviceHandleByIndex") in (INVALID, NOT_FOUND):
        return None
    facts: dict[str, Any] = {"index": index, "refused": mig.refused}
    if handle is None:
        return facts
    attributes = mig.ask("DeviceGetAttributes", handle)
    if attributes is None and mig.refused["DeviceGetAttributes"] == NO_FUNCTION:
        attributes = mig.ask("DeviceGetAttributes_v1", handle)
        if attributes is not None:
            del mig.refused["DeviceGetAttributes"]
    gi, ci = mig.ask("DeviceGetGpuInstanceId", handle), mig.ask("DeviceGetComputeInstanceId", handle)
    if attributes is None or gi is None or ci is None:
        return facts
    instance = mig.ask("DeviceGetGpuInstanceById", parent, gi)
    part = mig.ask("GpuInstanceGetComputeInstanceById", instance, ci) if instance is not None else None
    if part is None:
        return facts
    own, computes = mig.ask("GpuInstanceGetInfo", instance), mig.ask("ComputeInstanceGetInfo", part)
    if own is None or computes is None:
        return facts
    slices, mark = _gpu_slices(mig, parent, own.profileId)
    compute = _compute_slices(mig, instance, computes.profileId)
    if slices and compute:
        size = gigabytes(attributes.memorySizeMB, total)
        facts["profile"] = f"{f'{compute}c.' if compute != slices else ''}{slices}g.{size}gb{mark}"
    facts["attributes"] = {name: getattr(attributes, member) for name, member in _ATTRIBUTES.items()}
    return facts


def _gpu_slices(mig: Asked, parent: Any, profile_id: int) -> tuple[int, str]:
    """The slices of a profile of GPU instances, by its id, and its mark; 0 for one that the GPU does not have."""
    for profile in range(PROFILES):
        described = mig.optional("DeviceGetGpuInstanceProfileInfo", parent, profile, _VERSION_1)
        if described is not None and described.id == profile_id:
            if profile in _SLICES:
                return _SLICES[profile], MARKS.get(profile, "")
            named = mig.optional("DeviceGetGpuInstanceProfileInfo", parent, profile)
            return described.sliceCount, mark_of(text(getattr(named, "name", "")))
    return 0, ""


def _compute_slices(mig: Asked, instance: Any, profile_id: int) -> int:
    """The slices of a profile of compute instances, by its id; 0 for one that the GPU instance does not have."""
    for profile in range(PROFILES):
        described = mig.optional("GpuInstanceGetComputeInstanceProfileInfo", instance, profile, 0, _VERSION_1)
        if described is not None and described.id == profile_id:
            slices: int = _COMPUTE_SLICES.get(profile, described.sliceCount)
            return slices
    return 0


def _add_first_attributes(module: Any, library: ctypes.CDLL) -> None:
    """Give pynvml the first form of a function that the first drivers with MIG have alone, under the name ..._v1."""

    def first(handle: Any) -> Any:
        function = getattr(library, "nvmlDeviceGetAttributes", None)
        attributes = module.c_nvmlDeviceAttributes()
        code = function(handle, ctypes.byref(attributes)) if function is not None else NO_FUNCTION
        if code:
            raise module.NVMLError(code)
        return attributes

    module.nvmlDeviceGetAttributes_v1 = first


def _collected(module: Any, library: ctypes.CDLL) -> dict[str, Any]:
    _add_first_attributes(module, library)
    return collect(module)


if __name__ == "__main__":
    nvml_child.answer(sys.argv[1], sys.argv[2], _collected)
