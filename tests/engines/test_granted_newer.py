"""Engines that inject by themselves, where grants are enforced: Debian 13's docker, and its containerd for a kubelet.

Both add the edits of CDI devices to config.json and leave no name of them, so only hardware can be judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engines.harness import debian
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri, CriError, Message
from engines.harness.device import NAME, WITH, WITHOUT, FakeDevice, seen
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.registration import Configure, Engine
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox, wait_until
from install.machine import Machine

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.usefixtures("enforced")]

SETTINGS = '[grants]\nenforce = true\ndefault-subject = "repo-a"\n'
MISSING = f"GRANT_MISSING: {NAME} is not granted to repo-a"
DEVICE = f"--device={NAME}"
CDI = 'enable_cdi = true\n  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]\n  '


@pytest.fixture(scope="module")
def low_level() -> RuntimeName:
    """What an engine injects is judged before the low-level runtime is reached."""
    return "runc"


@pytest.fixture(scope="module")
def newer(sandbox: Sandbox) -> Sandbox:
    """The sandbox with the programs of Debian 13."""
    Machine(sandbox)
    debian.cover(sandbox, "/run/overlay/machine-0/upper")
    return sandbox


@pytest.fixture
def enforced(sandbox: Sandbox) -> Iterator[None]:
    (sandbox.scratch / "etc-shim/config.toml").write_text(SETTINGS, encoding="ascii")
    yield
    for path in ("config.toml", "grants.json", "grants.lock"):
        (sandbox.scratch / "etc-shim" / path).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def docker(newer: Sandbox, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Docker]:
    by_command = register("docker")

    def configure(file: Path) -> None:
        settings = json.loads(file.read_text())
        del settings["oom-score-adjust"]  # no key since docker 25
        settings.update(features={"cdi": True})
        file.write_text(json.dumps(settings))
        by_command(file)

    engine = Docker(newer, linked, configure)
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def cri(newer: Sandbox, linked: Path, register: Callable[[Engine], Configure]) -> Iterator[Cri]:
    by_command = register("containerd")

    def configure(file: Path) -> None:
        text = file.read_text()
        assert text.count("disable_tcp_service") == 1
        file.write_text(text.replace("disable_tcp_service", f"{CDI}disable_tcp_service"))
        by_command(file)

    engine = Containerd(newer, linked, configure)
    yield Cri(newer, engine.socket, engine.directory / "cri")
    engine.stop()


def grant(sandbox: Sandbox, shim: Path, verb: str, *options: str) -> None:
    sandbox.run(shim, "grant", verb, "repo-a", "--device", NAME, *options).ok()


def test_docker_injects_nothing_that_is_not_granted(
    docker: Docker, sandbox: Sandbox, device: FakeDevice, shim: Path
) -> None:
    for way in (DEVICE, "--annotation=cdi.k8s.io/vendor-test_one=" + NAME):
        ran = docker.run("--rm", "--runtime=shim", way, script="true")
        assert (ran.status, MISSING in ran.err) == (125, True), ran.err
    assert seen(docker.run("--rm", "--runtime=shim", script=device.probe).ok()) == WITHOUT
    grant(sandbox, shim, "add")
    assert seen(docker.run("--rm", "--runtime=shim", DEVICE, script=device.probe).ok()) == WITH


def test_after_a_revocation_neither_start_nor_the_restart_policy_gives_it(
    docker: Docker, sandbox: Sandbox, shim: Path
) -> None:
    grant(sandbox, shim, "add")
    for name, options in (("stopped", ()), ("always", ("--restart=always",))):
        docker.run("--detach", f"--name={name}", "--runtime=shim", DEVICE, *options, script=WAIT).ok()
    docker("stop", "--time=0", "stopped").ok()
    grant(sandbox, shim, "revoke")
    assert MISSING in docker("start", "stopped").err
    docker("update", "--memory=64m", "--memory-swap=64m", "always").ok()
    pid = docker("inspect", "--format={{.State.Pid}}", "always").ok().strip()
    sandbox.run("kill", "-KILL", pid).ok()
    wait_until(lambda: MISSING in docker("inspect", "--format={{.State.Error}}", "always").ok(), "the refusal")
    docker("rm", "--force", "stopped", "always").ok()


def test_an_exclusive_device_is_for_one_container_of_docker_at_a_time(
    docker: Docker, sandbox: Sandbox, shim: Path
) -> None:
    grant(sandbox, shim, "add", "--exclusive")
    docker.run("--detach", "--name=first", "--runtime=shim", DEVICE, script=WAIT).ok()
    assert "GRANT_HELD" in docker.run("--rm", "--runtime=shim", DEVICE, script="true").err
    docker("rm", "--force", "first").ok()
    docker.run("--rm", "--runtime=shim", DEVICE, script="true").ok()


@pytest.mark.parametrize(
    ("annotations", "more"),
    [
        pytest.param({}, {17: {1: NAME}}, id="a field of the request"),
        pytest.param({"cdi.k8s.io/vendor-test_one": NAME}, {}, id="an annotation"),
    ],
)
def test_containerd_injects_nothing_that_is_not_granted(
    cri: Cri, sandbox: Sandbox, device: FakeDevice, shim: Path, annotations: dict[str, str], more: Message
) -> None:
    pod = cri.run_pod("granted", {})
    refused = pod.create("first", annotations, WAIT, more=more)
    with pytest.raises(CriError, match=MISSING):
        pod.start(refused)
    grant(sandbox, shim, "add")
    container = pod.create("second", annotations, f"{device.probe}\n{WAIT}", more=more)
    pod.start(container)
    assert seen(cri.output("second", "gate=")) == WITH
    grant(sandbox, shim, "revoke")
    pod.update(container, 64 << 20)
    pod.remove()
