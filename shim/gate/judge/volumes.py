"""Volumes: the local driver, without mount options that bind, or mount what is not listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.gate.judge.json_strict import quoted
from shim.gate.judge.messages import Denied

if TYPE_CHECKING:
    from shim.gate.judge.model import Policy

# Options of mount(8) that bind whatever the type is, or give what the defaults of a volume withhold
_FORBIDDEN = frozenset({
    "bind", "rbind", "move", "remount", "dev", "suid", "shared", "rshared", "slave", "rslave", "private", "rprivate",
    "unbindable", "runbindable",
})  # fmt: skip
_KEYS = frozenset({"type", "device", "o", "size"})


def check_driver(driver: str) -> None:
    """Refuse a driver other than the local one. Raises Denied: volume-driver."""
    if driver not in ("", "local"):
        raise Denied("volume-driver", driver=quoted(driver))


def check_options(options: dict[str, str], policy: Policy) -> None:
    """Refuse options by which the local driver mounts what is not listed.

    Source: volume/local of moby: type, device and o are handed to mount(2); size alone is a quota.
    Raises Denied: volume-options.
    """
    given = {key: value for key, value in options.items() if value}
    types = ", ".join(sorted(policy.volume_types)) or "none"
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        raise Denied("volume-options", types=types, what=f"the option {quoted(unknown[0])}")
    if given.keys() <= {"size"}:
        return
    type = given.get("type", "")
    if type not in policy.volume_types:
        raise Denied("volume-options", types=types, what=f"type {quoted(type)}")
    if type == "tmpfs" and given.get("device") != "tmpfs":
        raise Denied("volume-options", types=types, what=f"device {quoted(given.get('device', ''))} of type tmpfs")
    for word in given.get("o", "").split(","):
        if word.strip().lower() in _FORBIDDEN:
            raise Denied("volume-options", types=types, what=f"the mount option {quoted(word)}")
