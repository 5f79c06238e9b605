"""The network interfaces of one network namespace, through rtnetlink (pyroute2).

A netlink socket belongs to the namespace in which it was opened: the process enters a namespace only to open a socket,
and then uses two sockets, one for each namespace. An interface is identified by its index, never by a name, which could
change between two requests.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from shim.base.paths import reason
from shim.host import netnames

if TYPE_CHECKING:
    Address = dict[str, Any]

__all__ = ["Interface", "Namespace", "NetlinkError", "why"]

_CLONE_NEWNET = 0x40000000
_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
_IFA_F_PERMANENT = 0x80
_SCOPE_UNIVERSE = 0
_FOREVER = 0xFFFFFFFF
# Flags that a user can set (linux/if_addr.h); the other flags are states that the kernel determines:
# NODAD, OPTIMISTIC, HOMEADDRESS, MANAGETEMPADDR, NOPREFIXROUTE, MCAUTOJOIN
_ASKABLE = 0x02 | 0x04 | 0x10 | 0x100 | 0x200 | 0x400


class Interface:
    """An interface, with its state when it was read.

    Attributes:
        index: its number in this namespace.
        name: its name in this namespace.
        altnames: its alternative names.
        kind: the driver's rtnl kind ("veth", "dummy"); "" for hardware, which has none.
        identity: bus, bus address and permanent hardware address, "" where there is none: values that a container
            cannot change.
        up: administratively up.
        loopback: it is lo.
        master: index of the bridge, bond or VRF it belongs to, 0 for none.
    """

    __slots__ = ("altnames", "identity", "index", "kind", "loopback", "master", "name", "up")

    def __init__(self, message: Any) -> None:
        self.index: int = message["index"]
        self.name: str = message.get("ifname") or ""
        properties = message.get("prop_list")
        self.altnames: list[str] = list(properties.get_attrs("IFLA_ALT_IFNAME")) if properties else []
        self.kind: str = message.get(("linkinfo", "kind")) or ""
        parts = (message.get("parent_dev_bus_name"), message.get("parent_dev_name"), message.get("perm_address"))
        self.identity: list[str] = [part or "" for part in parts]
        self.up = bool(message["flags"] & _IFF_UP)
        self.loopback = bool(message["flags"] & _IFF_LOOPBACK)
        self.master: int = message.get("master") or 0

    @property
    def names(self) -> list[str]:
        """All its names."""
        return [self.name, *self.altnames]


class Namespace:
    """A network namespace, whose interfaces can be read and changed.

    Arguments:
        fd: an open namespace file, which the caller closes.
        own: an open file of the namespace this process is in, to return to.
    Raises:
        OSError: the file is no network namespace, or CAP_SYS_ADMIN is missing.
    """

    def __init__(self, fd: int, own: int) -> None:
        self.fd = fd
        if fd != own:
            _enter(fd)
        try:
            self._route = IPRoute()
        finally:
            if fd != own:
                _enter(own)

    def close(self) -> None:
        """Close the socket."""
        self._route.close()

    def interfaces(self) -> list[Interface]:
        """All interfaces. Always a whole dump: kernels before 6.6 lose the index of names when an interface moves."""
        return [Interface(message) for message in self._route.get_links()]

    def addresses(self, index: int) -> list[Address]:
        """The addresses of an interface that move with it, in the kernel's order, as values for `add_address`.

        Those are the permanent ones of global scope, of any family (OCI runtime specification, config-linux.md,
        "Network Devices"): not link-local addresses, which the kernel creates anew, and not leased addresses.
        """
        return [
            _address(message)
            for message in self._route.get_addr(index=index)
            if _flags(message) & _IFA_F_PERMANENT and message["scope"] == _SCOPE_UNIVERSE
        ]

    def add_address(self, interface: Interface, address: Address, old_name: str) -> None:
        """Give an interface an address; an existing address is no error. Raises NetlinkError.

        The kernel adds the route to the address's network, with the metric of the address.
        """
        given = {"family": address["family"], "prefixlen": address["prefixlen"], "flags": address["flags"]}
        label = address["label"]
        if label.startswith(old_name):  # an IPv4 label begins with the interface's name (linux/inetdevice.h)
            label = interface.name + label[len(old_name) :]
            given |= {"label": label} if len(label) <= netnames.SIZE else {}
        lifetimes = {"preferred": address["preferred"], "valid": _FOREVER}
        try:
            self._route.addr("add", index=interface.index, **given, **address["attributes"], **lifetimes)
        except NetlinkError as error:
            if error.code != errno.EEXIST:
                raise

    def move(self, index: int, target: Namespace, name: str) -> None:
        """Move an interface and rename it, in one request; a name may end in %d. Raises NetlinkError.

        The kernel first moves, under the old name if that is free and else under the new name, then renames: when it
        refuses the second step, the interface is in the target under its old name.
        """
        self._route.link("set", index=index, net_ns_fd=target.fd, ifname=name)

    def rename(self, interface: Interface, name: str) -> None:
        """Rename an interface. Kernels before 6.2 require that it is down. Raises NetlinkError."""
        if interface.up:
            self._route.link("set", index=interface.index, state="down")
        self._route.link("set", index=interface.index, ifname=name)

    def set_up(self, index: int) -> None:
        """Set an interface up. Raises NetlinkError."""
        self._route.link("set", index=index, state="up")

    def add_name(self, index: int, name: str) -> None:
        """Add an alternative name (kernel 5.5, IFLA_PROP_LIST). Raises NetlinkError."""
        self._route.link("property_add", index=index, altname=name)

    def remove_name(self, index: int, name: str) -> None:
        """Remove an alternative name. Raises NetlinkError."""
        self._route.link("property_del", index=index, altname=name)


def why(number: int) -> str:
    """The meaning of an error of the kernel, in shim.base.paths' words if engines turn it into an exit status."""
    return reason(OSError(number, "")) if number in {errno.ENOENT, errno.EACCES, errno.EPERM} else os.strerror(number)


def _enter(fd: int) -> None:
    if hasattr(os, "setns"):
        os.setns(fd, _CLONE_NEWNET)
        return
    import ctypes  # Python before 3.12. Not by find_library, which starts ldconfig

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _flags(message: Any) -> int:
    flags = message.get("IFA_FLAGS")  # 32 bits; the header has only the lower 8
    return int(message["flags"] if flags is None else flags)


def _address(message: Any) -> Address:
    lifetimes = message.get("IFA_CACHEINFO")
    kept = ("address", "local", "broadcast", "rt_priority", "proto")
    attributes = {name: message.get(f"IFA_{name.upper()}") for name in kept}
    return {
        "family": message["family"],
        "prefixlen": message["prefixlen"],
        "flags": _flags(message) & _ASKABLE,
        "label": message.get("IFA_LABEL") or "",
        "preferred": lifetimes["ifa_preferred"] if lifetimes else _FOREVER,
        "attributes": {name: value for name, value in attributes.items() if value is not None},
    }
