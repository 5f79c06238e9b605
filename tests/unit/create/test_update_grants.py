"""Updates where grants are enforced: which device rules are refused, and to whom the container belongs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.create.granted_host import DENY, GRANTS, ID, KIND, USUAL, Scene, enforcing, grant

from shim.create import prepare
from shim.create.invocation import Invocation
from shim.create.outcome import Outcome
from shim.hooks._core import ffi, lib

Json = dict[str, Any]

ONE = f"{KIND}=1 is not granted to repo-a (c 240:1 is in the update); granted: {KIND}=0"
ELSEWHERE = {"default-subject": "nobody"}


@pytest.fixture
def scene(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with enforcing(trusted_path, monkeypatch) as scene:
        scene.question()  # it writes config.json
        scene.configure()
        yield scene


def rule(minor: int = 1, **members: Any) -> Json:
    return {"allow": True, "type": "c", "major": 240, "minor": minor, "access": "rwm", **members}


def state(scene: Scene, low: str) -> None:
    """Leave the state of a low-level runtime, which names the bundle."""
    directory = scene.top / "root" / ID
    directory.mkdir(parents=True, exist_ok=True)
    if low == "runc":
        labels = [f"other={scene.top}", f"bundle={scene.bundle}"]
        (directory / "state.json").write_text(json.dumps({"id": ID, "config": {"labels": labels}}))
    else:
        (directory / "status").write_text(json.dumps({"pid": 1, "bundle": str(scene.bundle)}))


def outcome(scene: Scene, resources: Path | str, low: str = "runc", **words: str) -> Outcome:
    usual = {"low": f"{scene.top}/{low}", "name": "shim", "self": f"{scene.top}/shim", "verb": "update", "id": ID}
    given = {**usual, "root": str(scene.top / "root"), "resources": str(resources), "asks": "0", **words}
    call = Invocation([*(f"{name}={value}" for name, value in given.items()), "--", "true"])
    return prepare(call, rootful=True)


def may_open(data: bytes) -> bool:
    """Whether the launcher starts Python for resources, where grants are enforced."""
    tree, text = ffi.new("struct json_tree *"), ffi.new("char[]", data)
    return lib.json_tree_read(tree, text, len(data)) != 0 or bool(lib.resources_may_open(tree))


def refusal(scene: Scene, resources: Any, **options: Any) -> str:
    """The ids and the text of the refusal, "" for none. The launcher must notice what is refused."""
    file = scene.top / "resources.json"
    data = resources if isinstance(resources, bytes) else json.dumps(resources).encode()
    file.write_bytes(data)
    refused = outcome(scene, file, **options).refusal
    if refused:
        assert may_open(data), "else Python would not be asked"
    assert file.read_bytes() == data
    return f"{' '.join(finding.id for finding in refused.findings)}: {refused}" if refused else ""


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"devices": None}, "", id="null"),
        pytest.param({"devices": []}, "", id="no rule"),
        pytest.param({"cpu": {"cpus": "0-1"}, "devices": USUAL}, "", id="the rules of every container"),
        pytest.param({"devices": [*USUAL, rule()]}, ONE, id="a rule for a device"),
        pytest.param({"devices": [rule()]}, ONE, id="without a denial"),
        pytest.param({"devices": [*USUAL, rule(access="m")]}, "", id="a rule to make"),
        pytest.param({"devices": [rule(), *USUAL]}, "", id="in front of the denial"),
        pytest.param({"devices": [*USUAL, rule(0)]}, "", id="a rule for a granted device"),
        pytest.param({"devices": [*USUAL, rule(77)]}, "", id="a rule for no CDI device"),
        pytest.param({"devices": [*USUAL, rule(minor=-1)]}, ONE, id="a rule for a driver"),
        pytest.param({"devices": [*USUAL, rule(major=(1 << 32) + 240)]}, ONE, id="a number that crun cuts"),
        pytest.param({"devices": [*USUAL, {"allow": True, "access": "rwm"}]}, ONE, id="a rule for all"),
        pytest.param({"devices": [*USUAL, {"Allow": True}]}, "differs from 'allow'", id="a member in other letters"),
        pytest.param({"Devices": [rule()]}, "differs from 'devices'", id="the list in other letters"),
        pytest.param(b'{"devices":[],"devices":[]}', "stands twice", id="the list twice"),
        pytest.param(b'{"devices":[]} {"devices":[]}', "CONFIG_JSON", id="two texts"),
        pytest.param(b"", "CONFIG_JSON", id="no text"),
        pytest.param(b"[]", "no JSON object", id="a list"),
    ],
)
def test_rules(scene: Scene, resources: Any, text: str) -> None:
    refused = refusal(scene, resources)
    assert text in refused
    assert bool(refused) is bool(text)
    if text == ONE:
        (finding,) = outcome(scene, scene.top / "resources.json").findings
        assert finding.remedy == f"`shim grant add repo-a --device {KIND}=1`"
        grant("repo-a", "1")
        assert refusal(scene, resources) == ""


def test_without_enforcement_nothing_is_judged(scene: Scene) -> None:
    scene.settings = {"enforce": False}
    scene.configure()
    assert refusal(scene, {"devices": [rule()]}) == ""
    assert refusal(scene, b"{") == ""


@pytest.mark.parametrize("low", ["runc", "crun"])
def test_what_the_container_was_created_with_stays_open(scene: Scene, low: str) -> None:
    """A running container keeps its device, and an engine may go on to update its limits."""
    scene.config["linux"]["resources"]["devices"].append(rule())
    scene.question()
    update = {"devices": [*USUAL, rule()]}
    assert ONE in refusal(scene, update, low=low), "nothing is known of the container"
    state(scene, low)
    assert refusal(scene, update, low=low) == ""
    assert f"{KIND}=port" not in refusal(scene, {"devices": [*USUAL, rule(), rule(0)]}, low=low)
    scene.config["linux"]["resources"]["devices"] = []
    scene.question()
    assert refusal(scene, update, low=low) == "", "it has no device cgroup that could be opened"
    (scene.bundle / "config.json").unlink()
    assert ONE in refusal(scene, update, low=low)


def test_a_config_json_that_is_not_certain_opens_nothing(scene: Scene) -> None:
    state(scene, "runc")
    scene.config["linux"]["resources"]["devices"].append(rule())
    scene.config = json.dumps(scene.config)[:-1] + ', "annotations": {}}'
    scene.question()
    assert ONE in refusal(scene, {"devices": [*USUAL, rule()]})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param({"runtimes": {"shim-a": "repo-a"}}, {"name": "shim-a"}, id="runtime"),
        pytest.param({"bundles": {"*/run/ns/*": "repo-a"}}, {}, id="bundle"),
        pytest.param({"cgroups": {"/repo-a/*": "repo-a"}}, {}, id="cgroup"),
        pytest.param({"namespaces": {"root": "repo-a"}}, {}, id="namespace"),
    ],
)
@pytest.mark.parametrize("low", ["runc", "crun"])
def test_the_subject_is_that_of_the_create(scene: Scene, settings: Json, words: Json, low: str) -> None:
    scene.settings = {**ELSEWHERE, **settings}
    scene.configure()
    update = {"devices": [*USUAL, rule(0)]}
    state(scene, low)
    assert refusal(scene, update, low=low, **words) == ""
    scene.settings = ELSEWHERE
    scene.configure()
    assert "is not granted to nobody" in refusal(scene, update, low=low, **words)


def test_where_the_bundle_is_not_known_the_rest_tells_the_subject(scene: Scene) -> None:
    scene.settings = {**ELSEWHERE, "bundles": {"*": "repo-a"}}
    scene.configure()
    assert "is not granted to nobody" in refusal(scene, {"devices": [rule(0)]})


def test_a_damaged_state_tells_nothing(scene: Scene) -> None:
    state(scene, "runc")
    path = scene.top / "root" / ID / "state.json"
    scene.settings = {**ELSEWHERE, "bundles": {"*": "repo-a"}}
    scene.configure()
    for text in ("{", "[]", '{"config": 1}', '{"config": {"labels": 1}}', '{"config": {"labels": ["bundle=x"]}}'):
        path.write_text(text)
        assert "is not granted to nobody" in refusal(scene, {"devices": [rule(0)]})


def test_grants_that_cannot_be_read_stop_rules_and_nothing_else(scene: Scene) -> None:
    GRANTS.write_text("{")
    assert refusal(scene, {"devices": [rule(0)]}).startswith("GRANTS_UNREADABLE")
    assert refusal(scene, {"devices": USUAL}) == ""


def test_a_broken_configuration_stops_rules_where_grants_were_enforced(scene: Scene) -> None:
    scene.decide()  # it leaves the configuration that counted last
    scene.settings = {"default-subject": 7}
    scene.configure()
    assert refusal(scene, {"devices": [rule(0)]}).startswith("SETTINGS")
    assert refusal(scene, {"devices": USUAL}) == ""


def test_resources_that_are_no_file_cannot_be_judged(scene: Scene) -> None:
    fifo = scene.top / "fifo"
    os.mkfifo(fifo)
    refused = outcome(scene, fifo).refusal
    assert refused
    assert refused.findings[0].id == "CONFIG_JSON"
    assert outcome(scene, scene.top / "gone").refusal is None, "the low-level runtime reports it"


def test_standard_input_is_judged_and_can_be_read_again(scene: Scene) -> None:
    """The text exceeds what a pipe holds."""
    data = json.dumps({"devices": [*USUAL, rule()], "filler": "x" * 100_000}).encode()
    (scene.top / "input").write_bytes(data)
    before = os.dup(0)
    given = os.open(scene.top / "input", os.O_RDONLY)
    try:
        os.dup2(given, 0)
        assert "is in the update" in str(outcome(scene, "-").refusal)
        assert os.read(0, len(data) + 1) == data
    finally:
        os.dup2(before, 0)
        for fd in (before, given):
            os.close(fd)


def _fail(*_args: Any, **_options: Any) -> None:
    raise RuntimeError("damaged")


@pytest.mark.parametrize(("asks", "is_refused"), [("0", False), ("1", True)])
def test_a_damaged_module_stops_an_update_whose_rules_must_be_judged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, asks: str, *, is_refused: bool
) -> None:
    monkeypatch.setattr("shim.create.update_grants.judge", _fail)
    refused = outcome(scene, scene.top / "resources.json", asks=asks).refusal
    assert (refused is not None) is is_refused


def test_the_launcher_passes_what_has_no_rule_for_hardware() -> None:
    """So that enforcement costs the usual update nothing."""
    listed: list[Json] = [{}, {"devices": []}, {"devices": USUAL}, {"devices": [DENY]}, {"cpu": {"cpus": "0"}}]
    for resources in listed:
        assert not may_open(json.dumps(resources).encode()), resources
