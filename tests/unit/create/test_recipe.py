"""The recipe: a decision is a value, and can be made again from what was asked about the host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.create.scenes import CASES, Case, Scene

from shim.create.question import Question
from shim.create.recipe import Decision, decide
from shim.create.recorded import Recorded, Status, UnrecordedError, decision_to_json, trace_from_json, trace_to_json
from shim.host import abilities

Json = dict[str, Any]


def _answer(decision: Decision, kind: str) -> list[Any]:
    return [answer for kind_of, _, answer in decision.trace if kind_of == kind]


@pytest.mark.rootful
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_decision_is_made_again_from_its_trace(
    case: Case, trusted_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an index and with one; from the values themselves, and from what JSON makes of them."""
    scene = Scene(trusted_path, installed, case)
    scene.enter(monkeypatch)
    question, cold = scene.decide()
    refusal = cold.refusal.findings if cold.refusal else []
    assert " ".join(finding.id for finding in [*cold.findings, *refusal]) == case.ids
    expected = decision_to_json(cold)
    assert _answer(cold, "index") == [False]
    decisions = [cold]
    if scene.index(monkeypatch):
        decisions.append(scene.decide()[1])
        assert _answer(decisions[1], "index") == [True]
    for decision in decisions:
        assert decision_to_json(decision) == expected
        again = decide(question, Recorded(decision.trace))
        assert decision_to_json(again) == expected
        text = json.dumps([question.to_json(), trace_to_json(decision.trace)])
        asked, trace = json.loads(text)
        replayed = decide(Question.from_json(asked), Recorded(trace_from_json(trace)))
        assert decision_to_json(replayed) == json.loads(json.dumps(expected))
        assert trace_to_json(replayed.trace) == trace


# Case -> kinds of questions that a second decision asks
ASKED = {
    "a user namespace and a renamed node": {"settings", "specs", "environ", "lstat", "read"},
    "an interface": {"settings", "specs", "environ", "stat", "read"},
    "hooks without root": {"settings", "specs", "environ", "lstat", "stat", "readlink", "read", "access"},
    "a mount of a path that is missing": {"settings", "specs", "environ", "missing", "read"},
    "a foreign hook": {"settings", "specs", "environ", "lstat", "stat", "readlink", "access"},
}


@pytest.mark.rootful
@pytest.mark.parametrize("name", ASKED)
def test_a_question_that_the_trace_does_not_answer_is_an_error(
    name: str, trusted_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above: no answer is taken from the host, and none is made up."""
    scene = Scene(trusted_path, installed, CASES[name])
    scene.enter(monkeypatch)
    question, decision = scene.decide()
    needed = set()
    for left_out in decision.trace:
        try:
            decide(question, Recorded([entry for entry in decision.trace if entry != left_out]))
        except UnrecordedError as error:
            needed.add(left_out[0])
            assert repr(left_out[1]) in str(error)
    assert needed == ASKED[name]


def test_another_answer_makes_another_decision(
    trusted_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here: the low-level runtime is known to move interfaces itself (shim.host.abilities), so no hooks are added."""
    scene = Scene(trusted_path, installed, CASES["an interface"])
    scene.enter(monkeypatch)
    question, decision = scene.decide()
    assert [edit["path"] for edit in decision.edits] == [["process", "env"], ["hooks"]]
    answers = {(kind, argument): answer for kind, argument, answer in decision.trace}
    low = answers["stat", str(scene.low)]
    root = Status([0o100644, 1, 1, 0, 0, 0, 0, 0, 0])
    answers["read", abilities.RECORD] = root, f"{abilities.HEAD}\n{abilities._line(str(scene.low), low)}\n"
    trace = [(kind, argument, answer) for (kind, argument), answer in answers.items()]
    again = decide(question, Recorded(trace))
    assert [edit["path"] for edit in again.edits] == [["process", "env"], ["linux", "netDevices"]]


def test_with_a_broken_configuration_what_was_asked_for_is_known_all_the_same(
    trusted_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log named no device, since a variable that names none was met as well."""
    scene = Scene(trusted_path, installed, CASES["a bad value, --device, and a variable that names no device"])
    scene.enter(monkeypatch)
    _, decision = scene.decide()
    assert decision.requests == {"acme.example/gpu=0": "--device"}
    assert decision.refusal is decision.unreadable is not None


@pytest.mark.rootful
@pytest.mark.parametrize(
    ("case", "kind", "answer", "folds"),
    [
        ("a hook of our own", "readonly", False, 0),
        ("a hook of our own", "readonly", True, 1),
        ("a hook of our own, in a read-only root", "", False, 1),
        ("a hook of our own, folded", "", False, 1),
        ("a hook of our own, not folded", "", False, 0),
        ("a foreign hook", "", False, 0),
    ],
)
def test_a_hook_is_folded_by_default_where_it_could_not_write(
    trusted_path: Path,
    installed: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    kind: str,
    answer: bool,
    folds: int,
) -> None:
    """A root that is read-only by config.json or by its file system; elsewhere folding is no faster than the hook."""
    scene = Scene(trusted_path, installed, CASES[case])
    scene.enter(monkeypatch)
    question, decision = scene.decide()
    asked = [of_kind for of_kind, _, _ in decision.trace]
    assert ("readonly" in asked) == (kind == "readonly"), "asked only where it matters"
    trace = [(of_kind, argument, answer if of_kind == kind else known) for of_kind, argument, known in decision.trace]
    assert len(decide(question, Recorded(trace)).folds) == folds


# --- the trace names every path that was looked at --------------------------------------------------------------------

# Decides what JSON on standard input describes, between two system calls that fail; run under strace.
PROGRAM = """
import importlib, json, pkgutil, posix, sys
sys.path.insert(0, sys.argv[1])
import shim.base, shim.cdi, shim.config, shim.create, shim.host, shim.hooks.core, yaml
for package in (shim.base, shim.cdi, shim.config, shim.create, shim.host):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
from shim.cdi import index_writer
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import decide
from shim.create.recorded import Recorded, trace_to_json
from shim.create.world import World
from shim.host import identity

class Beside(World):
    def node(self, path):
        posix.stat("/etc/hostname")
        return super().node(path)

index_writer._FRESH_NS = 0
traces = []
for scene in json.load(sys.stdin):
    posix.environ.pop(b"CRI_O_EXTERNAL", None)
    posix.environ.update({name.encode(): value.encode() for name, value in scene["environ"].items()})
    call = Invocation(scene["words"])
    question = Question(call, Bundle(call.config), rootful=identity.is_rootful())
    for _ in ("cold", "warm"):
        world = Beside() if scene["beside"] else World()
        posix.access("/shim-test/begin", 0)
        decision = decide(question, world)
        posix.access("/shim-test/end", 0)
        traces.append([trace_to_json(decision.trace), str(decision.refusal or "")])
        world.save()
    posix.access("/shim-test/begin", 0)
    again = decide(question, Recorded(decision.trace))
    posix.access("/shim-test/end", 0)
    traces.append([[], str(again.refusal or "")])
json.dump(traces, sys.stdout)
"""
PATHS = (
    "lstat",
    "stat",
    "readlink",
    "read",
    "content",
    "getxattr",
    "access",
    "missing",
    "readonly",
    "index",
    "idmap",
    "ridmap",
)  # kinds of questions
# What the child of native/idmap.c does to make a user namespace: nothing is learned there about the host
OWN_NAMESPACE = ("/proc/self/setgroups", "/proc/self/ns/user")
WATCHED = ("/etc/", "/dev/", "/sys/", "/proc/", "/run/")
TRACED = [
    "an annotation",
    "a foreign hook",
    "a hook of our own",
    "a hook of our own, folded",
    "a hook of a vendor, folded",
    "a hook behind links",
    "a hook without its program",
    "an interface",
    "a user namespace",
    "a user namespace that is joined",
    "a variable",
    "an unknown device",
    "a device that only a damaged spec has",
    "a node that is gone",
    "a bad value, and a variable",
    "a configuration that is gone",
    "a spec directory that is gone",
    "a sandbox of containerd",
    "a container that calls itself a sandbox",
    "an annotation of a Pod of CRI-O",
    "an annotation under an unknown podman",
    "an empty object",
]


def _strace(scenes: list[Scene], directory: Path, *before: str, beside: bool = False, **env: str) -> list[Json]:
    """Each decision: the paths that it looked at, those that its trace names, and why it is refused."""
    asked = [
        {
            "environ": {"SHIM_CONFIG": str(scene.settings), **(scene.case.environ or {})},
            "words": scene.words(),
            "beside": beside,
        }
        for scene in scenes
    ]
    log = directory / "strace"
    strace = ["strace", "-f", "-y", "-qq", "-e", "trace=%file,getdents64", "-e", "signal=none", "-o", str(log)]
    modules = str(Path(sys.modules["shim"].__file__ or "").parent.parent)
    done = subprocess.run(
        [*strace, *before, sys.executable, "-I", "-B", "-c", PROGRAM, modules],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **env},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Json] = []
    for part in log.read_text().split('"/shim-test/begin"')[1:]:
        looked = [_path(line) for line in part.partition('"/shim-test/end"')[0].splitlines()[1:-1]]
        trace, refusal = json.loads(done.stdout)[len(found)]
        named = {argument[0] if kind == "getxattr" else argument for kind, argument, _ in trace if kind in PATHS}
        found.append({"looked": [path for path in looked if path], "named": named, "refusal": refusal})
    return found


def _path(line: str) -> str:
    """The path in a line of strace; "" for a descriptor's own status, and for a directory that is read further."""
    call, _, rest = line.partition(" ")[2].lstrip().partition("(")
    if call == "getdents64":
        return ""
    if rest.startswith(("AT_FDCWD", *"0123456789")):
        directory, _, rest = rest.partition(", ")
        assert directory.startswith("AT_FDCWD") or rest.startswith(('""', '"/')), line
    assert rest.startswith('"'), line
    return rest[1:].partition('"')[0]


def _unnamed(decision: Json, directory: Path) -> list[str]:
    watched = (*WATCHED, f"{directory}/")
    named = {*decision["named"], *OWN_NAMESPACE}
    return [path for path in decision["looked"] if path.startswith(watched) and path not in named]


def _scenes(directory: Path, launcher: Path) -> list[Scene]:
    return [Scene(directory / f"{number}", launcher, CASES[name]) for number, name in enumerate(TRACED)]


@pytest.mark.rootful
def test_every_path_that_a_decision_looks_at_is_in_its_trace(trusted_path: Path, installed: Path) -> None:
    decisions = _strace(_scenes(trusted_path, installed), trusted_path)
    assert len(decisions) == 3 * len(TRACED)
    for name, cold, warm, again in zip(TRACED, decisions[::3], decisions[1::3], decisions[2::3], strict=True):
        assert "INTERNAL" not in cold["refusal"], name
        assert (_unnamed(cold, trusted_path), _unnamed(warm, trusted_path)) == ([], []), name
        assert cold["refusal"] == warm["refusal"] == again["refusal"]
        assert again["looked"] == [], "a second decision looks at nothing"
        assert any(path.startswith("/run/shim/index") for path in warm["looked"])


def test_so_it_is_in_a_user_namespace(trusted_path: Path, installed: Path) -> None:
    """There the overflow uid and $XDG_RUNTIME_DIR are asked about as well; $XDG_CONFIG_HOME where it names no file."""
    (trusted_path / "run").mkdir(mode=0o700)
    scenes = _scenes(trusted_path, installed)
    decisions = _strace(
        scenes,
        trusted_path,
        "unshare",
        "--user",
        "--map-root-user",
        XDG_RUNTIME_DIR=str(trusted_path / "run"),
        XDG_CONFIG_HOME=str(trusted_path),
    )
    assert [_unnamed(decision, trusted_path) for decision in decisions] == [[] for _ in decisions]
    [*_, hook] = [decision for decision in decisions if "/bin/true" in decision["named"]]
    assert {"/proc/sys/kernel/overflowuid", str(trusted_path / "run")} <= set(hook["named"]) & set(hook["looked"])


def test_a_path_that_is_looked_at_beside_the_world_is_noticed(trusted_path: Path, installed: Path) -> None:
    """The control of the two tests above."""
    scene = Scene(trusted_path / "0", installed, CASES["an annotation"])
    for decision in _strace([scene], trusted_path, beside=True)[:2]:
        assert set(_unnamed(decision, trusted_path)) == {"/etc/hostname"}  # once for each node of the device
