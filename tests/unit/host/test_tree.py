"""A tree: what is reached from its root, and that nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.host.host import Host
from shim.host.tree import Tree, natural


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with a driver's root, and files of the same names outside of it."""
    for path, text in {
        "run/driver/usr/lib/libgpu.so.1.2": "driver",
        "run/driver/etc/driver.conf": "driver",
        "usr/lib/libgpu.so.1.2": "machine",
        "etc/driver.conf": "machine",
        "etc/secret": "machine",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    driver = tmp_path / "run/driver"
    (driver / "usr/lib/libgpu.so.1").symlink_to("libgpu.so.1.2")
    (driver / "lib").symlink_to("/usr/lib")
    (driver / "up").symlink_to("../../etc")
    (driver / "circle").symlink_to("circle")
    (driver / "outside").symlink_to("/etc/secret")
    (tmp_path / "driver-link").symlink_to("run/driver")
    (tmp_path / "absolute-link").symlink_to("/run/driver")
    return tmp_path


@pytest.mark.parametrize(
    "root",
    [
        "/run/driver",
        "/run/driver/",
        "//run/./driver",
        "/driver-link",
        "/absolute-link/",
        "/run/../run/driver",
        "/run/driver/absent/../",
    ],
)
def test_however_the_root_is_written_the_tree_is_the_same(machine: Path, root: str) -> None:
    tree = Tree(Host(str(machine)), root)
    assert tree.exists
    assert tree.root == "/run/driver"
    assert tree.text("/etc/driver.conf") == "driver"
    assert tree.host_path("/etc/driver.conf") == "/run/driver/etc/driver.conf"


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/usr/lib/libgpu.so.1", "/usr/lib/libgpu.so.1.2"),
        ("/lib/libgpu.so.1", "/usr/lib/libgpu.so.1.2"),  # an absolute link begins at the tree's root
        ("/up/driver.conf", "/etc/driver.conf"),  # `..` stops at the tree's root
        ("/../../etc/driver.conf", "/etc/driver.conf"),
        ("/outside", None),  # the machine has the target, the tree does not
        ("/circle", None),
        ("/etc/driver.conf/x", None),
        ("/absent", None),
        ("/nul\0", None),
        ("/", "/"),
        ("", "/"),
    ],
)
def test_links_stay_within_the_tree(machine: Path, path: str, resolved: str | None) -> None:
    assert Tree(Host(str(machine)), "/run/driver").resolve(path) == resolved


def test_a_link_in_the_last_part_is_seen_as_a_link(machine: Path) -> None:
    tree = Tree(Host(str(machine)), "/run/driver")
    assert tree.readlink("/lib/libgpu.so.1") == "libgpu.so.1.2"
    assert tree.readlink("/outside") == "/etc/secret"
    assert tree.readlink("/usr/lib/libgpu.so.1.2") is None
    status = tree.lstat("/circle")
    assert status and os.path.stat.S_ISLNK(status.st_mode)  # type: ignore[attr-defined]  # os.path holds the module
    assert tree.status("/circle") is None


def test_a_root_that_is_missing_has_nothing(machine: Path) -> None:
    tree = Tree(Host(str(machine)), "/run/absent")
    assert (tree.exists, tree.root) == (False, "/run/absent")
    assert tree.text("/etc/driver.conf") == ""
    assert tree.names("/") == []


def test_a_root_whose_name_is_a_pattern_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[b]*/etc").mkdir(parents=True)
    (tmp_path / "a[b]*/etc/x").write_text("pattern")
    assert Tree(Host(str(tmp_path)), "/a[b]*").text("/etc/x") == "pattern"


def test_a_node_is_no_link_and_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "node")
    (tmp_path / "link").symlink_to("node")
    (tmp_path / "file").touch()
    tree = Tree(Host(str(tmp_path)))
    node = tree.node("/node")
    assert node and node[0] == "p"
    assert tree.node("/link") is None
    assert tree.node("/file") is None
    assert tree.read("/node") is None, "a FIFO is not opened"


def test_names_with_numbers_are_sorted_as_people_count() -> None:
    assert sorted(["10", "2", "card10", "card2", "all", "1.10", "1.9"], key=natural) == [
        "1.9", "1.10", "2", "10", "all", "card2", "card10",
    ]  # fmt: skip


def test_a_file_is_opened_and_nothing_else(machine: Path) -> None:
    tree = Tree(Host(str(machine)), "/run/driver")
    os.mkfifo(machine / "run/driver/pipe")
    file = tree.open("/lib/libgpu.so.1")
    assert file is not None
    with file:
        assert file.read() == b"driver"
    assert [tree.open(path) for path in ("/pipe", "/usr", "/outside", "/absent", "/nul\0")] == [None] * 5


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/usr/lib/libgpu.so.1", "/run/driver/usr/lib/libgpu.so.1"),  # leads there from the machine's root, too
        ("/lib/libgpu.so.1", "/run/driver/usr/lib/libgpu.so.1.2"),  # leads out of the driver's root from there
        ("/etc/driver.conf", "/run/driver/etc/driver.conf"),
        ("/absent", "/run/driver/absent"),
    ],
)
def test_the_source_of_a_mount_is_the_tree_s_file_for_the_kernel(machine: Path, path: str, source: str) -> None:
    assert Tree(Host(str(machine)), "/run/driver").source(path) == source
    assert Tree(Host(str(machine))).source(path) == path
