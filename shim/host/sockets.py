"""Sockets of our services: by a path or an address, or handed over by systemd. Cold.

Source: unix(7); sd_listen_fds(3).
"""

from __future__ import annotations

import os
import socket
import struct

_CONNECT = 5.0  # seconds
_BACKLOG = 128
_LAST_PORT = 65535


def connect(path: str) -> socket.socket:
    """A connection to what listens at a path; it blocks without limit of time. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT)
        connection.connect(path)
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group at the other end of a connection (SO_PEERCRED of unix(7))."""
    pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid, gid


def listen(path: str, mode: int = 0o660, group: int = -1) -> socket.socket:
    """A socket that listens at a path; a socket that nothing listens on is replaced.

    Arguments:
        path: of the socket.
        mode: of the socket.
        group: that owns it, -1: the process's.

    Raises OSError: for example EADDRINUSE where something listens.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            connect(path).close()
        except ConnectionRefusedError:
            os.unlink(path)
        except FileNotFoundError:
            pass
        before = os.umask(0o777 & ~mode)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        if group != -1:
            os.chown(path, -1, group)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def listen_at(address: str) -> socket.socket:
    """A socket that listens at a path, or at HOST:PORT; without HOST on every address of this machine.

    Arguments:
        address: an absolute path, HOST:PORT, [IPV6]:PORT or :PORT.
    Raises:
        OSError: as `listen`; socket.gaierror for a host that is unknown.
        ValueError: it is none of these.
    """
    if address.startswith("/"):
        return listen(address)
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        raise ValueError(f"{address!r} is neither an absolute path nor HOST:PORT")
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        return socket.create_server(("", int(port)), family=family, dualstack_ipv6=dual)
    family = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, int(port)), family=family)


def inherited() -> list[socket.socket]:
    """The sockets that systemd hands over, in the order of their units (sd_listen_fds(3)); [] without systemd."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(os.environ.get("LISTEN_FDS", "0"))
    return [socket.socket(fileno=descriptor) for descriptor in range(3, 3 + count)]
