"""Change single keys of a k3s or rke2 template, and leave every other byte as it is.

Two kinds of templates are TOML, but for one line: those that extend the base by `{{ template "base" . }}`, which k3s
replaces by its own configuration, and those without any of the template language, which Go's text/template prints as
they are, so that they are the whole configuration. That line is read as a comment. A template with more of the
language is refused, with the first line that has it.

Sources: https://docs.k3s.io/advanced#base-template, https://pkg.go.dev/text/template
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines.texts import toml_edit

if TYPE_CHECKING:
    from shim.engines.texts.values import Keys, Table, Value

BASE = '{{ template "base" . }}\n'
_BASE_LINE = re.compile(r'^\{\{-?\s*template\s+"base"\s+\.\s*-?\}\}', re.MULTILINE)
_COMMENT = "#base#"


def is_whole(text: str) -> bool:
    """Whether a template is a whole configuration: without any template language, and not empty."""
    return "{{" not in text and bool(text.strip())


def plain(text: str, path: str = "") -> str:
    """The TOML in a template, with the same line numbers.

    Raises:
        CdiError: ENGINE_CONFIG_SHAPE when it is empty, or has more of the template language than one base.
    """
    if is_whole(text):
        return text
    marked = _BASE_LINE.sub(lambda match: _COMMENT + match[0], text, count=1)
    for number, line in enumerate(marked.splitlines(), 1):
        source = line.removeprefix(_COMMENT + "{{")
        if "{{" in source:
            cause = f"it has more of the template language than one base, here: {source.strip()}"
            raise CdiError([Finding("ENGINE_CONFIG_SHAPE", cause, path=path, line=number)])
    if marked == text:
        cause = "it is an empty template, and k3s writes an empty configuration from it"
        raise CdiError([Finding("ENGINE_CONFIG_SHAPE", cause, path=path)])
    return marked


def loads(text: str, path: str = "") -> Table:
    """What a template adds to the base. Raises: as `plain`; ENGINE_CONFIG_SYNTAX."""
    return toml_edit.loads(plain(text, path), path)


def put(text: str, keys: Keys, value: Value, path: str = "", written: str = "") -> str:
    """The template with a value at a key. See `toml_edit.put`; raises as `plain`, too."""
    return toml_edit.put(plain(text, path), keys, value, path, written).replace(_COMMENT + "{{", "{{", 1)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written. See `toml_edit.written`; raises as `plain`."""
    return toml_edit.written(plain(text), keys)


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The template without a key or table. See `toml_edit.drop`; raises as `plain`, too."""
    return toml_edit.drop(plain(text, path), keys, path).replace(_COMMENT + "{{", "{{", 1)
