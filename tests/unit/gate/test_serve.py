"""`shim gate serve` as a process: sockets, privileges, signals, counters."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conformance.gate_wire import Daemon, Received, read_answer, running

from shim.gate import server
from shim.gate.connection import Reader
from shim.host.sockets import listen

SHIM = str(Path(sys.executable).parent / "shim")
GET = b"GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n"
DENIED = b"POST /v1.41/swarm/init HTTP/1.1\r\nHost: d\r\n\r\n"
KEPT = (1 << 19) | (1 << 2)  # CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH


def connect(path: str, seconds: float = 20) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def ask(path: str, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    with connect(path) as connection:
        connection.sendall(raw)
        return read_answer(Reader(connection))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    listener = listen(f"{tmp_path}/upstream")
    daemon = Daemon(listener)
    threading.Thread(target=daemon.run, daemon=True).start()
    yield daemon
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    words = ["--subject=repo-a", f"--upstream={directory}/upstream", f"--grants={directory}/grants.json"]
    process = subprocess.Popen([SHIM, "gate", "serve", *words, *options], stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        assert process.stdout is not None
        process.stdout.close()
        process.wait(20)


@pytest.mark.usefixtures("daemon")
def test_it_serves_counts_and_ends(tmp_path: Path) -> None:
    with serving(tmp_path, f"--listen={tmp_path}/gate", f"--metrics={tmp_path}/metrics") as process:
        assert ask(f"{tmp_path}/gate", GET)[0] == 200
        assert ask(f"{tmp_path}/gate", DENIED)[1]["x-shim-gate"] == "swarm"
        status, headers, text = ask(f"{tmp_path}/metrics", b"GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert b'shim_gate_decisions_total{subject="repo-a",decision="deny",reason="swarm"} 1\n' in text
        assert b'shim_gate_grants_readable{subject="repo-a"} 1\n' in text
        assert (tmp_path / "gate").stat().st_mode & 0o777 == 0o660
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        lines = [json.loads(line) for line in process.stdout.read().splitlines()]
        assert process.wait(11) == 0
        assert [line.get("event", line.get("reason")) for line in lines] == ["start", "swarm"]


@pytest.mark.usefixtures("daemon")
def test_it_keeps_two_capabilities_and_gains_none(tmp_path: Path) -> None:
    with serving(tmp_path, f"--listen={tmp_path}/gate", f"--log={tmp_path}/log") as process:
        ask(f"{tmp_path}/gate", DENIED)
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert status["Name"] == "gate-repo-a"
        assert status["NoNewPrivs"] == "1"
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            assert int(status[name], 16) & ~KEPT == 0, name
        if os.geteuid() == 0:
            assert int(status["CapBnd"], 16) & ~KEPT == 0
            assert int(status["CapEff"], 16) == KEPT
        assert '"reason": "swarm"' in (tmp_path / "log").read_text()


@pytest.mark.usefixtures("daemon")
def test_a_socket_of_systemd_is_served(tmp_path: Path) -> None:
    listener = listen(f"{tmp_path}/gate")
    words = [SHIM, "gate", "serve", "--subject=repo-a", f"--upstream={tmp_path}/upstream", f"--log={tmp_path}/log"]
    code = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1');"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    number = listener.fileno()
    process = subprocess.Popen([sys.executable, "-c", code, str(number), *words], pass_fds=[number])
    with listener:
        assert ask(f"{tmp_path}/gate", GET)[0] == 200
    process.terminate()
    assert process.wait(20) == 0


def test_a_stale_socket_is_replaced_and_a_living_gate_is_not(tmp_path: Path) -> None:
    path = f"{tmp_path}/gate"
    listen(path).close()
    with listen(path), pytest.raises(OSError, match="Address already in use"):
        listen(path)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(["--listen=/nowhere/gate"], "GATE_LISTEN", id="no directory"),
        pytest.param([], "GATE_LISTEN", id="no socket"),
        pytest.param(["--listen=gate", "--log=/nowhere/log"], "GATE_LISTEN", id="no log"),
        pytest.param(["--policy=policy.toml"], "GATE_POLICY", id="policy"),
    ],
)
def test_it_does_not_start_with(options: list[str], text: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("x = 1")
    words = [SHIM, "gate", "serve", "--subject=repo-a", "--upstream=/nowhere/docker.sock", *options]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 1
    assert text in ran.stderr


def test_it_does_not_start_in_front_of_podman(tmp_path: Path) -> None:
    """Which has CDI names in other fields: a container whose grant was revoked could be started again."""
    answer = json.dumps({"Components": [{"Name": "Podman Engine"}], "Version": "4.3.1"})
    listener = listen(f"{tmp_path}/upstream")

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n"
            connection.sendall(f"{head}Connection: close\r\n\r\n{answer}".encode())

    thread = threading.Thread(target=run)
    thread.start()
    with serving(tmp_path, f"--listen={tmp_path}/gate") as process:
        assert process.wait(20) == 1
    thread.join()
    listener.close()
    assert not (tmp_path / "gate").exists(), "no client was ever taken"


def test_it_serves_nobody_with_privileges_that_it_should_have_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    import prctl

    from shim.base.findings import CdiError
    from shim.gate import serve

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(prctl, "set_name", refuse)
    with pytest.raises(CdiError) as caught:
        serve.drop_privileges("repo-a")
    assert caught.value.findings[0].id == "GATE_PRIVILEGE"


def test_without_the_library_that_drops_privileges_it_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from shim.base.findings import CdiError
    from shim.gate import serve

    monkeypatch.setitem(sys.modules, "prctl", None)
    with pytest.raises(CdiError) as caught:
        serve.drop_privileges("a")
    (found,) = caught.value.findings
    assert (found.id, "python-prctl" in found.text) == ("GATE_PRIVILEGE", True)
    assert found.remedy.startswith(f"{sys.executable} -m pip install python-prctl")


def test_streams_are_ended_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open `docker events` must not keep the gate from stopping."""
    monkeypatch.setattr(server, "_GRACE", 0.3)
    ended = threading.Event()

    def serve(_: Received, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        ended.wait(20)

    with running(tmp_path, serve=serve) as setup, setup.connect() as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: d\r\n\r\n")
        assert Reader(connection).head(None)
        setup.server.stop()
        began = time.monotonic()
        wait_for_end(setup.path)
        assert time.monotonic() - began < 10
        ended.set()


def wait_for_end(path: str) -> None:
    """Until nothing listens there."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(path)
            except OSError:
                return
        time.sleep(0.02)
    raise AssertionError("it still listens")
