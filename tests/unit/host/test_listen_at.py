"""Addresses at which a service of ours listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from shim.host import sockets


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _addresses() -> list[tuple[str, str, int]]:
    """Form of the address, host to connect to, family; those of IPv6 where this machine has it."""
    known = [("127.0.0.1:{}", "127.0.0.1", socket.AF_INET), (":{}", "127.0.0.1", socket.AF_INET)]
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return [*known]
    return [*known, ("[::1]:{}", "::1", socket.AF_INET6), (":{}", "::1", socket.AF_INET6)]


@pytest.mark.parametrize(("form", "host", "family"), _addresses())
def test_a_port_of_a_host_or_of_all(form: str, host: str, family: int) -> None:
    port = _free()
    with sockets.listen_at(form.format(port)), socket.socket(family) as client:
        client.settimeout(20)
        client.connect((host, port))


def test_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with sockets.listen_at(path):
        sockets.connect(path).close()


@pytest.mark.parametrize("address", ["", "socket", "host", "host:", "host:x", ":65536", "host:-1", "host:\u0663"])
def test_everything_else_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is neither an absolute path nor HOST:PORT"):
        sockets.listen_at(address)


def test_a_host_that_is_unknown_and_a_port_that_is_taken_are_errors_of_the_system() -> None:
    with pytest.raises(OSError):
        sockets.listen_at("host.invalid:1")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        sockets.listen_at(f"127.0.0.1:{taken.getsockname()[1]}")
