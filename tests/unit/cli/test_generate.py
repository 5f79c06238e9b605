"""`shim cdi generate` as a user types it: on a fake machine, with a vendor of tests, and through the launcher."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result
from unit.discover import acme

import shim.cli
from shim.cli import generate
from shim.discover import takeover, vendors
from shim.host.host import Host

SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"


@pytest.fixture
def host(trusted_path: Path) -> Host:
    return acme.machine(trusted_path, "0", "1")


@pytest.fixture
def shim_cdi(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `shim cdi generate`; its result."""
    monkeypatch.setattr(vendors, "MODULES", {"acme": acme.MODULE})
    monkeypatch.setattr(generate, "Host", lambda: host)

    def run(*words: str) -> Result:
        hook = () if "--hook-path" in words else ("--hook-path", "/usr/local/bin/shim")
        return CliRunner().invoke(shim.cli.shim, ["cdi", "generate", *hook, *words], catch_exceptions=False)

    return run


def test_it_writes_specs_and_reports_each(shim_cdi: Any, trusted_path: Path) -> None:
    done = shim_cdi()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{SPEC}: written: acme.example/gpu, 5 devices\n"
    assert Path(f"{trusted_path}{SPEC}").is_file()
    assert shim_cdi().stdout == f"{SPEC}: unchanged: acme.example/gpu, 5 devices\n"


def test_a_dry_run_shows_the_diff(shim_cdi: Any, trusted_path: Path) -> None:
    done = shim_cdi("--dry-run")
    assert done.exit_code == 0
    assert f"{SPEC}: would be written" in done.stdout
    assert "+kind: acme.example/gpu\n" in done.stdout
    assert not Path(f"{trusted_path}{SPEC}").exists()


def test_the_report_is_json_too(shim_cdi: Any) -> None:
    report = json.loads(shim_cdi("-o", "json").stdout)
    assert report == {
        "specs": [
            {
                "vendor": "acme",
                "kind": "acme.example/gpu",
                "path": SPEC,
                "state": "written",
                "cdiVersion": "0.5.0",
                "devices": [f"acme.example/gpu={name}" for name in ("0", "1", "all", "id-0", "id-1")],
                "losses": [],
                "movedAside": [],
            }
        ],
        "findings": [],
    }


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
@pytest.mark.parametrize(("words", "read"), [((), yaml.safe_load), (("--format", "json"), json.loads)])
def test_a_spec_is_printed(shim_cdi: Any, trusted_path: Path, words: tuple[str, ...], read: Any, output: str) -> None:
    done = shim_cdi("--output", output, *words)
    assert read(done.stdout)["kind"] == "acme.example/gpu"
    assert not Path(f"{trusted_path}{SPEC}").exists()


def test_the_name_of_the_file_decides_the_form(shim_cdi: Any, trusted_path: Path) -> None:
    shim_cdi("--output", "/etc/acme.json")
    assert json.loads((trusted_path / "etc/acme.json").read_text())["kind"] == "acme.example/gpu"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--no-all",), ["0", "1", "id-0", "id-1"]),
        (("--device", "1", "--no-all"), ["1", "id-1"]),
        (("--device-name-strategy", "uuid"), ["all", "id-0", "id-1"]),
    ],
)
def test_devices_and_their_names_are_chosen(shim_cdi: Any, words: tuple[str, ...], names: list[str]) -> None:
    made = yaml.safe_load(shim_cdi("--output", "-", *words).stdout)
    assert [device["name"] for device in made["devices"]] == names


def test_a_directory_and_a_kind_are_chosen(shim_cdi: Any, trusted_path: Path) -> None:
    done = shim_cdi("--spec-dir", "/etc/cdi", "--class", "other.example/accel", "--format", "json")
    assert done.stdout.startswith("/etc/cdi/shim-other.example-accel.json: written")
    assert (trusted_path / "etc/cdi/shim-other.example-accel.json").is_file()


def test_numbers_are_written_when_they_are_asked_for(shim_cdi: Any) -> None:
    made = yaml.safe_load(shim_cdi("--output", "-", "--numbers").stdout)
    assert made["containerEdits"]["deviceNodes"] == [{"path": "/dev/acmectl", "type": "c", "major": 240, "minor": 0}]


def test_findings_are_on_stderr_and_the_status_is_1(shim_cdi: Any, trusted_path: Path) -> None:
    broken = Path(f"{trusted_path}{acme.BROKEN}")
    broken.parent.mkdir(parents=True)
    broken.write_text("acme 2 does not answer")
    done = shim_cdi()
    assert done.exit_code == 1
    assert done.stdout == f"{SPEC}: written: acme.example/gpu, 5 devices\n"
    assert done.stderr.startswith("ERROR DISCOVERY_INCOMPLETE: acme 2 does not answer\n")


def test_a_refused_spec_is_reported_as_such(shim_cdi: Any, trusted_path: Path) -> None:
    shim_cdi()
    (trusted_path / "dev/acme/1").unlink()
    done = shim_cdi("-o", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert report["specs"][0]["state"] == "refused"
    assert report["specs"][0]["losses"] == ["acme.example/gpu=1", "acme.example/gpu=id-1"]
    assert [finding["id"] for finding in report["findings"]] == ["SPEC_SHRINKS"]
    assert shim_cdi("--allow-shrink").exit_code == 0


def test_another_generators_file_is_moved_aside_when_that_is_asked_for(shim_cdi: Any, trusted_path: Path) -> None:
    other = trusted_path / "etc/cdi/acme.yaml"
    other.parent.mkdir()
    other.write_text(
        'cdiVersion: "0.5.0"\nkind: acme.example/gpu\ndevices: [{name: "0", containerEdits: {env: [A=B]}}]\n'
    )
    done = shim_cdi()
    assert (done.exit_code, done.stdout) == (1, f"{SPEC}: refused: acme.example/gpu, 5 devices\n")
    assert done.stderr.startswith("ERROR SPEC_TAKEN: /etc/cdi/acme.yaml: ")
    done = shim_cdi("--takeover", "--dry-run")
    assert done.exit_code == 0
    assert "\n  /etc/cdi/acme.yaml: would be moved aside\n" in done.stdout
    assert other.exists()
    done = shim_cdi("--takeover")
    assert done.exit_code == 0
    assert done.stdout == f"{SPEC}: written: acme.example/gpu, 5 devices\n  /etc/cdi/acme.yaml: moved aside\n"
    assert not other.exists()
    assert [record.path for record in takeover.taken(Host(str(trusted_path)))] == ["/etc/cdi/acme.yaml"]


def test_engines_are_offered_by_the_shells() -> None:
    offered = BashComplete(shim.cli.shim, {}, "shim", "_SHIM_COMPLETE").get_completions(
        ["cdi", "generate", "--for"], "cont"
    )
    assert [item.value for item in offered] == ["containerd="]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--output", "x", "--spec-dir", "y"), "--output names a file and --spec-dir a directory"),
        (("--output", "/dev/null"), "--output /dev/null: no file can be kept there"),
        (("--output", "/sys/x.yaml"), "--output /sys/x.yaml: no file can be kept there"),
        (("--output", "-", "--dry-run"), "--output - prints the spec"),
        (("--output", "-", "-o", "json"), "--output - prints the spec"),
        (("--output", "x.yaml", "--format", "json"), "x.yaml is the name of a yaml file"),
        (("--disable-hook", "ldconfig"), "'ldconfig' is not one of"),
        (("--device-name-strategy", "serial"), "'serial' is not one of"),
    ],
)
def test_what_makes_no_sense_is_refused(launcher: Path, words: tuple[str, ...], text: str) -> None:
    done = subprocess.run([launcher, "cdi", "generate", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert text in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--vendor", "nvidai"), "--vendor nvidai: no such vendor (there are: auto, "),
        (("--hook-path", "shim"), "--hook-path shim: it is not an absolute path"),
        (("--hook-path", "/usr/lib/shim/0.1.0-1/bin/shim"), "the next installation of shim removes that directory"),
        (("--for", "podmann=4"), "no engine of that name is known (there are: podman, "),
    ],
)
def test_names_that_are_unknown_are_refused_with_what_there_is(
    launcher: Path, words: tuple[str, ...], text: str
) -> None:
    done = subprocess.run([launcher, "cdi", "generate", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR DISCOVERY_WISH: ")
    assert text in done.stderr
