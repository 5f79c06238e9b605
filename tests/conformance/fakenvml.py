"""An object with the functions of pynvml that answers as a vector's `nvml` says.

It stands where pynvml stands in the child process, so everything between NVML and a spec is the code that is tested.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

_NOT_FOUND, _FUNCTION_MISSING, _NOT_SUPPORTED = 6, 13, 3
_MIB = 1 << 20
# Slices of the profiles of nvml.h, by their number: of GPU instances and of compute instances
_GI_SLICES = {
    0: 1,
    1: 2,
    2: 3,
    3: 4,
    4: 7,
    5: 8,
    6: 6,
    7: 1,
    8: 2,
    9: 1,
    10: 1,
    11: 2,
    12: 4,
    13: 1,
    14: 2,
    15: 1,
    16: 2,
}
_CI_SLICES = dict(enumerate((1, 2, 3, 4, 7, 8, 6, 1)))
_NEWEST = 3  # slices of a profile that is in neither table
_ID = 100  # what a profile's id is above its number, which are two different things


class NVMLError(Exception):
    """As in pynvml."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class FakeNvml:
    """The library.

    Arguments:
        given: `nvml` of a case.
    """

    NVMLError = NVMLError

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    def _check(self, call: str, *handles: dict[str, Any]) -> None:
        if {f"nvml{call}", f"nvml{call}_v2", f"nvml{call}_v3"} & set(self._given.get("missing", ())):
            raise NVMLError(_FUNCTION_MISSING)
        for asked in (self._given, *handles):
            code = asked.get("error", {}).get(call, 0)
            if code:
                raise NVMLError(code)

    def nvmlInit(self) -> None:  # noqa: N802 - the names of NVML, here and below
        self._check("Init")

    def nvmlShutdown(self) -> None:  # noqa: N802 - as above
        self._check("Shutdown")

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802 - as above
        self._check("SystemGetDriverVersion")
        return str(self._given.get("driver_version", ""))

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802 - as above
        self._check("SystemGetCudaDriverVersion")
        return int(self._given.get("cuda_version", 12080))

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - as above
        self._check("DeviceGetCount")
        return len(self._given.get("gpus", ()))

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802 - as above
        gpu: dict[str, Any] = self._given["gpus"][index]
        self._check("DeviceGetHandleByIndex", gpu)
        return {"minor": index, "name": "NVIDIA A100-SXM4-40GB", **gpu}

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: dict[str, Any], index: int) -> dict[str, Any]:  # noqa: N802 - as above
        self._check("DeviceGetMigDeviceHandleByIndex", gpu)
        migs = gpu.get("mig", [])
        every = {int(key): mig for key, mig in migs.items()} if isinstance(migs, dict) else dict(enumerate(migs))
        if index not in every:
            raise NVMLError(_NOT_FOUND)
        self._check("DeviceGetMigDeviceHandleByIndex", every[index])
        return {**every[index]}

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: dict[str, Any]) -> int:  # noqa: N802 - as above
        return int(self._value("DeviceGetMaxMigDeviceCount", gpu, "max_mig", 7))

    def nvmlDeviceGetMigMode(self, gpu: dict[str, Any]) -> list[int]:  # noqa: N802 - as above
        return [int(self._value("DeviceGetMigMode", gpu, "mig_enabled", 0))] * 2

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> Any:  # noqa: N802 - as above
        return self._value("DeviceGetUUID", handle, "uuid", "")

    def nvmlDeviceGetName(self, handle: dict[str, Any]) -> Any:  # noqa: N802 - as above
        return self._value("DeviceGetName", handle, "name", "")

    def nvmlDeviceGetMinorNumber(self, handle: dict[str, Any]) -> Any:  # noqa: N802 - as above
        return self._value("DeviceGetMinorNumber", handle, "minor", 0)

    def nvmlDeviceGetAddressingMode(self, handle: dict[str, Any]) -> Any:  # noqa: N802 - as above
        return self._value("DeviceGetAddressingMode", handle, "addressing_mode", 0)

    def nvmlDeviceGetPciInfo(self, handle: dict[str, Any]) -> SimpleNamespace:  # noqa: N802 - as above
        return SimpleNamespace(busId=self._value("DeviceGetPciInfo", handle, "pci", "").encode())

    def nvmlDeviceGetMemoryInfo(self, handle: dict[str, Any]) -> SimpleNamespace:  # noqa: N802 - as above
        return SimpleNamespace(total=self._value("DeviceGetMemoryInfo", handle, "memory_mb", 0) * _MIB)

    def nvmlDeviceGetGpuInstanceId(self, handle: dict[str, Any]) -> Any:  # noqa: N802 - as above
        return self._value("DeviceGetGpuInstanceId", handle, "gi", 0)

    def nvmlDeviceGetComputeInstanceId(self, handle: dict[str, Any]) -> Any:  # noqa: N802 - as above
        return self._value("DeviceGetComputeInstanceId", handle, "ci", 0)

    def nvmlDeviceGetAttributes(self, handle: dict[str, Any]) -> SimpleNamespace:  # noqa: N802 - as above
        return SimpleNamespace(
            gpuInstanceSliceCount=_GI_SLICES.get(handle.get("gi_profile", 0), _NEWEST),
            computeInstanceSliceCount=_CI_SLICES.get(handle.get("ci_profile", 0), _NEWEST),
            memorySizeMB=self._value("DeviceGetAttributes", handle, "memory_mb", 0),
        )

    def nvmlDeviceGetGpuInstanceById(self, gpu: dict[str, Any], id: int) -> SimpleNamespace:  # noqa: N802 - as above
        self._check("DeviceGetGpuInstanceById", gpu)
        migs = gpu.get("mig", [])
        for mig in migs.values() if isinstance(migs, dict) else migs:
            if mig.get("gi", 0) == id:
                return SimpleNamespace(profileId=_ID + mig.get("gi_profile", 0))
        raise NVMLError(_NOT_FOUND)

    def nvmlGpuInstanceGetInfo(self, instance: SimpleNamespace) -> SimpleNamespace:  # noqa: N802 - as above
        self._check("GpuInstanceGetInfo")
        return instance

    def nvmlDeviceGetGpuInstanceProfileInfo(  # noqa: N802 - as above
        self, gpu: dict[str, Any], profile: int, version: int = 2
    ) -> SimpleNamespace:
        self._check("DeviceGetGpuInstanceProfileInfo", gpu)
        if version != 1:  # the older function, without names of profiles
            raise NVMLError(_FUNCTION_MISSING)
        if profile not in _GI_SLICES and profile != max(_GI_SLICES) + 1:
            raise NVMLError(_NOT_SUPPORTED)
        return SimpleNamespace(id=_ID + profile)

    def _value(self, call: str, handle: dict[str, Any], member: str, default: Any) -> Any:
        self._check(call, handle)
        return handle.get(member, default)
