"""Labels about the node itself: the machine's name, and vGPUs by the PCI configuration space.

A vGPU has a vendor-specific PCI capability with the signature VF, behind which records lie, each with an id and its
length; record 0 holds version and branch of the host's driver. A device assigned as a whole has no such capability.

Source: PCI Local Bus Specification 3.0, chapter 6.7 "Capabilities List"; NVIDIA, "Virtual GPU Software User Guide".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover import pci
from shim.host.tree import Tree
from shim.node.labels import values

if TYPE_CHECKING:
    from shim.host.host import Host

UNKNOWN = "unknown"

_DEVICES = "/sys/bus/pci/devices"
_WHOLE = 256  # bytes of the configuration space; without CAP_SYS_ADMIN the kernel shows 64
_STATUS, _HAS_LIST, _LIST = 0x06, 0x10, 0x34
_VENDOR_SPECIFIC, _BROKEN = 0x09, 0xFF
_SIGNATURE, _RECORDS = slice(3, 5), 5
_TEXT = 10  # bytes of version and branch


class BrokenRecordError(ValueError):
    """A capability with the signature of a vGPU whose records cannot be read."""


def machine(host: Host, path: str) -> str:
    """The machine's name as a label states it; `unknown` where the file cannot be read."""
    data = Tree(host).read(path)
    return UNKNOWN if data is None else values.cleaned(data.decode("utf-8", "replace"))


def vgpu(host: Host) -> tuple[dict[str, str], list[Finding]]:
    """The labels vgpu.* of a node: none where a PCI device cannot be read, since absence is not known then."""
    tree = Tree(host)
    if not tree.is_directory(_DEVICES):
        return {}, []
    labels = {"vgpu.present": "false"}
    for address in pci.addresses(tree, _DEVICES):
        device = pci.PciDevice(tree, address)
        if device.vendor == -1:
            return {}, [_unread(device, "its vendor cannot be read")]
        if device.vendor != pci.NVIDIA:
            continue
        config = tree.read(f"{device.path}/config") or b""
        if len(config) < _WHOLE:
            return {}, [_unread(device, f"{len(config)} bytes of its configuration space can be read, not {_WHOLE}")]
        try:
            found = driver(config[:_WHOLE])
        except BrokenRecordError as error:
            text = f"{address} looks like a vGPU, and {error}: the node gets no label about vGPUs"
            return {}, [Finding("LABELS_PART", text, path=f"{device.path}/config")]
        if found is not None:
            version, branch = found
            labels = {"vgpu.present": "true", "vgpu.host-driver-version": version, "vgpu.host-driver-branch": branch}
    return labels, []


def driver(config: bytes) -> tuple[str, str] | None:
    """Version and branch of the host's driver of a vGPU; None for another device.

    Arguments:
        config: the configuration space of a device.
    Raises:
        BrokenRecordError: a vGPU's records lead nowhere.
    """
    capability = _capability(config)
    if len(capability) < _RECORDS or capability[_SIGNATURE] != b"VF":
        return None
    at = _RECORDS
    while at + 1 < len(capability) and capability[at] != 0:
        length = capability[at + 1]
        if not length:
            raise BrokenRecordError("a record of its capability has no length")
        at += length
    version = capability[at + 2 : at + 2 + _TEXT]
    branch = capability[at + 2 + _TEXT : at + 2 + 2 * _TEXT]
    if len(branch) < _TEXT:
        raise BrokenRecordError("its capability ends before the record of the host's driver")
    return _text(version), _text(branch)


def _capability(config: bytes) -> bytes:
    """The vendor-specific capability, b"" for none. Raises BrokenRecordError: a vGPU's one is longer than the space."""
    if not config[_STATUS] & _HAS_LIST:
        return b""
    at, visited = config[_LIST], set[int]()
    while at and at not in visited and at + 2 < len(config) and config[at] != _BROKEN:
        if config[at] == _VENDOR_SPECIFIC:
            end = at + config[at + 2]
            if end > len(config) and config[at + 3 : at + 5] == b"VF":
                raise BrokenRecordError("its capability is longer than the configuration space")
            return config[at:end]
        visited.add(at)
        at = config[at + 1]
    return b""


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("ascii", "replace")


def _unread(device: pci.PciDevice, why: str) -> Finding:
    text = f"{device.address}: {why}: the node gets no label about vGPUs"
    return Finding("LABELS_PART", text, "run it as root, in a container with its privileges", path=device.path)
