"""Asks NVML everything at once and writes the answers as JSON: a program for a child process, which may hang or crash.

    nvml_child.py DIRECTORY LIBRARY

DIRECTORY holds pynvml, LIBRARY is the full path of libnvidia-ml.so.1. The library is loaded by that path first; the
loader then gives it to pynvml, which knows a name only, by its soname. What a library prints goes nowhere.

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
    from collections.abc import Callable, Iterator
    from typing import Any

NOT_SUPPORTED, NO_FUNCTION = 3, 13  # what an older GPU or library does not have
INVALID, NOT_FOUND = 2, 6  # no MIG device has this index
_BAD_TEXT = -1  # ours: an answer that is no UTF-8
_MIB, _GIB = 1 << 20, 1 << 30
PROFILES = 64  # more than the header has by far
# Profiles of GPU instances that are more, or less, than their slices: number in nvml.h -> mark
MARKS = {
    7: "+me", 8: "+me", 10: "+gfx", 11: "+gfx", 12: "+gfx", 13: "-me", 14: "-me", 15: "+me.all", 16: "+me.all",
    17: "+gfx",
}  # fmt: skip
_MODES = {0: "none", 1: "hmm", 2: "ats"}
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class RefusedError(Exception):
    """A function of NVML did not answer: its name without `nvml`, and the code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(call, code)
        self.code = code
        self.answer = [call, code]


class Nvml:
    """The functions of a module like pynvml, by their names without `nvml`.

    Attributes:
        module: the module.
    """

    def __init__(self, module: Any) -> None:
        self.module = module

    def ask(self, call: str, *arguments: Any) -> Any:
        """What a function answers. Raises RefusedError."""
        function = getattr(self.module, f"nvml{call}", None)
        if function is None:
            raise RefusedError(call, NO_FUNCTION)
        try:
            return function(*arguments)
        except self.module.NVMLError as error:
            raise RefusedError(call, error.value) from None
        except UnicodeDecodeError:
            raise RefusedError(call, _BAD_TEXT) from None

    def ask_new(self, default: Any, call: str, *arguments: Any) -> Any:
        """The same, the default where GPU or library do not have the function. Raises RefusedError otherwise."""
        try:
            return self.ask(call, *arguments)
        except RefusedError as error:
            if error.answer[1] in (NOT_SUPPORTED, NO_FUNCTION):
                return default
            raise

    def ask_extra(self, default: Any, call: str, *arguments: Any) -> Any:
        """The same, the default whatever goes wrong: for what only informs."""
        try:
            return self.ask(call, *arguments)
        except RefusedError:
            return default


def collect(module: Any) -> dict[str, Any]:
    """Every answer.

    Arguments:
        module: pynvml, or an object with its functions.
    Returns:
        driver_version, cuda_version (a number such as 12080) and gpus, a list of objects, each with `error`, a list of
        function and code, where one is lost; or `error` alone where NVML as a whole refuses.
    """
    nvml = Nvml(module)
    try:
        nvml.ask("Init")
    except RefusedError as error:
        return {"error": error.answer}
    try:
        return {
            "driver_version": nvml.ask_extra("", "SystemGetDriverVersion"),
            "cuda_version": nvml.ask_extra(0, "SystemGetCudaDriverVersion"),
            "gpus": [_gpu(nvml, index) for index in range(nvml.ask("DeviceGetCount"))],
        }
    except RefusedError as error:
        return {"error": error.answer}
    finally:
        nvml.ask_extra(None, "Shutdown")


def _gpu(nvml: Nvml, index: int) -> dict[str, Any]:
    """The answers about a GPU; what was learned before an error is kept, so that a message can name the device."""
    answers: dict[str, Any] = {"index": index}
    try:
        handle = nvml.ask("DeviceGetHandleByIndex", index)
        answers["uuid"] = nvml.ask_extra("", "DeviceGetUUID", handle)
        pci = nvml.ask_new(None, "DeviceGetPciInfo", handle)
        answers["pci"] = text(pci.busId) if pci is not None else ""
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
        if error.answer[0] == "DeviceGetMigDeviceHandleByIndex" and error.answer[1] in (INVALID, NOT_FOUND):
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
    size = f".{gigabytes(attributes.memorySizeMB, total)}gb" if total and attributes.memorySizeMB else ""
    return f"{f'{compute}c.' if compute != slices else ''}{slices}g{size}"


def gigabytes(memory: int, total: int) -> int:
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
    for profile in range(PROFILES):
        described = nvml.ask_extra(None, "DeviceGetGpuInstanceProfileInfo", parent, profile)
        if described is None:  # a library whose profiles have no names
            described = nvml.ask_extra(None, "DeviceGetGpuInstanceProfileInfo", parent, profile, 1)
        if described is not None:
            # a newer library names profiles that are not in the table
            yield described.id, mark_of(text(getattr(described, "name", ""))) or MARKS.get(profile, "")


def mark_of(name: str) -> str:
    """The mark in the name of a profile, as a newer library has it; "" for none."""
    at = min((name.find(sign) for sign in "+-" if sign in name), default=-1)
    return name[at:] if at >= 0 else ""


def text(value: Any) -> str:
    """A text as pynvml has it: bytes in structures."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def answer(directory: str, library: str, collected: Callable[[Any, ctypes.CDLL], dict[str, Any]]) -> None:
    """Load the library, ask, and write the answers.

    Arguments:
        directory: that of pynvml.
        library: the full path of the library.
        collected: makes the answers, of pynvml and the library.
    """
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

        result = collected(pynvml, loaded)
    with answers:
        json.dump(result, answers)


if __name__ == "__main__":
    answer(sys.argv[1], sys.argv[2], lambda module, _: collect(module))
