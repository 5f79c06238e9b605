"""libcuda: asked in a child process about the integrated GPU of a Tegra system, which NVML does not describe.

The library is loaded from a trusted path alone, like NVML, since it is code that runs with our rights.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from shim.discover.nvidia import child
from shim.discover.nvidia.facts import Facts, GpuFacts
from shim.discover.nvidia.nvml import Failure
from shim.discover.nvidia.search import Search

if TYPE_CHECKING:
    from typing import Any

    from shim.discover.model import Wish
    from shim.host.host import Host
    from shim.host.tree import Tree

SONAME, _STEM = "libcuda.so.1", "libcuda.so"
_LIMIT = 60  # seconds
_CHILD = Path(__file__).with_name("cuda_child.py")
# libraries of Linux for Tegra, which its loader's configuration names
_TEGRA = tuple(f"/usr/lib/aarch64-linux-gnu/{name}" for name in ("nvidia", "tegra"))


def take(host: Host, tree: Tree, wish: Wish) -> Facts | Failure:
    """What libcuda answers.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        wish: where libraries are searched.
    """
    search = Search(tree, wish.library_paths, os.uname().machine)
    directories = [*search.directories(_STEM), *(wish.library_paths or _TEGRA)]
    path = next((path for name in directories if tree.is_file(path := f"{name}/{SONAME}")), None)
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
        call, code = answers["error"]
        return Failure(f"{tree.host_path(at)}: {call}: error {code}", code, call=call)
    gpus = tuple(
        GpuFacts(gpu["index"], gpu["name"], memory=gpu["memory"], compute=tuple(gpu["compute"]), refused=gpu["refused"])
        for gpu in answers["gpus"]
    )
    return Facts("cuda", cuda_version=answers["cuda_version"], gpus=gpus)


def ask(host: Host, library: str) -> dict[str, Any] | Failure:
    """What libcuda answers to everything, as cuda_child writes it; below another root than "/" nothing is loaded."""
    if host.root != "/":
        return Failure("no library of another machine is loaded", is_absent=True)
    answers = child.ask(_CHILD, (library,), _LIMIT)
    return Failure(f"{library}: {answers}") if isinstance(answers, str) else answers
