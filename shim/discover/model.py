"""What is asked of a discovery, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shim.discover.edits import Edits

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.host.host import Host


@dataclass(frozen=True)
class Wish:
    """What the caller of `shim cdi generate` asks for; each vendor's module reads what concerns it.

    Attributes:
        hook_path: the program that a spec's hooks name, an absolute path of the host: the stable link to the launcher,
            never a path with a version in it. One whose last part is `nvidia-cdi-hook` or `nvidia-ctk` gets the
            arguments of those programs.
        mode: of NVIDIA: auto, nvml, csv, wsl, management, gds, mofed, gdrcopy, nvswitch, imex.
        driver_root: the root in which the driver's files lie.
        dev_root: the root in which the device nodes lie, "" for the driver's.
        library_paths: directories below the driver root that are searched for libraries in place of the usual ones.
        config_paths: directories below the driver root with configuration files, before the usual ones.
        kind: CLASS, or VENDOR/CLASS, in place of the vendor's usual kind; "" for that.
        names: strategies by which devices are named, in order; () for the vendor's usual ones: index, uuid, type-index.
            A module whose devices have no UUID gives them for `uuid` a name that stays at a reboot, by their address.
        has_all: whether a device `all` is written.
        devices: which devices are written, by index, id or name; () for all of them.
        disabled_hooks: names of hooks that are left out; `all` for every hook.
        enabled_hooks: names of hooks that are written although `disabled_hooks` names them, or all.
        features: names of optional features, see the vendor's module.
        csv_files: files that list what a Tegra system has; () for the usual ones.
        csv_ignored: patterns of links in those that are left out.
        csv_compat_root: where images for a Tegra system have the libraries of a newer CUDA; "" for the usual directory.
        has_numbers: whether nodes carry their numbers, which change at a reboot.
        has_network: whether the network devices of RDMA adapters are injected, too.
        rules_dirs: directories of rules, the later the more important.
    """

    hook_path: str
    mode: str = "auto"
    driver_root: str = "/"
    dev_root: str = ""
    library_paths: tuple[str, ...] = ()
    config_paths: tuple[str, ...] = ()
    kind: str = ""
    names: tuple[str, ...] = ()
    has_all: bool = True
    devices: tuple[str, ...] = ()
    disabled_hooks: frozenset[str] = frozenset()
    enabled_hooks: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    csv_files: tuple[str, ...] = ()
    csv_ignored: tuple[str, ...] = ()
    csv_compat_root: str = ""
    has_numbers: bool = False
    has_network: bool = False
    rules_dirs: tuple[str, ...] = ("/etc/shim/rules.d",)

    def kind_of(self, usual: str) -> str:
        """The kind to write, of a vendor's usual one: VENDOR/CLASS."""
        if not self.kind:
            return usual
        return self.kind if "/" in self.kind else f"{usual.partition('/')[0]}/{self.kind}"

    def names_by(self, by: dict[str, str]) -> tuple[str, ...]:
        """The names of a device by the strategies that are asked for.

        Arguments:
            by: strategy -> name, the usual strategy first, which counts where none of them is asked for.
        """
        wanted = [strategy for strategy in self.names if strategy in by] or list(by)[:1]
        return tuple(dict.fromkeys(by[strategy] for strategy in wanted))

    def wants_hook(self, name: str) -> bool:
        """Whether a hook of this name is written."""
        if self.enabled_hooks & {name, "all"}:
            return True
        return not self.disabled_hooks & {name, "all"}


@dataclass(frozen=True)
class DraftDevice:
    """A device of a spec.

    Attributes:
        names: the names under which it is written, by strategy.
        edits: what it adds to a container.
        ids: further words by which --device selects it: its index, UUID, PCI address.
        annotations: of the device in the spec.
    """

    names: tuple[str, ...]
    edits: Edits
    ids: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Draft:
    """A spec before it is a document.

    Attributes:
        kind: VENDOR/CLASS.
        common: the edits that go with every device.
        devices: in the order of the hardware.
        can_have_all: whether a device `all` makes sense; it has the edits of all devices that are written.
        suffix: of the file's name, where two specs of one kind are written: "coherent".
        keeps_kind: whether --class leaves its kind alone, since it stands beside the devices that are meant, such as
            the management engines of GPUs.
    """

    kind: str
    common: Edits = field(default_factory=Edits)
    devices: tuple[DraftDevice, ...] = ()
    can_have_all: bool = True
    suffix: str = ""
    keeps_kind: bool = False

    def kind_in(self, wish: Wish) -> str:
        """The kind under which it is written."""
        return self.kind if self.keeps_kind else wish.kind_of(self.kind)

    def words(self) -> dict[str, DraftDevice]:
        """The names and ids by which --device selects a device; of two devices with one id the first."""
        return {word: device for device in reversed(self.devices) for word in (*device.names, *device.ids)}


@dataclass(frozen=True)
class Device:
    """A device of the host, for the inventory.

    Attributes:
        name: short and unique among the vendor's devices: its index or address.
        vendor: the module that discovered it: nvidia, amd, intel, drm, habana, rdma, rules.
        model: as the driver or the PCI ids name it; "" when unknown.
        driver_version: of the kernel driver; "" when unknown.
        memory: bytes; 0 when unknown.
        pci_address: such as 0000:3b:00.0; "" for none.
        numa_node: -1 when unknown.
        platform: native or wsl.
        uuid: "" for none.
        cdi_names: qualified names under which it can be asked for.
        nodes: its device nodes on the host.
    """

    name: str
    vendor: str
    model: str = ""
    driver_version: str = ""
    memory: int = 0
    pci_address: str = ""
    numa_node: int = -1
    platform: str = "native"
    uuid: str = ""
    cdi_names: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discovery:
    """What a vendor's module discovered.

    Attributes:
        vendor: the module's name.
        drafts: the specs to write; none on a host without such devices.
        devices: for the inventory; also those that no spec can have.
        findings: what is missing or wrong. An ERROR is what makes a spec incomplete; healthy devices are in the drafts
            all the same.
        waits_for: what is not ready yet although the hardware is there, "" for nothing: a refresh waits for it.
    """

    vendor: str
    drafts: tuple[Draft, ...] = ()
    devices: tuple[Device, ...] = ()
    findings: tuple[Finding, ...] = ()
    waits_for: str = ""


class Vendor(Protocol):
    """A vendor's module, below shim/discover/."""

    def is_present(self, host: Host, wish: Wish) -> bool:
        """Whether the host has devices of this vendor, or its driver; cheap, and starts nothing."""

    def discover(self, host: Host, wish: Wish) -> Discovery:
        """What the host has. Raises CdiError only for a wish that makes no sense."""
