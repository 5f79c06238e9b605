"""Rules: what the create path demands beyond the specification, before anything is injected. HOT.

A spec is root's word, so the library takes whatever the specification allows. The create path runs as root under every
container, and lays these rules over it:

    targets   nodes and mounts lie at an absolute path without `..`, not at `/`, and not in /proc or /sys.
    mounts    no propagation back to the host, and no option with a comma in it, which mount(2) would read as several.
              A mount of a path of the host gets `rbind` where its options have no bind, and its source must exist.
    hooks     run as root on the host, with an environment of their own, in bounded time, and only programs that nobody
              but a trusted user could have put there.

startContainer hooks are left as they are: they are programs of the image and run inside, with the container's rights.

What is judged without a look at the host stands in functions of an item (`node_objections` and the like), which
`shim cdi validate` applies as well (shim.create.static_rules).

Source: OCI runtime specification, "POSIX-platform Hooks"; runc hands a hook without `env` the environment of the image.
"""

from __future__ import annotations

from shim.base.findings import Finding
from shim.base.paths import clean, reason
from shim.cdi import edits
from shim.cdi.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.create.world import World
    from shim.host.trust import Trust

    Json = dict[str, Any]


def impose(plan: Plan, launcher: str, world: World, *, rootful: bool, user: int) -> tuple[Plan, list[Finding]]:
    """Check a plan, and harden its hooks.

    Arguments:
        plan: what `plan.make` gave; not changed.
        launcher: path of our own program, whose hooks get less time.
        world: answers what lies at a path.
        rootful: whether we are the host's root (shim.host.identity): decides whose programs are trusted.
        user: our effective uid, whose programs are trusted where we are not.
    Returns:
        the plan to inject, with further warnings (HOOK_STAGE, HOOK_ENVIRONMENT) among its findings; and a finding for
        each item that is refused, naming the spec: TARGET_FORBIDDEN, MOUNT_OPTION, MOUNT_MISSING, SPEC_STALE,
        HOOK_UNTRUSTED or HOOK_MISSING.
    """
    refused: list[Finding] = []
    imposed = Plan(plan.devices, findings=plan.findings)
    trust: Trust | None = None
    for origin in plan.origins:
        spec, block = origin["spec"], dict(origin["edits"])
        for node in block.get("deviceNodes") or ():
            refused += node_objections(node, spec)
        if block.get("mounts"):
            block["mounts"] = [_bound(mount) for mount in block["mounts"]]
            for mount in block["mounts"]:
                refused += mount_objections(mount, spec)
                refused += _source_objections(mount, spec, world)
        hooks = block.get("hooks")
        if hooks:
            trust = trust or world.trust(rootful=rootful, user=user)
            programs = dict.fromkeys(hook["path"] for hook in hooks if hook["hookName"] != _INSIDE)
            objections = {path: _program_objection(path, trust, world) for path in programs}
            refused += _hook_objections(hooks, objections, spec, launcher)
            imposed.findings += _hook_warnings(hooks, objections, spec)
            block["hooks"] = [_hardened(hook, launcher, world) if _runs(hook, objections) else hook for hook in hooks]
        imposed.origins.append({**origin, "edits": block})
    return imposed, refused


# Exact paths of the kernel's file systems that vendors replace for a container. Anything else there would let a spec
# unmask what engines mask, or give labels and limits another meaning (CVE-2019-19921 and its successors).
_KERNEL_DIRECTORIES = ("/proc/", "/sys/")
_KERNEL_TARGETS = {
    "/proc/driver/nvidia/params",  # NVIDIA: a copy that forbids user space to make nodes for all GPUs
    "/sys/bus/ap",  # IBM Z: the view of the crypto adapters that belong to the container
    "/sys/devices/ap",
}


def node_objections(node: Json, spec: str) -> list[Finding]:
    """Why a device node of a spec is refused, whatever the host has: TARGET_FORBIDDEN.

    Arguments:
        node: of the spec.
        spec: path of the spec.
    """
    return _target_objections("device node", node["path"], spec)


def mount_objections(mount: Json, spec: str) -> list[Finding]:
    """Why a mount of a spec is refused, whatever the host has: TARGET_FORBIDDEN, MOUNT_OPTION. Arguments: as above."""
    source, target, options = mount["hostPath"], mount["containerPath"], mount.get("options") or ()
    findings = [*_target_objections("mount", target, spec), *_option_objections(options, target, spec)]
    if edits.lacks_bind(mount.get("type"), options) and not source.startswith("/"):
        text = (
            f"the mount at {target} has neither a file system as its type nor an absolute path of the host: {source!r}"
        )
        remedy = "name its file system as the type, such as tmpfs, or give an absolute hostPath and the option rbind"
        findings.append(Finding("MOUNT_OPTION", text, remedy, path=spec))
    return findings


def _target_objections(what: str, path: str, spec: str) -> list[Finding]:
    objection = _target_objection(path)
    if not objection:
        return []
    return [Finding("TARGET_FORBIDDEN", f"the {what} at {path!r} in the container {objection}", path=spec)]


def _target_objection(path: str) -> str:
    if not path.startswith("/"):
        return "is not at an absolute path"
    target = clean(path)
    if ".." in path and ".." in path.split("/"):
        return "has .. in its path"
    if target == "/":
        return "would replace its root"
    if f"{target}/".startswith(_KERNEL_DIRECTORIES) and target not in _KERNEL_TARGETS:
        return "lies in the kernel's own file systems"
    return ""


def _bound(mount: Json) -> Json:
    """The mount as a bind mount, where it is a path of the host and only its options do not make it one.

    Many specs have `type: bind` or no type at all, and count on it; the low-level runtime would look for a file system
    of that name ("no such device").
    """
    options = mount.get("options") or ()
    if mount["hostPath"].startswith("/") and edits.lacks_bind(mount.get("type"), options):
        return {**mount, "options": [*options, "rbind"]}
    return mount


def _source_objections(mount: Json, spec: str, world: World) -> list[Finding]:
    source = mount["hostPath"]
    if not edits.is_bind(mount.get("options") or ()):
        return []
    # A relative source lies in the bundle, which is none of a spec's business.
    if source.startswith("/") and world.is_missing(source):
        from shim.create import stale  # late, as below: only what is refused needs it

        return [stale.missing_mount(source, mount["containerPath"], spec, world)]
    return _driver_objection(source, spec, world) if "/libcuda.so." in source else []


_MAJOR_DIGITS = 3  # of a driver's version, such as 570.86.10; WSL and Tegra systems have a libcuda.so.1.1


def _driver_objection(source: str, spec: str, world: World) -> list[Finding]:
    """NVIDIA's library works with the kernel module of its own version only, which says what that is."""
    version = source.rpartition("/libcuda.so.")[2]
    try:
        running = world.read("/proc/driver/nvidia/version")[1]
    except OSError:
        return []
    if version.find(".") < _MAJOR_DIGITS or "NVRM" not in running or version in running.split():
        return []
    from shim.create import stale

    return [stale.other_driver(source, version, spec, world)]


def _option_objections(options: Iterable[str], target: str, spec: str) -> list[Finding]:
    for option in options:
        if "," in option:
            objection = "holds a comma: write each option as an item of its own"
        elif option in ("shared", "rshared"):
            objection = "would let mounts of the container appear on the host"
        else:
            continue
        return [Finding("MOUNT_OPTION", f"the option {option!r} of the mount at {target} {objection}", path=spec)]
    return []


# --- hooks ----------------------------------------------------------------------------------------------------------

STANDARD_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUR_TIMEOUT, FOREIGN_TIMEOUT = 10, 120  # seconds

# Variables by which a program on its way up loads or runs files that the variable names
_LOADING = ("GLIBC_TUNABLES", "BASH_ENV", "ENV", "GCONV_PATH")
_LOADING_PREFIXES = ("LD_", "PYTHON")

# Stages that a device has no need of. They are injected, since a vendor may have had none better.
_ODD_STAGES = {"prestart": "is deprecated", "poststop": "runs on the host after the container is gone"}

_INSIDE = "startContainer"  # the stage of hooks that run inside, see above

_S_IFMT, _S_IFREG = 0o170000, 0o100000
_OUR_NAMES = ("shim", "nvidia-cdi-hook", "nvidia-ctk")  # names by which the launcher is a hook: is_hook_call in C


def _hook_objections(
    hooks: list[Json], objections: dict[str, tuple[str, str]], spec: str, launcher: str
) -> list[Finding]:
    """A finding for each hook that must not run.

    Arguments:
        hooks: of a block of edits.
        objections: path of a program -> finding id and text, two empty texts for one that may run.
        spec: path of the spec.
        launcher: path of our own program.
    """
    findings = []
    for hook in hooks:
        id, text = ("", "") if hook["hookName"] == _INSIDE else objections[hook["path"]]
        if id:
            remedy = _hook_remedy(hook, launcher) if id == "HOOK_MISSING" else ""
            findings.append(Finding(id, f"the {hook['hookName']} hook {text}", remedy, path=spec))
    return findings


def _hook_remedy(hook: Json, launcher: str) -> str:
    """What helps where a hook's program is missing whose work ours does under that name, too; "" for another."""
    path = hook["path"]
    name, *words = hook.get("args") or [path]
    name = name.rpartition("/")[2]
    if name not in _OUR_NAMES or (name != "nvidia-cdi-hook" and words[:1] != ["hook"]):
        return ""
    return f"let shim do its work, by `ln -s {launcher} {path}`, or install it, or write the spec anew"


def _runs(hook: Json, objections: dict[str, tuple[str, str]]) -> bool:
    """Whether a hook runs on the host, and may."""
    return hook["hookName"] != _INSIDE and not objections[hook["path"]][0]


def _hook_warnings(hooks: list[Json], objections: dict[str, tuple[str, str]], spec: str) -> list[Finding]:
    """What is odd about hooks that may run, and what they do not get. Arguments: as of _hook_objections."""
    findings = []
    for stage in dict.fromkeys(hook["hookName"] for hook in hooks):
        findings += stage_warnings(stage, spec)
    for hook in hooks:
        if _runs(hook, objections):
            findings += environment_warnings(hook, spec)
    return findings


def stage_warnings(stage: str, spec: str) -> list[Finding]:
    """HOOK_STAGE, for a stage of hooks that no device needs.

    Arguments:
        stage: hookName of a hook.
        spec: path of the spec.
    """
    if stage not in _ODD_STAGES:
        return []
    text = f"the spec has a hook of the stage {stage}, which {_ODD_STAGES[stage]}"
    return [Finding("HOOK_STAGE", text, path=spec)]


def environment_warnings(hook: Json, spec: str) -> list[Finding]:
    """HOOK_ENVIRONMENT, for variables that a hook does not get.

    Arguments:
        hook: of the spec.
        spec: path of the spec.
    """
    dropped = [entry.partition("=")[0] for entry in hook.get("env") or () if _is_loading(entry)]
    if not dropped or hook["hookName"] == _INSIDE:
        return []
    text = f"the hook {hook['path']} does not get {', '.join(dropped)}, which would choose code that it loads"
    return [Finding("HOOK_ENVIRONMENT", text, path=spec)]


def _hardened(hook: Json, launcher: str, world: World) -> Json:
    """A hook with an environment and a limit of its own."""
    kept = [entry for entry in hook.get("env") or () if not _is_loading(entry)]
    hardened = {**hook, "env": kept or [STANDARD_PATH]}
    if (hook.get("timeout") or 0) <= 0:  # 0 means at once to runc and never to crun
        is_ours = world.is_same_file(hook["path"], launcher)
        hardened["timeout"] = OUR_TIMEOUT if is_ours else FOREIGN_TIMEOUT
    return hardened


def _program_objection(path: str, trust: Trust, world: World) -> tuple[str, str]:
    """Why a program must not run: finding id and text, two empty texts for one that may."""
    if not path.startswith("/"):
        return "HOOK_UNTRUSTED", f"{path} is not absolute: the image would decide what runs as root"
    try:
        objection = trust.objection(path)
        status = world.stat(path)
    except OSError as error:
        return "HOOK_MISSING", f"{path}: {reason(error)}"
    if objection:
        return "HOOK_UNTRUSTED", f"{path} is not trusted: {objection}"
    if status.st_mode & _S_IFMT != _S_IFREG or not world.is_executable(path):
        return "HOOK_MISSING", f"{path} is no program that this user can execute"
    return "", ""


def _is_loading(entry: str) -> bool:
    name = entry.partition("=")[0]
    return name in _LOADING or name.startswith(_LOADING_PREFIXES)
