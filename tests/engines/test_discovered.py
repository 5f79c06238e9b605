"""What discovery writes for fake hosts, in real containers: every node can be opened, by a user that is not root.

The nodes of the fake hosts have the numbers of /dev/zero, and groups as udev gives them, so that a byte read in
the container shows that node, device rule and additional group are right together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conformance import trees
from engines.harness.published import publish
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Sandbox
from unit.discover import machines

from shim.cdi import spec
from shim.discover import amd, drm, habana, intel, rdma, vendors
from shim.discover.model import Wish

pytestmark = pytest.mark.engine

USER = 1000
ZERO = ["c", 1, 5]
HOSTS: dict[str, tuple[Any, machines.Entries, str]] = {
    "amd": (amd, machines.cpx(8, 8), "amd.com/gpu=63"),
    "amd-all": (amd, machines.cpx(2, 2), "amd.com/gpu=all"),
    "intel": (intel, machines.LAPTOP, "intel.com/gpu=0000-00-02-0-0x9a49"),
    "npu": (intel, machines.npu(), "intel.com/npu=accel0"),
    "habana": (habana, machines.gaudi(11), "intel.com/gaudi=accel11"),
    "rdma": (rdma, machines.TWO_ADAPTERS, "rdma/hca=0000:3b:00.0"),
    "drm": (drm, machines.NOUVEAU, "drm/gpu=renderD128"),
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_user_who_is_not_root_reads_every_node_of_the_device(
    runtime: Runtime, sandbox: Sandbox, shim: Path, name: str
) -> None:
    module, entries, device = HOSTS[name]
    top = sandbox.scratch / "host" / name
    top.mkdir()
    wish = Wish(str(shim))
    discovery = module.discover(trees.build(_with_zeros(entries), str(top)), wish)
    assert not discovery.findings
    kind, _, device_name = device.partition("=")
    (document,) = (document for _, document in vendors.documents(discovery, wish) if document["kind"] == kind)
    assert spec.faults(json.dumps(document).encode()) == []
    edits = next(each["containerEdits"] for each in document["devices"] if each["name"] == device_name)
    every = [document.get("containerEdits", {}), edits]
    nodes = [node for part in every for node in part.get("deviceNodes", ())]
    mounts = [mount for part in every for mount in part.get("mounts", ())]
    paths = [node["path"] for node in nodes] + [mount["containerPath"] for mount in mounts]
    assert len(mounts) == (2 if name in {"intel", "drm"} else 0)
    publish(sandbox, document, f"{sandbox.host}/{name}", "discovered")
    bundle = Bundle(sandbox, f"discovered-{name}", "\n".join(f"head -c1 {path} | od -An -tx1" for path in paths))
    config = bundle.config()
    config["process"]["user"] = {"uid": USER, "gid": USER}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    output = runtime("run", "--device", device, "--bundle", bundle.directory, bundle.id).ok()
    assert output.split() == ["00"] * len(paths)


def _with_zeros(entries: machines.Entries) -> machines.Entries:
    """The entries with the numbers of /dev/zero for each node, and closed to others than its group."""
    return {
        path: {**entry, "node": ZERO, "mode": "0660", "gid": entry.get("gid", machines.RENDER)}
        if isinstance(entry, dict) and "node" in entry
        else entry
        for path, entry in entries.items()
    }
