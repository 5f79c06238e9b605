"""Hooks in the vendor's form and in ours, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.discover.document import HOOKS
from shim.discover.hook_forms import to_shim, to_vendor
from shim.hooks import core

SHIM, VENDOR, CTK = "/usr/local/bin/shim", "/usr/bin/nvidia-cdi-hook", "/usr/bin/nvidia-ctk"
Json = dict[str, Any]


def hook(path: str, *words: str, **more: Any) -> Json:
    return {"hookName": "createContainer", "path": path, "args": [path.rpartition("/")[2], *words], **more}


def document(*hooks: Json) -> Json:
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"hooks": list(hooks)}}],
    }


def hooks(made: Json) -> list[Json]:
    listed: list[Json] = made["devices"][0]["containerEdits"]["hooks"]
    return listed


LINKS = hook(VENDOR, "create-symlinks", "--link", "a::/lib/b", "--link=c::/lib/d")
COMPAT = hook(VENDOR, "enable-cuda-compat", "--host-driver-version=570.86.10")
CACHE = hook(VENDOR, "update-ldcache", "--folder", "/lib")
PARAMS = hook(VENDOR, "disable-device-node-modification")
FOREIGN = hook("/usr/bin/other", "create-symlinks")


def test_hooks_of_the_vendor_become_one_of_ours() -> None:
    made, findings = to_shim(document(LINKS, COMPAT, CACHE, PARAMS), SHIM)
    words = ["create-symlinks", "enable-cuda-compat", "update-ldcache", "disable-device-node-modification"]
    options = ["--link", "a::/lib/b", "--link=c::/lib/d", "--host-driver-version=570.86.10", "--folder", "/lib"]
    assert hooks(made) == [hook(SHIM, "hook", *words, *options)]
    assert findings == []
    assert to_vendor(made, VENDOR)[0] == document(LINKS, COMPAT, CACHE, PARAMS)


def test_the_other_program_of_the_vendor_has_a_word_more() -> None:
    made, _ = to_vendor(to_shim(document(LINKS, CACHE), SHIM)[0], CTK)
    assert [item["args"][:3] for item in hooks(made)] == [
        ["nvidia-ctk", "hook", "create-symlinks"],
        ["nvidia-ctk", "hook", "update-ldcache"],
    ]
    assert to_vendor(to_shim(made, SHIM)[0], VENDOR)[0] == document(LINKS, CACHE)


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param([CACHE, LINKS], id="the cache before the links"),
        pytest.param([LINKS, FOREIGN, CACHE], id="another program between"),
        pytest.param([LINKS, {**CACHE, "env": ["NVIDIA_CTK_DEBUG=false"]}], id="another environment"),
        pytest.param([LINKS, {**CACHE, "timeout": 5}], id="another time limit"),
        pytest.param([LINKS, {**CACHE, "hookName": "createRuntime"}], id="another stage"),
        pytest.param([COMPAT, COMPAT], id="a single option twice"),
    ],
)
def test_what_must_stay_apart_stays_apart(listed: list[Json]) -> None:
    made, _ = to_shim(document(*listed), SHIM)
    assert len(hooks(made)) == len(listed)
    assert to_vendor(made, VENDOR)[0] == document(*listed)


def test_two_hooks_of_links_become_one() -> None:
    made, _ = to_shim(document(LINKS, LINKS, CACHE), SHIM)
    assert [item["args"][2:4] for item in hooks(made)] == [["create-symlinks", "update-ldcache"]]
    assert len(hooks(made)[0]["args"]) == 4 + 2 * 3 + 2


def test_ours_in_another_order_are_taken_apart_in_the_order_in_which_they_run() -> None:
    made, _ = to_vendor(document(hook(SHIM, "hook", "update-ldcache", "create-symlinks", "--folder", "/lib")), VENDOR)
    assert [item["args"][1] for item in hooks(made)] == ["create-symlinks", "update-ldcache"]


@pytest.mark.parametrize(
    "kept",
    [
        hook(VENDOR, "chmod", "--mode", "755", "--path", "/dev/dri"),
        hook(VENDOR, "update-ldcache", "--unknown", "x"),
        hook(VENDOR, "update-ldcache", "--folder"),
        hook(VENDOR, "create-symlinks", "--folder", "/lib"),
        hook(VENDOR),
        hook(CTK, "cdi", "generate"),
    ],
)
def test_what_is_not_known_stays_as_it_is_and_is_named(kept: Json) -> None:
    made, [finding] = to_shim(document(LINKS, kept), SHIM)
    assert hooks(made)[1] == kept
    assert (finding.id, finding.level) == ("HOOK_KEPT", "WARNING")


def test_hooks_of_other_programs_stay_without_a_word() -> None:
    assert to_shim(document(FOREIGN), SHIM) == (document(FOREIGN), [])
    assert to_vendor(document(FOREIGN, LINKS), VENDOR) == (document(FOREIGN, LINKS), [])


def test_every_hook_of_c_that_a_spec_may_name_is_known() -> None:
    """chmod is refused by ours."""
    assert {row.name for row in core.HOOKS} - {"chmod"} == set(HOOKS)


OPTIONS = {
    "create-symlinks": [["--link", "a::/b"], ["--link=c::/d"]],
    "enable-cuda-compat": [["--host-driver-version=1.2"], ["--cuda-compat-container-root", "/x"]],
    "update-ldcache": [["--folder", "/lib"], ["--ldconfig-path=/sbin/ldconfig"]],
    "disable-device-node-modification": [],
    "update-application-profile": [],
}


@st.composite
def calls(draw: Any) -> Json:
    name = draw(st.sampled_from(HOOKS))
    words = [word for option in draw(st.lists(st.sampled_from(OPTIONS[name] or [[]]), max_size=2)) for word in option]
    frame = draw(st.sampled_from([{}, {"env": ["A=1"]}, {"timeout": 3}]))
    return hook(VENDOR, name, *words, **frame)


@given(st.lists(st.one_of(calls(), st.just(FOREIGN)), max_size=8))
def test_there_and_back_is_the_same_by_what_is_done(listed: list[Json]) -> None:
    made, _ = to_shim(document(*listed), SHIM)
    back, findings = to_vendor(made, VENDOR)
    assert findings == []
    assert _work(hooks(back)) == _work(listed)
    assert to_shim(back, SHIM)[0] == made


def _work(listed: list[Json]) -> list[Any]:
    """Stage and options of each hook; what the same hook does twice without anything between that reads it is once."""
    work: list[Any] = []
    for item in listed:
        frame = (item.get("env"), item.get("timeout"), item["path"])
        name, words = (item["args"][1], item["args"][2:]) if len(item["args"]) > 1 else ("", [])
        same = next((one for one in _tail(work, name, frame) if one[:2] == [frame, name]), None)
        if same and name != "" and item["path"] != FOREIGN["path"] and _can_repeat(name, words, same[2]):
            same[2] += words
        else:
            work.append([frame, name, list(words)])
    return work


def _tail(work: list[Any], name: str, frame: Any) -> list[Any]:
    """The hooks at the end with which one can be joined: of one frame, none of which must come after it."""
    order = HOOKS[:3]
    tail = []
    for one in reversed(work):
        if one[0] != frame or (name in order and one[1] in order and order.index(one[1]) > order.index(name)):
            break
        tail.append(one)
    return tail


def _can_repeat(name: str, *_: Any) -> bool:
    return name not in {"enable-cuda-compat", "update-ldcache"}


VECTORS = Path(__file__).parents[2] / "conformance/vectors"


def test_there_and_back_is_the_same_for_the_specs_of_the_reference() -> None:
    """Those that its generator writes; a second hook with links in a row becomes one with the first."""
    cases = json.loads((VECTORS / "generate-nvidia.json").read_text().replace("{HOOK}", VENDOR))["cases"]
    documents = [found for case in cases for found in _documents(case)]
    assert len(documents) > 100
    for made in documents:
        there, findings = to_shim(made, SHIM)
        assert all("'chmod " in finding.text for finding in findings)
        assert {item["args"][1] for item in _every_hook(there) if item["path"] != SHIM} <= {"chmod"}
        assert len(_every_hook(there)) <= len(_every_hook(made))
        back, _ = to_vendor(there, VENDOR)
        assert _options(back) == _options(made)


def _documents(value: Any) -> list[Json]:
    if isinstance(value, dict):
        here = [value] if "devices" in value and "kind" in value and "cdiVersion" in value else []
        return here + [found for item in value.values() for found in _documents(item)]
    return [found for item in value for found in _documents(item)] if isinstance(value, list) else []


def _every_hook(made: Json) -> list[Json]:
    holders = [made, *made["devices"]]
    return [item for holder in holders for item in (holder.get("containerEdits") or {}).get("hooks") or ()]


def _options(made: Json) -> list[Any]:
    """For each block of edits: name of a hook -> all its words."""
    result = []
    for holder in [made, *made["devices"]]:
        words: dict[str, list[str]] = {}
        for item in (holder.get("containerEdits") or {}).get("hooks") or ():
            rest = item["args"][2:] if item["args"][1] == "hook" else item["args"][1:]
            words.setdefault(rest[0], []).extend(rest[1:])
        result.append(words)
    return result
