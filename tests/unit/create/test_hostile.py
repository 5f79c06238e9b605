"""The create path against what goes wrong and what is meant ill: odd config files, restores, kills, two at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from unit.create.strategies import BARE, PLANS
from unit.create.test_create import ASKING, Scene

from shim.base.findings import CdiError
from shim.cdi.plan import Plan
from shim.create import merge, record_files, rules
from shim.create.bundle import edit
from shim.create.world import World

Json = dict[str, Any]

DEVICE = "acme.example/gpu=0"


def _spec(edits: Json, count: int = 1) -> str:
    devices = [{"name": str(number), "containerEdits": {"env": [f"GPU{number}=1"]}} for number in range(count)]
    return json.dumps({"cdiVersion": "0.7.0", "kind": "acme.example/gpu", "containerEdits": edits, "devices": devices})


@pytest.fixture
def scene(trusted_path: Path, modules: Path) -> Scene:
    return Scene(trusted_path, modules)


def _identity(path: Path) -> tuple[int, int, int, bytes]:
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, path.read_bytes()


# --- hooks, targets and limits come to bear ---------------------------------------------------------------------------

REFUSED: dict[str, tuple[Json, Json, str]] = {
    "a hook that anybody may replace": (
        {"hooks": [{"hookName": "createContainer", "path": "/tmp"}]},
        {},
        "HOOK_UNTRUSTED",
    ),
    "a hook that is missing": ({"hooks": [{"hookName": "createContainer", "path": "/usr/no"}]}, {}, "HOOK_MISSING"),
    "a mount over proc": ({"mounts": [{"hostPath": "/usr", "containerPath": "/proc/1"}]}, {}, "TARGET_FORBIDDEN"),
    "a node that leads upwards": (
        {"deviceNodes": [{"path": "/dev/../etc/x", "hostPath": "/dev/null"}]},
        {},
        "TARGET_FORBIDDEN",
    ),
    "a mount that comes back": (
        {"mounts": [{"hostPath": "/usr", "containerPath": "/a", "options": ["rshared"]}]},
        {},
        "MOUNT_OPTION",
    ),
    "a working directory in proc": ({"env": ["A=1"]}, {"process": {"cwd": "/proc/self/fd/7"}}, "CWD_FORBIDDEN"),
    "a second process": ({"env": ["A=1"]}, {"process": {}, "Process": {}}, "CONFIG_JSON"),
    "a section of a wrong type": ({"env": ["A=1"]}, {"linux": []}, "CONFIG_JSON"),
}


@pytest.mark.parametrize(("edits", "config", "finding"), REFUSED.values(), ids=REFUSED.keys())
def test_who_asks_is_refused_and_who_does_not_is_left_alone(
    scene: Scene, edits: Json, config: Json, finding: str
) -> None:
    (scene.specs / "gpu.json").write_text(_spec(edits))
    scene.write({**ASKING, **config})
    before = _identity(scene.config)
    done = scene.create()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"shim: {finding}: ")
    assert _identity(scene.config) == before
    (line,) = scene.story.read_text().splitlines()
    assert json.loads(line)["outcome"] == "failed"
    assert json.loads(line)["findings"][0]["id"] == finding

    scene.write(config)
    before = _identity(scene.config)
    assert scene.create().stdout == "reached\n"
    assert _identity(scene.config) == before


def test_a_hook_of_a_spec_runs_with_an_environment_and_an_end(scene: Scene) -> None:
    (scene.specs / "gpu.json").write_text(_spec({"hooks": [{"hookName": "createContainer", "path": "/bin/true"}]}))
    old = {"path": "relative", "timeout": 0}
    scene.write({**ASKING, "hooks": {"createContainer": [old]}})
    assert scene.create().stdout == "reached\n"
    hook = {"path": "/bin/true", "env": [rules.STANDARD_PATH], "timeout": 120}
    assert json.loads(scene.config.read_text())["hooks"]["createContainer"] == [old, hook]


@pytest.mark.rootful
@given(PLANS, BARE)
def test_every_hook_that_is_written_has_an_environment(plan: Plan, config: Json) -> None:
    """runc gives a hook without one the whole environment of the image, LD_PRELOAD included (CVE-2025-23266)."""
    plain = {key: value for key, value in config.items() if key != "hooks"}
    result = merge.add(rules.impose(plan, "/usr/bin/shim", World(), rootful=True, user=0)[0], plain)
    for stage, hooks in result.get("hooks", {}).items():
        for hook in hooks:
            assert stage == "startContainer" or (hook["env"] and hook["timeout"] > 0)


HOSTILE_NAMES = [
    "a b=c",
    "a/b=c+d",
    "a/b=c\nshim: OK",
    "a/b=$(id)",
    "a/b=`id`",
    "../x/y=z",
    "a/../../etc=x",
    "a/b=../c",
    "a/b=" + "c" * 65536,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name[:20]))
def test_a_name_that_is_none_is_refused_in_one_line(scene: Scene, name: str) -> None:
    for config, words in (({}, (f"device={name}",)), ({"annotations": {"cdi.k8s.io/x": name}}, ())):
        scene.write(config)
        done = scene.create(*words, "log-format=json")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        assert len(done.stderr) < 20_000
    assert all(json.loads(line) for line in scene.story.read_text().splitlines())
    assert len(scene.log.read_text().splitlines()) == 2


def test_a_name_with_a_zero_byte_too(scene: Scene) -> None:
    scene.write({"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0\0"}})
    assert scene.create().returncode == 1


def test_too_many_devices_are_refused(scene: Scene) -> None:
    scene.write({"annotations": {"cdi.k8s.io/x": ",".join(f"acme.example/gpu={number}" for number in range(129))}})
    assert scene.create().stderr.startswith("shim: REQUEST_LIMIT: 129 devices")


# --- the file -------------------------------------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.rename(path.with_name("real.json"))
    path.symlink_to("real.json")


def _text(change: Callable[[str], bytes]) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(change(path.read_text())))


def void(_: object) -> None:
    """Drop a value."""


ODD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (_link, "symbolic link"),
    "a name twice at the top": (_text(lambda text: b'{"process":{},' + text[1:].encode()), "'process' twice"),
    "a name twice deep down": (
        _text(lambda text: b'{"linux":{"seccomp":{"a":1,"a":2}},' + text[1:].encode()),
        "'a' twice",
    ),
    "a byte order mark": (_text(lambda text: b"\xef\xbb\xbf" + text.encode()), "not valid JSON"),
    "UTF-16": (_text(lambda text: text.encode("utf-16")), "not valid JSON"),
    "nested deeply": (
        _text(lambda text: b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"," + text[1:].encode()),
        "deeply",
    ),
    "50 MiB": (lambda path: os.truncate(path, 50 << 20), "16 MiB"),
}
CONFIG = {**ASKING, "process": {"cwd": "/"}}


@pytest.mark.parametrize(("damage", "told"), ODD_FILES.values(), ids=ODD_FILES.keys())
def test_an_odd_config_is_refused_where_something_is_asked_and_passed_on_where_not(
    scene: Scene, damage: Callable[[Path], None], told: str
) -> None:
    scene.write({"process": {"cwd": "/"}})
    damage(scene.config)
    kept = scene.config.read_bytes()
    assert scene.create().stdout == "reached\n"
    done = scene.create("device=0")
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr
    assert scene.config.read_bytes() == kept
    assert {"config.json"} <= set(os.listdir(scene.bundle)) <= {"config.json", "real.json"}


@pytest.mark.parametrize("damage", [_link, ODD_FILES["a name twice at the top"][0], ODD_FILES["a byte order mark"][0]])
def test_where_the_annotation_itself_asks_too(scene: Scene, damage: Callable[[Path], None]) -> None:
    scene.write(CONFIG)
    damage(scene.config)
    assert scene.create().returncode == 1


REQUEST = b'"cdi.k8s.io/x":"acme.example/gpu=0"'
# The text of a config.json of which Go makes a request, and what the refusal says
HIDDEN: dict[str, tuple[bytes, str]] = {
    "annotations twice, of which Go merges both": (b'{"annotations":{%s},"annotations":{"a":"b"}}' % REQUEST, "twice"),
    "the key of the request escaped": (
        b'{"annotations":{%s},"annotations":{}}' % REQUEST.replace(b"/", b"\\/").replace(b"c", b"\\u0063", 1),
        "twice",
    ),
    "annotations by another spelling": (b'{"Annotations":{%s}}' % REQUEST, "'Annotations'"),
    "a number that no float holds": (b'{"x":1e999,"annotations":{%s}}' % REQUEST, "1e999 is out of range"),
    "no UTF-8, and escaped": (b'{"x":"\xff","annotations":{%s}}' % REQUEST.replace(b"/", b"\\/"), "utf-8"),
    "a million levels": (b'{"x":%s%s,"annotations":{%s}}' % (b"[" * 1_000_000, b"]" * 1_000_000, REQUEST), "deeply"),
    "17 MiB": (b'{"x":"%s","annotations":{%s}}' % (b"x" * (17 << 20), REQUEST), "16 MiB"),
}


@pytest.mark.parametrize(("text", "told"), HIDDEN.values(), ids=HIDDEN.keys())
def test_f13_a_request_in_a_part_that_does_not_count_is_refused(scene: Scene, text: bytes, told: str) -> None:
    """Of two `annotations` the last one counted, and the container started without its device, silently.

    The controls are the same files without a request: they start, untouched.
    """
    scene.config.write_bytes(text)
    done = scene.create()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("shim: CONFIG_JSON: ")
    assert told in done.stderr
    harmless = text.replace(b"gpu=0", b"gpu").replace(b"cdi.k8s.io", b"a.b").replace(b"\\u0063di.k8s.io", b"a.b")
    scene.config.write_bytes(harmless)
    assert scene.create().stdout == "reached\n"
    assert scene.config.read_bytes() == harmless


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a directory", "a FIFO"])
def test_what_is_no_file_at_all_is_refused_without_a_hang(scene: Scene, make: Callable[[Path], None]) -> None:
    make(scene.config)
    assert scene.create().stdout == "reached\n"
    assert scene.create("device=0").stderr.startswith("shim: CONFIG_JSON: ")


def test_of_a_hard_link_only_the_name_in_the_bundle_gets_the_new_file(scene: Scene, trusted_path: Path) -> None:
    scene.write(CONFIG)
    other = trusted_path / "other"
    os.link(scene.config, other)
    assert scene.create().stdout == "reached\n"
    assert json.loads(other.read_text()) == CONFIG
    assert json.loads(scene.config.read_text())["process"]["env"] == ["GPU=0"]


@pytest.mark.rootful
def test_a_second_create_changes_nothing_at_all(scene: Scene) -> None:
    hook = {"hookName": "createContainer", "path": "/bin/true"}
    node = {"path": "/dev/gpu0", "hostPath": "/dev/null"}
    mount = {"hostPath": "/opt", "containerPath": "/opt/gpu", "options": ["ro", "rbind"]}
    (scene.specs / "gpu.json").write_text(
        _spec({"hooks": [hook], "deviceNodes": [node], "mounts": [mount], "additionalGids": [44]})
    )
    scene.write(CONFIG)
    assert scene.create().stdout == "reached\n"
    before = _identity(scene.config)
    assert scene.create().stdout == "reached\n"
    assert _identity(scene.config) == before
    assert len(scene.story.read_text().splitlines()) == 1


# --- restore --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_asks_for_nothing_is_restored(scene: Scene) -> None:
    scene.write({})
    assert scene.create("verb=restore").stdout == "reached\n"


def test_a_checkpoint_that_asks_for_what_its_config_has_is_restored(scene: Scene) -> None:
    scene.write(ASKING)
    scene.create()
    before = _identity(scene.config)
    assert scene.create("verb=restore").stdout == "reached\n"
    assert _identity(scene.config) == before


@pytest.mark.parametrize(("config", "words"), [(ASKING, ()), ({}, ("device=0",))], ids=["by annotation", "by option"])
def test_a_checkpoint_that_asks_for_more_is_refused(scene: Scene, config: Json, words: tuple[str, ...]) -> None:
    """Annotations of an archive smuggled devices past the scheduler (CVE-2026-53492)."""
    scene.write(config)
    before = _identity(scene.config)
    done = scene.create("verb=restore", *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"shim: RESTORE_UNTRUSTED: the checkpoint asks for {DEVICE}")
    assert _identity(scene.config) == before


# --- records of real creates ------------------------------------------------------------------------------------------


@pytest.mark.rootful
def test_create_leaves_a_record_and_exec_reads_it(scene: Scene, trusted_path: Path) -> None:
    """In a /run of its own. What exec does in detail stands in test_record."""
    scene.write({**ASKING, "process": {"env": ["GPU=old"], "cwd": "/"}})
    process = trusted_path / "process.json"
    process.write_text('{"env": ["GPU=old"]}')
    id = f"id={'x' * 8}"
    key = f"key={record_files.key('shim', '', 'x' * 8)}"
    main = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        str(scene._main),
        "create",
        "low=/bin/true",
        "name=shim",
        "self=/x",
        id,
        key,
    ]
    commands = [
        [*main, "verb=create", f"bundle={scene.bundle}", "--", "true"],
        [*main, "verb=exec", f"process={process}", "--", "true"],
    ]
    script = "mount -t tmpfs -o mode=0755 tmpfs /run\n" + "\n".join(
        " ".join(f"'{word}'" for word in command) for command in commands
    )
    environment = {**os.environ, "SHIM_CONFIG": str(scene.settings)}
    subprocess.run(["unshare", "--mount", "sh", "-e", "-c", script], check=True, env=environment)
    assert json.loads(process.read_text()) == {"env": ["GPU=0"]}


# --- descriptors ----------------------------------------------------------------------------------------------------

LIST = "import os; print(sorted(os.listdir('/proc/self/fd')), os.listdir('/proc/self/fd') and os.umask(0))"


def test_the_low_level_runtime_has_the_descriptors_and_the_umask_of_the_engine_and_no_others(scene: Scene) -> None:
    (scene.specs / "gpu.json").write_text(_spec({"hooks": [{"hookName": "createContainer", "path": "/bin/true"}]}))
    plain = [sys.executable, "-I", "-S", "-c", LIST]
    kept = os.open("/dev/null", os.O_RDONLY)
    try:
        wanted = subprocess.run(plain, capture_output=True, pass_fds=[kept], check=True).stdout
        assert f"'{kept}'".encode() in wanted
        for config in (ASKING, {}):
            scene.write(config)
            said = [f"low={sys.executable}", "name=shim", "self=/x", "verb=create", f"bundle={scene.bundle}"]
            create = [sys.executable, "-I", "-S", "-B", str(scene._main), "create", *said, "--", *plain]
            environment = {**os.environ, "SHIM_CONFIG": str(scene.settings)}
            done = subprocess.run(create, capture_output=True, pass_fds=[kept], env=environment, check=True)
            assert done.stdout == wanted
    finally:
        os.close(kept)


# --- two at once ----------------------------------------------------------------------------------------------------


def test_many_shims_on_one_bundle_lose_none_of_their_edits(scene: Scene) -> None:
    """Whichever config.json a low-level runtime then reads, it has what its own create asked for."""
    count = 12
    (scene.specs / "gpu.json").write_text(_spec({}, count))
    scene.write({"process": {"cwd": "/"}})
    said = ["low=/bin/cat", "name=shim", "self=/x", "verb=create", f"bundle={scene.bundle}"]
    main = [sys.executable, "-I", "-S", "-B", str(scene._main), "create", *said]
    environment = {**os.environ, "SHIM_CONFIG": str(scene.settings)}
    running = [
        subprocess.Popen(
            [*main, f"device={number}", "--", "cat", str(scene.config)], stdout=subprocess.PIPE, env=environment
        )
        for number in range(count)
    ]
    for number, process in enumerate(running):
        seen, _ = process.communicate()
        assert process.returncode == 0
        assert f"GPU{number}=1" in json.loads(seen)["process"]["env"]
    env = json.loads(scene.config.read_text())["process"]["env"]
    assert sorted(env) == sorted(f"GPU{number}=1" for number in range(count))
    assert os.listdir(scene.bundle) == ["config.json"]


def test_what_another_process_wrote_meanwhile_is_edited_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"a": 1}')
    seen = []

    def change(config: Json) -> Json:
        seen.append(dict(config))
        if len(seen) == 1:  # somebody else is faster
            path.with_name("new").write_text('{"a": 1, "b": 2}')
            path.with_name("new").rename(path)
        return {**config, "c": 3}

    edit(str(path), change)
    assert seen == [{"a": 1}, {"a": 1, "b": 2}]
    assert json.loads(path.read_text()) == {"a": 1, "b": 2, "c": 3}


def test_somebody_who_replaces_the_file_without_end_does_not_hold_us_up(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")

    def change(config: Json) -> Json:
        path.with_name("new").write_text(json.dumps({"n": config.get("n", 0) + 1}))
        path.with_name("new").rename(path)
        return {**config, "c": 3}

    with pytest.raises(CdiError, match="without end") as caught:
        edit(str(path), change)
    assert caught.value.findings[0].id == "CONFIG_WRITE"


# --- kill -9 --------------------------------------------------------------------------------------------------------

# Run in a fork of a process that has everything loaded: the n-th system call is the last, and of a write only half.
KILLED = """
import os, posix, sys
sys.path.insert(0, sys.argv[1])
from shim import create
import shim.cdi.directories, shim.cdi.spec, shim.host.trust, shim.create.unindexed, shim.create.userns
config, pristine, words = sys.argv[2], open(sys.argv[2], "rb").read(), sys.argv[3:]
CALLS = "open close read pread write lstat stat fstat fchmod fchown lockf rename unlink mkdir listdir execve".split()

def dying(name, real, left):
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            if name == "write":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            posix._exit(9)
        return real(*arguments, **options)
    return call

seen = set()
for steps in range(10_000):
    with open(config, "wb") as file:
        file.write(pristine)
    child = os.fork()
    if not child:
        left = [steps]
        for name in CALLS:
            setattr(posix, name, dying(name, getattr(posix, name), left))
        create.main(words)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(steps, status, open(config, "rb").read().hex())
    if status == 0:
        break
"""


def test_a_kill_at_any_step_leaves_the_old_config_or_the_new_one(scene: Scene, modules: Path) -> None:
    (scene.specs / "gpu.json").write_text(_spec({"hooks": [{"hookName": "createContainer", "path": "/bin/true"}]}))
    scene.write(CONFIG)
    pristine = scene.config.read_bytes()
    words = ["low=/bin/true", "name=shim", "self=/x", "verb=create", f"bundle={scene.bundle}", "--", "true"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", KILLED, str(modules), str(scene.config), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "SHIM_CONFIG": str(scene.settings)},
        check=True,
    )
    left = [line.split() for line in done.stdout.splitlines()]
    assert [status for _, status, _ in left] == ["9"] * (len(left) - 1) + ["0"]
    assert len(left) > 30
    edited = bytes.fromhex(left[-1][2])
    assert "GPU0=1" in json.loads(edited)["process"]["env"]
    kinds = [bytes.fromhex(data) for _, _, data in left]
    assert kinds == sorted(kinds, key=lambda data: data == edited), "old until one moment, new from then on"
    assert set(kinds) == {pristine, edited}
