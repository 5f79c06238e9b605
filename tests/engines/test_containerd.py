"""containerd 1.6 with the launcher as the runtime of `ctr run` and of a CRI handler."""

from __future__ import annotations

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri, CriError
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, assert_reason, seen
from engines.harness.images import WAIT
from engines.harness.sandbox import Sandbox, wait_until

pytestmark = pytest.mark.engine

KEY, BAD_KEY = "cdi.k8s.io/vendor-test_one", "cdi.k8s.io/vendor-test_two"


@pytest.fixture(scope="module")
def cri(sandbox: Sandbox, containerd: Containerd) -> Cri:
    return Cri(sandbox, containerd.socket, containerd.directory / "cri")


def test_ctr_run_with_an_annotation_gives_the_container_the_whole_device(
    containerd: Containerd, device: FakeDevice
) -> None:
    assert seen(containerd.run("asked", "--rm", f"--annotation={KEY}={NAME}", script=device.probe).ok()) == WITH
    state = device.hook_state()
    assert state is not None
    assert state["id"] == "asked"


def test_ctr_run_without_a_request_gives_nothing(containerd: Containerd, device: FakeDevice) -> None:
    assert seen(containerd.run("plain", "--rm", script=device.probe).ok()) == WITHOUT
    assert device.hook_state() is None


def test_the_life_of_an_ordinary_container(containerd: Containerd) -> None:
    containerd.run("ordinary", "--detach", script=WAIT).ok()
    assert containerd.ctr("task", "exec", "--exec-id=1", "ordinary", "/bin/sh", "-c", "echo hello").ok() == "hello\n"
    containerd.ctr("task", "pause", "ordinary").ok()
    containerd.ctr("task", "resume", "ordinary").ok()
    containerd.ctr("task", "kill", "ordinary").ok()
    wait_until(lambda: "STOPPED" in containerd.ctr("task", "list").ok(), "the container has stopped")
    containerd.ctr("task", "delete", "ordinary").ok()
    containerd.ctr("container", "delete", "ordinary").ok()


def test_ctr_shows_why_a_device_is_unknown_and_no_task_is_left(containerd: Containerd) -> None:
    ran = containerd.run("unknown", "--rm", f"--annotation={BAD_KEY}={UNKNOWN}", script="true")
    assert ran.status == 1
    assert_reason(ran.err)
    assert "unknown" not in containerd.ctr("task", "list").ok()


def test_a_container_of_a_pod_gets_its_device_and_the_pod_sandbox_does_not(cri: Cri, device: FakeDevice) -> None:
    """The runtime is called in the pod sandbox's bundle, and the annotation of the pod is in both config.json files."""
    pod = cri.run_pod("pod-asks", {KEY: NAME})
    assert device.hook_state() is None, "the pod sandbox was given a device"
    container = pod.create("asked", {}, f"{device.probe}\n{WAIT}")
    pod.start(container)
    assert seen(cri.output("asked", "gate=")) == WITH
    state = device.hook_state()
    assert state is not None
    assert state["id"] == container
    assert "hello" in pod.execute(container, "/bin/sh", "-c", "echo hello")
    pod.remove_container(container)
    pod.remove()


def test_of_two_containers_of_a_pod_only_the_one_that_asks_gets_the_device(cri: Cri, device: FakeDevice) -> None:
    pod = cri.run_pod("pod-of-two", {})
    for name, request in (("with", {KEY: NAME}), ("without", {})):
        pod.start(pod.create(name, request, f"{device.probe}\n{WAIT}"))
    assert seen(cri.output("with", "gate=")) == WITH
    assert seen(cri.output("without", "gate=")) == WITHOUT
    pod.remove()


def test_a_kubelet_is_told_why_a_device_is_unknown(cri: Cri) -> None:
    pod = cri.run_pod("pod-unknown", {})
    container = pod.create("unknown", {BAD_KEY: UNKNOWN}, "true")
    with pytest.raises(CriError) as refused:
        pod.start(container)
    assert_reason(str(refused.value))
    pod.remove()


def test_a_pod_whose_annotation_names_an_unknown_device_still_gets_its_sandbox(cri: Cri) -> None:
    pod = cri.run_pod("pod-bad", {BAD_KEY: UNKNOWN})
    pod.remove()
