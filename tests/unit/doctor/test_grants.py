"""What the doctor reports of grants; what a device gives is examined without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.doctor.hosts import KIND, Patient, errors, ids

from shim.base.findings import WARNING, CdiError
from shim.create import holders
from shim.doctor import grants
from shim.doctor.machine import Machine
from shim.doctor.model import Check, Report
from shim.grants import audit, reader

NAME = f"{KIND}=0"
ENFORCED = '[grants]\nenforce = true\ndefault-subject = "shared"\n'


def _grant(patient: Patient, *pairs: tuple[str, str], serial: int = 1, **members: object) -> None:
    entries = [{"subject": subject, "device": device, **members} for subject, device in pairs]
    patient.write(reader.FILE, json.dumps({"version": 1, "serial": serial, "grants": entries}))
    line = {"serial": 1, "op": "add", "subject": "repo-a", "devices": []}
    patient.write(audit.FILE, json.dumps(line) + "\n")


def _check(report: Report) -> Check:
    (check,) = [check for check in report.checks if check.link == "grant"]
    return check


def test_a_machine_without_grants_has_no_such_link(patient: Patient) -> None:
    assert "grant" not in {check.link for check in patient.examine().checks}


def test_grants_that_no_create_is_judged_by_are_shown_as_such(patient: Patient) -> None:
    _grant(patient, ("repo-a", NAME))
    report = patient.examine()
    assert errors(report) == set()
    assert _check(report).evidence == "1 grant; not enforced at create, but by gates"


def test_a_device_is_examined_as_if_it_were_granted(patient: Patient) -> None:
    """With grants enforced every device was refused, since the doctor is no subject; its own faults were hidden."""
    patient.write("/etc/shim/config.toml", ENFORCED)
    _grant(patient, ("repo-a", NAME))
    report = patient.examine()
    assert errors(report) == set()
    assert _check(report).evidence == "1 grant; enforced at each create"
    patient.path("/dev/acme/0").unlink()
    assert errors(patient.examine(NAME)) == {"SPEC_STALE"}


def test_of_a_device_its_subjects_are_shown(patient: Patient) -> None:
    patient.write("/etc/shim/config.toml", ENFORCED)
    _grant(patient, ("repo-a", NAME), exclusive=True)
    report = patient.examine(NAME)
    assert errors(report) == set()
    assert _check(report).evidence == f"{NAME} is granted to repo-a (exclusively); enforced at each create"


def test_a_device_that_is_granted_to_nobody_has_the_command_that_grants_it(patient: Patient) -> None:
    patient.write("/etc/shim/config.toml", ENFORCED)
    _grant(patient, ("repo-a", f"{KIND}=1"))
    report = patient.examine(NAME)
    assert errors(report) == {"GRANT_MISSING"}
    (finding,) = _check(report).findings
    assert f"shim grant add SUBJECT --device {NAME}" in finding.remedy


@pytest.mark.parametrize("enforced", [True, False])
def test_grants_that_cannot_be_read_are_an_error(patient: Patient, enforced: bool) -> None:
    patient.write("/etc/shim/config.toml", ENFORCED if enforced else "")
    patient.write(reader.FILE, "junk")
    assert errors(patient.examine()) == {"GRANTS_UNREADABLE"}


def test_grants_that_others_could_have_written_are_an_error(patient: Patient) -> None:
    _grant(patient, ("repo-a", NAME))
    patient.path(reader.FILE).chmod(0o666)
    assert errors(patient.examine()) == {"GRANTS_UNREADABLE"}


def test_names_that_no_spec_serves_are_a_warning(patient: Patient) -> None:
    _grant(patient, ("repo-a", NAME), *(("repo-b", f"{KIND}=9{index}") for index in range(5)))
    report = patient.examine()
    assert errors(report) == set()
    (finding,) = _check(report).findings
    assert finding.id == "GRANT_UNSERVED"
    assert f"{KIND}=90 (of repo-b)" in finding.text
    assert finding.text.endswith("and 2 more")
    assert "GRANT_UNSERVED" not in ids(patient.examine(NAME))


def test_a_configuration_that_names_no_subject_gives_no_device(patient: Patient) -> None:
    patient.write("/etc/shim/config.toml", "[grants]\nenforce = true\n")
    _grant(patient, ("repo-a", NAME))
    assert errors(patient.examine()) == {"GRANT_MISSING"}


def test_a_subject_of_the_configuration_to_which_nothing_is_granted_is_a_warning(patient: Patient) -> None:
    patient.write("/etc/shim/config.toml", f'{ENFORCED}[grants.runtimes]\nshim-a = "repoa"\nshim-b = "repo-b"\n')
    _grant(patient, ("repo-b", NAME))
    (finding,) = _check(patient.examine()).findings
    assert (finding.id, finding.level) == ("GRANT_MISSING", WARNING)
    assert "repoa" in finding.text


def test_a_log_without_the_last_change_is_an_error(patient: Patient) -> None:
    _grant(patient, ("repo-a", NAME), serial=2)
    assert errors(patient.examine()) == {"GRANTS_AUDIT"}


@pytest.mark.parametrize(
    ("device", "hardware", "is_named"),
    [(NAME, [], True), (f"{KIND}=all", ["/dev/acme/0"], True), (f"{KIND}=1", ["/dev/acme/1"], False)],
    ids=["it has the device", "it has the same hardware by another name", "it has another device"],
)
def test_the_container_that_has_a_device_is_named(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, device: str, hardware: list[str], is_named: bool
) -> None:
    """Reservations are those of the machine that this runs on, so the healthy machine stands in for it."""
    machine = Machine(patient.host)
    monkeypatch.setattr(machine.host, "root", "/")
    monkeypatch.setattr(holders, "living", lambda: [{"id": "c1", "device": device, "hardware": hardware}])
    found = list(grants._held(machine, NAME))
    assert [(finding.id, finding.level) for finding in found] == [("GRANT_HELD", WARNING)] * is_named
    assert all("the container c1 has it now" in finding.text for finding in found)


class TestHolders:
    """Reservations of this machine, below another run directory."""

    def test_none_where_nothing_is_reserved(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(holders, "run_dir", lambda: str(tmp_path))
        assert holders.living() == []

    def test_those_of_bundles_that_are_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(holders, "run_dir", lambda: str(tmp_path))
        entry = {"name": "shim", "root": "", "id": "a", "states": [], "time": 0.0, "device": NAME, "hardware": []}
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        gone = {**entry, "id": "b", "bundle": str(tmp_path / "gone"), "boot": boot}
        earlier = {**entry, "id": "c", "bundle": str(tmp_path), "boot": "another"}
        (tmp_path / "holders").write_text(json.dumps([{**entry, "bundle": str(tmp_path), "boot": boot}, gone, earlier]))
        (tmp_path / "holders").chmod(0o600)
        assert [holder["id"] for holder in holders.living()] == ["a"]

    def test_a_damaged_file_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(holders, "run_dir", lambda: str(tmp_path))
        (tmp_path / "holders").write_text("junk")
        with pytest.raises((OSError, CdiError)):
            holders.living()
