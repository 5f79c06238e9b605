"""What shim.engines thinks of containerd's files, against containerd itself (1.6, Debian 12's), by `config dump`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engines.harness import programs
from unit.engines import containerd_cases

from shim.engines.model import Location, NewRuntime
from shim.engines.table import ENGINES
from shim.engines.texts import toml_edit
from shim.engines.texts.editing import apply
from shim.host.host import Host

containerd = ENGINES["containerd"]

[PROGRAM] = programs.find("containerd")
VERSION = Host().version(PROGRAM)
SHIM = NewRuntime("shim", "/opt/shim")
CRI = 'plugins."io.containerd.grpc.v1.cri"'
RUNC = f"""[{CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{CRI}.containerd.runtimes.runc.options]
SystemdCgroup = true
"""

# versions that files state, 0 for none; names of the CRI plugin in them
KINDS = {
    "version 2": ([2], ["io.containerd.grpc.v1.cri"]),
    "no version": ([0], ["cri"]),
    "version 1, with names of 2": ([0, 1], ["cri", "io.containerd.grpc.v1.cri"]),
    "two versions": ([1, 2], ["cri", "io.containerd.grpc.v1.cri"]),
}


@pytest.mark.parametrize(("versions", "names"), KINDS.values(), ids=KINDS)
def test_files_are_merged_as_containerd_merges_them(tmp_path: Path, versions: list[int], names: list[str]) -> None:
    compared = 0
    for seed in range(10):
        top = tmp_path / str(seed)
        top.mkdir()
        main = containerd_cases.write(top, seed, versions, names)
        said = containerd_cases.dumped(main, PROGRAM)
        if said is not None:  # containerd refuses files that are missing, and names of version 1 in version 2
            assert containerd_cases.read(main, PROGRAM, VERSION) == said, main
            compared += 1
    assert compared >= 4


def _dump(main: Path) -> dict[tuple[str, ...], Any]:
    done = subprocess.run([PROGRAM, "--config", main, "config", "dump"], capture_output=True, text=True, check=True)
    document = toml_edit.loads(done.stdout)
    del document["imports"]  # the files that were read, in any order
    return dict(_leaves(document))


def _leaves(document: dict[str, Any], keys: tuple[str, ...] = ()) -> Any:
    """Each value with its keys, but those that are empty: containerd fills in some of them when it likes."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*keys, key))
        elif value not in ("", 0, [], {}):
            yield (*keys, key), value


MACHINES = {
    "nothing said": {"main.toml": "version = 2\n"},
    "an empty file": {"main.toml": ""},
    "version 1": {"main.toml": '[plugins.cri]\nsandbox_image = "x"\n[plugins.linux]\nruntime = "runc"\n'},
    "version 1 with runtimes": {
        "main.toml": "version = 1\n[plugins.cri.containerd.runtimes.crun]\n"
        'runtime_type = "io.containerd.runc.v2"\n[plugins.cri.containerd]\ndefault_runtime_name = "crun"\n'
    },
    "version 2 with runtimes": {"main.toml": f"version = 2\n{RUNC}"},
    "imports of something else": {
        "main.toml": 'version = 2\nimports = ["d/x.toml"]\n' + RUNC,
        "d/x.toml": 'version = 2\n[debug]\nlevel = "warn"\n',
    },
    "an import with the CRI section": {
        "main.toml": 'version = 2\nimports = ["d/x.toml"]\n' + RUNC,
        "d/x.toml": f"version = 2\n{RUNC}",
    },
    "an import that holds nothing but a part of the CRI section": {
        "main.toml": 'version = 2\nimports = ["d/x.toml"]\n',
        "d/x.toml": f'version = 2\n[{CRI}]\nsandbox_image = "x"\n',
    },
}


def _machine(top: Path, files: dict[str, str]) -> tuple[Host, Location]:
    for name, text in files.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(text)
    host = Host(daemons=[])
    return host, containerd.locate(host, config=str(top / "main.toml"))


@pytest.mark.parametrize("files", MACHINES.values(), ids=MACHINES)
def test_nothing_but_our_runtime_differs_afterwards(tmp_path: Path, files: dict[str, str]) -> None:
    host, location = _machine(tmp_path, files)
    assert (location.program, location.version, location.drop_in) == (PROGRAM, VERSION, "")
    before = _dump(tmp_path / "main.toml")
    edits = containerd.edits(host, location, containerd.read(host, location), SHIM)
    for path, data in apply(edits, {edit.path: host.read(edit.path) for edit in edits}).items():
        Path(path).write_bytes(data)
    after = _dump(tmp_path / "main.toml")
    section = ("plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes", "shim")
    assert {keys: value for keys, value in after.items() if keys[:5] != section} == before
    ours = {keys[5:]: value for keys, value in after.items() if keys[:5] == section}
    assert ours["runtime_type",] == "io.containerd.runc.v2"
    assert ours["options", "BinaryName"] == "/opt/shim"
    assert ours["container_annotations",] == ["cdi.k8s.io/*"]


# --- asked before anything is written ---------------------------------------------------------------------------------


def test_containerd_is_asked_about_files_that_are_not_written_yet(tmp_path: Path) -> None:
    host, location = _machine(tmp_path, {"main.toml": 'version = 2\nimports = ["d/x.toml"]\n', "d/x.toml": RUNC})
    now = containerd.preview(host, location, {})
    assert now
    assert sorted(now.runtimes) == ["runc"]
    assert now.runtimes["runc"].systemd_cgroup is True
    new = RUNC.replace("runtimes.runc", "runtimes.new")
    then = containerd.preview(host, location, {str(tmp_path / "d/x.toml"): new.encode()})
    assert then
    assert sorted(then.runtimes) == ["new"], "the list of an import takes the place of the built-in one"
    assert (tmp_path / "d/x.toml").read_text() == RUNC


def test_a_main_file_that_is_missing_is_no_fault(tmp_path: Path) -> None:
    host = Host(daemons=[])
    location = containerd.locate(host, config=str(tmp_path / "main.toml"))
    said = containerd.preview(host, location, {})
    assert said
    assert sorted(said.runtimes) == ["runc"]
    assert list(tmp_path.iterdir()) == []


class Watched(Host):
    """A host that looks where its program is sent."""

    def ask(self, *argv: str, **how: Any) -> str | None:
        self.directory = Path(argv[2]).parent
        self.mode = os.stat(self.directory).st_mode & 0o777
        return super().ask(*argv, **how)


def test_the_candidates_lie_where_nobody_else_can_read_them_and_go(tmp_path: Path) -> None:
    _, location = _machine(tmp_path, {"main.toml": "version = 2\n"})
    watched = Watched(daemons=[])
    assert containerd.preview(watched, location, {})
    assert watched.mode == 0o700
    assert not watched.directory.exists()


def test_nobody_can_be_asked(tmp_path: Path) -> None:
    host, location = _machine(tmp_path, {"main.toml": "version = 2\n"})
    assert containerd.preview(Host(str(tmp_path), daemons=[]), location, {}) is None, "another machine"
    assert containerd.preview(host, Location("containerd", location.config), {}) is None, "no program"
    assert (
        containerd.preview(host, Location("containerd", location.config, program=PROGRAM, layout="k3s"), {}) is None
    ), "k3s"
    assert containerd.preview(host, location, {location.config: b"version = 7\n"}) is None, "no such version"
    assert containerd.preview(host, location, {location.config: b"version = 2\nplugins = 1\n"}) is None, (
        "it refuses the file"
    )


def test_the_built_in_runtime_is_asked_for_when_no_file_describes_it(tmp_path: Path) -> None:
    host, location = _machine(tmp_path, {"main.toml": "version = 2\n"})
    assert containerd.read(host, location).runtimes["runc"].systemd_cgroup is False
    assert containerd.read(Host(str(tmp_path), daemons=[]), location).runtimes["runc"].systemd_cgroup is None
