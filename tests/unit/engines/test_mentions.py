"""Specs whose hooks start the launcher are known: without it every engine's own CDI would fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.engines import mentions
from shim.host.host import Host

LAUNCHER = "/usr/local/bin/shim"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    for name in ("shim", "other"):
        (tmp_path / f"usr/local/bin/{name}").write_text(name)
    (tmp_path / "usr/local/bin/shim-crun").symlink_to("shim")
    return Host(str(tmp_path))


def write(host: Host, path: str, text: str) -> None:
    host.real(path).parent.mkdir(parents=True, exist_ok=True)
    host.real(path).write_text(text)


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("/etc/cdi/a.yaml", "kind: a.b/c\n    path: /usr/local/bin/shim\n    path: /usr/local/bin/shim\n", 2),
        ("/var/run/cdi/a.json", '{"path": "\\/usr\\/local\\/bin\\/shim-crun"}', 1),
        ("/opt/specs/a.yaml", 'path: "/usr/local/bin/../bin/shim"\n', 1),
        ("/more/a.yaml", "path: /usr/local/bin/shim", 1),
        ("/etc/cdi/a.yaml", "# path: /usr/local/bin/shim\npath: /usr/local/bin/other\n", 0),
        ("/etc/cdi/a.yml", "path: /usr/local/bin/shim", 0),
        ("/elsewhere/a.yaml", "path: /usr/local/bin/shim", 0),
    ],
)
def test_a_spec_is_named_by_its_first_line_with_the_launcher(host: Host, path: str, text: str, line: int) -> None:
    write(host, "/etc/shim/config.toml", '[cdi]\nspec-dirs = ["/opt/specs"]\n')
    write(host, path, text)
    found = [(mention.path, mention.line) for mention in mentions.in_specs(host, LAUNCHER, ["/more"])]
    assert found == ([(path, line)] if line else [])


def test_a_directory_that_is_named_twice_counts_once(host: Host) -> None:
    write(host, "/etc/shim/config.toml", '[cdi]\nspec-dirs = ["/etc/cdi"]\n')
    write(host, "/etc/cdi/a.yaml", "path: /usr/local/bin/shim")
    assert len(mentions.in_specs(host, LAUNCHER, ["/etc/cdi/"])) == 1
