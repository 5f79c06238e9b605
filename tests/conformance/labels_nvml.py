"""Objects with the functions of pynvml and libcuda that answer as a labels vector's `nvml` and `cuda` say.

Functions are named as the symbols of the library are: a symbol under `missing` is not there, a symbol under `errors`
refuses, for every device or for a single one (`function@GPU`, `function@GPU.MIG`).
"""

from __future__ import annotations

import re
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

from .fakenvml import NVMLError

if TYPE_CHECKING:
    from collections.abc import Callable

_MISSING, _NOT_SUPPORTED, _INVALID, _NOT_FOUND = 13, 3, 2, 6
_ID = 100  # what a profile's id is above its number, which are two different things
_GI_PROFILES, _CI_PROFILES = range(18), range(8)
_VERSION = re.compile(r"_v\d+$")


class LabelsNvml:
    """The library.

    Arguments:
        given: `nvml` of a case.
    """

    NVMLError = NVMLError
    c_nvmlGpuFabricInfo_t = pynvml.c_nvmlGpuFabricInfo_t  # noqa: N815 - as in pynvml
    c_nvmlGpuFabricInfo_v2_t = pynvml.c_nvmlGpuFabricInfo_v2_t  # noqa: N815 - as in pynvml

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    def _call(self, symbol: str, handle: dict[str, Any] | None = None) -> None:
        """Refuse, where the case has it so."""
        if symbol in self._given.get("missing", ()):
            raise NVMLError(_MISSING)
        where = [""]
        if handle is not None:
            gpu, _, _mig = handle["at"].partition(".")
            where += [f"@{gpu}", f"@{handle['at']}"]
        errors = self._given.get("errors", {})
        for name in (symbol, _VERSION.sub("", symbol)):
            for suffix in where:
                if errors.get(name + suffix):
                    raise NVMLError(errors[name + suffix])

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A function of pynvml: its method of _METHODS."""
        if name not in _METHODS:
            raise AttributeError(name)
        function: Callable[..., Any] = getattr(self, _METHODS[name])
        return function

    def init(self) -> None:
        self._call("nvmlInit_v2")

    def shutdown(self) -> None:
        self._call("nvmlShutdown")

    def driver_version(self) -> str:
        self._call("nvmlSystemGetDriverVersion")
        return str(self._given["driver_version"])

    def cuda_version(self) -> int:
        self._call("nvmlSystemGetCudaDriverVersion")
        return int(self._given["cuda_version"])

    def count(self) -> int:
        self._call("nvmlDeviceGetCount_v2")
        return len(self._given["gpus"])

    def handle(self, index: int) -> dict[str, Any]:
        gpu = {**self._given["gpus"][index], "at": str(index)}
        self._call("nvmlDeviceGetHandleByIndex_v2", gpu)
        return gpu

    def uuid(self, handle: dict[str, Any]) -> str:
        self._call("nvmlDeviceGetUUID", handle)
        return f"GPU-{handle['at']}"

    def minor(self, gpu: dict[str, Any]) -> int:
        self._call("nvmlDeviceGetMinorNumber", gpu)
        return int(gpu["at"])

    def name(self, gpu: dict[str, Any]) -> str:
        self._call("nvmlDeviceGetName", gpu)
        return str(gpu["name"])

    def pci(self, gpu: dict[str, Any]) -> SimpleNamespace:
        self._call("nvmlDeviceGetPciInfo_v3", gpu)
        return SimpleNamespace(busId=gpu["pci"].encode())

    def memory(self, gpu: dict[str, Any]) -> SimpleNamespace:
        self._call("nvmlDeviceGetMemoryInfo", gpu)
        return SimpleNamespace(total=gpu["memory"])

    def compute(self, gpu: dict[str, Any]) -> tuple[int, int]:
        self._call("nvmlDeviceGetCudaComputeCapability", gpu)
        return tuple(gpu["cc"])

    def mig_mode(self, gpu: dict[str, Any]) -> list[int]:
        self._call("nvmlDeviceGetMigMode", gpu)
        if "mig" not in gpu:
            raise NVMLError(_NOT_SUPPORTED)
        return [gpu["mig"]["current"], gpu["mig"]["pending"]]

    def mig_count(self, gpu: dict[str, Any]) -> int:
        self._call("nvmlDeviceGetMaxMigDeviceCount", gpu)
        return int(gpu.get("mig", {}).get("max", 0))

    def mig_handle(self, gpu: dict[str, Any], index: int) -> dict[str, Any]:
        at = f"{gpu['at']}.{index}"
        if index >= gpu["mig"]["max"]:
            raise NVMLError(_INVALID)
        self._call("nvmlDeviceGetMigDeviceHandleByIndex", {"at": at})
        mig = next((mig for mig in gpu["mig"]["devices"] if mig["index"] == index), None)
        if mig is None:
            raise NVMLError(_NOT_FOUND)
        return {**mig, "at": at}

    def instance_id(self, mig: dict[str, Any]) -> int:
        self._call("nvmlDeviceGetGpuInstanceId", mig)
        return int(mig["gi"])

    def compute_id(self, mig: dict[str, Any]) -> int:
        self._call("nvmlDeviceGetComputeInstanceId", mig)
        return int(mig["ci"])

    def attributes(self, mig: dict[str, Any]) -> SimpleNamespace:
        self._call("nvmlDeviceGetAttributes_v2", mig)
        return self._attributes(mig)

    def first_attributes(self, mig: dict[str, Any]) -> SimpleNamespace:
        self._call("nvmlDeviceGetAttributes", mig)
        return self._attributes(mig)

    def _attributes(self, mig: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(
            multiprocessorCount=mig["multiprocessors"],
            sharedCopyEngineCount=mig["copy"],
            sharedDecoderCount=mig["decoder"],
            sharedEncoderCount=mig["encoder"],
            sharedJpegCount=mig["jpeg"],
            sharedOfaCount=mig["ofa"],
            gpuInstanceSliceCount=mig["gi_slices"],
            computeInstanceSliceCount=mig["ci_slices"],
            memorySizeMB=mig["memory_mb"],
        )

    def instance(self, gpu: dict[str, Any], number: int) -> dict[str, Any]:
        self._call("nvmlDeviceGetGpuInstanceById", gpu)
        of = [mig for mig in gpu["mig"]["devices"] if mig["gi"] == number]
        if not of:
            raise NVMLError(_NOT_FOUND)
        return {"at": gpu["at"], "of": of}

    def instance_info(self, instance: dict[str, Any]) -> SimpleNamespace:
        self._call("nvmlGpuInstanceGetInfo", instance)
        return SimpleNamespace(profileId=_ID + instance["of"][0]["gi_profile"])

    def part(self, instance: dict[str, Any], number: int) -> dict[str, Any]:
        self._call("nvmlGpuInstanceGetComputeInstanceById", instance)
        for mig in instance["of"]:
            if mig["ci"] == number:
                return {"at": instance["at"], "profile": mig["ci_profile"]}
        raise NVMLError(_NOT_FOUND)

    def part_info(self, part: dict[str, Any]) -> SimpleNamespace:
        self._call("nvmlComputeInstanceGetInfo_v2", part)
        return SimpleNamespace(profileId=_ID + part["profile"])

    def profile(self, gpu: dict[str, Any], number: int, version: int = 2) -> SimpleNamespace:
        self._call("nvmlDeviceGetGpuInstanceProfileInfo" + "V" * (version == 2), gpu)
        if number not in _GI_PROFILES:
            raise NVMLError(_INVALID)
        return SimpleNamespace(id=_ID + number, sliceCount=1)

    def part_profile(self, instance: dict[str, Any], number: int, engine: int, version: int = 2) -> SimpleNamespace:
        self._call("nvmlGpuInstanceGetComputeInstanceProfileInfo" + "V" * (version == 2), instance)
        if number not in _CI_PROFILES or engine:
            raise NVMLError(_INVALID)
        return SimpleNamespace(id=_ID + number, sliceCount=1)

    def fabric(self, gpu: dict[str, Any], pointer: Any) -> None:
        self._call("nvmlDeviceGetGpuFabricInfo", gpu)
        self._fill(gpu, pointer)

    def newer_fabric(self, gpu: dict[str, Any], pointer: Any) -> None:
        self._call("nvmlDeviceGetGpuFabricInfoV", gpu)
        self._fill(gpu, pointer)

    def _fill(self, gpu: dict[str, Any], pointer: Any) -> None:
        if "fabric" not in gpu:
            raise NVMLError(_NOT_SUPPORTED)
        info, given = pointer.contents, gpu["fabric"]
        info.clusterUuid[:] = list(uuid.UUID(given["cluster"]).bytes)
        info.cliqueId, info.state, info.status = given["clique"], given["state"], given["status"]


_METHODS = {
    "nvmlInit": "init",
    "nvmlShutdown": "shutdown",
    "nvmlSystemGetDriverVersion": "driver_version",
    "nvmlSystemGetCudaDriverVersion": "cuda_version",
    "nvmlDeviceGetCount": "count",
    "nvmlDeviceGetHandleByIndex": "handle",
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetMinorNumber": "minor",
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetPciInfo": "pci",
    "nvmlDeviceGetMemoryInfo": "memory",
    "nvmlDeviceGetCudaComputeCapability": "compute",
    "nvmlDeviceGetMigMode": "mig_mode",
    "nvmlDeviceGetMaxMigDeviceCount": "mig_count",
    "nvmlDeviceGetMigDeviceHandleByIndex": "mig_handle",
    "nvmlDeviceGetGpuInstanceId": "instance_id",
    "nvmlDeviceGetComputeInstanceId": "compute_id",
    "nvmlDeviceGetAttributes": "attributes",
    "nvmlDeviceGetAttributes_v1": "first_attributes",
    "nvmlDeviceGetGpuInstanceById": "instance",
    "nvmlGpuInstanceGetInfo": "instance_info",
    "nvmlGpuInstanceGetComputeInstanceById": "part",
    "nvmlComputeInstanceGetInfo": "part_info",
    "nvmlDeviceGetGpuInstanceProfileInfo": "profile",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": "part_profile",
    "nvmlDeviceGetGpuFabricInfo": "fabric",
    "nvmlDeviceGetGpuFabricInfoV": "newer_fabric",
}


class LabelsCuda:
    """libcuda.

    Arguments:
        given: `cuda` of a case.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._errors = given.get("errors", {})

    def _set(self, call: str, pointer: Any, value: int) -> int:
        code = int(self._errors.get(call, 0))
        if not code:
            pointer.contents.value = value
        return code

    def cuInit(self, _flags: int) -> int:  # noqa: N802 - the names of libcuda, here and below
        return int(self._errors.get("cuInit", 0))

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802 - as above
        return self._set("cuDriverGetVersion", version, self._given["version"])

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 - as above
        return self._set("cuDeviceGetCount", count, len(self._given["devices"]))

    def cuDeviceGet(self, device: Any, index: int) -> int:  # noqa: N802 - as above
        return self._set("cuDeviceGet", device, index)

    def cuDeviceGetName(self, name: Any, _size: int, device: int) -> int:  # noqa: N802 - as above
        name.value = self._given["devices"][device]["name"].encode()
        return int(self._errors.get("cuDeviceGetName", 0))

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> int:  # noqa: N802 - as above
        return self._set("cuDeviceGetAttribute", value, self._given["devices"][device]["cc"][attribute - 75])

    def cuDeviceTotalMem_v2(self, memory: Any, device: int) -> int:  # noqa: N802 - as above
        return self._set("cuDeviceTotalMem_v2", memory, self._given["devices"][device]["memory"])
