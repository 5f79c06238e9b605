"""Containers as engines write them down: what they asked for, what they got, and what /proc shows of it now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.doctor.hosts import KIND, LIBRARY, Patient, errors, ids

from shim.create import changes
from shim.doctor import devices
from shim.doctor.machine import Machine
from shim.engines import lookup, table
from shim.host.host import Daemon

NAME = f"{KIND}=0"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
ID = "4f6c0c2b7d1e00000000"
POD = {
    "io.kubernetes.cri.sandbox-namespace": "team",
    "io.kubernetes.cri.sandbox-name": "pod",
    "io.kubernetes.cri.container-name": "main",
}


def _config(patient: Patient, *, has_device: bool, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A config.json that asks for the device, with it or without it."""
    explanation = devices.explained(Machine(patient.host), NAME)
    config = explanation.question.config
    if has_device:
        config = changes.make(config, explanation.decision.edits)
    return {**config, "annotations": {"cdi.k8s.io/x": NAME, **POD} if annotations is None else annotations}


def _run(patient: Patient, config: dict[str, Any], program: str = "/usr/local/bin/shim") -> None:
    """Let it run under containerd, as process 9."""
    patient.write(f"{TASKS}/{ID}/config.json", json.dumps(config))
    patient.write(f"{TASKS}/{ID}/runtime", program)
    patient.write(f"{TASKS}/{ID}/init.pid", "9")
    patient.write("/proc/9/mountinfo", f"1 2 0:1 / {LIBRARY} ro - ext4 /dev/sda rw\n")
    shim = ("/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io")
    patient.options = {"daemons": [Daemon(8, shim, 1.0, f"{TASKS}/{ID}")]}


@pytest.mark.parametrize("word", [ID, ID[:6], "main", "pod/main", "team/pod/main"])
def test_a_healthy_container_is_found_by_each_of_its_names(patient: Patient, word: str) -> None:
    _run(patient, _config(patient, has_device=True))
    report = patient.examine_container(word)
    assert ids(report) == set()
    assert "containerd, team/pod/main, called by /usr/local/bin/shim, process 9" in [
        check.evidence for check in report.checks
    ]
    assert any(NAME in check.evidence for check in report.checks)


def test_a_name_that_is_not_there_has_near_ones(patient: Patient) -> None:
    _run(patient, _config(patient, has_device=True))
    (finding,) = patient.examine_container("team/pod/mian").findings
    assert (finding.id, "team/pod/main" in finding.text) == ("CONTAINER_UNKNOWN", True)


def test_another_runtime_injects_nothing(patient: Patient) -> None:
    _run(patient, _config(patient, has_device=False), "/usr/bin/runc")
    report = patient.examine_container("main")
    assert errors(report) == {"CONTAINER_LACKS"}
    assert "/usr/bin/runc, which is not shim" in report.findings[0].text


def test_one_that_asks_for_nothing_is_advised(patient: Patient) -> None:
    _run(patient, _config(patient, has_device=False, annotations={}))
    report = patient.examine_container(ID)
    assert (errors(report), ids(report)) == (set(), {"CONTAINER_ASKS_NOTHING"})


def test_a_library_that_was_replaced_is_the_old_one_in_there(patient: Patient) -> None:
    _run(patient, _config(patient, has_device=True))
    patient.write("/proc/9/mountinfo", f"1 2 0:1 {LIBRARY}//deleted {LIBRARY} ro - ext4 /dev/sda rw\n")
    report = patient.examine_container(ID)
    assert (errors(report), ids(report)) == (set(), {"MOUNT_MISSING"})


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("c 240:0 rwm\nc 240:1 rwm\n", set()),
        ("a *:* rwm\n", set()),
        ("c 240:* rwm\n", set()),
        ("c 240:0 rwm\nc 1:3 rwm\n", {"DEVICE_RULE_LOST"}),
    ],
)
def test_a_rule_that_was_taken_away_is_missed(patient: Patient, rules: str, expected: set[str]) -> None:
    _run(patient, _config(patient, has_device=True))
    patient.write("/proc/9/cgroup", "4:memory:/m\n3:devices:/pods/main\n0::/\n")
    patient.write("/sys/fs/cgroup/devices/pods/main/devices.list", rules)
    assert errors(patient.examine_container(ID)) == expected


def test_rules_that_cannot_be_read_are_named_as_such(patient: Patient) -> None:
    """With cgroup v2 they are a program in the kernel, and the report looked as if they had been compared."""
    _run(patient, _config(patient, has_device=True))
    patient.write("/proc/9/cgroup", "0::/pods/main\n")
    report = patient.examine_container(ID)
    assert errors(report) == set()
    assert any("its device rules cannot be read" in check.evidence for check in report.checks)


def test_a_container_of_docker_that_failed_shows_why(patient: Patient) -> None:
    kept = {"ID": ID, "Name": "/web", "State": {"Error": "DEVICE_UNKNOWN: no such device"}}
    patient.write(f"/var/lib/docker/containers/{ID}/config.v2.json", json.dumps(kept))
    report = patient.examine_container("web")
    assert (errors(report), ids(report)) == (set(), {"CONTAINER_FAILED"})
    assert "DEVICE_UNKNOWN" in report.findings[0].text


def test_the_last_create_that_was_refused_is_shown(patient: Patient) -> None:
    found = [
        {"id": "SPEC_STALE", "level": "ERROR", "text": "libcuda.so.535.1 is missing", "remedy": "shim cdi refresh"}
    ]
    lines = [{"id": ID, "outcome": outcome, "findings": found, "time": "now"} for outcome in ("injected", "failed")]
    patient.write("/var/log/shim.log", "".join(f"{json.dumps(line)}\n" for line in lines))
    patient.write(f"/var/lib/docker/containers/{ID}/config.v2.json", json.dumps({"ID": ID, "Name": "/web"}))
    (finding,) = patient.examine_container("web").findings
    assert (finding.id, finding.remedy) == ("CONTAINER_FAILED", "shim cdi refresh")
    assert "SPEC_STALE: libcuda.so.535.1 is missing" in finding.text


def test_podmans_containers_have_names_running_or_not(patient: Patient) -> None:
    top = "/var/lib/containers/storage/overlay-containers"
    listed = [{"id": "aa11", "names": ["stopped"]}, {"id": "bb22", "names": ["running"]}]
    patient.write(f"{top}/containers.json", json.dumps(listed))
    patient.write(f"{top}/bb22/userdata/config.json", json.dumps({"annotations": {"io.container.manager": "libpod"}}))
    monitor = ("/usr/bin/conmon", "-c", "bb22", "-b", f"{top}/bb22/userdata", "-r", "/usr/bin/runc", "-n", "running")
    patient.options = {"daemons": [Daemon(5, monitor, 1.0)]}
    found = {one.name: (one.engine, one.id, one.program) for one in lookup.known(patient.host, table.ENGINES.values())}
    assert found == {"running": ("podman", "bb22", "/usr/bin/runc"), "stopped": ("podman", "aa11", "")}


def test_f1_a_hook_that_failed_is_reported_with_its_cause(patient: Patient) -> None:
    """crun's message has the exit status of a hook at most."""
    _run(patient, _config(patient, has_device=True))
    hook = {"verb": "hook", "hook": "update-ldcache", "outcome": "failed", "time": "T"}
    lines = [
        {**hook, "id": ID, "text": "of the start before"},
        {"verb": "create", "id": ID, "outcome": "injected"},
        {**hook, "id": "other", "text": "of another container"},
        {**hook, "id": ID, "text": "cannot write /etc/ld.so.cache: the file system is full"},
    ]
    patient.write("/var/log/shim.log", "\n".join(map(json.dumps, lines)))
    (finding,) = patient.examine_container(ID).findings
    assert finding.id == "HOOK_FAILED"
    assert finding.text.endswith("at T: cannot write /etc/ld.so.cache: the file system is full")
