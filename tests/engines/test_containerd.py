"""containerd 1.6 with the launcher as the runtime of `ctr run` and of a CRI handler."""

from __future__ import annotations

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import EXITED, RUNNING, Cri, CriError
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, assert_reason, repeated, seen
from engines.harness.images import WAIT
from engines.harness.registration import PODS
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


@pytest.mark.parametrize(
    ("name", "request_", "expected"),
    [("life-with", [f"--annotation={KEY}={NAME}"], WITH), ("life-without", [], WITHOUT)],
)
def test_a_container_of_ctrs_has_what_it_asked_for_as_long_as_it_lives(
    containerd: Containerd, device: FakeDevice, name: str, request_: list[str], expected: dict[str, str]
) -> None:
    """Two tasks of one container: the second finds everything as the first did."""
    ctr = containerd.ctr
    containerd.run(name, "--detach", *request_, script=WAIT).ok()
    for starts in (1, 2):
        for step in ("pause", "resume", "metrics"):
            ctr("task", step, name).ok()
        assert seen(ctr("task", "exec", "--exec-id=1", name, "/bin/sh", "-c", device.probe).ok()) == expected
        assert device.hook_calls() == (starts if request_ else 0)
        if request_:
            assert repeated(device.config()) == []
        ctr("task", "kill", name).ok()
        wait_until(lambda: "STOPPED" in ctr("task", "list").ok(), "the container has stopped")
        ctr("task", "delete", name).ok()
        if starts == 1:
            ctr("task", "start", "--detach", name).ok()
    ctr("container", "delete", name).ok()


def test_ctr_shows_why_a_device_is_unknown_and_no_task_is_left(containerd: Containerd) -> None:
    ran = containerd.run("unknown", "--rm", f"--annotation={BAD_KEY}={UNKNOWN}", script="true")
    assert ran.status == 1
    assert_reason(ran.err)
    assert "unknown" not in containerd.ctr("task", "list").ok()


def test_a_container_of_a_pod_gets_its_device_and_the_pod_sandbox_does_not(cri: Cri, device: FakeDevice) -> None:
    """The runtime is called in the pod sandbox's bundle, and the annotation of the pod is in both config.json files."""
    pod = cri.run_pod("pod-asks", {KEY: NAME}, PODS)
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


def test_a_container_of_a_pod_has_its_device_as_long_as_it_lives_and_so_has_the_next_attempt(
    cri: Cri, device: FakeDevice
) -> None:
    """What a kubelet does with a container that ends: it makes the next one in the same pod."""
    pod = cri.run_pod("pod-life", {})
    for attempt in (0, 1):
        container = pod.create(f"life-{attempt}", {KEY: NAME}, f"{device.probe}\n{WAIT}", attempt)
        pod.start(container)
        assert seen(cri.output(f"life-{attempt}", "gate=")) == WITH
        pod.update(container, memory=64 << 20)
        assert seen(pod.execute(container, "/bin/sh", "-c", device.probe)) == WITH
        assert pod.status(container) == (RUNNING, 0)
        assert device.hook_calls() == attempt + 1
        assert repeated(device.config()) == []
        pod.stop(container, seconds=5)
        assert pod.status(container) == (EXITED, 0)
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
    pod = cri.run_pod("pod-bad", {BAD_KEY: UNKNOWN}, PODS)
    pod.remove()
