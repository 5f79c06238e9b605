"""What arrives of a Pod's and of a container's annotations with containerd 1.6, configured as `configure` does it.

The comments of the example Pod and the findings POD_ANNOTATION say what these tests show.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri, CriError
from engines.harness.device import NAME, WITH, WITHOUT, FakeDevice, seen
from engines.harness.images import WAIT
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

KEY = "cdi.k8s.io/vendor-test_one"


@pytest.fixture(scope="module")
def cri(sandbox: Sandbox, containerd: Containerd) -> Cri:
    return Cri(sandbox, containerd.socket, containerd.directory / "cri")


def outcome(cri: Cri, name: str, of_pod: dict[str, str], of_container: dict[str, str], device: FakeDevice) -> object:
    pod = cri.run_pod(f"pod-{name}", of_pod)
    container = pod.create(name, of_container, f"{device.probe}\n{WAIT}")
    pod.start(container)
    found = seen(cri.output(name, "gate="))
    pod.remove_container(container)
    pod.remove()
    return found


def test_an_annotation_of_a_container_arrives(cri: Cri, device: FakeDevice) -> None:
    """Which a device plugin gives, as with the example Pod."""
    assert outcome(cri, "container", {}, {KEY: NAME}, device) == WITH


def test_an_annotation_of_a_pod_reaches_no_container(cri: Cri, device: FakeDevice) -> None:
    assert outcome(cri, "pod", {KEY: NAME}, {}, device) == WITHOUT


@pytest.mark.parametrize(("handler", "ids"), [("shim", []), ("shin", ["HANDLER_MISSING"])])
def test_the_class_that_is_written_goes_with_the_configuration(
    sandbox: Sandbox, containerd: Containerd, shim: Path, handler: str, ids: list[str]
) -> None:
    text = sandbox.run(shim, "runtime", "class", f"--handler={handler}").ok()
    words = ["--engine=containerd", f"--config={containerd.directory}/config.toml", "--manifest=-", "--output=json"]
    ran = sandbox.run(shim, "runtime", "verify", *words, stdin=text)
    errors = {one["id"]: one["text"] for one in json.loads(ran.out)[0]["findings"] if one["level"] == "ERROR"}
    assert 'pod_annotations of the runtime pods holds "cdi.k8s.io/*"' in errors.pop("POD_REQUESTS")
    assert list(errors) == ids


def test_a_handler_that_is_missing_is_refused_by_containerd(cri: Cri) -> None:
    """Only when a Pod comes: what HANDLER_MISSING tells beforehand."""
    with pytest.raises(CriError, match='no runtime for "shin" is configured'):
        cri.run_pod("pod-other", {}, handler="shin")
