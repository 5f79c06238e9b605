"""How containerd's files become one configuration. Against the real one: test_containerd_dump.py."""

from __future__ import annotations

from typing import Any

import pytest
from unit.engines.containerd_machine import CONFIG, Machine, daemon

from shim.base.findings import CdiError
from shim.engines.containerd import config_files
from shim.engines.model import Location

GRPC, RUNTIME = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"


def _merged(texts: dict[str, str], version: tuple[int, ...] = (), cwd: str = "") -> config_files.Merged:
    running = daemon("containerd", cwd=cwd) if cwd else None
    return config_files.merged(Machine(texts), Location("containerd", CONFIG, version=version, daemon=running))


ORDERS: dict[str, tuple[dict[str, str], list[str]]] = {
    "breadth first": (
        {
            CONFIG: 'imports = ["/a.toml", "/b.toml"]',
            "/a.toml": 'imports = ["/c.toml"]',
            "/b.toml": "",
            "/c.toml": "",
        },
        [CONFIG, "/a.toml", "/b.toml", "/c.toml"],
    ),
    "a pattern, sorted, relative to the file": (
        {CONFIG: 'imports = ["d/*.toml"]', "/etc/containerd/d/2.toml": "", "/etc/containerd/d/1.toml": ""},
        [CONFIG, "/etc/containerd/d/1.toml", "/etc/containerd/d/2.toml"],
    ),
    "relative to the importing file": (
        {CONFIG: 'imports = ["/x/a.toml"]', "/x/a.toml": 'imports = ["b.toml"]', "/x/b.toml": ""},
        [CONFIG, "/x/a.toml", "/x/b.toml"],
    ),
    "in circles": (
        {CONFIG: 'imports = ["/a.toml"]', "/a.toml": f'imports = ["{CONFIG}", "/a.toml"]'},
        [CONFIG, "/a.toml"],
    ),
    "a pattern that matches nothing": ({CONFIG: 'imports = ["/none/*.toml"]'}, [CONFIG]),
    "only * makes a pattern": (
        {CONFIG: 'imports = ["/[a].toml"]', "/[a].toml": "", "/a.toml": ""},
        [CONFIG, "/[a].toml"],
    ),
    "* ends at a slash": ({CONFIG: 'imports = ["/d/*.toml"]', "/d/x/a.toml": ""}, [CONFIG]),
    "no main file": ({}, []),
}


@pytest.mark.parametrize(("texts", "order"), ORDERS.values(), ids=ORDERS)
def test_imports_are_followed_in_order(texts: dict[str, str], order: list[str]) -> None:
    assert [file.path for file in _merged(texts, (1, 7, 24)).files] == order


def test_containerd_1_6_resolves_relative_patterns_where_its_daemon_runs() -> None:
    texts = {CONFIG: 'imports = ["d/*.toml", "p.toml"]', "/srv/d/a.toml": "", "/etc/containerd/p.toml": ""}
    assert [file.path for file in _merged(texts, (1, 6, 20), cwd="/srv").files] == [
        CONFIG,
        "/srv/d/a.toml",
        "/etc/containerd/p.toml",
    ]


TWO = {
    CONFIG: f'version = %s\nimports = ["/b.toml"]\ndisabled_plugins = ["a"]\n'
    f'[plugins."{GRPC}"]\nx = 1\nlist = [1]\nt.y = 1',
    "/b.toml": f'version = %s\ndisabled_plugins = ["a", "b"]\n[plugins."{GRPC}"]\nlist = [2]\nt.z = false',
}


def test_containerd_1_takes_the_table_of_a_plugin_whole() -> None:
    merged = _merged({path: text % 2 for path, text in TWO.items()}, (1, 7, 24))
    assert merged.document["plugins"] == {GRPC: {"list": [2], "t": {"z": False}}}
    assert merged.document["disabled_plugins"] == ["a", "b"]


def test_containerd_2_merges_key_by_key_and_renames() -> None:
    merged = _merged({path: text % 2 for path, text in TWO.items()}, (2, 1, 9))
    assert merged.document["plugins"] == {RUNTIME: {"x": 1, "list": [2], "t": {"y": 1, "z": False}}}
    assert (merged.version, merged.cri) == (2, RUNTIME)


# program -> versions of the main file and the import, version of our keys, whether it is taken as 2.x takes it
VERSIONS: list[tuple[tuple[int, ...], str, str, int, bool]] = [
    ((1, 6, 20), "", "", 1, False),
    ((1, 6, 20), "version = 2", "", 2, False),
    ((1, 6, 20), "version = 2", "version = 1", 1, False),
    ((2, 1, 9), "", "", 3, True),
    ((2, 1, 9), "version = 1", "", 3, True),
    ((2, 1, 9), "version = 2", "", 2, True),
    ((2, 1, 9), "version = 2", "version = 3", 3, True),
    ((2, 1, 9), "version = 3", "version = 2", 2, True),
    ((2, 3, 0), "version = 2", "version = 3", 2, True),
    ((2, 3, 0), "", "version = 2", 3, True),
    ((2, 3, 0), "version = 4", "version = 2", 4, True),
    ((), "", "", 1, False),
    ((), "version = 2", "", 2, False),
    ((), "version = 3", "", 3, True),
]


@pytest.mark.parametrize(("program", "main", "other", "version", "modern"), VERSIONS)
def test_the_version_that_counts(program: tuple[int, ...], main: str, other: str, version: int, modern: bool) -> None:
    merged = _merged({CONFIG: f'{main}\nimports = ["/b.toml"]', "/b.toml": other}, program)
    assert (merged.version, merged.modern) == (version, modern)


@pytest.mark.parametrize(("program", "version"), [((1, 7, 24), 2), ((2, 0, 0), 3), ((), 2)])
def test_the_version_of_a_file_that_is_missing(program: tuple[int, ...], version: int) -> None:
    assert _merged({}, program).version == version


RENAMED: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "2.1 drops what a file without version calls cri": ((2, 1, 9), "[plugins.cri]\nx = 1", {GRPC: {"x": 1}}),
    "2.3 takes it": ((2, 3, 0), "[plugins.cri]\nx = 1", {RUNTIME: {"x": 1}}),
    "a key under the new name wins": (
        (2, 1, 9),
        f'version = 2\n[plugins."{GRPC}"]\nx = 1\ny = 1\n[plugins."{RUNTIME}"]\nx = 2',
        {RUNTIME: {"x": 2, "y": 1}},
    ),
    "in `containerd`, too, and the list of runtimes as a whole": (
        (2, 1, 9),
        f'version = 2\n[plugins."{GRPC}".containerd]\na = 1\nruntimes.p = {{}}\n'
        f'[plugins."{RUNTIME}".containerd]\nruntimes.q = {{}}',
        {RUNTIME: {"containerd": {"a": 1, "runtimes": {"q": {}}}}},
    ),
    "version 3 renames nothing": ((2, 1, 9), f'version = 3\n[plugins."{GRPC}"]\nx = 1', {GRPC: {"x": 1}}),
}


@pytest.mark.parametrize(("program", "text", "plugins"), RENAMED.values(), ids=RENAMED)
def test_containerd_2_renames_what_older_versions_called_otherwise(
    program: tuple[int, ...], text: str, plugins: dict[str, Any]
) -> None:
    assert _merged({CONFIG: text}, program).document["plugins"] == plugins


def test_nothing_behind_a_missing_import_is_read() -> None:
    merged = _merged({CONFIG: '\nimports = ["/a.toml", "/b.toml"]', "/b.toml": ""})
    assert [file.path for file in merged.files] == [CONFIG]
    [finding] = merged.findings
    assert (finding.id, finding.path, finding.line) == ("ENGINE_CONFIG_UNREADABLE", CONFIG, 2)
    assert "/a.toml" in finding.text


@pytest.mark.parametrize("text", ["version = 5", "version = -1", "version = true", 'version = "2"', "version = 2.0"])
def test_a_version_that_nobody_knows(text: str) -> None:
    with pytest.raises(CdiError) as refused:
        _merged({CONFIG: 'imports = ["/b.toml"]', "/b.toml": f"#\n{text}"})
    [finding] = refused.value.findings
    assert (finding.id, finding.path, finding.line) == ("ENGINE_CONFIG_VERSION", "/b.toml", 2)


def test_k0s_merges_its_own_directory() -> None:
    texts = {"/etc/k0s/containerd.toml": "version = 2", "/etc/k0s/containerd.d/a.toml": f'[plugins."{GRPC}"]\nx = 1'}
    merged = config_files.merged(Machine(texts), Location("containerd", "/etc/k0s/containerd.toml", layout="k0s"))
    assert merged.document["plugins"] == {GRPC: {"x": 1}}
    assert [file.path for file in merged.files] == list(texts)


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/d/*.toml", "/d/a.toml", True),
        ("/d/*.toml", "/d/e/a.toml", False),
        ("/d/a.toml", "/d/a.toml", True),
        ("/d/[a].toml", "/d/a.toml", False),
    ],
)
def test_what_a_pattern_covers(pattern: str, path: str, covered: bool) -> None:
    assert config_files.covers(pattern, path) is covered
