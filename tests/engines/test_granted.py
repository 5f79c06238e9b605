"""Enforced grants under real engines: who has a grant gets the device, and after its end not even a restart does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness.device import NAME, NODE_DIRECTORY, WITH, WITHOUT, FakeDevice, seen
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.sandbox import Sandbox, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("device")]

SETTINGS = '[grants]\nenforce = true\ndefault-subject = "repo-a"\n'
MISSING = f"GRANT_MISSING: {NAME} is not granted to repo-a"


@pytest.fixture
def enforced(docker: Docker, sandbox: Sandbox) -> Iterator[Docker]:
    """A docker under whose runtimes grants are enforced; nothing is granted."""
    (sandbox.scratch / "etc-shim/config.toml").write_text(SETTINGS, encoding="ascii")
    yield docker
    for path in ("config.toml", "grants.json", "grants.lock"):
        (sandbox.scratch / "etc-shim" / path).unlink(missing_ok=True)


def test_a_device_is_given_to_whom_it_is_granted(
    enforced: Docker, sandbox: Sandbox, device: FakeDevice, shim: Path
) -> None:
    assert seen(enforced.run("--rm", "--runtime=shim", script=device.probe).ok()) == WITHOUT
    assert MISSING in enforced.run("--rm", "--runtime=asks", script=device.probe).err
    sandbox.run(shim, "grant", "add", "repo-a", "--device", NAME).ok()
    assert seen(enforced.run("--rm", "--runtime=asks", script=device.probe).ok()) == WITH


@pytest.mark.parametrize(
    "option",
    [
        f"--device={NODE_DIRECTORY}/gate",
        f"--volume={NODE_DIRECTORY}/gate:/x",
        "--device-cgroup-rule=c 60:7 rw",
        "--privileged",
    ],
)
def test_the_engine_itself_gives_no_device_that_is_not_granted(
    enforced: Docker, sandbox: Sandbox, shim: Path, option: str
) -> None:
    ran = enforced.run("--rm", "--runtime=shim", option, script="true")
    assert (ran.status, MISSING in ran.err) == (125, True), ran.err
    sandbox.run(shim, "grant", "add", "repo-a", "--device", NAME).ok()
    ran = enforced.run("--rm", "--runtime=shim", option, script="true")
    # the sandbox has fewer capabilities than a privileged container gets, so that the low-level runtime refuses it
    assert (ran.err if option == "--privileged" else ran.ok()).count("GRANT_MISSING") == 0


def test_after_a_revocation_neither_start_nor_the_restart_policy_gives_it(
    enforced: Docker, sandbox: Sandbox, shim: Path
) -> None:
    sandbox.run(shim, "grant", "add", "repo-a", "--device", NAME).ok()
    for name, options in (("stopped", ()), ("always", ("--restart=always",))):
        enforced.run("--detach", f"--name={name}", "--runtime=asks", *options, script=WAIT).ok()
    enforced("stop", "--time=0", "stopped").ok()
    listed = sandbox.run(shim, "grant", "revoke", "repo-a", "--device", NAME).ok()
    assert "1 running container keeps the device until stopped" in listed
    assert MISSING in enforced("start", "stopped").err
    pid = enforced("inspect", "--format={{.State.Pid}}", "always").ok().strip()
    sandbox.run("kill", "-KILL", pid).ok()
    wait_until(lambda: MISSING in enforced("inspect", "--format={{.State.Error}}", "always").ok(), "the refusal")
    enforced("rm", "--force", "stopped", "always").ok()
