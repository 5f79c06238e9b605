"""The table of engines: which of them are on a machine, and that nothing else knows them by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from unit.engines.toy import Toy

from shim.base.findings import CdiError
from shim.engines import table
from shim.engines.contract import Engine
from shim.engines.model import Location, Registry
from shim.host.host import Daemon, Host


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


def test_an_engine_is_there_when_it_is_installed_or_runs(root: Path) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/podman").touch(0o755)
    (root / "usr/bin/crio").touch(0o644)  # no program
    daemon = Daemon(7, ("/opt/docker/dockerd", "--debug"), 0.0)
    assert [engine.name for engine in table.present(Host(str(root), daemons=[daemon]))] == ["docker", "podman"]


def test_a_machine_without_any_is_told_which_were_looked_for(root: Path) -> None:
    with pytest.raises(CdiError, match="containerd, crio, dockerd, podman") as refused:
        table.present(Host(str(root), daemons=[]))
    assert [finding.id for finding in refused.value.findings] == ["ENGINE_MISSING"]


# --- a new engine is one package and one line in the table ------------------------------------------------------------


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    """An engine with the four methods that each must have, in the table."""
    toy = Toy()
    monkeypatch.setitem(table.ENGINES, toy.name, toy)
    return toy


def test_a_new_engine_is_found_by_its_program(root: Path, toy: Toy) -> None:
    assert table.present(Host(str(root), daemons=[Daemon(7, ("/usr/bin/toyd",), 0.0)])) == [toy]


def test_a_new_engine_has_none_of_the_abilities_that_some_have(toy: Toy) -> None:
    host, location, registry = Host("/nonexistent", daemons=[]), Location("toy", "/etc/toy.toml"), Registry()
    assert toy.preview(host, location, {"/etc/toy.toml": b""}) is None
    assert toy.ask_daemon(host, location, registry) is None
    assert toy.restart_command(location) == "systemctl restart toy"
    assert Engine.ways_to_ask(toy, location, registry, "shim") == "ask by annotation or --device"
    assert (
        toy.pod_annotation(host, registry, "shim", "cdi.k8s.io/x")
        == "toy passes no annotation of a Pod on to its containers"
    )
    assert toy.containers(host) == []
    assert not toy.has_hooks


def test_a_package_without_one_of_the_four_is_no_engine() -> None:
    class Half(Engine):
        locate, read, edits = Toy.locate, Toy.read, Toy.edits

    with pytest.raises(TypeError, match="faults"):
        Half()  # type: ignore[abstract]  # that is what is tested


COMMON = [
    *Path(table.__file__).parent.glob("*.py"),
    *(Path(table.__file__).parents[1] / "cli" / name for name in ("runtime.py", "registration.py")),
]


@pytest.mark.parametrize("path", COMMON, ids=lambda path: path.name)
def test_what_all_engines_share_knows_none_by_name(path: Path) -> None:
    """Restart commands, what arrives of a Pod's annotations, who has hooks: each stood in a table by engines' names."""
    constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    assert constants & {"containerd", "crio", "docker", "dockerd", "podman"} == set()
