"""Which devices are reserved by an exclusive grant: for those who hand out devices without a subject of their own.

The Kubernetes device plugin asks: the kubelet chooses a device for a pod by itself, so a device that belongs to a
subject alone must not be offered. What counts is hardware, as for grants themselves (shim.grants.overlap): `=all` is
reserved as soon as one of its cards is. A grant of the name alone (`--name-only`) reserves the name alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.grants import overlap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.cdi.types import Served
    from shim.grants.reader import Grants


def exclusive_units(grants: Grants, served: Served, names: Iterable[str] | None = None) -> dict[str, str]:
    """The devices that are reserved for a subject, by name or by hardware.

    Arguments:
        grants: the state of the store, of `shim.grants.reader.Reader.grants` or `read`.
        served: the devices that specs serve; hardware of a name that none serves is not known.
        names: the qualified names that matter; all that specs serve when not given.
    Returns:
        qualified name -> the subject that it is reserved for, without the names that are not reserved.
    """
    reserved = [(grant, overlap.of(grant.device, served)) for grant in grants.all if grant.is_exclusive]
    if not reserved:
        return {}
    units = {}
    for name in served.devices() if names is None else names:
        hardware = overlap.of(name, served)
        for grant, theirs in reserved:
            is_same = not grant.is_by_name and overlap.is_shared(hardware, theirs)
            if grant.device == name or is_same:
                units[name] = grant.subject
                break
    return units
