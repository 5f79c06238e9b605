"""Damaged modules: an exec, an update and a create that asks for nothing go on; a create that asks is refused.

The story: with one module missing, `shim exec` into a container with a record ended in SHIM_BROKEN, so a probe of a
healthy container failed. A truncated module or an empty `__init__` ended in a traceback, with nothing in --log. One
flipped bit in `hot` ended in SIGSEGV once in 60, and in an uncaught SystemError twice. And with any configuration,
after each boot, a broken module stopped every container, although none asked.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packagecopy import copy_package
from unit.create.test_hot import _table
from unit.create.test_imports import HOT

import shim

TREE = Path(shim.__file__).parent
PARTS = ("base", "cdi", "config", "create", "host", "hooks")  # what a create may load
FILES = sorted(str(path.relative_to(TREE)) for part in PARTS for path in (TREE / part).rglob("*.py"))
IN_HOT = {place.removeprefix("shim/") for place, _, _ in _table(TREE.parent).values()}
# Where the one file is gone as well, these are needed to go on at all
NEEDED = {"__init__.py", "base/__init__.py", "base/execute.py"}

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["GPU=0"]}}],
}
DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3]),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe" + path.read_bytes()),
    "with NULs": lambda path: path.write_bytes(path.read_bytes()[:200] + b"\0" * 200),
    "failing": lambda path: path.write_bytes(path.read_bytes() + b"\n1 / 0\n"),
}


class Scene:
    """A copy of the modules, a bundle that asks, a spec and a configuration; the low-level runtime is /bin/sh."""

    def __init__(self, directory: Path) -> None:
        self.tree, self.log, self.config = directory / "shim", directory / "log", directory / "config.json"
        copy_package(directory, "__pycache__", "engines", "cli")
        (directory / "cdi").mkdir()
        (directory / "cdi/gpu.json").write_text(json.dumps(SPEC))
        self.options: list[str] = []  # options of Python
        self.settings = directory / "config.toml"
        text = f'[cdi]\nspec-dirs = ["{directory}/cdi"]\nannotation-prefixes = ["cdi.k8s.io/", "my.example/"]\n'
        self.settings.write_text(f'log.file = ""\n{text}')
        self.write("{}")

    def write(self, config: object) -> None:
        self.config.write_text(config if isinstance(config, str) else json.dumps(config))

    def call(self, verb: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """One call; standard output says "reached" and what the low-level runtime was given when it came to it."""
        said = ["low=/bin/sh", "name=shim", "self=/x/shim", f"verb={verb}", f"bundle={self.config.parent}"]
        said += [f"log={self.log}", "id=x", "key=0123456789abcdef", *words]
        low = ["sh", "-c", 'echo "reached $0 $LD_X"', "argument"]
        command = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            *self.options,
            str(self.tree / "__main__.py"),
            "create",
            *said,
            "--",
            *low,
        ]
        environment = {**os.environ, "SHIM_CONFIG": str(self.settings), "SHIM_KEEP_LD_X": "kept", **variables}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def goes_on(self, verb: str, *words: str) -> None:
        """The low-level runtime is reached with its own argv and environment, and nothing is said."""
        done = self.call(verb, *words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "reached argument kept\n", "")
        assert not self.log.exists()

    def is_refused(self, *words: str) -> str:
        """A create is refused in one line, the same in --log; returns its id."""
        done = self.call("create", "log-format=json", *words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
        assert json.loads(self.log.read_text())["msg"] == done.stderr.rstrip("\n")
        self.log.unlink()
        return done.stderr.split(":")[1].strip()

    def is_served_or_refused(self) -> None:
        """A create that asks gets its device, or is refused: it never starts without."""
        self.write({"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}})
        done = self.call("create", "log-format=json")
        if done.returncode == 0:
            assert (done.stdout, done.stderr) == ("reached argument kept\n", "")
            assert json.loads(self.config.read_text())["process"]["env"] == ["GPU=0"]
        else:
            self.log.unlink()
            assert self.is_refused() in {"SHIM_BROKEN", "INTERNAL"}


@pytest.fixture
def scene(trusted_path: Path) -> Iterator[Scene]:
    yield Scene(trusted_path)


def test_with_whole_modules_the_device_comes(scene: Scene) -> None:
    """The positive control."""
    scene.write({"annotations": {"my.example/x": "acme.example/gpu=0"}})
    scene.goes_on("create", "asks=0")
    assert json.loads(scene.config.read_text())["process"]["env"] == ["GPU=0"]


def _cases() -> Iterator[tuple[str, str, bool]]:
    """Each file once, with one kind of damage after the other; those in the one file only where it is gone."""
    kinds = list(DAMAGE)
    for number, file in enumerate(FILES):
        if file not in NEEDED:
            yield file, kinds[number % len(kinds)], file not in IN_HOT
    for kind in kinds:
        for file in ("create/__init__.py", "create/log.py", "create/report.py", "create/exec_env.py"):
            yield file, kind, file not in IN_HOT


@pytest.mark.parametrize(("file", "kind", "hot"), sorted(set(_cases())))
def test_with_any_one_file_damaged(scene: Scene, file: str, kind: str, hot: bool) -> None:
    if not hot:
        (scene.tree / "hot").unlink()
    DAMAGE[kind](scene.tree / file)
    scene.goes_on("exec", "process=/nowhere")
    scene.goes_on("update", "resources=-", "asks=0")
    scene.goes_on("create", "asks=0")
    scene.is_served_or_refused()


@pytest.mark.parametrize("file", ["create/update_grants.py", "create/grants_hardware.py", "create/__init__.py"])
def test_an_update_whose_rules_must_be_judged_is_refused(scene: Scene, file: str) -> None:
    """The launcher has seen such rules, and that grants are enforced."""
    (scene.tree / "hot").unlink()
    (scene.tree / file).write_text("1 / 0\n")
    done = scene.call("update", "resources=-", "log-format=json")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.split(":")[1].strip() in {"SHIM_BROKEN", "INTERNAL"}


@pytest.mark.parametrize("file", sorted(NEEDED))
def test_what_is_needed_to_go_on_lies_in_the_one_file_too(scene: Scene, file: str) -> None:
    (scene.tree / file).unlink()
    scene.goes_on("exec", "process=/nowhere")
    scene.goes_on("create", "asks=0")
    scene.is_served_or_refused()


def test_the_files_of_the_cases_are_those_of_the_create_path() -> None:
    """Else a module could be damaged that nothing loads, and the tests above would show nothing."""
    ours = {name.removeprefix("shim").replace(".", "/").lstrip("/") for name in HOT if name.startswith("shim")}
    assert {file.removesuffix(".py").removesuffix("/__init__") for file in IN_HOT} == {
        *(name or "__init__" for name in ours),
        "host/trust",
    }


def test_a_refusal_names_what_is_damaged_and_the_remedy(scene: Scene) -> None:
    (scene.tree / "hot").unlink()
    (scene.tree / "create/rules.py").write_text("def impose(:\n")
    scene.write({"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}})
    done = scene.call("create")
    assert done.stderr.startswith("shim: SHIM_BROKEN: its modules cannot be loaded: SyntaxError: ")
    assert "rules.py, line 1" in done.stderr
    assert done.stderr.endswith(" (install shim again)\n")
    assert scene.log.read_text().count("\n") == 1


def test_a_python_that_is_too_old_is_named_and_stops_only_who_asks(scene: Scene) -> None:
    (scene.tree / "hot").unlink()  # it is of the Python that built it
    code = "import runpy, sys; sys.hexversion = 0x030902F0; del sys.argv[0]; runpy.run_path(sys.argv[0])"
    scene.options = ["-c", code]
    scene.write({"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}})
    done = scene.call("create")
    assert f" is too old, {sys.executable} must be 3.10 or later" in done.stderr
    assert done.stderr.endswith(" (install shim again with Python 3.10 or later)\n")
    scene.log.unlink()
    scene.goes_on("create", "asks=0")
    scene.goes_on("exec", "process=/nowhere")


def test_a_request_that_is_known_is_refused_although_the_launcher_saw_none(scene: Scene) -> None:
    """The launcher cannot know a prefix of the configuration; nothing goes on once it was read, not even silently."""
    (scene.tree / "hot").unlink()
    scene.write({"annotations": {"my.example/x": "acme.example/gpu=7"}})
    assert scene.is_refused("asks=0") == "DEVICE_UNKNOWN"
    with scene.settings.open("a") as file:
        file.write('[sources]\nenvironment = "any"\n')
    (scene.tree / "create/image_requests.py").write_text("")
    assert scene.is_refused("asks=0") == "INTERNAL"
    (scene.tree / "create/report.py").write_text("")
    assert scene.is_refused("asks=0") == "SHIM_BROKEN"
    (scene.tree / "create/rules.py").write_text("def check_call(*_): 1 / 0\n")
    scene.write({"annotations": {"my.example/x": "acme.example/gpu=0"}})
    assert scene.is_refused("asks=0") == "SHIM_BROKEN"


@pytest.mark.parametrize("value", ["void", "0"])
def test_a_damaged_reader_of_specs_changes_nothing_about_who_asks(scene: Scene, value: str) -> None:
    """The configuration can be read, and says that no variable asks: so none does."""
    (scene.tree / "cdi/decode.py").write_text("")
    scene.write({"process": {"env": [f"NVIDIA_VISIBLE_DEVICES={value}"]}})
    scene.goes_on("create")
    (scene.tree / "config/reader.py").write_text("")
    if value == "void":
        scene.goes_on("create")
    else:
        assert scene.is_refused() == "INTERNAL"


def test_a_flipped_bit_in_the_one_file_means_that_there_is_none(scene: Scene) -> None:
    """Its hash is checked before marshal sees it, which ends in SIGSEGV otherwise."""
    hot, rules = scene.tree / "hot", scene.tree / "create/rules.py"
    whole, source = hot.read_bytes(), rules.read_bytes()
    asking = {"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}}
    rules.unlink()
    scene.write(asking)
    scene.goes_on("create")  # the control: it is used
    noise = random.Random(11)
    for at in [0, 4, 11, 12, *(noise.randrange(len(whole)) for _ in range(30))]:
        data = bytearray(whole)
        data[at] ^= 1 << noise.randrange(8)
        hot.write_bytes(data)
        scene.write(asking)
        assert scene.is_refused() == "SHIM_BROKEN", at
    rules.write_bytes(source)
    scene.goes_on("create")


def test_d11_podman_names_the_runtime_itself(scene: Scene) -> None:
    """Also where our modules cannot be loaded: see the test of the same name in test_report.py."""
    (scene.tree / "hot").unlink()
    (scene.tree / "create/rules.py").unlink()
    scene.write({"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}})
    log = scene.log.with_name("oci-log")
    done = scene.call("create", "log-format=json", f"log={log}")
    assert done.stderr.startswith("shim: SHIM_BROKEN: ")
    assert json.loads(log.read_text())["msg"] == done.stderr.rstrip("\n").removeprefix("shim: ")


def test_a_reader_of_stderr_that_is_gone_takes_nothing_from_the_log(scene: Scene) -> None:
    (scene.tree / "hot").unlink()
    asking = {"annotations": {"cdi.k8s.io/x": "acme.example/gpu=7"}}
    for damage in (False, True):
        scene.write(asking)
        if damage:
            (scene.tree / "create/rules.py").unlink()
        reader, writer = os.pipe()
        os.close(reader)
        said = ["low=/bin/sh", "name=shim", "self=/x", "verb=create", f"bundle={scene.config.parent}"]
        command = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            str(scene.tree / "__main__.py"),
            "create",
            *said,
            f"log={scene.log}",
        ]
        done = subprocess.run(
            [*command, "--", "sh", "-c", "true"],
            stderr=writer,
            env={"SHIM_CONFIG": str(scene.settings)},
            check=False,
        )
        os.close(writer)
        assert done.returncode == 1
        assert ("SHIM_BROKEN" if damage else "DEVICE_UNKNOWN") in scene.log.read_text()
        scene.log.unlink()
