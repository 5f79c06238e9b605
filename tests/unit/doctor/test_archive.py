"""The archive for a bug report has the evidence, and nothing personal."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from unit.discover import acme
from unit.doctor.hosts import SPEC, Patient

from shim.base.findings import CdiError
from shim.doctor import archive, examine
from shim.doctor.machine import Machine

UUID = "2b4c6d8e-1111-2222-3333-444455556666"
SECRETS = [UUID, "/home/erika", "erika", "10.11.12.13", "52:54:00:12:34:56", "swordfish", os.uname().nodename]
SECRETS += ["tr0ub4dor", "pass word of many", "licence-2b"]


@pytest.fixture
def members(patient: Patient, tmp_path: Path) -> dict[str, str]:
    """The texts of an archive about a machine with much that is personal."""
    device = {
        "name": f"GPU-{UUID}",
        "containerEdits": {"mounts": [{"hostPath": "/home/erika/x", "containerPath": "/x"}]},
    }
    patient.spec("/etc/cdi/erika.json", kind=f"{os.uname().nodename}.example/x", devices=[device])
    variables = ["TOOL_TOKEN=tr0ub4dor", "NVIDIA_LICENSE_KEY=licence-2b", "NVIDIA_VISIBLE_DEVICES=void"]
    mount = {"hostPath": "/dev/shm", "containerPath": "/dev/shm", "options": ["mode=755"]}
    hook = {"hookName": "createContainer", "path": "/usr/bin/h", "args": ["h", "--host-driver-version=550.1"]}
    edits = {"env": variables, "mounts": [mount], "hooks": [hook]}
    patient.spec("/etc/cdi/env.json", kind="v.example/env", containerEdits=edits)
    patient.write("/etc/cdi/env.yaml", "containerEdits:\n  env:\n    - db=pass word of many\n    - kind: [\n")
    patient.write("/etc/cdi/broken.yaml", "kind: [ # of 10.11.12.13, 52:54:00:12:34:56\n")
    daemon = json.loads(patient.path("/etc/docker/daemon.json").read_text())
    patient.write("/etc/docker/daemon.json", json.dumps({**daemon, "labels": ["password=swordfish"]}))
    line: dict[str, Any] = {
        "time": "2026-01-01T00:00:00Z",
        "verb": "create",
        "id": "erika",
        "bundle": "/home/erika/b",
        "outcome": "failed",
    }
    line |= {
        "devices": {"v/c=a": "annotation x"},
        "specs": [],
        "findings": [{"id": "SPEC_STALE", "text": "/home/erika/y"}],
    }
    patient.write("/var/log/shim.log", json.dumps(line) + "\nno JSON\n")
    patient.options["environment"] = {"USER": "erika", "HOME": "/home/erika"}
    machine = Machine(patient.host)
    file = tmp_path / "report.tar.gz"
    archive.write(machine, examine(machine), str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as packed:
        opened = {name: packed.extractfile(name) for name in packed.getnames()}
        return {name: member.read().decode() for name, member in opened.items() if member}


def test_all_evidence_is_in_it(members: dict[str, str]) -> None:
    assert {"doctor.json", "host.json", "engines.json", "nodes.json", "settings.json", "log.json"} <= members.keys()
    assert json.loads(members["nodes.json"])["/dev/acmectl"][:3] == ["c", 240, 0]
    assert json.loads(members["engines.json"])["docker"]["runtimes"]["shim"]["path"] == "/usr/local/bin/shim"
    (line,) = json.loads(members["log.json"])
    assert (line["outcome"], line["findings"][0]["id"]) == ("failed", "SPEC_STALE")
    assert "SPEC_SYNTAX" in members["doctor.json"]
    assert sum(acme.KIND in text for name, text in members.items() if name.startswith("specs/")) == 1
    assert SPEC in members["doctor.json"]


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_personal_is_in_it(members: dict[str, str], secret: str) -> None:
    assert {name for name, text in members.items() if secret in text or secret in name} == set()


def test_variables_keep_their_names_and_those_of_vendors_their_values(members: dict[str, str]) -> None:
    """A spec may pass a licence key; the values of all variables were in the archive."""
    (text,) = (text for text in members.values() if "TOOL_TOKEN" in text)
    assert "NVIDIA_VISIBLE_DEVICES=void" in text
    assert "NVIDIA_LICENSE_KEY=" in text
    assert "mode=755" in text
    assert "--host-driver-version=550.1" in text


def test_only_an_earlier_archive_is_replaced(patient: Patient, tmp_path: Path) -> None:
    machine = Machine(patient.host)
    file = tmp_path / "report"
    file.write_text("mine")
    with pytest.raises(CdiError, match="is no report of shim"):
        archive.write(machine, examine(machine), str(file))
    assert file.read_text() == "mine"
    file.unlink()
    for _ in range(2):
        archive.write(machine, examine(machine), str(file))
    with pytest.raises(CdiError, match="cannot be written"):
        archive.write(machine, examine(machine), f"{tmp_path}/gone/report")
