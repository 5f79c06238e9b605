"""The driver's files beside its libraries: programs, configuration, firmware, sockets, modules of X."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import pytest
from conformance import hosts
from unit.discover.nvidia.driverroots import (
    MULTIARCH,
    VERSION,
    below,
    directory,
    discover,
    driver,
    file,
    library,
    link,
    program,
    sources,
)

from shim.discover.edits import READ_ONLY, SOCKET
from shim.discover.model import Wish

if TYPE_CHECKING:
    from pathlib import Path

    from unit.discover.nvidia.driverroots import Entries

WISH = Wish("/usr/local/bin/shim")
ROOT = "/run/nvidia/driver"
V = VERSION


def taken(top: Path, entries: Entries, wish: Wish = WISH) -> dict[str, str]:
    """Mounts beside the libraries: path in the container -> path on the host."""
    edits, _ = discover(
        top, [*below("" if wish.driver_root == "/" else wish.driver_root, driver(MULTIARCH)), *entries], wish
    )
    return {path: source for path, source in sources(edits).items() if not path.startswith(MULTIARCH)}


# --- programs -----------------------------------------------------------------------------------------------------


def test_programs_are_taken_from_the_first_directory_that_has_them(tmp_path: Path) -> None:
    entries = [
        *program("/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi", "/sbin/nvidia-imex", "/usr/bin/nvidia-other"),
        *file("/usr/bin/nvidia-debugdump"),
        *directory("/usr/bin/nvidia-persistenced"),
    ]
    assert list(taken(tmp_path, entries)) == ["/usr/local/bin/nvidia-smi", "/sbin/nvidia-imex"]


def test_a_missing_nvidia_smi_is_reported(tmp_path: Path) -> None:
    _, findings = discover(tmp_path, below(ROOT, driver(MULTIARCH)), dataclasses.replace(WISH, driver_root=ROOT))
    assert [finding.id for finding in findings] == ["DISCOVERY_PART"]
    assert findings[0].text.startswith(f"there is no program nvidia-smi in {ROOT}/usr/local/sbin, ")


def test_a_program_by_the_alternatives_system_keeps_its_name(tmp_path: Path) -> None:
    entries = [
        *program("/usr/lib/nvidia/current/nvidia-smi"),
        *link("/etc/alternatives/nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi"),
        *link("/usr/bin/nvidia-smi", "/etc/alternatives/nvidia-smi"),
    ]
    assert taken(tmp_path, entries) == {"/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi"}
    inner = tmp_path / "inner"
    inner.mkdir()
    wish = dataclasses.replace(WISH, driver_root=ROOT)
    # from the machine's root the link would lead out of the driver's
    assert taken(inner, below(ROOT, entries), wish) == {
        "/usr/bin/nvidia-smi": f"{ROOT}/usr/lib/nvidia/current/nvidia-smi"
    }


# --- configuration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/etc/OpenCL/vendors/nvidia.icd", "/etc/OpenCL/vendors/nvidia.icd"),
        ("/usr/share/vulkan/icd.d/nvidia_icd.json", "/etc/vulkan/icd.d/nvidia_icd.json"),
        ("/etc/vulkan/icd.d/nvidia_icd.json", "/etc/vulkan/icd.d/nvidia_icd.json"),
        ("/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", "/etc/vulkan/icd.d/nvidia_icd.x86_64.json"),
        (
            "/usr/local/share/vulkan/implicit_layer.d/nvidia_layers.json",
            "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
        ),
        ("/vulkan/icd.d/nvidia_icd.json", "/etc/vulkan/icd.d/nvidia_icd.json"),
        ("/usr/share/glvnd/egl_vendor.d/10_nvidia.json", "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"),
        ("/etc/glvnd/egl_vendor.d/10_nvidia.json", "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"),
        (
            "/usr/share/egl/egl_external_platform.d/09_nvidia_wayland2.json",
            "/usr/share/egl/egl_external_platform.d/09_nvidia_wayland2.json",
        ),
        ("/usr/share/nvidia/nvoptix.bin", "/usr/share/nvidia/nvoptix.bin"),
        ("/run/opengl-driver/share/nvidia/nvoptix.bin", "/usr/share/nvidia/nvoptix.bin"),
        ("/usr/share/X11/xorg.conf.d/10-nvidia.conf", "/usr/share/X11/xorg.conf.d/10-nvidia.conf"),
        ("/glvnd/egl_vendor.d/10_nvidia.json", ""),
        ("/usr/share/vulkan/icd.d/nvidia_icd.aarch64.json", ""),
        ("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json", ""),
    ],
)
@pytest.mark.parametrize("root", ["/", ROOT])
def test_configuration_is_looked_up_where_packages_have_it(tmp_path: Path, path: str, inside: str, root: str) -> None:
    prefix = "" if root == "/" else root
    expected = {inside: prefix + path} if inside else {}
    assert taken(tmp_path, below(prefix, file(path)), dataclasses.replace(WISH, driver_root=root)) == expected


def test_a_file_in_both_places_is_taken_from_etc(tmp_path: Path) -> None:
    name = "vulkan/icd.d/nvidia_icd.json"
    entries = file(f"/usr/share/{name}", f"/etc/{name}", f"/{name}")
    assert taken(tmp_path, entries) == {f"/etc/{name}": f"/etc/{name}"}


@pytest.mark.parametrize("path", ["/opt/share", f"{ROOT}/opt/share"])
def test_a_search_path_comes_before_the_usual_directories(tmp_path: Path, path: str) -> None:
    name = "glvnd/egl_vendor.d/10_nvidia.json"
    wish = dataclasses.replace(WISH, driver_root=ROOT, config_paths=("/opt/none", path))
    assert taken(tmp_path, below(ROOT, file(f"/usr/share/{name}", f"/opt/share/{name}")), wish) == {
        f"/usr/share/{name}": f"{ROOT}/opt/share/{name}"
    }


def test_the_environment_of_the_caller_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_DIRS", "/opt/share")
    name = "glvnd/egl_vendor.d/10_nvidia.json"
    assert taken(tmp_path, file(f"/usr/share/{name}", f"/opt/share/{name}")) == {
        f"/usr/share/{name}": f"/usr/share/{name}"
    }


@pytest.mark.parametrize(
    ("stem", "missing", "interface"),
    [
        ("libEGL_nvidia", "glvnd/egl_vendor.d/10_nvidia.json", "EGL"),
        ("libGLX_nvidia", "vulkan/icd.d/nvidia_icd.json", "Vulkan"),
        ("libnvidia-opencl", "OpenCL/vendors/nvidia.icd", "OpenCL"),
    ],
)
def test_a_library_that_no_loader_knows_is_reported(tmp_path: Path, stem: str, missing: str, interface: str) -> None:
    entries = [*driver(MULTIARCH), *library(f"{MULTIARCH}/{stem}.so.{V}"), *program("/usr/bin/nvidia-smi")]
    _, findings = discover(tmp_path, entries)
    assert [finding.id for finding in findings] == ["DISCOVERY_PART"]
    assert findings[0].text == f"{stem} is there, but no {missing}: {interface} will not see the GPU"
    _, findings = discover(tmp_path, file(f"/etc/{missing}"))
    assert findings == []


# --- firmware -----------------------------------------------------------------------------------------------------

RELEASE = "6.1.0-test"
STANDARD = f"/lib/firmware/nvidia/{V}"


def machine_with(custom: str = "") -> Entries:
    return [
        *file("/proc/sys/kernel/osrelease", content=f"{RELEASE}\n"),
        *file("/sys/module/firmware_class/parameters/path", content=f"{custom}\n"),
    ]


def test_firmware_is_taken_from_where_the_kernel_takes_it(tmp_path: Path) -> None:
    """The first directory that has a file; another file may come from another."""
    order = [f"/lib/firmware/updates/{RELEASE}", "/lib/firmware/updates", f"/lib/firmware/{RELEASE}", "/lib/firmware"]
    entries = machine_with()
    for count, above in enumerate(order):
        entries += file(*(f"{above}/nvidia/{V}/gsp_{name}.bin" for name in "abcd"[: count + 1]))
    entries += file(f"{STANDARD}/gsp.bin.xz", f"{STANDARD}/other.bin", "/lib/firmware/nvidia/535.1/gsp.bin")
    entries += directory(f"{STANDARD}/gsp_directory.bin")
    paths = [f"{above}/nvidia/{V}/gsp_{name}.bin" for above, name in zip(order, "abcd", strict=True)]
    assert taken(tmp_path, entries) == {path: path for path in paths}


def test_the_running_kernel_is_asked_without_proc(tmp_path: Path) -> None:
    path = f"/lib/firmware/{os.uname().release}/nvidia/{V}/gsp_ga10x.bin"
    assert taken(tmp_path, file(path, f"{STANDARD}/gsp_ga10x.bin")) == {path: path}


def test_the_custom_path_comes_first(tmp_path: Path) -> None:
    custom = f"/opt/fw/nvidia/{V}/gsp_ga10x.bin"
    assert taken(tmp_path, [*machine_with("/opt/fw"), *file(custom, f"{STANDARD}/gsp_ga10x.bin")]) == {custom: custom}


@pytest.mark.parametrize(
    ("custom", "source", "inside"),
    [
        (f"{ROOT}/opt/fw", f"{ROOT}/opt/fw", "/opt/fw"),
        ("/opt/fw", "/opt/fw", "/lib/firmware"),  # of the machine, on which the kernel opens it
        ("", f"{ROOT}/lib/firmware", "/lib/firmware"),
        ("relative", f"{ROOT}/lib/firmware", "/lib/firmware"),
    ],
)
def test_the_custom_path_is_one_of_the_machine(tmp_path: Path, custom: str, source: str, inside: str) -> None:
    name = f"nvidia/{V}/gsp_ga10x.bin"
    entries = machine_with(custom) + file(f"{ROOT}/opt/fw/{name}", f"/opt/fw/{name}", f"{ROOT}/lib/firmware/{name}")
    wish = dataclasses.replace(WISH, driver_root=ROOT)
    assert taken(tmp_path, entries, wish) == {f"{inside}/{name}": f"{source}/{name}"}


# --- sockets ------------------------------------------------------------------------------------------------------

PERSISTENCED, FABRIC, MPS = "/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps"


def sockets(*paths: str) -> Entries:
    return [{"path": path, "kind": "s"} for path in paths]


def test_sockets_of_daemons_can_be_written(tmp_path: Path) -> None:
    edits, _ = discover(tmp_path, [*sockets(PERSISTENCED, "/var" + FABRIC), *directory(MPS)])
    assert sources(edits) == {path: path for path in (PERSISTENCED, "/var" + FABRIC, MPS)}
    assert {mount.options for mount in edits.mounts.values()} == {SOCKET}
    assert SOCKET != READ_ONLY


def test_what_is_no_socket_is_not_taken(tmp_path: Path) -> None:
    assert taken(tmp_path, file(PERSISTENCED)) == {}


def test_sockets_are_left_out_by_their_feature(tmp_path: Path) -> None:
    wish = dataclasses.replace(WISH, features=frozenset({"disable-ipc-discoverer"}))
    assert taken(tmp_path, [*sockets(PERSISTENCED), *directory(MPS)], wish) == {}


def test_daemons_run_in_the_driver_s_root_or_on_the_machine(tmp_path: Path) -> None:
    entries = [*sockets(ROOT + PERSISTENCED, PERSISTENCED, FABRIC), *directory(MPS)]
    assert taken(tmp_path, entries, dataclasses.replace(WISH, driver_root=ROOT)) == {
        PERSISTENCED: ROOT + PERSISTENCED,
        FABRIC: FABRIC,
        MPS: MPS,
    }


def test_a_directory_of_another_user_in_tmp_is_left_out(tmp_path: Path) -> None:
    """The user could replace it by a link to any directory, which containers would then get to write."""
    hosts.build(directory(MPS), tmp_path)
    os.chown(tmp_path / MPS[1:], 1234, 0)
    edits, findings = discover(tmp_path, [*driver(MULTIARCH), *program("/usr/bin/nvidia-smi")])
    assert MPS not in edits.mounts
    assert [finding.id for finding in findings] == ["DISCOVERY_PART"]
    assert "it is of user 1234" in findings[0].text


def test_a_link_in_tmp_is_left_out(tmp_path: Path) -> None:
    edits, findings = discover(tmp_path, [*driver(MULTIARCH), *program("/usr/bin/nvidia-smi"), *link(MPS, "/etc")])
    assert MPS not in edits.mounts
    assert "it is a link" in findings[0].text


# --- modules of X -------------------------------------------------------------------------------------------------


def test_modules_of_x_are_no_libraries_of_the_loader(tmp_path: Path) -> None:
    modules = "/usr/lib/xorg/modules"
    entries = [
        *driver(MULTIARCH),
        *library(f"{modules}/drivers/nvidia_drv.so"),
        *library(f"{modules}/extensions/libglxserver_nvidia.so.{V}"),
        *link(f"{modules}/extensions/libglxserver_nvidia.so", f"libglxserver_nvidia.so.{V}"),
        *file(f"{MULTIARCH}/xorg/modules/drivers/nvidia_drv.so"),
    ]
    edits, _ = discover(tmp_path, entries)
    name = f"{modules}/extensions/libglxserver_nvidia.so"
    assert {path for path in edits.mounts if "xorg" in path} == {f"{modules}/drivers/nvidia_drv.so", f"{name}.{V}"}
    assert edits.links[name] == f"libglxserver_nvidia.so.{V}"
    assert list(edits.folders) == [MULTIARCH]


def test_a_module_of_x_of_another_driver_is_not_taken(tmp_path: Path) -> None:
    extensions = "/usr/lib/xorg/modules/extensions"
    entries = [
        *driver(MULTIARCH),
        *library("/opt/wfb.so"),
        *link(f"{extensions}/libglxserver_nvidia.so", "/opt/wfb.so"),
    ]
    edits, _ = discover(tmp_path, entries)
    assert not any("wfb" in path for path in edits.mounts)
    assert f"{extensions}/libglxserver_nvidia.so" not in edits.links
    # an old link beside the module of this version gets that as its target
    edits, _ = discover(tmp_path, library(f"{extensions}/libglxserver_nvidia.so.{V}"))
    assert edits.links[f"{extensions}/libglxserver_nvidia.so"] == f"libglxserver_nvidia.so.{V}"


def test_a_module_of_x_without_a_link_gets_none(tmp_path: Path) -> None:
    name = f"/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.{V}"
    edits, _ = discover(tmp_path, [*driver(MULTIARCH), *library(name)])
    assert name in edits.mounts
    assert not any("glxserver" in link for link in edits.links)


def test_modules_of_x_by_the_alternatives_system(tmp_path: Path) -> None:
    """As Debian has them: files in /usr/lib/nvidia/current, links in the server's directories."""
    modules, current = "/usr/lib/xorg/modules", "/usr/lib/nvidia/current"
    entries = [
        *driver(MULTIARCH),
        *library(f"{current}/nvidia_drv.so"),
        *library(f"{current}/libglxserver_nvidia.so.{V}"),
        *link("/etc/alternatives/nvidia_drv", f"{current}/nvidia_drv.so"),
        *link("/etc/alternatives/glx", f"{current}/libglxserver_nvidia.so.{V}"),
        *link(f"{modules}/drivers/nvidia_drv.so", "/etc/alternatives/nvidia_drv"),
        *link(f"{modules}/extensions/libglxserver_nvidia.so", "/etc/alternatives/glx"),
    ]
    wish = dataclasses.replace(WISH, driver_root=ROOT)
    edits, _ = discover(tmp_path, below(ROOT, entries), wish)
    found = sources(edits)
    assert found[f"{modules}/drivers/nvidia_drv.so"] == f"{ROOT}{current}/nvidia_drv.so"
    assert found[f"{current}/libglxserver_nvidia.so.{V}"] == f"{ROOT}{current}/libglxserver_nvidia.so.{V}"
    link_path = f"{modules}/extensions/libglxserver_nvidia.so"
    assert edits.links[link_path] == f"../../../nvidia/current/libglxserver_nvidia.so.{V}"
