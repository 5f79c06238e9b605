"""The rules of a HostConfig: of the body of a create, and of a stored container that is to be started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.gate.judge import devices, paths, volumes
from shim.gate.judge.fields import STRUCTS
from shim.gate.judge.json_strict import is_zero, quoted
from shim.gate.judge.messages import Denied

if TYPE_CHECKING:
    from shim.gate.judge.model import Inspect, Policy, RealPath

_CAPABILITIES = frozenset({
    "AUDIT_WRITE", "BLOCK_SUSPEND", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL",
    "LEASE", "LINUX_IMMUTABLE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RESOURCE", "WAKE_ALARM",
})  # fmt: skip
_MASKED = frozenset({
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
    "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
})  # fmt: skip
_READONLY = frozenset({
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
})  # fmt: skip
_SECURITY_KEYS = frozenset({"label", "apparmor", "seccomp", "no-new-privileges"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})  # strconv.ParseBool
_JOINED = 8  # containers whose namespaces are joined, one behind the other


def judge(
    host: dict[str, Any],
    variables: list[str],
    policy: Policy,
    grants: frozenset[str] | None,
    inspect: Inspect,
    realpath: RealPath,
) -> list[str]:
    """Judge a HostConfig in its canonical form. Rules that no grant changes come first, in a fixed order.

    Arguments:
        host: the HostConfig.
        variables: of the container's environment.
        policy, grants, inspect, realpath: as of decide.

    Returns: the names that it asks for, granted or not.
    Raises Denied: the reason.
    """
    names = devices.of_requests(host.get("DeviceRequests") or (), policy, grants)
    devices.check_paths(host.get("Devices") or (), policy)
    check_zero(host, "HostConfig", policy, ("device-cgroup-rule", "privileged"))
    names += devices.of_runtime(host.get("Runtime") or "", policy)
    devices.check_variables(variables, grants)
    names += devices.of_annotations(host.get("Annotations") or {}, policy)
    _check_mounts(host, policy, realpath)
    _check_capabilities(host, inspect)
    for option in host.get("SecurityOpt") or ():
        _check_security_option(option)
    _check_system_paths(host)
    _check_namespaces(host, policy, inspect)
    check_zero(host, "HostConfig", policy, ("cgroup-parent", "cgroup-join"))
    return names


def check_zero(value: dict[str, Any], struct: str, policy: Policy, reasons: tuple[str, ...]) -> None:
    """Refuse fields that must be zero. Raises Denied: their reason in the table, where it is one of `reasons`."""
    for field, action in STRUCTS[struct].items():
        if action in reasons and not is_zero(value.get(field)) and action not in policy.allow:
            gaps = {"name": action, "capability": field, "when": "", "allowed": "CapAdd with listed capabilities"}
            raise Denied(action, **gaps)


def _check_mounts(host: dict[str, Any], policy: Policy, realpath: RealPath) -> None:
    binds = [paths.split_bind(bind) for bind in host.get("Binds") or ()]
    mounts = host.get("Mounts") or ()
    for target in (*(target for _, target, _ in binds), *(mount.get("Target") or "" for mount in mounts)):
        paths.check_target(target)
    for target in host.get("Tmpfs") or ():
        paths.check_target(target)
    for source, _, options in binds:
        if source and not paths.is_volume(source):
            paths.check_source(source, policy, realpath, is_readonly="ro" in options)
        paths.check_options(options)
    for mount in mounts:
        _check_mount(mount, policy, realpath)
    volumes.check_driver(host.get("VolumeDriver") or "")


def _check_mount(mount: dict[str, Any], policy: Policy, realpath: RealPath) -> None:
    type = mount.get("Type") or ""
    source = mount.get("Source") or ""
    if type not in ("bind", "volume", "tmpfs", "image"):
        raise Denied("mount-type", type=quoted(type))
    if type == "bind":
        paths.check_source(source, policy, realpath, is_readonly=bool(mount.get("ReadOnly")))
    elif type == "volume" and source and not paths.is_volume(source):
        raise Denied("bind-host-path", source=quoted(source), why="the source of a volume is a name")
    paths.check_propagation((mount.get("BindOptions") or {}).get("Propagation") or "")
    driver = (mount.get("VolumeOptions") or {}).get("DriverConfig") or {}
    volumes.check_driver(driver.get("Name") or "")
    volumes.check_options(driver.get("Options") or {}, policy)


def _check_capabilities(host: dict[str, Any], inspect: Inspect) -> None:
    allowed = ", ".join(sorted(_CAPABILITIES))
    names = {written: capability(written) for written in host.get("CapAdd") or ()}
    for written, name in names.items():
        if name not in _CAPABILITIES:
            raise Denied("cap-add", capability=quoted(written), when="", allowed=allowed)
        if name == "NET_ADMIN" and _joins_host(host, "NetworkMode", inspect):
            when = " in the host's network"
            raise Denied("cap-add", capability=name, when=when, allowed=allowed)
    if not is_zero(host.get("Capabilities")):
        raise Denied("cap-add", capability="in the field Capabilities", when="", allowed=f"CapAdd with {allowed}")


def capability(written: str) -> str:
    """The name of a capability as the table has it."""
    return written.upper().removeprefix("CAP_")


def _check_security_option(option: str) -> None:
    """Source: daemon/daemon_unix.go of moby, parseSecurityOpt: `=`, else `:`, separates key and value."""
    key, _, value = option.partition("=" if "=" in option else ":")
    if option == "disable" or key in _SECURITY_KEYS or (key == "writable-cgroups" and value in _FALSE):
        return
    raise Denied("security-opt", option=quoted(option))


def _check_system_paths(host: dict[str, Any]) -> None:
    for field, least in (("MaskedPaths", _MASKED), ("ReadonlyPaths", _READONLY)):
        given = host.get(field)
        if given is not None and not least <= set(given):
            raise Denied("system-paths")


def _check_namespaces(host: dict[str, Any], policy: Policy, inspect: Inspect) -> None:
    if _joins_host(host, "PidMode", inspect):
        raise Denied("host-pid")
    if "ipc-host" not in policy.allow and _joins_host(host, "IpcMode", inspect):
        raise Denied("host-ipc")
    if host.get("UsernsMode") == "host" and "userns-host" not in policy.allow:
        raise Denied("host-userns")


def _joins_host(host: dict[str, Any], field: str, inspect: Inspect) -> bool:
    """Whether a namespace is the host's, also where it is that of a container that has the host's."""
    mode = host.get(field) or ""
    for _ in range(_JOINED):
        if not isinstance(mode, str) or not mode.startswith("container:"):
            break
        joined = inspect(mode.removeprefix("container:"))
        mode = ((joined or {}).get("HostConfig") or {}).get(field) or ""
    return mode == "host"
