"""The index: the same answers as the files, or none at all."""

from __future__ import annotations

import json
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.cdi import cached, directories, index, index_writer, plan, unresolved
from shim.cdi.directories import Directories
from shim.cdi.index import DamagedError
from shim.cdi.index_lists import IndexLists
from shim.cdi.index_writer import Inputs
from shim.config import needles
from shim.host.trust import Trust


def _spec(kind: str, *names: str, mark: str = "") -> str:
    devices = [{"name": name, "containerEdits": {"env": [f"D={mark}{name}"]}} for name in names]
    return json.dumps(
        {"cdiVersion": "0.6.0", "kind": kind, "devices": devices, "containerEdits": {"env": [f"S={mark}"]}}
    )


class Scene:
    """Two spec directories with something of everything, and an index beside them."""

    def __init__(self, directory: Path) -> None:
        self.low, self.high = directory / "low", directory / "high"
        for place in (self.low, self.high):
            place.mkdir()
        (self.low / "gpu.json").write_text(_spec("acme.example/gpu", "0", "1", "all", mark="low"))
        (self.low / "a.json").write_text(_spec("other.example/nic", "e0"))
        (self.low / "b.json").write_text(_spec("other.example/nic", "e0", "e1"))
        (self.low / "bad.json").write_text("{")
        (self.high / "gpu.json").write_text(_spec("acme.example/gpu", "1", mark="high"))
        self.dirs = [str(self.low), str(self.high), str(directory / "missing")]
        self.path = str(directory / "run" / "index")
        self.rest()

    def rest(self) -> None:
        """Let the files be as old as an index wants them."""
        time.sleep(0.15)

    def write(self) -> Directories:
        """Write the index; what it was made from."""
        trust, inputs = Trust(), Inputs()
        found = directories.read(self.dirs, trust, inputs)
        assert index_writer.write(self.path, inputs, trust.places, {"a": 1}, found)
        return found


@pytest.fixture
def scene(trusted_path: Path) -> Scene:
    return Scene(trusted_path)


def _tell(found: Directories | IndexLists) -> dict[str, Any]:
    """Everything that can be asked of both, as plain values."""
    devices = {}
    for name in [*found.devices(), "acme.example/gpu", "acme.example/gpu=7", "", "\n", "acme.example/gpu=0\t0"]:
        served = found.get(name)
        devices[name] = served and (served[0].path, served[0].edits, served[1], served[0].devices[served[1]])
    return {
        "dirs": found.dirs,
        "searched": found.searched,
        "kinds": found.kinds(),
        "vendors": found.vendors(),
        "classes": found.classes(),
        "devices": devices,
        "drivers": {
            kind: [(one.path, one.edits) for one in found.driver(kind)] for kind in [*found.kinds(), "x/y", ""]
        },
        "conflicts": found.conflicts,
        "shadowed": found.shadowed,
        "refused": [one.to_json() for one in unresolved.refused(found.findings)],
        "findings": {path: [one.to_json() for one in these] for path, these in found.findings.items()},
        "specs": [(spec.path, spec.document) for spec in found.specs],
    }


def test_an_index_answers_everything_as_the_directories_do(scene: Scene) -> None:
    found = scene.write()
    loaded = index.load(scene.path)
    assert loaded is not None
    assert _tell(loaded.whole()) == _tell(found)
    assert loaded.settings == {"a": 1}


def test_a_plan_from_the_index_is_the_plan_from_the_files(scene: Scene) -> None:
    found = scene.write()
    loaded = index.load(scene.path)
    assert loaded is not None
    names = ["acme.example/gpu=1", "acme.example/gpu=0", "acme.example/gpu=all", "acme.example/gpu=0"]
    assert plan.make(names, loaded).to_json() == plan.make(names, found).to_json()
    with pytest.raises(plan.UnresolvedError) as by_index:
        plan.make(["acme.example/gpu=9"], loaded)
    with pytest.raises(plan.UnresolvedError) as by_files:
        plan.make(["acme.example/gpu=9"], found)
    assert str(by_index.value) == str(by_files.value)


def test_open_uses_and_renews_the_index_of_its_directories(scene: Scene) -> None:
    first = cached.open(scene.dirs, trust=Trust(), index=scene.path)
    second = cached.open(scene.dirs, trust=Trust(), index=scene.path)
    other = cached.open([str(scene.low)], trust=Trust(), index=scene.path)
    assert (type(first), type(second), type(other)) == (Directories, IndexLists, Directories)
    assert _tell(first) == _tell(second)


def _append(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n")


def _rewrite_with_old_times(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text().replace("low0", "LOW0"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text(path.read_text())
    other.replace(path)


CHANGES: dict[str, Callable[[Scene], Any]] = {
    "a file grows": lambda scene: _append(scene.low / "gpu.json"),
    "a file changes within its length, its times put back": lambda scene: _rewrite_with_old_times(
        scene.low / "gpu.json"
    ),
    "a file is replaced by its copy": lambda scene: _replace(scene.low / "gpu.json"),
    "a file is added": lambda scene: (scene.low / "new.json").write_text(_spec("new.example/x", "0")),
    "a file is removed": lambda scene: (scene.high / "gpu.json").unlink(),
    "a refused file is mended": lambda scene: (scene.low / "bad.json").write_text(_spec("new.example/x", "0")),
    "a missing directory appears": lambda scene: Path(scene.dirs[2]).mkdir(),
    "a directory goes away": lambda scene: scene.high.rename(scene.high.with_name("gone")),
    "a file gets another owner": lambda scene: os.chown(scene.low / "gpu.json", 1, 1),
    "a file can be written by everybody": lambda scene: (scene.low / "gpu.json").chmod(0o666),
    "a directory can be written by everybody": lambda scene: scene.low.chmod(0o777),
    "a directory above can be written by everybody": lambda scene: scene.low.parent.chmod(0o777),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_after_any_change_the_index_does_not_count(scene: Scene, change: Callable[[Scene], Any]) -> None:
    scene.write()
    assert index.load(scene.path) is not None  # the control: it does count before
    change(scene)
    assert index.load(scene.path) is None


def test_after_a_new_access_list_that_leaves_the_mode_the_index_does_not_count(scene: Scene) -> None:
    """Where the group may write already, another writer does not show in the mode of a directory above."""
    above = scene.low.parent
    above.chmod(0o775)
    scene.write()
    assert index.load(scene.path) is not None
    entries = [(0x01, 7, -1), (0x02, 7, 4242), (0x04, 7, -1), (0x10, 7, -1), (0x20, 5, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(above, "system.posix_acl_access", acl)
    assert above.stat().st_mode & 0o777 == 0o775
    assert index.load(scene.path) is None


def test_what_changed_a_moment_ago_could_change_again_unseen_so_nothing_is_written(scene: Scene) -> None:
    trust, inputs = Trust(), Inputs()
    found = directories.read(scene.dirs, trust, inputs)
    _append(scene.low / "gpu.json")
    assert not index_writer.write(scene.path, inputs, trust.places, {}, found), "changed while it was read"
    inputs = Inputs()
    found = directories.read(scene.dirs, trust, inputs)
    assert not index_writer.write(scene.path, inputs, trust.places, {}, found), "changed just before"
    scene.rest()
    scene.write()


def _as_link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def _as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _of_another_version(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"version":"0.', b'"version":"9.'))


ODD: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "a link": _as_link,
    "a FIFO": _as_fifo,
    "a directory": _as_directory,
    "of another owner": lambda path: os.chown(path, 1, 1),
    "writable by a group": lambda path: path.chmod(0o660),
    "writable by others": lambda path: path.chmod(0o602),
    "in a directory of another owner": lambda path: os.chown(path.parent, 1, 1),
    "in a directory that others can write": lambda path: path.parent.chmod(0o757),
    "in a directory that is a link": lambda path: _as_link(path.parent),
    "empty": lambda path: path.write_bytes(b""),
    "of another version": _of_another_version,
    "of another format": lambda path: path.write_bytes(
        path.read_bytes().replace(b"shim-index 0001", b"shim-index 0002")
    ),
    "with a length that is no number": lambda path: path.write_bytes(b"shim-index 0001 0000zzzz 00000000 00000000\n"),
    "with a length beyond its end": lambda path: path.write_bytes(b"shim-index 0001 7fffffff 7fffffff 7fffffff\n{}"),
    "with a negative length": lambda path: path.write_bytes(b"shim-index 0001 -0000001 00000000 00000000\n{}"),
    "longer than it says": _append,
    # its descriptor was closed twice, and the second time raised what nobody expected
    "without a member": lambda path: path.write_bytes(path.read_bytes().replace(b'"dirs":', b'"dirt":')),
    "without inputs": lambda path: path.write_bytes(path.read_bytes().replace(b'"inputs":', b'"outputs":', 1)[:-1]),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD.keys())
def test_whatever_is_odd_about_an_index_means_that_there_is_none(scene: Scene, change: Callable[[Path], Any]) -> None:
    scene.write()
    change(Path(scene.path))
    assert index.load(scene.path) is None


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o755])
def test_an_index_counts_in_a_directory_that_others_can_pass_through(scene: Scene, mode: int) -> None:
    """With a line of tmpfiles.d that makes /run/shim 0755, each create wrote an index and then refused to read it."""
    Path(scene.path).parent.mkdir()
    Path(scene.path).parent.chmod(mode)
    scene.write()
    assert index.load(scene.path) is not None


def _link(path: Path) -> Path:
    path.with_name("elsewhere").mkdir()
    path.symlink_to("elsewhere")
    return path.with_name("elsewhere")


def _for_everybody(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o777)
    return path


def _of_another(path: Path) -> Path:
    path.mkdir()
    os.chown(path, 1, 1)
    return path


FOREIGN = {"a link": _link, "writable by everybody": _for_everybody, "another user's": _of_another}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
def test_nothing_is_written_into_a_directory_that_is_not_ours(scene: Scene, make: Callable[[Path], Path]) -> None:
    """Who may write there could have put a link in the file's place, or would own what is read as root's word."""
    directory = make(Path(scene.path).parent)
    found, inputs = directories.read(scene.dirs, Trust(), Inputs()), Inputs()
    assert not index_writer.write(scene.path, inputs, [], {}, found)
    assert not needles.write(f"{Path(scene.path).parent}/needles", [], ["x"])
    assert os.listdir(directory) == []


def test_an_index_cut_anywhere_does_not_count(scene: Scene) -> None:
    scene.write()
    whole = Path(scene.path).read_bytes()
    for size in range(0, len(whole), 7):
        Path(scene.path).write_bytes(whole[:size])
        assert index.load(scene.path) is None


def test_an_index_with_noise_in_it_is_refused_or_damaged_and_never_breaks_anything(scene: Scene) -> None:
    scene.write()
    whole = Path(scene.path).read_bytes()
    noise = random.Random(7)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(noise.randint(1, 8)):
            data[noise.randrange(len(data))] = noise.randrange(256)
        Path(scene.path).write_bytes(data)
        found = index.load(scene.path)
        if found is not None:
            try:
                found.get("acme.example/gpu=0")
            except DamagedError:
                pass


def test_readers_never_see_anything_but_the_truth_while_specs_change(scene: Scene) -> None:
    """Three processes look a device up without end while its spec is replaced; each answer was true meanwhile."""
    spec = scene.low / "gpu.json"

    def change(number: int) -> None:
        other = scene.low / ".gpu"
        other.write_text(_spec("acme.example/gpu", "0", mark=f"{number}:"))
        other.replace(spec)

    def number_now() -> int:
        return int(json.loads(spec.read_text())["containerEdits"]["env"][0].removeprefix("S=").rstrip(":"))

    def look() -> bool:
        for _ in range(300):
            before = number_now()
            served = cached.open(scene.dirs, trust=Trust(), index=scene.path).get("acme.example/gpu=0")
            after = number_now()
            if not served or not before <= int(served[0].devices["0"]["env"][0][2:].split(":")[0]) <= after:
                return False
        return True

    change(0)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if look() else 1)
        children.append(child)
    number, statuses = 0, []
    while children:
        number += 1
        change(number)
        time.sleep(0.02 if number % 8 else 0.3)  # now and then there is time for an index
        for child in list(children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                children.remove(child)
                statuses.append(status)
    assert statuses == [0, 0, 0]


def test_files_that_killed_processes_left_beside_the_index_go_when_one_is_written(scene: Scene) -> None:
    """They were removed from the directory of the records only, and stayed here until the next boot."""
    directory = Path(scene.path).parent
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / f"index.{1 << 22}").write_text("half an index")
    (directory / f"needles-0123.{1 << 22}").write_text("half")
    kept = {f"index.{os.getppid()}", "needles", "other.text"}
    for name in kept:
        (directory / name).write_text("of a process that runs, and others")
    scene.write()
    assert {path.name for path in directory.iterdir()} == {*kept, Path(scene.path).name}
