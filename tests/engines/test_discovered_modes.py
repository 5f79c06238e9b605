"""Specs of NVIDIA's modes for fake hosts, in real containers: nodes open, links lead to files, the cache is written.

The nodes have the numbers of /dev/zero, so that a byte read shows that node and device rule are right together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conformance import hosts
from engines.harness.published import publish
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Sandbox
from unit.discover.nvidia import test_companions, test_tegra, test_wsl

from shim.cdi import spec
from shim.discover import nvidia, vendors
from shim.discover.model import Wish
from shim.discover.nvidia import dxcore, gpus
from shim.discover.nvidia.snapshot import Snapshot
from shim.host.host import Host

pytestmark = pytest.mark.engine

USER = 1000
ZERO = {"major": 1, "minor": 5, "mode": "0660", "gid": 44}
TEGRA_FILES = [f"{test_tegra.TEGRA}/libcuda.so", f"{test_tegra.TEGRA}/libcuda.so.1", "/etc/nv_tegra_release"]
WSL_FILES = ["/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/libdxcore.so", f"{test_wsl.STORE}/nvcubins.bin"]
# mode -> entries of the host, device, nodes and files in the container, a library in its cache
MODES: dict[str, tuple[list[dict[str, Any]], str, list[str], list[str], str]] = {
    "wsl": (test_wsl.ENTRIES, "nvidia.com/gpu=all", ["/dev/dxg"], WSL_FILES, "libdxcore.so"),
    "csv": (
        [*test_tegra.ROOT, *test_tegra.LISTS],
        "nvidia.com/gpu=0",
        ["/dev/nvhost-ctrl"],
        TEGRA_FILES,
        "libcuda.so.1",
    ),
    "gds": (
        [
            *(test_companions.node(path) for path, _ in test_companions.PRESENT["gds"]),
            {"path": "/run/udev", "kind": "d"},
        ],
        "nvidia.com/gds=all",
        test_companions.WRITTEN["gds"],
        ["/run/udev"],
        "",
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_container_has_what_the_spec_of_a_mode_says(
    runtime: Runtime, sandbox: Sandbox, shim: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, device, nodes, files, library = MODES[mode]
    monkeypatch.setattr(dxcore, "ask", lambda *_: {"adapters": [{"wddm": 3000, "store": test_wsl.STORE}]})
    monkeypatch.setattr(gpus, "take", lambda *_: Snapshot())
    top = sandbox.scratch / "host" / mode
    top.mkdir()
    hosts.build([{**entry, **ZERO} if entry["kind"] == "c" else entry for entry in entries], top)
    wish = Wish(str(shim), mode=mode)
    [(_, document)] = vendors.documents(nvidia.discover(Host(str(top)), wish), wish)
    assert spec.faults(json.dumps(document).encode()) == []
    publish(sandbox, document, f"{sandbox.host}/{mode}", "mode")
    script = [f"head -c1 {path} | od -An -tx1" for path in nodes]
    script += [f"test -e {path} && echo there" for path in files]
    script += [f"grep -q {library} /etc/ld.so.cache && echo cached"] if library else []
    bundle = Bundle(sandbox, f"mode-{mode}", "\n".join(script))
    config = bundle.config()
    config["process"]["user"] = {"uid": USER, "gid": USER}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    output = runtime("run", "--device", device, "--bundle", bundle.directory, bundle.id).ok()
    assert output.split() == ["00"] * len(nodes) + ["there"] * len(files) + ["cached"] * bool(library)
