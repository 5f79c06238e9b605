"""Small JSON files of ours that outlive a boot: what was generated and how, what a takeover moved away.

They lie below /var/lib/shim (rootless: shim in $XDG_STATE_HOME), in directories that nobody else can write, since what
they say is done again as root.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from shim.host.host import Host

    Value = TypeVar("Value")

SYSTEM_DIRECTORY = "/var/lib/shim"


def directory(name: str) -> str:
    """The directory of this user's files of a kind."""
    if identity.is_rootful():
        return f"{SYSTEM_DIRECTORY}/{name}"
    home = identity.user_directory(b"XDG_STATE_HOME", ".local/state", dict(os.environb))
    return f"{home or Path.home() / '.local/state'}/shim/{name}"


def names(host: Host, top: str) -> list[str]:
    """The paths of the JSON files in a directory of ours, sorted.

    Raises CdiError: DISCOVERY_STATE where others could have written them.
    """
    _check(host, top)
    return host.glob(f"{top}/*.json")


def load(host: Host, path: str, make: Callable[[dict[str, Any]], Value]) -> Value:
    """What a file says.

    Arguments:
        host: the machine.
        path: a path of `names`.
        make: makes the value of the document; its ValueError, LookupError and TypeError mean that it is damaged.
    Raises:
        CdiError: DISCOVERY_STATE.
    """
    try:
        document = json.loads(host.read(path) or b"")
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object")
        return make(document)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _refused(
            path, f"it is damaged: {error}", f"remove it (`rm {path}`), and generate the spec again"
        ) from None


def save(host: Host, path: str, document: dict[str, Any]) -> None:
    """Write a file, with mode 0600. Raises CdiError: DISCOVERY_STATE."""
    keep(host, path, encode(document))


def encode(document: dict[str, Any]) -> bytes:
    """The text of a file."""
    return json.dumps(document, indent=1).encode() + b"\n"


def keep(host: Host, path: str, data: bytes) -> None:
    """Write the bytes of a file, with mode 0600. Raises CdiError: DISCOVERY_STATE."""
    top = path.rpartition("/")[0]
    _check(host, top)
    try:
        _make_private(host.real(top))
        files.write(host.real(path), data, mode=0o600, keep=False, follow=False)
    except (OSError, ValueError) as error:
        raise _refused(path, f"it cannot be written: {reason(error)}", remedies.to_write(error)) from None


def forget(host: Host, *paths: str) -> None:
    """Remove files, and their directory where it is empty then. Raises CdiError: DISCOVERY_STATE."""
    try:
        for path in paths:
            host.real(path).unlink(missing_ok=True)
        for top in {host.real(path).parent for path in paths}:
            if top.is_dir() and not any(top.iterdir()):
                top.rmdir()
    except OSError as error:
        raise _refused(paths[0], f"it cannot be removed: {reason(error)}", remedies.to_write(error)) from None


def _check(host: Host, top: str) -> None:
    if identity.is_rootful():
        objection = host.objection(top)
    else:  # a home may be writable for the user's own group
        real = str(host.real(top))
        objection = "" if identity.is_ours(real) or not os.path.lexists(real) else "it is not this user's alone"
    if objection:
        raise _refused(top, f"what is in it does not count: {objection}", "move it away, and generate the specs again")


def _make_private(path: Path) -> None:
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, with mode 0755 whatever the umask is. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)


def _refused(path: str, text: str, remedy: str = "") -> CdiError:
    return CdiError([Finding("DISCOVERY_STATE", text, remedy, path=path)])
