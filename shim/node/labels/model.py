"""What is asked of the labels, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.node.labels.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.base.findings import Finding

MACHINE = "/sys/class/dmi/id/product_name"
MIG_STRATEGIES = ("none", "single", "mixed")
SOURCES = ("auto", "nvml", "tegra", "vfio")


@dataclass(frozen=True)
class Request:
    """What labels are asked for.

    Attributes:
        vendors: words of --vendor: auto, or modules of shim.discover.vendors; one that is named is labelled even where
            nothing of it is present.
        mig_strategy: how MIG devices are labelled: none, single or mixed.
        source: of what NVIDIA's labels state: auto, nvml, tegra or vfio.
        may_lack_driver: whether a driver of NVIDIA that cannot be asked is no failure.
        has_timestamp: whether a label has the time.
        machine_file: whose text names the machine.
        sharing: how the device plugin shares devices.
        driver_root: the root in which the driver's files lie.
    """

    vendors: tuple[str, ...] = ("auto",)
    mig_strategy: str = "none"
    source: str = "auto"
    may_lack_driver: bool = False
    has_timestamp: bool = True
    machine_file: str = MACHINE
    sharing: Sharing = field(default_factory=Sharing)
    driver_root: str = "/"


@dataclass(frozen=True)
class Labels:
    """Labels of a node.

    Attributes:
        values: name -> value.
        findings: what is missing or wrong; with one of level ERROR the labels are not whole, and are not written.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
