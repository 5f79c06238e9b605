"""Lists of a Tegra system's files: lines, patterns, what is ignored, and faults with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import hosts

from shim.base.findings import CdiError, Finding
from shim.discover.model import Wish
from shim.discover.nvidia import tegra_lists
from shim.discover.nvidia.tegra_lists import DIRECTORY, Entry, expand, is_match
from shim.host.host import Host
from shim.host.tree import Tree

DRIVERS = f"{DIRECTORY}/drivers.csv"
LIBRARIES = "/usr/lib/aarch64-linux-gnu/tegra"


def read(top: Path, content: str, wish: Wish, path: str = DRIVERS) -> tuple[list[Entry], list[Finding]]:
    hosts.build([{"path": path, "kind": "f", "content": content}], top)
    host = Host(str(top))
    return tegra_lists.read(host, wish, Tree(host, wish.driver_root))


def test_entries_have_their_file_and_line(tmp_path: Path) -> None:
    content = "# comment\n\ndev, /dev/nvmap\r\n  lib ,libx.so  \nsym,/a\ndir, /b\n"
    entries, findings = read(tmp_path, content, Wish("/x"))
    assert findings == []
    assert [(entry.kind, entry.path, entry.line) for entry in entries] == [
        ("dev", "/dev/nvmap", 3),
        ("lib", "libx.so", 4),
        ("sym", "/a", 5),
        ("dir", "/b", 6),
    ]
    assert {entry.file for entry in entries} == {DRIVERS}


@pytest.mark.parametrize("line", ["dev /dev/nvmap", "device, /dev/nvmap", "dev,", "dev, nvmap", "lib, tegra/libx.so"])
def test_a_line_that_is_no_entry_is_reported_with_its_number(line: str, tmp_path: Path) -> None:
    entries, [finding] = read(tmp_path, f"dev, /dev/x\n{line}\n", Wish("/x"))
    assert len(entries) == 1
    assert (finding.id, finding.path, finding.line) == ("DISCOVERY_PART", DRIVERS, 2)
    assert f"'{line}' is no entry" in finding.text


def test_lists_that_are_named_replace_the_usual_ones_and_must_exist(tmp_path: Path) -> None:
    hosts.build([{"path": DRIVERS, "kind": "f", "content": "lib, /usual.so"}], tmp_path)
    entries, _ = read(tmp_path, "lib, /own.so", Wish("/x", csv_files=("/opt/a.csv",)), "/opt/a.csv")
    assert [entry.path for entry in entries] == ["/own.so"]
    with pytest.raises(CdiError, match=r"--csv-file /opt/b.csv: there is no such file") as caught:
        read(tmp_path, "", Wish("/x", csv_files=("/opt/b.csv",)))
    assert caught.value.findings[0].id == "DISCOVERY_WISH"


def test_a_list_that_others_can_change_is_not_read(tmp_path: Path) -> None:
    """Its entries become mounts of any file of the host."""
    hosts.build([{"path": DRIVERS, "kind": "f", "content": "lib, /etc/shadow", "mode": "0666"}], tmp_path)
    host = Host(str(tmp_path))
    entries, [finding] = tegra_lists.read(host, Wish("/x"), Tree(host))
    assert (entries, finding.id, finding.path) == ([], "DISCOVERY_INCOMPLETE", DRIVERS)
    assert f"the list is not read: {DRIVERS} can be written by everybody" in finding.text
    with pytest.raises(CdiError, match=f"--csv-file {DRIVERS}: {DRIVERS} can be written by everybody"):
        tegra_lists.read(host, Wish("/x", csv_files=(DRIVERS,)), Tree(host))


def test_the_usual_lists_are_those_of_the_machine_else_of_the_drivers_root(tmp_path: Path) -> None:
    wish = Wish("/x", driver_root="/r")
    entries, _ = read(tmp_path, "lib, /of-root.so", wish, f"/r{DRIVERS}")
    assert [(entry.path, entry.file) for entry in entries] == [("/of-root.so", f"/r{DRIVERS}")]
    entries, _ = read(tmp_path, "dev, /dev/x", wish, f"{DIRECTORY}/devices.csv")
    assert [entry.path for entry in entries] == ["/dev/x"]


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("libcuda.so", f"{LIBRARIES}/libcuda.so", True),
        ("libcuda.so", f"{LIBRARIES}/libcuda.so.1", False),
        ("libcuda*", f"{LIBRARIES}/libcuda.so.1", True),
        ("/usr/lib/libcuda.so", f"{LIBRARIES}/libcuda.so", False),
        (f"{LIBRARIES}/lib*", f"{LIBRARIES}/libcuda.so", True),
        ("/usr/*/libcuda.so", f"{LIBRARIES}/libcuda.so", False),
        ("**/libcuda.so", f"{LIBRARIES}/libcuda.so", True),
        ("**/tegra/*", f"{LIBRARIES}/libcuda.so", True),
        ("/usr/**/libcuda.so", f"{LIBRARIES}/libcuda.so", True),
        ("/usr/lib/**", f"{LIBRARIES}/libcuda.so", True),
        ("**/cuda.so", f"{LIBRARIES}/libcuda.so", False),
    ],
)
def test_patterns_of_ignored_links(pattern: str, path: str, matches: bool) -> None:
    assert is_match(pattern, path) is matches


def test_links_alone_are_ignored_and_a_pattern_without_match_is_reported(tmp_path: Path) -> None:
    content = f"sym, {LIBRARIES}/libcuda.so\nlib, {LIBRARIES}/libcuda.so\nsym, {LIBRARIES}/liba.so\n"
    entries, [finding] = read(tmp_path, content, Wish("/x", csv_ignored=("libcuda.so", "/libnone.so")))
    assert [(entry.kind, entry.path) for entry in entries] == [
        ("lib", f"{LIBRARIES}/libcuda.so"),
        ("sym", f"{LIBRARIES}/liba.so"),
    ]
    assert finding.id == "DISCOVERY_PART"
    assert "--csv-ignore /libnone.so ignores nothing" in finding.text


@pytest.mark.parametrize(
    ("path", "expanded"),
    [
        ("/dev/nv*", ["/dev/nvhost-ctrl", "/dev/nvmap"]),
        ("/d*/nvmap", ["/dev/nvmap"]),
        ("/dev/nvma[a-p]", ["/dev/nvmap"]),
        ("/dev/nvmap", ["/dev/nvmap"]),
        ("/dev/x[1]", ["/dev/x[1]"]),  # a path that is there is no pattern
        ("/dev/none", []),
        ("/none/*", []),
        ("/dev/nv*/x", []),
    ],
)
def test_a_pattern_stands_for_what_is_there(path: str, expanded: list[str], tmp_path: Path) -> None:
    hosts.build([{"path": f"/r/dev/{name}", "kind": "f"} for name in ("nvmap", "nvhost-ctrl", "x[1]", "x1")], tmp_path)
    assert expand(Tree(Host(str(tmp_path)), "/r"), path) == expanded
