"""A create that was decided before, done again by the launcher: as by Python, and only while the host is the same.

Each test makes real creates by the installed launcher. A record says whether its create was repeated.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from unit.create.exec_cases import EXECS, UNUSUAL
from unit.native import repeats
from unit.native.repeat_host import (
    ACCESS_LIST,
    CONFIG,
    DIRECTORY,
    LINK,
    NAME,
    SETTLED,
    SPECS,
    Container,
    Host,
    own_interpreter,
)

from shim.create import record_files


def test_the_second_create_is_repeated_and_makes_the_same(host: Host) -> None:
    first, second = host.create(), host.create()
    assert (first.is_repeated, second.is_repeated) == (False, True)
    for container in (first, second):
        container.config.pop("annotations")
        for member in ("identity", "config", "id", "wanted"):
            assert container.record.pop(member)
        container.life[3:] = []
        assert container.line.pop("time")
    assert second.config == first.config
    assert second.record == first.record
    assert first.record["env"]["NVIDIA_VISIBLE_DEVICES"] == ["void", "all"]
    second.line.pop("repeated")
    assert {**second.line, "id": "", "bundle": "", "devices": ""} == {
        **first.line,
        "id": "",
        "bundle": "",
        "devices": "",
    }


def test_the_record_of_a_repeated_create_is_whole(host: Host) -> None:
    second = host.repeat()
    status = os.lstat(second.record["config"])
    assert second.record["identity"] == [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]
    assert second.record["wanted"] == {"v.example/repeat=0": "annotation cdi.k8s.io/plugin_2"}
    assert second.life[:3] == [
        str(host.directory / "bundle2"),
        ["/run/repeat/c2"] if LINK.resolve().name in {"runc", "crun"} else [],
        os.readlink("/proc/self/ns/mnt"),
    ]
    assert second.line["devices"] == second.record["wanted"]


def test_mode_and_owner_of_config_json_are_kept(host: Host) -> None:
    host.create()
    bundle = host.directory / "mine"
    (bundle / "rootfs").mkdir(parents=True)
    file = bundle / "config.json"
    file.write_text(json.dumps({**CONFIG, "annotations": {"cdi.k8s.io/x": "v.example/repeat=0"}}))
    file.chmod(0o640)
    os.chown(file, 1234, 4321)
    words = [NAME, "--root", "/run/repeat", "create", "--bundle", str(bundle), "mine"]
    subprocess.run(words, executable=host.launcher, check=True)
    status = file.stat()
    assert Container(bundle, "mine").is_repeated
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 1234, 4321)
    assert [path.name for path in sorted(bundle.iterdir())] == ["config.json", "rootfs"]


def test_a_device_of_the_command_line_is_repeated_too(host: Host) -> None:
    config = {**CONFIG, "annotations": {}}
    first = host.create("--device", "v.example/repeat=0", config=config)
    second = host.create("--device", "v.example/repeat=0", config=config)
    assert (first.is_repeated, second.is_repeated) == (False, True)
    assert second.record["wanted"] == {"v.example/repeat=0": "--device"}


# --- when the host has changed ----------------------------------------------------------------------------------------


def _replace_spec(host: Host) -> None:
    other = host.spec.with_name(".other")
    other.write_text(host.spec.read_text().replace("EXTRA=1", "EXTRA=2"))
    shutil.copystat(host.spec, other)
    other.rename(host.spec)


def _edit_spec_in_place(host: Host) -> None:
    """The same size, and the time of modification put back."""
    times = host.spec.stat()
    host.spec.write_text(host.spec.read_text().replace("EXTRA=1", "EXTRA=2"))
    os.utime(host.spec, ns=(times.st_atime_ns, times.st_mtime_ns))


def _make_node(host: Host, minor: int, mode: int = 0o20666) -> None:
    host.node.unlink()
    os.mknod(host.node, mode, os.makedev(1, minor))
    host.node.chmod(mode & 0o7777)


def _mount_specs(host: Host) -> None:
    copy = host.directory / "specs"
    shutil.copytree(SPECS, copy)
    subprocess.run(["mount", "--bind", str(copy), str(SPECS)], check=True)


def _answer_file() -> Path:
    [file] = (DIRECTORY / "answers").iterdir()
    return file


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _link_answer(host: Host) -> None:
    file = _answer_file()
    shutil.copy(file, host.directory / "copy")
    file.unlink()
    file.symlink_to(host.directory / "copy")


CHANGES: dict[str, Callable[[Host], object]] = {
    "the spec is edited, and its time put back": _edit_spec_in_place,
    "the spec is replaced by a rename": _replace_spec,
    "the spec may be written by a group": lambda host: host.spec.chmod(0o664),
    "another spec appears": lambda _: (SPECS / "more.json").write_text("{}"),
    "the directory of the specs is covered by a mount": _mount_specs,
    "a configuration appears": lambda _: Path("/etc/shim/config.toml").write_text(""),
    "the node has another number": lambda host: _make_node(host, 5),
    "the node has another type": lambda host: _make_node(host, 3, 0o60666),
    "the node has another mode": lambda host: host.node.chmod(0o600),
    "the node has another owner": lambda host: os.chown(host.node, 7, 7),
    "the hook program is replaced": lambda host: shutil.copy("/bin/false", host.hook),
    "another low-level runtime": lambda _: subprocess.run(["ln", "-sfn", "/usr/bin/true.other", LINK], check=True),
    "the answer has a flipped bit": lambda _: _flip(_answer_file()),
    "the answer is cut off": lambda _: os.truncate(_answer_file(), 1000),
    "the answer belongs to another user": lambda _: os.chown(_answer_file(), 1234, -1),
    "the answer may be written by others": lambda _: _answer_file().chmod(0o666),
    "the answer is a link": _link_answer,
    "the answers may be written by others": lambda _: (DIRECTORY / "answers").chmod(0o777),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_host_leads_to_python(host: Host, change: Callable[[Host], object]) -> None:
    assert host.repeat().is_repeated
    other = Path("/usr/bin/true.other")
    shutil.copy("/bin/true", other)
    try:
        change(host)
        assert not host.create().is_repeated
    finally:
        other.unlink()
        subprocess.run(["umount", str(SPECS)], check=False, capture_output=True)


REFUSED: dict[str, Callable[[Host], object]] = {
    "a mount source is missing": lambda host: host.source.rmdir(),
    "the node is missing": lambda host: host.node.unlink(),
    "the hook program may be written by all": lambda host: host.hook.chmod(0o777),
    "the hook program has an access list": lambda host: os.setxattr(host.hook, "system.posix_acl_access", ACCESS_LIST),
    "a directory above it may be written by all": lambda host: host.directory.chmod(0o777),
    "the spec may be written by all": lambda host: host.spec.chmod(0o666),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_python_would_refuse_now_is_not_repeated(host: Host, change: Callable[[Host], object]) -> None:
    assert host.repeat().is_repeated
    change(host)
    with pytest.raises(subprocess.CalledProcessError):
        host.create()


KEPT: dict[str, Callable[[Host], object]] = {
    "nothing": lambda _: None,
    "files beside the specs' directory": lambda _: subprocess.run(["mktemp", "-p", "/etc", "shim-XXXXXX"], check=True),
    "what lies in a mounted directory": lambda host: (host.source / "new").write_text("x"),
    "the time of a node": lambda host: os.utime(host.node),
    "a new index": lambda _: (DIRECTORY / "index").unlink(),
}


@pytest.mark.parametrize("change", KEPT.values(), ids=KEPT)
def test_what_the_decision_does_not_hang_on_may_change(host: Host, change: Callable[[Host], object]) -> None:
    assert host.repeat().is_repeated
    change(host)
    assert host.create().is_repeated


@pytest.fixture
def locked(host: Host, launcher: Path) -> Iterator[Host]:
    """The same host with locked specs, and a library among the sources of mounts."""
    library = host.directory / "libacme.so.1"
    library.write_text("old")
    host.source.rmdir()
    host.source = library
    host.write_spec()
    Path("/etc/shim/config.toml").write_text("[cdi]\nlocked = true\n")
    subprocess.run([launcher, "cdi", "lock"], check=True, capture_output=True)
    time.sleep(SETTLED)
    yield host
    Path("/etc/shim/cdi.lock").unlink(missing_ok=True)


def test_with_locked_specs_a_create_is_repeated_without_reading_a_file(locked: Host) -> None:
    assert locked.repeat().is_repeated
    probes = repeats.fields(repeats.split(_answer_file().read_bytes())[2])
    asked = [(kind, path.decode()) for kind, path in zip(probes[1::3], probes[2::3], strict=True)]
    assert [kind for kind, path in asked if path == str(locked.source)] == [b"s"], "its status, and that once"


@pytest.mark.parametrize("change", ["library", "hook", "lock"])
def test_what_is_not_as_it_was_locked_is_neither_repeated_nor_started(locked: Host, change: str) -> None:
    assert locked.repeat().is_repeated
    paths = {"library": locked.source, "hook": locked.hook, "lock": Path("/etc/shim/cdi.lock")}
    with paths[change].open("ab") as file:
        file.write(b"x")
    time.sleep(SETTLED)
    with pytest.raises(subprocess.CalledProcessError):
        locked.create()


def test_each_probe_of_an_answer_counts(host: Host) -> None:
    """One by one: with another answer to a single question of the trace, the answer is not current."""
    host.create()
    answer = _answer_file().read_bytes()
    assert repeats.is_current(answer)
    fields = repeats.split(answer)
    probes = repeats.fields(fields[2])
    assert len(probes) > 20 * 3
    for number in range(3, len(probes), 3):
        changed = [*probes]
        changed[number] += b"x"
        fields[2] = repeats.join(changed)
        assert not repeats.is_current(repeats.seal(fields)), probes[number - 2 : number + 1]
    fields[2] = repeats.join(probes)
    assert repeats.is_current(repeats.seal(fields))  # the positive control of the loop


def test_a_spec_of_a_later_time_leaves_no_answer(host: Host) -> None:
    """It could change again within one tick of the clock, without a trace."""
    later = time.time() + 3600
    os.utime(host.spec, (later, later))
    assert not host.repeat().is_repeated
    os.utime(host.spec)
    time.sleep(SETTLED)
    assert host.repeat().is_repeated


def test_two_mount_namespaces_with_other_specs_get_their_own_devices(host: Host) -> None:
    """rootlesskit, snaps and PrivateMounts= share /run/shim, and have an /etc of their own."""
    other = host.directory / "other"
    other.mkdir()
    (other / "repeat.json").write_text(host.spec.read_text().replace("EXTRA=1", "EXTRA=2"))
    time.sleep(SETTLED)
    script = f'mount --bind {other} {SPECS} && exec -a {NAME} {host.launcher} "$@"'
    for number in range(4):
        assert "EXTRA=1" in host.create().config["process"]["env"]
        bundle = host.directory / f"inner{number}"
        (bundle / "rootfs").mkdir(parents=True)
        config = {**CONFIG, "annotations": {"cdi.k8s.io/x": "v.example/repeat=0"}}
        (bundle / "config.json").write_text(json.dumps(config))
        words = ["--root", "/run/repeat", "create", "--bundle", str(bundle), f"i{number}"]
        subprocess.run(["unshare", "-m", "bash", "-c", script, "-", *words], check=True)
        assert "EXTRA=2" in json.loads((bundle / "config.json").read_text())["process"]["env"]


# --- without Python ---------------------------------------------------------------------------------------------------


def test_a_repeated_create_needs_no_interpreter_and_a_new_question_is_refused(host: Host, installed: Path) -> None:
    """Also each sixty-fourth, which would clean up: it goes on without."""
    interpreter = own_interpreter(host, installed)
    assert host.repeat().is_repeated
    interpreter.unlink()
    for _ in range(70):
        assert host.create().is_repeated
    with pytest.raises(subprocess.CalledProcessError):
        host.create(config={**CONFIG, "annotations": {"cdi.k8s.io/x": "v.example/repeat=1"}})


def test_repeated_creates_clean_up_once_in_a_while(host: Host) -> None:
    """Nothing tells that a container is gone; of the repeated creates each sixty-fourth lets Python look."""
    first = host.create()
    shutil.rmtree(Path(first.record["config"]).parent)
    os.utime(DIRECTORY / record_files.SWEPT, (0, 0))
    key = record_files.key(NAME, "/run/repeat", first.record["id"])
    for number in range(600):
        for _ in range(number % 3):  # it goes by process ids, which may come in steps
            subprocess.run(["true"], check=True)
        assert host.create().is_repeated
        if not (DIRECTORY / "c" / key).exists():
            break
    else:
        pytest.fail("the record of a deleted container stays")


# --- exec -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", EXECS)
def test_exec_gets_each_variable_without_python(host: Host, installed: Path, case: str) -> None:
    """The cases of Python's test. Without an interpreter an exec goes on as it is: what is done is the launcher's."""
    injected, before, given, wanted = EXECS[case]
    interpreter = own_interpreter(host, installed)
    host.write_spec(env=injected)
    container = host.create(config={**CONFIG, "process": {**CONFIG["process"], "env": before}})
    interpreter.unlink()
    host.exec(container, {"env": given, "args": ["x"]})
    assert host.process() == {"env": given if case in UNUSUAL else wanted, "args": ["x"]}


EXEC_LEFT_TO_PYTHON: dict[str, Callable[[Path], object]] = {
    "config.json was saved again": os.utime,
    "config.json is gone": lambda config: config.unlink(),
}


@pytest.mark.parametrize("change", EXEC_LEFT_TO_PYTHON.values(), ids=EXEC_LEFT_TO_PYTHON)
def test_exec_is_left_to_python_where_the_record_may_not_hold(
    host: Host, installed: Path, change: Callable[[Path], object]
) -> None:
    interpreter = own_interpreter(host, installed)
    container = host.create()
    change(Path(container.record["config"]))
    hidden = interpreter.rename(interpreter.with_name("hidden"))
    host.exec(container, {"env": ["Z=9"]})
    assert host.process() == {"env": ["Z=9"]}
    hidden.rename(interpreter)
    host.exec(container, {"env": ["Z=9"]})  # Python compares the content
    assert ("EXTRA=1" in host.process()["env"]) == Path(container.record["config"]).exists()


def test_the_process_file_of_an_exec_keeps_mode_and_owner(host: Host) -> None:
    container = host.create()
    host.exec(container, {"env": []}, mode=0o640, owner=1234)
    status = (host.directory / "process.json").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o640, 1234)
    assert host.process() == {"env": ["NVIDIA_VISIBLE_DEVICES=void", "EXTRA=1"]}
    assert not list(host.directory.glob("*.shim-*"))


# --- left to Python, though the question is known ---------------------------------------------------------------------


def test_an_entry_with_which_a_new_one_would_collide_is_merged_by_python(host: Host) -> None:
    host.create()
    below = [*CONFIG["mounts"], {"destination": "/opt/repeat/x", "type": "tmpfs", "source": "tmpfs"}]
    container = host.create(config={**CONFIG, "mounts": below})
    assert not container.is_repeated
    assert [mount["destination"] for mount in container.config["mounts"]] == ["/proc", "/opt/repeat", "/opt/repeat/x"]


def test_a_second_create_of_one_bundle_keeps_what_the_image_had(host: Host) -> None:
    """The variable in config.json is ours then: the record knows what stood there first."""
    host.create()
    bundle = host.directory / "twice"
    (bundle / "rootfs").mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({**CONFIG, "annotations": {"cdi.k8s.io/x": "v.example/repeat=0"}}))
    for _ in range(3):
        words = [NAME, "--root", "/run/repeat", "create", "--bundle", str(bundle), "twice"]
        subprocess.run(words, executable=host.launcher, check=True)
        assert Container(bundle, "twice").record["env"]["NVIDIA_VISIBLE_DEVICES"] == ["void", "all"]


def test_answers_stay_few(host: Host) -> None:
    """The oldest of more than 256 is unlinked."""
    directory = DIRECTORY / "answers"
    host.create()
    known = _answer_file()
    for number in range(300):
        (directory / f"{number:016x}").write_bytes(b"")
        os.utime(directory / f"{number:016x}", (number + 1, number + 1))
    host.write_spec("all")
    host.create()
    names = sorted(path.name for path in directory.iterdir())
    assert len(names) == 256
    assert known.name in names
    assert f"{0:016x}" not in names
