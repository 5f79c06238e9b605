"""Cases of generate-intel.json: what Intel's generator wrote on fake hosts with GPUs, NPUs and Gaudi cards.

Compared is what a container gets of each device of each kind. Intel's generator writes no device `all` and has two ways
to name NPUs and Gaudi cards; both are asked for by the options of ours. Which classes are asked for decides which kinds
are compared; without any, Intel's program ends with its usage.
"""

from __future__ import annotations

import json
from typing import Any

from shim.cdi import spec
from shim.discover import habana, intel, vendors
from shim.discover.model import Wish

from . import trees
from .scene import difference

_KINDS = {"gpu": (intel.GPU, intel.MEI), "npu": (intel.NPU,), "gaudi": (habana.KIND,)}
_NAMES = {"--naming=machine": ("uuid",)}


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else the id of a deviation, or what differs."""
    given, expected = case["input"], case["expect"]
    host = trees.build(given["tree"], tmpdir)
    classes = [word for word in given["argv"] if word in _KINDS]
    if not classes:
        return None if expected["status"] else "a command without a class succeeds"
    names = next((_NAMES[word] for word in given["argv"] if word in _NAMES), ())
    wish = Wish("/usr/bin/shim", names=names, has_all=False)
    theirs = {}
    for file in expected["files"].values():
        theirs[file["spec"]["kind"]] = trees.container(file["spec"], host)
    ours = {}
    reported = set()
    for module in (intel, habana):
        discovery = module.discover(host, wish)
        reported |= {finding.path for finding in discovery.findings}
        for _, document in vendors.documents(discovery, wish):
            if any(document["kind"] in _KINDS[name] for name in classes):
                ours[document["kind"]] = trees.container(document, host)
                if spec.faults(json.dumps(document).encode()):
                    return f"the spec of {document['kind']} is not valid"
    wrong = difference(ours, theirs)
    return wrong and (_deviation(ours, theirs, reported) or wrong)


def _deviation(ours: dict[str, Any], theirs: dict[str, Any], reported: set[str]) -> str | None:
    """The deviation that alone makes the difference."""
    rest = {kind: trees.existing(devices, _is_needed) for kind, devices in theirs.items()}
    rest = {kind: devices for kind, devices in rest.items() if devices}
    if ours == rest:
        absent = {path for devices in theirs.values() for path in trees.absent(devices, _is_reported)}
        return "node-missing" if absent <= reported else None
    more = {(kind, name) for kind, devices in ours.items() for name in devices if name not in rest.get(kind, {})}
    same = all(
        ours.get(kind, {}).get(name) == edits for kind, devices in rest.items() for name, edits in devices.items()
    )
    if not same or not more:
        return None
    if {kind for kind, _ in more} == {habana.KIND}:
        return "gaudi-module-id"
    is_vfio = all(any("/vfio/" in path for path in ours[kind][name]["nodes"]) for kind, name in more)
    return "vfio-gpu" if is_vfio else None


def _is_needed(path: str) -> bool:
    """Whether a device is of no use without the node at a path."""
    return "control" not in path and "/infiniband/" not in path and "/vfio/devices/" not in path


def _is_reported(path: str) -> bool:
    """Whether a node that is missing is to be reported: NPUs have no control node, and /dev/dri is a directory."""
    return "control" not in path and path != "/dev/dri"
