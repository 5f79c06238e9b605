"""Who may ask, for real: images and Pods that ask, and the clients and administrators that do.

The table of docs/create.md for the engines that are here. That of all engines, with what each of them writes into
config.json, is tests/unit/create/test_origins.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.harness import images
from engines.harness.containerd import Containerd
from engines.harness.device import NAME, WITH, WITHOUT, FakeDevice, seen
from engines.harness.docker import Docker
from engines.harness.podman import Podman
from engines.harness.runtimes import Bundle, RuntimeName
from engines.harness.sandbox import Sandbox
from unit.create.callers import recorded

pytestmark = pytest.mark.engine

KEY = "cdi.k8s.io/vendor-test_one"
OWN = "io.kubernetes.cri-o.Annotations"
# What an image can put into its manifest: a request, and whatever might let it pass for an engine's own
MANIFEST = {
    KEY: NAME,
    OWN: json.dumps({KEY: NAME}),
    "io.container.manager": "cri-o",
    "io.kubernetes.cri-o.ContainerType": "container",
    "io.kubernetes.cri.container-type": "container",
}

SANDBOX = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri-o.ContainerType": "sandbox"}


@pytest.fixture(scope="module")
def low_level() -> RuntimeName:
    """The low-level runtime takes no part in who may ask."""
    return "runc"


@pytest.fixture(autouse=True)
def as_it_is(rootful: Podman, rootless: Podman) -> Iterator[None]:
    """podman 4.3 as `configure` records it, but where a test says otherwise."""
    for engine in (rootful, rootless):
        engine.record("4.3.1")
    yield
    for engine in (rootful, rootless):
        engine("rm", "--all", "--force", "--time=0").ok()


@pytest.fixture
def evil(podman: Podman, sandbox: Sandbox) -> str:
    """An image whose manifest asks for the device, pulled by podman."""
    file = sandbox.scratch / "tmp/evil.tar"
    if not file.exists():
        # with a label, since images of one configuration are one to podman: the last manifest would count for both
        images.write_image(file, "test.local/evil:1", MANIFEST, {"image": "evil"})
    return podman("pull", "--quiet", f"oci-archive:{file}").ok().strip()


@pytest.fixture(scope="module")
def hooks(sandbox: Sandbox, shim: Path) -> Path:
    """A hooks directory as an administrator may have made by hand: `configure` refuses to, with this podman."""
    directory = sandbox.scratch / "hooks.d"
    directory.mkdir()
    hook = {"path": str(shim), "args": ["shim", "hook", "precreate"]}
    when = {"annotations": {"^cdi[.]k8s[.]io/": ".*"}}
    document = {"version": "1.0.0", "hook": hook, "when": when, "stages": ["precreate"]}
    (directory / "shim.json").write_text(json.dumps(document))
    return directory


# --- podman ---------------------------------------------------------------------------------------------------------


def test_an_image_that_asks_gets_no_device_and_no_container(podman: Podman, device: FakeDevice, evil: str) -> None:
    """Found by use, A1: `podman run --runtime shim` of such an image gave it the device."""
    ran = podman.run("--rm", script=device.probe, image=evil)
    assert (ran.status, ran.out) == (126, "")
    for words in ("REQUEST_ORIGIN", KEY, NAME, "/usr/bin/podman is podman 4.3.1", "--runtime-flag device=KIND=NAME"):
        assert words in ran.err
    assert device.hook_state() is None


def test_it_would_get_the_device_from_a_podman_that_is_taken_for_a_later_one(
    podman: Podman, device: FakeDevice, evil: str
) -> None:
    """Positive control of the test above: the image asks, and only the recorded version stands in its way."""
    podman.record("4.6")
    assert seen(podman.run("--rm", script=device.probe, image=evil).ok()) == WITH


def test_an_image_that_asks_is_refused_by_the_hook_as_well(
    podman: Podman, low_level: RuntimeName, hooks: Path, device: FakeDevice, evil: str
) -> None:
    """Found by use, A1 and F2. podman 4 shows the exit status alone."""
    run: dict[str, Any] = {"script": device.probe, "image": evil, "runtime": low_level, "hooks": hooks}
    ran = podman.run("--rm", **run)
    assert (ran.status != 0, ran.out) == (True, "")
    assert "exit status 1" in ran.err
    podman.record("4.6")
    assert seen(podman.run("--rm", **run).ok()) == WITH, "positive control"


@pytest.mark.parametrize("version", ["", "4.3.1", "4.5.9"])
def test_a_clients_annotation_cannot_be_told_from_an_images(podman: Podman, device: FakeDevice, version: str) -> None:
    """With "" nothing is recorded: configure has not run, or the program was upgraded since."""
    podman.record(version)
    ran = podman.run("--rm", f"--annotation={KEY}={NAME}", script=device.probe)
    assert (ran.status, ran.out) == (126, "")
    assert "REQUEST_ORIGIN" in ran.err
    assert ("`shim runtime configure --engine podman`" in ran.err) is (version == "")


def test_it_counts_with_a_later_podman(podman: Podman, device: FakeDevice) -> None:
    podman.record("4.6")
    assert seen(podman.run("--rm", f"--annotation={KEY}={NAME}", script=device.probe).ok()) == WITH


@pytest.mark.parametrize(("setting", "status"), [("ignore", 0), ("any", 0), ("refuse", 126)])
def test_the_configuration_decides_what_becomes_of_such_an_image(
    rootful: Podman, sandbox: Sandbox, device: FakeDevice, setting: str, status: int
) -> None:
    text = f'[sources]\npodman-annotations = "{setting}"\n'
    (sandbox.scratch / "etc-shim/config.toml").write_text(text, encoding="ascii")
    ran = rootful.run("--rm", f"--annotation={KEY}={NAME}", script=device.probe)
    assert ran.status == status
    assert seen(ran.out) == {"ignore": WITHOUT, "any": WITH, "refuse": {}}[setting]


def test_an_image_that_says_it_is_a_sandbox_takes_no_device_away(
    podman: Podman, sandbox: Sandbox, device: FakeDevice
) -> None:
    """Found by use, F3: the request of the client was dropped without a word."""
    file = sandbox.scratch / "tmp/sandbox.tar"
    images.write_image(file, "test.local/sandbox:1", SANDBOX, {"image": "sandbox"})
    image = podman("pull", "--quiet", f"oci-archive:{file}").ok().strip()
    assert seen(podman.run("--rm", script=device.probe, image=image, flags=[f"device={NAME}"]).ok()) == WITH


def test_a_label_asks_for_nothing(podman: Podman, sandbox: Sandbox, device: FakeDevice) -> None:
    """Neither the client's nor the image's reaches config.json."""
    file = sandbox.scratch / "tmp/labels.tar"
    images.write_image(file, "test.local/labels:1", labels={KEY: NAME})
    podman("load", "--input", file).ok()
    ran = podman.run("--rm", f"--label={KEY}={NAME}", script=device.probe, image="test.local/labels:1")
    assert seen(ran.ok()) == WITHOUT


# --- docker and containerd --------------------------------------------------------------------------------------------


def test_a_label_of_dockers_asks_for_nothing(docker: Docker, sandbox: Sandbox, device: FakeDevice) -> None:
    file = sandbox.scratch / "tmp/docker-labels.tar"
    images.write_image(file, "test.local/labels:1", labels={KEY: NAME})
    docker("load", "--input", file).ok()
    options = ["run", "--rm", "--network=none", "--runtime=shim", f"--label={KEY}={NAME}", "test.local/labels:1"]
    assert seen(docker(*options, "/bin/sh", "-c", device.probe).ok()) == WITHOUT


def test_ctr_hands_on_labels_of_its_command_line_and_none_of_the_image(
    containerd: Containerd, sandbox: Sandbox, device: FakeDevice
) -> None:
    for option in ("--label", "--annotation"):
        ran = containerd.run(option[2:], "--rm", f"{option}={KEY}={NAME}", script=device.probe)
        assert seen(ran.ok()) == WITH
    file, image = sandbox.scratch / "tmp/ctr-labels.tar", "test.local/labels:1"
    images.write_image(file, image, {KEY: NAME}, {KEY: NAME})
    containerd.ctr("image", "import", file).ok()
    ran = containerd.run("of-image", "--rm", script=device.probe, image=image)
    assert seen(ran.ok()) == WITHOUT


# --- CRI-O: its calls, in front of real runtimes ----------------------------------------------------------------------

CRIO = {"CRI_O_EXTERNAL": "1"}
CONTAINER, POD = "of the container", "of its Pod alone"


def crio_bundle(sandbox: Sandbox, device: FakeDevice, name: str, writer: str) -> Bundle:
    """A bundle as CRI-O writes it, in which the container or only its Pod asks."""
    annotations = recorded("cri-o", "1.36", "CRI CreateContainer") | {KEY: NAME}
    own = json.loads(annotations[OWN]) | ({KEY: NAME} if writer == CONTAINER else {})
    return Bundle(sandbox, name, device.probe, annotations=annotations | {OWN: json.dumps(own)})


@pytest.mark.parametrize(("writer", "expected"), [(CONTAINER, WITH), (POD, WITHOUT)])
def test_in_a_call_of_crios_counts_what_the_container_itself_has(
    sandbox: Sandbox, linked: Path, device: FakeDevice, writer: str, expected: dict[str, str]
) -> None:
    """Found by use, A2: an annotation of the Pod, which its author writes, gave each container the device."""
    bundle = crio_bundle(sandbox, device, f"crio-{writer[7]}", writer)
    root = f"--root={sandbox.scratch}/crio"
    ran = sandbox.run(linked, root, "run", "--bundle", bundle.directory, bundle.id, env=CRIO)
    assert seen(ran.ok()) == expected
    log = (sandbox.scratch / "log/shim.log").read_text().splitlines()[-1]
    assert ("REQUEST_IGNORED" in log) is (writer == POD)


def test_without_crios_call_such_a_bundle_is_what_an_image_of_podmans_may_look_like(
    sandbox: Sandbox, linked: Path, device: FakeDevice
) -> None:
    bundle = crio_bundle(sandbox, device, "crio-forged", CONTAINER)
    ran = sandbox.run(linked, "run", "--bundle", bundle.directory, bundle.id)
    assert (ran.status, ran.out) == (1, "")
    assert "REQUEST_ORIGIN" in ran.err
