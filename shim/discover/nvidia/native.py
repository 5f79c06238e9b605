"""Mode nvml: the GPUs of an ordinary Linux host, with everything that a container needs of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.discover.model import Discovery

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

NAME = "nvidia"


def discover(host: Host, wish: Wish) -> Discovery:  # noqa: ARG001 - the interface of all modes
    """What the host has."""
    return Discovery(NAME)
