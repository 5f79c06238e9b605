"""The units of the gate under a real systemd: activation by the socket, what is left of privileges, end and return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engines.harness import images, programs
from engines.harness.docker import Docker
from engines.harness.registration import Configure, Engine
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import UID, Result, Sandbox, wait_until
from engines.harness.systemd import Systemd

pytestmark = pytest.mark.engine

UNITS = Path(__file__).parents[2] / "packaging/systemd"
SOCKET = "/run/shim-gate/repo-a.sock"
METRICS = "/run/shim-gate/repo-a.metrics.sock"
KEPT = (1 << 19) | (1 << 2)  # CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH


@pytest.fixture(scope="module")
def low_level() -> RuntimeName:
    """The gate stands in front of the daemon: which runtime is behind it makes no difference."""
    return "runc"


@pytest.fixture(scope="module")
def systemd(sandbox: Sandbox, shim: Path, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Systemd]:
    """A systemd with the units as they are installed, and dockerd as a service of it."""
    engine = Docker(sandbox, linked, register("docker"))
    engine.stop()  # its image and its settings are there
    (dockerd,) = programs.find("dockerd")
    file = engine.directory / "daemon.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "hosts": ["unix:///run/docker.sock"]}))
    units = {unit.name: unit.read_text().replace("@bindir@", str(shim.parent)) for unit in UNITS.glob("shim-gate@*")}
    # As an administrator edits it
    units["shim-gate@repo-a.socket.d/group.conf"] = f"[Socket]\nSocketGroup={UID}\n"
    units["docker.service"] = (
        f"[Service]\nExecStart={dockerd} --config-file {file}\nEnvironment=PATH={programs.SEARCH}\n"
    )
    manager = Systemd(sandbox, units)
    manager("start", "systemd-journald.service", "docker.service", "shim-gate@repo-a.socket").ok()
    wait_until(lambda: docker(sandbox, "version", host="/run/docker.sock").status == 0, "dockerd is ready")
    yield manager
    manager.stop()


def docker(sandbox: Sandbox, *words: str, host: str = SOCKET, user: str | None = None) -> Result:
    (program,) = programs.find("docker")
    return sandbox.run(program, "--host", f"unix://{host}", *words, user=user)


def service(systemd: Systemd) -> str:
    return systemd("show", "--property=ActiveState", "--value", "shim-gate@repo-a.service").ok().strip()


def test_the_first_client_starts_the_gate(sandbox: Sandbox, systemd: Systemd) -> None:
    assert service(systemd) == "inactive"
    assert sandbox.run("stat", "--format=%a %U %g", SOCKET).ok() == f"660 root {UID}\n"
    assert "API version" in docker(sandbox, "version", user=str(UID)).ok()
    assert service(systemd) == "active"
    metrics = sandbox.run("curl", "--silent", "--unix-socket", METRICS, "http://gate/metrics").ok()
    assert 'shim_gate_grants_readable{subject="repo-a"} 1\n' in metrics


def test_it_serves_without_privileges(sandbox: Sandbox, systemd: Systemd) -> None:
    docker(sandbox, "version").ok()
    lines = (systemd.process("shim-gate@repo-a.service") / "status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert status["Name"] == "gate-repo-a"
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {KEPT}
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0


def test_containers_run_and_links_are_resolved_as_the_daemon_sees_them(sandbox: Sandbox, systemd: Systemd) -> None:
    assert systemd("is-active", "docker.service").status == 0
    run = ["run", "--rm", "--network=none"]
    assert docker(sandbox, *run, images.BUSYBOX, "id", user=str(UID)).ok().startswith("uid=0")
    link = sandbox.scratch / "tmp/link"
    link.symlink_to("/dev")
    assert "[bind-device]" in docker(sandbox, *run, f"--volume={link}:/x", images.BUSYBOX, "true").err


def test_decisions_are_in_the_journal(sandbox: Sandbox, systemd: Systemd, shim: Path) -> None:
    assert systemd("is-active", "systemd-journald.service").status == 0
    assert "[privileged]" in docker(sandbox, "run", "--privileged", images.BUSYBOX, user=str(UID)).err

    def last() -> dict[str, object]:
        logged = sandbox.run(shim, "gate", "log", "--subject=repo-a", "--output=json").ok()
        return dict((json.loads(logged)["decisions"] or [{}])[-1])

    wait_until(lambda: last().get("reason") == "privileged", "the journal has the decision")
    assert (last()["decision"], last()["uid"]) == ("deny", UID)


def test_it_ends_and_the_next_client_starts_it_again(sandbox: Sandbox, systemd: Systemd) -> None:
    docker(sandbox, "version").ok()
    systemd("stop", "shim-gate@repo-a.service").ok()
    assert service(systemd) == "inactive", "its end is no failure"
    docker(sandbox, "version").ok()
    assert service(systemd) == "active"
    systemd("stop", "shim-gate@repo-a.socket", "shim-gate@repo-a.service").ok()
    assert sandbox.run("ls", "/run/shim-gate").ok() == ""
