"""Units of systemd that write specs of another generator: stopped so that they stay so, and restored as they were.

A unit may be started by a `wants` link, by a path or timer unit, or by a udev rule, which disabling does not touch. So
it is masked, by a link to /dev/null in /etc/systemd/system, as `systemctl mask` does it; where its own file lies there,
which a mask would replace, its `wants` links are removed, as `systemctl disable` does it. Both hold on a machine on
which systemd does not run now, such as an image of a system.

Source: systemd.unit(5), "Unit File Load Path"; systemctl(1), mask and disable.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base import remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.host.host import Host

DIRECTORY = "/etc/systemd/system"
_RUNNING = "/run/systemd/system"  # sd_booted(3)
_NULL = "/dev/null"


@dataclass
class Unit:
    """A unit as it was before it was stopped.

    Attributes:
        name: with its suffix.
        is_active: whether it ran; of a path or timer unit, whether it waited.
        mask: the link that masks it, "" for none.
        wants: path -> text of its links in `wants` and `requires` directories, which go where it is not masked.
    """

    name: str
    is_active: bool = False
    mask: str = ""
    wants: dict[str, str] = field(default_factory=dict)


def look(host: Host, names: Iterable[str]) -> list[Unit]:
    """How units are now, and how each of them would be stopped."""
    return [_look(host, name) for name in names]


def stop(host: Host, units: Iterable[Unit]) -> None:
    """Stop units, and keep them from being started. Raises CdiError: TAKEOVER."""
    listed = list(units)
    try:
        for unit in listed:
            if unit.mask and not os.path.lexists(host.real(unit.mask)):
                host.real(unit.mask).parent.mkdir(parents=True, exist_ok=True)
                host.real(unit.mask).symlink_to(_NULL)
            for path in unit.wants:
                host.real(path).unlink(missing_ok=True)
    except OSError as error:
        raise _refused("it cannot be disabled", listed, error) from None
    if listed and host.exists(_RUNNING):
        _systemctl(host, "daemon-reload")
        for unit in listed:
            if unit.is_active:
                _systemctl(host, "stop", unit.name)


def restore(host: Host, units: Iterable[Unit]) -> None:
    """Make units what they were. Raises CdiError: TAKEOVER."""
    listed = list(units)
    try:
        for unit in listed:
            if unit.mask and host.readlink(unit.mask) == _NULL:
                host.real(unit.mask).unlink()
            for path, text in unit.wants.items():
                if not os.path.lexists(host.real(path)):
                    host.real(path).parent.mkdir(parents=True, exist_ok=True)
                    host.real(path).symlink_to(text)
    except OSError as error:
        raise _refused("it cannot be enabled again", listed, error) from None
    if listed and host.exists(_RUNNING):
        _systemctl(host, "daemon-reload")
        for unit in listed:
            if unit.is_active:
                _systemctl(host, "start", unit.name)


def _look(host: Host, name: str) -> Unit:
    unit = Unit(name)
    if host.exists(_RUNNING):
        unit.is_active = (host.ask("systemctl", "is-active", name) or "").strip() == "active"
    own = f"{DIRECTORY}/{name}"
    if os.path.lexists(host.real(own)):
        for path in _starting_links(host, name):
            text = host.readlink(path)
            if text is not None:
                unit.wants[path] = text
    else:
        unit.mask = own
    return unit


def _starting_links(host: Host, name: str) -> list[str]:
    """Where the links of a unit in `wants` and `requires` directories would lie."""
    names = sorted(path.name for path in host.real(DIRECTORY).iterdir())
    return [f"{DIRECTORY}/{directory}/{name}" for directory in names if directory.endswith((".wants", ".requires"))]


def _systemctl(host: Host, *words: str) -> None:
    refusal = host.refusal("systemctl", *words)
    if refusal:
        text = f"`systemctl {' '.join(words)}` failed: {refusal.splitlines()[-1]}"
        raise CdiError([Finding("TAKEOVER", text, "let systemd answer first: `systemctl status`")])


def _refused(what: str, units: list[Unit], error: OSError) -> CdiError:
    names = ", ".join(unit.name for unit in units)
    return CdiError([Finding("TAKEOVER", f"{names}: {what}: {reason(error)}", remedies.to_write(error))])
