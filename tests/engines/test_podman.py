"""podman 4.3, rootful and rootless, with the launcher in front of runc and of crun."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines.harness import programs
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, assert_reason, seen
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

REQUEST = f"--annotation=cdi.k8s.io/vendor-test_one={NAME}"
BAD_REQUEST = f"--annotation=cdi.k8s.io/vendor-test_two={UNKNOWN}"


def test_an_annotation_gives_the_container_the_whole_device(podman: Podman, device: FakeDevice) -> None:
    assert seen(podman.run("--rm", REQUEST, script=device.probe).ok()) == WITH
    assert device.hook_state() is not None


def test_the_launcher_may_be_given_by_its_path(
    podman: Podman, device: FakeDevice, sandbox: Sandbox, shim: Path, low_level: RuntimeName
) -> None:
    """A name of its own, so that the low-level runtime is the one of its link and the default takes no part."""
    path = sandbox.host / "by-path"
    sandbox.run("ln", "-sf", shim, path).ok()
    sandbox.link_low_level("by-path", programs.find(low_level)[0])
    ran = podman.run("--name=by-path", REQUEST, script=device.probe, runtime=path)
    assert seen(ran.ok()) == WITH
    assert podman("inspect", "--format={{.OCIRuntime}}", "by-path").ok() == f"{path}\n"
    podman("rm", "by-path").ok()


def test_a_container_that_asks_for_nothing_gets_nothing(podman: Podman, device: FakeDevice) -> None:
    assert seen(podman.run("--rm", script=device.probe).ok()) == WITHOUT
    assert device.hook_state() is None


def test_the_life_of_an_ordinary_container(podman: Podman) -> None:
    podman.run("--detach", "--name=ordinary", script=WAIT).ok()
    assert podman("exec", "--env=WORD=hello", "ordinary", "/bin/sh", "-c", "echo $WORD").ok() == "hello\n"
    podman("restart", "--time=5", "ordinary").ok()
    podman("stop", "--time=5", "ordinary").ok()
    assert podman("inspect", "--format={{.State.ExitCode}}", "ordinary").ok() == "0\n"
    podman("rm", "ordinary").ok()


def test_a_container_keeps_its_device_over_a_restart(podman: Podman, device: FakeDevice) -> None:
    podman.run("--detach", "--name=restarted", REQUEST, script=f"{device.probe}\n{WAIT}").ok()
    podman("restart", "--time=5", "restarted").ok()
    again = seen(podman("exec", "restarted", "/bin/sh", "-c", device.probe).ok())
    assert again == WITH
    podman("rm", "--force", "--time=0", "restarted").ok()


def test_an_unknown_device_is_told_to_the_user_and_no_container_runs(podman: Podman) -> None:
    """podman takes the log of a runtime named in runtime_supports_json for exactly one JSON object."""
    ran = podman.run("--rm", "--name=unknown", BAD_REQUEST, script="true")
    assert ran.status == 126
    assert_reason(ran.err)
    assert podman("container", "exists", "unknown").status == 1


def test_it_is_told_from_standard_error_to_a_podman_that_does_not_read_the_log(podman: Podman, linked: Path) -> None:
    """As for a runtime that is given by its path, and not named anywhere."""
    ran = podman.run("--rm", BAD_REQUEST, script="true", runtime=linked)
    assert ran.status == 126
    assert_reason(ran.err)
