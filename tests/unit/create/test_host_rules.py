"""What of a spec a host does not have: the rules of a create, item by item."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shim.cdi import spec
from shim.create.host_rules import HostRules
from shim.create.world import World
from shim.host.identity import is_rootful

LAUNCHER = "/bin/sh"


def judged(common: dict[str, Any], *devices: dict[str, Any]) -> list[tuple[tuple[Any, ...], str, str]]:
    """Way, id and level of each finding about a spec."""
    document = spec.canonical(
        {
            "cdiVersion": "1.1.0",
            "kind": "acme.example/gpu",
            "containerEdits": common,
            "devices": [{"name": str(number), "containerEdits": edits} for number, edits in enumerate(devices)],
        }
    )
    judge = HostRules(World(), LAUNCHER, rootful=is_rootful(), user=os.geteuid())
    found = list(judge.objections(document, "/etc/cdi/acme.yaml"))
    assert {finding.path for _, finding in found} <= {"/etc/cdi/acme.yaml"}
    return [(way, finding.id, finding.level) for way, finding in found]


def test_a_spec_of_this_host_has_no_finding(tmp_path: Path) -> None:
    program = {"hookName": "createContainer", "path": "/bin/true"}
    mount = {"hostPath": str(tmp_path), "containerPath": "/x", "options": ["bind"]}
    edits = {"deviceNodes": [{"path": "/dev/null"}], "mounts": [mount], "hooks": [program], "env": ["A=1"]}
    assert judged(edits, {"netDevices": [{"hostInterfaceName": "lo", "name": "net0"}]}) == []


@pytest.mark.parametrize(
    ("kind", "item", "id", "level"),
    [
        ("deviceNodes", {"path": "/dev/acme7"}, "NODE_UNUSABLE", "ERROR"),
        ("deviceNodes", {"path": "/dev/x", "hostPath": "/etc/passwd"}, "NODE_UNUSABLE", "ERROR"),
        ("deviceNodes", {"path": "/dev/null", "type": "b"}, "NODE_UNUSABLE", "ERROR"),
        ("deviceNodes", {"path": "/dev/acme7", "type": "c", "major": 195, "minor": 7}, "NODE_PHANTOM", "WARNING"),
        ("deviceNodes", {"path": "/dev/null", "type": "c", "major": 195, "minor": 7}, "DEVNUM_STALE", "WARNING"),
        ("deviceNodes", {"path": "/dev/null", "gid": 104}, "NODE_OWNER", "WARNING"),
        ("deviceNodes", {"path": "/dev/null", "fileMode": 0o660}, "NODE_OWNER", "WARNING"),
        ("deviceNodes", {"path": "/sys/x", "hostPath": "/dev/null"}, "TARGET_FORBIDDEN", "ERROR"),
        ("netDevices", {"hostInterfaceName": "acme9", "name": "net0"}, "NETDEV_MISSING", "WARNING"),
        ("mounts", {"hostPath": "/opt/acme/lib.so", "containerPath": "/x"}, "MOUNT_MISSING", "ERROR"),
        ("hooks", {"hookName": "createContainer", "path": "/opt/acme/hook"}, "HOOK_MISSING", "ERROR"),
        ("hooks", {"hookName": "createContainer", "path": "/etc/passwd"}, "HOOK_MISSING", "ERROR"),
        ("hooks", {"hookName": "poststop", "path": "/bin/true"}, "HOOK_STAGE", "WARNING"),
    ],
)
def test_what_the_host_lacks_is_a_finding_at_its_item(kind: str, item: dict[str, Any], id: str, level: str) -> None:
    good = {"path": "/dev/zero"} if kind == "deviceNodes" else None
    items = [good, item] if good else [item]
    assert judged({}, {"env": ["A=1"]}, {kind: items}) == [
        (("devices", 1, "containerEdits", kind, len(items) - 1), id, level)
    ]
    assert judged({kind: items}, {"env": ["A=1"]}) == [(("containerEdits", kind, len(items) - 1), id, level)]


def test_a_program_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    program = tmp_path / "hook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o777)
    [(_, id, level)] = judged({"hooks": [{"hookName": "createContainer", "path": str(program)}]}, {"env": ["A=1"]})
    assert (id, level) == ("HOOK_UNTRUSTED", "ERROR")


def test_a_file_of_another_version_is_stale(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.535.2").touch()
    mount = {"hostPath": f"{tmp_path}/libcuda.so.535.1", "containerPath": "/x", "options": ["bind"]}
    [(_, id, _)] = judged({"mounts": [mount]}, {"env": ["A=1"]})
    assert id == "SPEC_STALE"


def test_what_all_devices_share_is_one_finding() -> None:
    edits = {"deviceNodes": [{"path": "/dev/acme7"}]}
    assert [way[:2] for way, _, _ in judged({}, edits, edits, edits)] == [("devices", 0)]
