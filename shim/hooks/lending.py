"""Lends interfaces of the host to a container, and takes them back.

attach is all or nothing: everything is checked before the first interface moves, and after a failure all interfaces are
moved back. A second attach of a moved interface succeeds. An interface gets two alternative names: its original name,
if the container has no interface of that name, and TAG + the requested name, by which it is identified later. No
interface can have the latter as its first name (it is longer than IFNAMSIZ).

detach brings back the interfaces of the record (shim.hooks.loan). A namespace with a path outlives the container: the
interface is moved back from there. A private namespace has ended: the kernel returned hardware to the initial
namespace, as devN or under the name it had, which may take a moment; a virtual interface was destroyed, which is no
error. Names, addresses and state are restored; no configuration of the container reaches the host.
"""

from __future__ import annotations

import errno
import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.hooks.interfaces import Interface, Namespace, NetlinkError, why
from shim.hooks.loan import Loan, Record

TAG = "shim-host-name-"
_RETURN_WAIT = 5.0  # seconds in which the kernel should return hardware of a namespace that has ended


# --- createRuntime ----------------------------------------------------------------------------------------------------


def attach(devices: dict[str, str], host: Namespace, container: Namespace, record: Record) -> None:
    """Move interfaces into a container's namespace.

    Arguments:
        devices: name on the host -> name in the container.
        host, container: the two namespaces.
        record: opened for writing.
    Raises:
        CdiError: no interface has moved then.
    """
    with _alone(host):
        loans = record.read()
        done: list[Loan] = []
        try:
            for asked, interface, in_place in _check(devices, host, container):
                if in_place:
                    _complete([loan for loan in loans if loan.host == asked], interface, container)
                    continue
                loan = _loan(asked, interface, host)
                loans = [other for other in loans if other.host != asked] + [loan]
                done.append(loan)
                record.write(loans)
                _lend(loan, interface, devices[asked], host, container)
                record.write(loans)
            _name_again(done, container)
        except (CdiError, OSError, NetlinkError) as error:
            refused = error if isinstance(error, CdiError) else CdiError([_refused(done, error)])
            for loan in reversed(done):
                _fetch(loan, host, container, refused.findings)
            try:
                record.write([loan for loan in loans if loan not in done])
            except OSError:  # then it lists interfaces that are on the host already, and detach leaves them as they are
                pass
            raise refused from None


def _refused(done: list[Loan], error: Exception) -> Finding:
    about = f"{done[-1].host}: " if done else ""
    if isinstance(error, NetlinkError):
        rule = "NETDEV_PRIVILEGE" if error.code == errno.EPERM else "NETDEV_MOVE"
        return Finding(rule, about + why(error.code))
    return Finding("NETDEV_STATE", about + (reason(error) if isinstance(error, OSError) else str(error)))


def _loan(asked: str, interface: Interface, host: Namespace) -> Loan:
    return Loan(
        host=asked,
        # identified by the tag: it came back from an earlier loan under a name of the kernel or of a container
        name=interface.name if asked in interface.names else asked,
        altnames=[name for name in interface.altnames if name != TAG + asked],
        kind=interface.kind,
        identity=interface.identity,
        up=interface.up,
        addresses=host.addresses(interface.index),
    )


def _check(devices: dict[str, str], host: Namespace, container: Namespace) -> list[tuple[str, Interface, bool]]:
    """(host name, interface, whether the container has it already) for each device, or CdiError with all obstacles."""
    here, there = host.interfaces(), container.interfaces()
    findings: list[Finding] = []
    moves = []
    for name, target in devices.items():
        interface = _named(here, name) or _named(here, TAG + name)
        if interface is None:
            lent = _named(there, TAG + name)
            if lent and lent.name != target and not target.endswith("%d"):
                text = f"{name} is in the container already, as {lent.name} and not as {target}"
                findings.append(Finding("NETDEV_NAME_TAKEN", text))
            elif lent:
                moves.append((name, lent, True))
            else:
                known = ", ".join(other.name for other in here[:10])
                findings.append(Finding("NETDEV_MISSING", f"the host has no network interface {name}; it has {known}"))
            continue
        if interface.loopback:
            findings.append(Finding("NETDEV_MOVE", f"{name} is a loopback interface, which belongs to its namespace"))
        elif interface.master:
            owner = next((other.name for other in here if other.index == interface.master), "another interface")
            text = f"{name} belongs to {owner}, which would lose it"
            findings.append(Finding("NETDEV_ENSLAVED", text, f"`ip link set {name} nomaster` frees it"))
        elif _named(there, target):
            findings.append(Finding("NETDEV_NAME_TAKEN", f"the container has an interface {target} already"))
        else:
            moves.append((name, interface, False))
    if findings:
        raise CdiError(findings)
    return moves


def _mark(interface: Interface, tag: str, host: Namespace) -> None:
    """Tag an interface of the host. The same tag of another interface, from a loan that never ended, is removed."""
    if tag in interface.altnames:
        return
    for other in host.interfaces():
        if tag in other.altnames:
            host.remove_name(other.index, tag)
    host.add_name(interface.index, tag)


def _lend(loan: Loan, interface: Interface, target: str, host: Namespace, container: Namespace) -> None:
    _mark(interface, TAG + loan.host, host)
    if target in loan.altnames:  # for the kernel the name would be taken by an interface
        host.remove_name(interface.index, target)
    try:
        host.move(interface.index, container, target)
    except NetlinkError as error:
        rule = "NETDEV_MOVE"
        if error.code == errno.EINVAL:
            text = f"the kernel lets {loan.host} not leave its namespace (so it is with bridges and fallback tunnels)"
        elif error.code == errno.EEXIST:
            rule = "NETDEV_NAME_TAKEN"
            text = f"the container has an interface {target}, or one with an alternative name of {loan.host}, already"
        else:
            text = f"{loan.host} cannot be moved: {why(error.code)}"
        raise CdiError([Finding(rule, text)]) from None
    moved = _named(container.interfaces(), TAG + loan.host)
    if moved is None:
        raise CdiError([Finding("NETDEV_MOVE", f"{loan.host} was moved, but the container does not have it")])
    loan.index = moved.index
    _complete([loan], moved, container)


def _name_again(loans: list[Loan], container: Namespace) -> None:
    """Add the host's names as alternative names: last, since the requested names take precedence."""
    for loan in loans:
        if _named(container.interfaces(), loan.name) is None:
            container.add_name(loan.index, loan.name)


def _complete(loans: list[Loan], moved: Interface, container: Namespace) -> None:
    """Set addresses and state of an interface in the container, also after an interrupted attach."""
    for loan in loans:
        for address in loan.addresses:
            try:
                container.add_address(moved, address, loan.name)
            except NetlinkError as error:
                what = f"address {_text(address)} of {loan.host}: {why(error.code)}"
                hint = "; IPv6 is switched off in the container's network" if error.code == errno.EACCES else ""
                raise CdiError([Finding("NETDEV_ADDRESS", what + hint)]) from None
    try:
        container.set_up(moved.index)
    except NetlinkError as error:
        raise CdiError([Finding("NETDEV_MOVE", f"{moved.name} cannot be set up: {why(error.code)}")]) from None


# --- poststop ---------------------------------------------------------------------------------------------------------


def detach(devices: dict[str, str], host: Namespace, container: Namespace | None, loans: list[Loan]) -> list[Finding]:
    """Return interfaces to the host, with their former names, addresses and states.

    Arguments:
        devices: name on the host -> name in the container.
        host: the namespace of this process.
        container: the container's namespace if it still exists, else None.
        loans: the lent interfaces; a device without a loan never left the host, or has come back.
    Returns:
        findings about everything that could not be restored.
    """
    findings: list[Finding] = []
    until = time.monotonic() + _RETURN_WAIT
    for loan in loans:
        if loan.host not in devices:
            continue
        if container:
            with _alone(host):
                if not _fetch(loan, host, container, findings):
                    findings.append(Finding("NETDEV_LOST", f"{loan.host} is no longer in the container's network"))
            continue
        back = _returned(loan, host, until)
        if back:
            with _alone(host):
                _settle(loan, back, host, findings)
        elif loan.comes_back:
            text = f"the kernel did not give {loan.host} back within {_RETURN_WAIT:.0f} seconds"
            findings.append(Finding("NETDEV_LOST", text))
    return findings


def _fetch(loan: Loan, host: Namespace, container: Namespace, findings: list[Finding]) -> bool:
    """Move an interface out of the container's namespace. False when it is neither there nor on the host."""
    tag = TAG + loan.host
    borrowed = _named(container.interfaces(), tag)
    if borrowed and _is(loan, borrowed) and loan.index in {0, borrowed.index}:
        try:
            for name in borrowed.altnames:
                if name != tag:  # perhaps added by the container; the host's names are added again
                    container.remove_name(borrowed.index, name)
            try:
                container.move(borrowed.index, host, loan.name)
            except NetlinkError as error:
                if error.code != errno.EEXIST:
                    raise
                if _named(container.interfaces(), tag):  # the host has that name already: named as by the kernel
                    container.move(borrowed.index, host, "dev%d")
        except NetlinkError as error:
            text = f"{loan.host} stays in the container's network: {why(error.code)}"
            findings.append(Finding("NETDEV_LOST", text))
            return True
    back = _named(host.interfaces(), tag)
    if back is None or not _is(loan, back):
        return False
    _settle(loan, back, host, findings)
    return True


def _returned(loan: Loan, host: Namespace, until: float) -> Interface | None:
    """The interface among the host's, by its tag, else by its identity; waits for hardware."""
    while True:
        here = [interface for interface in host.interfaces() if _is(loan, interface)]
        same = [interface for interface in here if any(loan.identity)]
        returned = _named(here, TAG + loan.host) or (same[0] if len(same) == 1 else None)
        if returned or not loan.comes_back or time.monotonic() >= until:
            return returned
        time.sleep(0.02)


def _settle(loan: Loan, interface: Interface, host: Namespace, findings: list[Finding]) -> None:
    """Restore names, addresses and state. Failures become findings."""

    def attempt(what: str, function: Callable[..., None], *arguments: object) -> bool:
        try:
            function(*arguments)
        except NetlinkError as error:
            if error.code == errno.EEXIST and function == host.add_name:
                return True  # another interface has the name now, and this has others
            text = f"{loan.host} is back as {interface.name}, but {what}: {why(error.code)}"
            findings.append(Finding("NETDEV_LOST", text))
            return False
        return True

    for name in interface.altnames:
        if name not in loan.altnames:
            attempt(f"keeps the name {name}", host.remove_name, interface.index, name)
    if interface.name != loan.name and attempt(f"not as {loan.name}", host.rename, interface, loan.name):
        interface.name = loan.name
    for name in loan.altnames:
        if name not in interface.altnames:
            attempt(f"without the name {name}", host.add_name, interface.index, name)
    for address in loan.addresses:
        attempt(f"without {_text(address)}", host.add_address, interface, address, loan.name)
    if loan.up:
        attempt("down", host.set_up, interface.index)


# --- both ways --------------------------------------------------------------------------------------------------------


@contextmanager
def _alone(host: Namespace) -> Iterator[None]:
    """Only one hook at a time changes the host's interfaces: a lock on its namespace, which leaves no trace."""
    fcntl.flock(host.fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(host.fd, fcntl.LOCK_UN)


def _is(loan: Loan, interface: Interface) -> bool:
    return interface.kind == loan.kind and interface.identity == loan.identity


def _named(interfaces: list[Interface], name: str) -> Interface | None:
    first = next((interface for interface in interfaces if interface.name == name), None)
    return first or next((interface for interface in interfaces if name in interface.altnames), None)


def _text(address: dict[str, Any]) -> str:
    attributes = address["attributes"]
    return f"{attributes.get('local') or attributes.get('address')}/{address['prefixlen']}"
