"""Objects of a Kubernetes manifest, with the line of each of their values.

A manifest is a text of several YAML documents, or one object of kind List. What kubectl refuses before it reads any
field is refused here: text that is no YAML, repeated keys, documents that are no objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from shim.base.findings import CdiError, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple["str | int", ...]  # keys and indexes of lists, from an object to a value

_DEPTH = 50  # no object of Kubernetes is nested deeper
_NODES = 100_000  # of a document, those that are reached by aliases counted again


@dataclass
class Object:
    """An object of a manifest.

    Attributes:
        document: its content.
        file: of which it is, for findings.
        lines: path -> line, from 1.
    """

    document: dict[str, Any]
    file: str = ""
    lines: dict[Path, int] = field(default_factory=dict)

    def get(self, *path: str | int) -> Any:
        """The value at a path, None when there is none."""
        value: Any = self.document
        for key in path:
            if isinstance(value, dict):
                value = value.get(key)
            else:
                is_item = isinstance(value, list) and isinstance(key, int) and key < len(value)
                value = value[key] if is_item else None
        return value

    def below(self, *path: str | int) -> Object:
        """A part as an object of its own, such as the Pod in the template of a Deployment; empty for no path."""
        part = self.get(*path)
        lines = {key[len(path) :]: line for key, line in self.lines.items() if key[: len(path)] == path}
        return Object(part if isinstance(part, dict) else {}, self.file, lines or {(): self.line()})

    def line(self, *path: str | int) -> int:
        """The line of a value, or of the nearest existing value around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def finding(self, id: str, text: str, *path: str | int, remedy: str = "") -> Finding:
        """A finding about a value."""
        return Finding(id, text, remedy, path=self.file, line=self.line(*path))


def read(text: str, file: str = "") -> list[Object]:
    """The objects of a manifest, also those in a List. Empty documents are skipped.

    Arguments:
        text: YAML, of which JSON is a part.
        file: its name, for findings.
    Raises:
        CdiError: MANIFEST_INVALID, with the line.
    """
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise _refused(f"it is not valid YAML: {error.problem}", file, line) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise _refused(f"it is not valid YAML: {str(error).splitlines()[0]}", file, 0) from None
    return [item for node in nodes for item in _objects(node, file)]


def _objects(node: yaml.Node, file: str) -> Iterator[Object]:
    lines: dict[Path, int] = {}
    document = _plain(node, (), lines, file)
    if document is None:
        return
    if not isinstance(document, dict):
        raise _refused("a document is no object: it has no kind", file, lines[()])
    whole = Object(document, file, lines)
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        yield from (whole.below("items", number) for number in range(len(items)))
    else:
        yield whole


def _plain(node: yaml.Node, path: Path, lines: dict[Path, int], file: str) -> Any:
    line = node.start_mark.line + 1
    if len(path) > _DEPTH or len(lines) > _NODES:
        raise _refused(
            f"it is deeper than {_DEPTH} levels, has more than {_NODES} parts, or refers to itself", file, line
        )
    lines[path] = line
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, number), lines, file) for number, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, file)
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError):
        raise _refused(f"{node.value!r} is not of the type that its tag or form has", file, line) from None


def _mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int], file: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused("a key is no text", file, key.start_mark.line + 1)
        if key.value in result:
            raise _refused(f"the key {key.value} is there twice", file, key.start_mark.line + 1)
        inner = (*path, key.value)
        result[key.value] = _plain(value, inner, lines, file)
        lines[inner] = key.start_mark.line + 1
    return result


def _refused(text: str, file: str, line: int) -> CdiError:
    return CdiError([Finding("MANIFEST_INVALID", text, path=file, line=line)])
