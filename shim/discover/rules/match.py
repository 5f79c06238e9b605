"""Matches: what of a host a rule describes, and the templates that are filled in from it.

A template is text with fields in braces:

    {name}         the last part of the path that matched: ttyUSB0
    {number}       the digits at its end: 0
    {index}        how many matches of the rule come before it, numbers sorted as numbers
    {path}         the path that matched
    {attr:PATH}    the text of a sysfs attribute, its path relative to the match's directory in /sys
    {link:PATH}    the last part of where a symbolic link leads, below the same directory
    {alias:DIR}    the name of a link in a directory that leads to the node: {alias:/dev/serial/by-id}
    {{ and }}      braces

A field without a value makes the whole template empty, so a rule can have several names of which some do not apply.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from typing import TYPE_CHECKING

from shim.cdi.names import BadName, check_device
from shim.host.tree import natural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.discover.rules.model import Rule
    from shim.host.tree import Tree

FIELD = re.compile(r"\{\{|\}\}|\{(name|number|index|path|attr|link|alias)(?::([^{}]+))?\}")
WITH_ARGUMENT = ("attr", "link", "alias")
_MOST = 4096  # matches of a pattern
_NO_NAME = re.compile(r"[^A-Za-z0-9_.:-]")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ESCAPED = re.compile(r"\[([*?[])\]")  # as glob.escape writes them


class Match:
    """A device node, or a directory below /sys, that a rule matches.

    Arguments:
        rule: the rule.
        path: what matched; "" for what a rule adds to all devices.
        index: how many matches of the rule come before it.
        tree: the host.
    """

    def __init__(self, rule: Rule, path: str, index: int, tree: Tree) -> None:
        self.rule = rule
        self.path = path
        self._index = index
        self._tree = tree
        self._sysfs = path if path.startswith("/sys/") else _sysfs_of(path, tree)

    def text(self, template: str, *, is_pattern: bool = False) -> str | None:
        """A template filled in; None where a field has no value.

        Arguments:
            template: see above.
            is_pattern: whether the result is a glob, in which the values of fields stand for themselves.
        """
        parts, end = [], 0
        for field in FIELD.finditer(template):
            value = field[0][0] if field[1] is None else self._value(field[1], field[2] or "")
            if value is None:
                return None
            value = glob.escape(value) if is_pattern else value
            parts += [template[end : field.start()], value]
            end = field.end()
        return "".join([*parts, template[end:]])

    def name(self, template: str) -> str:
        """A template of a device's name: letters that no name may have become `_`; "" where a field has no value."""
        name = _NO_NAME.sub("_", self.text(template) or "").strip("_.:-")
        try:
            check_device(name)
        except BadName:
            return ""
        return name

    def attribute(self, path: str) -> str | None:
        """The text of an attribute relative to the match's directory in /sys; None when there is none."""
        if not self._sysfs:
            return None
        data = self._tree.read(f"{self._sysfs}/{path}")
        return None if data is None else data.decode("utf-8", "replace").strip()

    def fits(self) -> bool:
        """Whether the match fulfils the conditions of its rule."""
        for path, patterns in self.rule.where:
            value = self.attribute(path)
            if value is None and (link := self._link(path)):
                value = link
            if value is None or not any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns):
                return False
        return True

    def pci_address(self) -> str:
        """The PCI address nearest to the device in /sys, "" for none."""
        real = self._tree.resolve(self._sysfs) if self._sysfs else None
        return next((part for part in reversed((real or "").split("/")) if _PCI_ADDRESS.fullmatch(part)), "")

    def numa_node(self) -> int:
        """The NUMA node of that PCI device, -1 when unknown."""
        address = self.pci_address()
        text = self._tree.text(f"/sys/bus/pci/devices/{address}/numa_node") if address else ""
        return int(text) if text.lstrip("-").isdecimal() else -1

    def _value(self, field: str, argument: str) -> str | None:
        name = self.path.rpartition("/")[2]
        if field == "name":
            return name or None
        if field == "number":
            digits = re.search(r"\d+$", name)
            return digits[0] if digits else None
        if field == "index":
            return str(self._index)
        if field == "path":
            return self.path or None
        if field == "attr":
            return self.attribute(argument) or None
        return self._link(argument) if field == "link" else self._alias(argument)

    def _link(self, path: str) -> str | None:
        target = self._tree.readlink(f"{self._sysfs}/{path}") if self._sysfs else None
        return target.rstrip("/").rpartition("/")[2] if target else None

    def _alias(self, directory: str) -> str | None:
        node = self.path if self.path.startswith("/dev/") else ""
        leading = (
            name
            for name in self._tree.names(directory)
            if node and self._tree.readlink(f"{directory}/{name}") and self._tree.resolve(f"{directory}/{name}") == node
        )
        return next(leading, None)


def matches(rule: Rule, tree: Tree) -> Iterator[Match]:
    """What a rule matches, numbers sorted as numbers."""
    index = 0
    for path in expand(tree, rule.match):
        match = Match(rule, path, index, tree)
        is_there = tree.is_directory(path) if path.startswith("/sys/") else tree.node(path) is not None
        if is_there and match.fits():
            index += 1
            yield match


def expand(tree: Tree, pattern: str) -> list[str]:
    """The paths of a tree that a glob matches, sorted; a path without * ? [ is itself, whether it is there or not."""
    paths = [""]
    for part in pattern.strip("/").split("/"):
        name = _ESCAPED.sub(r"\1", part)
        if part == glob.escape(name):
            paths = [f"{path}/{name}" for path in paths]
        else:
            # as in shells, a name that begins with a dot is matched by no pattern that does not
            found = [
                f"{path}/{name}"
                for path in paths
                for name in tree.names(path or "/")
                if fnmatch.fnmatchcase(name, part) and (part[0] == "." or name[0] != ".")
            ]
            paths = found[:_MOST]
    return sorted(paths, key=natural)


def _sysfs_of(path: str, tree: Tree) -> str:
    """The directory in /sys of a device node, "" for none."""
    node = tree.node(path) if path else None
    if node is None or node[0] not in {"b", "c"}:
        return ""
    directory = f"/sys/dev/{'block' if node[0] == 'b' else 'char'}/{node[1]}:{node[2]}"
    return directory if tree.is_directory(directory) else ""
