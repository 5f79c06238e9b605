"""What all modes of NVIDIA share of a wish: the roots, the optional features, the edits of every spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.discover.edits import Edits
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.host.host import Host

VENDOR = "nvidia"
DOMAIN = "nvidia.com"

TEGRA_RELEASE = "/etc/nv_tegra_release"  # of Linux for Tegra
_CHIP = "/sys/devices/soc0/family"

COHERENT = "enable-coherent-annotations"
EXPLICIT_LIBRARIES = "enable-explicit-driver-libraries"
NO_GIDS = "no-additional-gids-for-device-nodes"
NO_SOCKETS = "disable-ipc-discoverer"
ONE_CSV_DEVICE = "disable-multiple-csv-devices"

# The two spellings of the flag that turns libnvidia-sandboxutils off. It is never used here: what it answers about a
# GPU is read from NVML and sysfs. Command lines that carry the flag stay valid.
_ALWAYS = frozenset({"disable-nvsandboxutils", "disable-nvsandbox-utils"})
FEATURES = frozenset({COHERENT, EXPLICIT_LIBRARIES, NO_GIDS, NO_SOCKETS, ONE_CSV_DEVICE}) | _ALWAYS


def check_features(wish: Wish) -> None:
    """Refuse features that do not exist.

    Raises CdiError: DISCOVERY_WISH, with the nearest names.
    """
    for name in sorted(wish.features - FEATURES):
        near = ", ".join(nearest(name, sorted(FEATURES)) or sorted(FEATURES))
        text = f"--feature-flag {name}: NVIDIA has no such feature (there are: {near})"
        raise CdiError([Finding("DISCOVERY_WISH", text)])


def is_tegra(host: Host) -> bool:
    """Whether the machine is a Tegra system, such as a Jetson."""
    return host.exists(TEGRA_RELEASE) or host.text(_CHIP).lower().startswith("tegra")


def driver_tree(host: Host, wish: Wish) -> Tree:
    """The root in which the driver's files lie."""
    return Tree(host, wish.driver_root)


def device_tree(host: Host, wish: Wish) -> Tree:
    """The root in which the device nodes lie: that of the driver, unless it is given."""
    return Tree(host, wish.dev_root or wish.driver_root)


def new_edits(wish: Wish) -> Edits:
    """Empty edits, in which groups are kept or not as the features have it."""
    return Edits(has_gids=NO_GIDS not in wish.features)


def common_edits(wish: Wish) -> Edits:
    """The edits of every spec: the vendor's older hook must not inject the GPUs a second time."""
    edits = new_edits(wish)
    edits.env["NVIDIA_VISIBLE_DEVICES"] = "void"
    return edits
