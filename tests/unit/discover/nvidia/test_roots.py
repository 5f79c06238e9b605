"""However the driver's root is written, the spec is the same, and no path of the host gets into the container."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conformance import generate_nvidia, hosts
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.discover.model import Wish
from shim.host.host import Host

ROOT = "/run/nvidia/driver"
LIB = f"{ROOT}/usr/lib/x86_64-linux-gnu"
VERSION = "570.86.10"
HOOK = "/usr/bin/nvidia-cdi-hook"
ADDRESS = "0000:17:00.0"


def node(name: str, **more: Any) -> dict[str, Any]:
    return {"path": f"{ROOT}/dev/{name}", "kind": "c", "major": 195, "minor": 0, "mode": "0666", **more}


ENTRIES: list[dict[str, Any]] = [
    {"path": f"{LIB}/libcuda.so.{VERSION}", "kind": "elf", "soname": "libcuda.so.1"},
    {"path": f"{LIB}/libcuda.so.1", "kind": "l", "target": f"/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}"},
    {"path": f"{LIB}/libnvidia-ml.so.{VERSION}", "kind": "elf", "role": "nvml"},
    {"path": f"{LIB}/libnvidia-ml.so.1", "kind": "l", "target": f"libnvidia-ml.so.{VERSION}"},
    {"path": f"{ROOT}/usr/bin/nvidia-smi", "kind": "f", "mode": "0755"},
    {"path": f"{ROOT}/run/nvidia-persistenced/socket", "kind": "s"},
    *(node(name) for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "dri/card1")),
    {"path": f"{ROOT}/dev/dri/by-path/pci-{ADDRESS}-card", "kind": "l", "target": "../card1"},
    {"path": f"/sys/bus/pci/devices/{ADDRESS}/drm/card1", "kind": "d"},
    {"path": "/run/nvidia/current", "kind": "l", "target": "driver"},
    {"path": "/opt/absolute", "kind": "l", "target": ROOT},
    {"path": f"{ROOT}/x", "kind": "d"},
    {"path": "/run/nvidia/driver2", "kind": "d"},
]
NVML = {"driver_version": VERSION, "gpus": [{"uuid": "GPU-a", "pci": f"0000{ADDRESS}", "memory_mb": 81920}]}
GIVEN = {"root": ENTRIES, "nvml": NVML}


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with TemporaryDirectory() as top:
        hosts.build(ENTRIES, Path(top))
        yield Host(top)


def documents(host: Host, root: str, dev_root: str = "") -> str:
    wish = Wish(HOOK, mode="nvml", driver_root=root, dev_root=dev_root)
    written, findings = generate_nvidia.generate(GIVEN, wish, host)
    assert [finding.text for finding in findings] == []
    return json.dumps(written)


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A way to write ROOT: through links, with `.` and `..`, empty components, slashes at its end."""
    parts = draw(st.sampled_from([["run", "nvidia", "driver"], ["run", "nvidia", "current"], ["opt", "absolute"]]))
    written = ""
    for part in parts:
        written += draw(st.sampled_from(["/", "//", "/./", "/run/../", "/usr/../"])) if not written else "/"
        written += part
        written += draw(st.sampled_from(["", "/.", "/"]))
    return written + draw(st.sampled_from(["", "/", "//", "/x/..", "/x/../", "/dev/..", "/x/../x/.."]))


@given(root=spellings(), dev_root=spellings())
@settings(max_examples=60, deadline=None)
def test_every_spelling_of_the_root_gives_the_same_spec(host: Host, root: str, dev_root: str) -> None:
    assert documents(host, root) == documents(host, ROOT)
    assert documents(host, ROOT, dev_root) == documents(host, ROOT)


def test_no_path_of_the_host_is_in_the_container(host: Host) -> None:
    (document,) = json.loads(documents(host, ROOT))
    every = [document, *document["devices"]]
    for edits in (part["containerEdits"] for part in every):
        inside = [
            *edits.get("env", ()),
            *(node["path"] for node in edits.get("deviceNodes", ())),
            *(mount["containerPath"] for mount in edits.get("mounts", ())),
            *(word for hook in edits.get("hooks", ()) for word in hook["args"]),
        ]
        assert [text for text in inside if ROOT in text or "driver" in posixpath.dirname(text)] == []
        sources = [*edits.get("deviceNodes", ()), *edits.get("mounts", ())]
        assert all(source["hostPath"].startswith(f"{ROOT}/") for source in sources)


def test_a_root_that_is_missing_has_nothing(host: Host) -> None:
    wish = Wish(HOOK, mode="nvml", driver_root="/run/nvidia/missing")
    written, findings = generate_nvidia.generate(GIVEN, wish, host)
    assert written == []
    assert "below /run/nvidia/missing" in findings[0].text


@pytest.mark.parametrize("letter", ["[", "*", "?", "{", " ", "ï", "'", "$"])
def test_no_letter_of_the_root_is_a_pattern(letter: str, tmp_path: Path) -> None:
    root = f"/run/nvidia/dri{letter}ver"
    entries = [{**entry, "path": entry["path"].replace(ROOT, root)} for entry in ENTRIES]
    hosts.build(entries, tmp_path)
    given = {"root": entries, "nvml": NVML}
    written, _ = generate_nvidia.generate(given, Wish(HOOK, mode="nvml", driver_root=root), Host(str(tmp_path)))
    sources = [mount["hostPath"] for mount in written[0]["containerEdits"]["mounts"]]
    assert f"{root}/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}" in sources
