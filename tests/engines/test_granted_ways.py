"""Every way to a device that reaches a create, under podman, ctr and CRI, where grants are enforced: with and without.

Those of docker stand in test_granted.py. Each way gives the container the node `gate` of the fake device, by the engine
itself, so that no name asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri, CriError, Message
from engines.harness.device import ALLOWED, KIND, NAME, NODE_DIRECTORY, REFUSED, WITH, WITHOUT, FakeDevice, seen
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.registration import PODS
from engines.harness.runtimes import Bundle, Runtime, RuntimeName
from engines.harness.sandbox import Result, Sandbox

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.usefixtures("enforced")]

SETTINGS = '[grants]\nenforce = true\ndefault-subject = "repo-a"\n'
MISSING = f"GRANT_MISSING: {NAME} is not granted to repo-a"
GATE = f"{NODE_DIRECTORY}/gate"
ASKED = f"cdi.k8s.io/vendor-test_one={NAME}"


class Grants:
    """The store of a sandbox, for the subject of all its containers."""

    def __init__(self, sandbox: Sandbox, shim: Path) -> None:
        self._sandbox, self._shim = sandbox, shim

    def add(self, *options: str) -> None:
        self._sandbox.run(self._shim, "grant", "add", "repo-a", "--device", NAME, *options).ok()

    def revoke(self) -> str:
        return self._sandbox.run(self._shim, "grant", "revoke", "repo-a", "--device", NAME).ok()


@pytest.fixture
def enforced(sandbox: Sandbox) -> Iterator[None]:
    """Grants are enforced, and nothing is granted."""
    (sandbox.scratch / "etc-shim/config.toml").write_text(SETTINGS, encoding="ascii")
    yield
    for path in ("config.toml", "grants.json", "grants.lock"):
        (sandbox.scratch / "etc-shim" / path).unlink(missing_ok=True)
    sandbox.run("rm", "-f", "/run/shim/holders").ok()


@pytest.fixture
def grants(sandbox: Sandbox, shim: Path) -> Grants:
    return Grants(sandbox, shim)


def check(run: Callable[[], Result], grants: Grants, refusal: str = MISSING) -> Result:
    """Refused without a grant, and not for lack of one with it."""
    without = run()
    assert without.status != 0
    assert refusal in without.err, without.err
    grants.add()
    ran = run()
    assert "GRANT_MISSING" not in ran.err
    return ran


# --- podman -----------------------------------------------------------------------------------------------------------


def test_podman_gives_by_name_what_is_granted(rootful: Podman, grants: Grants, device: FakeDevice) -> None:
    ran = check(lambda: rootful.run("--rm", f"--annotation={ASKED}", script=device.probe), grants)
    assert seen(ran.ok()) == WITH
    grants.revoke()
    assert seen(rootful.run("--rm", script=device.probe).ok()) == WITHOUT


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(f"--device={NAME}", id="podman's own CDI"),
        pytest.param(f"--device={GATE}", id="a node"),
        pytest.param(f"--device={NODE_DIRECTORY}", id="a directory of nodes"),
        pytest.param(f"--volume={GATE}:/x", id="a volume"),
        pytest.param(f"--mount=type=bind,source={GATE},target=/x", id="a mount"),
        pytest.param("--device-cgroup-rule=c 60:7 rw", id="a rule"),
        pytest.param("--device-cgroup-rule=c *:* rwm", id="a rule for all"),
        pytest.param("--privileged", id="privileged"),
    ],
)
def test_podman_itself_gives_no_device_that_is_not_granted(rootful: Podman, grants: Grants, option: str) -> None:
    ran = check(lambda: rootful.run("--rm", option, script="true"), grants)
    # the sandbox has fewer capabilities than a privileged container gets, so that the low-level runtime refuses it
    assert option == "--privileged" or ran.ok() == ""


def test_podman_by_a_hook_that_gives_devices_is_refused(rootful: Podman, sandbox: Sandbox, grants: Grants) -> None:
    """As NVIDIA's hook of its hooks directory, which reads a variable of the container."""
    program, hooks = sandbox.host / "nvidia-container-runtime-hook", sandbox.scratch / "nvidia-hooks"
    (sandbox.scratch / "host/nvidia-container-runtime-hook").write_text("#!/bin/sh\nexec cat > /dev/null\n")
    (sandbox.scratch / "host/nvidia-container-runtime-hook").chmod(0o755)
    hooks.mkdir(exist_ok=True)
    hook = {"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": ["prestart"]}
    (hooks / "nvidia.json").write_text(json.dumps(hook))
    grants.add()
    ran = rootful.run("--rm", "--env=NVIDIA_VISIBLE_DEVICES=all", script="true", hooks=hooks)
    assert "GRANT_MISSING: the hook" in ran.err
    rootful.run("--rm", "--env=NVIDIA_VISIBLE_DEVICES=void", script="true", hooks=hooks).ok()


def test_podman_starts_no_container_whose_grant_has_ended(rootful: Podman, grants: Grants, device: FakeDevice) -> None:
    grants.add()
    for name, option in (("named", f"--annotation={ASKED}"), ("native", f"--device={NAME}")):
        rootful.run("--detach", f"--name={name}", option, script=WAIT).ok()
        rootful("stop", "--time=0", name).ok()
        rootful("start", name).ok()
        grants.revoke()
        assert seen(rootful("exec", name, "/bin/sh", "-c", device.probe).ok())["gate"] == ALLOWED, "it runs on"
        rootful("stop", "--time=0", name).ok()
        assert MISSING in rootful("start", name).err
        rootful("rm", "--force", name).ok()
        grants.add()


@pytest.mark.parametrize(
    "option", [f"--annotation={ASKED}", f"--device={NAME}"], ids=["by name", "by podman's own CDI"]
)
def test_an_exclusive_device_is_for_one_container_of_podman_at_a_time(
    rootful: Podman, grants: Grants, option: str
) -> None:
    grants.add("--exclusive")
    rootful.run("--detach", "--name=first", option, script=WAIT).ok()
    assert "GRANT_HELD" in rootful.run("--rm", option, script="true").err
    rootful("rm", "--force", "--time=0", "first").ok()
    rootful.run("--rm", option, script="true").ok()


# --- ctr --------------------------------------------------------------------------------------------------------------


def test_ctr_gives_by_name_what_is_granted(containerd: Containerd, grants: Grants, device: FakeDevice) -> None:
    numbers = iter(range(9))
    ran = check(
        lambda: containerd.run(f"named{next(numbers)}", "--rm", f"--annotation={ASKED}", script=device.probe), grants
    )
    assert seen(ran.ok()) == WITH


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(f"--device={GATE}", id="a node"),
        pytest.param(f"--mount=type=bind,src={GATE},dst=/x,options=rbind:rw", id="a mount"),
        pytest.param("--privileged", id="privileged"),
    ],
)
def test_ctr_itself_gives_no_device_that_is_not_granted(containerd: Containerd, grants: Grants, option: str) -> None:
    numbers = iter(range(9))
    check(lambda: containerd.run(f"itself{next(numbers)}", "--rm", option, script="true"), grants)


@pytest.mark.parametrize("name", ["org.systemd.property.DeviceAllow", "krun.gpu_flags"])
def test_ctr_annotations_that_open_devices_are_refused(containerd: Containerd, grants: Grants, name: str) -> None:
    grants.add()
    ran = containerd.run("annotated", "--rm", f"--annotation={name}=x", script="true")
    assert f"GRANT_MISSING: the annotation {name}" in ran.err


def test_ctr_starts_no_task_whose_grant_has_ended(containerd: Containerd, grants: Grants) -> None:
    grants.add()
    containerd.run("again", f"--annotation={ASKED}", script="true").ok()
    grants.revoke()
    containerd.ctr("task", "delete", "again")
    assert MISSING in containerd.ctr("task", "start", "again").err
    containerd.ctr("container", "delete", "again").ok()


# --- CRI --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cri(sandbox: Sandbox, containerd: Containerd) -> Cri:
    return Cri(sandbox, containerd.socket, containerd.directory / "granted")


@pytest.mark.parametrize(
    ("annotations", "more"),
    [
        pytest.param(dict([ASKED.split("=", 1)]), {}, id="by name"),
        pytest.param({}, {8: {1: "/dev/x", 2: GATE, 3: "rw"}}, id="a device of a plugin"),
        pytest.param({}, {7: {1: "/dev/x", 2: GATE}}, id="a mount of a plugin"),
    ],
)
def test_a_pod_gets_no_device_that_is_not_granted(
    cri: Cri, grants: Grants, annotations: dict[str, str], more: Message
) -> None:
    """A device plugin gives the kubelet nodes and mounts, which are in the request."""
    pod = cri.run_pod("granted", {}, PODS)
    refused = pod.create("first", annotations, WAIT, more=more)
    with pytest.raises(CriError, match=MISSING):
        pod.start(refused)
    grants.add()
    container = pod.create("second", annotations, WAIT, more=more)
    pod.start(container)
    grants.revoke()
    pod.update(container, 64 << 20)  # its engine goes on to set limits, with all device rules
    third = pod.create("third", annotations, WAIT, more=more)
    with pytest.raises(CriError, match=MISSING):
        pod.start(third)
    pod.remove()


def test_a_pod_cannot_choose_its_subject(cri: Cri, grants: Grants, sandbox: Sandbox) -> None:
    """containerd writes the namespace of the Pod over annotations of this name that are let through."""
    text = '[grants]\nenforce = true\n[grants.pod-namespaces]\ndefault = "repo-b"\nstolen = "repo-a"\n'
    (sandbox.scratch / "etc-shim/config.toml").write_text(text, encoding="ascii")
    grants.add()
    annotations = {"io.kubernetes.cri.sandbox-namespace": "stolen", **dict([ASKED.split("=", 1)])}
    pod = cri.run_pod("thief", annotations, PODS)
    container = pod.create("thief", annotations, WAIT)
    with pytest.raises(CriError, match=f"{NAME} is not granted to repo-b"):
        pod.start(container)
    pod.remove()
    plain = cri.run_pod("passed", {"io.kubernetes.cri.other": "seen"}, PODS)
    (bundle,) = sandbox.run("find", "/", "-xdev", "-path", f"*k8s.io/{plain.id}/config.json").out.split()
    assert "io.kubernetes.cri.other" in sandbox.run("cat", bundle).ok(), "annotations of such names are let through"
    plain.remove()


# --- update -----------------------------------------------------------------------------------------------------------


def test_an_update_opens_no_device_that_is_not_granted(
    sandbox: Sandbox, linked: Path, low_level: RuntimeName, grants: Grants
) -> None:
    runtime = Runtime(sandbox, linked, low_level)
    bundle = Bundle(sandbox, "updated", WAIT)
    rules = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 60, "minor": 7, "access": "rw"}]

    def update(*listed: dict[str, object]) -> Result:
        argv = runtime.argv("update", "--resources", "-", bundle.id)
        return sandbox.run(*argv, stdin=json.dumps({"devices": listed}))

    def opened() -> str:
        told = runtime("exec", bundle.id, "/bin/sh", "-c", "(: < /dev/x) 2>&1; true").out
        return told.strip().rpartition(": ")[2]

    runtime("run", "--detach", "--bundle", bundle.directory, bundle.id).ok()
    try:
        runtime("exec", bundle.id, "mknod", "/dev/x", "c", "60", "7").ok()
        assert opened() == REFUSED
        assert MISSING in update(*rules).err
        assert opened() == REFUSED
        grants.add()
        update(*rules).ok()
        assert opened() == (ALLOWED if low_level == "crun" else REFUSED), "runc reads past these rules"
        grants.revoke()
        update(rules[0]).ok()
    finally:
        runtime("delete", "--force", bundle.id)


def test_names_of_other_kinds_do_not_help(rootful: Podman, sandbox: Sandbox, shim: Path) -> None:
    """The grants are of exact names."""
    refused = sandbox.run(shim, "grant", "add", "repo-a", "--device", f"{KIND}=on")
    assert f"nearest: {NAME}" in refused.err
    assert MISSING in rootful.run("--rm", f"--annotation={ASKED}", script="true").err
