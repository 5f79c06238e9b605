"""The record of an injection, and exec, which reads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.create.exec_cases import EXECS

from shim.cdi.plan import Plan
from shim.config.settings import Settings
from shim.create import exec_env, record, record_files, record_reader
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.recipe import Decision

Json = dict[str, Any]

# What the launcher must come to as well (native/places.c): name, root, id -> key
KEYS = {
    ("", "", ""): "08328807b4eb6fed",
    ("shim", "", "c1"): "854f2cb31290d180",
    ("shim-crun", "/run/crun", "ü"): "e74bf8dbed5f4a9b",
}


@pytest.mark.parametrize(("words", "key"), KEYS.items())
def test_the_key_is_the_same_everywhere(words: tuple[str, str, str], key: str) -> None:
    assert record_files.key(*words) == key


def _fnv(data: bytes) -> int:
    """By hand, as the definition reads."""
    number = 14695981039346656037
    for byte in data:
        number ^= byte
        number = number * 1099511628211 % 2**64
    return number


def test_the_hash_is_the_published_one() -> None:
    assert _fnv(b"") == 0xCBF29CE484222325
    assert _fnv(b"a") == 0xAF63DC4C8601EC8C
    assert _fnv(b"foobar") == 0x85944171F73967E8


PART = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@given(PART, PART, PART)
def test_the_key_is_the_hash_of_name_root_and_id(name: str, root: str, id: str) -> None:
    assert record_files.key(name, root, id) == f"{_fnv(chr(0).join((name, root, id)).encode()):016x}"


def test_bytes_that_are_no_utf_8_count_as_they_are() -> None:
    assert record_files.key("shim", "\udcff", "x") == f"{_fnv(bytes([*b'shim', 0, 255, 0, *b'x'])):016x}"


class Container:
    """A bundle, a directory for records, and the call that created the container."""

    def __init__(self, directory: Path, id: str = "c1", root: str = "/run/r") -> None:
        self.place = str(directory / "run" / "c")
        (directory / "run").mkdir(mode=0o700, exist_ok=True)
        self.bundle = directory / f"bundle-{id}"
        self.bundle.mkdir(exist_ok=True)
        self.config = self.bundle / "config.json"
        self.process = directory / "process.json"
        self.id, self.root = id, root

    def call(self, verb: str = "create", **changes: str) -> Invocation:
        said = {"low": "/bin/true", "name": "shim", "self": "/x", "verb": verb, "root": self.root, "id": self.id}
        said |= {"key": record_files.key("shim", self.root, self.id), "process": str(self.process)}
        said |= {} if verb == "exec" else {"bundle": str(self.bundle)}
        return Invocation([*(f"{key}={value}" for key, value in {**said, **changes}.items()), "--", "true"])

    def let_time_pass(self) -> None:
        """The records were last swept more than a minute ago."""
        stamp = Path(self.place).parent / "swept"
        if stamp.exists():
            os.utime(stamp, (time.time() - 61,) * 2)

    @property
    def file(self) -> Path:
        return Path(self.place) / record_files.key("shim", self.root, self.id)

    def create(self, env: list[str], before: list[str], call: Invocation | None = None) -> None:
        """Inject the variables into a config that has those of `before`."""
        self.config.write_text(json.dumps({"process": {"env": before}}))
        self.inject(env, call)

    def inject(self, env: list[str], call: Invocation | None = None) -> None:
        """Inject into the config as it is."""
        plan = Plan(["v.example/c=d"], [{"spec": "/etc/cdi/x.json", "device": "d", "edits": {"env": env}}])
        bundle = Bundle(str(self.config))
        edited = _with(bundle.config, env)
        assert edited == bundle.config or bundle.put(edited)
        decision = Decision(Settings())
        decision.plan, decision.requests = plan, {"v.example/c=d": "--device"}
        record.write(self.place, call or self.call(), decision, bundle, edited, [])

    def exec(self, env: object, call: Invocation | None = None) -> object:
        """The environment of a process file after exec."""
        self.process.write_text(json.dumps({"args": ["sh"], "env": env, "cwd": "/"}))
        exec_env.complete(call or self.call("exec"), self.place)
        decoded: Json = json.loads(self.process.read_text())
        assert (decoded["args"], decoded["cwd"]) == (["sh"], "/")
        return decoded["env"]


def _with(config: Json, env: list[str]) -> Json:
    names = [entry.partition("=")[0] for entry in env]
    kept = [entry for entry in config["process"]["env"] if entry.partition("=")[0] not in names]
    return {**config, "process": {**config["process"], "env": [*kept, *env]}}


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_a_record_says_what_was_injected_for_whom(container: Container) -> None:
    container.create(["A=1", "B=2"], ["B=0", "Z=9"])
    found = record_reader.read(container.place, container.call("exec"))
    assert found is not None
    assert found["bundle"] == str(container.bundle)
    assert found["wanted"] == {"v.example/c=d": "--device"}
    assert found["env"] == {"A": ["1", None], "B": ["2", "0"]}
    assert found["origins"][0]["spec"] == "/etc/cdi/x.json"
    assert (container.file.stat().st_mode & 0o7777, container.file.parent.stat().st_mode & 0o7777) == (0o600, 0o700)
    assert os.listdir(container.place) == [container.file.name]


def _save_again(container: Container, change: Any) -> None:
    """Replace config.json as an engine does, by a file of its own."""
    config = json.loads(container.config.read_text())
    change(config)
    container.config.unlink()
    container.config.write_text(json.dumps(config, indent=1))


# What an engine does to config.json -> whether the record counts afterwards
SAVED: dict[str, tuple[Any, bool]] = {
    "saved as it is": (lambda _: None, True),
    "podman update, which replaces the resources": (
        lambda config: config.update(linux={"resources": {"pids": {}}}),
        True,
    ),
    "another variable": (lambda config: config["process"]["env"].append("C=3"), True),
    "a variable of a device is gone": (lambda config: config["process"]["env"].remove("A=1"), False),
    "written anew for a container without devices": (lambda config: config.update(process={"env": []}), False),
    "no object any more": (lambda config: config.update(process=[]), False),
}


@pytest.mark.parametrize(("change", "counts"), SAVED.values(), ids=SAVED.keys())
def test_b5_a_record_counts_while_config_json_holds_its_edits(container: Container, change: Any, counts: bool) -> None:
    """podman 6 saves config.json again at `podman update`: exec lost the variables of devices."""
    container.create(["A=1"], ["Z=9"])
    _save_again(container, change)
    assert (record_reader.read(container.place, container.call("exec")) is not None) == counts
    assert container.exec(["Z=9"]) == (["Z=9", "A=1"] if counts else ["Z=9"])
    assert [entry["holds"] for entry in record_reader.entries(container.place)] == [counts]


# --- exec -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("injected", "before", "given", "wanted"), EXECS.values(), ids=EXECS.keys())
def test_exec_gets_each_variable_that_is_absent_or_still_old(
    container: Container, injected: list[str], before: list[str], given: Any, wanted: Any
) -> None:
    container.create(injected, before)
    assert container.exec(given) == wanted


def test_the_process_file_keeps_mode_and_owner(container: Container) -> None:
    container.create(["A=1"], [])
    container.process.write_text('{"env": []}')
    container.process.chmod(0o640)
    os.chown(container.process, 1234, 2345)
    exec_env.complete(container.call("exec"), container.place)
    status = container.process.stat()
    assert json.loads(container.process.read_text()) == {"env": ["A=1"]}
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 1234, 2345)
    assert not list(container.process.parent.glob("*.shim-*"))


OTHERS = {
    "another id": {"id": "c2"},
    "another root": {"root": "/run/other"},
    "another name of the launcher": {"name": "shim-crun"},
    "no key": {"key": ""},
    "a key that leads elsewhere": {"key": "../c/0"},
    "no process file": {"process": ""},
    "a process file that is gone": {"process": "/nowhere/process"},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS.keys())
def test_a_record_counts_only_for_its_own_container(container: Container, changes: dict[str, str]) -> None:
    """Even if the keys of two were the same: name, root and id stand in the record."""
    container.create(["A=1"], [])
    assert container.exec(["Z=9"], container.call("exec", **changes)) == ["Z=9"]


def _replace_config(container: Container) -> None:
    container.config.write_text(json.dumps({"process": {"env": []}}))


def _remove_config(container: Container) -> None:
    container.config.unlink()


def _cut(container: Container) -> None:
    container.file.write_bytes(container.file.read_bytes()[:-20])


def _other_format(container: Container) -> None:
    container.file.write_text(container.file.read_text().replace('"format":1', '"format":2'))


def _odd_env(container: Container) -> None:
    container.file.write_text(container.file.read_text().replace('{"A":["1",null]}', '{"A":["1",7]}'))


def _no_env(container: Container) -> None:
    container.file.write_text(container.file.read_text().replace('"env"', '"venv"'))


def _list(container: Container) -> None:
    container.file.write_text('"/"\n[]\n')


def _link(container: Container) -> None:
    container.file.rename(container.file.with_name("elsewhere"))
    container.file.symlink_to("elsewhere")


def _fifo(container: Container) -> None:
    container.file.unlink()
    os.mkfifo(container.file)


def _foreign(container: Container) -> None:
    os.chown(container.file, 1234, 1234)


def _gone(container: Container) -> None:
    container.file.unlink()


ODD = [_replace_config, _remove_config, _cut, _other_format, _odd_env, _no_env, _list, _link, _fifo, _foreign, _gone]


@pytest.mark.parametrize("damage", ODD, ids=[damage.__name__[1:] for damage in ODD])
def test_a_record_that_is_odd_or_out_of_date_is_no_record(container: Container, damage: Any) -> None:
    container.create(["A=1"], [])
    damage(container)
    assert container.exec(["Z=9"]) == ["Z=9"]


PROCESS_FILES = {
    "not JSON": b"{",
    "not UTF-8": b'{"a": "\xff"}',
    "a list": b"[]",
    "a name twice": b'{"env": [], "env": []}',
    "nothing": b"",
}


@pytest.mark.parametrize("data", PROCESS_FILES.values(), ids=PROCESS_FILES.keys())
def test_an_odd_process_file_is_left_to_the_low_level_runtime(container: Container, data: bytes) -> None:
    container.create(["A=1"], [])
    container.process.write_bytes(data)
    exec_env.complete(container.call("exec"), container.place)
    assert container.process.read_bytes() == data


def test_not_even_a_defect_of_ours_stops_an_exec(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    container.create(["A=1"], [])
    monkeypatch.setattr(exec_env, "_completed", lambda *_: 1 / 0)
    assert container.exec([]) == []


def test_a_writer_to_a_process_file_that_is_a_fifo_waits_for_the_runtime(container: Container) -> None:
    """It was opened and closed: what was written was lost, and the low-level runtime waited for ever."""
    container.create(["A=1"], [])
    os.mkfifo(container.process)
    writer = threading.Thread(target=container.process.write_text, args=("{}",))
    writer.start()
    exec_env.complete(container.call("exec"), container.place)
    writer.join(0.1)
    assert writer.is_alive(), "nobody has opened it for reading"
    assert container.process.read_text() == "{}"
    writer.join(10)
    assert not writer.is_alive()


def test_a_process_file_that_is_a_link_is_left_alone(container: Container) -> None:
    container.create(["A=1"], [])
    target = container.process.with_name("target")
    target.write_text('{"env": []}')
    container.process.symlink_to(target)
    exec_env.complete(container.call("exec"), container.place)
    assert target.read_text() == '{"env": []}'
    assert container.process.is_symlink()


# --- more than one create -------------------------------------------------------------------------------------------


def test_a_second_create_on_the_same_file_keeps_what_was_there_before_the_first(container: Container) -> None:
    container.create(["A=1", "B=2"], ["A=0"])
    container.inject(["A=1", "B=2"])
    assert container.exec(["A=0"]) == ["A=1", "B=2"]


def test_a_second_create_with_another_value_too(container: Container) -> None:
    container.create(["A=1", "B=2"], ["A=0"])
    container.inject(["A=5", "B=2"])
    assert container.exec(["A=0"]) == ["A=5", "B=2"]


def test_another_container_on_a_bundle_that_has_all_gets_what_its_exec_lacks(container: Container) -> None:
    container.create(["A=1"], [])
    second = container.call(id="c2", key=record_files.key("shim", container.root, "c2"))
    container.inject(["A=1"], second)
    call = container.call("exec", id="c2", key=record_files.key("shim", container.root, "c2"))
    assert container.exec([], call) == ["A=1"]


# --- where records lie ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_no_record_is_left_in_a_directory_that_others_can_write(container: Container, mode: int) -> None:
    Path(container.place).parent.chmod(mode)
    container.create(["A=1"], [])
    assert not Path(container.place).exists()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_record_in_a_directory_that_others_can_write_does_not_count(container: Container, mode: int) -> None:
    """Its file belongs to us, but who can write there may give it another name."""
    container.create(["A=1"], [])
    for directory in (Path(container.place), Path(container.place).parent):
        assert container.exec([]) == ["A=1"]
        directory.chmod(mode)
        assert container.exec([]) == []
        directory.chmod(0o755)


def test_no_record_is_left_behind_a_link(container: Container, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    Path(container.place).symlink_to(tmp_path / "elsewhere")
    container.create(["A=1"], [])
    assert os.listdir(tmp_path / "elsewhere") == []


def test_without_a_place_or_a_key_nothing_is_written(container: Container) -> None:
    container.create(["A=1"], [], container.call(key=""))
    container.place = ""
    container.create(["A=1"], [])
    assert not (container.bundle.parent / "run" / "c").exists()


def test_what_cannot_be_written_changes_nothing(container: Container) -> None:
    Path(container.place).write_text("a file in its place")
    container.create(["A=1"], [])
    assert Path(container.place).read_text() == "a file in its place"


# --- cleaning up ----------------------------------------------------------------------------------------------------


def test_records_whose_bundle_is_gone_go_with_a_later_create(tmp_path: Path) -> None:
    containers = [Container(tmp_path, id=f"c{number}") for number in range(60)]
    for container in containers:
        container.let_time_pass()
        container.create(["A=1"], [])
    directory = Path(containers[0].place)
    assert len(os.listdir(directory)) == 60, "a record was taken away although its bundle is there"
    for container in containers[:50]:
        container.config.unlink()
        container.bundle.rmdir()
    (directory / "0123456789abcdef.999999999").write_text("half a record of a killed process")
    living = directory / f"0123456789abcdef.{os.getpid()}"
    living.write_text("half a record of one that is still there")
    containers[-1].create(["A=1"], [])
    assert len(os.listdir(directory)) == 62, "it was swept less than a minute ago"
    containers[-1].let_time_pass()
    containers[-1].create(["A=1"], [])
    assert set(os.listdir(directory)) == {living.name, *(container.file.name for container in containers[50:])}


def test_of_many_files_each_is_looked_at_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One create must not read thousands of files."""
    container = Container(tmp_path)
    container.create(["A=1"], [])
    for number in range(1000):
        Path(container.place, f"{number:016x}").write_text("no record")
    for pid in range(1000, 1040):
        monkeypatch.setattr("posix.getpid", lambda pid=pid: pid * 7919)
        container.let_time_pass()
        before = len(os.listdir(container.place))
        container.create(["A=1"], [])
        assert before - 256 <= len(os.listdir(container.place)) <= before
    assert os.listdir(container.place) == [container.file.name]


def test_a_clock_that_was_put_back_does_not_end_the_sweeping(tmp_path: Path) -> None:
    container, gone = Container(tmp_path), Container(tmp_path, id="gone")
    gone.create(["A=1"], [])
    shutil.rmtree(gone.bundle)
    os.utime(Path(container.place).parent / "swept", (time.time() + 86400,) * 2)
    container.create(["A=1"], [])
    assert not gone.file.exists()


GONE = 1 << 22  # PID_MAX_LIMIT: no process has it


def _sweep(container: Container, monkeypatch: pytest.MonkeyPatch, times: int = 4) -> None:
    """Later creates of a container, each a process of its own that ends, and a minute after the last sweep."""
    for number in range(times):
        monkeypatch.setattr("posix.getpid", lambda number=number: GONE + number)
        container.let_time_pass()
        container.create(["A=1"], [])


def test_a_long_path_in_another_script_keeps_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8192 bytes were read, and a letter of two bytes takes six in JSON: the end of the line was missed."""
    container = Container(tmp_path)
    container.bundle = tmp_path.joinpath(*["ü" * 120] * 15)
    container.bundle.mkdir(parents=True)
    container.config = container.bundle / "config.json"
    container.create(["A=1"], [])
    assert len(container.file.read_bytes().partition(b"\n")[0]) > 8192
    other = Container(tmp_path, id="other")
    _sweep(other, monkeypatch)
    assert container.exec([]) == ["A=1"]
    shutil.rmtree(tmp_path / ("ü" * 120))
    _sweep(other, monkeypatch)
    assert not container.file.exists()


@pytest.mark.parametrize("low", ["/usr/sbin/runc", "/usr/bin/crun"])
def test_a_bundle_that_many_containers_have_used_keeps_the_records_of_those_that_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: str
) -> None:
    """`shim run --bundle b ID` with ever new ids left a record each, as the bundle stays."""
    states = tmp_path / "states"

    def used(id: str) -> Container:
        container = Container(tmp_path, id=id, root=str(states))
        container.bundle = tmp_path / "bundle"
        container.bundle.mkdir(exist_ok=True)
        container.config = container.bundle / "config.json"
        container.create(["A=1"], [], container.call(low=low))
        return container

    (states / "living").mkdir(parents=True)
    (states / "elsewhere").mkdir()
    monkeypatch.setattr("posix.getpid", lambda: GONE)
    elsewhere = Container(tmp_path, id="elsewhere", root="/run/other")
    elsewhere.create(["A=1"], [], elsewhere.call(low=low))
    for id in ("deleted", "living", *(f"c{number}" for number in range(8))):
        elsewhere.let_time_pass()
        used(id)
    monkeypatch.undo()
    used("creating")  # by this process, which may not have come to making its directory
    monkeypatch.setattr("posix.getpid", lambda: GONE)
    elsewhere.let_time_pass()
    last = used("last")
    there = {entry["id"] for entry in record_reader.entries(last.place)}
    assert there == {"living", "creating", "last", "elsewhere"}


def test_a_runtime_whose_state_nobody_knows_keeps_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container(tmp_path)
    _sweep(container, monkeypatch, 1)
    other = Container(tmp_path, id="c2")
    other.bundle, other.config = container.bundle, container.config
    _sweep(other, monkeypatch)
    assert container.file.exists()


IN_ITS_OWN_MOUNTS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from unit.create.test_record import Container
from pathlib import Path
container = Container(Path(sys.argv[2]), id="inside")
container.create(["A=1"], [])
"""


def test_a_bundle_that_only_another_mount_namespace_has_keeps_its_record_while_its_monitor_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine may have mounts of its own: seen from outside the bundle was gone, and exec lost its variables."""
    tests = Path(__file__).parents[2]
    bundle = Container(tmp_path, id="inside").bundle
    script = f'mount -t tmpfs tmpfs {bundle} && "$@" && echo made && read line'
    python = [sys.executable, "-c", IN_ITS_OWN_MOUNTS, str(tests), str(tmp_path)]
    monitor = ["unshare", "--mount", "sh", "-c", script, "monitor", *python]
    outside = Container(tmp_path, id="outside")
    with subprocess.Popen(monitor, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "made\n"
        bundle.rmdir()  # the mount point, which is nobody's in this namespace
        inside = Container(tmp_path, id="inside")
        inside.bundle.rmdir()
        _sweep(outside, monkeypatch)
        assert inside.file.exists()
        running.communicate("\n", timeout=60)
    _sweep(outside, monkeypatch)
    assert not inside.file.exists()


def test_a_record_of_version_0_1_0_counts_and_goes_with_its_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began with the bundle alone."""
    container = Container(tmp_path)
    container.create(["A=1"], [])
    _, _, rest = container.file.read_text().partition("\n")
    container.file.write_text(f"{json.dumps(str(container.bundle))}\n{rest}")
    other = Container(tmp_path, id="c2")
    _sweep(other, monkeypatch)
    assert container.exec([]) == ["A=1"]
    assert [entry["bundle"] for entry in record_reader.entries(container.place) if entry["id"] == "c1"] == [
        str(container.bundle)
    ]
    container.config.unlink()
    container.bundle.rmdir()
    _sweep(other, monkeypatch)
    assert not container.file.exists()
