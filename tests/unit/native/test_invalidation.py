"""Whatever changes of what a stored decision was asked about leads to Python: generated from the trace of a real one.

The creates run in a root directory of their own, so that each directory on the way can be changed, `/` too. For each
path of the trace and each kind of change there is a new one: a change of a file cannot be taken back without a trace.
The oracle is the launcher without an interpreter: it repeats a decision, and reports SHIM_BROKEN where it needs Python.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from unit.native import repeats
from unit.native.repeat_host import ACCESS_LIST, CONFIG, NAME, SETTLED

ACL = "system.posix_acl_access"
SPEC = {
    "cdiVersion": "0.7.0",
    "kind": "v.example/repeat",
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "env": ["EXTRA=1"],
                "deviceNodes": [{"path": "/dev/repeat", "hostPath": "/opt/driver/node"}],
                "mounts": [{"hostPath": "/opt/driver/lib", "containerPath": "/opt/lib", "options": ["ro", "rbind"]}],
                "hooks": [{"hookName": "createContainer", "path": "/opt/current/hook", "args": ["hook"]}],
            },
        }
    ],
}


class Probe(NamedTuple):
    """A question of a trace, as native/answer.c has it: its kind, what it is about, and the answer."""

    kind: str
    path: str
    answer: str

    def is_a(self, *types: int) -> bool:
        """Whether something of one of these types (stat(2)) was there."""
        return (
            self.kind in {"l", "s"} and self.answer[0] != "!" and stat.S_IFMT(int(self.answer.split()[0], 8)) in types
        )


class Root:
    """A root directory with a driver, its spec, and the launcher."""

    def __init__(self, top: Path, launcher: Path, modules: Path) -> None:
        self.top = top
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self._count = 0
        for name in ("shim/bin", "shim/lib/shim", "modules", "proc", "dev", "etc/cdi", "etc/shim/low-level"):
            self[f"/{name}"].mkdir(parents=True)
        for name in ("run", "var/log", "opt/driver/lib", "bundles"):
            self[f"/{name}"].mkdir(parents=True)
        for name in ("bin", "lib", "lib64"):
            self[f"/{name}"].symlink_to(f"usr/{name}")
        self["/var/run"].symlink_to("../run")  # seen from outside, it leads into this root, too
        for source in {"/usr", sys.base_prefix}:
            self[source].mkdir(parents=True, exist_ok=True)
            _mount(source, self[source])
        _mount(modules, self["/modules"])
        _mount("/proc", self["/proc"])
        shutil.copy(launcher, self["/shim/bin"] / NAME)
        self["/shim/lib/shim/launch"].write_text("/python\n/modules\n")
        self.python(Path(sys.executable).resolve())
        (self["/etc/shim/low-level"] / NAME).symlink_to("/usr/bin/true")
        os.mknod(self["/opt/driver/node"], 0o20666, os.makedev(1, 3))
        shutil.copy("/bin/true", self["/opt/driver/hook"])
        self["/opt/current"].symlink_to("driver")
        self["/opt/driver"].chmod(0o775)  # so that its access list counts
        self["/etc/cdi/repeat.json"].write_text(json.dumps(SPEC))
        time.sleep(SETTLED)

    def __getitem__(self, path: str) -> Path:
        """A path of this root, seen from outside."""
        return self.top / path.lstrip("/")

    def python(self, interpreter: Path | None) -> None:
        """Let the launcher have an interpreter, or none."""
        self["/python"].unlink(missing_ok=True)
        if interpreter:
            self["/python"].symlink_to(interpreter)

    def create(self) -> str:
        """A create of a new bundle: what it writes to stderr, "" when it goes well."""
        self._count += 1
        bundle = self[f"/bundles/{self._count}"]
        (bundle / "rootfs").mkdir(parents=True)
        annotations = {f"cdi.k8s.io/plugin_{self._count}": "v.example/repeat=0"}
        (bundle / "config.json").write_text(json.dumps({**CONFIG, "annotations": annotations}))
        words = [f"/shim/bin/{NAME}", "create", "--bundle", f"/bundles/{self._count}", f"c{self._count}"]
        command = ["chroot", str(self.top), *words]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode == 0) == (done.stderr == ""), done
        return done.stderr

    def trace(self) -> list[Probe]:
        """The questions of the only decision that is stored."""
        [file] = self["/run/shim/answers"].iterdir()
        texts = [text.decode() for text in repeats.fields(repeats.split(file.read_bytes())[2])]
        return [Probe(*texts[at : at + 3]) for at in range(1, len(texts), 3)]


def _mount(source: str | Path, target: Path) -> None:
    subprocess.run(["mount", "--bind", source, target], check=True)


@contextmanager
def _root(directory: Path, launcher: Path, modules: Path) -> Iterator[Root]:
    """A root in which a decision was made and can be repeated; from then on there is no interpreter."""
    top = directory / "root"
    top.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", top], check=True)
    try:
        root = Root(top, launcher, modules)
        assert root.create() == ""
        root.python(None)
        assert root.create() == ""
        yield root
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", top], check=True)
        top.rmdir()


# --- changes ----------------------------------------------------------------------------------------------------------

FILE, DIRECTORY, LINK, NODE = stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFCHR


def _copy(path: Path) -> Path:
    """A copy beside, with owner, mode and times."""
    copy = path.with_name(f"{path.name}.copy")
    subprocess.run(["cp", "--archive", path, copy], check=True)
    return copy


def _rename(path: Path) -> None:
    copy = _copy(path)
    path.rename(path.with_name(f"{path.name}.old"))
    copy.rename(path)


def _edit(path: Path) -> None:
    """The last byte, so that the launcher stays a program."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b" ")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _make_node(path: Path, mode: int, minor: int) -> None:
    path.unlink()
    os.mknod(path, mode, os.makedev(1, minor))
    path.chmod(mode & 0o777)


def _relink(path: Path) -> None:
    """To the same file, by another text."""
    text = path.readlink()
    path.unlink()
    path.symlink_to(f"{text}/.")


def _unlink(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _appear(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")


class Change(NamedTuple):
    """Which probes it is for, and how it is made at their path."""

    concerns: Callable[[Probe], bool]
    make: Callable[[Path], object]


def _there(probe: Probe) -> bool:
    return probe.is_a(FILE, DIRECTORY, NODE)


def _movable(probe: Probe) -> bool:
    return probe.is_a(FILE, DIRECTORY) and probe.path != "/"


def _removable(probe: Probe) -> bool:
    """Not the launcher itself, nor the directory that says which low-level runtime it executes."""
    return probe.path not in {"/etc", f"/shim/bin/{NAME}"} and (
        _movable(probe) or probe.is_a(NODE, LINK) or probe.kind == "m"
    )


CHANGES: dict[str, Change] = {
    "another mode": Change(_there, lambda path: path.chmod(path.stat().st_mode ^ 0o001)),
    "another owner": Change(lambda probe: probe.is_a(FILE, DIRECTORY, NODE, LINK), lambda path: os.lchown(path, 7, -1)),
    "another group": Change(lambda probe: probe.is_a(FILE, DIRECTORY, NODE, LINK), lambda path: os.lchown(path, -1, 7)),
    "an access list": Change(
        lambda probe: _there(probe) or probe.kind == "a", lambda path: os.setxattr(path, ACL, ACCESS_LIST)
    ),
    "a copy by a rename": Change(_movable, _rename),
    "a copy by a bind mount": Change(_movable, lambda path: _mount(_copy(path), path)),
    "it goes away": Change(
        _removable,
        lambda path: path.rename(path.with_name(f"{path.name}.old")),
    ),
    "an edit, with the time put back": Change(lambda probe: probe.is_a(FILE), _edit),
    "another number": Change(lambda probe: probe.is_a(NODE), lambda path: _make_node(path, 0o20644, 5)),
    "another type": Change(lambda probe: probe.is_a(NODE), lambda path: _make_node(path, 0o60644, 3)),
    "another text of the link": Change(lambda probe: probe.is_a(LINK) or probe.kind == "r", _relink),
    "a directory in its place": Change(lambda probe: probe.is_a(LINK), _unlink),
    "it appears": Change(lambda probe: probe.kind in {"l", "s"} and probe.answer[0] == "!", _appear),
    "it cannot be executed": Change(lambda probe: probe.kind == "x", lambda path: path.chmod(0o644)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_path_of_a_trace_counts(trusted_path: Path, launcher: Path, modules: Path, change: Change) -> None:
    with _root(trusted_path, launcher, modules) as root:
        paths = list(dict.fromkeys(probe.path for probe in root.trace() if change.concerns(probe)))
    assert paths
    for path in paths:
        with _root(trusted_path, launcher, modules) as root:
            change.make(root[path.rpartition(" ")[2]])
            assert "SHIM_BROKEN" in root.create(), path


def test_each_variable_of_a_trace_counts(trusted_path: Path, launcher: Path, modules: Path) -> None:
    with _root(trusted_path, launcher, modules) as root:
        variables = [probe.path for probe in root.trace() if probe.kind == "e"]
        assert variables
        for variable in variables:
            root.env[variable] = "1"
            assert "SHIM_BROKEN" in root.create(), variable
            del root.env[variable]
            assert root.create() == "", variable


def test_there_is_a_change_for_each_probe_and_the_trace_has_all_kinds(
    trusted_path: Path, launcher: Path, modules: Path
) -> None:
    """But texts of the kernel's files ("t"): only users in a namespace ask for one, whose decisions are not stored."""
    with _root(trusted_path, launcher, modules) as root:
        trace = root.trace()
    assert {probe.kind for probe in trace} == set("lsrmxae")
    for probe in trace:
        assert probe.kind == "e" or any(change.concerns(probe) for change in CHANGES.values()), probe
    for kind in (FILE, DIRECTORY, LINK, NODE):
        assert any(probe.is_a(kind) for probe in trace)
