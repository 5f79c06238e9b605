"""Collect: the labels of a node, of all vendors that are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.discover import nvidia as nvidia_devices
from shim.discover import vendors
from shim.discover.model import Wish
from shim.node.labels import devices, nvidia
from shim.node.labels.model import Labels

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.host.host import Host
    from shim.node.labels.model import Request

_NVIDIA = "nvidia"


def collect(host: Host, request: Request, now: float | None = None) -> Labels:
    """The labels of a node.

    Arguments:
        host: the machine.
        request: what is asked for.
        now: seconds since 1970; the clock's when not given.
    Raises:
        CdiError: DISCOVERY_WISH for a vendor that does not exist.
    """
    wish = Wish("", driver_root=request.driver_root)
    written: dict[str, str] = {}
    findings: list[Finding] = []
    asked = vendors.names(request.vendors)
    if _NVIDIA in asked and (_NVIDIA in request.vendors or nvidia_devices.is_present(host, wish)):
        own = nvidia.labels(host, request, now)
        written |= own.values
        findings += own.findings
    named = [name for name in asked if name != _NVIDIA]
    for name in named:
        if name in request.vendors or vendors.module(name).is_present(host, wish):
            discovery = vendors.module(name).discover(host, wish)
            written |= devices.labels(host, discovery.devices, request.sharing)
            findings += [finding.as_warning() for finding in discovery.findings]
    return Labels(written, tuple(findings))
