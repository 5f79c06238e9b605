"""Mode imex: channels over which GPUs of several machines share memory (NVIDIA IMEX), each a device named by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.nvidia import options

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

DIRECTORY = "/dev/nvidia-caps-imex-channels"
KIND = f"{options.DOMAIN}/imex-channel"
PREFIX = "channel"
_CHANNELS = 1 << 20  # minor numbers of a device, see makedev(3)
_DRIVER = "nvidia-caps-imex-channels"  # name of the major number in /proc/devices


def discover(host: Host, wish: Wish) -> Discovery:
    """The channels that have a device node; --device takes N and channelN.

    Raises CdiError: DISCOVERY_WISH for a number that no channel can have.
    """
    for word in wish.devices:
        number = word.removeprefix(PREFIX)
        if number.isdecimal() and int(number) >= _CHANNELS:
            text = f"--device {word}: IMEX channels have the numbers 0 to {_CHANNELS - 1}"
            raise CdiError([Finding("DISCOVERY_WISH", text)])
    tree = options.device_tree(host, wish)
    drafts = []
    for name in tree.names(DIRECTORY):
        number = name.removeprefix(PREFIX)
        edits = options.new_edits(wish)
        if number != name and number.isdecimal() and edits.add_node(tree, f"{DIRECTORY}/{name}"):
            drafts.append(DraftDevice((number,), edits, (name,)))
    if not drafts:
        return Discovery(options.VENDOR, findings=(_absent(host, tree.host_path(DIRECTORY)),))
    kind = wish.kind_of(KIND)
    devices = [
        Device(draft.ids[0], options.VENDOR, "IMEX channel", cdi_names=(f"{kind}={draft.names[0]}",), nodes=nodes)
        for draft in drafts
        for nodes in [tuple(draft.edits.nodes)]
    ]
    return Discovery(options.VENDOR, (Draft(KIND, options.common_edits(wish), tuple(drafts)),), tuple(devices))


def _absent(host: Host, directory: str) -> Finding:
    """The finding for a host without channels: the driver knows whether it can have some."""
    lines = (line.split() for line in host.text("/proc/devices").splitlines())
    major = next((words[0] for words in lines if words[1:] == [_DRIVER]), "")
    if major:
        remedy = f"mkdir -p {directory} && mknod {directory}/{PREFIX}0 c {major} 0"
    else:
        remedy = "load the driver so that it makes channel 0: modprobe nvidia NVreg_CreateImexChannel0=1"
    return Finding("DISCOVERY_INCOMPLETE", f"there is no device node {directory}/{PREFIX}N", remedy)
