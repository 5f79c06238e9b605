"""Fake hosts with the specs that are expected for them, in golden/NAME.yaml: a document of YAML for each spec.

The nodes have the numbers of /dev/zero, so that tests can read them in real containers; a spec has no numbers. After a
change of what is generated, `../.venv/bin/python -m unit.discover.golden_hosts` in tests/ writes the files anew.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from conformance import hosts, trees
from unit.discover import machines
from unit.discover.nvidia import driverroots, test_devices, test_tegra, test_wsl
from unit.discover.nvidia.driverroots import MULTIARCH, VERSION

from shim.base.findings import Finding
from shim.discover import vendors
from shim.discover.model import Wish
from shim.discover.nvidia import dxcore, gpus
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
from shim.host.host import Host

DIRECTORY = Path(__file__).with_name("golden")
HOOK = "/usr/local/bin/shim"
ZERO = ["c", 1, 5]
CONTAINER = "/run/nvidia/driver"
STORE = "/nix/store/abc-nvidia-x11/lib"

Json = dict[str, Any]


@dataclass
class GoldenHost:
    """A fake host, and what is asked of it.

    Attributes:
        vendors: words of --vendor.
        files: entries, as conformance.hosts.build takes them.
        tree: the same as conformance.trees.build takes them.
        gpus: that NVML answers.
        adapters: that libdxcore answers.
        wish: options of the wish.
        reported: ids of the findings.
    """

    vendors: tuple[str, ...]
    files: list[Json] = field(default_factory=list)
    tree: machines.Entries = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    adapters: list[Json] = field(default_factory=list)
    wish: Json = field(default_factory=dict)
    reported: tuple[str, ...] = ()

    def build(self, top: Path) -> Host:
        """Make the host below an existing directory."""
        tree = {
            path: {**entry, "node": ZERO} if isinstance(entry, dict) and "node" in entry else entry
            for path, entry in self.tree.items()
        }
        trees.build(tree, str(top))
        zero = {"major": ZERO[1], "minor": ZERO[2]}
        hosts.build([{**entry, **zero} if entry["kind"] == "c" else entry for entry in self.files], top)
        return Host(str(top))

    def generate(self, top: Path, hook: str = HOOK) -> tuple[list[Json], list[Finding]]:
        """The specs of the host, and what is reported."""
        wish = Wish(hook, **self.wish)
        snapshot = Snapshot(VERSION, "12.8", self.gpus, "nvml") if self.gpus else Snapshot()
        host = self.build(top)
        with (
            patch.object(gpus, "take", lambda *_: snapshot),
            patch.object(dxcore, "ask", lambda *_: {"adapters": self.adapters}),
        ):
            discoveries = list(vendors.discover(host, wish, self.vendors))
        documents = [document for each in discoveries for _, document in vendors.documents(each, wish)]
        return documents, [finding for each in discoveries for finding in each.findings]


def _gpu(index: int, minor: int, bus: int) -> Gpu:
    return Gpu(index, minor, f"GPU-{index:08x}-0000-4000-8000-000000000000", f"0000:{bus:02x}:00.0", "NVIDIA H100")


def _nodes(gpus_of_host: tuple[Gpu, ...], root: str = "") -> list[Json]:
    names = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    nodes = [*names, *(f"nvidia{gpu.minor}" for gpu in gpus_of_host)]
    return driverroots.below(root, [test_devices.node(name) for name in nodes])


def _drm(gpus_of_host: tuple[Gpu, ...]) -> list[Json]:
    """DRM nodes in another order than the minors, with the links of udev."""
    return [
        entry
        for number, gpu in enumerate(reversed(gpus_of_host))
        for entry in test_devices.drm(
            gpu.pci_address,
            f"card{number}",
            f"renderD{128 + number}",
            links={"card": f"../card{number}", "render": f"../renderD{128 + number}"},
        )
    ]


def _installed(at: str, *more: Json) -> list[Json]:
    return [*driverroots.driver(at), *driverroots.program("/usr/bin/nvidia-smi", "/usr/bin/nvidia-persistenced"), *more]


EIGHT = tuple(_gpu(index, (index + 3) % 8, 0x10 + index) for index in range(8))
ONE = (_gpu(0, 0, 0x3B),)
DIVIDED = (
    replace(
        _gpu(0, 0, 0x3B), mig_enabled=True, mig=(Mig(0, "MIG-a", 2, 0, "1g.10gb"), Mig(2, "MIG-b", 5, 0, "3g.40gb"))
    ),
    _gpu(1, 4, 0x5E),
)
CAPABILITIES = {
    **test_devices.CAPS,
    "content": "gpu0/gi2/access 12\ngpu0/gi2/ci0/access 13\ngpu0/gi5/access 30\ngpu0/gi5/ci0/access 31\n",
}
LAYOUTS = {
    "debian": _installed(f"{MULTIARCH}/nvidia/current", *driverroots.cache(f"{MULTIARCH}/nvidia/current")),
    "fedora": _installed("/usr/lib64", *driverroots.link("/lib64", "usr/lib64"), *driverroots.cache("/usr/lib64")),
    "arch": _installed("/usr/lib", *driverroots.link("/lib", "usr/lib"), *driverroots.link("/lib64", "usr/lib")),
    "nix": [*driverroots.driver(STORE), *driverroots.program("/run/current-system/sw/bin/nvidia-smi")],
}

VERBS = {"infiniband_verbs__uverbs1__dev": "231:1"}  # the network of the first Gaudi card
VERBS_NODE = {"/dev/infiniband/uverbs1": {"node": ZERO, "mode": "0666"}}

HOSTS = {
    "eight-gpus": GoldenHost(("nvidia",), [*_installed(MULTIARCH), *_nodes(EIGHT), *_drm(EIGHT)], gpus=EIGHT),
    "mig": GoldenHost(
        ("nvidia",),
        [
            *_installed(MULTIARCH, CAPABILITIES),
            *_nodes(DIVIDED),
            *(test_devices.node(f"nvidia-caps/nvidia-cap{number}", mode="0444") for number in (12, 13, 30, 31)),
        ],
        gpus=DIVIDED,
    ),
    "wsl-two-stores": GoldenHost(
        ("nvidia",),
        [*test_wsl.ENTRIES, *test_wsl.store(test_wsl.OLD_STORE, *test_wsl.TAKEN)],
        adapters=[{"wddm": 3100, "store": test_wsl.INTEL}, {"wddm": 3000, "store": test_wsl.STORE}],
        wish={"mode": "wsl"},
    ),
    "jetson": GoldenHost(
        ("nvidia",), [*test_tegra.ROOT, *test_tegra.LISTS], wish={"mode": "csv"}, reported=("DISCOVERY_PART",) * 2
    ),
    "amd-partitions": GoldenHost(("amd",), tree=machines.cpx(8, 8)),
    "laptop": GoldenHost(
        ("intel", "nvidia"),
        [*_installed(MULTIARCH), *_nodes(ONE)],
        machines.LAPTOP,
        (replace(ONE[0], pci_address="0000:01:00.0"),),
    ),
    "gaudi": GoldenHost(("habana",), tree={**machines.gaudi(0, **VERBS), **machines.gaudi(11), **VERBS_NODE}),
    "two-adapters": GoldenHost(("rdma",), tree=machines.TWO_ADAPTERS),
    "driver-container": GoldenHost(
        ("nvidia",),
        [*driverroots.below(CONTAINER, _installed(MULTIARCH)), *_nodes(ONE, CONTAINER)],
        gpus=ONE,
        wish={"driver_root": CONTAINER},
    ),
    **{name: GoldenHost(("nvidia",), [*files, *_nodes(ONE)], gpus=ONE) for name, files in LAYOUTS.items()},
    "no-devices": GoldenHost(("auto",)),
}
HOSTS["nix"].wish = {"library_paths": (STORE,)}
HOSTS["nix"].reported = ("DISCOVERY_PART",)  # its nvidia-smi is in no directory of programs


def golden(name: str) -> list[Json]:
    """The specs that are expected for a host."""
    return [*yaml.safe_load_all((DIRECTORY / f"{name}.yaml").read_text())]


def written(documents: list[Json]) -> str:
    """The text of a golden file."""
    return yaml.safe_dump_all(documents, sort_keys=False, width=120) if documents else ""


def main() -> None:
    """Write every golden file."""
    DIRECTORY.mkdir(exist_ok=True)
    for name, host in HOSTS.items():
        with tempfile.TemporaryDirectory() as top:
            documents, findings = host.generate(Path(top))
        (DIRECTORY / f"{name}.yaml").write_text(written(documents))
        sys.stdout.write(f"{name}: {len(documents)} specs; {', '.join(map(str, findings)) or 'no findings'}\n")


if __name__ == "__main__":
    main()
