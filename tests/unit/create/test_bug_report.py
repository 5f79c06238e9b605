"""Bug reports: each create of the table can be saved, decided again, and saved without what is personal."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.create.scenes import CASES, KIND, Case, Scene, asking

from shim.base.findings import CdiError
from shim.create import bug_report
from shim.create.explain import Explanation

Json = dict[str, Any]


@pytest.fixture
def explained(
    trusted_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Case], tuple[Scene, Explanation]]:
    """The explanation of a create, and its files."""

    def explain(case: Case) -> tuple[Scene, Explanation]:
        scene = Scene(trusted_path, installed, case)
        scene.enter(monkeypatch)
        return scene, Explanation(*scene.decide())

    return explain


Explained = Callable[[Case], tuple[Scene, Explanation]]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_report_is_decided_again_without_a_difference(case: Case, explained: Explained) -> None:
    scene, explanation = explained(case)
    path = str(scene.directory / "report.json")
    bug_report.write(bug_report.make(explanation, private=False), path)
    scene.settings.unlink(missing_ok=True)  # as on another machine
    scene.specs.rename(scene.directory / "elsewhere") if scene.specs.exists() else None
    replay = bug_report.replay(bug_report.read(path), path)
    assert replay.differences == []
    assert replay.explanation.to_json() == json.loads(json.dumps(explanation.to_json()))


# --- private ----------------------------------------------------------------------------------------------------------

SECRETS = ("hunter2", "alice", "Acme", "/var/lib/shim-test-")


def _personal(config: Any) -> Any:
    """A config.json with what must not be in a private report; of another type than an object as it is."""
    if not isinstance(config, dict):
        return config
    config = copy.deepcopy(config)
    process = config.setdefault("process", {"env": []})
    if isinstance(process, dict) and isinstance(process.get("env"), list):
        process["env"] += ["TOKEN=hunter2", "HOME=/home/alice", "hunter2", "EMPTY="]
    if isinstance(config.get("annotations", {}), dict):
        config["annotations"] = {**(config.get("annotations") or {}), "example.com/customer": "Acme Corp"}
    if isinstance(config.get("mounts", []), list):
        mount = {"destination": "/data/Acme Corp", "source": "/home/alice/Acme Corp/../x", "type": "bind"}
        volume = {"destination": "/v", "source": "Acme Corp", "type": "nfs"}
        config["mounts"] = [*config.get("mounts", []), mount, volume]
    if isinstance(config.get("hooks", {}), dict):
        hook = {"path": "/home/alice/hook", "args": ["hook", "--token=hunter2"], "env": ["TOKEN=hunter2"]}
        config["hooks"] = {**config.get("hooks", {}), "poststart": [hook]}
    return config


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_private_report_holds_nothing_personal_and_decides_the_same(case: Case, explained: Explained) -> None:
    scene, explanation = explained(case._replace(config=_personal(case.config)))
    path = str(scene.directory / "report.json")
    bug_report.write(bug_report.make(explanation, private=True), path)
    text = Path(path).read_text()
    assert [secret for secret in SECRETS if secret in text] == []
    replay = bug_report.replay(bug_report.read(path), path)
    assert replay.differences == []
    before, after = explanation.to_json(), replay.explanation.to_json()
    assert after["devices"] == before["devices"]
    assert [edit["state"] for edit in after["edits"]] == [edit["state"] for edit in before["edits"]]
    assert [finding["id"] for finding in after["findings"]] == [finding["id"] for finding in before["findings"]]


def test_so_the_control_finds_what_is_personal(explained: Explained) -> None:
    scene, explanation = explained(Case(_personal(asking("0"))))
    path = scene.directory / "report.json"
    bug_report.write(bug_report.make(explanation, private=False), str(path))
    text = path.read_text()
    assert [secret for secret in SECRETS if secret in text] == list(SECRETS)


def test_what_a_device_depends_on_stays_in_a_private_report(explained: Explained) -> None:
    """Among them what is there already, which is found by equal paths and variables."""
    mounts = [{"destination": "/usr/share", "source": "/usr/share", "type": "bind", "options": ["bind"]}]
    config = asking("0", mounts=mounts) | {"process": {"env": ["GPU=0", "NVIDIA_VISIBLE_DEVICES=all", "X=y"]}}
    _, explanation = explained(Case(config))
    made = bug_report.make(explanation, private=True)
    assert made.question["config"]["process"]["env"][:2] == ["GPU=0", "NVIDIA_VISIBLE_DEVICES=all"]
    assert made.question["config"]["process"]["env"][2].startswith("X=private")
    assert made.question["config"]["annotations"] == {"cdi.k8s.io/x": f"{KIND}=0"}
    assert made.question["config"]["mounts"] == mounts
    assert made.question["low"].endswith("/runc")
    states = [edit["state"] for edit in bug_report.replay(made, "").explanation.to_json()["edits"]]
    assert states.count("there already") == 2


def test_a_text_that_could_not_be_decoded_keeps_only_the_words_that_ask(explained: Explained) -> None:
    _, explanation = explained(Case('{"x": "hunter2", "annotations": {"cdi.k8s.io/x": '))
    made = bug_report.make(explanation, private=True)
    assert made.question["raw"] == "cdi.k8s.io/"
    assert made.decision["refusal"]["findings"][0]["id"] == "CONFIG_JSON"


def test_a_decision_that_depends_on_what_is_replaced_is_not_saved(
    explained: Explained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is known that does; two are made up here: no annotation is left, or another one."""
    _, explanation = explained(Case(asking("0")))
    for kept in ({}, {"cdi.k8s.io/x": "a.example/b=c"}):
        config = {"annotations": kept}
        monkeypatch.setattr("shim.create.redaction._Redaction.config", lambda *_, config=config: config)
        with pytest.raises(CdiError) as raised:
            bug_report.make(explanation, private=True)
        assert [finding.id for finding in raised.value.findings] == ["REPORT_PRIVATE"]


# --- other versions ---------------------------------------------------------------------------------------------------


def _report(explained: Explained, name: str = "a foreign hook") -> Json:
    _, explanation = explained(CASES[name])
    report: Json = json.loads(json.dumps(bug_report.make(explanation, private=False).to_json()))
    return report


def _replayed(report: Json, directory: Path) -> bug_report.Replay:
    path = directory / "changed.json"
    path.write_text(json.dumps(report))
    return bug_report.replay(bug_report.read(str(path)), str(path))


@pytest.mark.rootful
def test_each_member_that_this_version_decides_otherwise_is_named(explained: Explained, trusted_path: Path) -> None:
    report = _report(explained)
    report["version"] = "0.0.1"
    report["decision"]["requests"] = {f"{KIND}=foreign": "--device"}
    report["decision"]["edits"].pop()
    report["decision"]["folds"] = [{"path": "/x"}]
    del report["decision"]["sandbox"]
    replay = _replayed(report, trusted_path)
    assert {member: (old, new) for member, old, new in replay.differences if not member.startswith("edits")} == {
        f"requests.{KIND}=foreign": ('"--device"', '"annotation cdi.k8s.io/x"'),
        "folds[0]": ('{"path": "/x"}', ""),
        "sandbox": ("", "false"),
    }
    assert [member for member, old, _ in replay.differences if member.startswith("edits")] == ["edits[1]"]


@pytest.mark.rootful
def test_a_question_that_the_report_does_not_answer_is_named(explained: Explained, trusted_path: Path) -> None:
    """As of a version that asks the host more."""
    report = _report(explained)
    report["trace"] = [entry for entry in report["trace"] if entry[:2] != ["access", "/bin/true"]]
    with pytest.raises(CdiError) as raised:
        _replayed(report, trusted_path)
    [finding] = raised.value.findings
    assert (finding.id, "access '/bin/true'" in finding.text) == ("REPORT_UNANSWERED", True)


# --- bad files --------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[Json], Any], str]] = {
    "no JSON": (lambda _: "{", "Expecting property name"),
    "no UTF-8": (lambda _: b"\xff", "utf-8"),
    "nested without end": (lambda _: "[" * 1_000_000, "nested too deeply"),
    "a list": (lambda _: [], "no report"),
    "another object": (lambda _: {"version": "1"}, "no report"),
    "a later format": (lambda report: {**report, "format": 2}, "format 2"),
    "no trace": (lambda report: {**report, "trace": None}, "trace is missing"),
    "no question": (lambda report: {**report, "question": {}}, "KeyError"),
    "a question of another type": (lambda report: {**report, "question": {**report["question"], "low": 1}}, "low"),
    "an answer of another type": (lambda report: {**report, "trace": [["lstat", "/x", "y"]]}, "lstat"),
    "an argument of another type": (lambda report: {**report, "trace": [["lstat", {}, 2]]}, "no trace"),
    "an entry of another length": (lambda report: {**report, "trace": [["lstat"]]}, "not enough values"),
    "a question of another kind": (lambda report: {**report, "trace": [["ask", "x", 1]]}, "ask"),
    "a finding that is not known": (
        lambda report: (
            json.loads(json.dumps(report).replace('"HOOK_ENVIRONMENT"', '"NO_SUCH"'))
            | {
                "trace": [
                    [
                        "specs",
                        ["x"],
                        {"error": {"text": "x", "findings": [{"id": "NO_SUCH", "text": "x", "remedy": "x"}]}},
                    ]
                ]
            }
        ),
        "NO_SUCH",
    ),
}


@pytest.mark.parametrize(("change", "text"), BAD.values(), ids=BAD.keys())
def test_a_file_that_is_no_report_is_refused(
    change: Callable[[Json], Any], text: str, explained: Explained, trusted_path: Path
) -> None:
    made = change(_report(explained))
    path = trusted_path / "bad.json"
    path.write_bytes(
        made if isinstance(made, bytes) else (made if isinstance(made, str) else json.dumps(made)).encode()
    )
    with pytest.raises(CdiError) as raised:
        bug_report.replay(bug_report.read(str(path)), str(path))
    [finding] = raised.value.findings
    assert (finding.id, finding.path) == ("REPORT_INVALID", str(path))
    assert text in finding.text


def _mutate(value: Any, choose: random.Random) -> Any:
    """The value with one part of it replaced by something of any type."""
    if isinstance(value, dict | list) and value and choose.random() < 0.9:
        key = choose.choice(list(value) if isinstance(value, dict) else range(len(value)))
        made = copy.copy(value)
        made[key] = _mutate(value[key], choose)
        return made
    return choose.choice([None, True, 0, -1, 2**70, "", "x", "\udcff", "/", [], {}, [[]], {"path": 1}, [1, 2, 3]])


@pytest.mark.parametrize("name", ["a foreign hook", "a user namespace", "an interface", "a variable"])
def test_a_report_with_anything_in_it_is_decided_or_refused(
    name: str, explained: Explained, trusted_path: Path
) -> None:
    """A report comes from somebody else: it ends in a decision or in a finding, whatever is in it."""
    report = _report(explained, name)
    choose = random.Random(name)
    ended: set[str] = set()
    for _ in range(400):
        changed = {**report, **{part: _mutate(report[part], choose) for part in ("question", "trace")}}
        try:
            _replayed(changed, trusted_path).to_json()
            ended.add("decided")
        except CdiError as error:
            ended.update(finding.id for finding in error.findings)
    assert ended == {"decided", "REPORT_INVALID", "REPORT_UNANSWERED"}


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_report_is_for_its_owner_and_replaces_a_report_only(explained: Explained, trusted_path: Path) -> None:
    _, explanation = explained(Case({}))
    made = bug_report.make(explanation, private=False)
    path = trusted_path / "r.json"
    path.write_text("keep me")
    with pytest.raises(CdiError, match="no report of shim; name another file"):
        bug_report.write(made, str(path))
    assert path.read_text() == "keep me"
    path.unlink()
    bug_report.write(made, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    bug_report.write(made, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["format"] == bug_report.FORMAT
    with pytest.raises(CdiError, match="no regular file"):
        bug_report.write(made, "/dev/null")
    with pytest.raises(CdiError, match="it is missing"):
        bug_report.write(made, str(trusted_path / "no/such/directory"))
