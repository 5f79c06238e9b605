"""Containers under a launcher: they are found by their monitors, and configure and remove take them into account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unit.engines.test_configure import BEFORE, Machine
from unit.engines.toy import Toy

from shim.base.findings import CdiError
from shim.engines import in_use, launcher, mentions, table, undo_records
from shim.engines.model import Location
from shim.host.host import Daemon, Host

TASKS = "/run/containerd/io.containerd.runtime.v2.task"


@pytest.fixture
def machine(trusted_path: Path, shim_path: Path) -> Machine:
    return Machine(trusted_path / "root", shim_path)


def conmon(runtime: str, id: str, *more: str) -> Daemon:
    """The monitor of a container of podman's, or without --exit-command of CRI-O's."""
    return Daemon(70, ("/usr/bin/conmon", "-c", id, "-r", runtime, "-b", f"/bundles/{id}", *more), 0.0)


def by_podman(runtime: str, id: str) -> Daemon:
    return conmon(runtime, id, "--exit-command", "/usr/bin/podman")


def with_shim(machine: Machine, namespace: str, id: str, runtime: str) -> Daemon:
    """A containerd-shim with the bundle of one container."""
    bundle = machine.root / TASKS.lstrip("/") / namespace / id
    bundle.mkdir(parents=True)
    (bundle / "runtime").write_text(runtime)
    argv = ("/usr/bin/containerd-shim-runc-v2", "-namespace", namespace, "-id", id)
    return Daemon(71, argv, 0.0, cwd=f"{TASKS}/{namespace}/{id}")


def running(machine: Machine, *processes: Daemon) -> None:
    """These processes run on the machine."""
    machine.host = Host(str(machine.root), daemons=processes)


# --- evidence ---------------------------------------------------------------------------------------------------------


def test_c3_containers_are_found_by_the_monitors_of_each_engine(machine: Machine) -> None:
    shim = machine.shim
    running(
        machine,
        by_podman(shim, "p"),
        conmon(shim, "c"),
        conmon("/usr/sbin/runc", "other"),
        with_shim(machine, "k8s.io", "k", shim),
        with_shim(machine, "k8s.io", "k-runc", "/usr/sbin/runc"),
        with_shim(machine, "moby", "d", shim),
        with_shim(machine, "default", "without-a-name", ""),
    )
    found = table.under_launchers(machine.host)
    assert [(one.engine, one.id, one.launcher) for one in found] == [
        ("containerd", "k", shim),
        ("crio", "c", shim),
        ("docker", "d", shim),
        ("podman", "p", shim),
    ]
    assert in_use.under(machine.host, f"{shim}-crun", found) == found, "a link to it is the same launcher"
    assert in_use.under(machine.host, "/usr/sbin/runc", found) == []


def test_c3_a_script_of_dockers_runtime_arguments_counts_as_the_launcher_that_it_names(machine: Machine) -> None:
    script = machine.root / "var/lib/docker/runtimes/asks"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\n{machine.shim} --device=a/b=c "$@"\n')
    script.chmod(0o755)
    running(machine, with_shim(machine, "moby", "d", "/var/lib/docker/runtimes/asks"))
    (found,) = table.under_launchers(machine.host)
    assert (found.id, found.launcher) == ("d", machine.shim)


def test_c3_a_bundle_counts_until_it_is_deleted(machine: Machine) -> None:
    """An ended container, whose process is gone, needs the runtime's delete."""
    daemon = with_shim(machine, "default", "ended", machine.shim)
    running(machine, daemon)
    assert [one.id for one in table.under_launchers(machine.host)] == ["ended"]
    (machine.root / TASKS.lstrip("/") / "default/ended/runtime").unlink()
    assert table.under_launchers(machine.host) == []


# --- configure --------------------------------------------------------------------------------------------------------


def _refusal(call: Callable[[], object]) -> str:
    with pytest.raises(CdiError) as refused:
        call()
    assert [finding.id for finding in refused.value.findings] == ["CONTAINERS_RUNNING"]
    return f"{refused.value}; {refused.value.findings[0].remedy}"


@pytest.mark.rootful
def test_c5_another_low_level_runtime_is_refused_while_containers_run(machine: Machine) -> None:
    """exec, stop and delete went to a runtime that did not know them."""
    toy = Toy()
    machine.configure(toy)
    before = machine.files()
    running(machine, conmon(machine.shim, "abc"))
    said = _refusal(lambda: machine.configure(toy, low_level="crun"))
    assert "1 container runs under" in said
    assert "crio abc" in said
    assert "kubectl drain this node; then run this again" in said
    assert machine.files() == before
    running(machine)
    machine.configure(toy, low_level="crun")
    assert str(machine.link.readlink()) == "/usr/bin/crun"


@pytest.mark.rootful
def test_c5_a_link_that_only_this_registration_uses_gets_the_new_default_runtime(machine: Machine) -> None:
    """A second link, shim-crun, was made, and the first one stayed for ever."""
    toy = Toy()
    machine.configure(toy)
    crun = b'\n[runtimes.crun]\npath = "/usr/bin/crun"\n'
    machine.config.write_bytes(machine.config.read_bytes().replace(b'default = "runc"', b'default = "crun"') + crun)
    done = machine.configure(toy)
    assert (done.link, done.linked, done.low_level) == (str(done.link), "/usr/sbin/runc", "/usr/bin/crun")
    assert [path.name for path in machine.link.parent.iterdir()] == ["shim"]
    machine.remove(toy)
    assert not machine.link.is_symlink()


@pytest.mark.rootful
def test_c5_a_link_that_another_one_needs_stays_and_goes_with_the_last_of_them(machine: Machine) -> None:
    toy, other = Toy(), Toy()
    other.name = "other"
    before = machine.files()
    machine.configure(toy)
    machine.configure(other, name="gpu", config="/etc/other.toml")
    done = machine.configure(toy, low_level="crun")
    assert done.link.endswith("/shim-crun")
    assert str(machine.link.readlink()) == "/usr/sbin/runc", "the other one needs it"
    machine.remove(other, name="gpu", config="/etc/other.toml")
    assert not machine.link.is_symlink()
    machine.remove(toy)
    assert machine.files() == before


class ByName(Toy):
    """An engine that looks for the runtime of a running container in its configuration."""

    finds_runtimes_by_name = True
    name = "podman"


def test_c3_remove_is_refused_where_the_engine_finds_runtimes_by_name(machine: Machine) -> None:
    toy = ByName()
    machine.configure(toy)
    before = machine.files()
    running(machine, by_podman(machine.shim, "abc"))
    said = _refusal(lambda: machine.remove(toy))
    assert "shim would be gone" in said
    assert "`podman stop` each" in said
    assert machine.files() == before
    running(machine, by_podman("/usr/sbin/runc", "abc"))
    assert machine.remove(toy).changed


# --- remove -----------------------------------------------------------------------------------------------------------


@pytest.mark.rootful
def test_c3_remove_keeps_the_link_while_containers_need_it(machine: Machine) -> None:
    """Without it the launcher found another runtime than theirs, and exec, stop and delete failed."""
    toy = Toy()
    before = machine.files()
    machine.configure(toy, low_level="crun")
    running(machine, with_shim(machine, "k8s.io", "abc", machine.shim))
    done = machine.remove(toy)
    (found,) = done.findings
    assert (found.id, found.level) == ("CONTAINERS_RUNNING", "WARNING")
    assert f"{launcher.LINKS}/shim -> /usr/bin/crun stays for them" in found.text
    assert machine.config.read_bytes() == BEFORE
    assert str(machine.link.readlink()) == "/usr/bin/crun"
    running(machine)
    done = machine.remove(toy)
    assert done.released == {f"{launcher.LINKS}/shim": ("/usr/bin/crun", None)}
    assert machine.files() == before


def test_c3_configure_takes_over_a_link_that_was_kept(machine: Machine) -> None:
    toy = Toy()
    before = machine.files()
    machine.configure(toy, low_level="crun")
    running(machine, with_shim(machine, "k8s.io", "abc", machine.shim))
    machine.remove(toy)
    machine.configure(toy, low_level="crun")
    running(machine)
    machine.remove(toy)
    assert machine.files() == before


def test_c14_remove_says_that_the_daemon_goes_on_knowing_the_runtime(machine: Machine) -> None:
    class Running(Toy):
        def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
            return replace(super().locate(host, config, drop_in), daemon=Daemon(77, ("toyd",), 9e9))

    machine.configure(Running())
    (found,) = machine.remove(Running()).findings
    assert (found.id, found.remedy) == ("RESTART_NEEDED", "systemctl restart toy")
    assert "process 77" in found.text


# --- uninstall --------------------------------------------------------------------------------------------------------


def test_c17_a_line_is_named_once(machine: Machine) -> None:
    """The file was among the usual ones and in a record as well."""
    file = machine.root / "etc/docker/daemon.json"
    file.parent.mkdir()
    file.write_text(f'{{"runtimes": {{"shim": {{"path": "{machine.shim}"}}}}}}\n')
    (machine.root / "etc/link.json").symlink_to("docker/daemon.json")
    records = machine.root / undo_records.SYSTEM_DIRECTORY.lstrip("/")
    records.mkdir(parents=True)
    named = ", ".join(f'{{"path": "{path}"}}' for path in ("/etc/docker/daemon.json", "/etc/link.json"))
    (records / "docker-shim-0.json").write_text(f'{{"files": [{named}]}}')
    (records / "damaged.json").write_text("{")
    found = mentions.of(machine.host, machine.shim)
    assert [(one.path, one.line) for one in found] == [("/etc/docker/daemon.json", 1)]


def test_c3_a_record_whose_state_is_closed_to_this_user_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user without root every command of `runtime` ended with "/run/runc/ID is not accessible to this user"."""
    closed = "/run/" + "a" * 5000  # the error is another one than for root's directory, and raised in the same place
    entry = {"states": [closed, "/usr"], "name": "shim", "root": "", "id": "c1"}
    monkeypatch.setattr("shim.create.record_reader.entries", lambda _: iter([{**entry, "states": [closed]}, entry]))
    assert [container.id for container in in_use.of_records(Host())] == ["c1"]
