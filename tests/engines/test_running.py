"""Running containers are found by their monitors, under real engines (docker: test_docker_configured.py).

Where a containerd-shim works, and that conmon's command line names the bundle, no manual promises.
"""

from __future__ import annotations

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri
from engines.harness.images import WAIT
from engines.harness.podman import Podman
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

_SCRIPT = """
from shim.engines.table import ENGINES
from shim.host.host import Host
for container in ENGINES["ENGINE"].containers(Host()):
    print(container.id, container.environment.get("ASKS", "-"))
"""


def found(sandbox: Sandbox, engine: str) -> dict[str, str]:
    """The ids of an engine's running containers, each with the value of its variable ASKS."""
    script = _SCRIPT.replace('"ENGINE"', repr(engine))
    lines = sandbox.run(sandbox.venv / "bin/python3", "-c", script).ok().splitlines()
    return dict(line.split() for line in lines)


def test_every_container_of_a_pod_is_found(sandbox: Sandbox, containerd: Containerd) -> None:
    cri = Cri(sandbox, containerd.socket, containerd.directory / "cri")
    pod = cri.run_pod("pod", {})
    containers = [pod.create(name, {}, WAIT) for name in ("first", "second", "ended")]
    for container in containers:
        pod.start(container)
    pod.stop(containers.pop())
    containerd.run("alone", "--detach", "--env=ASKS=yes", script=WAIT).ok()
    assert found(sandbox, "containerd") == {**dict.fromkeys([pod.id, *containers], "-"), "alone": "yes"}
    assert found(sandbox, "docker") == {}
    pod.remove()
    containerd.ctr("task", "kill", "--signal=KILL", "alone").ok()


def test_podmans_containers_are_found(sandbox: Sandbox, rootful: Podman) -> None:
    ended = rootful.run("--detach", "--env=ASKS=yes", script="true").ok().strip()
    id = rootful.run("--detach", "--env=ASKS=yes", script=WAIT).ok().strip()
    rootful("wait", ended).ok()
    assert found(sandbox, "podman") == {id: "yes"}
    assert found(sandbox, "crio") == {}
