"""exec sees the variables of the container's devices, although engines take its environment from their own records."""

from __future__ import annotations

import pytest
from engines.harness.containerd import Containerd
from engines.harness.device import NAME
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

REQUEST = f"--annotation=cdi.k8s.io/vendor-test_one={NAME}"
TELL = ["/bin/sh", "-c", "echo ${SHIM_TEST-absent}"]


def test_podman_exec_sees_the_variable_and_what_the_user_says_wins(podman: Podman) -> None:
    podman.run("--detach", "--name=with", REQUEST, script=WAIT).ok()
    podman.run("--detach", "--name=without", script=WAIT).ok()
    assert podman("exec", "with", *TELL).ok() == "one\n"
    assert podman("exec", "--env=SHIM_TEST=mine", "with", *TELL).ok() == "mine\n"
    assert podman("exec", "--env=SHIM_TEST=", "with", *TELL).ok() == "\n"
    assert podman("exec", "without", *TELL).ok() == "absent\n"


def test_a_variable_of_the_container_is_replaced_but_not_one_of_the_exec(podman: Podman) -> None:
    podman.run("--detach", "--name=old", "--env=SHIM_TEST=old", REQUEST, script=WAIT).ok()
    assert podman("exec", "old", *TELL).ok() == "one\n"
    assert podman("exec", "--env=SHIM_TEST=new", "old", *TELL).ok() == "new\n"


def test_after_a_restart_too(podman: Podman) -> None:
    podman.run("--detach", "--name=again", REQUEST, script=WAIT).ok()
    podman("restart", "--time=5", "again").ok()
    assert podman("exec", "again", *TELL).ok() == "one\n"


def test_docker_exec_sees_the_variable_and_what_the_user_says_wins(docker: Docker) -> None:
    docker.run("--detach", "--name=with", "--runtime=asks", script=WAIT).ok()
    docker.run("--detach", "--name=without", "--runtime=shim", script=WAIT).ok()
    assert docker("exec", "with", *TELL).ok() == "one\n"
    assert docker("exec", "--env=SHIM_TEST=mine", "with", *TELL).ok() == "mine\n"
    assert docker("exec", "without", *TELL).ok() == "absent\n"
    docker("rm", "--force", "with", "without").ok()


def test_an_exec_of_containerd_sees_the_variable(containerd: Containerd) -> None:
    containerd.run("with", "--detach", REQUEST, script=WAIT).ok()
    containerd.run("without", "--detach", script=WAIT).ok()
    assert containerd.ctr("task", "exec", "--exec-id=1", "with", *TELL).ok() == "one\n"
    assert containerd.ctr("task", "exec", "--exec-id=1", "without", *TELL).ok() == "absent\n"
    for name in ("with", "without"):
        containerd.ctr("task", "delete", "--force", name).ok()


def test_without_a_process_file_the_low_level_runtime_begins_with_config_json(
    sandbox: Sandbox, runtime: Runtime
) -> None:
    """The reason why nothing is done there."""
    bundle = Bundle(sandbox, "plain-exec", WAIT, annotations={"cdi.k8s.io/vendor-test_one": NAME})
    runtime("run", "--detach", "--bundle", bundle.directory, bundle.id).ok()
    try:
        assert runtime("exec", bundle.id, *TELL).ok() == "one\n"
        assert runtime("exec", "--env", "SHIM_TEST=mine", bundle.id, *TELL).ok() == "mine\n"
    finally:
        runtime("delete", "--force", bundle.id).ok()
