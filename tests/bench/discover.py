"""What writing the specs of a big host costs: `shim cdi generate` as a whole process, on fake hosts.

NVIDIA's libraries are stubs that cannot be loaded: the process that asks NVML is started, and the GPUs are then those
that the kernel module shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from conformance import hosts, trees
from unit.discover import machines
from unit.discover.golden_hosts import EIGHT, HOSTS
from unit.discover.nvidia import driverroots

import shim
from bench.clock import spawn

GPUS = "generate: 8 GPUs, a driver of 40 libraries"
PARTITIONS = "generate: 64 partitions of 8 GPUs"
START = "generate: its help, which is the start of the command alone"
COMPARED = [(GPUS, "P"), (PARTITIONS, "P"), (START, "P")]

_LIBRARIES = 40
_HOOK = "/usr/local/bin/shim"
# What shim/__main__.py does for the command line, with the machine below a directory; nothing is printed
_PROGRAM = """
import os, sys
top, modules, *words = sys.argv[1:]
sys.path.insert(0, modules)
for stream in (1, 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
from shim import cli
from shim.cli import generate
from shim.host.host import Host
generate.Host = lambda: Host(top)
cli.main(["shim", "cdi", "generate", "--output", "-", "--hook-path", "/usr/local/bin/shim", *words])
"""


@contextmanager
def commands(directory: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The commands that are timed, by name."""
    nvidia, amd = directory / "eight-gpus", directory / "partitions"
    for top in (nvidia, amd):
        top.mkdir()
        hosts.build(driverroots.program(_HOOK), top)
    HOSTS["eight-gpus"].build(nvidia)
    hosts.build([*_module(), *_libraries()], nvidia)
    trees.build(machines.cpx(8, 8), str(amd))
    yield {
        GPUS: partial(_generate, nvidia, "nvidia"),
        PARTITIONS: partial(_generate, amd, "amd"),
        START: partial(_generate, amd, "amd", "--help"),
    }


def _generate(top: Path, *words: str) -> float:
    modules = str(Path(shim.__file__).parents[1])
    return spawn(sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, str(top), modules, "--vendor", *words)


def _module() -> driverroots.Entries:
    """What the kernel module shows of itself and its GPUs."""
    text = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driverroots.VERSION}  Tue Jun  6 22:20:39 UTC 2023\n"
    entries = driverroots.file("/proc/driver/nvidia/version", content=text)
    for gpu in EIGHT:
        text = f"Model: {gpu.name}\nGPU UUID: {gpu.uuid}\nDevice Minor: {gpu.minor}\n"
        entries += driverroots.file(f"/proc/driver/nvidia/gpus/{gpu.pci_address}/information", content=text)
    return entries


def _libraries() -> driverroots.Entries:
    """Further libraries of the driver, so that there are as many as in a real one."""
    names = (
        f"libnvidia-part{number}.so.{driverroots.VERSION}" for number in range(_LIBRARIES - len(driverroots.LIBRARIES))
    )
    return [entry for name in names for entry in driverroots.library(f"{driverroots.MULTIARCH}/{name}")]
