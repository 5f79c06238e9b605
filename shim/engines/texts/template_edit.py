"""Change single keys of a k3s or rke2 template that extends the base, and leave every other byte as it is.

Such a template is TOML except for one line, `{{ template "base" . }}`, which k3s replaces by its own configuration. It
is read and changed as TOML in which that line is a comment. A template with more of the template language is refused.

Source: https://docs.k3s.io/advanced#base-template
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


def plain(text: str, path: str = "") -> str:
    """The TOML in a template, with the same line numbers.

    Raises:
        CdiError: ENGINE_CONFIG_SHAPE when it does not extend the base, or has more of the template language.
    """
    marked, count = _BASE_LINE.subn(lambda match: _COMMENT + match[0], text)
    if count != 1 or "{{" in marked.replace(_COMMENT + "{{", "", 1):
        cause = "it is a template that is more than the base and TOML, so nothing is changed in it"
        raise CdiError([Finding("ENGINE_CONFIG_SHAPE", cause, path=path)])
    return marked


def loads(text: str, path: str = "") -> Table:
    """What a template adds to the base. Raises: as `plain`; ENGINE_CONFIG_SYNTAX."""
    return toml_edit.loads(plain(text, path), path)


def put(text: str, keys: Keys, value: Value, path: str = "", written: str = "") -> str:
    """The template with a value at a key. See `toml_edit.put`; raises as `plain`, too."""
    return toml_edit.put(plain(text, path), keys, value, path, written).replace(_COMMENT, "", 1)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written. See `toml_edit.written`; raises as `plain`."""
    return toml_edit.written(plain(text), keys)


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The template without a key or table. See `toml_edit.drop`; raises as `plain`, too."""
    return toml_edit.drop(plain(text, path), keys, path).replace(_COMMENT, "", 1)
