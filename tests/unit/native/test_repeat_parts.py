"""The parts of a repeated create: which texts and questions the launcher takes, and what it inserts.

The inserter has one rule: what it makes is what Python's merge makes, or it leaves the create to Python. So each case
is made by both.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.native import repeats

from shim.base.findings import CdiError
from shim.cdi.plan import Plan
from shim.config.settings import Settings
from shim.create import answers, merge
from shim.create.invocation import Invocation
from shim.create.question import MEMBERS, _names
from shim.create.recipe import Decision

Json = dict[str, Any]

CASES = 2000

# --- which texts are taken --------------------------------------------------------------------------------------------

TAKEN = {
    "an object": '{"a":1}',
    "white space anywhere": ' {\n"a" : [ 1 , -2 ] , "b":{} }\t',
    "a number of 20 digits, as limits have": '{"a":18446744073709551615}',
    "escapes and other letters in a value": '{"a":"\\u00fc\\n\\"ü"}',
    "names of one object in another": '{"a":{"a":1},"b":{"a":1}}',
    "empty lists and objects": '{"a":[],"b":{},"c":[[],{}]}',
}

NOT_TAKEN = {
    "nothing": "",
    "half an object": '{"a":',
    "two values": "{}{}",
    "a name twice": '{"a":1,"b":2,"a":3}',
    "a name twice, deep inside": '{"x":[{"y":{"a":1,"a":1}}]}',
    "a name with an escape": '{"\\u0061":1}',
    "a name with other letters, one of which Go takes for an s": '{"mount\u017f":1}',
    "a fraction": '{"a":1.5}',
    "an exponent": '{"a":1e3}',
    "a leading zero": '{"a":01}',
    "a plus": '{"a":+1}',
    "a minus alone": '{"a":-}',
    "not a number": '{"a":NaN}',
    "a word": '{"a":nul}',
    "a control character in a string": '{"a":"\x01"}',
    "a comma too much": '{"a":1,}',
    "a byte order mark": "\ufeff{}",
    "more levels than are read": "[" * 200 + "]" * 200,
    "more members than are compared": json.dumps({str(n): n for n in range(5000)}),
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_a_text_that_all_readers_understand_alike_is_taken(text: str) -> None:
    assert repeats.read_tree(text.encode()) == 0


@pytest.mark.parametrize("text", NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_a_text_that_readers_may_understand_differently_is_not(text: str) -> None:
    assert repeats.read_tree(text.encode()) < 0


@pytest.mark.parametrize("raw", [b'{"a":"\xff"}', b'{"a":"\xc3"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xf0\x9f'])
def test_bytes_that_are_no_utf_8_are_not_taken(raw: bytes) -> None:
    assert repeats.read_tree(raw) < 0


def test_the_launcher_knows_the_names_on_which_a_decision_hangs() -> None:
    assert sorted(repeats.members()) == sorted(set(_names(MEMBERS)))


# --- which questions are taken ----------------------------------------------------------------------------------------

ASKING: Json = {
    "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["A=1"]},
    "root": {"path": "rootfs"},
    "linux": {"namespaces": [{"type": "mount"}]},
    "annotations": {"cdi.k8s.io/x": "v.example/gpu=1,v.example/gpu=0"},
}
CREATE = ["runc", "create", "--bundle", "/b", "c1"]


def _with(*path: str, value: Any) -> Json:
    """ASKING with one member set."""
    changed: Json = json.loads(json.dumps(ASKING))
    section = changed
    for name in path[:-1]:
        section = section[name]
    section[path[-1]] = value
    return changed


def _question(config: Json, argv: list[str] = CREATE) -> str | None:
    return repeats.read_question(json.dumps(config).encode(), argv)


@pytest.mark.rootful
def test_a_question_has_what_a_decision_hangs_on() -> None:
    lines = (_question(ASKING) or "").splitlines()
    assert lines == [
        "verb create",
        "name shim",
        "root ",
        "config ",
        "process 0:0",
        "readonly f",
        "device v.example/gpu=1",
        "device v.example/gpu=0",
    ]


SAME = {
    "another key of the annotation": _with("annotations", value={"cdi.k8s.io/y": "v.example/gpu=1,v.example/gpu=0"}),
    "a key each": _with("annotations", value={"cdi.k8s.io/b": "v.example/gpu=0", "cdi.k8s.io/a": "v.example/gpu=1"}),
    "a name twice": _with(
        "annotations", value={"cdi.k8s.io/x": "v.example/gpu=1,v.example/gpu=0", "cdi.k8s.io/y": "v.example/gpu=1"}
    ),
    "other variables": _with("process", "env", value=["B=ü\n"]),
    "other annotations": _with("annotations", value={**ASKING["annotations"], "io.example": "x"}),
    "a root that is not read-only, in words": _with("root", "readonly", value=False),
}


@pytest.mark.parametrize("config", SAME.values(), ids=SAME)
def test_what_a_decision_does_not_hang_on_is_not_in_its_question(config: Json) -> None:
    assert _question(config) == _question(ASKING)


DIFFERENT = {
    "another order of names": _with("annotations", value={"cdi.k8s.io/x": "v.example/gpu=0,v.example/gpu=1"}),
    "another user": _with("process", "user", value={"uid": 1000, "gid": 0}),
    "another group": _with("process", "user", value={"uid": 0, "gid": 1000}),
    "a read-only root": _with("root", "readonly", value=True),
}


@pytest.mark.rootful
@pytest.mark.parametrize("config", DIFFERENT.values(), ids=DIFFERENT)
def test_what_a_decision_hangs_on_makes_another_question(config: Json) -> None:
    assert _question(config) not in {None, _question(ASKING)}


CALLS = {
    "another verb": ["runc", "run", "--bundle", "/b", "c1"],
    "another --root": ["runc", "--root", "/r", "create", "--bundle", "/b", "c1"],
    "a device on the command line": ["runc", "create", "--device", "v.example/gpu=2", "--bundle", "/b", "c1"],
}


@pytest.mark.rootful
@pytest.mark.parametrize("argv", CALLS.values(), ids=CALLS)
def test_what_the_command_line_asks_makes_another_question(argv: list[str]) -> None:
    assert _question(ASKING, argv) not in {None, _question(ASKING)}


LEFT_TO_PYTHON = {
    "a user namespace": _with("linux", "namespaces", value=[{"type": "user"}]),
    "a user namespace, as an escape": _with("linux", "namespaces", value=[{"type": "us\u00e9r"}]),
    "mappings of ids": _with("linux", "uidMappings", value=[{"containerID": 0, "hostID": 0, "size": 1}]),
    "a sandbox": _with("annotations", value={**ASKING["annotations"], "io.kubernetes.cri.container-type": "sandbox"}),
    "a prefix in another case": _with("annotations", value={**ASKING["annotations"], "CDI.k8s.io/z": "a/b=c"}),
    "a prefix behind a blank": _with("annotations", value={**ASKING["annotations"], " cdi.k8s.io/z": "a/b=c"}),
    "a prefix that goes on": _with("annotations", value={**ASKING["annotations"], "cdi.k8s.io_z": "a/b=c"}),
    "a prefix without a slash": _with("annotations", value={**ASKING["annotations"], "cdi.k8s.io": "a/b=c"}),
    "an annotation of a vendor that is asked for": _with(
        "annotations", value={**ASKING["annotations"], "v.example/gpu": "2"}
    ),
    "a value that is no text": _with("annotations", value={"cdi.k8s.io/x": 1}),
    "a key that nerdctl could have taken from an image": _with(
        "annotations", value={"cdi.k8s.io/nerdctl/x": "v.example/gpu=1"}
    ),
    "an empty name": _with("annotations", value={"cdi.k8s.io/x": "v.example/gpu=1,"}),
    "a name with a space": _with("annotations", value={"cdi.k8s.io/x": "v.example/gpu=1, v.example/gpu=0"}),
    "a bare name": _with("annotations", value={"cdi.k8s.io/x": "gpu0"}),
    "no request at all": _with("annotations", value={}),
    "annotations that are a list": _with("annotations", value=[]),
    "a working directory below /proc": _with("process", "cwd", value="/proc/self/fd/7"),
    "a working directory with ..": _with("process", "cwd", value="/a/../proc"),
    "no process": {**ASKING, "process": None},
    "no linux": {name: value for name, value in ASKING.items() if name != "linux"},
    "no root": {name: value for name, value in ASKING.items() if name != "root"},
    "a user that is a text": _with("process", "user", value={"uid": "0"}),
    "a member in another case": {**ASKING, "Mounts": []},
    "a member in another case, further down": _with("linux", "Resources", value={}),
    "podman's annotation, where no conmon calls": _with(
        "annotations", value={**ASKING["annotations"], "io.container.manager": "libpod"}
    ),
}


@pytest.mark.parametrize("config", LEFT_TO_PYTHON.values(), ids=LEFT_TO_PYTHON)
def test_what_is_unusual_is_left_to_python(config: Json) -> None:
    assert _question(config) is None


CALLS_LEFT_TO_PYTHON = {
    "restore": ["runc", "restore", "--bundle", "/b", "c1"],
    "run with a device, which keeps the file that was there": ["runc", "run", "--device", "v.example/gpu=2", "c1"],
    "an unknown option in front of the verb": ["runc", "--unknown", "create", "--bundle", "/b", "c1"],
    "no id": ["runc", "create", "--bundle", "/b"],
    "a bare name": ["runc", "create", "--device", "0", "--bundle", "/b", "c1"],
    "a relative --root": ["runc", "--root", "r", "create", "--bundle", "/b", "c1"],
    "an id that needs escapes": ["runc", "create", "--bundle", "/b", 'c"1'],
}


@pytest.mark.parametrize("argv", CALLS_LEFT_TO_PYTHON.values(), ids=CALLS_LEFT_TO_PYTHON)
def test_calls_that_are_unusual_are_left_to_python(argv: list[str]) -> None:
    assert _question(ASKING, argv) is None


def test_cri_o_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Pods can write annotations: which of them count is Python's matter."""
    monkeypatch.setenv("CRI_O_EXTERNAL", "1")
    assert _question(ASKING) is None


# --- what is inserted -------------------------------------------------------------------------------------------------


STATUS = ("st_mode", "st_ino", "st_dev", "st_uid", "st_gid", "st_size", "st_rdev")


def _answer(plan: Plan, config: Json, trace: Any = (), began: int = 0, before: Json | None = None) -> bytes:
    """The answer for a plan, as if `config` asked for it; `before`: the config of its create, if it is another one."""
    process = config.get("process")
    user = process.get("user") if isinstance(process, dict) else None
    user = user if isinstance(user, dict) else {}
    question = f"process {user.get('uid', 0)}:{user.get('gid', 0)}\nreadonly f\ndevice v.example/gpu=0\n"
    decision = Decision(Settings())
    decision.trace = list(trace)
    decision.plan, decision.requests = plan, {"v.example/gpu=0": "annotation cdi.k8s.io/x"}
    decision.entries = merge.Entries()
    merge.add(plan, {"process": {"user": user}, "linux": {}} if before is None else before, decision.entries)
    words = ["low=/usr/sbin/runc", "name=shim", "self=/usr/bin/shim", "verb=create", f"question={question}"]
    asked: Any = SimpleNamespace(config=config, rootful=True)
    return answers.encode(Invocation([*words, "--", "runc"]), asked, decision, began)


def _merged(plan: Plan, config: Json) -> Json | None:
    try:
        return merge.add(plan, config)
    except CdiError:
        return None


PATHS = [f"{above}/{name}" for above in ("/dev", "/usr/lib", "/usr/lib/a", "/data") for name in ("a", "b", "c")]
HOOK = {"path": "/usr/bin/hook", "args": ["hook", "x"], "env": ["PATH=/bin"], "timeout": 10}


def _edits(chance: random.Random) -> Json:
    """The edits of a plan, none of which the rules of create would refuse."""
    edits: Json = {}
    if chance.random() < 0.8:
        edits["env"] = [f"{name}={chance.choice(('void', 'all', '', 'a=b'))}" for name in chance.sample("ABCD", 2)]
    if chance.random() < 0.8:
        edits["deviceNodes"] = [
            {"path": path, "type": chance.choice("cb"), "major": chance.randrange(3), "minor": chance.randrange(3)}
            for path in chance.sample(PATHS, chance.randrange(1, 4))
        ]
    if chance.random() < 0.8:
        edits["mounts"] = [
            {"hostPath": f"/host{path}", "containerPath": path, "options": ["ro", "rbind"]}
            for path in chance.sample(PATHS, chance.randrange(1, 4))
        ]
    if chance.random() < 0.5:
        stages = chance.sample(("createRuntime", "createContainer", "poststop"), 2)
        edits["hooks"] = [{"hookName": stage, **HOOK} for stage in stages]
    if chance.random() < 0.3:
        edits["intelRdt"] = {"closID": "x"}
    if chance.random() < 0.5:
        edits["additionalGids"] = chance.sample(range(1, 6), 2)
    return edits


def _config(chance: random.Random, plan: Plan) -> Json:
    """A config.json that shares some entries with a plan, and has others that are near them."""
    merged = merge.add(plan, {"process": {"user": {}}, "linux": {}})

    def some(items: Any, *others: Any) -> list[Any]:
        kept = [item for item in items or () if chance.random() < 0.1]
        kept += [item for item in others if chance.random() < 0.4]
        chance.shuffle(kept)
        return kept

    def maybe(section: Json, name: str, value: Any) -> None:
        if chance.random() < 0.8:
            section[name] = value
        elif chance.random() < 0.05:
            section[name] = chance.choice((None, "x", {}, []))

    process: Json = {"user": {"uid": chance.choice((0, 0, 1000)), "gid": 0}, "cwd": "/"}
    linux: Json = {"namespaces": [{"type": "mount"}]}
    config: Json = {"ociVersion": "1.0.2", "process": process, "root": {"path": "r"}, "linux": linux}
    maybe(process, "env", some(merged["process"].get("env"), "A=image", "B", "PATH=/bin", "Ü=ü"))
    maybe(process["user"], "additionalGids", some(merged["process"]["user"].get("additionalGids"), 1, 9))
    devices = some(merged["linux"].get("devices"), {"path": "/dev/zz", "type": "c", "major": 1, "minor": 1})
    maybe(linux, "devices", devices)
    rules = some(
        merged["linux"].get("resources", {}).get("devices"),
        {"allow": True, "type": "c", "major": 9, "minor": 1, "access": "rwm"},
        {"allow": True, "type": "c", "access": "m"},
    )
    rules = [{"allow": False, "access": "rwm"}, *rules] if chance.random() < 0.8 else [*rules, {"allow": False}]
    maybe(linux, "resources", {"memory": {"limit": 1}, **({"devices": rules} if chance.random() < 0.8 else {})})
    mounts = [{"destination": path, "type": "tmpfs"} for path in ("/proc", "/usr/lib/zz", "/other")]
    maybe(config, "mounts", some(merged.get("mounts"), *mounts))
    hooks = {stage: some(items, {"path": "/bin/other"}) for stage, items in (merged.get("hooks") or {}).items()}
    if chance.random() < 0.5:
        maybe(config, "hooks", {**hooks, "poststart": [{"path": "/bin/other"}]})
    return config


def test_what_is_inserted_is_what_the_merge_makes_of_it() -> None:
    """For generated plans and configs. The counts show that the launcher takes most of them, and not all."""
    chance = random.Random(12)
    taken = unchanged = 0
    for _ in range(CASES):
        plan = Plan(["v.example/gpu=0"], [{"spec": "/etc/cdi/a.json", "device": "0", "edits": _edits(chance)}])
        config = _config(chance, plan)
        layout: Any = chance.choice(({}, {"separators": (",", ":")}, {"indent": 2}))
        text = json.dumps(config, ensure_ascii=chance.random() < 0.5, **layout).encode()
        try:
            answer = _answer(plan, config)
        except (answers.UnfitError, CdiError):
            continue
        merged = _merged(plan, config)
        if merged is not None:
            assert _answer(plan, config, before=config) == answer, "what the config has already is no matter"
        edited = repeats.edit(text, answer)
        if edited is None:
            continue
        taken += 1
        unchanged += edited == text
        assert json.loads(edited) == merged, (config, plan.origins)
    assert taken > CASES / 4
    assert 0 < unchanged < taken


def test_a_config_that_has_everything_stays_as_it_is() -> None:
    """An engine with CDI of its own has applied the same names, and has left the annotation."""
    edits = {
        "env": ["A=1"],
        "deviceNodes": [{"path": "/dev/a", "type": "c", "major": 1, "minor": 3}],
        "mounts": [{"hostPath": "/x", "containerPath": "/y", "options": ["rbind"]}],
        "additionalGids": [44],
    }
    plan = Plan(["v.example/gpu=0"], [{"spec": "/etc/cdi/a.json", "device": "0", "edits": edits}])
    config = merge.add(plan, {"process": {"user": {"uid": 0, "gid": 0}}, "linux": {}})
    text = json.dumps(config, separators=(",", ":")).encode()
    assert repeats.edit(text, _answer(plan, config)) == text


def test_every_other_byte_stays() -> None:
    plan = Plan(["v.example/gpu=0"], [{"spec": "/s", "device": "0", "edits": {"env": ["A=1"], "additionalGids": [7]}}])
    text = b'{ "linux" : {"x":[ ]},"process":{"env" : [ "B=\\u00fc" ,"A=all"],"user":{"uid":0,"gid": 0 } }}\n'
    edited = text.replace(b'"A=all"', b'"A=1"').replace(b'"gid": 0 }', b'"gid": 0,"additionalGids":[7] }')
    assert repeats.edit(text, _answer(plan, json.loads(text))) == edited


# --- when an answer is left -----------------------------------------------------------------------------------

SECOND = 1_000_000_000
AGES = {
    "50 ms old": (50_000_000, 0, False),
    "150 ms old": (150_000_000, 0, True),
    "from the future": (-SECOND, 0, False),
    "without a fraction of a second, one second old": (SECOND, SECOND, False),
    "without a fraction of a second, three seconds old": (3 * SECOND, SECOND, True),
}


@pytest.mark.parametrize(("age", "step", "is_left"), AGES.values(), ids=AGES)
def test_files_that_could_change_without_a_trace_leave_no_answer(
    tmp_path: Path, age: int, step: int, is_left: bool
) -> None:
    """Times have the steps of the kernel's clock, or of a file system that keeps seconds."""
    file = tmp_path / "spec"
    file.touch()
    changed = file.stat().st_ctime_ns
    when = changed - changed % step if step else changed - changed % SECOND + 1
    status: Any = SimpleNamespace(**{name: getattr(file.stat(), name) for name in STATUS})
    status.st_mtime_ns = status.st_ctime_ns = when
    config = {"process": {"user": {}}, "linux": {"a": 1}}
    plan = Plan(["v.example/gpu=0"], [{"spec": "/s", "device": "0", "edits": {"env": ["A=1"]}}])
    trace: Any = [("stat", str(file), status)]
    try:
        _answer(plan, config, trace, when + age)
        assert is_left
    except answers.UnfitError:
        assert not is_left


# --- answers that are none --------------------------------------------------------------------------------------------


def test_an_answer_with_a_flipped_bit_or_a_cut_is_none() -> None:
    config = {"process": {"user": {}}, "linux": {"a": 1}}
    plan = Plan(["v.example/gpu=0"], [{"spec": "/s", "device": "0", "edits": {"env": ["A=1"]}}])
    answer = _answer(plan, config)
    assert repeats.is_current(answer)
    for at in range(len(answer)):
        for bit in (0, 3, 7):
            damaged = bytearray(answer)
            damaged[at] ^= 1 << bit
            with pytest.raises(ValueError, match="no answer"):
                repeats.edit(b"{}", bytes(damaged))
        with pytest.raises(ValueError, match="no answer"):
            repeats.edit(b"{}", answer[:at])
    with pytest.raises(ValueError, match="no answer"):
        repeats.edit(b"{}", answer + b"0")
