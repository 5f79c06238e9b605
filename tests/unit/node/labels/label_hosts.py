"""Fake hosts with the labels that are expected for them, in golden.json.

They are those of discovery and of its vectors, with names of models added. After a change of labels,
`../.venv/bin/python -m unit.node.labels.label_hosts` in tests/ writes the file anew.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from conformance import runner, trees
from unit.discover import machines
from unit.discover.golden_hosts import HOSTS as GOLDEN

from shim.host.host import Host
from shim.node.labels.collect import collect
from shim.node.labels.model import Request
from shim.node.labels.sharing import Sharing

FILE = Path(__file__).with_name("golden.json")
VECTORS = Path(__file__).parents[3] / "conformance" / "vectors"
IDS = """\
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t74a1  Aqua Vanjaram [Instinct MI300X]
10de  NVIDIA Corporation
\t2520  GA106M [GeForce RTX 3060 Mobile]
8086  Intel Corporation
\t56c0  Flex Series 170 GPU
\t7d55  Meteor Lake-P [Intel Arc Graphics]
\te20b  Battlemage G21 [Intel Arc B580]
"""
_NAMES = {
    "generate-amd": ("two", "cpx-8", "igpu", "no-render", "gaps"),
    "generate-intel": (
        "flex-classic",
        "igpu-battlemage-mei-machine",
        "gaudi2-eight-classic",
        "npu-and-gpu",
        "none-gpu",
    ),
}
_SHARED = Request(sharing=Sharing("time-slicing", {"amd.com/gpu": 4}))


def _cases() -> dict[str, dict[str, Any]]:
    every = {}
    for family, names in _NAMES.items():
        for case in runner.read_cases(VECTORS / f"{family}.json"):
            if case["id"] in names:
                every[case["id"]] = case["input"]["tree"]
    return every


CASES = {
    **_cases(),
    "nouveau": machines.NOUVEAU | machines.hca("0000:3b:00.0", 0, "mlx5_0") | {"/sys/module/nouveau/version": "1.4\n"},
}
OTHERS = ("amd-partitions", "gaudi", "laptop", "two-adapters")  # of discovery's own hosts
HOSTS = (*CASES, *OTHERS)


def build(name: str, top: Path) -> Host:
    """Make a host below a directory."""
    host = GOLDEN[name].build(top) if name in OTHERS else trees.build(CASES[name], str(top))
    ids = top / "usr/share/misc/pci.ids"
    if not ids.exists():
        ids.parent.mkdir(parents=True, exist_ok=True)
        ids.write_text(IDS)
    return host


def labels(name: str, top: Path) -> dict[str, str]:
    """The labels of a host."""
    vendors = ("amd", "intel", "habana", "rdma", "drm", "rules")
    asked = Request(vendors, sharing=_SHARED.sharing) if name == "two" else Request(vendors)
    return dict(sorted(collect(build(name, top), asked).values.items()))


def golden() -> dict[str, dict[str, str]]:
    """The labels that are expected."""
    content: dict[str, dict[str, str]] = json.loads(FILE.read_text())
    return content


if __name__ == "__main__":
    written = {}
    for host_name in HOSTS:
        with tempfile.TemporaryDirectory() as directory:
            written[host_name] = labels(host_name, Path(directory))
    FILE.write_text(json.dumps(written, indent=1) + "\n")
