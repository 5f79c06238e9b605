"""Which files are libraries of the driver, and under which names a container finds them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from conformance import hosts
from unit.discover.nvidia.driverroots import (
    MULTIARCH,
    VERSION,
    cache,
    directory,
    discover,
    driver,
    file,
    ids,
    library,
    link,
    sources,
)
from unit.native import elves

from shim.discover.model import Wish
from shim.discover.nvidia.driver import driver_edits
from shim.discover.nvidia.search import Search
from shim.host.host import Host
from shim.host.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

WISH = Wish("/usr/local/bin/shim")
V = VERSION


def test_every_library_of_the_version_is_taken_and_those_in_vdpau(tmp_path: Path) -> None:
    entries = [
        *driver(MULTIARCH),
        *library(f"{MULTIARCH}/libnvidia-rtcore.so.{V}"),
        *library(f"{MULTIARCH}/libforeign.so.{V}", "libforeign.so.1"),
        *library(f"{MULTIARCH}/libother.so.1.{V}"),
        *library(f"{MULTIARCH}/libz.so.1.3"),
        *library(f"{MULTIARCH}/vdpau/libvdpau_nvidia.so.{V}", "libvdpau_nvidia.so.1"),
        *link(f"{MULTIARCH}/vdpau/libvdpau_nvidia.so", f"libvdpau_nvidia.so.{V}"),
        *library(f"{MULTIARCH}/deeper/libnvidia-x.so.{V}"),
    ]
    edits, findings = discover(tmp_path, entries)
    assert f"{MULTIARCH}/libnvidia-rtcore.so.{V}" in edits.mounts
    assert edits.links[f"{MULTIARCH}/libforeign.so.1"] == f"libforeign.so.{V}"
    assert not any(name in path for path in edits.mounts for name in ("libother", "libz", "deeper"))
    assert edits.links[f"{MULTIARCH}/vdpau/libvdpau_nvidia.so.1"] == f"libvdpau_nvidia.so.{V}"
    assert edits.links[f"{MULTIARCH}/vdpau/libvdpau_nvidia.so"] == f"libvdpau_nvidia.so.{V}"
    assert list(edits.folders) == [MULTIARCH, f"{MULTIARCH}/vdpau"]
    assert edits.env["NVIDIA_CTK_LIBCUDA_DIR"] == MULTIARCH
    assert ids(findings) == []


def test_what_is_only_named_like_a_library_is_left_out_and_reported(tmp_path: Path) -> None:
    entries = [
        *driver(MULTIARCH),
        *file(f"{MULTIARCH}/libnvidia-text.so.{V}", content="hello"),
        *file(f"{MULTIARCH}/libnvidia-empty.so.{V}", content=""),
        *library(f"{MULTIARCH}/libnvidia-32.so.{V}", bits=32),
        *link(f"{MULTIARCH}/libnvidia-broken.so.{V}", "/nowhere"),
        *link(f"{MULTIARCH}/libnvidia-circle.so.{V}", f"libnvidia-circle.so.{V}"),
        *directory(f"{MULTIARCH}/libnvidia-directory.so.{V}"),
        *library(f"{MULTIARCH}/lib::x.so.{V}"),
    ]
    hosts.build(entries, tmp_path)
    foreign = tmp_path / MULTIARCH[1:] / f"libnvidia-arm.so.{V}"
    foreign.write_bytes(elves.library("libnvidia-arm.so.1", machine=elves.AARCH64))
    edits, findings = discover(tmp_path, [])
    assert set(edits.mounts) == {entry["path"] for entry in driver(MULTIARCH) if entry["kind"] == "elf"}
    assert ids(findings) == ["DISCOVERY_PART"]
    for text in (
        f"/libnvidia-text.so.{V}: it is no ELF file",
        f"/libnvidia-empty.so.{V}: it is empty",
        f"/libnvidia-32.so.{V}: no library for x86_64",
        f"/libnvidia-arm.so.{V}: no library for x86_64",
        f"/libnvidia-broken.so.{V}: a link that leads nowhere",
        f"/libnvidia-circle.so.{V}: a link that leads nowhere",
        f"/libnvidia-directory.so.{V}: it cannot be read",
        f"/lib::x.so.{V}: no name of a library",
    ):
        assert text in findings[0].text


def test_many_files_that_are_left_out_are_counted(tmp_path: Path) -> None:
    entries = [*driver(MULTIARCH), *file(*(f"{MULTIARCH}/libnvidia-{number}.so.{V}" for number in range(30)))]
    _, findings = discover(tmp_path, entries)
    assert findings[0].text.endswith(f"{MULTIARCH}/libnvidia-7.so.{V}: it is no ELF file, and 22 more")


def test_a_machine_gets_libraries_of_its_own(tmp_path: Path) -> None:
    """A root with both, as multiarch has them: each kernel gets its own, and the other's are no fault."""
    arm = tmp_path / "usr/lib/aarch64-linux-gnu"
    hosts.build(driver(MULTIARCH), tmp_path)
    arm.mkdir(parents=True)
    (arm / f"libcuda.so.{V}").write_bytes(elves.library("libcuda.so.1", machine=elves.AARCH64))
    tree = Tree(Host(str(tmp_path)))
    edits, findings = driver_edits(tree, V, WISH, "aarch64")
    assert list(edits.mounts) == [f"/usr/lib/aarch64-linux-gnu/libcuda.so.{V}"]
    assert ids(findings) == []
    edits, findings = driver_edits(tree, V, WISH, "x86_64")
    assert list(edits.folders) == [MULTIARCH]
    assert ids(findings) == []


def test_32_bit_libraries_beside_are_left_alone(tmp_path: Path) -> None:
    """As Fedora has them in /usr/lib."""
    wide = [entry for entry in driver("/usr/lib64") if entry["kind"] == "elf"]
    narrow = [{**entry, "path": entry["path"].replace("lib64", "lib"), "bits": 32} for entry in wide]
    edits, findings = discover(tmp_path, [*wide, *narrow])
    assert list(edits.folders) == ["/usr/lib64"]
    assert ids(findings) == []


def test_links_of_the_loader_are_made_whether_the_host_has_them_or_not(tmp_path: Path) -> None:
    """As in a driver container in which ldconfig never ran."""
    (tmp_path / "fresh").mkdir()
    (tmp_path / "usual").mkdir()
    fresh, _ = discover(tmp_path / "fresh", driver(MULTIARCH, has_links=False))
    usual, _ = discover(tmp_path / "usual", driver(MULTIARCH))
    assert fresh.links == usual.links


def test_links_of_build_tools_are_made_when_the_host_has_them(tmp_path: Path) -> None:
    entries = [
        *driver(MULTIARCH),
        *library(f"{MULTIARCH}/libnvidia-fbc.so.{V}", "libnvidia-fbc.so.1"),
        *link(f"{MULTIARCH}/libnvidia-fbc.so", "/etc/alternatives/fbc"),
        *link("/etc/alternatives/fbc", f"{MULTIARCH}/libnvidia-fbc.so.{V}"),
        *library(f"{MULTIARCH}/libnvidia-vulkan-producer.so.{V}"),
        *link(f"{MULTIARCH}/libnvidia-vulkan-producer.so", f"libnvidia-vulkan-producer.so.{V}"),
        *library(f"{MULTIARCH}/libnvidia-cfg.so.{V}", "libnvidia-cfg.so.1"),
        *link(f"{MULTIARCH}/libnvidia-cfg.so", "libz.so.1"),  # leads to another library
        *library(f"{MULTIARCH}/libz.so.1"),
        *link(f"{MULTIARCH}/libnvidia-ml.so", "libnvidia-ml.so.1"),
    ]
    edits, _ = discover(tmp_path, entries)
    assert edits.links[f"{MULTIARCH}/libnvidia-fbc.so"] == "libnvidia-fbc.so.1"
    assert edits.links[f"{MULTIARCH}/libnvidia-vulkan-producer.so"] == f"libnvidia-vulkan-producer.so.{V}"
    assert edits.links[f"{MULTIARCH}/libnvidia-ml.so"] == "libnvidia-ml.so.1"
    assert f"{MULTIARCH}/libnvidia-cfg.so" not in edits.links
    assert f"{MULTIARCH}/libnvidia-ptxjitcompiler.so" not in edits.links


def test_a_few_links_are_always_made(tmp_path: Path) -> None:
    entries = [
        *driver(MULTIARCH, has_links=False),
        *library(f"{MULTIARCH}/libGLX_nvidia.so.{V}", "libGLX_nvidia.so.0"),
        *library(f"{MULTIARCH}/libnvidia-opticalflow.so.{V}", "libnvidia-opticalflow.so.1"),
    ]
    edits, _ = discover(tmp_path, entries)
    names = {link: text for link, text in edits.links.items() if "nvidia-ptx" not in link and "-ml" not in link}
    assert names == {
        f"{MULTIARCH}/libcuda.so.1": f"libcuda.so.{V}",
        f"{MULTIARCH}/libcuda.so": "libcuda.so.1",
        f"{MULTIARCH}/libGLX_nvidia.so.0": f"libGLX_nvidia.so.{V}",
        f"{MULTIARCH}/libGLX_indirect.so.0": f"libGLX_nvidia.so.{V}",
        f"{MULTIARCH}/libnvidia-opticalflow.so.1": f"libnvidia-opticalflow.so.{V}",
        f"{MULTIARCH}/libnvidia-opticalflow.so": "libnvidia-opticalflow.so.1",
    }


def test_a_library_that_is_a_link_keeps_the_name_that_programs_look_for(tmp_path: Path) -> None:
    entries = [
        *driver(MULTIARCH),
        *library(f"{MULTIARCH}/real/fbc.bin", "libnvidia-fbc.so.1"),
        *link(f"{MULTIARCH}/libnvidia-fbc.so.{V}", "real/fbc.bin"),
    ]
    edits, findings = discover(tmp_path, entries)
    assert f"{MULTIARCH}/real/fbc.bin" in edits.mounts
    assert edits.links[f"{MULTIARCH}/libnvidia-fbc.so.{V}"] == "real/fbc.bin"
    assert edits.links[f"{MULTIARCH}/libnvidia-fbc.so.1"] == f"libnvidia-fbc.so.{V}"
    assert list(edits.folders) == [MULTIARCH]
    assert edits.env["NVIDIA_CTK_LIBCUDA_DIR"] == MULTIARCH
    assert ids(findings) == []


@pytest.mark.parametrize("soname", ["", "..", "../../../etc/passwd", "a::/etc/passwd", "a b", "x" * 300])
def test_no_link_is_made_of_what_is_no_name(tmp_path: Path, soname: str) -> None:
    hosts.build(driver(MULTIARCH), tmp_path)
    expected, _ = discover(tmp_path, [])
    odd = tmp_path / MULTIARCH[1:] / f"libnvidia-odd.so.{V}"
    odd.write_bytes(elves.library(*filter(None, [soname])))
    edits, _ = discover(tmp_path, [])
    assert edits.links == expected.links


def test_a_link_that_is_a_library_of_its_own_is_not_made(tmp_path: Path) -> None:
    """Two files that claim a name: the one that has it keeps it."""
    entries = [*driver(MULTIARCH), *library(f"{MULTIARCH}/libnvidia-nvvm70.so.4")]
    entries += library(f"{MULTIARCH}/libnvidia-nvvm.so.{V}", "libnvidia-nvvm70.so.4")
    edits, _ = discover(tmp_path, entries)
    assert f"{MULTIARCH}/libnvidia-nvvm70.so.4" in edits.mounts
    assert f"{MULTIARCH}/libnvidia-nvvm70.so.4" not in edits.links


def test_nvvm70_has_a_version_of_its_own(tmp_path: Path) -> None:
    entries = [*driver(MULTIARCH), *library(f"{MULTIARCH}/libnvidia-nvvm70.so.4.0.0", "libnvidia-nvvm70.so.4")]
    edits, _ = discover(tmp_path, [*entries, *link(f"{MULTIARCH}/libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4.0.0")])
    assert f"{MULTIARCH}/libnvidia-nvvm70.so.4.0.0" in edits.mounts
    assert edits.links[f"{MULTIARCH}/libnvidia-nvvm70.so.4"] == "libnvidia-nvvm70.so.4.0.0"


@pytest.mark.parametrize(("choice", "chosen"), [("1.1.1", "1.1.1"), ("1.1.9", "1.1.9"), ("", "1.1.10")])
def test_of_two_libraries_with_one_name_the_host_s_choice_counts(tmp_path: Path, choice: str, chosen: str) -> None:
    stem = f"{MULTIARCH}/libnvidia-egl-gbm.so"
    entries = driver(MULTIARCH)
    for version in ("1.1.1", "1.1.10", "1.1.9"):
        entries += library(f"{stem}.{version}", "libnvidia-egl-gbm.so.1")
    entries += link(f"{stem}.1", f"libnvidia-egl-gbm.so.{choice}") if choice else []
    edits, _ = discover(tmp_path, entries)
    assert edits.links[f"{stem}.1"] == f"libnvidia-egl-gbm.so.{chosen}"
    assert {f"{stem}.{version}" for version in ("1.1.1", "1.1.10", "1.1.9")} <= set(edits.mounts)


def test_platform_libraries_are_looked_up_in_all_directories(tmp_path: Path) -> None:
    """As on Debian: the driver has a directory of its own, what EGL loads is beside other libraries."""
    current = f"{MULTIARCH}/nvidia/current"
    entries = [
        *driver(current),
        *library(f"{MULTIARCH}/libnvidia-egl-wayland.so.1.1.19", "libnvidia-egl-wayland.so.1"),
        *library("/opt/egl/libnvidia-egl-xcb.so.1.0.1", "libnvidia-egl-xcb.so.1"),
        *library("/opt/egl/libnvidia-egl-unknown.so.1.0.1", "libnvidia-egl-unknown.so.1"),
        *cache("/opt/egl"),
    ]
    edits, _ = discover(tmp_path, entries)
    assert f"{MULTIARCH}/libnvidia-egl-wayland.so.1.1.19" in edits.mounts
    assert "/opt/egl/libnvidia-egl-xcb.so.1.0.1" in edits.mounts
    assert "/opt/egl/libnvidia-egl-unknown.so.1.0.1" not in edits.mounts
    assert list(edits.folders) == [current, MULTIARCH, "/opt/egl"]
    assert edits.env["NVIDIA_CTK_LIBCUDA_DIR"] == current


def test_explicit_libraries_need_their_feature(tmp_path: Path) -> None:
    entries = [
        *driver(MULTIARCH),
        *library(f"{MULTIARCH}/libEGL.so.1.1.0", "libEGL.so.1"),
        *link(f"{MULTIARCH}/libEGL.so.1", "libEGL.so.1.1.0"),
        *link(f"{MULTIARCH}/libEGL.so", "libEGL.so.1"),
        *library(f"{MULTIARCH}/libnvidia-api.so.1"),
        *library(f"{MULTIARCH}/libEGLother.so.1.1.0"),
    ]
    edits, _ = discover(tmp_path, entries)
    assert not any("libEGL" in path or "-api" in path for path in edits.mounts)
    wish = dataclasses.replace(WISH, features=frozenset({"enable-explicit-driver-libraries"}))
    edits, _ = discover(tmp_path, [], wish)
    assert {f"{MULTIARCH}/libEGL.so.1.1.0", f"{MULTIARCH}/libnvidia-api.so.1"} <= set(edits.mounts)
    assert edits.links[f"{MULTIARCH}/libEGL.so"] == "libEGL.so.1"
    assert edits.links[f"{MULTIARCH}/libEGL.so.1"] == "libEGL.so.1.1.0"
    assert f"{MULTIARCH}/libEGLother.so.1.1.0" not in edits.mounts


@pytest.mark.parametrize(
    ("at", "entries", "expected"),
    [
        (MULTIARCH, [], {f"{MULTIARCH}/gbm/nvidia-drm_gbm.so": "../libnvidia-allocator.so.1"}),
        (
            MULTIARCH,
            link(f"{MULTIARCH}/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"),
            {f"{MULTIARCH}/gbm/nvidia-drm_gbm.so": "../libnvidia-allocator.so.1"},
        ),
        (
            f"{MULTIARCH}/nvidia/current",
            link(f"{MULTIARCH}/gbm/nvidia-drm_gbm.so", f"{MULTIARCH}/nvidia/current/libnvidia-allocator.so.1"),
            {f"{MULTIARCH}/gbm/nvidia-drm_gbm.so": "../nvidia/current/libnvidia-allocator.so.1"},
        ),
        (  # the link of another driver stays as it is in the image
            f"{MULTIARCH}/nvidia/current",
            link(f"{MULTIARCH}/gbm/nvidia-drm_gbm.so", "dri_gbm.so"),
            {f"{MULTIARCH}/nvidia/current/gbm/nvidia-drm_gbm.so": "../libnvidia-allocator.so.1"},
        ),
    ],
)
def test_the_backend_of_gbm_is_linked_where_the_host_has_it(
    tmp_path: Path, at: str, entries: list[dict[str, object]], expected: dict[str, str]
) -> None:
    allocator = library(f"{at}/libnvidia-allocator.so.{V}", "libnvidia-allocator.so.1")
    edits, _ = discover(tmp_path, [*driver(at), *allocator, *entries])
    assert {link: text for link, text in edits.links.items() if "gbm" in link} == expected


def test_without_the_allocator_there_is_no_backend_of_gbm(tmp_path: Path) -> None:
    broken = link(f"{MULTIARCH}/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1")
    edits, _ = discover(tmp_path, [*driver(MULTIARCH), *broken])
    assert not any("gbm" in link for link in edits.links)


@pytest.mark.parametrize("content", ["", "no cache", "glibc-ld.so.cache1.1" + "\xff" * 28])
def test_a_damaged_cache_is_reported_and_not_used(tmp_path: Path, content: str) -> None:
    edits, findings = discover(tmp_path, [*driver(MULTIARCH), *file("/etc/ld.so.cache", content=content)])
    assert len(edits.mounts) == 4
    assert ids(findings) == ["DISCOVERY_PART"]
    assert "/etc/ld.so.cache" in findings[0].text
    assert "ldconfig" in findings[0].remedy


def test_the_cache_adds_directories_of_the_libraries_that_are_asked_for(tmp_path: Path) -> None:
    entries = [*library("/opt/a/libcuda.so.1"), *library("/opt/b/libother.so.1"), *cache("/opt/a", "/opt/b")]
    hosts.build(entries, tmp_path)
    search = Search(Tree(Host(str(tmp_path))), (), "x86_64")
    assert "/opt/a" in search.directories("libcuda.so")
    assert "/opt/b" not in search.directories("libcuda.so", "libnvidia-ml.so")
    assert not {"/opt/a", "/opt/b"} & set(search.directories())


def test_an_entry_of_the_cache_is_followed_through_links(tmp_path: Path) -> None:
    """The cache has only a directory of links; the libraries lie where these lead, step by step."""
    entries = [
        *driver("/opt/real"),
        *link("/opt/links/libcuda.so.1", "../step/libcuda.so.1"),
        *link("/opt/step/libcuda.so.1", "/opt/real/libcuda.so.1"),
        *cache("/opt/links"),
    ]
    edits, findings = discover(tmp_path, entries)
    assert list(edits.folders) == ["/opt/real"]
    assert sources(edits)[f"/opt/real/libcuda.so.{V}"] == f"/opt/real/libcuda.so.{V}"
    assert ids(findings) == []


def test_32_bit_entries_of_the_cache_do_not_count(tmp_path: Path) -> None:
    narrow = [{**entry, "bits": 32} if entry["kind"] == "elf" else entry for entry in driver("/opt/narrow")]
    _, findings = discover(tmp_path, [*narrow, *cache("/opt/narrow")])
    assert ids(findings) == ["DISCOVERY_INCOMPLETE"]
    assert "those of /etc/ld.so.cache" not in findings[0].text
