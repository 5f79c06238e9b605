"""Groups, nodes and rights for a container in a user namespace."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shim.cdi.plan import Plan
from shim.create import merge, userns
from shim.create.world import World

Json = dict[str, Any]

WHOLE = "         0          0 4294967295\n"
ROOTLESS = "0 1000 1\n1 100000 65536\n"


def _proc(directory: Path, own: str = WHOLE, **others: str) -> str:
    """A procfs with the id maps of this process, and of others by their pid (p17 for 17)."""
    for name, text in {"self": own, **others}.items():
        process = directory / name.removeprefix("p")
        process.mkdir()
        for kind in ("uid_map", "gid_map"):
            (process / kind).write_text(text)
    return str(directory)


def _ranges(*ranges: tuple[int, int, int]) -> list[Json]:
    return [{"containerID": first, "hostID": outside, "size": size} for first, outside, size in ranges]


def _config(*ranges: tuple[int, int, int], path: str = "", **process: Any) -> Json:
    """A config.json with a user namespace: made with these ranges for users and groups, or joined."""
    namespace = {"type": "user", "path": path} if path else {"type": "user"}
    linux: Json = {"namespaces": [{"type": "mount"}, namespace]}
    if ranges:
        linux.update(uidMappings=_ranges(*ranges), gidMappings=_ranges(*ranges))
    return {"linux": linux, "process": {"user": {"uid": 0, "gid": 0}, **process}}


def _adapt(edits: Json, config: Json, proc: str, nodes: dict[str, tuple[int, int, int]] | None = None) -> Plan:
    """`nodes`: path -> mode, uid, gid of the character devices of the host."""

    class Nodes(World):
        def node(self, path: str) -> Any:
            mode, uid, gid = (nodes or {}).get(path, (0o666, 0, 0))
            return "c", 1, 3, mode, uid, gid

    plan = Plan(["n"], [{"spec": "/etc/cdi/x.json", "device": None, "edits": edits}])
    return userns.adapt(plan, config, Nodes(), proc=proc)


# --- groups ---------------------------------------------------------------------------------------------------------

# own map, config, groups of the spec, groups in the container
GROUPS: dict[str, tuple[str, Json, list[int], list[int]]] = {
    "shifted by the container": (WHOLE, _config((0, 100000, 1000)), [100044], [44]),
    "one of several ranges": (WHOLE, _config((0, 100000, 44), (44, 44, 1), (45, 100045, 1000)), [44], [44]),
    "not mapped": (WHOLE, _config((0, 100000, 1000)), [44], []),
    "just behind the range": (WHOLE, _config((0, 100000, 1000)), [101000], []),
    "a rootless engine, no namespace of the container's own": (ROOTLESS, {}, [44, 1000, 100043], [0, 44]),
    "a rootless engine, and a namespace in it": (ROOTLESS, _config((0, 1, 100)), [100000, 1000], [0]),
    "a namespace that is joined": (WHOLE, _config(path="/proc/17/ns/user"), [200044, 44], [44]),
    "a namespace that is joined and gone": (WHOLE, _config(path="/proc/18/ns/user"), [200044], []),
    "a namespace that is joined by a name": (WHOLE, _config(path="/run/ns/user"), [200044], []),
    "a namespace without any mapping": (WHOLE, _config(), [0, 44], []),
    "mappings that are none": (
        WHOLE,
        {"linux": {"namespaces": [{"type": "user"}], "gidMappings": [3, {"containerID": "0"}]}},
        [44],
        [],
    ),
}


@pytest.mark.parametrize(("own", "config", "given", "wanted"), GROUPS.values(), ids=GROUPS.keys())
def test_groups_of_the_host_get_their_numbers_inside_or_are_left_out_with_a_warning(
    tmp_path: Path, own: str, config: Json, given: list[int], wanted: list[int]
) -> None:
    plan = _adapt({"additionalGids": given}, config, _proc(tmp_path, own, p17="0 200000 65536\n"))
    assert plan.origins[0]["edits"]["additionalGids"] == wanted
    assert [finding.id for finding in plan.findings] == ["GID_UNMAPPED"] * (len(given) - len(wanted))


def test_the_warning_names_the_group_and_the_spec(tmp_path: Path) -> None:
    (finding,) = _adapt({"additionalGids": [44]}, _config(), _proc(tmp_path)).findings
    assert "44" in str(finding)
    assert finding.path == "/etc/cdi/x.json"


def test_b7_a_group_that_the_engine_added_is_not_said_to_be_left_out(tmp_path: Path) -> None:
    """An engine's own CDI adds the host's number untranslated: it stays, and the warning called it left out."""
    present = _config((0, 100000, 1000), user={"uid": 0, "gid": 0, "additionalGids": [44]})
    proc = _proc(tmp_path)
    (finding,) = _adapt({"additionalGids": [44]}, present, proc).findings
    assert "config.json has the number 44 already, and it stays" in str(finding)
    (finding,) = _adapt({"additionalGids": [44]}, _config((0, 100000, 1000)), proc).findings
    assert "so it is left out" in str(finding)


# --- nodes ----------------------------------------------------------------------------------------------------------


def test_a_node_with_another_path_on_the_host_is_marked_and_no_other(tmp_path: Path) -> None:
    nodes = [
        {"path": "/dev/a", "type": "c"},
        {"path": "/dev/b", "hostPath": "/dev//b", "type": "c"},
        {"path": "/dev/c", "hostPath": "/dev/d", "type": "c"},
    ]
    edits = {"deviceNodes": nodes, "env": ["A=1"]}
    before = copy.deepcopy(edits)
    adapted = _adapt(edits, _config((0, 0, 1 << 32)), _proc(tmp_path)).origins[0]["edits"]
    assert adapted == {"deviceNodes": [nodes[0], nodes[1], {**nodes[2], "bind": True}], "env": ["A=1"]}
    assert edits == before


@pytest.mark.parametrize(("own", "plain"), [(WHOLE, False), (ROOTLESS, True)], ids=["host root", "a user"])
def test_only_mounts_of_host_root_may_be_idmapped(tmp_path: Path, own: str, plain: bool) -> None:
    """crun fails on mount_setattr otherwise: podman --userns=keep-id with any mount in the spec."""
    mount = {"hostPath": "/a", "containerPath": "/a", "options": ["ro", "rbind"]}
    config = _config((0, 1, 100))
    plan = _adapt({"mounts": [mount]}, config, _proc(tmp_path, own))
    options = merge.add(plan, config)["mounts"][0]["options"]
    assert ("ridmap" in options) is not plain


# Prints which options a mount of a spec gets in a user namespace, for sources on several file systems
SOURCES = """
import json, sys
from shim.cdi.plan import Plan
from shim.create import merge, userns
from shim.create.world import World

numbers = [{"containerID": 0, "hostID": 100000, "size": 65536}]
config = {"linux": {"namespaces": [{"type": "user"}], "uidMappings": numbers, "gidMappings": numbers}}
found = {}
for path in sys.argv[1:]:
    for option in ("bind", "rbind"):
        mount = {"hostPath": path, "containerPath": path, "options": [option]}
        world = World()
        plan = Plan(["n"], [{"spec": "x", "device": None, "edits": {"mounts": [mount]}}])
        plan = userns.adapt(plan, config, world)
        asked = ("ridmap" if option == "rbind" else "idmap", path)
        traced = [answer for kind, argument, answer in world.trace if (kind, argument) == asked]
        found[f"{path} {option}"] = [merge.add(plan, config)["mounts"][0]["options"][1:], traced]
json.dump(found, sys.stdout)
"""


@pytest.mark.rootful
def test_b6_a_mount_is_idmapped_only_where_its_file_system_can(tmp_path: Path) -> None:
    """A driver container's root is an overlay: runc and crun failed on the option, the engines' own CDI works."""
    for name in ("lower", "upper", "work", "overlay", "tmpfs"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    script = f"""
        mount -t tmpfs tmpfs {tmp_path}/tmpfs
        mkdir {tmp_path}/tmpfs/alone {tmp_path}/tmpfs/above {tmp_path}/tmpfs/above/overlay
        mount -t overlay -o {layers} overlay {tmp_path}/overlay
        mount --bind {tmp_path}/tmpfs/alone {tmp_path}/tmpfs/alone
        mount --bind {tmp_path}/tmpfs/above {tmp_path}/tmpfs/above
        mount --bind {tmp_path}/overlay {tmp_path}/tmpfs/above/overlay
        exec {sys.executable} -I -c '{SOURCES}' "$@"
    """
    alone, above, overlay = (str(tmp_path / path) for path in ("tmpfs/alone", "tmpfs/above", "overlay"))
    missing = str(tmp_path / "missing")
    command = ["unshare", "-m", "sh", "-ec", script, "sh", alone, above, overlay, missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        f"{alone} bind": [["idmap"], [True]],
        f"{alone} rbind": [["ridmap"], [True]],
        f"{above} bind": [["idmap"], [True]],
        f"{above} rbind": [[], [False]],
        f"{overlay} bind": [[], [False]],
        f"{overlay} rbind": [[], [False]],
        f"{missing} bind": [["idmap"], [True]],  # what is missing is reported elsewhere
        f"{missing} rbind": [["ridmap"], [True]],
    }


SHIFTED = _config((0, 100000, 65536))
ROOT = {"effective": ["CAP_DAC_OVERRIDE"]}

# own map, config, mode, uid and gid of the node as we see it, permissions, more edits; whether it opens
RIGHTS: dict[str, tuple[str, Json, tuple[int, int, int], str, Json, bool]] = {
    "others may": (WHOLE, SHIFTED, (0o666, 0, 0), "rwm", {}, True),
    "others may read, and more is not wanted": (WHOLE, SHIFTED, (0o664, 0, 44), "r", {}, True),
    "others may read only": (WHOLE, SHIFTED, (0o664, 0, 44), "rwm", {}, False),
    "the host's root alone": (WHOLE, SHIFTED, (0o600, 0, 0), "rwm", {}, False),
    "the host's root alone, and the container's has capabilities": (
        WHOLE,
        _config((0, 100000, 65536), capabilities=ROOT),
        (0o600, 0, 0),
        "rwm",
        {},
        False,
    ),
    "a group of the host's": (WHOLE, SHIFTED, (0o660, 0, 44), "rwm", {}, False),
    "a group that is mapped and given": (
        WHOLE,
        _config((0, 100000, 44), (44, 44, 1)),
        (0o660, 0, 44),
        "rwm",
        {"additionalGids": [44]},
        True,
    ),
    "a group that is mapped, and nobody gave it": (
        WHOLE,
        _config((0, 100000, 44), (44, 44, 1)),
        (0o660, 0, 44),
        "rwm",
        {},
        False,
    ),
    "a group that the container has from elsewhere": (
        WHOLE,
        _config((0, 100000, 44), (44, 44, 1), user={"uid": 0, "gid": 0, "additionalGids": [44]}),
        (0o660, 0, 44),
        "rwm",
        {},
        True,
    ),
    "the container's root owns it": (WHOLE, SHIFTED, (0o600, 100000, 100000), "rwm", {}, True),
    "another user inside owns it, and root inside may all": (
        WHOLE,
        _config((0, 100000, 65536), capabilities=ROOT),
        (0o600, 100007, 100007),
        "rwm",
        {},
        True,
    ),
    "another user inside owns it": (WHOLE, SHIFTED, (0o600, 100007, 100007), "rwm", {}, False),
    "rootless: host root's, seen as nobody's": (ROOTLESS, {}, (0o660, 65534, 65534), "rwm", {}, False),
    "rootless: nobody's, and root inside has capabilities": (
        ROOTLESS,
        {"process": {"capabilities": ROOT}},
        (0o660, 65534, 65534),
        "rwm",
        {},
        False,
    ),
    "rootless: the user's own": (ROOTLESS, {}, (0o600, 0, 0), "rwm", {}, True),
    "rootless: with the groups of the user kept": (
        ROOTLESS,
        {"annotations": {"run.oci.keep_original_groups": "1"}},
        (0o660, 65534, 65534),
        "rwm",
        {},
        True,
    ),
    "no permissions are wanted": (WHOLE, SHIFTED, (0o600, 0, 0), "none", {}, True),
}


@pytest.mark.parametrize(("own", "config", "node", "permissions", "more", "opens"), RIGHTS.values(), ids=RIGHTS.keys())
def test_a_node_that_will_not_open_is_told(
    tmp_path: Path, own: str, config: Json, node: tuple[int, int, int], permissions: str, more: Json, opens: bool
) -> None:
    edits = {"deviceNodes": [{"path": "/dev/x", "type": "c", "permissions": permissions}], **more}
    plan = _adapt(edits, config, _proc(tmp_path, own), {"/dev/x": node})
    assert [finding.id for finding in plan.findings] == ([] if opens else ["NODE_CLOSED"])
