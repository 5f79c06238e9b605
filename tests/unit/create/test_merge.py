"""A plan is put into a config.json that may have some of it already: nothing comes in twice."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from unit.create.strategies import BARE, CONFIGS, PLANS

from shim.base.findings import CdiError
from shim.base.paths import clean
from shim.cdi import edits
from shim.cdi.plan import Plan
from shim.create import merge

Json = dict[str, Any]


def _plan(*blocks: Json) -> Plan:
    return Plan(["n"], [{"spec": "/etc/cdi/x.json", "device": None, "edits": block} for block in blocks])


NODE = {"path": "/dev/gpu0", "type": "c", "major": 195, "minor": 0, "fileMode": 0o666}
ENTRY = {"path": "/dev/gpu0", "type": "c", "major": 195, "minor": 0, "fileMode": 0o666}
RULE = {"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rwm"}
DENY = {"allow": False, "access": "rwm"}
BIND = {"hostPath": "/opt/a", "containerPath": "/opt/a", "options": ["ro", "rbind"]}
BOUND = {"destination": "/opt/a", "source": "/opt/a", "options": ["ro", "rbind"]}


def _linux(devices: list[Json], rules: list[Json]) -> Json:
    return {"linux": {"devices": devices, "resources": {"devices": rules}}}


# what stands in the config already, with what it is asked for, and what must come out; None: nothing changes
CASES: dict[str, tuple[Json, Json, Json | None]] = {
    "a node that is there": (_linux([ENTRY], [RULE]), {"deviceNodes": [NODE]}, None),
    "a node that is there by another text of its path": (
        _linux([{**ENTRY, "path": "/dev//gpu0/"}], [RULE]),
        {"deviceNodes": [NODE]},
        None,
    ),
    "a node that is there and says more": (
        _linux([{**ENTRY, "uid": 7, "fileMode": 0o600}], [RULE]),
        {"deviceNodes": [NODE]},
        None,
    ),
    "a node that is there without its mode, which crun would make 0": (
        _linux([{"path": "/dev/gpu0", "type": "c", "major": 195, "minor": 0}], [RULE]),
        {"deviceNodes": [NODE]},
        _linux([ENTRY], [RULE]),
    ),
    "a node that is there with old numbers": (
        _linux([{**ENTRY, "major": 7}, {"path": "/dev/x"}], [RULE]),
        {"deviceNodes": [NODE]},
        _linux([{"path": "/dev/x"}, ENTRY], [RULE]),
    ),
    "a node without its rule": (_linux([ENTRY], []), {"deviceNodes": [NODE]}, _linux([ENTRY], [RULE])),
    "a rule with other rights": (
        _linux([ENTRY], [{**RULE, "access": "r"}]),
        {"deviceNodes": [NODE]},
        _linux([ENTRY], [{**RULE, "access": "r"}, RULE]),
    ),
    "a rule that a later one takes back": (
        _linux([ENTRY], [RULE, DENY]),
        {"deviceNodes": [NODE]},
        _linux([ENTRY], [RULE, DENY, RULE]),
    ),
    "a rule behind the one that takes all back": (_linux([ENTRY], [DENY, RULE]), {"deviceNodes": [NODE]}, None),
    "a mount that is there": ({"mounts": [BOUND]}, {"mounts": [BIND]}, None),
    "a mount that is there with other options": (
        {"mounts": [{**BOUND, "options": ["rbind", "rw"]}]},
        {"mounts": [BIND]},
        None,
    ),
    "a mount that is there by another text of its paths": (
        {"mounts": [{"destination": "/opt/a/", "source": "//opt/a", "options": ["bind"]}]},
        {"mounts": [BIND]},
        None,
    ),
    "mounts in an order of their own, when nothing comes in": (
        {"mounts": [{"destination": "/x/y/z"}, {"destination": "/x"}, BOUND]},
        {"mounts": [BIND]},
        None,
    ),
    "a mount from elsewhere at the same place": (
        {"mounts": [{"destination": "/opt/a", "source": "/other"}]},
        {"mounts": [BIND]},
        {"mounts": [BOUND]},
    ),
    "a hook that is there": (
        {"hooks": {"createContainer": [{"path": "/h", "args": ["h", "x"], "timeout": 3}]}},
        {"hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h", "x"], "env": ["A=1"]}]},
        None,
    ),
    "the hook of another stage": (
        {"hooks": {"poststop": [{"path": "/h"}]}},
        {"hooks": [{"hookName": "poststart", "path": "/h"}]},
        {"hooks": {"poststop": [{"path": "/h"}], "poststart": [{"path": "/h"}]}},
    ),
    "the hook with other arguments": (
        {"hooks": {"poststart": [{"path": "/h", "args": ["h"]}]}},
        {"hooks": [{"hookName": "poststart", "path": "/h", "args": ["h", "y"]}]},
        {"hooks": {"poststart": [{"path": "/h", "args": ["h"]}, {"path": "/h", "args": ["h", "y"]}]}},
    ),
    "a variable that is there": ({"process": {"env": ["A=1"]}}, {"env": ["A=1"]}, None),
    "a variable with another value": (
        {"process": {"env": ["A=0", "B=1"]}},
        {"env": ["A=1"]},
        {"process": {"env": ["A=1", "B=1"]}},
    ),
    "a group that is there": ({"process": {"user": {"additionalGids": [44]}}}, {"additionalGids": [44, 0]}, None),
    "a network device that is moved already": (
        {"linux": {"netDevices": {"e0": {"name": "n", "xMore": 1}}}},
        {"netDevices": [{"hostInterfaceName": "e0", "name": "n"}]},
        None,
    ),
    "a network device that is moved under another name": (
        {"linux": {"netDevices": {"e0": {"name": "m"}}}},
        {"netDevices": [{"hostInterfaceName": "e0", "name": "n"}]},
        {"linux": {"netDevices": {"e0": {"name": "n"}}}},
    ),
    "cache and bandwidth that are set already": (
        {"linux": {"intelRdt": {"closID": "c"}}},
        {"intelRdt": {"closID": "c"}},
        None,
    ),
    "a node to be bound": (
        _linux([], []),
        {"deviceNodes": [{**NODE, "hostPath": "/dev/x", "bind": True}]},
        {
            **_linux([], [RULE]),
            "mounts": [
                {
                    "destination": "/dev/gpu0",
                    "type": "bind",
                    "source": "/dev/x",
                    "options": ["bind", "rprivate", "nosuid", "noexec"],
                }
            ],
        },
    ),
    "b7 b25 a node to be bound that linux.devices has, from an engine or an earlier create without a user namespace": (
        _linux([{"path": "/dev/other"}, {**ENTRY, "path": "/dev//gpu0"}], [RULE]),
        {"deviceNodes": [{**NODE, "hostPath": "/dev/x", "bind": True}]},
        {
            **_linux([{"path": "/dev/other"}], [RULE]),
            "mounts": [
                {
                    "destination": "/dev/gpu0",
                    "type": "bind",
                    "source": "/dev/x",
                    "options": ["bind", "rprivate", "nosuid", "noexec"],
                }
            ],
        },
    ),
    "nothing, and nothing is asked": ({"x": 1}, {}, None),
}


@pytest.mark.parametrize(("config", "block", "wanted"), CASES.values(), ids=CASES.keys())
def test_what_is_there_stays_and_what_is_missing_comes(config: Json, block: Json, wanted: Json | None) -> None:
    result = merge.add(_plan(block), config)
    assert result == (config if wanted is None else wanted)
    assert merge.add(_plan(block), result) == result


def test_a_node_that_the_plan_has_twice_comes_once_the_last_one_and_both_rules() -> None:
    """Two devices of one vendor bring the same control node; what one may only read the other may write."""
    readable = {**NODE, "permissions": "r", "fileMode": 0o600}
    result = merge.add(_plan({"deviceNodes": [readable]}, {"deviceNodes": [{**NODE, "path": "/dev//gpu0"}]}), {})
    assert result == _linux([{**ENTRY, "path": "/dev//gpu0"}], [{**RULE, "access": "r"}, RULE])


def test_a_hook_that_the_plan_has_twice_comes_once_unless_it_differs() -> None:
    hook = {"hookName": "poststart", "path": "/h"}
    result = merge.add(_plan({"hooks": [hook, {**hook, "env": ["A=1"]}]}, {"hooks": [hook]}), {})
    assert result == {"hooks": {"poststart": [{"path": "/h"}, {"path": "/h", "env": ["A=1"]}]}}


def test_a_bound_node_is_not_idmapped_where_other_mounts_are() -> None:
    """An id-mapped mount of devtmpfs is refused by the kernel."""
    config: Json = {"linux": {"namespaces": [{"type": "user"}]}}
    node = {**NODE, "hostPath": "/dev/x", "bind": True}
    mounts = merge.add(_plan({"deviceNodes": [node], "mounts": [BIND]}), config)["mounts"]
    assert [("idmap" in mount["options"], "ridmap" in mount["options"]) for mount in mounts] == [
        (False, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("config", "block"),
    [
        ({"linux": []}, {"deviceNodes": [NODE]}),
        ({"linux": {"devices": {}}}, {"deviceNodes": [NODE]}),
        ({"linux": {"resources": {"devices": 1}}}, {"deviceNodes": [NODE]}),
        ({"mounts": {}}, {"mounts": [BIND]}),
        ({"hooks": {"poststart": {}}}, {"hooks": [{"hookName": "poststart", "path": "/h"}]}),
        ({"process": []}, {"env": ["A=1"]}),
        ({"linux": {"netDevices": []}}, {"netDevices": [{"hostInterfaceName": "e0", "name": "n"}]}),
    ],
)
def test_a_section_of_a_wrong_type_is_refused(config: Json, block: Json) -> None:
    with pytest.raises(CdiError) as caught:
        merge.add(_plan(block), config)
    assert caught.value.findings[0].id == "CONFIG_JSON"


# --- properties -----------------------------------------------------------------------------------------------------


@given(PLANS, CONFIGS)
def test_a_second_time_changes_nothing(plan: Plan, config: Json) -> None:
    once = merge.add(plan, config)
    assert json.dumps(merge.add(plan, once)) == json.dumps(once)


@given(PLANS, CONFIGS)
def test_the_input_stays_as_it_is(plan: Plan, config: Json) -> None:
    before, origins = copy.deepcopy(config), copy.deepcopy(plan.origins)
    merge.add(plan, config)
    assert (config, plan.origins) == (before, origins)


@given(PLANS, CONFIGS)
def test_only_what_cdi_edits_changes_and_nothing_goes_but_what_is_replaced(plan: Plan, config: Json) -> None:
    """Capabilities, the user, unknown members and the hooks of the engine are as they were."""
    result = merge.add(plan, config)
    for way in ((), ("process",), ("process", "user"), ("linux",), ("linux", "resources")):
        old, new = _at(config, way), _at(result, way)
        edited = {"env", "additionalGids", "devices", "netDevices", "intelRdt", "mounts", "hooks"}
        sections = {"process", "user", "linux", "resources"}
        assert {key: new.get(key) for key in old.keys() - edited - sections} == {
            key: old[key] for key in old.keys() - edited - sections
        }
        assert new.keys() - old.keys() <= edited
    assert result["process"]["capabilities"] == config["process"]["capabilities"]
    for stage, hooks in config["hooks"].items():
        assert result["hooks"][stage][: len(hooks)] == hooks
    rules = config["linux"]["resources"]["devices"]
    assert result["linux"]["resources"]["devices"][: len(rules)] == rules


def _at(config: Json, way: tuple[str, ...]) -> Json:
    section = config
    for step in way:
        section = section[step]
    return section


@given(PLANS, BARE)
def test_an_engine_that_applied_the_plan_itself_gains_nothing_twice(plan: Plan, config: Json) -> None:
    native = edits.apply(plan, config)
    assert json.dumps(merge.add(plan, native)) == json.dumps(native)


@given(PLANS, BARE)
def test_everything_of_the_plan_is_there(plan: Plan, config: Json) -> None:
    result = merge.add(plan, config)
    devices = {clean(entry["path"]): entry for entry in result["linux"].get("devices", [])}
    places = {(clean(entry["destination"]), clean(entry["source"])) for entry in result["mounts"]}
    targets: dict[str, str] = {}
    nodes: dict[str, Json] = {}
    for origin in plan.origins:
        block = origin["edits"]
        targets.update({clean(item["containerPath"]): clean(item["hostPath"]) for item in block.get("mounts", ())})
        nodes.update({clean(node["path"]): node for node in block.get("deviceNodes", ())})
        for hook in block.get("hooks", ()):
            assert edits.hook(hook) in result["hooks"][hook["hookName"]]
        for gid in block.get("additionalGids", ()):
            assert gid == 0 or gid in result["process"]["user"]["additionalGids"]
        for rule in filter(None, map(edits.cgroup_rule, block.get("deviceNodes", ()))):
            last = [one for one in result["linux"]["resources"]["devices"] if not one["allow"]][-1:]
            rules = result["linux"]["resources"]["devices"]
            assert rule in rules[rules.index(last[0]) if last else 0 :]
    assert places >= set(targets.items())
    for path, node in nodes.items():
        assert (devices[path]["major"], devices[path]["minor"]) == (node["major"], node["minor"])


def test_b1_a_mount_that_an_engine_added_and_nobody_can_make_gives_way_to_ours() -> None:
    """An engine's own CDI adds a mount as the spec has it: without `rbind` the container would not start for it."""
    asked = {"hostPath": "/opt/a", "containerPath": "/opt/a", "options": ["rbind"]}
    plan = Plan([], [{"spec": "/etc/cdi/x", "device": "0", "edits": {"mounts": [asked]}}])
    theirs = {"destination": "/opt/a", "source": "/opt/a", "type": "bind"}
    added = {"destination": "/opt/a", "source": "/opt/a", "options": ["rbind"]}
    assert merge.add(plan, {"mounts": [theirs]})["mounts"] == [added]
    usable = {**theirs, "options": ["bind"]}
    assert merge.add(plan, {"mounts": [usable]})["mounts"] == [usable]
