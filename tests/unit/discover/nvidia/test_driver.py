"""The driver's files in the layouts of distributions, and in roots that are written in several ways."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from conformance import hosts
from unit.discover.nvidia import driverroots
from unit.discover.nvidia.driverroots import MULTIARCH, VERSION, below, cache, discover, driver, ids, link, sources

from shim.base.findings import ERROR
from shim.discover.model import Wish

if TYPE_CHECKING:
    from pathlib import Path

    from unit.discover.nvidia.driverroots import Entries

WISH = Wish("/usr/local/bin/shim")
ROOT = "/run/nvidia/driver"
STORE = "/nix/store/abc-nvidia-x11/lib"
CURRENT = f"{MULTIARCH}/nvidia/current"

# layout -> entries, directories of --library-search-path, where the libraries are in the container
LAYOUTS: dict[str, tuple[Entries, tuple[str, ...], str]] = {
    "debian": (driver(MULTIARCH), (), MULTIARCH),
    "debian-current": (
        [*driver(CURRENT), *link(f"{MULTIARCH}/libcuda.so.1", "nvidia/current/libcuda.so.1")],
        (),
        CURRENT,
    ),
    "fedora": ([*driver("/usr/lib64"), *link("/lib64", "usr/lib64")], (), "/usr/lib64"),
    "arch": ([*driver("/usr/lib"), *link("/lib", "usr/lib"), *link("/lib64", "usr/lib")], (), "/usr/lib"),
    "unmerged": (driver("/lib/x86_64-linux-gnu"), (), "/lib/x86_64-linux-gnu"),
    "nix-search-path": (driver(STORE), (STORE,), STORE),
    "nix-links": (
        [
            *driver(STORE),
            *[
                entry
                for stem in driverroots.LIBRARIES
                for entry in link(f"/run/opengl-driver/lib/{stem}.so.{VERSION}", f"{STORE}/{stem}.so.{VERSION}")
            ],
        ],
        (),
        STORE,
    ),
    "only-in-the-cache": ([*driver("/opt/nvidia"), *cache("/opt/nvidia")], (), "/opt/nvidia"),
    "search-path-through-a-link": ([*driver("/opt/570"), *link("/opt/new", "570")], ("/opt/new",), "/opt/570"),
    "pattern-in-a-name": (driver("/opt/[a]*"), ("/opt/[a]*",), "/opt/[a]*"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("root", ["/", ROOT])
def test_a_driver_is_found_in_the_layouts_of_distributions(tmp_path: Path, layout: str, root: str) -> None:
    entries, paths, at = LAYOUTS[layout]
    if root != "/":
        # a cache is made for the machine's own root, and then lies in the driver's
        hosts.build(entries, tmp_path)
        (tmp_path / "inner").mkdir()
        for name in [path.name for path in tmp_path.iterdir() if path.name != "inner"]:
            (tmp_path / name).rename(tmp_path / "inner" / name)
        (tmp_path / ROOT[1:]).parent.mkdir(parents=True)
        (tmp_path / "inner").rename(tmp_path / ROOT[1:])
        entries = []
    edits, findings = discover(tmp_path, entries, dataclasses.replace(WISH, driver_root=root, library_paths=paths))
    prefix = "" if root == "/" else root
    names = [f"{at}/{stem}.so.{VERSION}" for stem in driverroots.LIBRARIES]
    assert sources(edits) == {name: prefix + name for name in names}
    assert edits.links == {
        f"{at}/libcuda.so": "libcuda.so.1",
        f"{at}/libcuda.so.1": f"libcuda.so.{VERSION}",
        f"{at}/libnvidia-ml.so.1": f"libnvidia-ml.so.{VERSION}",
        f"{at}/libnvidia-ptxjitcompiler.so.1": f"libnvidia-ptxjitcompiler.so.{VERSION}",
    }
    assert list(edits.folders) == [at]
    assert edits.env == {"NVIDIA_CTK_LIBCUDA_DIR": at, "NVIDIA_VISIBLE_DEVICES": "void"}
    assert ids(findings) == []


def test_hooks_are_those_of_a_driver_of_this_version(tmp_path: Path) -> None:
    edits, _ = discover(tmp_path, driver(MULTIARCH))
    assert edits.hooks == {
        "enable-cuda-compat": (f"--host-driver-version={VERSION}",),
        "disable-device-node-modification": (),
        "update-application-profile": (),
    }


@pytest.mark.parametrize(
    "root",
    [f"{ROOT}/", f"/{ROOT}", f"{ROOT}/x/..", f"{ROOT}/usr/../", "/link-to-driver", "/run/nvidia/current"],
)
def test_however_the_root_is_written_the_result_is_the_same(tmp_path: Path, root: str) -> None:
    entries = [
        *below(ROOT, driver(MULTIARCH)),
        *link("/link-to-driver", ROOT),
        *link("/run/nvidia/current", "driver"),
        *below(ROOT, driverroots.program("/usr/bin/nvidia-smi")),
    ]
    expected, _ = discover(tmp_path, entries, dataclasses.replace(WISH, driver_root=ROOT))
    edits, findings = discover(tmp_path, [], dataclasses.replace(WISH, driver_root=root))
    assert edits == expected
    assert f"{ROOT}/usr/bin/nvidia-smi" in sources(edits).values()
    assert findings == []


def test_absolute_links_stay_within_the_root(tmp_path: Path) -> None:
    """As image builders write them; the machine has files of the same names and another version."""
    name = f"libcuda.so.{VERSION}"
    entries = [
        *driver(MULTIARCH, "535.1.2"),
        *below(ROOT, driver(MULTIARCH, has_links=False)),
        *below(ROOT, link("/usr/lib64", MULTIARCH)),
        *below(ROOT, link(f"{MULTIARCH}/libcuda.so", f"{MULTIARCH}/{name}")),
        *below(ROOT, driverroots.program("/opt/bin/nvidia-smi")),
        *below(ROOT, link("/usr/bin/nvidia-smi", "/opt/bin/nvidia-smi")),
        *below(ROOT, link(f"{MULTIARCH}/libnvidia-out.so.{VERSION}", f"{ROOT}2/libnvidia-out.so.{VERSION}")),
        *driverroots.library(f"{ROOT}2/libnvidia-out.so.{VERSION}"),
    ]
    edits, findings = discover(tmp_path, entries, dataclasses.replace(WISH, driver_root=ROOT))
    assert all(source.startswith(f"{ROOT}/") for source in sources(edits).values())
    assert sources(edits)["/usr/bin/nvidia-smi"] == f"{ROOT}/opt/bin/nvidia-smi"
    assert edits.links[f"{MULTIARCH}/libcuda.so"] == "libcuda.so.1"
    assert not any(ROOT in word for word in [*edits.links, *edits.links.values(), *edits.mounts, *edits.folders])
    assert edits.env["NVIDIA_CTK_LIBCUDA_DIR"] == MULTIARCH
    assert [finding.text for finding in findings] == [
        "left out although named like libraries of the driver: "
        f"{ROOT}{MULTIARCH}/libnvidia-out.so.{VERSION}: a link that leads nowhere"
    ]


@pytest.mark.parametrize("path", ["/opt/nv/lib", f"{ROOT}/opt/nv/lib", "/link-to-driver/opt/nv/lib/"])
def test_a_search_path_is_below_the_root_with_or_without_it(tmp_path: Path, path: str) -> None:
    entries = [*below(ROOT, driver("/opt/nv/lib")), *link("/link-to-driver", ROOT)]
    edits, findings = discover(tmp_path, entries, dataclasses.replace(WISH, driver_root=ROOT, library_paths=(path,)))
    assert list(edits.folders) == ["/opt/nv/lib"]
    assert ids(findings) == []


def test_a_search_path_replaces_the_usual_directories(tmp_path: Path) -> None:
    entries = [*driver(MULTIARCH), *driver("/opt/a"), *driver("/opt/c"), *cache("/opt/c")]
    edits, _ = discover(tmp_path, entries, dataclasses.replace(WISH, library_paths=("/opt/b", "/opt/a")))
    assert list(edits.folders) == ["/opt/a"]


def test_libraries_in_two_directories_are_all_taken(tmp_path: Path) -> None:
    cuda = driverroots.library(f"/usr/lib64/libcuda.so.{VERSION}", "libcuda.so.1")
    rest = [entry for entry in driver(MULTIARCH) if "libcuda" not in entry["path"]]
    edits, findings = discover(tmp_path, [*cuda, *rest])
    assert edits.env["NVIDIA_CTK_LIBCUDA_DIR"] == f"/usr/lib64:{MULTIARCH}"
    assert list(edits.folders) == ["/usr/lib64", MULTIARCH]
    assert len(edits.mounts) == len(driverroots.LIBRARIES)
    assert ids(findings) == []


def test_without_libcuda_the_directories_that_were_searched_are_listed(tmp_path: Path) -> None:
    entries = [entry for entry in driver("/opt/a") if "libcuda" not in entry["path"]]
    wish = dataclasses.replace(WISH, library_paths=("/opt/a", "/opt/b"))
    edits, findings = discover(tmp_path, entries, wish)
    assert [(finding.id, finding.level) for finding in findings[:1]] == [("DISCOVERY_INCOMPLETE", ERROR)]
    assert findings[0].text == f"libcuda.so.{VERSION} is in no directory that was searched: /opt/a, /opt/b"
    assert "--library-search-path" in findings[0].remedy
    assert f"/opt/a/libnvidia-ml.so.{VERSION}" in edits.mounts


def test_without_any_library_all_usual_directories_are_listed(tmp_path: Path) -> None:
    _, findings = discover(tmp_path, [*driverroots.library("/opt/other/libother.so.1"), *cache("/opt/other")])
    for directory in ("/usr/lib64", MULTIARCH, CURRENT, "/usr/lib", "those of /etc/ld.so.cache"):
        assert directory in findings[0].text
    _, findings = discover(tmp_path, driverroots.directory(ROOT), dataclasses.replace(WISH, driver_root=ROOT))
    assert f" below {ROOT}: /usr/lib64, " in findings[0].text


def test_a_libcuda_that_is_no_library_is_named_with_its_defect(tmp_path: Path) -> None:
    file = below(ROOT, driverroots.file(f"/usr/lib64/libcuda.so.{VERSION}"))
    _, findings = discover(tmp_path, file, dataclasses.replace(WISH, driver_root=ROOT))
    assert findings[0].id == "DISCOVERY_INCOMPLETE"
    assert findings[0].text.endswith(f" ({ROOT}/usr/lib64/libcuda.so.{VERSION}: it is no ELF file)")


def test_files_of_another_version_are_a_mismatch_that_names_both(tmp_path: Path) -> None:
    entries = [*driver(MULTIARCH, "580.65.06"), *driverroots.library(f"{MULTIARCH}/libcuda.so.1.1")]
    edits, findings = discover(tmp_path, entries)
    assert [finding.id for finding in findings if finding.level == ERROR] == ["DRIVER_MISMATCH"]
    text = f"the driver that runs is {VERSION}, and the libraries in {MULTIARCH} are 580.65.06"
    assert findings[0].text == text
    assert edits.mounts == {}


def test_a_file_that_is_no_library_is_no_other_version(tmp_path: Path) -> None:
    names = (f"{MULTIARCH}/libcuda.so.{version}" for version in (VERSION, "580.65.06"))
    _, findings = discover(tmp_path, driverroots.file(*names))
    assert findings[0].id == "DISCOVERY_INCOMPLETE"
    _, findings = discover(tmp_path, driverroots.library(f"{MULTIARCH}/libcuda.so.590.1"))
    assert findings[0].id == "DRIVER_MISMATCH"
    assert findings[0].text.endswith("are 590.1")


def test_a_directory_of_links_has_libraries_of_several_packages(tmp_path: Path) -> None:
    """As on NixOS, where each package has a directory of its own."""
    other, name = "/nix/store/def-settings/lib", f"libnvidia-gtk3.so.{VERSION}"
    entries = [
        *driver(STORE),
        *link(f"/run/opengl-driver/lib/libcuda.so.{VERSION}", f"{STORE}/libcuda.so.{VERSION}"),
        *driverroots.library(f"{other}/{name}"),
        *link(f"/run/opengl-driver/lib/{name}", f"{other}/{name}"),
    ]
    edits, _ = discover(tmp_path, entries)
    assert {f"{other}/{name}", f"{STORE}/libnvidia-ml.so.{VERSION}"} <= set(edits.mounts)
    assert set(edits.folders) == {STORE, other}
    assert edits.env["NVIDIA_CTK_LIBCUDA_DIR"] == STORE


def test_an_older_driver_beside_this_one_is_no_fault(tmp_path: Path) -> None:
    entries = [*driver(MULTIARCH), *driver("/usr/lib64", "550.54.15")]
    entries += driverroots.library(f"{MULTIARCH}/libcuda.so.550.54.15", "libcuda.so.1")
    edits, findings = discover(tmp_path, entries)
    assert list(edits.folders) == [MULTIARCH]
    assert not any("550" in path for path in edits.mounts)
    assert edits.links[f"{MULTIARCH}/libcuda.so.1"] == f"libcuda.so.{VERSION}"
    assert ids(findings) == []


@pytest.mark.parametrize("version", ["", "../../etc", "570", "570.86.10/x", "570.86.*"])
def test_a_version_is_not_guessed(tmp_path: Path, version: str) -> None:
    edits, findings = discover(tmp_path, driver(MULTIARCH), version=version)
    assert ids(findings) == ["DISCOVERY_INCOMPLETE"]
    assert edits.mounts == {}


def test_a_root_that_is_missing_is_named(tmp_path: Path) -> None:
    edits, findings = discover(tmp_path, driver(MULTIARCH), dataclasses.replace(WISH, driver_root=f"{ROOT}/"))
    assert [str(finding) for finding in findings] == [f"the driver's root {ROOT} is no directory"]
    assert findings[0].id == "DISCOVERY_INCOMPLETE"
    assert edits.mounts == {}
