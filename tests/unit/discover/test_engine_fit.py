"""What an engine's own CDI makes of a spec."""

from __future__ import annotations

from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.cdi import store, versions
from shim.discover import engine_fit

PODMAN, NEWEST = "podman=4.9.3", "docker=29.2"
SPEC = """\
cdiVersion: "{version}"
kind: {kind}
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/acme0
      hostPath: /dev/acme/0
{more}"""


def found(engine: str, version: str = "0.5.0", kind: str = "acme.example/gpu", more: str = "") -> list[Any]:
    text = SPEC.format(version=version, kind=kind, more=more).encode()
    return [(one.id, one.level, one.line, one.remedy, one.text) for one in engine_fit.check(text, "x.yaml", engine)]


def test_a_spec_that_the_engine_reads_has_no_finding() -> None:
    assert found(PODMAN) == []
    assert found(NEWEST, "1.1.0", more="    additionalGids: [44]\n") == []


def test_a_version_that_is_too_high_is_one_that_needs_not_be() -> None:
    [(id, level, line, remedy, text)] = found(PODMAN, "1.0.0")
    assert (id, level, line) == ("SPEC_TOO_NEW", "ERROR", 1)
    assert "cdiVersion 1.0.0 is too high: podman=4.9.3 reads up to 0.6.0" in text
    assert "write cdiVersion 0.5.0" in remedy


def test_b6_a_member_that_the_engine_does_not_know_is_named_with_its_line() -> None:
    """Podman 4.9.3: `unknown field "additionalGids"`, and no device of the file."""
    version, member = found(PODMAN, "0.7.0", more="    additionalGids: [44]\n")
    assert (version[2], member[2]) == (1, 9)
    assert "additionalGids needs CDI 0.7.0" in member[4]
    assert "--lossy" in member[3]
    # also where cdiVersion is too low for it, which is a fault by itself
    assert [one[2] for one in found(PODMAN, "0.5.0", more="    additionalGids: [44]\n")] == [9]


def test_every_member_that_is_too_new_has_its_line() -> None:
    lines = {one[4].partition(" needs")[0]: one[2] for one in found("podman=4.1", "0.4.0")}
    assert lines == {
        "the digit that starts devices[0].name": 4,
        "devices[0].containerEdits.deviceNodes[0].hostPath": 8,
    }


@pytest.mark.parametrize("kind", ["acme.example/g", "a/gpu"])
def test_a_name_of_one_letter_is_an_error_for_an_engine(kind: str) -> None:
    assert [(id, level, line) for id, level, line, *_ in found(NEWEST, kind=kind)] == [("KIND_SHORT", "ERROR", 2)]


def test_a_mount_without_bind_is_an_error_for_an_engine() -> None:
    more = "    mounts:\n    - {hostPath: /opt/x, containerPath: /x}\n"
    assert [one[:3] for one in found(NEWEST, more=more)] == [("MOUNT_NOT_BOUND", "ERROR", 10)]


def test_a_spec_with_other_faults_has_to_be_mended_first() -> None:
    assert found(PODMAN, more="    nonsense: 1\n") == []


def test_an_engine_that_is_not_known_is_refused() -> None:
    with pytest.raises(CdiError, match="no engine of that name"):
        found("acme=1.0")


ENGINES = {
    "cri-o=1.24": "0.3.0",
    "podman=4.1": "0.4.0",
    "podman=4.3": "0.5.0",
    PODMAN: "0.6.0",
    "podman=5.1": "0.7.0",
    "podman=5.2": "0.8.0",
    "podman=5.5": "1.0.0",
    NEWEST: "1.1.0",
}
EDITS = {
    "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}],
    "netDevices": [{"hostInterfaceName": "eth5", "name": "net0"}],
    "mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "ext4"}],
    "intelRdt": {"closID": "x", "schemata": ["L3:0=f"], "enableMonitoring": True},
    "additionalGids": [1],
}


@pytest.mark.parametrize("engine", ENGINES)
def test_each_feature_that_an_engine_does_not_have_is_located(engine: str) -> None:
    document = {
        "cdiVersion": "1.1.0",
        "kind": "acme.example/gpu.fast",
        "annotations": {"a": "b"},
        "devices": [{"name": "0", "annotations": {"a": "b"}, "containerEdits": EDITS}],
        "containerEdits": EDITS,
    }
    limit = versions.rank(ENGINES[engine])
    newer = [needed for needed, _ in versions.features(document) if versions.rank(needed) > limit]
    findings = engine_fit.check(store.encode(document, "yaml"), "x.yaml", engine)
    assert len(findings) == len(newer) + (ENGINES[engine] != "1.1.0")
    assert all(finding.line for finding in findings)
