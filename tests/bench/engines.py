"""What a container costs through an engine's client, `run` from its beginning to its end, beside the same with runc.

The device is the driver of `containers`. What stands beside bare runc is the whole of it: what the shim does, and what
it was asked for, mounts, nodes and the hook.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from engines.harness import device, images, programs
from engines.harness.containerd import Containerd
from engines.harness.docker import Docker
from engines.harness.installation import Installation
from engines.harness.podman import Podman
from engines.harness.registration import by_command
from engines.harness.sandbox import Result, Sandbox

from bench import containers

CLIENTS = ("ctr", "docker", "podman")
NODES = "/run/bench-nodes"  # in the sandbox's own /run

COMPARED = [
    (f"{client} run, shim{what}", f"{client} run, runc") for client in CLIENTS for what in (" with a device", "")
]


def _timed(call: Callable[[], Result]) -> float:
    start = time.perf_counter()
    done = call()
    took = time.perf_counter() - start
    done.ok()
    return took


def _publish(sandbox: Sandbox, shim: Path) -> None:
    """The driver on the sandbox's host, and its spec under the name that the harness has for docker."""
    libraries = containers.make_libraries(sandbox.scratch / "host/driver")
    sandbox.run("mkdir", NODES).ok()
    for number in range(containers.NODES):
        sandbox.run("mknod", "-m", "666", f"{NODES}/gpu{number}", "c", "1", "5").ok()
    edits = containers.driver_edits([f"{sandbox.host}/driver/{name}" for name in libraries], NODES, str(shim))
    spec = {"cdiVersion": "0.5.0", "kind": device.KIND, "devices": [{"name": "one", "containerEdits": edits}]}
    (sandbox.scratch / "etc-cdi/vendor.json").write_text(json.dumps(spec))


def without_notes(sandbox: Sandbox) -> None:
    """The launcher starts the interpreter itself, without the script by which tests see each start."""
    file = sandbox.scratch / "host/installed/lib/shim/launch"
    _, modules = file.read_text().splitlines()
    file.write_text(f"{sandbox.venv}/bin/python3\n{modules}\n")


def _ctr(engine: Containerd, sandbox: Sandbox, runtime: str | Path) -> Callable[[bool], Result]:
    numbers = itertools.count()

    def run(asks: bool) -> Result:
        options = ["--annotation", f"cdi.k8s.io/bench={device.NAME}"] if asks else []
        name = f"{Path(runtime).name}{asks}{next(numbers)}"
        place = [f"--cgroup={sandbox.cgroup}/{name}", f"--runc-root={engine.directory}/ctr-runtime"]
        words = ["run", "--rm", "--runc-binary", runtime, *place, *options, images.BUSYBOX, name, "/bin/true"]
        return engine.ctr(*words)

    return run


@contextmanager
def commands(_: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The commands to time, by what they show."""
    (runc,) = programs.find("runc")
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox())
        installation = Installation(sandbox)
        without_notes(sandbox)
        linked = installation.link("shim-runc")
        _publish(sandbox, installation.launcher)
        register = partial(by_command, sandbox, installation.launcher, linked)
        containerd = Containerd(sandbox, linked, register("containerd"))
        stack.callback(containerd.stop)
        docker = Docker(sandbox, linked, register("docker"))
        stack.callback(docker.stop)
        podman = Podman(sandbox, register("podman"))
        stack.callback(podman.close)
        podman.record("5.0")
        asks = f"--annotation=cdi.k8s.io/bench={device.NAME}"
        by_ctr, by_ctr_bare = _ctr(containerd, sandbox, linked), _ctr(containerd, sandbox, runc)
        calls: dict[str, Callable[[], Result]] = {
            "ctr run, runc": lambda: by_ctr_bare(False),
            "ctr run, shim": lambda: by_ctr(False),
            "ctr run, shim with a device": lambda: by_ctr(True),
            "docker run, runc": lambda: docker.run("--rm", "--runtime=runc", script="true"),
            "docker run, shim": lambda: docker.run("--rm", "--runtime=shim", script="true"),
            "docker run, shim with a device": lambda: docker.run("--rm", "--runtime=asks", script="true"),
            "podman run, runc": lambda: podman.run("--rm", runtime="runc", script="true"),
            "podman run, shim": lambda: podman.run("--rm", script="true"),
            "podman run, shim with a device": lambda: podman.run("--rm", asks, script="true"),
        }
        _check(docker, podman)
        yield {name: partial(_timed, call) for name, call in calls.items()}


def _check(docker: Docker, podman: Podman) -> None:
    """What asks for the device gets it: else the figure would be one of something else."""
    probe = 'echo "$BENCH"; ls /dev/gpu0'
    asks = f"--annotation=cdi.k8s.io/bench={device.NAME}"
    for done in (
        docker.run("--rm", "--runtime=asks", script=probe),
        podman.run("--rm", asks, script=probe),
    ):
        if done.ok().split() != ["1", "/dev/gpu0"]:
            raise SystemExit(f"the container did not get its device: {done}")
