"""configure, once more, remove: what is written, what is kept, what is given back. On an engine of the tests' own."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.engines.toy import CONFIG, DROP_IN, Toy

from shim.base import files
from shim.base.findings import CdiError, Finding
from shim.engines import configure, launcher, undo_records, verify
from shim.engines import remove as removal
from shim.engines.configure import Options, Outcome
from shim.engines.model import STOPS_ENGINE, Location, Registry
from shim.engines.table import ENGINES
from shim.host.host import Daemon, Host

BEFORE = b'# mine\ndefault = "runc"\n[runtimes.runc]  # the one\npath = "/usr/sbin/runc"'


class Machine:
    """A tree with the launcher, runc and crun, and the configuration of a Toy."""

    def __init__(self, root: Path, shim: Path) -> None:
        self.root = root
        self.host = Host(str(root), daemons=[])
        self.shim = str(shim)
        for name in ("usr/sbin/runc", "usr/bin/crun", "usr/bin/python3"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("")
            (root / name).chmod(0o755)
        (root / "etc").mkdir()
        # the launcher is looked at below the root as well
        for location in (shim.parent.parent,):
            (root / location.relative_to("/").parent).mkdir(parents=True)
            (root / location.relative_to("/")).symlink_to(location)
        self.config.write_bytes(BEFORE)

    @property
    def config(self) -> Path:
        return self.root / CONFIG.lstrip("/")

    @property
    def drop_in(self) -> Path:
        return self.root / DROP_IN.lstrip("/")

    @property
    def link(self) -> Path:
        return self.root / launcher.LINKS.lstrip("/") / "shim"

    def configure(self, engine: Toy, **options: Any) -> Outcome:
        return configure.configure(self.host, engine, Options(**{"path": self.shim, **options}))

    def remove(self, engine: Toy, **options: Any) -> Outcome:
        return removal.remove(self.host, engine, Options(**options))

    def files(self) -> dict[str, bytes | str]:
        """Everything below etc and the records; directories, too, except where records lie."""
        found: dict[str, bytes | str] = dict.fromkeys((str(path) for path in (self.root / "etc").rglob("*/")), "")
        for top in (self.root / "etc", self.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")):
            for path in sorted(top.rglob("*")):
                if path.is_symlink():
                    found[str(path)] = str(path.readlink())
                elif path.is_file():
                    found[str(path)] = path.read_bytes()
        return found


@pytest.fixture
def machine(trusted_path: Path, shim_path: Path) -> Machine:
    return Machine(trusted_path / "root", shim_path)


@pytest.fixture(params=[False, True], ids=["in the main file", "in a drop-in"])
def toy(request: pytest.FixtureRequest) -> Toy:
    return Toy(drop_in=request.param)


def _ids(error: pytest.ExceptionInfo[CdiError]) -> list[str]:
    return [finding.id for finding in error.value.findings]


@pytest.mark.rootful
def test_configure_registers_and_links(machine: Machine, toy: Toy) -> None:
    done = machine.configure(toy)
    registry = toy.read(machine.host, done.location)
    assert registry.runtimes["shim"].path == machine.shim
    assert registry.default == "runc"
    assert str(machine.link.readlink()) == "/usr/sbin/runc"
    assert list(done.after) == [DROP_IN if toy.drop_in else CONFIG]
    assert (machine.config.read_bytes() == BEFORE) == toy.drop_in
    assert machine.config.read_bytes().startswith(BEFORE.partition(b"[")[0])


def test_once_more_changes_nothing(machine: Machine, toy: Toy) -> None:
    machine.configure(toy)
    before, inode = machine.files(), machine.config.stat().st_ino
    assert not machine.configure(toy).changed
    assert (machine.files(), machine.config.stat().st_ino) == (before, inode)


def test_remove_gives_back_every_byte(machine: Machine, toy: Toy) -> None:
    machine.config.chmod(0o600)
    before = machine.files()
    machine.configure(toy)
    done = machine.remove(toy)
    assert done.changed
    assert machine.files() == before
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o600
    assert not machine.remove(toy).changed, "and once more there is nothing to remove"


def test_a_dry_run_says_the_same_and_writes_nothing(machine: Machine, toy: Toy) -> None:
    before = machine.files()
    would = machine.configure(toy, dry_run=True)
    assert machine.files() == before
    done = machine.configure(toy)
    assert (would.before, would.after, would.link) == (done.before, done.after, done.link)
    assert [str(one) for one in would.findings] == [str(one) for one in done.findings], "the link to come included"
    configured = machine.files()
    would = machine.remove(toy, dry_run=True)
    assert machine.files() == configured
    assert would.after == machine.remove(toy).after


def test_what_was_changed_since_stays(machine: Machine, toy: Toy) -> None:
    machine.configure(toy)
    file = machine.drop_in if toy.drop_in else machine.config
    file.write_bytes(file.read_bytes() + b'\n[mine]\nkey = "value"\n')
    machine.remove(toy)
    left = file.read_bytes()
    assert b'[mine]\nkey = "value"\n' in left
    assert b"shim]" not in left
    assert b"names" not in left


def test_a_change_between_two_configures_stays(machine: Machine) -> None:
    toy = Toy()
    machine.configure(toy)
    machine.config.write_bytes(machine.config.read_bytes().replace(b"# mine", b"# mine, and more"))
    assert machine.configure(toy, default=True).changed
    machine.remove(toy)
    assert machine.config.read_bytes().split() == BEFORE.replace(b"# mine", b"# mine, and more").split()


@pytest.mark.rootful
def test_other_options_later_are_taken_back_as_well(machine: Machine, toy: Toy) -> None:
    before = machine.files()
    machine.configure(toy)
    machine.configure(toy, default=True)
    machine.configure(toy, low_level="crun", fixed=True)
    assert str(machine.link.readlink()) == "/usr/bin/crun"
    machine.remove(toy)
    assert machine.files() == before


@pytest.mark.rootful
@pytest.mark.parametrize("first", ["gpu", "shim"])
def test_two_names_are_independent(machine: Machine, first: str) -> None:
    toy = Toy()
    machine.configure(toy)
    once = machine.config.read_bytes()
    machine.configure(toy, name="gpu")
    machine.remove(toy, name=first)
    assert (machine.config.read_bytes() == once) == (first == "gpu")
    assert machine.link.is_symlink(), "the other name needs it"
    machine.remove(toy, name="shim" if first == "gpu" else "gpu")
    assert machine.config.read_bytes() == BEFORE
    assert not machine.link.is_symlink(), "whoever made it"


def test_a_link_that_root_has_made_is_enough_for_who_may_not_write_there(machine: Machine) -> None:
    """Without root: configure wrote the same link anew, and was refused."""
    machine.link.parent.mkdir(parents=True)
    machine.link.symlink_to("/usr/sbin/runc")
    inode = machine.link.lstat().st_ino
    machine.configure(Toy())
    machine.remove(Toy())
    assert machine.link.lstat().st_ino == inode


def test_without_a_record_only_the_runtime_goes(machine: Machine) -> None:
    machine.config.write_bytes(BEFORE + b'\n[runtimes.shim]\npath = "%s"\n' % machine.shim.encode())
    machine.remove(Toy())
    assert machine.config.read_bytes() == BEFORE + b"\n"


def test_without_a_record_a_runtime_that_is_not_ours_stays(machine: Machine) -> None:
    other = BEFORE + b'\n[runtimes.shim]\npath = "/usr/sbin/runc"\n'
    machine.config.write_bytes(other)
    assert not machine.remove(Toy()).changed
    assert machine.config.read_bytes() == other


def test_remove_finds_the_file_that_configure_was_told(machine: Machine) -> None:
    toy = Toy()
    other = machine.root / "srv/toy.toml"
    other.parent.mkdir()
    other.write_bytes(BEFORE)
    machine.configure(toy, config="/srv/toy.toml")
    assert machine.remove(toy).location.config == "/srv/toy.toml"
    assert other.read_bytes() == BEFORE


def test_of_two_files_remove_takes_the_engines_own_unless_the_other_is_named(machine: Machine) -> None:
    toy = Toy()
    other = machine.root / "srv/toy.toml"
    other.parent.mkdir()
    other.write_bytes(BEFORE)
    machine.configure(toy, config="/srv/toy.toml")
    machine.configure(toy)
    machine.remove(toy)
    assert (machine.config.read_bytes(), other.read_bytes() == BEFORE) == (BEFORE, False)
    machine.remove(toy, config="/srv/toy.toml")
    assert other.read_bytes() == BEFORE


# --- refusals: nothing is changed -------------------------------------------------------------------------------------


def test_a_runtime_that_would_be_lost_stops_it(machine: Machine, toy: Toy) -> None:
    toy.forgets = ("runc",)
    before = machine.files()
    with pytest.raises(CdiError, match="runc") as refused:
        machine.configure(toy, low_level="runc")
    assert _ids(refused) == ["RUNTIME_LOST"]
    assert machine.files() == before


def test_a_drop_in_that_is_not_seen_stops_it(machine: Machine) -> None:
    toy = Toy(drop_in=True, forgets=("shim",))
    before = machine.files()
    with pytest.raises(CdiError) as refused:
        machine.configure(toy)
    assert _ids(refused) == ["DROP_IN_UNUSED"]
    assert machine.files() == before


def test_files_that_the_engine_itself_would_refuse_stop_it(machine: Machine) -> None:
    """What its own check refuses counted as not asked."""

    class Asked(Toy):
        def preview(self, host: Host, location: Location, changes: Mapping[str, bytes | None]) -> Registry | None:
            return None if changes and refuses else self.read(host.with_files(changes), location)

    before, refuses = machine.files(), True
    with pytest.raises(CdiError, match="would refuse them") as refused:
        machine.configure(Asked())
    assert _ids(refused) == ["ENGINE_CONFIG_SHAPE"]
    assert machine.files() == before
    refuses = False
    assert machine.configure(Asked()).changed


def test_a_fault_that_shows_up_afterwards_takes_everything_back(machine: Machine, toy: Toy) -> None:
    toy.wrong = [Finding("CONFIG_JSON", "new"), Finding("SOURCE_OFF", "a note does not")]
    before = machine.files()
    with pytest.raises(CdiError, match="new") as refused:
        machine.configure(toy)
    assert _ids(refused) == ["CONFIG_JSON"]
    assert machine.files() == before


@pytest.mark.rootful
def test_a_fault_of_a_second_configure_leaves_what_the_first_one_made(machine: Machine) -> None:
    """It went back to what was there before the first, so that a runtime in use was gone."""

    class NoDefault(Toy):
        def faults(self, host: Host, location: Location, registry: Registry, name: str) -> list[Finding]:
            return [Finding("CONFIG_JSON", "new")] if registry.default == name else []

    toy = NoDefault()
    machine.configure(toy)
    configured = machine.files()
    with pytest.raises(CdiError, match="new"):
        machine.configure(toy, default=True, low_level="crun", fixed=True)
    assert machine.files() == configured
    assert not machine.configure(toy).changed
    assert machine.configure(toy, low_level="crun", fixed=True).changed


@pytest.mark.rootful
def test_when_one_write_fails_the_others_are_taken_back(machine: Machine, toy: Toy) -> None:
    machine.link.parent.parent.mkdir()
    before = machine.files()
    machine.link.parent.write_text("no directory")
    with pytest.raises(CdiError) as refused:
        machine.configure(toy)
    assert _ids(refused) == ["CONFIG_WRITE"]
    machine.link.parent.unlink()
    assert machine.files() == before


@pytest.mark.rootful
def test_a_backup_that_cannot_be_kept_stops_it(machine: Machine, toy: Toy) -> None:
    (machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")).parent.mkdir(parents=True)
    (machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")).write_text("no directory")
    before = machine.files()
    with pytest.raises(CdiError) as refused:
        machine.configure(toy)
    assert _ids(refused) == ["CONFIG_BACKUP"]
    assert machine.files() == before


def test_a_launcher_that_others_can_write_is_refused(machine: Machine, toy: Toy) -> None:
    before = machine.files()
    Path(machine.shim).chmod(0o777)
    with pytest.raises(CdiError) as refused:
        machine.configure(toy)
    assert _ids(refused) == ["LAUNCHER_UNTRUSTED"]
    assert machine.files() == before


@pytest.mark.rootful
def test_a_record_that_is_damaged_is_named(machine: Machine) -> None:
    machine.configure(Toy())
    (record,) = (machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")).glob("*.json")
    record.write_text("{")
    with pytest.raises(CdiError, match=record.name) as refused:
        machine.remove(Toy())
    assert _ids(refused) == ["CONFIG_BACKUP"]


@pytest.mark.rootful
def test_what_was_in_a_secret_file_is_kept_as_secret(machine: Machine) -> None:
    machine.config.write_bytes(BEFORE + b'\npassword = "x"\n')
    machine.config.chmod(0o600)
    machine.configure(Toy())
    location = machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in location.iterdir()} == {"0o600"}
    assert stat.S_IMODE(location.stat().st_mode) == 0o700
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o600


def test_a_crash_in_the_middle_leaves_a_way_back(machine: Machine, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is complete before the first file changes, so remove works after a kill at any write."""
    before = machine.files()
    write, count = files.write, 0

    class Killed(BaseException):
        pass

    for last in range(1, 4):
        count = 0

        def dying(path: Any, data: bytes, *, mode: int = 0o644, last: int = last) -> None:
            nonlocal count
            count += 1
            if count > last:
                raise Killed
            write(path, data, mode=mode)

        monkeypatch.setattr(files, "write", dying)
        try:
            machine.configure(toy)
        except Killed:
            pass
        monkeypatch.setattr(files, "write", write)
        machine.remove(toy)
        for path in (machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")).glob("*.[0-9]"):
            path.unlink()  # a copy that no record names
        assert machine.files() == before, f"killed behind write {last}"


# --- what verify says for every engine --------------------------------------------------------------------------------


def _found(machine: Machine, toy: Toy) -> dict[str, Finding]:
    from shim.engines import verify

    location = toy.locate(machine.host)
    return {finding.id: finding for finding in verify.findings(machine.host, toy, location, "shim")}


def test_a_good_registration_has_only_the_note_about_images(machine: Machine, toy: Toy) -> None:
    machine.configure(toy)
    assert set(_found(machine, toy)) == {"SOURCE_OFF"}


def test_a_run_directory_that_is_not_ours_is_told(machine: Machine, toy: Toy) -> None:
    machine.configure(toy)
    directory = machine.root / "run/shim"
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    assert set(_found(machine, toy)) == {"SOURCE_OFF", "RUN_DIR_UNTRUSTED"}
    directory.chmod(0o755)
    assert set(_found(machine, toy)) == {"SOURCE_OFF"}


def test_a_handler_that_is_missing_is_named_with_what_is_there(machine: Machine, toy: Toy) -> None:
    machine.config.write_bytes(BEFORE + b'\n[runtimes.shin]\npath = "/usr/bin/crun"\n')
    found = _found(machine, toy)["HANDLER_MISSING"]
    assert found.text == "there is no runtime shim; there are shin, runc"


def test_a_program_that_is_missing_is_named(machine: Machine, toy: Toy) -> None:
    machine.config.write_bytes(BEFORE + b'\n[runtimes.other]\npath = "/opt/gone"\n')
    assert "/opt/gone" in _found(machine, toy)["RUNTIME_BINARY_MISSING"].text


def test_to_be_the_default_is_told_unless_it_was_asked_for(machine: Machine) -> None:
    toy = Toy()
    machine.configure(toy)
    text = machine.config.read_bytes()
    machine.config.write_bytes(text.replace(b'default = "runc"', b'default = "shim"'))
    assert "before it was runc" in _found(machine, toy)["RUNTIME_DEFAULT"].text
    machine.config.write_bytes(text)
    machine.configure(toy, default=True)
    assert "RUNTIME_DEFAULT" not in _found(machine, toy)


def test_another_default_than_before_is_told(machine: Machine) -> None:
    toy = Toy()
    machine.configure(toy)
    data = machine.config.read_bytes().replace(b'default = "runc"', b'default = "crun"')
    machine.config.write_bytes(data + b'\n[runtimes.crun]\npath = "/usr/bin/crun"\n')
    found = _found(machine, toy)
    assert "it was runc" in found["RUNTIME_DEFAULT"].text
    assert "/usr/bin/crun" in found["LOWLEVEL_MISMATCH"].text


@pytest.mark.rootful
def test_a_low_level_runtime_that_is_gone_is_told(machine: Machine, toy: Toy) -> None:
    machine.configure(toy)
    (machine.root / "usr/sbin/runc").unlink()
    assert "/usr/sbin/runc" in _found(machine, toy)["LOWLEVEL_MISSING"].text


@pytest.mark.parametrize(("later", "needed"), [(-1.0, False), (0.009, False), (0.02, True)])
def test_c17_a_daemon_that_was_started_within_the_tick_of_a_change_has_read_it(
    machine: Machine, later: float, needed: bool
) -> None:
    """A process has its start in hundredths of a second, rounded down: a restart in the same one was a false alarm."""
    findings = restart(machine, Daemon(9, ("/usr/bin/toyd",), 0.0), later)
    assert findings == (["RESTART_NEEDED"] if needed else [])


def test_c17_the_younger_of_two_processes_counts_while_the_older_one_ends(machine: Machine) -> None:
    older = Daemon(8, ("/usr/bin/toyd",), -100.0)
    other = Daemon(9, ("/usr/bin/toyd", "--config=/other"), 0.0)
    assert restart(machine, older, -1.0, Daemon(9, ("/usr/bin/toyd",), 0.0)) == []
    assert restart(machine, older, -1.0, other) == ["RESTART_NEEDED"], "another one is no successor"


def restart(machine: Machine, daemon: Daemon, later: float, *others: Daemon) -> list[str]:
    """RESTART_NEEDED, for processes by seconds from a time at which, with that much added, the file was changed."""
    os.utime(machine.config, (1000 + later, 1000 + later))
    processes = [replace(process, started=process.started + 1000) for process in (daemon, *others)]
    host, toy = Host(machine.host.root, daemons=processes), Toy()
    location = replace(toy.locate(host), daemon=processes[0])
    return [found.id for found in verify.findings(host, toy, location, "shim") if found.id == "RESTART_NEEDED"]


def test_a_daemon_that_is_older_than_its_files_must_be_restarted(machine: Machine) -> None:
    class Running(Toy):
        def locate(self, host: Host, config: str = "", drop_in: str = "") -> Any:
            location = super().locate(host, config, drop_in)
            started = machine.config.stat().st_mtime + age
            return type(location)("toy", location.config, daemon=Daemon(77, ("toyd",), started))

    age = -10.0
    found = _found(machine, Running())["RESTART_NEEDED"]
    assert "77" in found.text
    assert "systemctl restart toy" in found.remedy
    age = 10.0
    assert "RESTART_NEEDED" not in _found(machine, Running())


@pytest.mark.parametrize(
    ("engine", "layout", "command"),
    [
        ("crio", "", "systemctl restart crio"),
        ("containerd", "k3s", "systemctl restart k3s (on an agent: k3s-agent)"),
        ("containerd", "snap", "microk8s stop && microk8s start"),
        ("docker", "snap", "snap restart docker"),
        ("docker", "rootless", "systemctl --user restart docker"),
    ],
)
def test_who_brought_an_engine_restarts_it(engine: str, layout: str, command: str) -> None:
    assert ENGINES[engine].restart_command(Location(engine, "/etc/x", layout=layout)) == command


@pytest.mark.parametrize(
    ("enforcing", "allowed", "told"),
    [("1", "0 0", True), ("1", "1 1", False), ("0", "0 0", False)],
    ids=["enforcing, devices forbidden", "enforcing, devices allowed", "permissive"],
)
def test_selinux_is_told_where_it_would_refuse(machine: Machine, enforcing: str, allowed: str, told: bool) -> None:
    location = machine.root / "sys/fs/selinux/booleans"
    location.mkdir(parents=True)
    (location / "container_use_devices").write_text(allowed)
    (location.parent / "enforce").write_text(enforcing)
    found = _found(machine, Toy())
    assert ("SELINUX_DEVICES" in found) == told
    if told:
        assert found["SELINUX_DEVICES"].remedy == "setsebool -P container_use_devices on"


# [sources] of shim's configuration -> id, words of the text, words of the remedy, for each finding about sources
SOURCES: dict[str, list[tuple[str, str, str]]] = {
    "": [
        (
            "SOURCE_OFF",
            "such as NVIDIA_VISIBLE_DEVICES, and mounts below /var/run/nvidia-container-devices, ask for nothing here: "
            "sources.environment and sources.mounts are off",
            'ask shim nicely. Or switch it on: environment = "privileged" or "any" and mounts = "privileged" or "any" '
            'below [sources] in /etc/shim/config.toml; with "privileged"',
        )
    ],
    'environment = "privileged"': [("SOURCE_OFF", "mounts below", "ask shim nicely. Or switch it on: mounts =")],
    'environment = "privileged"\nmounts = "privileged"': [],
    'environment = "any"\nmounts = "privileged"': [
        (
            "SOURCE_ANY",
            'sources.environment is "any": every image gets the devices that it names, by variables',
            "ask shim nicely; then take sources.environment out",
        )
    ],
    'environment = "every"': [("SETTINGS", "sources.environment must be", "")],
}


@pytest.mark.rootful
@pytest.mark.parametrize(
    ("text", "expected"), SOURCES.items(), ids=lambda value: value or "none" if isinstance(value, str) else ""
)
def test_what_images_can_ask_is_told_with_the_ways_that_there_are(
    machine: Machine, toy: Toy, text: str, expected: list[tuple[str, str, str]]
) -> None:
    machine.configure(toy)
    if text:
        (machine.root / "etc/shim/config.toml").write_text(f"[sources]\n{text}\n")
    found = _found(machine, toy)
    assert set(found) == {id for id, _, _ in expected}
    for id, words, remedy in expected:
        assert words in found[id].text
        assert remedy in found[id].remedy


@pytest.mark.rootful
def test_a_record_is_json_that_a_person_can_read(machine: Machine) -> None:
    machine.configure(Toy())
    (record,) = (machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")).glob("*.json")
    said = json.loads(record.read_text())
    assert (said["engine"], said["name"], said["files"][0]["path"]) == ("toy", "shim", CONFIG)


# --- what stops configure, and what it only says ----------------------------------------------------------------------


def test_c1_a_fault_that_is_not_ours_is_a_warning(machine: Machine, toy: Toy) -> None:
    """The files were written, and the status was 1 for ever, although nothing of it was ours."""
    machine.config.write_bytes(BEFORE + b'\n[runtimes.other]\npath = "/opt/gone"\n')
    toy.always = [Finding("CONFIG_DEAD_SECTION", "of another")]
    for _ in range(2):
        levels = {finding.id: finding.level for finding in machine.configure(toy).findings}
        assert levels["RUNTIME_BINARY_MISSING"] == levels["CONFIG_DEAD_SECTION"] == "WARNING"


@pytest.mark.parametrize(
    "fault",
    [
        Finding("CONFIG_FLAG", "dockerd does not start with a key in both"),
        Finding("CONFIG_DEAD_SECTION", "dockerd does not start with it", rule=STOPS_ENGINE),
        Finding("RUNTIME_IGNORED", "our table has no effect"),
    ],
    ids=lambda fault: fault.id,
)
def test_c1_what_makes_our_registration_useless_is_refused_before_writing(
    machine: Machine, toy: Toy, fault: Finding
) -> None:
    toy.always = [fault]
    before = machine.files()
    with pytest.raises(CdiError) as refused:
        machine.configure(toy)
    assert _ids(refused) == [fault.id]
    assert machine.files() == before
    assert [one.level for one in machine.configure(toy, dry_run=True).findings if one.id == fault.id] == ["ERROR"]


def test_c1_a_table_of_ours_that_a_later_file_replaces_is_refused(machine: Machine) -> None:
    class Replaced(Toy):
        def read(self, host: Host, location: Location) -> Registry:
            registry = super().read(host, location)
            if "shim" in registry.runtimes:
                registry.runtimes["shim"].path = "/usr/bin/crun"
            return registry

    before = machine.files()
    with pytest.raises(CdiError, match="a file that is read later makes /usr/bin/crun the runtime shim") as refused:
        machine.configure(Replaced())
    assert _ids(refused) == ["DROP_IN_UNUSED"]
    assert machine.files() == before


@pytest.mark.rootful
def test_c9_dry_runs_of_two_engines_plan_what_the_runs_do(machine: Machine) -> None:
    """One link was planned for both, although the second engine gets another one."""
    toy, other = Toy(), Toy()
    other.name = "other"
    (machine.root / "etc/other.toml").write_bytes(BEFORE.replace(b"/usr/sbin/runc", b"/usr/bin/crun"))
    calls: list[tuple[Toy, dict[str, str]]] = [(toy, {}), (other, {"config": "/etc/other.toml"})]
    before = machine.files()
    real, machine.host = machine.host, machine.host.rehearsal()
    would = [machine.configure(engine, dry_run=True, **options) for engine, options in calls]
    assert machine.files() == before
    machine.host = real
    done = [machine.configure(engine, **options) for engine, options in calls]
    assert [(one.link, one.low_level, one.after) for one in would] == [
        (one.link, one.low_level, one.after) for one in done
    ]
    assert [one.link.rpartition("/")[2] for one in done] == ["shim", "shim-crun"]
    machine.host = real.rehearsal()
    would = [machine.remove(engine, dry_run=True, **options) for engine, options in calls]
    machine.host = real
    done = [machine.remove(engine, **options) for engine, options in calls]
    assert [(one.released, one.after) for one in would] == [(one.released, one.after) for one in done]
    assert all(one.released for one in done)


def test_c14_the_name_of_another_runtime_is_told(machine: Machine, toy: Toy) -> None:
    """`--name runc` put shim in the place of the engine's own runc, without a word."""
    for dry_run in (True, False):
        found = {one.id: one for one in machine.configure(toy, name="runc", dry_run=dry_run).findings}
        assert found["RUNTIME_REPLACED"].text.startswith("the runtime runc of toy was /usr/sbin/runc")
        assert found["RUNTIME_REPLACED"].level == "WARNING"
    assert "RUNTIME_REPLACED" not in {one.id for one in machine.configure(toy, name="gpu").findings}


def test_c14_an_engine_that_is_not_installed_is_told(machine: Machine) -> None:
    toy = Toy()
    assert "ENGINE_ABSENT" in {one.id for one in machine.configure(toy).findings}
    assert "ENGINE_ABSENT" not in {one.id for one in machine.configure(toy, config=CONFIG).findings}, "it was named"


def test_c14_without_root_the_remedy_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was "check that the directory is writable and has space left"."""

    def remedy(error: OSError) -> str:
        return undo_records.refused("CONFIG_WRITE", "no", error, "/etc/x").findings[0].remedy

    assert remedy(PermissionError(13, "x")) != "run it as root"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert remedy(PermissionError(13, "x")) == "run it as root"
    assert remedy(OSError(28, "x")) != "run it as root"
