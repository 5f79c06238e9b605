"""Device nodes of a host that does not exist: the fake beside `shim.host.nodes`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.host.nodes import Lookup, Node


class FakeNodes:
    """A table of nodes that is called like `nodes.lookup`: `plan.make(names, found, lookup=FakeNodes({...}))`.

    Arguments:
        nodes: path -> (type, major, minor, mode), owned by root; or None for "nothing is there".
        otherwise: asked for every path that the table does not name; without it nothing is there.
    """

    __slots__ = ("_nodes", "_otherwise", "asked")

    def __init__(
        self, nodes: Mapping[str, tuple[str, int, int, int] | None], *, otherwise: Lookup | None = None
    ) -> None:
        self._nodes = dict(nodes)
        self._otherwise = otherwise
        self.asked: list[str] = []

    def __call__(self, path: str) -> Node | None:
        """The node at `path`; remembers the question in `asked`."""
        self.asked.append(path)
        if path not in self._nodes:
            return self._otherwise(path) if self._otherwise else None
        node = self._nodes[path]
        return (*node, 0, 0) if node else None
