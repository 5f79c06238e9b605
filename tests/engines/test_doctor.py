"""`shim doctor --container` under real engines: by name and id, healthy, outdated, and without its device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri
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


def test_a_container_that_was_updated_and_started_again(
    sandbox: Sandbox, docker: Docker, rootful: Podman, device: FakeDevice
) -> None:
    for engine, ask in ((docker, "--runtime=asks"), (rootful, f"--annotation={_KEY}")):
        engine.run("--detach", "--name=again", ask, script=WAIT).ok()
        engine("update", "--memory=64m", "--memory-swap=64m", "again").ok()
        updated = examined(sandbox, "again")
        engine("restart", "--time=0", "again").ok()
        restarted = examined(sandbox, "again")
        engine("rm", "--force", "again").ok()
        assert (findings(updated), findings(restarted)) == ([], [])
    assert device.hook_calls() == 4


def test_a_container_of_a_pod_by_its_names(sandbox: Sandbox, containerd: Containerd) -> None:
    pod = Cri(sandbox, containerd.socket, containerd.directory / "cri").run_pod("pod", {})
    container = pod.create("main", {"cdi.k8s.io/vendor-test_one": NAME}, WAIT)
    pod.start(container)
    report = examined(sandbox, "pod/main")
    pod.remove()
    assert findings(report) == []
    assert f"asked for {NAME}" in evidence(report)
    assert report["checks"][0]["subject"] == container[:12]


# --- the whole chain --------------------------------------------------------------------------------------------------


def whole(sandbox: Sandbox, engine: str, environment: Mapping[str, str]) -> set[str]:
    """The ids of the errors of an engine's chain."""
    done = sandbox.run(sandbox.venv / "bin/shim", "doctor", "--engine", engine, "-o", "json", env=environment)
    assert done.err == ""
    return {id for level, id in findings(json.loads(done.out)) if level == "ERROR"}


# What is done inside, what undoes it, and what the doctor finds
HARMS = {
    "SPEC_SYNTAX": ("echo kind: [ > /etc/cdi/other.yaml", "rm /etc/cdi/other.yaml"),
    "SPEC_UNTRUSTED": ("chmod 666 /etc/cdi/vendor.json", "chmod 644 /etc/cdi/vendor.json"),
    "SPEC_CONFLICT": ("cp /etc/cdi/vendor.json /etc/cdi/other.json", "rm /etc/cdi/other.json"),
    "NODE_UNUSABLE": (f"mv {NODE_DIRECTORY}/gate /run/gate", f"mv /run/gate {NODE_DIRECTORY}/gate"),
    "MOUNT_MISSING": ("mv HOST/data HOST/away", "mv HOST/away HOST/data"),
    "HOOK_MISSING": ("mv HOST/hook HOST/away", "mv HOST/away HOST/hook"),
    "SETTINGS": ("echo [cdi > /etc/shim/config.toml", "rm /etc/shim/config.toml"),
}


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_broken_link_of_a_real_machine(sandbox: Sandbox, engine: str, request: pytest.FixtureRequest) -> None:
    used = request.getfixturevalue("docker" if engine == "docker" else "rootful")
    environment = used.environment() if isinstance(used, Podman) else {}
    assert whole(sandbox, engine, environment) == set()
    for id, (harm, undo) in HARMS.items():
        sandbox.run("/bin/sh", "-c", harm.replace("HOST", str(sandbox.host))).ok()
        found = whole(sandbox, engine, environment)
        sandbox.run("/bin/sh", "-c", undo.replace("HOST", str(sandbox.host))).ok()
        assert found == {id}
    assert whole(sandbox, engine, environment) == set()


def test_a_namespace_that_hides_the_specs(sandbox: Sandbox) -> None:
    script = f"mount -t tmpfs none /etc/cdi && exec {sandbox.venv}/bin/shim doctor --engine podman -o json"
    hidden = sandbox.run("unshare", "--mount", "--user", "--map-root-user", "/bin/sh", "-c", script)
    assert ("ERROR", "SPEC_DIR_HIDDEN") in findings(json.loads(hidden.out))
    plain = sandbox.run(
        "unshare", "--mount", "--user", "--map-root-user", "/bin/sh", "-c", script.partition("exec ")[2]
    )
    assert ("ERROR", "SPEC_DIR_HIDDEN") not in findings(json.loads(plain.out))


def test_an_index_of_another_build(sandbox: Sandbox, rootful: Podman) -> None:
    environment = rootful.environment()
    words = (sandbox.venv / "bin/shim", "doctor", "--engine", "podman", "-o", "json")
    rootful.run("--rm", f"--annotation={_KEY}", script="true").ok()
    before = findings(json.loads(sandbox.run(*words, env=environment).out))
    sandbox.run("/bin/sh", "-c", "sed -i s/0.1.0/0.0.1/ /run/shim/index").ok()
    after = findings(json.loads(sandbox.run(*words, env=environment).out))
    sandbox.run("rm", "/run/shim/index").ok()
    assert set(after) - set(before) == {("NOTE", "INDEX_UNUSED")}


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
