"""What is granted, and what is hardware: the answers of a World where grants are enforced. Late.

Plain values, so that a decision can be made again from its trace. The grants file is asked about as well: its status is
in the trace, so a decision is repeated only while the grants are unchanged (shim.create.answers).
"""

from __future__ import annotations

from shim.base.findings import CdiError
from shim.grants import overlap, reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.create.world_types import Serving


def answer(kind: str, argument: str, world: Serving) -> Any:
    """An answer of the World, or the CdiError that it is.

    Arguments:
        kind: "grants": the names that are granted to a subject, "names", and of these the "exclusive", sorted;
            "hardware": qualified name -> hardware of the device, hardware of its spec's own edits
            (shim.grants.overlap), of all devices that the specs serve.
        argument: the subject; "" for hardware.
        world: is asked for the status of the grants, and for the specs.
    """
    try:
        return _names(argument, world) if kind == "grants" else _hardware(world)
    except CdiError as error:
        return error


def _names(subject: str, world: Serving) -> dict[str, list[str]]:
    try:
        world.stat(reader.FILE)  # before it is read: a change after that is a difference to this status
    except OSError:
        pass
    grants = reader.read().of(subject)
    exclusive = sorted(grant.device for grant in grants if grant.is_exclusive)
    return {"names": sorted(grant.device for grant in grants), "exclusive": exclusive}


def _hardware(world: Serving) -> dict[str, list[list[str]]]:
    """Nodes are looked up directly: the numbers of every device of the host do not belong into each trace."""
    served = world.served().whole()
    devices = {}
    for name in served.devices():
        found = served.get(name)
        if found:
            spec, device = found
            own, common = overlap.of_edits(spec.devices[device]), overlap.of_edits(spec.edits)
            devices[name] = [sorted(own), sorted(common)]
    return devices
