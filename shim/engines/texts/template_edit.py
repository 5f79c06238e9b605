"""Change single keys of a k3s or rke2 template that goes on from the base, and leave every other byte as it is.

Such a template is TOML but for one line, `{{ template "base" . }}`, in whose place k3s writes its own configuration. So
it is read and changed as TOML in which that line is a comment. One that says more in the template language is refused.

Source: https://docs.k3s.io/advanced#base-template
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines.texts import toml_edit
from shim.engines.texts.values import get

if TYPE_CHECKING:
    from shim.engines.model import Keys

__all__ = ["BASE", "drop", "get", "loads", "plain", "put", "written"]

BASE = '{{ template "base" . }}\n'
_LINE = re.compile(r'^\{\{-?\s*template\s+"base"\s+\.\s*-?\}\}', re.MULTILINE)
_COMMENT = "#base#"


def plain(text: str, path: str = "") -> str:
    """The TOML in a template, its lines numbered as there.

    Raises:
        CdiError: ENGINE_CONFIG_SHAPE when it does not go on from the base, or has more of the template language.
    """
    marked, count = _LINE.subn(lambda found: _COMMENT + found[0], text)
    if count != 1 or "{{" in marked.replace(_COMMENT + "{{", "", 1):
        said = "it is a template that is more than the base and TOML, so nothing is changed in it"
        raise CdiError([Finding("ENGINE_CONFIG_SHAPE", said, path=path)])
    return marked


def loads(text: str, path: str = "") -> dict[str, Any]:
    """What a template adds to the base. Raises: as `plain`; ENGINE_CONFIG_SYNTAX."""
    return toml_edit.loads(plain(text, path), path)


def put(text: str, keys: Keys, value: Any, path: str = "", written: str = "") -> str:
    """The template with a value at a key. See `toml_edit.put`; raises as `plain`, too."""
    return toml_edit.put(plain(text, path), keys, value, path, written).replace(_COMMENT, "", 1)


def written(text: str, keys: Keys) -> str:
    """How the value of a key is written. See `toml_edit.written`; raises as `plain`."""
    return toml_edit.written(plain(text), keys)


def drop(text: str, keys: Keys, path: str = "") -> str:
    """The template without a key or table. See `toml_edit.drop`; raises as `plain`, too."""
    return toml_edit.drop(plain(text, path), keys, path).replace(_COMMENT, "", 1)
