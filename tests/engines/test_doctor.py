"""`shim doctor --container` under real engines: by name and id, healthy, outdated, and without its device."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from engines.harness.containerd import Containerd
from engines.harness.device import NAME, NODE_DIRECTORY, FakeDevice
from engines.harness.docker import Docker
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

_KEY = f"cdi.k8s.io/vendor-test_one={NAME}"


class Client(NamedTuple):
    """An engine.

    Arguments:
        name: as the doctor has it.
        start: starts a container of this name, that asks or does not ask.
        end: removes it.
    """

    name: str
    start: Callable[[str, bool], object]
    end: Callable[[str], object]


@pytest.fixture(params=["docker", "podman", "containerd"])
def client(request: pytest.FixtureRequest) -> Client:
    name: str = request.param
    if name == "containerd":
        containerd: Containerd = request.getfixturevalue("containerd")
        return Client(name, lambda one, asks: _ctr(containerd, one, asks=asks), lambda one: _end(containerd, one))
    engine: Docker | Podman = request.getfixturevalue("docker" if name == "docker" else "rootful")
    ways = {True: "--runtime=asks", False: "--runtime=shim"} if name == "docker" else {}
    ways = ways or {True: f"--annotation={_KEY}", False: "--annotation=other=x"}

    def start(one: str, asks: bool) -> None:
        engine.run("--detach", f"--name={one}", ways[asks], script=WAIT).ok()

    return Client(name, start, lambda one: engine("rm", "--force", one))


def _ctr(containerd: Containerd, name: str, *, asks: bool) -> None:
    containerd.run(name, "--detach", *([f"--annotation={_KEY}"] if asks else []), script=WAIT).ok()


def _end(containerd: Containerd, name: str) -> None:
    containerd.ctr("task", "kill", "--signal=KILL", name)
    containerd.ctr("task", "delete", "--force", name)
    containerd.ctr("container", "delete", name)


def examined(sandbox: Sandbox, word: str) -> dict[str, Any]:
    """The report on a container."""
    done = sandbox.run(sandbox.venv / "bin/shim", "doctor", "--container", word, "-o", "json")
    assert done.err == ""
    report: dict[str, Any] = json.loads(done.out)
    assert done.status == (0 if report["ok"] else 1)
    return report


def findings(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding["level"], finding["id"]) for check in report["checks"] for finding in check["findings"]]


def evidence(report: dict[str, Any]) -> str:
    return "\n".join(check["evidence"] for check in report["checks"])


def test_a_container_with_its_device(sandbox: Sandbox, client: Client, device: FakeDevice) -> None:
    client.start("well", True)
    report = examined(sandbox, "well")
    assert findings(report) == []
    assert client.name in evidence(report)
    assert f"asked for {NAME}" in evidence(report)
    assert "2 deviceNodes" in evidence(report)
    id = report["checks"][0]["subject"]
    assert examined(sandbox, id) == report
    # started before the spec was written anew
    spec = device.spec()
    spec["devices"][0]["containerEdits"]["env"].append("MORE=yes")
    (sandbox.scratch / "etc-cdi/vendor.json").write_text(json.dumps(spec))
    assert findings(examined(sandbox, "well")) == [("WARNING", "CONTAINER_OUTDATED")]
    device.publish()
    # its device vanishes, and comes back with another number
    sandbox.run("mv", f"{NODE_DIRECTORY}/gate", f"{NODE_DIRECTORY}/away").ok()
    gone = examined(sandbox, "well")
    sandbox.run("mknod", "-m", "666", f"{NODE_DIRECTORY}/gate", "c", "60", "9").ok()
    moved = examined(sandbox, "well")
    sandbox.run("mv", f"{NODE_DIRECTORY}/away", f"{NODE_DIRECTORY}/gate").ok()
    client.end("well")
    assert findings(gone) == [("WARNING", "CONTAINER_OUTDATED"), ("ERROR", "NODE_UNUSABLE")][::-1]
    assert findings(moved) == [("WARNING", "DEVNUM_STALE")]


def test_a_container_that_asks_for_nothing_is_advised_how_to_ask(sandbox: Sandbox, client: Client) -> None:
    client.start("quiet", False)
    report = examined(sandbox, "quiet")
    client.end("quiet")
    assert ("WARNING", "CONTAINER_ASKS_NOTHING") in findings(report)
    assert report["ok"] is True


def test_a_container_that_another_runtime_started_lacks_its_device(
    sandbox: Sandbox, rootful: Podman, low_level: RuntimeName
) -> None:
    rootful.run("--detach", "--name=other", f"--runtime={low_level}", f"--annotation={_KEY}", script=WAIT).ok()
    report = examined(sandbox, "other")
    rootful("rm", "--force", "other")
    assert [finding for finding in findings(report) if finding[0] == "ERROR"] == [("ERROR", "CONTAINER_LACKS")]


def test_a_container_that_nobody_has(sandbox: Sandbox, rootful: Podman) -> None:
    rootful.run("--detach", "--name=there", "--annotation=other=x", script=WAIT).ok()
    report = examined(sandbox, "their")
    rootful("rm", "--force", "there")
    assert findings(report) == [("ERROR", "CONTAINER_UNKNOWN")]
    assert "there" in report["checks"][0]["findings"][0]["text"]
