"""Changes of grants: what is refused, and with which message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.grants.grant_scene import Scene, qualified

from shim.base.findings import CdiError, Finding
from shim.grants import audit, reader


@pytest.fixture
def scene(trusted_path: Path) -> Scene:
    return Scene(trusted_path)


def refusal(change: Callable[[], Any]) -> list[Finding]:
    with pytest.raises(CdiError) as caught:
        change()
    return caught.value.findings


def test_several_devices_are_one_change(scene: Scene) -> None:
    assert scene.add("a", "1", "0") == [("a", "acme.example/gpu=1"), ("a", "acme.example/gpu=0")]
    assert scene.state() == [("a", "0", False), ("a", "1", False)]
    assert reader.read(str(scene.path)).serial == 1
    assert scene.path.stat().st_mode & 0o7777 == 0o644


def test_a_misspelt_name_is_refused_with_the_nearest_and_nothing_is_recorded(scene: Scene) -> None:
    (finding,) = refusal(lambda: scene.add("a", "0", "uuidd"))
    assert finding.id == "DEVICE_UNKNOWN"
    assert "nearest: acme.example/gpu=uuid" in finding.text
    assert not scene.path.exists()
    assert scene.audit.read_bytes() == b""


def test_a_name_of_a_refused_spec_is_refused_with_its_fault(scene: Scene) -> None:
    (scene.specs / "b.json").write_text("{")
    assert [finding.id for finding in refusal(lambda: scene.add("a", "7"))] == ["DEVICE_UNKNOWN", "SPEC_SYNTAX"]


@pytest.mark.parametrize(
    "name", ["acme.example/gpu=*", "gpu0", "acme.example/gpu=", "acme.example/gpu=0,acme.example/gpu=1"]
)
def test_a_pattern_or_another_form_is_no_name(scene: Scene, name: str) -> None:
    (finding,) = refusal(lambda: scene.store().add("a", [name], scene.served))
    assert finding.id == "DEVICE_NAME"


@pytest.mark.parametrize("subject", ["", ".a", "-a", "a/b", "a b", "a" * 129, "é", "a\n"])
def test_a_bad_name_of_a_subject(scene: Scene, subject: str) -> None:
    assert refusal(lambda: scene.add(subject, "0"))[0].id == "GRANT_SUBJECT"
    scene.add("a", "0")
    assert refusal(lambda: scene.store().rename("a", subject))[0].id == "GRANT_SUBJECT"


@pytest.mark.parametrize(
    ("held", "asked", "conflicts"),
    [
        pytest.param("0", "0", True, id="the same name"),
        pytest.param("0", "uuid", True, id="another name of the card"),
        pytest.param("0", "all", True, id="a name that includes the card"),
        pytest.param("all", "1", True, id="a part of it"),
        pytest.param("0", "1", False, id="another card, with the control node in common"),
        pytest.param("null", "alias", True, id="another path of the node"),
        pytest.param("null", "bound", True, id="a node that is bind-mounted"),
        pytest.param("numbers", "same-numbers", True, id="the same numbers"),
        pytest.param("eth", "eth-again", True, id="the same interface"),
        pytest.param("library", "null", False, id="a mount that is no device"),
        pytest.param("variable", "0", False, id="no hardware"),
        pytest.param("variable", "variable", True, id="no hardware, the same name"),
        pytest.param("0:0", "0:1", False, id="two partitions of a card"),
        pytest.param("0:0", "0", True, id="a partition and its card"),
        pytest.param("0:0", "0:0", True, id="a partition"),
    ],
)
def test_exclusive_is_about_hardware(scene: Scene, held: str, asked: str, *, conflicts: bool) -> None:
    scene.add("a", held, exclusive=True)
    if not conflicts:
        assert scene.add("b", asked)
        return
    (finding,) = refusal(lambda: scene.add("b", asked))
    assert finding.id == "GRANT_CONFLICT"
    assert f"a has acme.example/gpu={held} exclusively" in finding.text
    assert finding.remedy.startswith(f"`shim grant revoke a --device acme.example/gpu={held}`")


def test_a_shared_grant_keeps_an_exclusive_one_out(scene: Scene) -> None:
    scene.add("a", "0")
    assert scene.add("b", "uuid")
    assert [finding.id for finding in refusal(lambda: scene.add("c", "all", exclusive=True))] == ["GRANT_CONFLICT"] * 2


def test_by_name_only(scene: Scene) -> None:
    scene.add("a", "0", exclusive=True)
    assert scene.add("b", "uuid", name_only=True)
    assert refusal(lambda: scene.add("c", "0", name_only=True))[0].id == "GRANT_CONFLICT"


def test_the_holder_turns_shared_into_exclusive_and_back(scene: Scene) -> None:
    scene.add("a", "0")
    assert scene.add("a", "0") == []
    assert scene.add("a", "0", exclusive=True)
    assert scene.add("a", "0") == [], "as it is"
    assert scene.state() == [("a", "0", True)]
    assert scene.add("a", "0", exclusive=False)
    assert scene.add("b", "0")
    assert reader.read(str(scene.path)).serial == 4, "what changes nothing has no serial"


def test_a_name_without_spec_conflicts_by_name(scene: Scene) -> None:
    scene.add("a", "0", exclusive=True)
    scene.write_spec({"uuid": {"deviceNodes": [{"path": "/dev/gpu0"}]}})
    assert scene.add("b", "uuid")


def test_revoke_is_all_or_nothing(scene: Scene) -> None:
    scene.add("a", "0", "1")
    (finding,) = refusal(lambda: scene.store().revoke("a", qualified("0", "2")))
    assert finding.id == "GRANT_UNKNOWN"
    assert "nearest: acme.example/gpu=0" in finding.text
    assert len(scene.state()) == 2
    scene.store().revoke("a", qualified("0"))
    assert scene.state() == [("a", "1", False)]


def test_what_a_subject_has_not(scene: Scene) -> None:
    scene.add("repo-a", "0")
    for change in (
        lambda: scene.store().revoke("repo-b", qualified("0")),
        lambda: scene.store().purge("repo-b"),
        lambda: scene.store().rename("repo-b", "c"),
    ):
        (finding,) = refusal(change)
        assert (finding.id, "nearest: repo-a" in finding.text) == ("GRANT_UNKNOWN", True)


def test_purge_and_rename(scene: Scene) -> None:
    scene.add("a", "0", "1")
    scene.add("b", "null")
    assert refusal(lambda: scene.store().rename("a", "b"))[0].id == "GRANT_TAKEN"
    scene.store().rename("a", "c")
    assert [subject for subject, _, _ in scene.state()] == ["b", "c", "c"]
    scene.store().purge("c")
    assert scene.state() == [("b", "null", False)]
    lines, findings = audit.read(str(scene.audit))
    assert [line["op"] for line in lines] == ["add", "add", "rename", "purge"]
    assert (findings, audit.verify(lines, 4, "")) == ([], [])


def test_a_dry_run_writes_nothing(scene: Scene) -> None:
    outcome = scene.store().add("a", qualified("0"), scene.served, dry_run=True)
    assert outcome.changed == [("a", "acme.example/gpu=0")]
    assert '"subject": "a"' in outcome.after
    assert not list(scene.path.parent.glob("grants*"))
    assert not scene.audit.exists()


def test_members_of_a_later_version_stay(scene: Scene) -> None:
    scene.add("a", "0")
    document = json.loads(scene.path.read_bytes())
    document["grants"][0]["root"] = {"grants": None}
    document["note"] = [1]
    scene.path.write_text(json.dumps(document))
    scene.add("a", "0", exclusive=True)
    scene.store().rename("a", "b")
    document = json.loads(scene.path.read_bytes())
    assert (document["note"], document["grants"][0]["root"]) == ([1], {"grants": None})
