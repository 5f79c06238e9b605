"""Rules: what the create path demands beyond the specification, before anything is injected. HOT.

A spec is root's word, so the library takes whatever the specification allows. The create path runs as root under every
container, and lays these rules over it:

    requests  at most 128 names of at most 256 letters.
    config    no working directory below /proc, where a leaked descriptor leads out of the container (CVE-2024-21626);
              no member that differs from one that we edit by the case of its letters only: Go would read both.
    targets   nodes and mounts lie at an absolute path without `..`, not at `/`, and not in /proc or /sys.
    mounts    no propagation back to the host, and no option with a comma in it, which mount(2) would read as several.
    hooks     run as root on the host, with an environment of their own, in bounded time, and only programs that nobody
              but a trusted user could have put there.

startContainer hooks are left as they are: they are programs of the image and run inside, with the container's rights.

Source: OCI runtime specification, "POSIX-platform Hooks"; runc hands a hook without `env` the environment of the image.
"""

from __future__ import annotations

import posix

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean, reason
from shim.cdi.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from shim.host.trust import Trust

    Json = dict[str, Any]

MAX_NAMES = 128
MAX_NAME = 256  # letters

# --- requests and config.json ---------------------------------------------------------------------------------------


def check_call(unknown: str, names: Collection[str], config: Json) -> None:
    """Refuse a create that asks for devices in a way that cannot be trusted or understood.

    Arguments:
        unknown: the option in front of the verb that no table knows, or "".
        names: the qualified names asked for.
        config: the decoded config.json.
    Raises:
        CdiError: OPTION_UNKNOWN, REQUEST_LIMIT, CWD_FORBIDDEN or CONFIG_JSON.
    """
    if unknown:
        text = f"{unknown} in front of the verb is unknown, so the command line is not certain"
        raise CdiError([Finding("OPTION_UNKNOWN", text)])
    check_names(names)
    check_config(config)


def check_names(names: Collection[str]) -> None:
    """Refuse requests beyond any use. Raises CdiError (REQUEST_LIMIT)."""
    if len(names) > MAX_NAMES:
        raise CdiError([Finding("REQUEST_LIMIT", f"{len(names)} devices are asked for, at most {MAX_NAMES} are given")])
    for name in names:
        if len(name) > MAX_NAME:
            text = f"the name {name[:64]}... has {len(name)} letters, at most {MAX_NAME} are taken"
            raise CdiError([Finding("REQUEST_LIMIT", text, "give the device a shorter name in its spec")])


# The members that are edited or decide about edits, by the way to the object that holds them.
_MEMBERS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "process linux mounts hooks"),
    (("process",), "env cwd user"),
    (("process", "user"), "uid gid additionalGids"),
    (("linux",), "devices resources namespaces netDevices intelRdt uidMappings gidMappings"),
    (("linux", "resources"), "devices"),
    (("hooks",), "prestart createRuntime createContainer startContainer poststart poststop"),
)


def check_config(config: Json) -> None:
    """Refuse a config.json in which devices cannot be injected safely. Raises CdiError (CWD_FORBIDDEN, CONFIG_JSON)."""
    for way, members in _MEMBERS:
        section: Any = config
        for step in way:
            section = section.get(step) if isinstance(section, dict) else None
        if isinstance(section, dict):
            _check_spelling(section, members.split(), ".".join(way))
    process = config.get("process")
    cwd = process.get("cwd") if isinstance(process, dict) else None
    if isinstance(cwd, str) and _passes_through_proc(cwd):
        text = f"the working directory {cwd} of the container lies below /proc: it could be a directory of the host"
        raise CdiError([Finding("CWD_FORBIDDEN", text)])


def _check_spelling(section: Json, members: list[str], where: str) -> None:
    known = {member.casefold(): member for member in members}
    for name in section:
        member = known.get(name.casefold(), name)
        if member != name:
            text = f"config.json: {where or 'the top level'} has {name!r}, which some readers take for {member}"
            raise CdiError([Finding("CONFIG_JSON", text, rule="spelling")])


def _passes_through_proc(path: str) -> bool:
    """Whether any step of the way lies below /proc. A `..` behind a link of /proc leads anywhere."""
    here = ""
    for part in path.split("/"):
        here = clean(f"/{here}/{part}")
        if here.startswith("/proc/"):
            return True
    return False


# --- plans ----------------------------------------------------------------------------------------------------------


def impose(plan: Plan, launcher: str, *, rootful: bool) -> Plan:
    """Check a plan, and harden its hooks.

    Arguments:
        plan: what `plan.make` gave; not changed.
        launcher: path of our own program, whose hooks get less time.
        rootful: whether we are the host's root (shim.host.identity): decides whose programs are trusted.
    Returns:
        the plan to inject, with further warnings (HOOK_STAGE, HOOK_ENVIRONMENT) among its findings.
    Raises:
        CdiError: TARGET_FORBIDDEN, MOUNT_OPTION, HOOK_UNTRUSTED or HOOK_MISSING, naming the spec.
    """
    trust = None
    imposed = Plan(plan.devices, findings=plan.findings)
    for origin in plan.origins:
        spec, edits = origin["spec"], origin["edits"]
        for node in edits.get("deviceNodes") or ():
            _check_target("device node", node["path"], spec)
        for mount in edits.get("mounts") or ():
            _check_target("mount", mount["containerPath"], spec)
            _check_options(mount, spec)
        hooks = edits.get("hooks")
        if hooks:
            trust = trust or _trust(rootful)
            for stage in dict.fromkeys(item["hookName"] for item in hooks):
                _check_stage(stage, spec, imposed.findings)
            hardened = [_harden(item, launcher, trust, spec, imposed.findings) for item in hooks]
            origin = {**origin, "edits": {**edits, "hooks": hardened}}  # noqa: PLW2901  # the plan itself stays
        imposed.origins.append(origin)
    return imposed


# Exact paths of the kernel's file systems that vendors replace for a container. Anything else there would let a spec
# unmask what engines mask, or give labels and limits another meaning (CVE-2019-19921 and its successors).
_KERNEL_TARGETS = {
    "/proc/driver/nvidia/params",  # NVIDIA: a copy that forbids user space to make nodes for all GPUs
    "/sys/bus/ap",  # IBM Z: the view of the crypto adapters that belong to the container
    "/sys/devices/ap",
}


def _check_target(what: str, path: str, spec: str) -> None:
    objection = _target_objection(path)
    if objection:
        raise CdiError([Finding("TARGET_FORBIDDEN", f"the {what} at {path!r} in the container {objection}", path=spec)])


def _target_objection(path: str) -> str:
    if not path.startswith("/"):
        return "is not at an absolute path"
    if ".." in path.split("/"):
        return "has .. in its path"
    target = clean(path)
    if target == "/":
        return "would replace its root"
    if f"{target}/".startswith(("/proc/", "/sys/")) and target not in _KERNEL_TARGETS:
        return "lies in the kernel's own file systems"
    return ""


def _check_options(mount: Json, spec: str) -> None:
    for option in mount.get("options") or ():
        if "," in option:
            objection = "holds a comma: write each option as an item of its own"
        elif option in ("shared", "rshared"):
            objection = "would let mounts of the container appear on the host"
        else:
            continue
        text = f"the option {option!r} of the mount at {mount['containerPath']} {objection}"
        raise CdiError([Finding("MOUNT_OPTION", text, path=spec)])


# --- hooks ----------------------------------------------------------------------------------------------------------

STANDARD_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUR_TIMEOUT, FOREIGN_TIMEOUT = 10, 120  # seconds

# Variables by which a program on its way up loads or runs files that the variable names
_LOADING = ("GLIBC_TUNABLES", "BASH_ENV", "ENV", "GCONV_PATH")
_LOADING_PREFIXES = ("LD_", "PYTHON")

# Stages that a device has no need of. They are injected, since a vendor may have had none better.
_ODD_STAGES = {"prestart": "is deprecated", "poststop": "runs on the host after the container is gone"}

_S_IFMT, _S_IFREG = 0o170000, 0o100000


def _trust(rootful: bool) -> Trust:
    from shim.host.trust import Trust  # late: only plans with hooks need it

    return Trust(rootful=rootful)


def _check_stage(stage: str, spec: str, findings: list[Finding]) -> None:
    if stage in _ODD_STAGES:
        text = f"the spec has a hook of the stage {stage}, which {_ODD_STAGES[stage]}"
        findings.append(Finding("HOOK_STAGE", text, path=spec))


def _harden(item: Json, launcher: str, trust: Trust, spec: str, findings: list[Finding]) -> Json:
    """The hook as it is injected."""
    if item["hookName"] == "startContainer":
        return item
    objection = _program_objection(item, trust)
    if objection:
        raise CdiError([Finding(objection[0], f"the {item['hookName']} hook {objection[1]}", path=spec)])
    given = item.get("env") or ()
    kept = [entry for entry in given if not _is_loading(entry)]
    if len(kept) != len(given):
        dropped = ", ".join(entry.partition("=")[0] for entry in given if _is_loading(entry))
        text = f"the hook {item['path']} does not get {dropped}, which would choose code that it loads"
        findings.append(Finding("HOOK_ENVIRONMENT", text, path=spec))
    hardened = {**item, "env": kept or [STANDARD_PATH]}
    if (item.get("timeout") or 0) <= 0:  # 0 means at once to runc and never to crun
        hardened["timeout"] = OUR_TIMEOUT if is_same_file(item["path"], launcher) else FOREIGN_TIMEOUT
    return hardened


def _is_loading(entry: str) -> bool:
    name = entry.partition("=")[0]
    return name in _LOADING or name.startswith(_LOADING_PREFIXES)


def _program_objection(item: Json, trust: Trust) -> tuple[str, str] | None:
    """Finding id and text, None for a program that may run."""
    path = item["path"]
    if not path.startswith("/"):
        return "HOOK_UNTRUSTED", f"{path} is not absolute: the image would decide what runs as root"
    try:
        objection = trust.objection(path)
        status = posix.stat(path)
    except (OSError, ValueError) as error:
        return "HOOK_MISSING", f"{path}: {reason(error)}"
    if objection:
        return "HOOK_UNTRUSTED", f"{path} is not trusted: {objection}"
    if status.st_mode & _S_IFMT != _S_IFREG or not posix.access(path, posix.X_OK, effective_ids=True):
        return "HOOK_MISSING", f"{path} is no program that this user can execute"
    return None


def is_same_file(path: str, other: str) -> bool:
    """Whether two paths lead to one file; False where one of them leads nowhere."""
    if path == other:
        return True
    try:
        one, two = posix.stat(path), posix.stat(other)
    except (OSError, ValueError):
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
