"""The display adapters of Windows as WSL shows them: asked of libdxcore in a child process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shim.discover.nvidia import child

if TYPE_CHECKING:
    from typing import Any

    from shim.host.host import Host
    from shim.host.tree import Tree

_CHILD = Path(__file__).with_name("dxcore_child.py")
_LIMIT = 20  # seconds; Windows answers in milliseconds
_FIRST = 2700  # WDDM 2.7, the first whose adapters Linux programs can use


@dataclass(frozen=True)
class Adapter:
    """A display adapter.

    Attributes:
        wddm: version of its driver's model, 2700 for WDDM 2.7; 0 when unknown.
        store: directory of its driver's files; "" when unknown.
    """

    wddm: int
    store: str

    @property
    def is_usable(self) -> bool:
        """Whether programs on Linux can use it."""
        return self.wddm >= _FIRST


def adapters(host: Host, tree: Tree, path: str) -> tuple[Adapter, ...] | str:
    """The adapters, in the order of Windows.

    Arguments:
        host: the machine.
        tree: the root of the driver's files.
        path: of libdxcore in the tree, without links.
    Returns:
        the adapters, or a clause about why they are unknown.
    """
    objection = host.objection(tree.host_path(path))
    if objection:
        return f"{tree.host_path(path)} is not loaded: {objection}"
    answers = ask(host, tree.real(path))
    if isinstance(answers, str):
        return f"{tree.host_path(path)}: {answers}"
    if "unloadable" in answers:
        return f"{tree.host_path(path)} cannot be loaded: {answers['unloadable']}"
    if "error" in answers:
        call, status = answers["error"]
        return f"{tree.host_path(path)}: {call} failed with status {status}"
    every: list[dict[str, Any]] = answers["adapters"]
    if every and all("error" in answer for answer in every):
        call, status = every[0]["error"]
        return f"{tree.host_path(path)}: {call} failed with status {status} for each of {len(every)} adapters"
    return tuple(Adapter(answer.get("wddm", 0), answer.get("store", "")) for answer in every)


def ask(host: Host, library: str, limit: float = _LIMIT) -> dict[str, Any] | str:
    """What libdxcore answers, as dxcore_child writes it, or a clause about why there is no answer.

    Arguments:
        host: the machine; below another root than "/" nothing is loaded.
        library: the path by which this process reaches libdxcore.
        limit: seconds after which the child is killed.
    """
    if host.root != "/":
        return "no library of another machine is loaded"
    return child.ask(_CHILD, (library,), limit)
