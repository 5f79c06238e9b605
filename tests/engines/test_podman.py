"""podman 4.3, rootful and rootless, with the launcher in front of runc and of crun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from engines.harness import programs
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, assert_reason, repeated, seen
from engines.harness.images import WAIT
from engines.harness.installation import Installation
from engines.harness.podman import Podman
from engines.harness.registration import Configure, Engine
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import UID, Sandbox

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


@pytest.mark.parametrize("asked", [[], [REQUEST]], ids=["alone", "beside ours"])
def test_podmans_own_device_option_gives_the_device_once(
    podman: Podman, device: FakeDevice, sandbox: Sandbox, installation: Installation, asked: list[str]
) -> None:
    """podman writes the edits into config.json itself and leaves no trace of the name; hooks must not run twice."""
    device = FakeDevice(sandbox, same_path=podman.rootless)
    device.publish()
    sandbox.run("rm", "-rf", "/run/shim/answers").ok()
    installation.forget()
    options = [f"--name=own-{len(asked)}", f"--device={NAME}", *asked]
    assert seen(podman.run(*options, script=device.probe).ok()) == WITH
    assert device.hook_calls() == 1
    assert repeated(device.config()) == []
    assert len(installation.starts()) == len(asked)


def test_an_option_for_the_runtime_asks_under_every_podman(podman: Podman, device: FakeDevice) -> None:
    """podman puts it in front of create, start, exec, kill and delete; it asks in create alone."""
    flags = [f"device={NAME}"]
    podman.record("4.3.1")
    podman.run("--detach", "--name=flag", script=f"{device.probe}\n{WAIT}", flags=flags).ok()
    assert seen(podman("exec", "flag", "/bin/sh", "-c", device.probe).ok()) == WITH
    flag = f"--runtime-flag={flags[0]}"
    assert seen(podman(flag, "exec", "flag", "/bin/sh", "-c", device.probe).ok()) == WITH
    podman(flag, "stop", "--time=5", "flag").ok()
    podman(flag, "start", "flag").ok()
    assert seen(podman("exec", "flag", "/bin/sh", "-c", device.probe).ok()) == WITH
    podman(flag, "kill", "flag").ok()
    podman(flag, "rm", "--force", "flag").ok()
    assert device.hook_calls() == 2
    podman.record("5.0")


def test_d11_the_reason_of_a_refusal_names_the_runtime_once(podman: Podman) -> None:
    """podman puts the name of the runtime in front: it was "shim: shim: DEVICE_UNKNOWN: …"."""
    ran = podman.run("--rm", BAD_REQUEST, script="true")
    assert "shim: DEVICE_UNKNOWN: " in ran.err
    assert "shim: shim: " not in ran.err


def test_it_is_told_from_standard_error_to_a_podman_that_does_not_read_the_log(podman: Podman, linked: Path) -> None:
    """As for a runtime that is given by its path, and not named anywhere."""
    ran = podman.run("--rm", BAD_REQUEST, script="true", runtime=linked)
    assert ran.status == 126
    assert_reason(ran.err)


def test_d7_a_user_s_own_configuration_counts_without_a_word_in_containers_conf(
    sandbox: Sandbox, register: Callable[[Engine], Configure]
) -> None:
    """podman hands no XDG variable to its runtime, but HOME. The file is refused, as /tmp is above: so it was read."""
    podman = Podman(sandbox, register("podman"), rootless=True)
    file = podman.directory / "home/.config/shim/config.toml"
    sandbox.run("install", "-d", "-o", str(UID), file.parent).ok()
    sandbox.run("install", "-o", str(UID), "/dev/null", file).ok()
    ran = podman.run("--rm", script="true", flags=[f"device={NAME}"])
    podman.close()
    assert ran.status != 0
    assert f"SETTINGS_UNTRUSTED: {file}: " in ran.err
