"""Rules for the driver's files: each accepts what the host bears out, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance import driver_rules, hosts
from conformance.driver_rules import Scene, rule_of
from shim.base.findings import Finding
from shim.host.host import Host
from shim.host.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

LIB, ROOT = "/usr/lib64", "/run/driver"
CUDA, FBC, API = f"{LIB}/libcuda.so.1.2", f"{LIB}/libfbc.so.1.2", f"{LIB}/libnvidia-api.so.1"
FIRMWARE = "nvidia/1.2/gsp.bin"
ENTRIES = [
    {"path": CUDA, "kind": "elf", "soname": "libcuda.so.1"},
    {"path": f"{LIB}/real/fbc.bin", "kind": "elf", "soname": "libfbc.so.1"},
    {"path": FBC, "kind": "l", "target": "real/fbc.bin"},
    {"path": API, "kind": "elf", "soname": "libnvidia-api.so.1"},
    {"path": f"{LIB}/libtext.so.1.2", "kind": "f", "content": "text"},
    {"path": "/run/daemon/socket", "kind": "s"},
    {"path": "/tmp/nvidia-mps", "kind": "d"},
    {"path": "/sys/module/firmware_class/parameters/path", "kind": "f", "content": "/opt/fw\n"},
    {"path": "/link", "kind": "l", "target": "run/driver"},
    {"path": ROOT + CUDA, "kind": "elf", "soname": "libcuda.so.1"},
]
RO = ["ro"]
EFFECTS: dict[str, dict[str, Any]] = {
    "mount": {
        CUDA: [CUDA, RO],
        f"{LIB}/real/fbc.bin": [f"{LIB}/real/fbc.bin", RO],
        f"/opt/fw/{FIRMWARE}": [f"/opt/fw/{FIRMWARE}", RO],
    },
    "link": {
        f"{LIB}/libcuda.so.1": CUDA,
        f"{LIB}/libcuda.so": f"{LIB}/libcuda.so.1",
        f"{LIB}/libfbc.so.1": FBC,
        FBC: f"{LIB}/real/fbc.bin",
    },
    "folder": {LIB: 0},
    "env": {"NVIDIA_CTK_LIBCUDA_DIR": LIB},
}


@pytest.fixture
def host(tmp_path: Path) -> Tree:
    hosts.build(ENTRIES, tmp_path)
    return Tree(Host(str(tmp_path)))


def scene(host: Tree, root: str = "/", **changes: Any) -> Scene:
    members: dict[str, Any] = {"features": frozenset(), "environment": {}, "ours": {"d": EFFECTS}}
    return Scene(host, root, **{**members, **changes})


FEATURE = {"features": frozenset({"enable-explicit-driver-libraries"})}
XDG = {"environment": {"XDG_DATA_DIRS": "/opt/share"}}
OTHER = f"{LIB}/other"


@pytest.mark.parametrize(
    ("group", "key", "mine", "wanted", "rule", "changes"),
    [
        ("link", f"{LIB}/libcuda.so.1", CUDA, None, "library-names", {}),
        ("link", f"{LIB}/libfbc.so.1", FBC, None, "library-names", {}),
        ("link", FBC, f"{LIB}/real/fbc.bin", None, "library-names", {}),
        ("link", f"{LIB}/libcuda.so.7", CUDA, None, None, {}),
        ("link", f"{LIB}/libcuda.so.1", CUDA, OTHER, None, {}),
        ("link", "/etc/libcuda.so.1", CUDA, None, None, {}),
        ("link", f"{LIB}/libcuda.so.1", None, CUDA, None, {}),
        ("mount", f"{LIB}/libtext.so.1.2", None, [f"{LIB}/libtext.so.1.2", RO], "no-library", {}),
        ("mount", CUDA, None, [CUDA, RO], None, {}),
        ("mount", "/etc/libtext", None, [f"{LIB}/libtext.so.1.2", RO], None, {}),
        ("env", "NVIDIA_CTK_LIBCUDA_DIR", LIB, f"{LIB}:{LIB}/real", "libcuda-directories", {}),
        ("env", "NVIDIA_CTK_LIBCUDA_DIR", LIB, f"{LIB}/real", None, {}),
        ("env", "NVIDIA_CTK_LIBCUDA_DIR", f"{LIB}/real", LIB, None, {}),
        ("env", "OTHER", LIB, f"{LIB}:{LIB}/real", None, {}),
        ("mount", "/tmp/nvidia-mps", ["/tmp/nvidia-mps", RO], None, "daemon-sockets", {}),
        ("mount", "/tmp/other", ["/tmp/nvidia-mps", RO], None, None, {}),
        ("mount", "/run/daemon/socket", ["/run/daemon/socket", RO], None, "daemon-sockets", {"root": ROOT}),
        ("mount", "/run/daemon/socket", ["/run/daemon/socket", RO], None, None, {}),
        ("mount", f"/opt/fw/{FIRMWARE}", [f"/opt/fw/{FIRMWARE}", RO], None, "firmware-path", {}),
        ("mount", f"/lib/firmware/{FIRMWARE}", None, [f"/lib/firmware/{FIRMWARE}", RO], "firmware-path", {}),
        ("mount", "/lib/firmware/gsp_other.bin", None, ["/lib/firmware/gsp_other.bin", RO], None, {}),
        ("mount", f"/opt/fwx/{FIRMWARE}", [f"/opt/fwx/{FIRMWARE}", RO], None, None, {}),
        ("mount", API, [API, RO], None, "explicit-libraries", FEATURE),
        ("mount", API, [API, RO], None, None, {}),
        ("mount", CUDA, [CUDA, RO], None, None, FEATURE),
        ("mount", "/usr/share/x", None, ["/opt/share/x", RO], "data-directories", XDG),
        ("mount", "/etc/x", ["/usr/share/x", RO], None, "data-directories", XDG),
        ("mount", "/etc/x", ["/usr/share/x", RO], None, None, {}),
        ("mount", "/etc/x", ["/opt/other/x", RO], None, None, XDG),
        ("mount", CUDA, [ROOT + CUDA, RO], None, "resolved-root", {"root": "/link"}),
        ("mount", CUDA, [ROOT + CUDA, RO], ["/link" + CUDA, RO], "resolved-root", {"root": "/link"}),
        ("mount", "/link/x", None, ["/link/x", RO], "resolved-root", {"root": "/link"}),
        ("env", "X", LIB, "/link" + LIB, "resolved-root", {"root": "/link"}),
        ("folder", LIB, 0, None, "resolved-root", {"root": "/link"}),
        ("mount", CUDA, [ROOT + CUDA, RO], None, None, {"root": ROOT}),
        ("mount", CUDA, [ROOT + OTHER, RO], None, None, {"root": "/link"}),
        ("mount", CUDA, [ROOT + CUDA, RO], [CUDA, RO], None, {"root": "/link"}),
        ("mount", "/etc/x", None, ["/etc/x", RO], None, {"root": "/link"}),
        ("env", "X", LIB, "/other" + LIB, None, {"root": "/link"}),
        ("env", "X", LIB, LIB.lstrip("/"), "resolved-root", {"root": "/link/"}),
        ("device", "d", None, True, None, {"root": "/link"}),
    ],
)
def test_a_difference_is_explained_by_its_rule_only(
    host: Tree, group: str, key: str, mine: Any, wanted: Any, rule: str | None, changes: dict[str, Any]
) -> None:
    assert rule_of(scene(host, **changes), ("d", group, key, mine, wanted)) == rule


def test_a_driver_that_they_do_not_find_must_be_there(host: Tree) -> None:
    error = "failed to locate: libcuda.so.1.2: not found"
    assert driver_rules.found_driver(scene(host), error) == "driver-directories"
    assert driver_rules.found_driver(scene(host), "ERROR_LIBRARY_NOT_FOUND") == "driver-directories"
    assert driver_rules.found_driver(scene(host), "GPU is lost") is None
    assert driver_rules.found_driver(scene(host, ours={}), error) is None
    text = {"mount": {CUDA: [f"{LIB}/libtext.so.1.2", RO]}}
    assert driver_rules.found_driver(scene(host, ours={"d": text}), error) is None


def test_a_missing_libcuda_must_be_missing(host: Tree) -> None:
    missing = Finding("DISCOVERY_INCOMPLETE", "libcuda.so.1.2 is in no directory that was searched")
    without = scene(host, ours={"d": {"mount": {}}})
    assert driver_rules.missing_driver(without, [missing]) == "required-missing"
    assert driver_rules.missing_driver(scene(host), [missing]) is None
    assert driver_rules.missing_driver(without, [missing, Finding("DISCOVERY_DEVICE", "libcuda.so.")]) is None
    assert driver_rules.missing_driver(without, [Finding("DISCOVERY_INCOMPLETE", "no nvidiactl")]) is None
