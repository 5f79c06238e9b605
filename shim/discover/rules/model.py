"""A rule as it was read: which devices it matches, and what it adds to a container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True)
class RuleMount:
    """A bind mount of a rule: templates of its source and target, options, and whether the source may be missing."""

    source: str
    target: str
    options: tuple[str, ...] = ()
    is_optional: bool = False


@dataclass(frozen=True)
class Additions:
    """What a rule adds to a container.

    Attributes:
        nodes: (template, whether it may be missing).
        mounts: bind mounts.
        env: (name, template).
        links: (template of the link, template of its text).
        folders: directories of libraries in the container.
        hooks: CDI hook objects.
    """

    nodes: tuple[tuple[str, bool], ...] = ()
    mounts: tuple[RuleMount, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    hooks: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        path, line, number: the file, the line of its header, and which rule of the file it is, counted from 1.
        kind: VENDOR/CLASS.
        match: a glob of device nodes, or of directories below /sys.
        names: templates of the device's names.
        model: a template for the inventory, "" for none.
        where: (path of an attribute, globs of its text).
        additions: for each device.
        common: for all devices of the kind.
        has_all: whether there is a device `all`.
    """

    path: str
    line: int
    number: int
    kind: str
    match: str
    names: tuple[str, ...]
    model: str = ""
    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    additions: Additions = Additions()
    common: Additions = Additions()
    has_all: bool = True
