"""How a spec was generated: the wish beside each file that shim wrote, so that a refresh asks for the same again.

/var/lib/shim/generated/NAME-HASH.json     HASH of the spec's path: two directories may have a file of one name
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from shim.discover import state
from shim.discover.model import Wish
from shim.host.identity import short_name

if TYPE_CHECKING:
    from shim.host.host import Host

_FORMAT = 1
_SETS = ("disabled_hooks", "enabled_hooks", "features")


@dataclass(frozen=True)
class Remembered:
    """How a spec was generated.

    Attributes:
        path: of the spec.
        vendor: the module that discovers its devices.
        kind: of the spec.
        suffix: of the draft, see shim.discover.model.Draft.
        format: yaml or json.
        engines: words of --for.
        wish: what was asked for.
    """

    path: str
    vendor: str
    kind: str
    suffix: str
    format: str
    engines: tuple[str, ...]
    wish: Wish


def every(host: Host) -> list[Remembered]:
    """All of them, in the order of the files' names. Raises CdiError: DISCOVERY_STATE."""
    return [state.load(host, path, _from_json) for path in state.names(host, _directory())]


def save(host: Host, remembered: Remembered) -> None:
    """Keep how a spec was generated. Raises CdiError: DISCOVERY_STATE."""
    wish = {name: sorted(value) if name in _SETS else value for name, value in asdict(remembered.wish).items()}
    document = {"format_version": _FORMAT, **asdict(remembered), "wish": wish}
    path = _file(remembered.path)
    if host.text(path) != state.encode(document).decode().strip():  # a refresh changes nothing about it
        state.save(host, path, document)


def forget(host: Host, path: str) -> None:
    """Leave a spec alone from now on. Raises CdiError: DISCOVERY_STATE."""
    state.forget(host, _file(path))


def text(host: Host, path: str) -> str:
    """The text of the file beside a spec, "" where shim did not write the spec. Raises CdiError: DISCOVERY_STATE."""
    state.names(host, _directory())  # refuses what others could have written
    return host.text(_file(path))


def put_back(host: Host, path: str, text: str) -> None:
    """Write the file beside a spec with a text of `text`. Raises CdiError: DISCOVERY_STATE."""
    state.keep(host, _file(path), text.encode() + b"\n")


def _directory() -> str:
    return state.directory("generated")


def _file(path: str) -> str:
    return f"{_directory()}/{path.rpartition('/')[2]}-{short_name(path)}.json"


def _from_json(document: dict[str, Any]) -> Remembered:
    if document.pop("format_version") != _FORMAT:
        raise ValueError("another version of shim wrote it")
    wish = document.pop("wish")
    usual = Wish("")
    for field in fields(Wish):
        value = wish.get(field.name, getattr(usual, field.name))
        wish[field.name] = (
            frozenset(value) if field.name in _SETS else tuple(value) if isinstance(value, list) else value
        )
    engines = tuple(document.pop("engines"))
    return Remembered(**document, engines=engines, wish=Wish(**wish))
