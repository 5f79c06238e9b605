"""Which units are granted exclusively on this host: those belong to a subject alone, and no pod gets them.

The rule: a unit is taken when a subject has an exclusive grant of its name, or of a name with the same hardware. All
its replicas are taken then, also where it was shared before; a container that runs keeps what it has. What is granted
to the subject of the pods themselves (`subject` of node.toml) is theirs. Where the grants cannot be read every unit is
taken, since nobody knows which are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError
from shim.grants import overlap
from shim.node.plugin.units import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shim.cdi.directories import Directories
    from shim.grants.reader import Grants
    from shim.host.look import Look
    from shim.node.plugin.units import Unit


def taken(
    units: Iterable[Unit], grants: Grants | CdiError, subject: str, served: Directories, look: Look
) -> Mapping[str, str]:
    """The units that are taken: qualified name -> by whom, as a reason.

    Arguments:
        units: of all resources.
        grants: of the host; the error where they cannot be read.
        subject: of the pods, "" for none.
        served: the devices of the specs.
        look: its `stat` is used.
    """
    every = list(units)
    if isinstance(grants, CdiError):
        finding = grants.findings[0]
        return dict.fromkeys((unit.name for unit in every), f"{finding} ({finding.remedy})")
    exclusive = [grant for grant in grants.all if grant.is_exclusive and grant.subject != subject]
    if not exclusive:
        return {}
    sharing = Sharing()
    for unit in every:
        sharing.add(unit.name, unit.hardware)
    names = {unit.name for unit in every}
    reasons: dict[str, str] = {}
    for grant in exclusive:
        hit = [grant.device] if grant.device in names else []
        if not grant.is_by_name:
            hit += sharing.of(overlap.of(grant.device, served, look))
        for name in hit:
            other = "it" if grant.device == name else f"{grant.device}, which is the same hardware,"
            remedy = f"`shim grant revoke {grant.subject} --device {grant.device}` gives it back"
            reasons.setdefault(name, f"{other} is granted exclusively to {grant.subject} ({remedy})")
    return reasons
