"""Device nodes and the links to them: made where they are missing, replaced where they are wrong, else left alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.host.device_files import WantedNode, link_changes, make_links, make_nodes, node_changes
from shim.host.host import Host
from shim.host.tree import Tree

NODE = WantedNode("/dev/caps/cap1", "c", 240, 7, 0o640, 0, 44)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "dev").mkdir()
    return Tree(Host(str(tmp_path)))


def test_a_missing_node_is_made_whatever_the_umask(tree: Tree) -> None:
    before = os.umask(0o777)
    try:
        (change,) = make_nodes(tree, [NODE])
    finally:
        os.umask(before)
    assert (change.path, change.action, change.what) == ("/dev/caps/cap1", "make", "c 240:7")
    assert tree.node(NODE.path) == ("c", 240, 7, 0o640, 0, 44)
    assert tree.names("/dev/caps") == ["cap1"], "nothing else is left"


def test_a_node_that_is_right_keeps_mode_and_owner(tree: Tree) -> None:
    make_nodes(tree, [NODE])
    os.chmod(tree.real(NODE.path), 0o600)
    inode = os.lstat(tree.real(NODE.path)).st_ino
    (change,) = make_nodes(tree, [NODE])
    assert not change.changes
    assert os.lstat(tree.real(NODE.path)).st_ino == inode
    assert tree.node(NODE.path) == ("c", 240, 7, 0o600, 0, 44)


def test_a_node_with_other_numbers_is_replaced(tree: Tree) -> None:
    make_nodes(tree, [WantedNode(NODE.path, "c", 241, 7)])
    (change,) = node_changes(tree, [NODE])
    assert change.action == "replace"
    assert tree.node(NODE.path) == ("c", 241, 7, 0o666, 0, 0), "looking changes nothing"
    make_nodes(tree, [NODE])
    assert tree.node(NODE.path) == ("c", 240, 7, 0o640, 0, 44)


@pytest.mark.parametrize("make", ["file", "directory", "link"])
def test_what_is_no_node_is_not_replaced(tree: Tree, make: str) -> None:
    path = Path(tree.real(NODE.path))
    path.parent.mkdir()
    if make == "link":
        path.symlink_to("/dev/null")
    elif make == "file":
        path.write_text("data")
    else:
        path.mkdir()
    with pytest.raises(CdiError) as caught:
        make_nodes(tree, [NODE])
    assert caught.value.findings[0].id == "DEVICE_FILE"
    assert not stat.S_ISCHR(path.lstat().st_mode)


def test_a_directory_that_cannot_be_made_is_named(tree: Tree) -> None:
    Path(tree.real("/dev/caps")).write_text("a file")
    with pytest.raises(CdiError, match="/dev/caps/cap1: it cannot be made"):
        make_nodes(tree, [NODE])


def test_links_lead_to_the_nodes_by_their_numbers(tree: Tree) -> None:
    make_nodes(tree, [NODE, WantedNode("/dev/disk", "b", 7, 1)])
    paths = [NODE.path, "/dev/disk", "/dev/absent"]
    assert [change.path for change in link_changes(tree, paths)] == ["/dev/char/240:7", "/dev/block/7:1"]
    assert tree.names("/dev/char") == []
    make_links(tree, paths)
    assert tree.readlink("/dev/char/240:7") == "../caps/cap1"
    assert tree.readlink("/dev/block/7:1") == "../disk"
    assert [change.action for change in make_links(tree, paths)] == ["keep", "keep"]


def test_a_link_that_leads_elsewhere_is_replaced_and_another_way_to_the_node_is_kept(tree: Tree) -> None:
    make_nodes(tree, [NODE, WantedNode("/dev/other", "c", 240, 8)])
    char = Path(tree.real("/dev/char"))
    char.mkdir()
    (char / "240:7").symlink_to("../other")
    assert [change.action for change in make_links(tree, [NODE.path])] == ["replace"]
    (char / "240:7").unlink()
    (char / "240:7").symlink_to("/dev/caps/cap1")
    (change,) = make_links(tree, [NODE.path])
    assert (change.action, change.what) == ("keep", "-> /dev/caps/cap1")


def test_a_file_in_the_place_of_a_link_is_not_replaced(tree: Tree) -> None:
    make_nodes(tree, [NODE])
    Path(tree.real("/dev/char")).mkdir()
    Path(tree.real("/dev/char/240:7")).write_text("")
    with pytest.raises(CdiError, match="it is there, and is no symbolic link"):
        make_links(tree, [NODE.path])


def test_a_link_out_of_the_root_is_not_followed(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Path(tree.real("/dev/caps")).symlink_to(outside)
    with pytest.raises(CdiError):
        make_nodes(tree, [NODE])
    assert list(outside.iterdir()) == []
