"""`shim device setup`: inventory, specs and units in one step, and all of it undone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from unit.discover import acme

import shim.cli
from shim.cli import device
from shim.discover import inventory, setup, vendors
from shim.host.host import Host

SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"
OTHER = "/etc/cdi/acme.json"


class Systemd:
    """A systemd that remembers what is enabled, and what it was asked."""

    def __init__(self) -> None:
        self.enabled: set[str] = set()
        self.refusal = ""
        self.asked: list[tuple[str, ...]] = []

    def ask(self, *argv: str) -> str | None:
        return "enabled\n" if argv[1] == "is-enabled" and argv[2] in self.enabled else None

    def refuse(self, *argv: str) -> str:
        self.asked.append(argv)
        if self.refusal:
            return self.refusal
        change = {"enable": self.enabled.add, "disable": self.enabled.discard}.get(argv[1])
        if change:
            change(argv[-1])
        return ""


@pytest.fixture
def host(trusted_path: Path) -> Host:
    return acme.machine(trusted_path, "0", "1")


@pytest.fixture
def systemd(host: Host, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    made = Systemd()
    host.real("/run/systemd/system").mkdir(parents=True)
    host.real("/etc/systemd/system").mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(host, "ask", made.ask)
    monkeypatch.setattr(host, "refusal", made.refuse)
    return made


@pytest.fixture
def shim_setup(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `shim device setup`; its result."""
    monkeypatch.setattr(vendors, "MODULES", {"acme": acme.MODULE})
    monkeypatch.setattr(device, "Host", lambda: host)

    def run(*words: str) -> Result:
        command = ["device", "setup", "--hook-path", "/usr/local/bin/shim", *words]
        return CliRunner().invoke(shim.cli.shim, command, catch_exceptions=False)

    return run


def tree(host: Host) -> dict[str, bytes | str]:
    """Every file and link of the machine, but for what a vendor of tests counts and the lock."""
    found: dict[str, bytes | str] = {}
    for directory, _, names in os.walk(host.root):
        for name in names:
            path = Path(directory, name)
            if path.is_symlink():
                found[str(path)] = str(path.readlink())
            elif path.is_file() and "/run/acme/" not in str(path) and name != "refresh.lock":
                found[str(path)] = path.read_bytes()
    return found


def test_one_step_writes_inventory_and_specs_and_enables_the_units(
    shim_setup: Any, host: Host, systemd: Systemd
) -> None:
    done = shim_setup()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{SPEC}: written: acme.example/gpu, 5 devices",
        "/var/lib/shim/inventory.json: written: 2 devices",
        "shim-cdi-refresh.service: enabled",
        "shim-cdi-refresh.path: enabled",
    ]
    known = inventory.read(host)
    assert known and [entry.name for entry in known.devices] == ["0", "1"]
    assert systemd.enabled == set(setup.UNITS)
    assert "shim-cdi-refresh.path: is enabled" in shim_setup().stdout


def test_undo_leaves_the_machine_as_it_was(shim_setup: Any, host: Host, systemd: Systemd) -> None:
    before = tree(host)
    shim_setup()
    done = shim_setup("--undo", "--dry-run")
    assert f"{SPEC}: would be removed" in done.stdout
    assert systemd.enabled == set(setup.UNITS), "a dry run changes nothing"
    done = shim_setup("--undo")
    assert (done.exit_code, done.stderr) == (0, "")
    assert tree(host) == before
    assert systemd.enabled == set()
    assert shim_setup("--undo").stdout == "nothing was set up here\n"


def test_a_takeover_is_undone_byte_for_byte(shim_setup: Any, host: Host, systemd: Systemd) -> None:
    host.real("/etc/cdi").mkdir(parents=True)
    spec = {"cdiVersion": "0.5.0", "kind": acme.KIND, "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}
    host.real(OTHER).write_text(json.dumps(spec) + "   \n")
    before = tree(host)
    refused = shim_setup()
    assert refused.exit_code == 1
    assert OTHER in refused.stderr
    assert shim_setup("--takeover").exit_code == 0
    assert not host.real(OTHER).exists()
    done = shim_setup("--undo")
    assert f"{OTHER}: restored" in done.stdout
    assert tree(host) == before
    assert systemd.enabled == set()


def test_units_that_were_enabled_before_stay_so(shim_setup: Any, systemd: Systemd) -> None:
    systemd.enabled.add(setup.UNITS[0])
    shim_setup()
    shim_setup("--undo")
    assert systemd.enabled == {setup.UNITS[0]}


@pytest.mark.usefixtures("systemd")
def test_a_machine_without_devices_is_set_up_too(shim_setup: Any, host: Host) -> None:
    """The specs come with the driver: the units wait for it."""
    for path in host.real("/dev").rglob("*"):
        if not path.is_dir():
            path.unlink()
    host.real("/dev/acme").rmdir()
    done = shim_setup()
    assert done.exit_code == 0
    assert "DISCOVERY_NOTHING" in done.stderr
    assert "/var/lib/shim/inventory.json: written: 0 devices" in done.stdout
    known = inventory.read(host)
    assert known and known.devices == ()


def test_without_systemd_the_way_to_keep_specs_fresh_is_named(shim_setup: Any) -> None:
    done = shim_setup()
    assert done.exit_code == 0
    assert "REFRESH_UNITS" in done.stderr
    assert "shim cdi refresh --watch" in done.stderr


def test_a_unit_that_cannot_be_enabled_is_named(shim_setup: Any, systemd: Systemd) -> None:
    systemd.refusal = "Failed to enable unit: Unit file shim-cdi-refresh.service does not exist."
    done = shim_setup()
    assert done.exit_code == 0
    assert "cannot be enabled: Failed to enable unit" in done.stderr
    assert "shim-cdi-refresh.service: not enabled" in done.stdout


def test_units_are_left_alone_on_request(shim_setup: Any, systemd: Systemd) -> None:
    assert "shim-cdi-refresh" not in shim_setup("--no-units").stdout
    assert systemd.enabled == set()


@pytest.mark.usefixtures("systemd")
def test_a_dry_run_writes_nothing(shim_setup: Any, host: Host) -> None:
    before = tree(host)
    done = shim_setup("--dry-run")
    assert f"{SPEC}: would be written" in done.stdout
    assert "/var/lib/shim/inventory.json: would be written: 2 devices" in done.stdout
    assert "shim-cdi-refresh.path: would be enabled" in done.stdout
    assert tree(host) == before


def test_the_report_is_json_too(shim_setup: Any, systemd: Systemd) -> None:
    document = json.loads(shim_setup("-o", "json").stdout)
    assert document["inventory"]["path"] == "/var/lib/shim/inventory.json"
    assert [entry["name"] for entry in document["inventory"]["devices"]] == ["0", "1"]
    assert [entry["state"] for entry in document["specs"]] == ["written"]
    assert document["units"] == dict.fromkeys(setup.UNITS, "enabled")
    assert systemd.asked
    undone = json.loads(shim_setup("--undo", "-o", "json").stdout)
    assert undone["removed"] == [SPEC, "/var/lib/shim/inventory.json"]
    assert undone["units"] == dict.fromkeys(setup.UNITS, "disabled")
