"""Network interfaces for low-level runtimes that do not know `linux.netDevices`. HOT, no I/O.

CDI 1.1.0 hands an interface to a container through `linux.netDevices` of the OCI runtime specification 1.3. An older
runtime (runc before 1.4, crun before 1.22) ignores the member without a word, and the container would start without
what it asked for. For these the same is done by two hooks, shim.hooks.netdevices: createRuntime moves the interface,
poststop brings it back.

The hooks work with every runtime, `linux.netDevices` only with some. So the question "does this runtime know it?" needs
no answer to be safe: whatever is not known for certain counts as no, and shim.host.abilities is the only source of a
yes. Guessing by version was not chosen (distributions backport, wrappers lie), and neither was asking
`runc features` here: no process is started on the create path.

A bundle may have hooks of an earlier create, when the answer was still no. They stay, since a hook in config.json is
never taken out, and what they move is not left to the runtime as well: it would be gone when they look for it.
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.host import netnames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Json = dict[str, Any]

# Hooks of ours: an explicit environment, because an empty one is that of the image under some runtimes
_ENV = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
_TIMEOUT = 10  # seconds
_ATTACH, _DETACH = ["hook", "netdevices", "attach"], ["hook", "netdevices", "detach"]


def wanted(origins: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The interfaces that a plan moves.

    Arguments:
        origins: a plan's origins, in the order of application.
    Returns:
        name on the host -> name in the container; the last to name a host interface decides, as shim.cdi.edits does.
    """
    found: dict[str, str] = {}
    for origin in origins:
        for item in origin["edits"].get("netDevices") or ():
            found[item["hostInterfaceName"]] = item["name"]
    return found


def place(config: Json, devices: Mapping[str, str], *, native: bool, rootful: bool, launcher: str) -> Json:
    """Check the interfaces of a plan and, where the runtime would ignore them, let hooks move them.

    Arguments:
        config: the config.json with the plan applied; it is not changed, the result shares members with it.
        devices: what `wanted` gave. An interface that config.json had for itself is not ours and stays where it is.
        native: the low-level runtime supports `linux.netDevices`; False when in doubt.
        rootful: this process is the host's root (shim.host.identity).
        launcher: absolute path of the launcher, the program of the hooks.
    Returns:
        the config for the low-level runtime; the given one when nothing is to be done.
    Raises:
        CdiError: NETDEV_ROOTLESS, NETDEV_NAME or NETDEV_HOST_NETWORK.
    """
    if not devices:
        return config
    findings = [] if rootful else [Finding("NETDEV_ROOTLESS", "only root can give an interface of the host away")]
    findings += _bad_names(devices)
    network = _network(config)
    if network is None:
        findings.append(Finding("NETDEV_HOST_NETWORK", "the container shares the network of the host"))
    if findings or network is None:
        raise CdiError(findings)
    hooks = config.get("hooks") or {}
    earlier = _moved(hooks.get("createRuntime"))
    pairs = {host: f"{host}:{name}" for host, name in devices.items()}
    moved = {host for host, pair in pairs.items() if not native or pair in earlier}
    if not moved:
        return config
    fresh = [pair for host, pair in pairs.items() if host in moved and pair not in earlier]
    if fresh:
        hooks = _with(hooks, fresh, launcher, network.get("path") or "")
    return {**config, "linux": _without(config["linux"], moved), "hooks": hooks}


def _bad_names(devices: Mapping[str, str]) -> list[Finding]:
    findings = []
    owners: dict[str, str] = {}
    for host, name in devices.items():
        findings += name_objections(host, name)
        other = owners.setdefault(name, host)
        if other != host and not name.endswith("%d"):
            text = f"{other} and {host} would both be {name} in the container"
            findings.append(Finding("NETDEV_NAME", text, "ask for one of the two, or change a name in the spec"))
    return findings


def name_objections(host: str, name: str) -> list[Finding]:
    """NETDEV_NAME, for a name that no interface can have.

    Arguments:
        host: the interface's name on the host.
        name: that in the container, which may be a template of the kernel (eth%d).
    """
    faults = [(text, netnames.fault(text, template=template)) for text, template in ((host, False), (name, True))]
    return [Finding("NETDEV_NAME", f"interface name {text!r}: {fault}") for text, fault in faults if fault]


def _network(config: Json) -> Json | None:
    """The entry of linux.namespaces for a network namespace of the container's own."""
    for namespace in (config.get("linux") or {}).get("namespaces") or ():
        if namespace.get("type") == "network":
            found: Json = namespace
            return found
    return None


def _moved(stage: list[Json] | None) -> list[str]:
    """The interfaces, as HOST:NAME, that hooks of an earlier create move."""
    words = [hook.get("args") or [] for hook in stage or ()]
    return [pair for args in words if args[1:4] == _ATTACH for pair in args[4:]]


def _with(hooks: Json, pairs: list[str], launcher: str, path: str) -> Json:
    """The hooks with two more, each at the end of its stage, behind whatever sets the network up."""
    attach = [launcher, *_ATTACH, *pairs]
    detach = [launcher, *_DETACH, *([f"--netns={path}"] if path else []), *pairs]
    common = {"path": launcher, "env": list(_ENV), "timeout": _TIMEOUT}
    added = {
        stage: [*(hooks.get(stage) or ()), {"args": args, **common}]
        for stage, args in (("createRuntime", attach), ("poststop", detach))
    }
    return {**hooks, **added}


def _without(linux: Json, devices: Iterable[str]) -> Json:
    """The linux section without the interfaces that the hooks move: a runtime could not find them any more."""
    kept = {host: entry for host, entry in (linux.get("netDevices") or {}).items() if host not in devices}
    section = {member: value for member, value in linux.items() if member != "netDevices"}
    if kept:
        section["netDevices"] = kept
    return section
