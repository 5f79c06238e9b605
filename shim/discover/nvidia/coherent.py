"""Feature enable-coherent-annotations: GPUs apart by whether they share the processor's page tables.

A GPU in the addressing mode ATS (Grace Hopper) reads the memory of a process in place. Programs that need it, or that
cannot live with it, ask for nvidia.com/gpu.coherent or nvidia.com/gpu.noncoherent. Both specs stand beside the usual
one, which has all GPUs. MIG devices are in neither.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shim.base.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.model import Draft, DraftDevice, Wish
    from shim.discover.nvidia.devices import Part

_SUFFIXES = {"ats": "coherent", "hmm": "noncoherent", "none": "noncoherent"}


def split(draft: Draft, wish: Wish, parts: Iterable[Part]) -> tuple[list[Draft], list[Finding]]:
    """The further specs of a draft.

    Arguments:
        draft: the usual spec.
        wish: for its kind.
        parts: the devices.
    Returns:
        a draft for each suffix that a GPU has, and DISCOVERY_PART for a GPU whose mode is unknown.
    """
    devices: dict[str, list[DraftDevice]] = {}
    findings = []
    for part in parts:
        if part.mig or not part.draft:
            continue
        suffix = _SUFFIXES.get(part.gpu.addressing_mode)
        if suffix:
            devices.setdefault(suffix, []).append(part.draft)
        else:
            text = f"GPU {part.gpu.index} is in neither {' nor '.join(sorted(set(_SUFFIXES.values())))}: "
            findings.append(Finding("DISCOVERY_PART", text + "NVML does not tell its addressing mode"))
    kind = wish.kind_of(draft.kind)
    drafts = [
        replace(draft, kind=f"{kind}.{suffix}", devices=tuple(devices[suffix]), suffix=suffix, keeps_kind=True)
        for suffix in sorted(devices)
    ]
    return drafts, findings
