"""Asks NVML everything at once and writes the answers as JSON: a program for a child process, which may hang or crash.

    nvml_child.py DIRECTORY LIBRARY [facts]

DIRECTORY holds pynvml, LIBRARY is the full path of libnvidia-ml.so.1. The library is loaded by that path first; the
loader then gives it to pynvml, which knows a name only, by its soname. What a library prints goes nowhere. With `facts`
each GPU has what node labels state of it, too.

Nothing of ours is imported: the interpreter starts without `site`, in a few milliseconds. `collect` takes any object
with the functions of pynvml, so a test gives it answers of its own.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_NOT_SUPPORTED, _NO_FUNCTION = 3, 13  # what an older GPU or library does not have
_INVALID, _NOT_FOUND = 2, 6  # no MIG device has this index
_BAD_TEXT = -1  # ours: an answer that is no UTF-8
_MIB, _GIB = 1 << 20, 1 << 30
_PROFILES = 64  # more than the header has by far
# Profiles of GPU instances that are more, or less, than their slices: number in nvml.h -> mark
_MARKS = {
    7: "+me", 8: "+me", 10: "+gfx", 11: "+gfx", 12: "+gfx", 13: "-me", 14: "-me", 15: "+me.all", 16: "+me.all",
    17: "+gfx",
}  # fmt: skip
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
_MODES = {0: "none", 1: "hmm", 2: "ats"}
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class RefusedError(Exception):
    """A function of NVML did not answer: its name without `nvml`, and the code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(call, code)
        self.code = code
        self.answer = [call, code]


class Nvml:
    """The functions of a module like pynvml, by their names without `nvml`."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def ask(self, call: str, *arguments: Any) -> Any:
        """What a function answers. Raises RefusedError."""
        function = getattr(self._module, f"nvml{call}", None)
        if function is None:
            raise RefusedError(call, _NO_FUNCTION)
        try:
            return function(*arguments)
        except self._module.NVMLError as error:
            raise RefusedError(call, error.value) from None
        except UnicodeDecodeError:
            raise RefusedError(call, _BAD_TEXT) from None

    def ask_new(self, default: Any, call: str, *arguments: Any) -> Any:
        """The same, the default where GPU or library do not have the function. Raises RefusedError otherwise."""
        try:
            return self.ask(call, *arguments)
        except RefusedError as error:
            if error.answer[1] in (_NOT_SUPPORTED, _NO_FUNCTION):
                return default
            raise

    def structure(self, name: str) -> Any:
        """A new structure of the module, None where it has none of this name."""
        of = getattr(self._module, name, None)
        return of() if of is not None else None

    def ask_extra(self, default: Any, call: str, *arguments: Any) -> Any:
        """The same, the default whatever goes wrong: for what only informs."""
        try:
            return self.ask(call, *arguments)
        except RefusedError:
            return default


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
            if error.code not in (_INVALID, _NOT_SUPPORTED):
                self.refused.setdefault(call, error.code)
            return None


def collect(module: Any, *, with_facts: bool = False) -> dict[str, Any]:
    """Every answer.

    Arguments:
        module: pynvml, or an object with its functions.
        with_facts: whether each GPU has `facts`, too.
    Returns:
        driver_version, cuda_version (a number such as 12080) and gpus, a list of objects, each with `error`, a list of
        function and code, where one is lost; or `error` alone where NVML as a whole refuses. `refused` has the codes of
        functions about the whole system.
    """
    nvml = Nvml(module)
    try:
        nvml.ask("Init")
    except RefusedError as error:
        return {"error": error.answer}
    system = Asked(nvml)
    try:
        return {
            "driver_version": system.ask("SystemGetDriverVersion", default=""),
            "cuda_version": system.ask("SystemGetCudaDriverVersion", default=0),
            "refused": system.refused,
            "gpus": [_gpu(nvml, index, with_facts=with_facts) for index in range(nvml.ask("DeviceGetCount"))],
        }
    except RefusedError as error:
        return {"error": error.answer}
    finally:
        nvml.ask_extra(None, "Shutdown")


def _gpu(nvml: Nvml, index: int, *, with_facts: bool = False) -> dict[str, Any]:
    """The answers about a GPU; what was learned before an error is kept, so that a message can name the device."""
    answers: dict[str, Any] = {"index": index}
    try:
        handle = nvml.ask("DeviceGetHandleByIndex", index)
        if with_facts:
            answers["facts"] = _facts(nvml, handle)
        answers["uuid"] = nvml.ask_extra("", "DeviceGetUUID", handle)
        pci = nvml.ask_new(None, "DeviceGetPciInfo", handle)
        answers["pci"] = _text(pci.busId) if pci is not None else ""
        answers["name"] = nvml.ask("DeviceGetName", handle)
        answers["minor"] = nvml.ask_new(-1, "DeviceGetMinorNumber", handle)
        memory = nvml.ask_extra(None, "DeviceGetMemoryInfo", handle)
        answers["memory"] = memory.total if memory is not None else 0
        answers["mig_enabled"] = bool(nvml.ask_new((0, 0), "DeviceGetMigMode", handle)[0])
        answers["addressing_mode"] = _addressing_mode(nvml, handle)
        if answers["mig_enabled"]:
            count = nvml.ask_new(0, "DeviceGetMaxMigDeviceCount", handle)
            marks: dict[int, str] = {}
            each = (_mig(nvml, handle, number, answers, marks) for number in range(count))
            answers["mig"] = [mig for mig in each if mig is not None]
        if not answers["uuid"]:
            nvml.ask("DeviceGetUUID", handle)  # for its error
    except RefusedError as error:
        answers["error"] = error.answer
    return answers


def _addressing_mode(nvml: Nvml, handle: Any) -> str:
    try:
        return _MODES.get(nvml.ask_new(0, "DeviceGetAddressingMode", handle), "")
    except RefusedError:
        return ""


def _mig(nvml: Nvml, parent: Any, index: int, gpu: dict[str, Any], marks: dict[int, str]) -> dict[str, Any] | None:
    """The answers about a MIG device, None where the index is free; `marks` is filled by the first that needs it."""
    answers: dict[str, Any] = {"index": index}
    try:
        handle = nvml.ask("DeviceGetMigDeviceHandleByIndex", parent, index)
        answers["uuid"] = nvml.ask("DeviceGetUUID", handle)
        answers["gi"] = nvml.ask("DeviceGetGpuInstanceId", handle)
        answers["ci"] = nvml.ask("DeviceGetComputeInstanceId", handle)
    except RefusedError as error:
        if error.answer[0] == "DeviceGetMigDeviceHandleByIndex" and error.answer[1] in (_INVALID, _NOT_FOUND):
            return None
        return {**answers, "error": error.answer}
    attributes = nvml.ask_extra(None, "DeviceGetAttributes", handle)
    if attributes is not None:
        answers["memory"] = attributes.memorySizeMB * _MIB
        answers["profile"] = _profile(attributes, gpu["memory"]) + _mark(nvml, parent, answers["gi"], marks)
    return answers


def _profile(attributes: Any, total: int) -> str:
    """The name of a profile without its mark, such as 1g.10gb or 1c.2g.20gb.

    Its memory is that of the instance in eighths of the GPU's, rounded up, as NVIDIA's tools name it.
    """
    slices, compute = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
    size = f".{_gigabytes(attributes.memorySizeMB, total)}gb" if total and attributes.memorySizeMB else ""
    return f"{f'{compute}c.' if compute != slices else ''}{slices}g{size}"


def _gigabytes(memory: int, total: int) -> int:
    """The memory in the name of a profile: of the instance in MiB, as a share of the GPU's bytes; halves go up."""
    part = math.ceil(memory * _MIB / total * 8) / 8 if total else 0
    return math.floor(part * ((total + _GIB - 1) // _GIB) + 0.5)


def _mark(nvml: Nvml, parent: Any, gi: int, marks: dict[int, str]) -> str:
    """What a GPU instance has beside its slices: +gfx for graphics, +me or -me for media engines; "" for neither."""
    instance = nvml.ask_extra(None, "DeviceGetGpuInstanceById", parent, gi)
    info = nvml.ask_extra(None, "GpuInstanceGetInfo", instance) if instance is not None else None
    if info is None:
        return ""
    if not marks:
        marks.update(_marks(nvml, parent))
    return marks.get(info.profileId, "")


def _marks(nvml: Nvml, parent: Any) -> Iterator[tuple[int, str]]:
    """The id of each profile that a GPU has, and its mark."""
    for profile in range(_PROFILES):
        described = nvml.ask_extra(None, "DeviceGetGpuInstanceProfileInfo", parent, profile)
        if described is None:  # a library whose profiles have no names
            described = nvml.ask_extra(None, "DeviceGetGpuInstanceProfileInfo", parent, profile, 1)
        if described is not None:
            # a newer library names profiles that are not in the table
            name = _text(getattr(described, "name", ""))
            at = min((name.find(sign) for sign in "+-" if sign in name), default=-1)
            yield described.id, name[at:] if at >= 0 else _MARKS.get(profile, "")


def _facts(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """What node labels state of a GPU; `refused` has the codes of what was not answered."""
    gpu = Asked(nvml)
    pci, memory = gpu.ask("DeviceGetPciInfo", handle), gpu.ask("DeviceGetMemoryInfo", handle)
    facts: dict[str, Any] = {
        "name": _text(gpu.ask("DeviceGetName", handle, default="")),
        "pci": _text(pci.busId) if pci is not None else "",
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
        info = nvml.structure(structure)
        if info is not None:
            gpu.ask(call, handle, ctypes.pointer(info))
            code = gpu.refused.get(call)
            if code is None:
                return [info.state, info.status, bytes(info.clusterUuid).hex(), info.cliqueId]
            if code != _NO_FUNCTION:
                return None
    return None


def _mig_facts(nvml: Nvml, parent: Any, index: int, total: int) -> dict[str, Any] | None:
    """The facts of a MIG device, None where the index is free."""
    mig = Asked(nvml)
    handle = mig.ask("DeviceGetMigDeviceHandleByIndex", parent, index)
    if mig.refused.get("DeviceGetMigDeviceHandleByIndex") in (_INVALID, _NOT_FOUND):
        return None
    facts: dict[str, Any] = {"index": index, "refused": mig.refused}
    if handle is None:
        return facts
    attributes = mig.ask("DeviceGetAttributes", handle)
    if attributes is None and mig.refused["DeviceGetAttributes"] == _NO_FUNCTION:
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
        size = _gigabytes(attributes.memorySizeMB, total)
        facts["profile"] = f"{f'{compute}c.' if compute != slices else ''}{slices}g.{size}gb{mark}"
    facts["attributes"] = {name: getattr(attributes, member) for name, member in _ATTRIBUTES.items()}
    return facts


def _gpu_slices(mig: Asked, parent: Any, profile_id: int) -> tuple[int, str]:
    """The slices of a profile of GPU instances, by its id, and its mark; 0 for one that the GPU does not have."""
    for profile in range(_PROFILES):
        described = mig.optional("DeviceGetGpuInstanceProfileInfo", parent, profile, _VERSION_1)
        if described is not None and described.id == profile_id:
            return _SLICES.get(profile, described.sliceCount), _MARKS.get(profile, "")
    return 0, ""


def _compute_slices(mig: Asked, instance: Any, profile_id: int) -> int:
    """The slices of a profile of compute instances, by its id; 0 for one that the GPU instance does not have."""
    for profile in range(_PROFILES):
        described = mig.optional("GpuInstanceGetComputeInstanceProfileInfo", instance, profile, 0, _VERSION_1)
        if described is not None and described.id == profile_id:
            slices: int = _COMPUTE_SLICES.get(profile, described.sliceCount)
            return slices
    return 0


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _add_first_attributes(module: Any, library: ctypes.CDLL) -> None:
    """Give pynvml the first form of a function that the first drivers with MIG have alone, under the name ..._v1."""

    def first(handle: Any) -> Any:
        function = getattr(library, "nvmlDeviceGetAttributes", None)
        attributes = module.c_nvmlDeviceAttributes()
        code = function(handle, ctypes.byref(attributes)) if function is not None else _NO_FUNCTION
        if code:
            raise module.NVMLError(code)
        return attributes

    module.nvmlDeviceGetAttributes_v1 = first


def main(directory: str, library: str, *words: str) -> None:
    """Load the library, ask, and write the answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    try:
        loaded = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        # pynvml must not get another library from the machine's own directories
        ctypes.CDLL("libnvidia-ml.so.1", mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    except OSError as error:
        result = {"unloadable": str(error)}
    else:
        sys.path.insert(0, directory)
        import pynvml

        _add_first_attributes(pynvml, loaded)
        result = collect(pynvml, with_facts="facts" in words)
    with answers:
        json.dump(result, answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
