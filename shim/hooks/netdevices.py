"""The netDevices hook: moves interfaces of the host into a container and back (CDI 1.1.0, netDevices).

    shim hook netdevices attach HOST:NAME…                   createRuntime, or prestart
    shim hook netdevices detach [--netns=PATH] HOST:NAME…    poststop

For low-level runtimes that ignore `linux.netDevices`; shim.create.netdevices writes the entries. The semantics are
those of the OCI runtime specification 1.3 (config-linux.md, "Network Devices"), so that a spec has the same effect
under every runtime: permanent addresses of global scope move with the interface, it is set up, a name that the
container has already is an error. Only the routes that the kernel adds for these addresses come along: the
specification leaves routing to the owner of the namespace, and a default route of the host would cut off the
container's network.

The only hook in Python; 110 ms of its time is the import of pyroute2, only for containers with netDevices.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import ExitStack, closing, contextmanager
from typing import NoReturn

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason, unexpected
from shim.host import identity, netnames, privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.hooks.interfaces import Namespace

_STATE_CAP = 4 << 20  # bytes of the OCI state on stdin
_NS_GET_NSTYPE = 0xB703  # ioctl of linux/nsfs.h
_CLONE_NEWNET = 0x40000000


def main(words: list[str]) -> NoReturn:
    """Run the hook: the OCI state on stdin, findings as lines on stderr. Exit status 0, 1 or 2 (usage).

    Arguments:
        words: what follows `shim hook netdevices`.
    """
    os.environ.clear()  # it may come from the image
    try:
        for finding in run(words):
            _tell(finding)
    except CdiError as error:
        for finding in error.findings:
            _tell(finding)
        sys.exit(1)
    except Exception as error:  # any error: the runtime shows stderr, where a traceback would not help
        number = getattr(error, "code", None)  # of pyroute2's NetlinkError, which may not be loaded yet
        cause = OSError(number, "") if isinstance(number, int) else error
        _tell(Finding("INTERNAL", f"netdevices hook: {unexpected(cause)}"))
        sys.exit(1)
    sys.exit(0)


def run(words: list[str]) -> list[Finding]:
    """Run the hook. Returns findings about parts that failed although the work was done; raises CdiError."""
    stage, path, devices = _parse(words)
    state = _state()
    if not identity.is_rootful():
        raise CdiError([Finding("NETDEV_ROOTLESS", "only root can give an interface of the host away")])
    from shim.hooks import lending, loan  # late: pyroute2 is loaded after the environment is cleared

    record = loan.Record(state["bundle"], state["id"])
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if stage == "detach":
        loans = record.take()
        with _confined(own, _outlived(path, own)) as (host, container):
            return lending.detach(devices, host, container, loans)
    target = _namespace(f"/proc/{state['pid']}/ns/net", own)
    try:
        record.create()
    except OSError as error:
        text = f"cannot write {record.path}: {reason(error)}"
        raise CdiError([Finding("NETDEV_STATE", text)]) from None
    try:
        with _confined(own, target) as (host, container):
            if container:
                lending.attach(devices, host, container, record)
    finally:
        record.close()
    return []


def _parse(words: list[str]) -> tuple[str, str, dict[str, str]]:
    """(stage, path of the namespace or "", devices). Exits with status 2 on anything else."""
    stage, rest = (words[0], words[1:]) if words else ("", [])
    path = ""
    if stage == "detach" and rest and rest[0].startswith("--netns="):
        path, rest = rest[0][len("--netns=") :], rest[1:]
    devices = dict(word.split(":", 1) for word in rest if ":" in word)
    whole = bool(devices) and len(devices) == len(rest)
    faults = [netnames.fault(host, template=False) for host in devices]
    faults += [netnames.fault(name, template=True) for name in devices.values()]
    if stage not in {"attach", "detach"} or not whole or any(faults):
        sys.stderr.write("usage: shim hook netdevices attach|detach [--netns=PATH] HOST:NAME...\n")
        sys.exit(2)
    return stage, path, devices


def _state() -> dict[str, str]:
    """id, bundle and pid of the OCI state on stdin, as texts."""
    try:
        state = fastjson.loads(sys.stdin.buffer.read(_STATE_CAP).decode())
        bundle, container, pid = state["bundle"], state["id"], int(state.get("pid") or 0)
        if not bundle.startswith("/") or not container or pid < 0:
            raise ValueError("an id, an absolute bundle and a pid are needed")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        text = f"the container's state on stdin cannot be used: {type(error).__name__}: {error}"
        raise CdiError([Finding("NETDEV_STATE", text)]) from None
    return {"bundle": bundle, "id": container, "pid": str(pid)}


def _namespace(path: str, own: int) -> int:
    """An open file of the container's network namespace, which must differ from ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CdiError([Finding("NETDEV_STATE", f"cannot use {path}: {reason(error)}")]) from None
    if not _is_network(fd):
        raise CdiError([Finding("NETDEV_STATE", f"cannot use {path}: it is no network namespace")])
    if os.path.sameopenfile(fd, own):
        raise CdiError([Finding("NETDEV_HOST_NETWORK", "the container shares the network of the host")])
    return fd


def _is_network(fd: int) -> bool:
    try:
        return fcntl.ioctl(fd, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:  # no namespace at all
        return False


def _outlived(path: str, own: int) -> int | None:
    """The same for poststop: None for a private namespace, which has ended, and for a path without a namespace."""
    try:
        return _namespace(path, own) if path else None
    except CdiError:
        return None


@contextmanager
def _confined(own: int, target: int | None) -> Iterator[tuple[Namespace, Namespace | None]]:
    """Give up all privileges but two, and open the namespaces for the duration of the block."""
    try:
        import prctl  # late, like the next: see run
    except ImportError as error:
        text = f"privileges cannot be dropped without python-prctl: {error}"
        raise CdiError([Finding("NETDEV_PRIVILEGE", text, privileges.install())]) from None

    from shim.hooks.interfaces import Namespace

    kept = (prctl.CAP_NET_ADMIN, prctl.CAP_SYS_ADMIN)  # netlink, setns
    with ExitStack() as opened:
        try:
            prctl.set_name("shim-netdevices")
            prctl.set_no_new_privs(1)
            prctl.securebits.noroot = True
            prctl.securebits.noroot_locked = True
            prctl.capbset.limit(*kept)
            prctl.cap_inheritable.limit()
            prctl.cap_effective.limit(*kept)
            prctl.cap_permitted.limit(*kept)
            host = opened.enter_context(closing(Namespace(own, own)))
            container = None if target is None else opened.enter_context(closing(Namespace(target, own)))
        except PermissionError as error:
            raise CdiError([Finding("NETDEV_PRIVILEGE", f"a capability is missing: {reason(error)}")]) from None
        yield host, container


def _tell(finding: Finding) -> None:
    text = f"shim: {finding.id}: {finding} ({finding.remedy})"
    sys.stderr.write("".join(char if char.isprintable() else repr(char)[1:-1] for char in text) + "\n")
