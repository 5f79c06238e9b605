"""What the families of cases have in common: the bundle, the call, files of a driver, dice that fall alike for ever."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json = dict[str, Any]
T = TypeVar("T")

BUNDLE = "/b"
LAUNCHER = "/opt/shim/bin/shim"  # as the machine has it
LOW_LEVEL: Json = {"path": "/etc/shim/low-level/shim", "link": "/usr/sbin/runc"}
LOGS: Json = {"path": "/log", "directory": True}


class Dice:
    """Numbers from a seed: splitmix64 (Steele, Lea, Flood 2014), written out, since `random` may change its choices."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        number = self._state
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        number = (number ^ number >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return (number ^ number >> 31) % bound

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred."""
        return self.below(100) < percent

    def one(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Up to `most` of them, repeats included."""
        return [self.one(items) for _ in range(self.below(most + 1))]


def dump(value: Any, indent: int | None = None) -> str:
    """JSON as engines write it."""
    return json.dumps(value, separators=(",", ":") if indent is None else None, indent=indent)


def text(path: str, content: str, mode: str = "644") -> Json:
    """A file with a text."""
    return {"path": path, "text": content, "mode": mode}


def spec(path: str, document: Json, mode: str = "644") -> Json:
    """A spec file; JSON is YAML as well, so the name decides which reader gets it."""
    return text(path, dump(document, 1), mode)


def config(value: Json | str, path: str = f"{BUNDLE}/config.json") -> Json:
    """A config.json."""
    return text(path, value if isinstance(value, str) else dump(value), "644")


def program(path: str, content: str = "#!/bin/sh\n") -> Json:
    """A program that is there."""
    return text(path, content, "755")


def create(*devices: str, verb: str = "create", name: str = "create", options: Iterable[str] = (), **more: Any) -> Json:
    """A step that creates the bundle's container.

    Arguments:
        devices: values of --device.
        verb: create, run or restore.
        name: of the step.
        options: global options in front of the verb.
        more: members of the step, see machine.py.
    """
    asked = [word for device in devices for word in ("--device", device)]
    argv = ["shim", "--log", "/log/runtime", "--log-format", "json", *options, verb, *asked, "--bundle", BUNDLE, "c1"]
    return {"name": name, "argv": argv, **more}


def library(soname: str) -> str:
    """A shared object for x86-64, as far as loaders look at it: the headers, PT_DYNAMIC with DT_SONAME; in base64."""
    strings = b"\0" + soname.encode() + b"\0"
    strings_at = 64 + 2 * 56
    dynamic_at = (strings_at + len(strings) + 15) & ~15
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in ((5, strings_at), (14, 1), (0, 0)))
    end = dynamic_at + len(dynamic)
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    for kind, offset, size, align, flags in ((1, 0, end, 4096, 5), (2, dynamic_at, len(dynamic), 8, 6)):
        head += struct.pack("<IIQQQQQQ", kind, flags, offset, offset, offset, size, size, align)
    return base64.b64encode((head + strings).ljust(dynamic_at, b"\0") + dynamic).decode()


LIB = "/usr/lib/x86_64-linux-gnu"
# A driver on the host, with programs and nodes that specs name.
DRIVER: list[Json] = [
    {"path": "/opt/vendor/lib/libgpu.so.1.2", "base64": library("libgpu.so.1")},
    {"path": "/opt/vendor/lib/libml.so.1.2", "base64": library("libml.so.1")},
    text("/opt/vendor/share/profile.json", "{}\n"),
    program("/opt/vendor/bin/hook"),
    program("/usr/bin/nvidia-cdi-hook"),
    text("/tmp/hook", "#!/bin/sh\n", "777"),
    {"path": "/dev/gpu0", "node": "c 195 0", "mode": "660"},
    {"path": "/dev/gpu1", "node": "c 195 1", "mode": "666"},
    {"path": "/dev/nic0", "node": "c 240 7", "mode": "600", "owner": 7},
    {"path": "/dev/disk0", "node": "b 8 16", "mode": "660"},
]
# The container's root, with a libc so that a cache can be made.
ROOT: list[Json] = [
    text(f"{BUNDLE}/rootfs/etc/ld.so.conf", "/usr/lib/x86_64-linux-gnu\n"),
    {"path": f"{BUNDLE}/rootfs{LIB}/ld-linux-x86-64.so.2", "base64": library("ld-linux-x86-64.so.2")},
    {"path": f"{BUNDLE}/rootfs{LIB}/libc.so.6", "base64": library("libc.so.6")},
]
