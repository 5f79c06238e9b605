"""Asks libcuda and writes the answers as JSON: a program for a child process, which may hang or crash.

    cuda_child.py LIBRARY

For a Tegra system, whose integrated GPU NVML does not describe. What the library prints goes nowhere. `collect` takes
any object with the functions of libcuda, so a test gives it answers of its own.

Source: CUDA Driver API, "Initialization", "Version Management", "Device Management".
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_NAME = 256  # bytes of a device's name, at most
_MISSING = 500  # CUDA_ERROR_NOT_FOUND
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class RefusedError(Exception):
    """A function of libcuda did not answer: its name, and the code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(call, code)
        self.answer = [call, code]


def collect(library: Any) -> dict[str, Any]:
    """Every answer: cuda_version and gpus, or `error`, a list of function and code."""
    try:
        _ask(library, "cuInit", 0)
        version, count = ctypes.c_int(), ctypes.c_int()
        _ask(library, "cuDriverGetVersion", ctypes.pointer(version))
        _ask(library, "cuDeviceGetCount", ctypes.pointer(count))
        return {"cuda_version": version.value, "gpus": [_gpu(library, index) for index in range(count.value)]}
    except RefusedError as error:
        return {"error": error.answer}


def _gpu(library: Any, index: int) -> dict[str, Any]:
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name, memory = ctypes.create_string_buffer(_NAME), ctypes.c_size_t()
    _ask(library, "cuDeviceGet", ctypes.pointer(device), index)
    _ask(library, "cuDeviceGetName", name, _NAME, device.value)
    _ask(library, "cuDeviceGetAttribute", ctypes.pointer(major), _MAJOR, device.value)
    _ask(library, "cuDeviceGetAttribute", ctypes.pointer(minor), _MINOR, device.value)
    refused = {}
    try:
        _ask(library, "cuDeviceTotalMem_v2", ctypes.pointer(memory), device.value)
    except RefusedError as error:
        refused[error.answer[0]] = error.answer[1]
    return {
        "index": index,
        "name": name.value.decode("utf-8", "replace"),
        "compute": [major.value, minor.value],
        "memory": -1 if refused else memory.value,
        "refused": refused,
    }


def _ask(library: Any, call: str, *arguments: Any) -> None:
    function = getattr(library, call, None)
    code = function(*arguments) if function is not None else _MISSING
    if code:
        raise RefusedError(call, code)


def main(path: str) -> None:
    """Load the library, ask, and write the answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        result: dict[str, Any] = {"unloadable": str(error)}
    else:
        result = collect(library)
    with answers:
        json.dump(result, answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
