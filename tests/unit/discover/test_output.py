"""Specs are written whole, for what is healthy, and never beside or instead of what serves more."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.discover import acme

from shim.base.findings import CdiError
from shim.cdi import directories
from shim.discover import generate, remembered
from shim.discover.generate import Outcome
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.host.host import Host

pytestmark = pytest.mark.usefixtures("only_acme")

WISH = Wish("/usr/local/bin/shim")
SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"
TARGET = Target(spec_dirs=("/etc/cdi", "/var/run/cdi"))


def run(host: Host, wish: Wish = WISH, dry_run: bool = False, **target: Any) -> Outcome:
    return generate.generate(host, wish, dataclasses.replace(TARGET, **target), ["auto"], dry_run=dry_run)


def ids(outcome: Outcome) -> list[str]:
    return [finding.id for finding in outcome.findings]


def document(top: Path, path: str = SPEC) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(Path(f"{top}{path}").read_text())
    return made


def names(top: Path, path: str = SPEC) -> list[str]:
    return [device["name"] for device in document(top, path)["devices"]]


def test_a_spec_has_every_device_and_can_be_read_by_everybody(host: Host, top: Path) -> None:
    old = os.umask(0o077)
    try:
        outcome = run(host)
    finally:
        os.umask(old)
    assert ids(outcome) == []
    assert outcome.written == {SPEC}
    assert names(top) == ["0", "1", "all", "id-0", "id-1"]
    assert stat.S_IMODE(Path(f"{top}{SPEC}").stat().st_mode) == 0o644
    assert stat.S_IMODE(Path(f"{top}/var/run/cdi").stat().st_mode) == 0o755
    assert directories.read([f"{top}/var/run/cdi"]).findings == {}
    assert os.listdir(f"{top}/var/run/cdi") == [Path(SPEC).name]


def test_an_unchanged_spec_is_not_written_again(host: Host, top: Path) -> None:
    run(host)
    before = Path(f"{top}{SPEC}").stat()
    outcome = run(host)
    assert outcome.written == set()
    assert [one.state for one in outcome.specs] == ["unchanged"]
    assert Path(f"{top}{SPEC}").stat().st_ino == before.st_ino


def test_a_spec_that_lost_its_mode_is_written_again(host: Host, top: Path) -> None:
    run(host)
    Path(f"{top}{SPEC}").chmod(0o600)
    assert run(host).written == {SPEC}
    assert stat.S_IMODE(Path(f"{top}{SPEC}").stat().st_mode) == 0o644


def test_a_dry_run_writes_nothing(host: Host, top: Path) -> None:
    outcome = run(host, dry_run=True)
    assert [one.state for one in outcome.specs] == ["new"]
    assert not Path(f"{top}/var/run/cdi").exists()
    assert not Path(f"{top}/var/lib").exists()


def test_what_is_healthy_is_written_and_what_is_not_is_reported(host: Host, top: Path) -> None:
    acme_broken = Path(f"{top}{acme.BROKEN}")
    acme_broken.parent.mkdir(parents=True)
    acme_broken.write_text("device 2 does not answer")
    outcome = run(host)
    assert ids(outcome) == ["DISCOVERY_INCOMPLETE"]
    assert outcome.written == {SPEC}


def test_where_nothing_is_found_the_vendors_are_named(top: Path) -> None:
    outcome = generate.generate(Host(str(top)), WISH, TARGET, ["auto"])
    assert ids(outcome) == ["DISCOVERY_NOTHING"]
    assert str(outcome.findings[0]) == "no device was discovered; looked for: acme"


def test_a_host_whose_driver_is_not_ready_is_told_so(top: Path) -> None:
    host = acme.machine(top)
    waits = Path(f"{top}{acme.WAITS}")
    waits.parent.mkdir(parents=True)
    waits.write_text("the module acme")
    (finding,) = generate.generate(host, WISH, TARGET, ["acme"]).findings
    assert finding.text == "no device was discovered; looked for: acme; acme waits for the module acme"


# --- another file of the kind -----------------------------------------------------------------------------------------


def other(top: Path, path: str, kind: str = acme.KIND) -> Path:
    real = Path(f"{top}{path}")
    real.parent.mkdir(parents=True, exist_ok=True)
    real.write_text(f'cdiVersion: "0.5.0"\nkind: {kind}\ndevices:\n- name: "0"\n  containerEdits: {{env: [A=B]}}\n')
    return real


@pytest.mark.parametrize(
    ("path", "effect"),
    [
        ("/var/run/cdi/acme.yaml", "no engine would serve a device of both files"),
        ("/etc/cdi/acme.json", "one of the two would hide the other"),
    ],
)
def test_beside_another_file_of_the_kind_nothing_is_written(host: Host, top: Path, path: str, effect: str) -> None:
    other(top, path)
    (finding,) = run(host).findings
    assert finding.id == "SPEC_TAKEN"
    assert finding.path == path
    assert effect in finding.text
    assert "--takeover" in finding.remedy
    assert "--class" in finding.remedy
    assert not Path(f"{top}{SPEC}").exists()


def test_the_unit_that_writes_the_other_file_is_named(host: Host, top: Path) -> None:
    other(top, "/var/run/cdi/acme.yaml")
    units = top / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    (units / "acme-cdi.service").write_text("[Service]\nEnvironmentFile=-/etc/acme.env\nExecStart=/usr/bin/acme-gen\n")
    (units / "acme-cdi.path").write_text("[Path]\nPathChanged=/dev/acme\n")
    (units / "unrelated.service").write_text("[Service]\nExecStart=/bin/true /run/cdi/acme.yaml.old\n")
    (top / "etc/acme.env").write_text("OUTPUT=/run/cdi/acme.yaml\n")
    (finding,) = run(host).findings
    assert "written by acme-cdi.service and acme-cdi.path: " in finding.text


def test_another_kind_and_another_class_are_no_conflict(host: Host, top: Path) -> None:
    other(top, "/var/run/cdi/acme.yaml")
    other(top, "/var/run/cdi/other.yaml", "other.example/gpu")
    wish = dataclasses.replace(WISH, kind="accelerator")
    assert run(host, wish).written == {"/var/run/cdi/shim-acme.example-accelerator.yaml"}


def test_the_other_format_of_our_own_spec_is_one_of_ours(host: Host, top: Path) -> None:
    run(host)
    (finding,) = run(host, format="json").findings
    assert finding.id == "SPEC_TAKEN"
    assert f"rm {SPEC}" in finding.remedy
    assert names(top) == ["0", "1", "all", "id-0", "id-1"]


def test_a_file_outside_of_the_spec_directories_conflicts_with_none(host: Host, top: Path) -> None:
    other(top, "/var/run/cdi/acme.yaml")
    outcome = run(host, file="/etc/draft.json", format="json")
    assert outcome.written == {"/etc/draft.json"}
    assert json.loads((top / "etc/draft.json").read_text())["kind"] == acme.KIND
    assert remembered.every(host) == []  # nothing would refresh it


# --- never less -------------------------------------------------------------------------------------------------------


def test_a_spec_never_loses_devices_without_being_asked(host: Host, top: Path) -> None:
    run(host)
    before = Path(f"{top}{SPEC}").read_bytes()
    (top / "dev/acme/1").unlink()
    (finding,) = run(host).findings
    assert finding.id == "SPEC_SHRINKS"
    assert finding.path == SPEC
    assert finding.text == f"it would lose {acme.KIND}=1, {acme.KIND}=id-1"
    assert Path(f"{top}{SPEC}").read_bytes() == before
    outcome = run(host, may_shrink=True)
    assert outcome.written == {SPEC}
    assert outcome.specs[0].losses == [f"{acme.KIND}=1", f"{acme.KIND}=id-1"]
    assert names(top) == ["0", "all", "id-0"]


def test_a_spec_never_loses_a_node_without_being_asked(host: Host, top: Path) -> None:
    run(host)
    (top / "dev/acmectl").unlink()
    (finding,) = run(host).findings
    assert (finding.id, finding.text) == ("SPEC_SHRINKS", "it would lose /dev/acmectl")


def test_a_spec_never_loses_a_required_library_and_a_new_version_of_it_is_none_lost(host: Host, top: Path) -> None:
    library = top / acme.LIBRARIES[1:] / "libcuda.so.535.1"
    library.write_text("")
    (library.with_name("libacme.so.1")).write_text("")
    run(host)
    library.rename(library.with_name("libcuda.so.535.2"))
    library.with_name("libacme.so.1").unlink()  # optional
    assert run(host).written == {SPEC}
    library.with_name("libcuda.so.535.2").unlink()
    (finding,) = run(host).findings
    assert (finding.id, finding.text) == ("SPEC_SHRINKS", "it would lose libcuda.so")


def test_a_file_that_is_no_spec_is_replaced(host: Host, top: Path) -> None:
    real = other(top, SPEC)
    real.write_text("devices: [")
    assert run(host).written == {SPEC}


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_a_device_that_is_not_there_is_refused(host: Host) -> None:
    with pytest.raises(CdiError, match=r"--device 7: no such device of acme.example/gpu \(there are: 0, 1\)"):
        run(host, dataclasses.replace(WISH, devices=("0", "7")))


def test_a_class_of_one_letter_is_refused(host: Host) -> None:
    outcome = run(host, dataclasses.replace(WISH, kind="x"))
    assert ids(outcome) == ["DISCOVERY_WISH"]
    assert outcome.specs == []


@pytest.mark.parametrize(
    ("mode", "id"), [(0o644, "HOOK_MISSING"), (0o757, "HOOK_UNTRUSTED")], ids=["no program", "writable by others"]
)
def test_a_hook_that_could_not_be_started_keeps_the_spec_from_being_written(
    host: Host, top: Path, mode: int, id: str
) -> None:
    (top / acme.LIBRARIES[1:] / "libacme.so.1").write_text("")
    (top / "usr/local/bin/shim").chmod(mode)
    outcome = run(host)
    assert ids(outcome) == [id]
    assert outcome.written == set()


def test_a_spec_without_hooks_needs_no_program(host: Host) -> None:
    assert run(host, dataclasses.replace(WISH, hook_path="/nowhere/shim")).written == {SPEC}


def test_a_directory_that_cannot_be_written_is_reported_and_the_status_is_kept(host: Host, top: Path) -> None:
    (top / "var/run/cdi").write_text("a file")
    assert ids(run(host)) == ["SPEC_WRITE"]
    assert remembered.every(host) == []


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_the_wish_is_kept_beside_the_spec(host: Host, top: Path) -> None:
    wish = dataclasses.replace(WISH, names=("index",), disabled_hooks=frozenset({"all"}), has_all=False)
    run(host, wish, engines=("podman=4.9.3",))
    (kept,) = remembered.every(host)
    assert kept == remembered.Remembered(SPEC, "acme", acme.KIND, "", "yaml", ("podman=4.9.3",), wish)
    (file,) = (top / "var/lib/shim/generated").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["{", "[]", '{"format_version": 9}', '{"format_version": 1, "wish": {}}'])
def test_a_damaged_file_of_ours_is_named_with_the_way_out(host: Host, top: Path, text: str) -> None:
    run(host)
    (file,) = (top / "var/lib/shim/generated").iterdir()
    file.write_text(text)
    with pytest.raises(CdiError, match="it is damaged") as caught:
        remembered.every(host)
    assert caught.value.findings[0].id == "DISCOVERY_STATE"
    assert "rm /var/lib/shim/generated/" in caught.value.findings[0].remedy


def test_files_that_others_could_have_written_do_not_count(host: Host, top: Path) -> None:
    run(host)
    (top / "var/lib/shim/generated").chmod(0o777)
    with pytest.raises(CdiError, match="what is in it does not count"):
        remembered.every(host)
