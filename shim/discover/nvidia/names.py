"""Names of GPUs and MIG devices, by the strategies of --device-name-strategy.

strategy      GPU        MIG device     one of which NVML was not asked
index         0          0:1            0:gi7:ci0
type-index    gpu0       mig0:1         mig0:gi7:ci0
uuid          GPU-...    MIG-...        none
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.cdi.names import BadName, parse_qualified

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.discover.nvidia.snapshot import Gpu, Mig

INDEX, UUID, TYPE_INDEX = "index", "uuid", "type-index"
STRATEGIES = (INDEX, UUID, TYPE_INDEX)
_USUAL = (INDEX, UUID)


def strategies(wish: Wish) -> tuple[str, ...]:
    """The strategies that are asked for, the usual ones where none is.

    Raises CdiError: DISCOVERY_WISH for one that does not exist, or is given twice.
    """
    for number, name in enumerate(wish.names):
        if name not in STRATEGIES:
            text = f"--device-name-strategy {name}: no such strategy (there are: {', '.join(STRATEGIES)})"
            raise CdiError([Finding("DISCOVERY_WISH", text)])
        if name in wish.names[:number]:
            raise CdiError([Finding("DISCOVERY_WISH", f"--device-name-strategy {name} is given twice")])
    return wish.names or _USUAL


def index_of(gpu: Gpu, mig: Mig | None = None) -> str:
    """The index of a device, as --device takes it: 0, 0:1, or 0:gi7:ci0 for a MIG device without an index."""
    if mig is None:
        return str(gpu.index)
    return f"{gpu.index}:{mig.index}" if mig.index >= 0 else f"{gpu.index}:gi{mig.gi}:ci{mig.ci}"


def named(wanted: tuple[str, ...], gpu: Gpu, mig: Mig | None = None) -> tuple[str, ...]:
    """The names of a device by some strategies, in their order; without a UUID that is unknown."""
    index = index_of(gpu, mig)
    by = {INDEX: index, TYPE_INDEX: f"{'mig' if mig else 'gpu'}{index}", UUID: (mig or gpu).uuid}
    return tuple(by[strategy] for strategy in wanted if by[strategy])


def fault(name: str) -> str:
    """Why a name cannot be that of a device; "" for a good one."""
    try:
        parse_qualified(f"nvidia.com/gpu={name}")
    except BadName as error:
        return f"the driver names it {name!r}, which is no name of a device: {error}"
    return ""
