"""The launcher from outside: who goes on after it, and with what. Nothing of the host decides (see world.py)."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.native.world import PRELOAD, Outcome, Seen, World

from shim.create import record_files

ASKS = '{"annotations":{"cdi.k8s.io/x":"vendor.example/class=dev"}}'
QUIET = '{"annotations":{"other":"a\\u003cb"}}'
TRACES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data/engine-traces.json").read_text())

# What makes engines show another exit status than ours (docker and podman look for these words).
FORBIDDEN = re.compile("no such file or directory|executable file not found|permission denied", re.I)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("w"))
    yield made
    made.close()


@pytest.fixture
def launch(world: World) -> Iterator[Path]:
    good = world.launch.read_text()
    yield world.launch
    world.launch.write_text(good)


@pytest.fixture(autouse=True)
def _quiet_bundle(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("world").config(QUIET)


def became_runtime(outcome: Outcome) -> Seen:
    """The runtime and nobody else was started, and nothing was said."""
    assert (outcome.status, outcome.stdout, outcome.stderr, outcome.python) == (0, "", "", None)
    assert outcome.runtime
    return outcome.runtime


def became_python(outcome: Outcome) -> Seen:
    """Python and nobody else was started, and nothing was said."""
    assert (outcome.status, outcome.stdout, outcome.stderr, outcome.runtime) == (0, "", "", None)
    assert outcome.python
    return outcome.python


def refused(outcome: Outcome, finding: str) -> str:
    """Nobody was started; one line on stderr names the finding. Returns the line."""
    assert (outcome.status, outcome.stdout, outcome.runtime, outcome.python) == (1, "", None, None)
    assert outcome.stderr.count("\n") == 1
    assert outcome.stderr.startswith(f"shim: {finding}: ")
    assert not FORBIDDEN.search(outcome.stderr)
    return outcome.stderr


# --- who goes on --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "state x",
        "--version",
        "-v",
        "features",
        "--root /r delete --force create",
        "exec --device a x",
        "exec x ls",
        "exec -p p x",
        "restore --help",
        "c",
    ],
)
def test_a_verb_that_does_not_create_is_the_runtimes(world: World, line: str) -> None:
    world.config(ASKS)
    seen = became_runtime(world.call(*line.split()))
    assert seen.argv == [os.fsencode(world.runtime), *line.encode().split()]


@pytest.mark.parametrize("line", ["create x", "run x", "restore x", "restore --help", "--debug create --bundle . x"])
def test_a_create_in_which_nothing_asks_is_the_runtimes(world: World, line: str) -> None:
    assert became_runtime(world.call(*line.split())).argv[1:] == line.encode().split()


@pytest.mark.parametrize(
    "line",
    [
        "cdi list",
        "version",
        "help",
        "--help",
        "-h",
        "",
        "hook --help",
        "hook update-ldcache --folder /x -h",
        "doctor -o json",
    ],
)
def test_our_commands_are_pythons(world: World, line: str) -> None:
    argv = became_python(world.call(*line.split())).argv
    launcher = os.fsencode(world.bin / "shim")
    assert argv == [
        os.fsencode(world.python),
        *(b"-I", b"-S", b"-B"),
        os.fsencode(world.modules / "shim/__main__.py"),
        *(b"cli", launcher),
        *line.encode().split(),
    ]


def test_a_link_has_only_the_hooks(world: World) -> None:
    world.name("shim-links")
    world.link("shim-links", world.runtime)
    assert became_runtime(world.call("cdi", "list", name="shim-links")).argv[1:] == [b"cdi", b"list"]
    assert became_runtime(world.call(name="shim-links")).argv[1:] == []
    assert became_python(world.call("hook", "netdevices", "x", name="shim-links")).argv[5] == b"netdevices"


def test_precreate_learns_where_the_launcher_is(world: World) -> None:
    seen = became_python(world.call("hook", "precreate", "x"))
    assert seen.argv[5:] == [b"precreate", b"sigint=held", b"self=" + os.fsencode(world.bin / "shim"), b"x"]
    assert became_python(world.call("hook", "precreate", "--help")).argv[5] == b"cli"


def test_an_annotation_leads_to_python(world: World) -> None:
    world.config(ASKS)
    line = [
        "--root",
        "/r",
        "--log=l",
        "--log-format",
        "json",
        "create",
        "--bundle",
        str(world.bundle),
        "--pid-file",
        "p",
        "id",
    ]
    assert became_python(world.call(*line, cwd=world.root)).verdict() == {
        "low": [str(world.runtime)],
        "name": ["shim"],
        "self": [str(world.bin / "shim")],
        "verb": ["create"],
        "bundle": [str(world.bundle)],
        "id": ["id"],
        "root": ["/r"],
        "key": [record_files.key("shim", "/r", "id")],
        "log": ["l"],
        "log-format": ["json"],
        "--": [str(world.runtime), *line],
    }


def test_restore_is_scanned_like_create(world: World) -> None:
    world.config(ASKS)
    line = ["restore", "--image-path", "/i", "-b", str(world.bundle), "--detach", "x"]
    said = became_python(world.call(*line, cwd=world.root)).verdict()
    assert (said["verb"], said["bundle"], said["id"]) == (["restore"], [str(world.bundle)], ["x"])
    assert said["--"] == [str(world.runtime), *line]


def test_a_device_on_the_command_line_of_restore_is_not_ours(world: World) -> None:
    assert became_runtime(world.call("restore", "--device", "a/b=c", "x")).argv[1:3] == [b"restore", b"--device"]


def test_devices_leave_the_command_line(world: World) -> None:
    said = became_python(world.call("run", "--device", "a/b=1", "--keep", "x", "--device=2", "-device", "3")).verdict()
    assert said["device"] == ["a/b=1", "2", "3"]
    assert said["--"] == [str(world.runtime), "run", "--keep", "x"]
    assert said["verb"] == ["run"]


def test_devices_in_front_of_the_verb_are_the_same_request(world: World) -> None:
    """`podman --runtime-flag device=…` and docker's runtimeArgs put them there."""
    said = became_python(world.call("--device=a/b=1", "--debug", "--device", "2", "create", "x")).verdict()
    assert said["device"] == ["a/b=1", "2"]
    assert said["--"] == [str(world.runtime), "--debug", "create", "x"]
    assert "unknown" not in said


@pytest.mark.parametrize(
    "line",
    [
        "state x",
        "kill --all x 9",
        "delete --force x",
        "start x",
        "exec -p p x",
        "update --resources - x",
        "features",
        "--version",
        "restore --help",
        "--log l --root /r delete x",
        "hook update-ldcache",
        "cdi list",
    ],
)
def test_a_device_in_front_of_a_verb_that_creates_nothing_has_no_effect(world: World, line: str) -> None:
    """Engines repeat global options for each verb; none of our commands is looked for behind one."""
    for ours in (["--device=a/b=c"], ["--device", "a/b=c"], ["--device=a/b=c", "--device", "2"]):
        seen = became_runtime(world.call(*ours, *line.split()))
        assert seen.argv == [os.fsencode(world.runtime), *line.encode().split()]


@pytest.mark.rootful
def test_a_device_in_front_of_exec_reaches_python_as_little(world: World) -> None:
    world.put(record_of("shim", "", "with-device"))
    said = became_python(world.call("--device=a/b=c", "exec", "-p", "p", "with-device")).verdict()
    assert "device" not in said
    assert said["--"] == [str(world.runtime), "exec", "-p", "p", "with-device"]


def test_a_question_for_help_has_no_devices(world: World) -> None:
    done = world.call("create", "--device", "a/b=1", "--help")
    assert (done.status, done.stderr, done.python) == (0, "", None)
    assert done.runtime
    assert done.runtime.argv[1:] == [b"create", b"--help"]


@pytest.mark.parametrize("line", ["run --help", "create -h", "--debug run -h"])
def test_d5_the_help_of_run_did_not_mention_our_device(world: World, line: str) -> None:
    """The runtime's help is all that there was, and it knows nothing of --device."""
    done = world.call(*line.split())
    assert done.runtime
    assert done.stdout.startswith("--device KIND=NAME, ")


@pytest.mark.parametrize("line", ["exec --help", "state --help", "run x", "run x -- --help", "--help run"])
def test_d5_no_other_call_gets_a_word_of_ours(world: World, line: str) -> None:
    """What engines read from the runtime stays as it is."""
    assert "--device KIND=NAME, " not in world.call(*line.split()).stdout


@pytest.mark.parametrize(
    "word", ["explian", "explan", "cid", "cdii", "hok", "hooks", "runtme", "runtimes", "confg", "verison"]
)
def test_d5_a_misspelt_command_of_ours_went_to_the_runtime(world: World, word: str) -> None:
    """Its answer was "No help topic for 'explian'", from a program that has never heard of explain."""
    assert became_python(world.call(word, "--bundle", ".")).argv[-3:] == [word.encode(), b"--bundle", b"."]


RUNC = (
    "checkpoint create delete events exec features kill list mounts pause ps restore resume run spec start state update"
)
OTHERS = (  # without `completion`, which no engine calls
    "info init boot debug do gofer install symbolize tar trace umount uninstall usage wait flags nvproxy"
)


@pytest.mark.parametrize("verb", [*RUNC.split(), *OTHERS.split()])
def test_d5_no_verb_of_a_runtime_is_taken_for_a_misspelt_command(world: World, verb: str) -> None:
    """The other side of it: runc, crun, youki and runsc keep all their verbs."""
    became_runtime(world.call(verb, "x"))


def test_d5_a_link_of_another_name_has_no_misspelt_commands(world: World) -> None:
    """Engines call these alone: whatever the word, it is for the runtime."""
    world.name("shim-plain")
    world.link("shim-plain", world.runtime)
    became_runtime(world.call("explian", name="shim-plain"))


def test_b12_a_run_whose_bundle_has_a_kept_config_leads_to_python(world: World) -> None:
    """It is put back there. Engines call create, which does not look for it."""
    became_runtime(world.call("run", "-b", world.bundle, "x"))
    kept = world.bundle / "config.json.shim-original"
    kept.touch()
    said = became_python(world.call("run", "-b", world.bundle, "x")).verdict()
    assert (said["verb"], said["asks"]) == (["run"], ["0"])
    became_runtime(world.call("create", "-b", world.bundle, "x"))
    kept.unlink()


def test_an_unknown_option_leads_to_python(world: World) -> None:
    said = became_python(world.call("--new", "value", "create", "x")).verdict()
    assert (said["unknown"], said["verb"]) == (["--new"], ["create"])


def test_the_name_of_the_runtime_chooses_the_grammar(world: World) -> None:
    world.name("shim-grammar")
    crun = world.add_program("low/crun-test")
    world.link("shim-grammar", crun)
    (world.root / "file.json").write_text(ASKS)
    outcome = world.call("create", "-b", world.bundle, "-ffile.json", "x", name="shim-grammar", cwd=world.root)
    said = became_python(outcome).verdict()
    assert (said["config"], said["low"], said["name"]) == (["file.json"], [str(crun)], ["shim-grammar"])
    outcome = world.call("create", "-fconfig.json", "x", name="shim-grammar")
    assert outcome.python is None
    assert Seen.read(crun)


@pytest.mark.parametrize("line", ["create x", "create -b {bundle} x", "create x --bundle={bundle}"])
def test_the_bundle_is_where_the_command_line_says(world: World, line: str) -> None:
    """In a pod the working directory is the sandbox's bundle, which has a config.json too."""
    sandbox = world.root / "sandbox"
    sandbox.mkdir(exist_ok=True)
    words = line.format(bundle=world.bundle).split()
    for here, there in ((QUIET, ASKS), (ASKS, QUIET)):
        (sandbox / "config.json").write_text(here)
        world.config(there)
        read = here if words == ["create", "x"] else there
        outcome = world.call(*words, cwd=sandbox)
        assert (outcome.python is not None) == (read == ASKS)


def test_an_empty_bundle_is_the_working_directory(world: World) -> None:
    world.config(ASKS)
    assert "bundle" not in became_python(world.call("create", "--bundle", "", "x")).verdict()


# --- what a config.json may be ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nothing", "a directory", "a FIFO", "a loop of links", "a missing bundle"])
def test_what_is_no_config_is_left_to_the_runtime_unless_the_command_line_asks(world: World, kind: str) -> None:
    path = world.bundle / "config.json"
    path.unlink()
    bundle = world.bundle
    if kind == "a directory":
        path.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a loop of links":
        path.symlink_to("config.json")
    elif kind == "a missing bundle":
        bundle = world.root / "nowhere"
    try:
        became_runtime(world.call("create", "-b", bundle, "x"))
        became_python(world.call("create", "-b", bundle, "--device", "a/b=c", "x"))
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


@pytest.mark.parametrize("words", [["create", "x"], ["--new", "create", "x"]], ids=" ".join)
@pytest.mark.parametrize("configuration", [False, True])
def test_a_writer_to_a_fifo_waits_for_the_runtime(world: World, words: list[str], configuration: bool) -> None:
    """runc reads such a config.json. The launcher opened it and closed it: what was written was lost, and runc hung."""
    path = world.bundle / "config.json"
    path.unlink()
    os.mkfifo(path)
    if configuration:
        world.put("/etc/shim/config.toml")
    writer = threading.Thread(target=path.write_text, args=("{}",))
    writer.start()
    try:
        became_runtime(world.call(*words))
        writer.join(0.1)
        assert writer.is_alive(), "nobody has opened it for reading"
        assert path.read_text() == "{}"
        writer.join(10)
        assert not writer.is_alive()
    finally:
        path.unlink()
        world.inside("rm", "-f", "/etc/shim/config.toml")


def test_the_largest_config_is_read_to_its_end(world: World) -> None:
    tail = b'"cdi.k8s.io/x"'
    world.config(b" " * ((16 << 20) - len(tail)) + tail)
    became_python(world.call("create", "x"))


def test_f13_a_larger_config_is_looked_through_by_python(world: World) -> None:
    """It was left to the runtime unread, so that a container that asked started without its device."""
    tail = b'"cdi.k8s.io/x"'
    world.config(b" " * (17 << 20) + tail)
    became_python(world.call("create", "x"))


def test_a_config_behind_a_link_is_read(world: World) -> None:
    (world.bundle / "real.json").write_text(ASKS)
    (world.bundle / "config.json").unlink()
    (world.bundle / "config.json").symlink_to("real.json")
    became_python(world.call("create", "x"))
    (world.bundle / "config.json").unlink()


# --- exec ---------------------------------------------------------------------------------------------------------


def record_of(name: str, root: str, id: str) -> str:
    """Where the record of a container lies for the host's root."""
    return f"/run/shim/c/{record_files.key(name, root, id)}"


@pytest.mark.rootful
def test_an_exec_into_a_container_with_a_record_is_pythons(world: World) -> None:
    world.put(record_of("shim", "/r", "x"))
    line = ["--root", "/r", "--log", "l", "exec", "-d", "--process", "/p", "x"]
    assert became_python(world.call(*line, env=world.run_env)).verdict() == {
        "low": [str(world.runtime)],
        "name": ["shim"],
        "self": [str(world.bin / "shim")],
        "verb": ["exec"],
        "process": ["/p"],
        "id": ["x"],
        "root": ["/r"],
        "key": [record_files.key("shim", "/r", "x")],
        "log": ["l"],
        "asks": ["0"],
        "--": [str(world.runtime), *line],
    }


@pytest.mark.rootful
@pytest.mark.parametrize(("line", "given"), [("update --resources - u", "-"), ("update u -r /f", "/f")])
def test_an_update_of_a_container_with_a_record_is_pythons(world: World, line: str, given: str) -> None:
    world.put(record_of("shim", "", "u"))
    said = became_python(world.call(*line.split(), env=world.run_env)).verdict()
    assert (said["verb"], said["id"], said["resources"]) == (["update"], ["u"], [given])
    assert said["--"] == [str(world.runtime), *line.split()]


@pytest.mark.parametrize(
    "line",
    [
        "--root /r update --memory 5 x",
        "--root /r update --resources - y",
        "--root /r update --resources - --help x",
        "exec -p /p x",
        "--root /r exec -p /p y",
        "--root /r/ exec -p /p x",
        "--root /r exec x ls",
        "--root /r exec x -p /p",
        "--root /r exec --process= x ls",
        "--root /r exec -p /p --help x",
        "--root /r exec -p /p",
        "--root /r state x",
        "--root /r delete x",
        "--root /r create x",
    ],
)
def test_python_is_not_started_for_one_that_has_no_record_or_no_file(world: World, line: str) -> None:
    world.put(record_of("shim", "/r", "x"))
    assert became_runtime(world.call(*line.split(), env=world.run_env)).argv[1:] == line.encode().split()


@pytest.mark.rootful
def test_a_record_belongs_to_the_name_of_the_launcher(world: World) -> None:
    world.name("shim-other")
    world.link("shim-other", world.runtime)
    world.put(record_of("shim", "", "x"))
    became_runtime(world.call("exec", "-p", "p", "x", name="shim-other", env=world.run_env))
    became_python(world.call("exec", "-p", "p", "x", env=world.run_env))
    world.put(record_of("shim-other", "", "x"))
    said = became_python(world.call("exec", "-p", "p", "x", name="shim-other", env=world.run_env)).verdict()
    assert (said["name"], said["key"]) == (["shim-other"], [record_files.key("shim-other", "", "x")])


@pytest.mark.rootful
def test_a_record_that_is_a_link_to_nothing_is_for_python_to_judge(world: World) -> None:
    world.inside("ln", "-s", "/nowhere", record_of("shim", "", "link"))
    became_python(world.call("exec", "-p", "p", "link", env=world.run_env))


def test_an_exec_without_any_directory_of_ours_is_the_runtimes(world: World) -> None:
    world.inside("mv", "/run/shim", "/run/away")
    became_runtime(world.call("exec", "-p", "p", "stranger", env=world.run_env))
    world.inside("mv", "/run/away", "/run/shim")


@pytest.mark.parametrize(
    ("mode", "given", "expected"),
    [
        (0o700, "{home}", "python"),
        (0o700, "", "runtime"),
        (0o700, None, "runtime"),
        (0o711, "{home}", "python"),
        (0o770, "{home}", "runtime"),
        (0o707, "{home}", "runtime"),
        (0o700, "home", "runtime"),
    ],
)
def test_rootless_records_lie_in_the_users_run_directory(
    world: World, tmp_path: Path, mode: int, given: str | None, expected: str
) -> None:
    """Relative paths, and directories that others can write to, do not count; nor does /run/shim."""
    world.put(record_of("shim", "", "x"))
    home = tmp_path / "home"
    (home / "shim/c").mkdir(parents=True)
    (home / "shim/c" / record_files.key("shim", "", "x")).touch()
    home.chmod(mode)
    env = [] if given is None else [b"XDG_RUNTIME_DIR=" + os.fsencode(given.format(home=home))]
    outcome = world.call("exec", "-p", "p", "x", rootless=True, env=env, cwd=tmp_path)
    (became_python if expected == "python" else became_runtime)(outcome)


@pytest.mark.rootful
def test_the_users_run_directory_is_nothing_to_the_hosts_root(world: World, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "shim/c").mkdir(parents=True)
    (tmp_path / "shim/c" / record_files.key("shim", "", "mine")).touch()
    env = [b"XDG_RUNTIME_DIR=" + os.fsencode(tmp_path)]
    became_python(world.call("exec", "-p", "p", "mine", env=env, rootless=True))
    is_hosts_root = os.geteuid() == 0
    (became_runtime if is_hosts_root else became_python)(world.call("exec", "-p", "p", "mine", env=env))


@pytest.mark.parametrize("text", ["", "/nowhere/python3\n{modules}\n", "{python}\n/nowhere\n", "{python}\n{empty}\n"])
def test_a_broken_installation_does_not_stop_an_exec(world: World, launch: Path, text: str, tmp_path: Path) -> None:
    """It may be a probe of a container that runs well, and lacks a variable at most."""
    world.put(record_of("shim", "", "x"))
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim/__main__.py").touch()
    launch.write_text(text.format(python=world.python, modules=world.modules, empty=tmp_path))
    assert became_runtime(world.call("exec", "-p", "p", "x", env=world.run_env)).argv[1:] == [
        b"exec",
        b"-p",
        b"p",
        b"x",
    ]


# --- a configuration; its needles stand in test_needles.py ---------------------------------------------------------


@pytest.mark.parametrize("path", ["/etc/shim/config.toml", "/etc/nvidia-container-runtime/config.toml"])
def test_with_a_configuration_every_create_is_pythons(world: World, path: str) -> None:
    became_runtime(world.call("create", "x"))
    world.inside("touch", path)
    try:
        became_python(world.call("create", "x"))
        became_runtime(world.call("state", "x"))
    finally:
        world.inside("rm", path)


# --- nothing is touched -------------------------------------------------------------------------------------------

ODD_ENVIRONMENT = [
    b"Z=last first",
    b"A=1",
    b"A=2",
    b"LD_LIBRARY_PATH=/opt/lib:",
    b"LD_PRELOAD=" + PRELOAD.encode(),
    b"SHIM_KEEP_LD_X=1",
    b"LC_ALL=tr_TR",
    b"LC_ALL=C",
    b"NO_EQUALS",
    b"GLIBC_TUNABLES=glibc.malloc.check=3:x=1",
    b"BYTES=\xff\xfe\n",
    b"=C:=odd",
    b"",
    b"PATH=",
]


def _status(seen: Seen) -> dict[str, str]:
    """Umask and signals; 32 and 33 are the C library's, and whoever started the tests may have left them ignored."""
    found = dict(line.decode().split(":\t") for line in seen.status)
    return {**found, "SigIgn": f"{int(found['SigIgn'], 16) & ~0x180000000:016x}"}


@pytest.mark.parametrize("words", [["state", "x"], ["create", "x"]], ids=["pass-through", "create without a request"])
def test_the_runtime_gets_everything_as_it_was(world: World, words: list[str], tmp_path: Path) -> None:
    low, high = os.open(tmp_path, os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
    odd = [*words, "", "-", "\udcff", "a\nb"] if words[0] == "state" else [*words, "\udcff\n"]
    ignored = (signal.SIGPIPE, signal.SIGUSR1)
    outcome = world.call(*odd, env=ODD_ENVIRONMENT, pass_fds=(low, high), umask=0o157, ignored=ignored)
    os.close(low)
    os.close(high)
    seen = became_runtime(outcome)
    assert seen.argv == [os.fsencode(world.runtime), *map(os.fsencode, odd)]
    assert seen.env == ODD_ENVIRONMENT
    assert seen.fds.keys() == {0, 1, 2, low, high}
    assert (seen.fds[0], seen.fds[low], seen.fds[high]) == (b"/dev/null", os.fsencode(tmp_path), b"/dev/null")
    assert seen.cwd == os.fsencode(world.bundle)
    mask = sum(1 << number - 1 for number in ignored)
    assert _status(seen) == {"Umask": "0157", "SigBlk": f"{0:016x}", "SigIgn": f"{mask:016x}"}


@pytest.mark.parametrize("ignored", [(), (signal.SIGPIPE,), (signal.SIGXFSZ, signal.SIGINT)], ids=str)
def test_the_runtime_gets_everything_as_it_was_behind_python_too(
    world: World, launch: Path, modules: Path, tmp_path: Path, ignored: tuple[signal.Signals, ...]
) -> None:
    """The real Python: it finds that nothing is asked for, and goes on as if it had not been there."""
    launch.write_text(f"{sys.executable}\n{modules}\n")
    fd = os.open(tmp_path, os.O_RDONLY)
    words = ["--new", "--log=l", "create", "--pid-file", "\udcff\n", "x"]
    outcome = world.call(*words, env=ODD_ENVIRONMENT, pass_fds=(fd,), umask=0o157, ignored=ignored)
    os.close(fd)
    seen = became_runtime(outcome)
    assert seen.argv == [os.fsencode(world.runtime), *map(os.fsencode, words)]
    # Python's execve can pass on only what has a name and a value
    assert seen.env == [variable for variable in ODD_ENVIRONMENT if variable.find(b"=") > 0]
    assert seen.fds.keys() == {0, 1, 2, fd}
    assert seen.cwd == os.fsencode(world.bundle)
    mask = sum(1 << number - 1 for number in ignored)
    assert _status(seen) == {"Umask": "0157", "SigBlk": f"{0:016x}", "SigIgn": f"{mask:016x}"}


def _renamed(*beginnings: bytes) -> list[bytes]:
    return [b"SHIM_KEEP_" + variable if variable.startswith(beginnings) else variable for variable in ODD_ENVIRONMENT]


def test_python_gets_the_environment_in_order_with_loader_variables_renamed(world: World) -> None:
    """And no locale; the command line runs in the caller's."""
    loader = (b"LD_", b"GLIBC_TUNABLES=", b"SHIM_KEEP_")
    seen = became_python(world.call("--new", "create", "x", env=ODD_ENVIRONMENT))
    assert seen.env == [*_renamed(*loader, b"LC_ALL="), b"LC_ALL=C"]
    assert became_python(world.call("cdi", "list", env=ODD_ENVIRONMENT)).env == _renamed(*loader)


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        ((), None),
        ((signal.SIGPIPE,), "PIPE"),
        ((signal.SIGXFSZ,), "XFSZ"),
        ((signal.SIGXFSZ, signal.SIGPIPE), "PIPE,XFSZ"),
    ],
)
def test_python_learns_which_signals_were_ignored(
    world: World, ignored: tuple[signal.Signals, ...], expected: str | None
) -> None:
    said = became_python(world.call("run", "--device", "a/b=c", "x", ignored=ignored)).verdict()
    assert said.get("sigign") == ([expected] if expected else None)


@pytest.mark.parametrize(
    ("words", "ignored", "blocked"),
    [
        (("run", "--device", "a/b=c", "x"), (), True),
        (("hook", "precreate"), (), True),
        (("hook", "netdevices", "attach", "a:b"), (), True),
        (("run", "--device", "a/b=c", "x"), (signal.SIGINT,), False),
        (("cdi", "list"), (), False),
    ],
    ids=lambda value: " ".join(str(one) for one in value) if isinstance(value, tuple) else "",
)
def test_an_interrupt_waits_until_python_can_take_it(
    world: World, words: tuple[str, ...], ignored: tuple[signal.Signals, ...], blocked: bool
) -> None:
    """Ctrl-C while the interpreter started ended in a traceback of its own modules."""
    seen = became_python(world.call(*words, ignored=ignored))
    assert int(_status(seen)["SigBlk"], 16) == (1 << signal.SIGINT - 1 if blocked else 0)
    assert (b"sigint=held" in seen.argv) == (blocked and "netdevices" not in words), "that hook ends its work"


def test_an_interrupt_that_the_caller_blocks_stays_blocked(world: World) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        seen = became_python(world.call("run", "--device", "a/b=c", "x"))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert b"sigint=held" not in seen.argv
    assert int(_status(seen)["SigBlk"], 16) == 1 << signal.SIGINT - 1


def test_the_runtime_gets_an_interrupt_where_python_cannot_be_started(world: World, launch: Path) -> None:
    """The launcher has blocked it for Python by then."""
    launch.write_text(f"/nowhere/python3\n{world.modules}\n")
    seen = became_runtime(world.call("--new", "create", "x"))
    assert int(_status(seen)["SigBlk"], 16) == 0


def test_long_command_lines_and_environments_pass(world: World) -> None:
    words = ["exec", "x", *["w"] * 60000]
    env = [b"LD_%d=%s" % (i, b"v" * 20) for i in range(5000)]
    assert len(became_runtime(world.call(*words, env=env)).argv) == len(words) + 1
    seen = became_python(world.call("create", "--device", "a/b=c", *words, env=env))
    assert (len(seen.argv), len(seen.env)) == (len(words) + 17, len(env) + 1)


@pytest.mark.parametrize("name", ["shim", "shim-crun"])
def test_recorded_calls_of_engines_pass_unchanged(world: World, name: str) -> None:
    """Each distinct command line once, by the name that has runc's grammar and by the one that has crun's."""
    low = world.runtime
    if name == "shim-crun":
        low = world.add_program("low/crun")
        world.name(name)
        world.link(name, low)
    for argv in {tuple(trace["argv"][1:]) for trace in TRACES}:
        outcome = world.call(*argv, name=name, umask=0)
        seen = outcome.runtime or Seen.read(low)
        assert seen
        assert (outcome.status, outcome.python) == (0, None)
        assert seen.argv == [os.fsencode(word) for word in (low, *argv)]


# --- the low-level runtime ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [[], [b"PATH=", b"HOME="], [b"PATH=/nowhere", b"HOME=/root"]], ids=str)
@pytest.mark.parametrize("words", [["state", "x"], ["create", "x"], ["--version"]], ids=str)
def test_the_environment_does_not_decide_which_runtime(world: World, env: list[bytes], words: list[str]) -> None:
    assert became_runtime(world.call(*words, env=env)).argv[0] == os.fsencode(world.runtime)


def test_without_a_link_the_program_directories_come_before_path(world: World) -> None:
    world.name("shim-searched")
    first, later = world.root / "first", world.add_program("path/searched")
    world.add_program("bundle/relative/searched")
    world.add_program("bundle/searched")
    world.inside("cp", world.runtime, "/usr/local/sbin/searched")
    path = b"PATH=relative::%s:/nowhere" % os.fsencode(later.parent)
    outcome = world.call("state", name="shim-searched", env=[path])
    assert outcome.status == 0
    assert Seen.read(later) is None
    world.inside("mv", "/usr/local/sbin/searched.seen", f"{first}.seen")
    seen = Seen.read(first)
    assert seen
    assert seen.argv[0] == b"/usr/local/sbin/searched"
    world.inside("rm", "/usr/local/sbin/searched")
    assert world.call("state", name="shim-searched", env=[path]).status == 0
    assert Seen.read(later), "the working directory must not be searched"


def test_shim_takes_runc_then_crun(world: World) -> None:
    world.inside("rm", "/etc/shim/low-level/shim")
    try:
        for name in ("runc", "crun"):
            world.inside("cp", world.runtime, f"/usr/local/sbin/{name}")
        world.call("state")
        world.inside("test", "-e", "/usr/local/sbin/runc.seen")
        world.inside("test", "!", "-e", "/usr/local/sbin/crun.seen")
    finally:
        world.inside("sh", "-c", "rm -f /usr/local/sbin/*")
        world.link("shim", world.runtime)


def test_a_program_that_replaces_the_runtime_finds_the_one_behind_it(world: World) -> None:
    """A link called runc in front of the real one: never itself."""
    world.name("searched-too")
    target = world.add_program("path/searched-too")
    path = b"PATH=%s:%s" % (os.fsencode(world.bin), os.fsencode(target.parent))
    assert world.call("state", name="searched-too", env=[path]).status == 0
    assert Seen.read(target)


def test_a_launcher_that_finds_only_itself_says_so(world: World) -> None:
    world.name("shim-only")
    world.name("only")
    line = refused(
        world.call("create", "x", name="shim-only", env=[b"PATH=" + os.fsencode(world.bin)]), "LOWLEVEL_MISSING"
    )
    assert f"the only only found, {world.bin}/only, is shim itself" in line
    assert "ln -s /path/to/it /etc/shim/low-level/shim-only" in line


@pytest.mark.parametrize(
    ("target", "finding", "text"),
    [
        ("{bin}/shim", "LOWLEVEL_MISSING", "which is shim itself"),
        ("runc", "LOWLEVEL_MISSING", 'points to "runc"'),
        ("/nowhere/runc", "LOWLEVEL_EXEC", "/nowhere/runc cannot be started: it is missing"),
        ("{root}/start", "LOWLEVEL_EXEC", "cannot be started: it is not accessible to this user"),
        ("{root}/script", "LOWLEVEL_EXEC", "cannot be started: the loader that it names is missing"),
        ("{root}/text", "LOWLEVEL_EXEC", "it is not a program for this machine"),
    ],
)
def test_a_link_that_leads_nowhere_says_so(world: World, target: str, finding: str, text: str, tmp_path: Path) -> None:
    world.name("shim-astray")
    (tmp_path / "start").write_text("")
    (tmp_path / "start").chmod(0o644)
    (tmp_path / "script").write_text("#!/nowhere/sh\n")
    (tmp_path / "text").write_text("\0\0\0\0")
    for name in ("script", "text"):
        (tmp_path / name).chmod(0o755)
    world.link("shim-astray", target.format(bin=world.bin, root=tmp_path))
    log = tmp_path / "log"
    try:
        line = refused(world.call("--log", log, "--log-format=json", "state", "x", name="shim-astray"), finding)
    finally:
        (world.bin / "shim-astray").unlink()
    assert text in line
    assert json.loads(log.read_text())["msg"] + "\n" == line


def test_d11_podman_names_the_runtime_itself(world: World) -> None:
    """Its message was "Error: OCI runtime error: shim: shim: LOWLEVEL_MISSING: …"."""
    world.name("shim-nowhere-at-all")
    for name, begins in (("oci-log", "LOWLEVEL_MISSING: "), ("log", "shim: LOWLEVEL_MISSING: ")):
        log = world.root / name
        done = world.call("--log", log, "--log-format", "json", "create", "x", name="shim-nowhere-at-all")
        assert done.stderr.startswith("shim: LOWLEVEL_MISSING: ")
        assert json.loads(log.read_text())["msg"].startswith(begins)
        log.unlink()


def test_nothing_found_says_what_to_install(world: World) -> None:
    world.name("shim-nowhere-to-be-found")
    log = world.bundle / "log"
    line = refused(world.call("--log", log, "create", "x", name="shim-nowhere-to-be-found"), "LOWLEVEL_MISSING")
    assert "no nowhere-to-be-found in the directories for programs or in PATH" in line
    assert line.strip() in log.read_text()
    log.unlink()


def test_a_link_that_is_none_says_so(world: World) -> None:
    world.name("shim-file")
    world.inside("touch", "/etc/shim/low-level/shim-file")
    assert "is not a symbolic link" in refused(world.call("state", name="shim-file"), "LOWLEVEL_MISSING")


# --- a broken installation ----------------------------------------------------------------------------------------

BROKEN = [
    ("the interpreter is gone", "/nowhere/python3\n{modules}\n", "/nowhere/python3 cannot be started: it is missing"),
    ("the modules are gone", "{python}\n/nowhere\n", "/nowhere/shim/__main__.py cannot be read: it is missing"),
    ("the program is cut off", "{python}\n{world}/cut\n", "/cut/shim/__main__.py cannot be read: it is cut off"),
    ("the program is empty", "{python}\n{world}/empty\n", "/empty/shim/__main__.py cannot be read: it is cut off"),
    ("launch holds one line", "{python}\n", "does not hold the interpreter and the module directory"),
    ("launch is cut off", "{python}\n/mod", "does not hold the interpreter and the module directory"),
    ("launch is not absolute", "python3\n{modules}\n", "does not hold the interpreter and the module directory"),
    ("launch is empty", "", "does not hold the interpreter and the module directory"),
]


@pytest.mark.parametrize(("text", "reason"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
@pytest.mark.parametrize("form", ["json", "text", None])
def test_a_broken_installation_stops_only_who_asks(
    world: World, launch: Path, text: str, reason: str, form: str | None
) -> None:
    for name, content in (("cut", (world.modules / "shim/__main__.py").read_text()[:-1]), ("empty", "")):
        (world.root / name / "shim").mkdir(parents=True, exist_ok=True)
        (world.root / name / "shim/__main__.py").write_text(content)
    launch.write_text(text.format(python=world.python, modules=world.modules, world=world.root))
    became_runtime(world.call("create", "x"))
    became_runtime(world.call("state", "x"))
    refused(world.call("cdi", "list"), "SHIM_BROKEN")

    world.config(ASKS)
    log = world.bundle / "log"
    log.write_text("before\n")
    options = ["--log", str(log), *(["--log-format", form] if form else [])]
    line = refused(world.call(*options, "create", "x"), "SHIM_BROKEN")
    assert reason in line
    assert "make install" in line
    before, after, *more = log.read_text().splitlines()
    log.unlink()
    assert (before, more) == ("before", [])
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    if form == "json":
        logged = json.loads(after)
        assert (logged["level"], logged["msg"] + "\n", sorted(logged)) == ("error", line, ["level", "msg", "time"])
        assert re.fullmatch(time, logged["time"])
    else:
        assert re.fullmatch(rf'time="{time}" level=error msg="{re.escape(line.strip())}"', after)


PREFIXED = '{"annotations":{"cdi.k8s.io/x":""}}'
SOURCES = {
    "nothing": ("{}", False),
    "an annotation": (PREFIXED, True),
    "a variable": ('{"process":{"env":["NVIDIA_VISIBLE_DEVICES=0"]}}', True),
    "a variable of another vendor": ('{"process":{"env":["AMD_VISIBLE_DEVICES=0"]}}', True),
    "a mount": ('{"mounts":[{"destination":"/var/run/nvidia-container-devices/0"}]}', True),
    "a mount by another spelling": ('{"mounts":[{"destination":"/var/run/.//nvidia-container-devices/0"}]}', True),
    "a variable that is spelt with an escape": ('{"process":{"env":["NVIDIA\\u005fVISIBLE_DEVICES=0"]}}', True),
}


@pytest.mark.parametrize(("config", "asks"), SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.parametrize("state", ["Python whole", "Python broken"])
def test_with_a_configuration_and_no_needles_every_built_in_source_is_looked_for(
    world: World, launch: Path, config: str, asks: bool, state: str
) -> None:
    """After each boot, and with any configuration, a broken Python stopped every container, although none asked."""
    world.put("/etc/shim/config.toml")
    world.config(config)
    if state == "Python broken":
        launch.write_text(f"/nowhere/python3\n{world.modules}\n")
    try:
        outcome = world.call("create", "x", env=world.run_env)
    finally:
        world.inside("rm", "/etc/shim/config.toml")
    if state == "Python whole":
        assert became_python(outcome).verdict().get("asks") == (None if asks else ["0"])
    elif asks:
        refused(outcome, "SHIM_BROKEN")
    else:
        became_runtime(outcome)


@pytest.mark.parametrize("key", ["cdi.k8s.io", "cdi.k8s.io_x", "CDI.k8s.io/x", "Cdi.K8s.Io"])
@pytest.mark.parametrize("configuration", [False, True])
def test_b14_a_key_that_nearly_asks_did_not_lead_to_python(
    world: World, launch: Path, key: str, configuration: bool
) -> None:
    """`shim explain` named it, and the create had nothing to write into the log. It stops no container either."""
    world.config(json.dumps({"annotations": {key: "vendor.example/class=dev"}}))
    if configuration:
        world.put("/etc/shim/config.toml")
    try:
        assert became_python(world.call("create", "x", env=world.run_env)).verdict()["asks"] == ["0"]
        launch.write_text("/nowhere/python3\n/nowhere\n")
        became_runtime(world.call("create", "x", env=world.run_env))
    finally:
        world.inside("rm", "-f", "/etc/shim/config.toml")


def test_a_broken_installation_and_an_unknown_option_stop_only_who_asks(world: World, launch: Path) -> None:
    launch.write_text("")
    assert became_runtime(world.call("--new", "create", "x")).argv[1:] == [b"--new", b"create", b"x"]
    refused(world.call("--new", "create", "--device", "a/b=c", "x"), "SHIM_BROKEN")
    world.config(ASKS)
    refused(world.call("--new", "create", "x"), "SHIM_BROKEN")


def test_python_learns_whether_anything_was_found_that_asks(world: World) -> None:
    assert became_python(world.call("--new", "create", "x")).verdict()["asks"] == ["0"]
    assert "asks" not in became_python(world.call("create", "--device", "a/b=c", "x")).verdict()
    world.config(ASKS)
    assert "asks" not in became_python(world.call("--new", "create", "x")).verdict()


def test_the_log_has_its_line_although_nobody_reads_stderr(world: World, launch: Path) -> None:
    """SIGPIPE ended the launcher before it had written to --log, which is all that containerd shows."""
    launch.write_text("")
    log = world.bundle / "log"
    reader, writer = os.pipe()
    os.close(reader)
    outcome = world.call("--log", log, "run", "--device", "a/b=c", "x", stderr=writer)
    os.close(writer)
    assert outcome.status == 1
    assert "SHIM_BROKEN" in log.read_text()
    log.unlink()


def test_in_a_venv_the_interpreter_lies_beside_the_launcher(world: World, launch: Path) -> None:
    launch.unlink()
    line = refused(world.call("run", "--device", "a/b=c", "x"), "SHIM_BROKEN")
    assert f"python3 -m venv {world.root} && {world.root}/bin/pip install --force-reinstall cdi-shim" in line
    library = world.root / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (library / "shim").mkdir(parents=True)
    (library / "shim/__main__.py").write_text("\n# end\n")
    python = world.add_program("bin/python3")
    assert world.call("run", "--device", "a/b=c", "x").status == 0
    seen = Seen.read(python)
    assert seen
    assert seen.argv[4] == os.fsencode(library / "shim/__main__.py")


def test_in_a_venv_the_modules_are_those_of_the_newest_python_that_has_them(world: World, launch: Path) -> None:
    """The launcher of a wheel is the same for every Python, and `python3 -m venv --upgrade` leaves the old modules."""
    launch.unlink()
    for directory in world.root.glob("lib/python*"):
        shutil.rmtree(directory)
    python = world.add_program("bin/python3")
    (world.root / "lib/python3.100/site-packages/pip").mkdir(parents=True)  # upgraded, shim not yet installed again
    for name in ("python3.9", "python3.10", "python3.13", "python3.13t", "python3"):
        (world.root / f"lib/{name}/site-packages/shim").mkdir(parents=True)
        (world.root / f"lib/{name}/site-packages/shim/__main__.py").write_text("\n# end\n")
    for gone, name in (("", "python3.13"), ("python3.13", "python3.10"), ("python3.10", "python3.9")):
        if gone:
            shutil.rmtree(world.root / "lib" / gone)
        assert world.call("run", "--device", "a/b=c", "x").status == 0
        seen = Seen.read(python)
        assert seen
        assert seen.argv[4] == os.fsencode(world.root / f"lib/{name}/site-packages/shim/__main__.py")


def test_what_is_said_stays_on_one_line(world: World, launch: Path) -> None:
    """Names come from others: a line break or an escape sequence in one must not make a line of its own."""
    log = world.bundle / "log"
    launch.write_text(f'/no"where\\\x1b[31m\x7fü\udcff\r\n{world.modules}\n', errors="surrogateescape")
    line = refused(world.call("--log", log, "--log-format=json", "run", "--device", "a/b=c", "x"), "SHIM_BROKEN")
    assert '/no"where\\\\u001b[31m\\u007fü\\ufffd\\u000d' in line
    assert json.loads(log.read_text())["msg"].startswith(
        'shim: SHIM_BROKEN: /no"where\\\x1b[31m\x7fü\ufffd\r cannot be'
    )
    log.unlink()


@pytest.mark.parametrize("kind", ["a link", "a FIFO", "a missing directory", "nothing"])
def test_a_log_that_cannot_be_written_changes_nothing(world: World, launch: Path, kind: str) -> None:
    launch.write_text("")
    log = world.bundle / "odd-log"
    victim = world.bundle / "victim"
    if kind == "a link":
        log.symlink_to(victim)
    elif kind == "a FIFO":
        os.mkfifo(log)
    path = "" if kind == "nothing" else log / "x" if kind == "a missing directory" else log
    refused(world.call("--log", path, "run", "--device", "a/b=c", "x"), "SHIM_BROKEN")
    assert not victim.exists()
    log.unlink(missing_ok=True)


def test_the_time_is_the_time(world: World, launch: Path) -> None:
    launch.write_text("")
    log = world.bundle / "log"
    before = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)
    world.call("--log", log, "--log-format=json", "run", "--device", "a/b=c", "x", env=[b"TZ=Asia/Tokyo"])
    after = dt.datetime.now(dt.timezone.utc)
    logged = dt.datetime.fromisoformat(json.loads(log.read_text())["time"].replace("Z", "+00:00"))
    log.unlink()
    assert before <= logged <= after
