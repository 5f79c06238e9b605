"""NVML, the driver's own library: asked in a child process, whose answers become a snapshot.

A GPU in a bad state lets NVML hang or crash, and a process loads one library of a name only, whatever the driver root
of the next question is. So a child loads it (nvml_child), and is killed at a limit. The library is code that runs
with our rights: it is loaded from a trusted path alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.nvidia import child, pci
from shim.discover.nvidia.search import Search
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
from shim.host import elf

if TYPE_CHECKING:
    from typing import Any

    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

SONAME, _STEM = "libnvidia-ml.so.1", "libnvidia-ml.so"
DRIVER_NOT_LOADED, VERSION_MISMATCH = 9, 18

_LIMIT = 60  # seconds; without the persistence daemon a GPU takes two to start
_CHILD = Path(__file__).with_name("nvml_child.py")
_FACTS_CHILD = Path(__file__).with_name("nvml_facts_child.py")
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
        call: the function that refused, without `nvml`; "" when none was asked.
    """

    text: str
    code: int = 0
    is_absent: bool = False
    call: str = ""


def locate(tree: Tree, wish: Wish, version: str) -> str | None:
    """The path of the library in a root of the driver's files, None when there is none.

    Arguments:
        tree: the driver's files.
        wish: where libraries are searched.
        version: of the driver, "" when unknown. The link libnvidia-ml.so.1 is missing where ldconfig never ran.
    Returns:
        the first that is a library for this machine, else the first at all, so that a message can name it.
    """
    search = Search(tree, wish.library_paths, os.uname().machine)
    directories = search.directories(_STEM)
    usual = [f"{directory}/{name}" for name in (SONAME, f"{_STEM}.{version}") for directory in directories]
    present = [path for path in usual if tree.is_file(path)]
    return next((path for path in present if _fits(tree, path, search.machine)), present[0] if present else None)


def _fits(tree: Tree, path: str, machine: str) -> bool:
    file = tree.open(path)
    if file is None:
        return False
    try:
        with file:
            return elf.read(file).fits(machine)
    except (OSError, elf.NotAnElfError):
        return False


def take(host: Host, tree: Tree, path: str | None) -> Snapshot | Failure:
    """A snapshot by NVML.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        path: of the library in the tree, None when there is none.
    """
    answers = answered(host, tree, path)
    return answers if isinstance(answers, Failure) else snapshot(host, answers)


def answered(host: Host, tree: Tree, path: str | None, *, with_facts: bool = False) -> dict[str, Any] | Failure:
    """The answers of the library at a path, as its child writes them; the failure of a library that has none.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        path: of the library in the tree, None when there is none.
        with_facts: whether what node labels state is asked (nvml_facts_child), else what specs need (nvml_child).
    """
    at = tree.resolve(path) if path is not None else None
    if at is None:
        return Failure(f"there is no {SONAME} below {tree.root}", is_absent=True)
    objection = host.objection(tree.host_path(at))
    if objection:
        return Failure(f"{tree.host_path(at)} is not loaded: {objection}", is_absent=True)
    answers = ask(host, tree.real(at), with_facts=with_facts)
    if isinstance(answers, Failure):
        return answers
    if "unloadable" in answers:
        return Failure(f"{tree.host_path(at)} cannot be loaded: {answers['unloadable']}", is_absent=True)
    if "error" in answers:
        return Failure(
            f"{tree.host_path(at)}: {explained(answers['error'])}", answers["error"][1], call=answers["error"][0]
        )
    return answers


def ask(host: Host, library: str, limit: float = _LIMIT, *, with_facts: bool = False) -> dict[str, Any] | Failure:
    """What NVML answers to everything, as its child writes it.

    Arguments:
        host: the machine; below another root than "/" nothing is loaded.
        library: the path by which this process reaches libnvidia-ml.
        limit: seconds after which the child is killed.
        with_facts: whether what node labels state is asked (nvml_facts_child), else what specs need (nvml_child).
    """
    if host.root != "/":
        return Failure("no library of another machine is loaded", is_absent=True)
    binding = find_spec("pynvml")
    if binding is None or binding.origin is None:
        return Failure("Python's module pynvml (nvidia-ml-py) is missing: install shim anew", is_absent=True)
    program = _FACTS_CHILD if with_facts else _CHILD
    answers = child.ask(program, (str(Path(binding.origin).parent), library), limit)
    if isinstance(answers, str):
        return Failure(f"NVML of {library}: {answers}; `dmesg | grep -iE 'xid|nvrm'` may name the GPU")
    return answers


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


def finding(failure: Failure, *, has_driver: bool = True) -> Finding:
    """What a failure means for the specs.

    Arguments:
        failure: of NVML.
        has_driver: whether the kernel module is loaded, which then names the GPUs.
    """
    if failure.is_absent:
        remedy = "install the driver's libnvidia-ml (Debian: libnvidia-ml1), or name its root with --driver-root"
        instead = "GPUs are read from /proc instead" if has_driver else "the kernel module is not loaded either"
        return Finding("DISCOVERY_PART", f"{failure.text}; {instead}", remedy)
    if failure.code == DRIVER_NOT_LOADED:
        return Finding("DISCOVERY_PART", failure.text, "load the driver: modprobe nvidia")
    if failure.code == VERSION_MISMATCH:
        return Finding("DRIVER_MISMATCH", failure.text)
    return Finding("DISCOVERY_INCOMPLETE", failure.text)
