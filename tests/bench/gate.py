"""What the gate costs in front of dockerd: a command of docker, a request, much output, many connections.

The daemon is that of the engine tests; the same is asked of its own socket and of the gate's, from outside of the
sandbox, so that nothing but the client is timed with it.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from engines.harness import images, programs
from engines.harness.docker import Docker
from engines.harness.gate import Gate
from engines.harness.installation import Installation
from engines.harness.registration import by_command
from engines.harness.sandbox import Sandbox

from bench.engines import without_notes

REQUESTS = 100
CONNECTIONS = 100
MEBIBYTES = 64
GET = b"GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n"

WORK = (
    f"{REQUESTS} requests on a connection",  # the daemon removes the container of the last while this goes on
    f"{CONNECTIONS} connections at once",
    "docker version",
    f"{MEBIBYTES} MiB of output",
)
COMPARED = [(f"{work}, gate", f"{work}, daemon") for work in WORK]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _docker(program: str, path: str, *words: str) -> None:
    subprocess.run([program, "--host", f"unix://{path}", *words], stdout=subprocess.DEVNULL, check=True)


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(60)
    connection.connect(path)
    return connection


def _ping(connection: socket.socket) -> None:
    connection.sendall(GET)
    answer = b""
    while not answer.endswith(b"OK"):
        answer += connection.recv(4096)


def _requests(path: str) -> None:
    with _connected(path) as connection:
        for _ in range(REQUESTS):
            _ping(connection)


def _connections(path: str) -> None:
    def one() -> None:
        with _connected(path) as connection:
            _ping(connection)

    threads = [threading.Thread(target=one) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def commands(_: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The work to time, by what it shows; the memory of the idle gate is printed."""
    (program,) = programs.find("docker")
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox())
        installation = Installation(sandbox)
        without_notes(sandbox)
        linked = installation.link("shim-runc")
        docker = Docker(sandbox, linked, by_command(sandbox, installation.launcher, linked, "docker"))
        stack.callback(docker.stop)
        gate = Gate(sandbox, installation.launcher, docker)
        stack.callback(gate.stop)
        print(f"memory of the idle gate: {gate.memory() / 1024:.1f} MiB")
        much = ("run", "--rm", "--network=none", images.BUSYBOX, "/bin/head", "-c", f"{MEBIBYTES << 20}", "/dev/zero")
        calls: dict[str, Callable[[], object]] = {}
        by_path: dict[str, Callable[[str], object]] = dict(
            zip(
                WORK,
                (
                    _requests,
                    _connections,
                    lambda path: _docker(program, path, "version"),
                    lambda path: _docker(program, path, *much),
                ),
                strict=True,
            )
        )
        for work, call in by_path.items():  # side by side, so that what comes before is the same for both
            calls[f"{work}, gate"] = partial(call, str(gate.socket))
            calls[f"{work}, daemon"] = partial(call, f"{docker.directory}/socket")
        yield {name: partial(_timed, call) for name, call in calls.items()}
