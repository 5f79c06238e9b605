"""The record of interfaces that the host lent to a container, beside the bundle's config.json.

The poststop hook needs it: the identity of the interface (a container with CAP_NET_ADMIN can rename interfaces and give
them alternative names, so a name proves nothing), whether it comes back, and how the host had configured it. The record
is written before the interface moves, and removed at the end of the loan; the bundle belongs to the runtime's user.

It is written through a descriptor that was opened while the process still had all its privileges: a bundle whose owner
is another uid (user namespaces) could not be written later. So each state is appended as a line of JSON, and the last
whole line counts: when a disk is full, the line before has the loans so far.
"""

from __future__ import annotations

import os
from typing import Any

from shim.base import fastjson
from shim.host.identity import is_our_file

_FORMAT = 1
_CAP = 1 << 20


class Loan:
    """An interface on loan.

    Attributes:
        host: the requested name.
        name, altnames, kind, identity, up: as in shim.hooks.interfaces.Interface, before it was changed.
        addresses: of Namespace.addresses at that time.
        index: its number in the container, 0 before it has moved.
    """

    __slots__ = ("addresses", "altnames", "host", "identity", "index", "kind", "name", "up")

    def __init__(
        self,
        *,
        host: str,
        name: str,
        altnames: list[str],
        kind: str,
        identity: list[str],
        up: bool,
        addresses: list[Any],
        index: int = 0,
    ) -> None:
        self.host = host
        self.name = name
        self.altnames = altnames
        self.kind = kind
        self.identity = identity
        self.up = up
        self.addresses = addresses
        self.index = index

    @property
    def comes_back(self) -> bool:
        """Whether the kernel moves it to the initial namespace when the container's private namespace ends.

        It does so with hardware, which has no rtnl kind, and with interfaces of drivers with netns_refund in their
        rtnl_link_ops; all others are destroyed.
        """
        return self.kind in {"", "can", "ipoib"}


class Record:
    """The record of a container.

    Arguments:
        bundle: the bundle's directory.
        container: the container's id; containers may share a bundle.
    """

    def __init__(self, bundle: str, container: str) -> None:
        self.path = f"{bundle}/.shim-netdevices-{container.replace('/', '_')[:200]}.json"
        self._fd = -1

    def create(self) -> None:
        """Open the record for writing. Its content stays until `write`. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = os.open(self.path, flags, 0o600)
        if not self._is_ours():
            raise OSError("it is not a file of ours")

    def take(self) -> list[Loan]:
        """Read the record and remove it: the loans, [] when it is missing or incomplete."""
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return []
        try:
            loans = self.read()
            os.unlink(self.path)
        except OSError:
            return []
        finally:
            os.close(self._fd)
        return loans

    def read(self) -> list[Loan]:
        """The loans of the opened record, [] when it is empty, incomplete or another user's."""
        if not self._is_ours():
            return []
        try:
            size = os.fstat(self._fd).st_size
            lines = os.pread(self._fd, _CAP, max(0, size - _CAP)).split(b"\n")
        except OSError:
            return []
        for line in reversed(lines):
            try:
                document = fastjson.loads(line.decode())
                return [Loan(**members) for members in document["loans"]] if document["format"] == _FORMAT else []
            except (ValueError, LookupError, TypeError):
                continue  # an incomplete line, or the end of such a line
        return []

    def write(self, loans: list[Loan]) -> None:
        """Append the present state of the loans. Raises OSError; then the former state still counts."""
        members = [{name: getattr(loan, name) for name in Loan.__slots__} for loan in loans]
        text = fastjson.dumps({"format": _FORMAT, "loans": members}).encode()
        end = os.fstat(self._fd).st_size
        view = memoryview(b"\n" + text)
        while view:
            written = os.pwrite(self._fd, view, end)
            view, end = view[written:], end + written

    def close(self) -> None:
        """Close the record, and remove it if it has no loan. It stays if the directory can no longer be written."""
        if not self.read():
            try:
                os.unlink(self.path)
            except OSError:
                pass
        os.close(self._fd)

    def _is_ours(self) -> bool:
        return is_our_file(os.fstat(self._fd))
