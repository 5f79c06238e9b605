"""What the driver answers about its GPUs, as data: the same from NVML and from /proc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shim.base.findings import Finding


@dataclass(frozen=True)
class Mig:
    """A MIG device.

    Attributes:
        index: among the MIG devices of its GPU, as NVML counts them; gaps are possible.
        uuid: MIG-...; "" when unknown.
        gi: id of its GPU instance, -1 when unknown.
        ci: id of its compute instance, -1 when unknown.
        profile: its name, such as 1g.10gb; "" when unknown.
        memory: bytes; 0 when unknown.
        error: why it cannot be used; "" for a healthy device.
    """

    index: int
    uuid: str = ""
    gi: int = -1
    ci: int = -1
    profile: str = ""
    memory: int = 0
    error: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        index: as NVML counts, in the order of PCI addresses.
        minor: number N of its node /dev/nvidiaN, -1 when unknown.
        uuid: GPU-...; "" when unknown.
        pci_address: as sysfs writes it, such as 0000:3b:00.0; "" when unknown.
        name: the model.
        memory: bytes; 0 when unknown.
        mig_enabled: whether it is in MIG mode, in which only its MIG devices can be used.
        mig: its MIG devices.
        addressing_mode: none (also of a GPU or driver that knows of no other), hmm or ats; "" when unknown.
        numa: NUMA node, -1 when unknown.
        error: why it cannot be used; "" for a healthy GPU.
    """

    index: int
    minor: int = -1
    uuid: str = ""
    pci_address: str = ""
    name: str = ""
    memory: int = 0
    mig_enabled: bool = False
    mig: tuple[Mig, ...] = ()
    addressing_mode: str = ""
    numa: int = -1
    error: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The driver's answers.

    Attributes:
        driver_version: of the kernel module, else as NVML has it; "" when unknown.
        cuda_version: the newest that the driver supports, such as 12.8; "" when unknown.
        gpus: by index.
        source: nvml, proc, or "" where neither could be asked.
        errors: what went wrong apart from single devices: NVML missing, unusable, of another version.
    """

    driver_version: str = ""
    cuda_version: str = ""
    gpus: tuple[Gpu, ...] = ()
    source: str = ""
    errors: tuple[Finding, ...] = ()

    @property
    def is_loaded(self) -> bool:
        """Whether the driver answered at all."""
        return self.source != ""
