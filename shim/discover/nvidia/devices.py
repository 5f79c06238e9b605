"""The devices of a snapshot: each GPU and each MIG device on its own, with its nodes, names and faults.

A device with a fault is left out and reported with the cause; the others are written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.model import Device, DraftDevice
from shim.discover.nvidia import names, options, pci, proc

if TYPE_CHECKING:
    from shim.discover.edits import Edits
    from shim.discover.model import Wish
    from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
    from shim.host.host import Host
    from shim.host.tree import Tree

KIND = f"{options.DOMAIN}/gpu"
# Chips of a DGX Station that drive its displays; CUDA cannot use them
_DISPLAYS = frozenset({"DGX Display", "NVIDIA DGX Display"})
_GRAPHICS = "+gfx"  # mark of a MIG profile that can use DRM nodes
_BY_PATH = "/dev/dri/by-path"


@dataclass(frozen=True)
class Part:
    """A GPU or MIG device.

    Attributes:
        gpu: the GPU, for a MIG device its parent.
        mig: the MIG device, None for a GPU.
        draft: what a spec has of it; None where it is left out.
        finding: why it is left out, None where it is not.
    """

    gpu: Gpu
    mig: Mig | None = None
    draft: DraftDevice | None = None
    finding: Finding | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Words by which --device names it, whatever the strategies are."""
        own = names.index_of(self.gpu, self.mig)
        known = (own, self.mig.uuid) if self.mig else (own, self.gpu.uuid, self.gpu.pci_address)
        return tuple(word for word in known if word)


class _LeftOutError(Exception):
    """Why a device is left out."""

    def __init__(self, id: str, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.id, self.text, self.remedy = id, text, remedy


class Builder:
    """Makes the devices of a snapshot.

    Arguments:
        host: the machine, whose /proc and /sys describe the hardware.
        tree: the root of the device nodes.
        wish: names and features that are asked for.
        snapshot: the driver's answers.
    """

    def __init__(self, host: Host, tree: Tree, wish: Wish, snapshot: Snapshot) -> None:
        self._host, self._tree, self._wish, self._snapshot = host, tree, wish, snapshot
        self._strategies = names.strategies(wish)
        self._capabilities: dict[proc.Capability, int] | None = None
        self._minors = Counter(gpu.minor for gpu in snapshot.gpus if gpu.minor >= 0)

    def parts(self) -> list[Part]:
        """All devices, in the order of the hardware; a GPU in MIG mode stands for its MIG devices, if it has some."""
        made = []
        for gpu in self._snapshot.gpus:
            if gpu.name in _DISPLAYS:
                continue
            migs = gpu.mig if gpu.mig_enabled and not gpu.error else ()
            made += [self._part(gpu, mig) for mig in migs or (None,)]
        counts = Counter(name for part in made if part.draft for name in part.draft.names)
        return [self._unique(part, counts) for part in made]

    def inventory(self, part: Part) -> Device:
        """The device for the inventory."""
        gpu, mig, draft = part.gpu, part.mig, part.draft
        kind = self._wish.kind_of(KIND)
        model = f"{gpu.name} MIG {mig.profile}".strip() if mig else gpu.name
        return Device(
            names.index_of(gpu, mig),
            options.VENDOR,
            model,
            self._snapshot.driver_version,
            (mig or gpu).memory,
            gpu.pci_address,
            gpu.numa,
            uuid=(mig or gpu).uuid,
            cdi_names=tuple(f"{kind}={name}" for name in draft.names) if draft else (),
            nodes=tuple(node.host_path for node in draft.edits.nodes.values()) if draft else (),
        )

    def _part(self, gpu: Gpu, mig: Mig | None) -> Part:
        part = Part(gpu, mig)
        try:
            return Part(gpu, mig, self._draft(part))
        except _LeftOutError as fault:
            return self._left_out(part, fault)

    def _unique(self, part: Part, counts: Counter[str]) -> Part:
        """The device, left out where another has a name of it: a request could mean either."""
        shared = [name for name in part.draft.names if counts[name] > 1] if part.draft else []
        if not shared:
            return part
        return self._left_out(part, _LeftOutError("DISCOVERY_DEVICE", f"another device is named {shared[0]}, too"))

    def _left_out(self, part: Part, fault: _LeftOutError) -> Part:
        gpu, mig = part.gpu, part.mig
        title = f"MIG device {names.index_of(gpu, mig)}" if mig else f"GPU {gpu.index}"
        known = ", ".join(part.ids[1:])
        text = f"{title}{f' ({known})' if known else ''} is left out: {fault.text}"
        return Part(gpu, mig, finding=Finding(fault.id, text, fault.remedy))

    def _draft(self, part: Part) -> DraftDevice:
        gpu, mig = part.gpu, part.mig
        if gpu.error or (mig and mig.error):
            raise _LeftOutError("DISCOVERY_DEVICE", gpu.error or (mig and mig.error) or "")
        if gpu.mig_enabled and mig is None:
            text = "it is in MIG mode and has no MIG device"
            remedy = f"nvidia-smi mig -i {gpu.index} -cgi 0 -C makes one; nvidia-smi -i {gpu.index} -mig 0 ends it"
            raise _LeftOutError("DISCOVERY_PART", text, remedy)
        given = names.named(self._strategies, gpu, mig)
        if not given:
            text = "its UUID is not known before the GPU was used, and no other name is asked for"
            raise _LeftOutError("DISCOVERY_DEVICE", text, "run nvidia-smi once, or add --device-name-strategy index")
        for name in given:
            if names.fault(name):
                raise _LeftOutError("DISCOVERY_DEVICE", names.fault(name))
        edits = options.new_edits(self._wish)
        self._add_node(edits, gpu)
        if mig is not None:
            self._add_capabilities(edits, gpu, mig)
        if mig is None or _GRAPHICS in mig.profile:
            self._add_drm(edits, gpu)
        return DraftDevice(given, edits, part.ids)

    def _add_node(self, edits: Edits, gpu: Gpu) -> None:
        if gpu.minor < 0:
            raise _LeftOutError("DISCOVERY_DEVICE", "the driver does not tell the number of its device node")
        if self._minors[gpu.minor] > 1:
            raise _LeftOutError("DISCOVERY_DEVICE", f"another GPU has the same device node /dev/nvidia{gpu.minor}")
        path = f"/dev/nvidia{gpu.minor}"
        if edits.add_node(self._tree, path) and edits.nodes[path].node[0] == "c":
            return
        shown = self._tree.host_path(path)
        link = self._tree.readlink(path)
        if link is not None:
            text = f"{shown} is a link to {link}: links are not injected"
        elif self._tree.lstat(path) is not None:
            text = f"{shown} is no character device"
        else:
            text = f"there is no device node {shown}"
        raise _LeftOutError("DISCOVERY_DEVICE", text, "make the node: nvidia-modprobe -c " + str(gpu.minor))

    def _add_capabilities(self, edits: Edits, gpu: Gpu, mig: Mig) -> None:
        """The nodes that give access to a GPU instance and a compute instance."""
        if self._capabilities is None:
            self._capabilities = proc.capabilities(self._host)
        for ci in (-1, mig.ci):
            number = self._capabilities.get((gpu.minor, mig.gi, ci))
            shown = f"gpu{gpu.minor}/gi{mig.gi}/{f'ci{ci}/' if ci >= 0 else ''}access"
            if number is None:
                text = f"the kernel module does not list {shown} in {proc.MINORS}"
                raise _LeftOutError("DISCOVERY_INCOMPLETE", text)
            path = f"/dev/nvidia-caps/nvidia-cap{number}"
            if not edits.add_node(self._tree, path):
                text = f"there is no device node {self._tree.host_path(path)}, which {shown} needs"
                file = proc.capability_file(gpu.minor, mig.gi, ci)
                raise _LeftOutError("DISCOVERY_INCOMPLETE", text, f"make the node: nvidia-modprobe -f {file}")

    def _add_drm(self, edits: Edits, gpu: Gpu) -> None:
        """The nodes of the GPU in /dev/dri, and the links to them by PCI address that the host has."""
        nodes = set()
        for name in pci.drm_names(self._host, gpu.pci_address):
            path = f"/dev/dri/{name}"
            if edits.add_node(self._tree, path):
                nodes.add(path)
        for end in ("card", "render"):
            link = f"{_BY_PATH}/pci-{gpu.pci_address}-{end}"
            target = self._tree.resolve(link) if nodes and self._tree.readlink(link) is not None else None
            if target in nodes:
                edits.add_link(link, f"../{target.rpartition('/')[2]}")
