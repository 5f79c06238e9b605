"""apply: a plan and a config give a new config. The reference's own cases are in tests/conformance."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.cdi import decode, edits
from shim.cdi.plan import Plan
from shim.cli import describe
from shim.create import question

Json = dict[str, Any]


def _plan(*blocks: Json) -> Plan:
    return Plan(["v/c=d"], [{"spec": "/x.json", "device": "d", "edits": block} for block in blocks])


def _apply(config: Json, *blocks: Json) -> Json:
    return edits.apply(_plan(*blocks), config)


NULL = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438}

TABLE: list[tuple[str, Json, list[Json], Json]] = [
    ("an empty plan changes nothing", {"a": 1, "process": {"env": []}}, [{}], {"a": 1, "process": {"env": []}}),
    (
        "a variable that is there is replaced in its place, the last one if it is there twice",
        {"process": {"env": ["A=1", "B=1", "A=2", "C"]}},
        [{"env": ["A=3", "N=1", "C=2"]}],
        {"process": {"env": ["A=1", "B=1", "A=3", "C=2", "N=1"]}},
    ),
    (
        "a process section is made only for what needs one",
        {},
        [{"additionalGids": [0], "mounts": [], "env": [], "deviceNodes": []}],
        {},
    ),
    (
        "a null section counts as absent",
        {"process": None, "linux": None, "hooks": None, "mounts": None},
        [
            {
                "env": ["A=1"],
                "hooks": [{"hookName": "poststop", "path": "/h"}],
                "mounts": [{"hostPath": "/a", "containerPath": "/b"}],
                "netDevices": [{"hostInterfaceName": "e0", "name": "e1"}],
            }
        ],
        {
            "process": {"user": {"uid": 0, "gid": 0}, "cwd": "", "env": ["A=1"]},
            "linux": {"netDevices": {"e0": {"name": "e1"}}},
            "hooks": {"poststop": [{"path": "/h"}]},
            "mounts": [{"destination": "/b", "source": "/a"}],
        },
    ),
    (
        "a node comes with its rule, and unknown members beside it stay",
        {"linux": {"x": 1, "resources": {"y": 2, "devices": [{"allow": False}]}}},
        [{"deviceNodes": [NULL]}],
        {
            "linux": {
                "x": 1,
                "devices": [{"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438}],
                "resources": {
                    "y": 2,
                    "devices": [
                        {"allow": False},
                        {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
                    ],
                },
            }
        },
    ),
    (
        "a pipe gets no rule, and no resources section is made for it",
        {},
        [{"deviceNodes": [{"path": "/dev/p", "type": "p"}]}],
        {"linux": {"devices": [{"path": "/dev/p", "type": "p", "major": 0, "minor": 0}]}},
    ),
    (
        "permissions none make no rule",
        {},
        [{"deviceNodes": [{**NULL, "permissions": "none"}]}],
        {"linux": {"devices": [{"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438}]}},
    ),
    (
        "the process's ids are the node's, unless the spec gives some or they are root's",
        {"process": {"user": {"uid": 1000, "gid": 0}}},
        [{"deviceNodes": [{**NULL, "gid": 0}, {**NULL, "path": "/dev/n", "uid": 0, "permissions": "none"}]}],
        {
            "process": {"user": {"uid": 1000, "gid": 0}},
            "linux": {
                "devices": [
                    {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "uid": 1000, "gid": 0},
                    {"path": "/dev/n", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "uid": 0},
                ],
                "resources": {"devices": [{"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}]},
            },
        },
    ),
    (
        "of two rdt sections the last counts as a whole",
        {"linux": {"intelRdt": {"closID": "old", "schemata": ["x"]}}},
        [{"intelRdt": {"closID": "a", "l3CacheSchema": "s"}}, {"intelRdt": {"closID": "b"}}, {"env": []}],
        {"linux": {"intelRdt": {"closID": "b"}}},
    ),
    (
        "an rdt section without members still replaces",
        {"linux": {"intelRdt": {"closID": "old"}}},
        [{"intelRdt": {}}],
        {"linux": {"intelRdt": {}}},
    ),
    (
        "groups are added once, and never group 0",
        {"process": {"user": {"uid": 1, "gid": 5, "additionalGids": [7]}}},
        [{"additionalGids": [0, 5, 7]}, {"additionalGids": [5, 9]}],
        {"process": {"user": {"uid": 1, "gid": 5, "additionalGids": [7, 5, 9]}}},
    ),
    (
        "mounts are sorted by depth, those of the config too",
        {"mounts": [{"destination": "/a/b"}, {"destination": "/w", "source": "old"}, {"destination": "/w"}]},
        [{"mounts": [{"hostPath": "/1", "containerPath": "/w"}, {"hostPath": "/2", "containerPath": "x"}]}],
        {
            "mounts": [
                {"destination": "x", "source": "/2"},
                {"destination": "/w"},
                {"destination": "/w", "source": "/1"},
                {"destination": "/a/b"},
            ]
        },
    ),
    (
        "mounts are left in their order when none is added",
        {"mounts": [{"destination": "/a/b"}, {"destination": "/a"}]},
        [{"env": ["A=1"]}],
        {
            "mounts": [{"destination": "/a/b"}, {"destination": "/a"}],
            "process": {"user": {"uid": 0, "gid": 0}, "cwd": "", "env": ["A=1"]},
        },
    ),
    (
        "a hook keeps timeout 0 and loses empty lists",
        {"hooks": {"prestart": [{"path": "/old"}], "x": 1}},
        [{"hooks": [{"hookName": "prestart", "path": "/h", "args": [], "env": ["A=1"], "timeout": 0}]}],
        {"hooks": {"prestart": [{"path": "/old"}, {"path": "/h", "env": ["A=1"], "timeout": 0}], "x": 1}},
    ),
]


@pytest.mark.parametrize(("config", "blocks", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_edits(config: Json, blocks: list[Json], expected: Json) -> None:
    assert _apply(config, *blocks) == expected


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("", ["ro", "bind"], ["ro", "bind", "idmap"]),
        ("", ["bind", "rbind"], ["bind", "rbind", "ridmap"]),
        ("", ["rbind", "bind"], ["rbind", "bind", "idmap"]),
        ("bind", [], ["idmap"]),
        ("bind", ["rbind"], ["rbind", "ridmap"]),
        ("none", ["bind"], ["bind", "idmap"]),
        ("tmpfs", ["size=1m"], ["size=1m"]),
        ("bind", ["ridmap"], ["ridmap"]),
        ("", ["bind", "idmap"], ["bind", "idmap"]),
    ],
)
def test_a_bind_mount_is_idmapped_in_a_user_namespace_only(kind: str, options: list[str], expected: list[str]) -> None:
    item = {"hostPath": "/a", "containerPath": "/b", "type": kind, "options": options}
    for namespaces, wanted in (([{"type": "user"}], expected), ([{"type": "pid"}], options)):
        config = {"linux": {"namespaces": namespaces}}
        assert _apply(config, {"mounts": [item]})["mounts"][0].get("options", []) == wanted


@pytest.mark.parametrize(
    ("config", "block", "where"),
    [
        ({"process": 1}, {"env": ["A=1"]}, "process"),
        ({"process": {"env": {}}}, {"env": ["A=1"]}, "process.env"),
        ({"process": {"user": []}}, {"additionalGids": [1]}, "process.user"),
        ({"process": {"user": {"uid": "0"}}}, {"deviceNodes": [NULL]}, "process.user"),
        ({"linux": "x"}, {"deviceNodes": [NULL]}, "linux"),
        ({"linux": {"resources": 1}}, {"deviceNodes": [NULL]}, "linux.resources"),
        ({"linux": {"namespaces": {}}}, {"mounts": [{"hostPath": "/a", "containerPath": "/b"}]}, "linux.namespaces"),
        ({"mounts": {}}, {"mounts": [{"hostPath": "/a", "containerPath": "/b"}]}, "mounts"),
        ({"hooks": []}, {"hooks": [{"hookName": "poststop", "path": "/h"}]}, "hooks"),
        ({"hooks": {"poststop": {}}}, {"hooks": [{"hookName": "poststop", "path": "/h"}]}, "hooks.poststop"),
    ],
)
def test_a_section_of_another_type_is_named(config: Json, block: Json, where: str) -> None:
    with pytest.raises(CdiError, match=f"config.json: {where} must") as caught:
        _apply(config, block)
    assert caught.value.findings[0].id == "CONFIG_JSON"


def test_items_that_are_no_objects_are_left_to_the_runtime() -> None:
    config = {"mounts": [1, None], "linux": {"devices": ["x"], "namespaces": [None]}, "process": {"env": [5]}}
    result = _apply(
        config, {"deviceNodes": [NULL], "mounts": [{"hostPath": "/a", "containerPath": "/b"}], "env": ["A=1"]}
    )
    assert result["mounts"] == [1, None, {"destination": "/b", "source": "/a"}]
    assert result["linux"]["devices"][0] == "x"
    assert result["process"]["env"] == [5, "A=1"]


# --- properties ---------------------------------------------------------------------------------------------------

_paths = st.sampled_from(["/a", "/a/b", "/w", "/w/", "/", "x", "/dev/null", "/dev/zero"])
_env = st.sampled_from(["A=1", "A=2", "B=", "C=a=b", "PATH=/bin"])
_nodes = st.fixed_dictionaries(
    {"path": _paths, "type": st.sampled_from(["b", "c", "p", "u"]), "major": st.integers(0, 9)},
    optional={
        "minor": st.integers(0, 9),
        "fileMode": st.integers(0, 511),
        "uid": st.integers(0, 2),
        "gid": st.integers(0, 2),
        "permissions": st.sampled_from(["", "r", "rwm", "none"]),
    },
)
_mounts = st.fixed_dictionaries(
    {"hostPath": _paths, "containerPath": _paths},
    optional={
        "type": st.sampled_from(["bind", "tmpfs"]),
        "options": st.lists(st.sampled_from(["ro", "bind", "rbind"])),
    },
)
_hooks = st.fixed_dictionaries(
    {"hookName": st.sampled_from(["prestart", "createContainer", "poststop"]), "path": _paths},
    optional={"args": st.lists(_paths, max_size=2), "env": st.lists(_env, max_size=2), "timeout": st.integers(-1, 9)},
)
_blocks = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "env": st.lists(_env, max_size=3),
            "deviceNodes": st.lists(_nodes, max_size=3),
            "mounts": st.lists(_mounts, max_size=3),
            "hooks": st.lists(_hooks, max_size=3),
            "additionalGids": st.lists(st.integers(0, 5), max_size=3),
            "intelRdt": st.fixed_dictionaries({}, optional={"closID": st.just("c"), "schemata": st.just(["s"])}),
            "netDevices": st.lists(
                st.fixed_dictionaries({"hostInterfaceName": st.sampled_from(["e0", "e1"]), "name": st.just("n")}),
                max_size=2,
            ),
        },
    ),
    max_size=3,
)
_odd = st.dictionaries(st.sampled_from(["xFuture", "x-vendor"]), st.one_of(st.integers(), st.lists(st.booleans())))
_configs = st.builds(
    lambda top, process, user, linux, resources, hooks, mounts: {
        **top,
        "ociVersion": "1.2.0",
        "process": {**process, "user": {"uid": 1, **user}, "env": ["A=0", "Z=1"]},
        "linux": {
            **linux,
            "namespaces": [{"type": "user"}],
            "devices": [{"path": "/dev/null", "type": "c", "xNode": 1}, {"path": "/dev/other"}],
            "resources": {**resources, "devices": [{"allow": False, "access": "rwm"}]},
        },
        "hooks": {**hooks, "poststop": [{"path": "/old", "xHook": True}]},
        "mounts": [{"destination": path, "xMount": 1} for path in mounts],
    },
    _odd, _odd, _odd, _odd, _odd, _odd, st.lists(_paths, max_size=3),
)  # fmt: skip


@given(_configs, _blocks)
def test_apply_never_changes_its_input(config: Json, blocks: list[Json]) -> None:
    plan = _plan(*blocks)
    before, origins = copy.deepcopy(config), copy.deepcopy(plan.origins)
    first = edits.apply(plan, config)
    assert config == before
    assert plan.origins == origins
    result = copy.deepcopy(first)
    edits.apply(plan, first)  # what a second use of the result does must not reach the first
    assert first == result


@given(_configs, _blocks)
def test_a_plan_that_was_written_and_read_back_gives_the_same(config: Json, blocks: list[Json]) -> None:
    plan = _plan(*blocks)
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert edits.apply(again, config) == edits.apply(plan, config)


@given(_configs, _blocks)
def test_unknown_members_survive(config: Json, blocks: list[Json]) -> None:
    result = edits.apply(_plan(*blocks), config)
    for path in ((), ("process",), ("process", "user"), ("linux",), ("linux", "resources"), ("hooks",)):
        old: Any = config
        new: Any = result
        for member in path:
            old, new = old[member], new[member]
        odd = {name: value for name, value in old.items() if name.startswith("x")}
        assert odd == {name: new[name] for name in odd}
    assert result["hooks"]["poststop"][0] == {"path": "/old", "xHook": True}
    kept = [mount for mount in result.get("mounts", []) if "xMount" in mount]
    gone = {item["containerPath"] for block in blocks for item in block.get("mounts", ())}
    assert {mount["destination"] for mount in config["mounts"]} - gone <= {mount["destination"] for mount in kept}


@given(_configs, _blocks)
def test_no_device_stands_in_the_list_without_what_the_plan_says_of_it(config: Json, blocks: list[Json]) -> None:
    result = edits.apply(_plan(*blocks), config)
    wanted = {node["path"]: node for block in blocks for node in block.get("deviceNodes", ())}
    for path, node in wanted.items():
        listed = [entry for entry in result["linux"]["devices"] if entry["path"] == path]
        assert [(entry["type"], entry["major"]) for entry in listed] == [(node["type"], node["major"])]


# --- the kinds of edits -----------------------------------------------------------------------------------------------


def test_what_a_spec_may_say_is_what_is_applied() -> None:
    """A new kind that is read, and then neither applied nor shown to people, would be lost without a word."""
    assert set(edits.KINDS) == set(decode.EDITS.readers)
    assert set(edits.KINDS) <= set(describe._WORDS)


@pytest.mark.parametrize("kind", edits.KINDS)
def test_what_a_kind_changes_is_a_part_of_the_question(kind: str) -> None:
    """A change outside of it would be no part of the decision, and config.json would not get it."""
    for way in edits.KINDS[kind][1]:
        members: Any = question.MEMBERS
        for name in way:
            assert members is not None
            assert name in members, way
            members = members[name]
