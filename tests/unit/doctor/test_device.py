"""Why one device works, or does not: what it depends on, and nothing else."""

from __future__ import annotations

import pytest
from unit.discover import acme
from unit.doctor.hosts import KIND, SPEC, Patient, errors, ids

NAME = f"{KIND}=0"


def test_a_device_that_works_is_shown_with_what_it_gives(patient: Patient) -> None:
    report = patient.examine(NAME)
    assert errors(report) == set()
    (check,) = [check for check in report.checks if check.subject == NAME]
    assert check.evidence == f"{SPEC}: 2 deviceNodes, 1 mounts, 1 hooks"
    assert {check.subject for check in report.checks if check.link in ("module", "nodes", "library")} == {"acme"}


def test_what_is_wrong_with_other_devices_does_not_matter(patient: Patient) -> None:
    patient.write("/etc/cdi/other.yaml", "kind: [\n")
    patient.spec("/etc/cdi/more.json", devices=[{"name": "a", "containerEdits": {"deviceNodes": [{"path": "/dev/x"}]}}])
    assert errors(patient.examine()) == {"SPEC_SYNTAX", "NODE_UNUSABLE"}
    assert errors(patient.examine(NAME)) == set()


def test_a_mistyped_name_has_near_ones(patient: Patient) -> None:
    report = patient.examine(f"{KIND}=00")
    assert errors(report) == {"DEVICE_UNKNOWN"}
    assert any(NAME in finding.text for finding in report.findings)


def test_a_name_of_another_form_is_refused(patient: Patient) -> None:
    assert errors(patient.examine("gpu0=")) == {"DEVICE_NAME"}


@pytest.mark.parametrize("path", [SPEC, "/etc/cdi/copy.yaml"])
def test_a_name_of_a_spec_that_is_refused_has_the_fault_of_the_spec(patient: Patient, path: str) -> None:
    patient.write(path, "kind: [\n")
    patient.path(SPEC).unlink() if path != SPEC else None
    report = patient.examine(NAME)
    assert errors(report) == {"SPEC_SYNTAX"}
    assert "DEVICE_UNKNOWN" in ids(report)


def test_its_own_node_and_its_own_rights_count(patient: Patient) -> None:
    acme.node(patient.top, "acme/2", 3)
    patient.path("/dev/acme/1").unlink()
    assert errors(patient.examine(f"{KIND}=1")) == {"SPEC_STALE"}
    patient.path("/run/systemd/system").mkdir(parents=True)
    (finding,) = [one for one in patient.examine(NAME).findings if one.id == "DEVCHAR_MISSING"]
    assert "/dev/char/240:1" in finding.text
    assert "/dev/char/240:2" not in finding.text
