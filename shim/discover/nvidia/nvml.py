"""NVML, the driver's own library: asked in a child process, whose answers become a snapshot.

A GPU in a bad state lets NVML hang or crash, and a process loads one library of a name only, whatever the driver root
of the next question is. So a child loads it (nvml_child), and is killed at a limit. The library is code that runs
with our rights: it is loaded from a trusted path alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.nvidia import pci
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot

if TYPE_CHECKING:
    from typing import Any

    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

SONAME = "libnvidia-ml.so.1"
DRIVER_NOT_LOADED, VERSION_MISMATCH = 9, 18

_LIMIT = 60  # seconds; without the persistence daemon a GPU takes two to start
_REAPED = 1  # seconds for a killed child to end; the kernel may hold it for as long as the GPU hangs
_CHILD = Path(__file__).with_name("nvml_child.py")
_CODES = {
    -1: "the answer is no text",
    2: "invalid argument",
    3: "not supported",
    4: "no permission: run it as root, and let the device nodes be accessible",
    6: "not found",
    9: "the driver is not loaded",
    10: "no answer in time",
    11: "the kernel reports a fault of the GPU's interrupts",
    12: "the library is missing",
    13: "libnvidia-ml has no such function: it is no NVML, or too old",
    14: "the GPU's own memory for its configuration is corrupted",
    15: "the GPU is lost: it has fallen off the bus, or is shut down",
    16: "the GPU must be reset",
    17: "the operating system blocked the request",
    18: "library and kernel module have different versions",
    20: "out of memory",
    27: "the GPU is not ready",
    999: "an internal error of the driver; `dmesg | grep -i nvrm` may name it",
}


@dataclass(frozen=True)
class Failure:
    """NVML did not answer.

    Attributes:
        text: why, a clause.
        code: of NVML, 0 when it was not even asked.
        is_absent: whether there is no library that could be asked, so that /proc is the usual way.
    """

    text: str
    code: int = 0
    is_absent: bool = False


# Below the driver root, in the order of the search
_DIRECTORIES = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib",
    "/lib",
)


def locate(tree: Tree, wish: Wish) -> str | None:
    """The path of the library in a root of the driver's files, None when there is none."""
    directories = wish.library_paths or _DIRECTORIES
    return next((f"{directory}/{SONAME}" for directory in directories if tree.is_file(f"{directory}/{SONAME}")), None)


def take(host: Host, tree: Tree, path: str | None) -> Snapshot | Failure:
    """A snapshot by NVML.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        path: of the library in the tree, None when there is none.
    """
    at = tree.resolve(path) if path is not None else None
    if at is None:
        return Failure(f"there is no {SONAME} below {tree.root}", is_absent=True)
    objection = host.objection(tree.host_path(at))
    if objection:
        return Failure(f"{tree.host_path(at)} is not loaded: {objection}", is_absent=True)
    answers = ask(host, tree.real(at))
    if isinstance(answers, Failure):
        return answers
    if "unloadable" in answers:
        return Failure(f"{tree.host_path(at)} cannot be loaded: {answers['unloadable']}", is_absent=True)
    if "error" in answers:
        return Failure(f"{tree.host_path(at)}: {explained(answers['error'])}", answers["error"][1])
    return snapshot(host, answers)


def ask(host: Host, library: str, limit: float = _LIMIT) -> dict[str, Any] | Failure:
    """What NVML answers to everything, as nvml_child writes it.

    Arguments:
        host: the machine; below another root than "/" nothing is loaded.
        library: the path by which this process reaches libnvidia-ml.
        limit: seconds after which the child is killed.
    """
    if host.root != "/":
        return Failure("no library of another machine is loaded", is_absent=True)
    binding = find_spec("pynvml")
    if binding is None or binding.origin is None:
        return Failure("Python's module pynvml (nvidia-ml-py) is missing: install shim anew", is_absent=True)
    argv = [sys.executable, "-I", "-S", "-B", str(_CHILD), str(Path(binding.origin).parent), library]
    # a session of its own: the terminal's signals are for us, and the child dies with us
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd="/", env={"PATH": "/usr/bin:/bin"}, start_new_session=True,
    )  # fmt: skip
    try:
        written, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return Failure(f"NVML did not answer within {limit:g} s: a GPU hangs, `dmesg | grep -i xid` may name it")
    finally:
        _end(child)
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        return Failure(f"NVML crashed ({name}); `dmesg | grep -iE 'xid|nvrm'` may name the GPU")
    try:
        answers: dict[str, Any] = json.loads(written)
    except ValueError:
        return Failure(f"the process that asks NVML ended with status {child.returncode} and no answer")
    return answers


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child that may hang in the kernel, which keeps a killed process until it answers: we do not wait for it."""
    child.kill()
    if child.stdout is not None:
        child.stdout.close()
    try:
        child.wait(_REAPED)
    except subprocess.TimeoutExpired:
        pass


def explained(error: list[Any]) -> str:
    """A function of NVML and the code that it returned, as a clause."""
    call, code = error
    return f"nvml{call}: {_CODES.get(code, 'an unknown error')} (code {code})"


def snapshot(host: Host, answers: dict[str, Any]) -> Snapshot:
    """A snapshot of the answers of nvml_child."""
    version = answers["cuda_version"]
    return Snapshot(
        answers["driver_version"],
        f"{version // 1000}.{version % 1000 // 10}" if version else "",
        tuple(_gpu(host, gpu) for gpu in answers["gpus"]),
        "nvml",
    )


def _gpu(host: Host, answers: dict[str, Any]) -> Gpu:
    address = pci.normal(answers.get("pci", ""))
    return Gpu(
        answers["index"],
        answers.get("minor", -1),
        answers.get("uuid", ""),
        address,
        answers.get("name", ""),
        answers.get("memory", 0),
        answers.get("mig_enabled", False),
        tuple(_mig(mig) for mig in answers.get("mig", ())),
        answers.get("addressing_mode", ""),
        pci.numa_node(host, address),
        explained(answers["error"]) if "error" in answers else "",
    )


def _mig(answers: dict[str, Any]) -> Mig:
    return Mig(
        answers["index"],
        answers.get("uuid", ""),
        answers.get("gi", -1),
        answers.get("ci", -1),
        answers.get("profile", ""),
        answers.get("memory", 0),
        explained(answers["error"]) if "error" in answers else "",
    )


def finding(failure: Failure) -> Finding:
    """What a failure means for the specs."""
    if failure.is_absent:
        remedy = "install the driver's libnvidia-ml (Debian: libnvidia-ml1), or name its root with --driver-root"
        return Finding("DISCOVERY_PART", f"{failure.text}; GPUs are read from /proc instead", remedy)
    if failure.code == DRIVER_NOT_LOADED:
        return Finding("DISCOVERY_PART", failure.text, "load the driver: modprobe nvidia")
    if failure.code == VERSION_MISMATCH:
        return Finding("DRIVER_MISMATCH", failure.text)
    return Finding("DISCOVERY_INCOMPLETE", failure.text)
