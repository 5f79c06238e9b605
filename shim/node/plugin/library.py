"""grpcio and protobuf, which only the device plugin needs: an extra of the package, and loaded late.

An installation has a private directory of modules, in which they are not; Python is started without `site`, so the
directories of a distribution's packages are not searched. They are added here, behind all others, where Debian's
python3-grpcio and python3-protobuf lie.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from shim.base.findings import CdiError, Finding

_MODULES = ("grpc", "google.protobuf.descriptor_pb2", "google.protobuf.descriptor_pool")


def load() -> Any:
    """The module grpc; google.protobuf can be imported afterwards.

    Raises CdiError: PLUGIN_LIBRARY.
    """
    # No handlers at fork(2): a process that is started here executes another program at once
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        return _load()
    except ImportError:
        import site  # late: `python -S` leaves it out

        sys.path += [path for path in site.getsitepackages([sys.base_prefix, "/usr"]) if path not in sys.path]
    try:
        return _load()
    except ImportError as error:
        raise CdiError([Finding("PLUGIN_LIBRARY", f"gRPC cannot be used: {error}", _remedy())]) from None


def _load() -> Any:
    for name in _MODULES:
        import_module(name)
    return import_module("grpc")


def _remedy() -> str:
    pip = f"`{sys.executable} -m pip install 'cdi-shim[node]'`"
    if sys.prefix != sys.base_prefix or not os.path.exists("/usr/bin/apt-get"):
        return pip
    return f"`apt-get install python3-grpcio python3-protobuf`, or {pip}"
