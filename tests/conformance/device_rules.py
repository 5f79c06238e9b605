"""Named rules for GPUs and MIG devices: each accepts a difference only when NVML or the host bears it out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import wishes

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.base.findings import Finding
    from shim.host.tree import Tree

    from .effects import Difference, Effects

_LEFT_OUT = re.compile(r"(?:GPU|MIG device) (\S+) (?:\(([^)]*)\) )?is left out: ")
_WIDE_DOMAIN = re.compile(r"0*[1-9a-f][0-9a-f]{4,}:", re.IGNORECASE)
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_DISPLAYS = ("DGX Display", "NVIDIA DGX Display")
_NOT_FOUND = ("LIBRARY_NOT_FOUND", "failed to locate")


@dataclass(frozen=True)
class Devices:
    """What a difference is judged by.

    Attributes:
        host: the machine.
        nvml: what NVML answers.
        roots: of the driver and the nodes, as they were given.
        asked: devices that were asked for.
        findings: what we report.
        ours, theirs: device -> effects.
    """

    host: Tree
    nvml: dict[str, Any]
    roots: tuple[str, ...]
    asked: tuple[str, ...]
    findings: list[Finding]
    ours: dict[str, Effects]
    theirs: dict[str, Effects]

    @property
    def left_out(self) -> set[str]:
        """The index, UUID and address of each device that we report and leave out."""
        matches = [match for match in (_LEFT_OUT.match(finding.text) for finding in self.findings) if match]
        return {word for match in matches for word in (match[1], *(match[2] or "").split(", ")) if word}

    @property
    def indexes(self) -> list[tuple[str, dict[str, Any]]]:
        """The index of each device of NVML, and its GPU; a GPU in MIG mode stands for its MIG devices."""
        every: list[tuple[str, dict[str, Any]]] = []
        for index, gpu in enumerate(self.nvml.get("gpus", ())):
            migs = gpu.get("mig", ()) if gpu.get("mig_enabled") else ()
            numbers = sorted(map(int, migs)) if isinstance(migs, dict) else range(len(migs))
            every += [(f"{index}:{number}", gpu) for number in numbers] or [(str(index), gpu)]
        return every


def devices(
    given: dict[str, Any], host: Tree, findings: list[Finding], ours: dict[str, Effects], theirs: dict[str, Effects]
) -> Devices:
    """What a case's differences are judged by."""
    roots: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    try:
        wish, texts = wishes.wish_of(given["argv"], given.get("env") or {}, host.host)
    except wishes.UsageError:
        pass
    else:
        written = (wish.driver_root, wish.dev_root, texts.get("--driver-root", ""), texts.get("--dev-root", ""))
        roots = tuple(root.rstrip("/") for root in dict.fromkeys(written) if root.rstrip("/"))
        asked = wish.devices
    return Devices(host, given.get("nvml") or {}, roots, asked, findings, ours, theirs)


def _migs(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    migs = gpu.get("mig", [])
    return list(migs.values() if isinstance(migs, dict) else migs)


def rule_of(devices: Devices, difference: Difference) -> str | None:
    """The id of the deviation that explains a difference; None when none does."""
    return next((id for id, explains in _RULES.items() if explains(devices, *difference)), None)


def _node_missing(devices: Devices, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A device that is of no use without a node, by itself and its nodes in `all`."""
    gone = [name for name in devices.theirs if name.partition("=")[2] in devices.left_out]
    if group == "device":
        return device in gone and mine is None
    is_all = device.endswith("=all") and mine is None
    return is_all and any(key in devices.theirs[name][group] for name in gone)


def _pci_domain(devices: Devices, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """DRM nodes of a GPU in a wide domain, and their links."""
    wide = {
        name: gpu for index, gpu in devices.indexes if _WIDE_DOMAIN.match(gpu["pci"]) for name in (index, gpu["uuid"])
    }
    is_wide = device.partition("=")[2] in {*wide, "all"} if wide else False
    is_drm = group in {"node", "link"} and key.startswith("/dev/dri/")
    return is_wide and is_drm and wanted is None and mine is not None


def _root(devices: Devices, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A node or link whose path has the machine's path of the root before it, and a root that leads to ours."""
    if group not in {"node", "link"} or device not in devices.ours:
        return False
    if mine is not None and wanted is not None:
        paths = [devices.host.resolve(value[0]) for value in (mine, wanted)] if group == "node" else [None, None]
        return paths[0] is not None and paths[0] == paths[1] and mine[1:] == wanted[1:]
    effects = devices.ours if mine is None else devices.theirs
    for root in devices.roots:
        other = key[len(root) :] if mine is None and key.startswith(f"{root}/") else f"{root}{key}"
        if other in effects[device][group]:
            return mine is None or group == "node" or effects[device][group][other] == f"{root}{mine}"
    return False


_RULES: dict[str, Callable[..., bool]] = {
    "node-missing": _node_missing,
    "pci-domain": _pci_domain,
    "resolved-root": _root,
}


def healthy(devices: Devices, error: str) -> str | None:
    """The rule for a host that they refuse: each device is written, or left out with its cause.

    Where none is left out, it must be what NVML does not tell and no device needs, or a MIG profile that they do not
    know.
    """
    is_untold = "Instance Profile" in error or any(
        part.get("error") for _, gpu in devices.indexes for part in (gpu, *_migs(gpu))
    )
    is_lost = any(text in error for text in _NOT_FOUND) or not (devices.left_out or is_untold)
    if is_lost or not devices.ours or not devices.indexes:
        return None
    written = {name.partition("=")[2] for name in devices.ours}
    known = written | devices.left_out
    every = all({index, gpu.get("uuid", "")} & known for index, gpu in devices.indexes)
    return "healthy-devices" if every and not others(devices) else None


def refusal(devices: Devices) -> str | None:
    """The rule for a host that they write and we do not."""
    (text,) = [finding.text for finding in devices.findings if finding.level == "ERROR"][:1] or [""]
    if text == "the driver's version is unknown":
        failed = {"Init", "SystemGetDriverVersion"} & devices.nvml.get("error", {}).keys()
        is_known = devices.nvml.get("driver_version") and not failed
        return None if is_known else "driver-version"
    gpus = devices.nvml.get("gpus", ())
    unusable = {
        word
        for index, gpu in enumerate(gpus)
        if gpu.get("mig_enabled") or gpu.get("name") in _DISPLAYS
        for word in (str(index), gpu.get("uuid"))
    }
    asked = [word for word in devices.asked if word in unusable | devices.left_out]
    is_about = text.startswith(tuple(f"--device {word}: " for word in asked) or ("\0",)) or _LEFT_OUT.match(text)
    return "unusable-device" if asked and is_about else None


def others(devices: Devices) -> list[Finding]:
    """The errors that are not about a device that is left out."""
    return [finding for finding in devices.findings if finding.level == "ERROR" and not _LEFT_OUT.match(finding.text)]


def missing_control(devices: Devices) -> str | None:
    """The rule for nodes of the driver that are missing, which we report and they do not."""
    for finding in others(devices):
        path = next((path for path in _CONTROL if f"{path}, without which" in finding.text), None)
        if finding.id != "DISCOVERY_INCOMPLETE" or path is None:
            return None
        if any(path in effects["node"] for effects in devices.ours.values()):
            return None
    return "required-missing"
