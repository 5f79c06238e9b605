"""Asks libdxcore for the display adapters of Windows and writes them as JSON: a program for a child process.

    dxcore_child.py LIBRARY

The calls are those of the Windows kernel, which the library passes on through /dev/dxg. Structures: d3dkmthk.h and
d3dukmdt.h of the Windows SDK; include/uapi/misc/d3dkmthk.h of WSL's kernel has the same with characters of 16 bits.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import POINTER, Structure, byref, c_int32, c_uint16, c_uint32, c_uint64, c_void_p, cast, sizeof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DRIVER_VERSION, _QUERY_REGISTRY = 13, 48  # KMTQAITYPE_*
_DRIVER_STORE_PATH = 2  # D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH
_OVERFLOW = 1  # D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW
_WITH_COMPUTE_ONLY = 1  # D3DKMT_ENUMADAPTERS_FILTER: adapters without display, too
_MOST_ADAPTERS, _LONGEST_PATH = 1024, 64 * 1024
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class AdapterInfo(Structure):
    """D3DKMT_ADAPTERINFO."""

    _fields_ = (
        ("handle", c_uint32),
        ("luid_low", c_uint32),
        ("luid_high", c_int32),
        ("sources", c_uint32),
        ("regions", c_int32),
    )


class EnumAdapters2(Structure):
    """D3DKMT_ENUMADAPTERS2."""

    _fields_ = (("count", c_uint32), ("adapters", c_void_p))


class EnumAdapters3(Structure):
    """D3DKMT_ENUMADAPTERS3."""

    _fields_ = (("filter", c_uint64), ("count", c_uint32), ("adapters", c_void_p))


class QueryAdapterInfo(Structure):
    """D3DKMT_QUERYADAPTERINFO."""

    _fields_ = (("handle", c_uint32), ("type", c_uint32), ("data", c_void_p), ("size", c_uint32))


class RegistryInfo(Structure):
    """D3DDDI_QUERYREGISTRY_INFO; a longer value continues behind it."""

    _fields_ = (
        ("type", c_uint32),
        ("flags", c_uint32),
        ("name", c_uint16 * 260),
        ("value_type", c_uint32),
        ("physical_adapter", c_uint32),
        ("output_size", c_uint32),
        ("status", c_uint32),
        ("output", c_uint64),
    )


class CallError(Exception):
    """A call failed: its name and NTSTATUS."""

    def __init__(self, call: str, status: int) -> None:
        super().__init__(call, status)
        self.answer = [call, f"0x{status & 0xFFFFFFFF:08x}"]


def collect(library: Any) -> dict[str, Any]:
    """The adapters.

    Arguments:
        library: libdxcore, loaded.
    Returns:
        adapters, a list of objects with wddm, a version such as 2700, and store, the directory of the driver's files,
        or error, a call and a status; or `error` alone where there is no list.
    """
    try:
        handles = _handles(library)
    except CallError as error:
        return {"error": error.answer}
    return {"adapters": [_adapter(library, handle) for handle in handles]}


def _call(library: Any, name: str, argument: Any) -> None:
    status: int = getattr(library, name)(byref(argument))
    if status < 0:
        raise CallError(name, status)


def _handles(library: Any) -> list[int]:
    """The handles of all adapters. The newer call lists those without display, too."""
    request: EnumAdapters2 | EnumAdapters3
    if hasattr(library, "D3DKMTEnumAdapters3"):
        name, request = "D3DKMTEnumAdapters3", EnumAdapters3(filter=_WITH_COMPUTE_ONLY)
    elif hasattr(library, "D3DKMTEnumAdapters2"):
        name, request = "D3DKMTEnumAdapters2", EnumAdapters2()
    else:
        raise CallError("D3DKMTEnumAdapters2", 0)
    _call(library, name, request)  # without a list: how many there are
    infos = (AdapterInfo * min(request.count, _MOST_ADAPTERS))()
    request.count, request.adapters = len(infos), cast(infos, c_void_p)
    _call(library, name, request)
    return [info.handle for info in infos[: request.count]]


def _adapter(library: Any, handle: int) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    try:
        version = c_uint32()
        _query(library, handle, _DRIVER_VERSION, version)
        answers["wddm"] = version.value
        answers["store"] = _store(library, handle)
    except CallError as error:
        answers["error"] = error.answer
    return answers


def _query(library: Any, handle: int, kind: int, data: Any) -> None:
    pointer = cast(byref(data), c_void_p)
    _call(library, "D3DKMTQueryAdapterInfo", QueryAdapterInfo(handle, kind, pointer, sizeof(data)))


def _store(library: Any, handle: int) -> str:
    """The directory of the driver's files. The first question tells the length of its name."""
    length = RegistryInfo(type=_DRIVER_STORE_PATH)
    _query(library, handle, _QUERY_REGISTRY, length)
    if length.status != _OVERFLOW or length.output_size > _LONGEST_PATH:
        return ""
    data = (ctypes.c_uint8 * (sizeof(RegistryInfo) + length.output_size))()
    answer = cast(data, POINTER(RegistryInfo)).contents
    answer.type = _DRIVER_STORE_PATH
    _query(library, handle, _QUERY_REGISTRY, data)
    begin = RegistryInfo.output.offset
    if answer.status or answer.output_size > length.output_size:
        return ""
    return bytes(data[begin : begin + answer.output_size]).decode("utf-16-le", "replace").partition("\0")[0]


def main(path: str) -> None:
    """Load the library, ask, and write the answers; what a library prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    try:
        result = collect(ctypes.CDLL(path))
    except OSError as error:
        result = {"unloadable": str(error)}
    with answers:
        json.dump(result, answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
