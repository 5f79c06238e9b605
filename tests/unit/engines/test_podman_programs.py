"""podman copied annotations of images until 4.6: which programs are recorded, and what verify says of each version."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from unit.engines import trees

from shim.base.findings import CdiError, Finding
from shim.engines import configure, verify
from shim.engines import remove as removal
from shim.engines.configure import Options, Outcome
from shim.engines.table import ENGINES
from shim.host import podman_programs
from shim.host.host import Host

podman = ENGINES["podman"]

RECORD = podman_programs.SYSTEM_FILE
HOOK = "/etc/containers/oci/hooks.d/shim-precreate.json"

pytestmark = pytest.mark.usefixtures("stub_versions")


class Machine:
    """A copy of a tree, with the launcher in it."""

    def __init__(self, tree: str, root: Path, shim: Path) -> None:
        shutil.copytree(trees.CONFIGS / "podman" / tree, root)
        for name in ("usr/bin/python3", "usr/sbin/runc"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch(0o755)
        installed = root / str(shim.parent.parent)[1:]
        installed.parent.mkdir(parents=True)
        installed.symlink_to(shim.parent.parent)
        self.root, self.shim = root, str(shim)
        self.host = Host(str(root), daemons=[])

    def podman(self, version: str, path: str = "usr/bin/podman") -> None:
        """Install another podman, as a package does: a new file in the place of the old one."""
        new = self.root / f"{path}.new"
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(f"#!/bin/sh\necho podman version {version}\n")
        new.chmod(0o755)
        new.replace(self.root / path)

    def configure(self, *, hook: bool = False, dry_run: bool = False, name: str = "shim") -> Outcome:
        return configure.configure(self.host, podman, Options(name, self.shim, hook=hook, dry_run=dry_run))

    def remove(self, name: str = "shim") -> None:
        removal.remove(self.host, podman, Options(name))

    def recorded(self) -> dict[str, tuple[int, ...]]:
        """What a create would know of the programs."""
        record = str(self.root / RECORD[1:])
        found = {}
        for program in podman_programs.read(record):
            is_current = program.is_file((self.root / program.path[1:]).stat())
            found[program.path] = program.version if is_current else ()
        return found

    def findings(self, name: str = "shim") -> dict[str, Finding]:
        """What verify says about podman and its annotations."""
        every = verify.findings(self.host, podman, podman.locate(self.host), name)
        return {one.id: one for one in every if one.id.startswith(("PODMAN_", "SOURCE_ANY"))}

    def files(self) -> dict[str, bytes | str]:
        found: dict[str, bytes | str] = {}
        for path in self.root.rglob("*"):
            if path.is_symlink():
                found[str(path)] = str(path.readlink())
            elif path.is_file():
                found[str(path)] = path.read_bytes()
        return found


@pytest.fixture
def machine(trusted_path: Path, shim_path: Path) -> Machine:
    return Machine("debian-12", trusted_path / "root", shim_path)


# tree -> the version that is recorded, and what verify says when the runtime is registered
VERSIONS = {
    "nvidia-hook": ((3, 4, 4), {"PODMAN_ANNOTATIONS"}),
    "debian-12": ((4, 3, 1), {"PODMAN_ANNOTATIONS"}),
    "rhel-8": ((4, 6, 1), set()),
    "inline": ((4, 9, 4), set()),
    "rootless": ((5, 4, 2), set()),
    "fedora-42": ((5, 8, 6), set()),
    "podman-6": ((6, 0, 0), set()),
}


@pytest.mark.rootful
@pytest.mark.parametrize(("tree", "version", "ids"), [(tree, *said) for tree, said in VERSIONS.items()], ids=VERSIONS)
def test_configure_records_the_version_and_verify_goes_by_it(
    tree: str, version: tuple[int, ...], ids: set[str], trusted_path: Path, shim_path: Path
) -> None:
    machine = Machine(tree, trusted_path / "root", shim_path)
    before = machine.files()
    planned = machine.configure(dry_run=True)
    assert machine.files() == before
    done = machine.configure()
    assert planned.after == done.after, "a dry run shows the record as well"
    assert machine.recorded() == {"/usr/bin/podman": version}
    assert machine.findings().keys() == ids
    assert {one.id for one in planned.findings} == {one.id for one in done.findings}
    assert not machine.configure().changed
    machine.remove()
    assert machine.files() == before, "remove takes the record back"


def test_the_warning_names_the_ways_that_exist_in_this_version(machine: Machine) -> None:
    """An image with `cdi.k8s.io/x: vendor.com/class=dev0` in its manifest got the device; verify said nothing."""
    machine.configure()
    found = machine.findings()["PODMAN_ANNOTATIONS"]
    assert found.text.startswith("podman 4.3.1 (/usr/bin/podman) copies the annotations of an image")
    assert "podman's own `--device KIND=NAME`" in found.remedy
    assert "`podman --runtime shim --runtime-flag device=KIND=NAME run" in found.remedy
    machine.podman("4.0.2")
    assert "own `--device" not in machine.findings()["PODMAN_ANNOTATIONS"].remedy, "4.1 is the first that knows CDI"


# sources.podman-annotations -> what verify says under podman 4.3.1, and of a podman 5 that is not recorded
STATES = {
    "refuse": ("PODMAN_ANNOTATIONS", "is not started", ["PODMAN_CHANGED"]),
    "ignore": ("PODMAN_ANNOTATIONS", "starts without its device", ["PODMAN_CHANGED"]),
    "any": ("SOURCE_ANY", "every image gets the devices that it names, by an annotation, under podman 4.3.1", []),
}


@pytest.mark.parametrize(("state", "said"), STATES.items(), ids=STATES)
def test_the_configuration_decides_what_becomes_of_an_annotation(
    machine: Machine, state: str, said: tuple[str, str, list[str]]
) -> None:
    id, words, of_unknown = said
    (machine.root / "etc/shim").mkdir()
    (machine.root / "etc/shim/config.toml").write_text(f'[sources]\npodman-annotations = "{state}"\n')
    machine.configure()
    assert machine.findings().keys() == {id}
    assert words in machine.findings()[id].text
    machine.podman("5.0.0")
    assert list(machine.findings()) == of_unknown
    machine.podman("4.5.0")
    with pytest.raises(CdiError, match="every image can ask" if state == "any" else "gives no device"):
        machine.configure(hook=True)


def test_every_podman_of_the_host_is_recorded_and_a_link_to_one_is_the_same(machine: Machine) -> None:
    machine.podman("5.8.6", "usr/local/bin/podman")
    (machine.root / "bin").symlink_to("usr/bin")
    machine.configure()
    assert machine.recorded() == {"/usr/local/bin/podman": (5, 8, 6), "/usr/bin/podman": (4, 3, 1)}
    assert "(/usr/bin/podman)" in machine.findings()["PODMAN_ANNOTATIONS"].text


def test_after_an_upgrade_configure_has_to_run_again(trusted_path: Path, shim_path: Path) -> None:
    machine = Machine("fedora-42", trusted_path / "root", shim_path)
    machine.configure()
    assert machine.findings() == {}
    machine.podman("5.9.0")
    found = machine.findings()["PODMAN_CHANGED"]
    assert found.level == "ERROR", "whoever asks by annotation is refused"
    assert "is podman 5.9.0 now, and podman 5.8.6 was recorded there" in found.text
    assert found.remedy == "run `shim runtime configure --engine podman` again"
    assert list(machine.configure().after) == [RECORD]
    assert (machine.findings(), machine.recorded()) == ({}, {"/usr/bin/podman": (5, 9, 0)})


def test_a_registration_of_an_earlier_shim_has_no_record_and_that_is_said(trusted_path: Path, shim_path: Path) -> None:
    machine = Machine("fedora-42", trusted_path / "root", shim_path)
    machine.configure(name="gpu")
    (machine.root / RECORD[1:]).unlink()
    found = machine.findings("gpu")["PODMAN_CHANGED"]
    assert "and it is not recorded" in found.text
    assert found.remedy == "run `shim runtime configure --engine podman --name gpu` again"


def test_without_a_runtime_of_ours_podman_may_be_of_any_version(machine: Machine) -> None:
    assert machine.findings() == {}


def test_a_program_that_is_gone_is_no_longer_recorded_and_one_elsewhere_stays(machine: Machine) -> None:
    machine.podman("5.8.6", "usr/local/bin/podman")
    machine.podman("5.0.0", "opt/podman")  # recorded when PATH had its directory
    machine.configure()
    record = machine.root / RECORD[1:]
    status = (machine.root / "opt/podman").stat()
    record.write_text(f"{podman_programs.Program(status, (5, 0, 0), '/opt/podman')}\n{record.read_text()}")
    (machine.root / "usr/local/bin/podman").unlink()
    machine.configure(name="other")
    assert machine.recorded() == {"/opt/podman": (5, 0, 0), "/usr/bin/podman": (4, 3, 1)}


def test_two_runtimes_share_the_record_and_the_last_one_takes_it_back(machine: Machine) -> None:
    before = machine.files()
    machine.configure()
    machine.configure(name="other")
    machine.podman("4.4.0")
    machine.configure(name="other")
    machine.remove()
    assert machine.recorded() == {"/usr/bin/podman": (4, 4, 0)}
    machine.remove("other")
    machine.podman("4.3.1")
    assert machine.files() == before


def test_whatever_the_umask_is_users_without_root_can_read_the_record(machine: Machine) -> None:
    """Directories were made with the caller's umask: under 077 nobody else could have read a file in them."""
    old = os.umask(0o077)
    try:
        machine.configure()
    finally:
        os.umask(old)
    for path, mode in ((RECORD, 0o644), ("/var/lib/shim", 0o755), ("/etc/containers/containers.conf.d", 0o755)):
        assert (machine.root / path[1:]).stat().st_mode & 0o7777 == mode, path


@pytest.mark.rootful
def test_a_user_without_root_has_a_record_of_his_own(trusted_path: Path, shim_path: Path) -> None:
    machine = Machine("rootless", trusted_path / "root", shim_path)
    machine.host = Host(str(machine.root), daemons=[], user=1000, environment={"HOME": "/home/alice"})
    assert "/home/alice/.local/state/shim/podman-programs" in machine.configure(dry_run=True).after
    machine.host.environment["XDG_STATE_HOME"] = "/home/alice/state"
    assert "/home/alice/state/shim/podman-programs" in machine.configure(dry_run=True).after


# --- the precreate hook -----------------------------------------------------------------------------------------------


def test_a_hook_is_refused_where_images_could_ask_by_it(machine: Machine) -> None:
    """`configure --hook` made every image's annotation a request, without any runtime of ours."""
    before = machine.files()
    with pytest.raises(CdiError) as refused:
        machine.configure(hook=True)
    (found,) = refused.value.findings
    assert (found.id, found.level) == ("PODMAN_HOOK", "ERROR")
    assert "podman 4.3.1 (/usr/bin/podman)" in found.text
    assert "--runtime-flag device=KIND=NAME" in found.remedy
    assert machine.files() == before
    machine.podman("4.6.0")
    assert HOOK in machine.configure(hook=True).after


def test_one_older_podman_among_others_is_enough_to_refuse(trusted_path: Path, shim_path: Path) -> None:
    machine = Machine("fedora-42", trusted_path / "root", shim_path)
    machine.podman("4.5.1", "usr/local/bin/podman")
    with pytest.raises(CdiError, match="4\\.5\\.1"):
        machine.configure(hook=True)


def test_a_hook_that_is_there_already_is_an_error(trusted_path: Path, shim_path: Path) -> None:
    machine = Machine("fedora-42", trusted_path / "root", shim_path)
    machine.configure(hook=True)
    assert machine.findings() == {}
    machine.podman("4.5.1")
    found = machine.findings()
    assert [(one.id, one.path) for one in found.values()] == [("PODMAN_HOOK", HOOK)]
    machine.podman("5.8.7")
    assert machine.findings()["PODMAN_CHANGED"].remedy == "run `shim runtime configure --engine podman --hook` again"


def test_a_hook_is_verified_as_one_before_it_is_there(trusted_path: Path, shim_path: Path) -> None:
    """A dry run said HANDLER_MISSING, with status 1, of what the real run did without a fault."""
    machine = Machine("fedora-42", trusted_path / "root", shim_path)
    planned, done = machine.configure(hook=True, dry_run=True), machine.configure(hook=True)
    assert [one.id for one in planned.findings] == [one.id for one in done.findings]
    assert "HANDLER_MISSING" not in {one.id for one in done.findings}
    other = verify.findings(machine.host, podman, podman.locate(machine.host), "gpu")
    assert "HANDLER_MISSING" in {one.id for one in other}, "nobody registered gpu"
