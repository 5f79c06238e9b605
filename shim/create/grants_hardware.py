"""What hardware a config.json gives its container, apart from what is asked for by name. Late, as grants_rule.

    linux.devices        each entry, by type and numbers
    mounts               each whose source is a device node, by type and numbers
    linux.netDevices     each interface
    device rules         each device whose numbers a rule matches with r or w, behind the last rule that denies all;
                         m alone, as in the rules of engines, lets a node be made that cannot be opened
    without such a denial (no device cgroup keeps the container from any node): each device below a directory that is
    mounted, a layer of an overlay, or its root; each device at all for a container that may make or mount nodes
    (CAP_MKNOD, CAP_SYS_ADMIN), mounts devtmpfs, or has no mount namespace of its own

Nodes that every container has (null, zero, terminals) are no hardware, also where a spec names them. By a few
annotations and hooks a container gets devices that are not in config.json: `unknown`.

Source: OCI runtime specification, config-linux.md, "Device allowed list"; kernel, cgroup-v1/devices.rst and
include/linux/kdev_t.h; crun, src/libcrun/ebpf.c; containerd, contrib/nvidia (WithGPUs);
NVIDIA's container toolkit, its prestart hook.
"""

from __future__ import annotations

from shim.base.paths import parent
from shim.host.nodes import node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from shim.create.question import Question
    from shim.create.world import World

    Json = dict[str, Any]

# null, zero, full, random, urandom; tty, console, ptmx; pseudo terminals: Documentation/admin-guide/devices.txt
_COMMON = frozenset((1, minor) for minor in (3, 5, 7, 8, 9)) | frozenset((5, minor) for minor in (0, 1, 2))
_TERMINALS = range(136, 144)
_COMMON_PATHS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_S_IFMT, _S_IFDIR = 0o170000, 0o040000
_DIRECTORY = "a directory"
# Annotations by which runc and crun widen the device cgroup, or give a VM a device
_ANNOTATIONS = ("org.systemd.property.Device", "krun.gpu_flags")
# Hooks that give devices by the container's environment: of docker for --gpus, of podman by a hooks directory
_HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
_CLI = "nvidia-container-cli"  # gives those of its arguments; containerd's clients make a hook of it for --gpus
_NO_DEVICE = ("void", "none")
_DEVICE_LIST = "/var/run/nvidia-container-devices"
_MAJOR_BITS, _MINOR_BITS = 0xFFF, 0xFFFFF  # of a node's numbers: the kernel takes no more of what mknod(2) gets
_RULE_BITS = 0xFFFFFFFF  # of a rule's numbers, for runtimes that cut them
_ENTRIES = frozenset(("type", "major", "minor", "access", "allow", "path", "source", "options", "args"))


def fault(config: Json) -> str:
    """What readers of a config.json understand differently, beyond shim.create.question; "" for nothing.

    Go takes `Source` for `source` in an entry of a list, too.

    Arguments:
        config: of a question.
    """
    linux = _object(config.get("linux"))
    lists = [linux.get("devices"), _object(linux.get("resources")).get("devices"), config.get("mounts")]
    lists += _object(config.get("hooks")).values()
    return next((text for entries in lists for entry in _objects(entries) if (text := misspelt(entry))), "")


def misspelt(entry: Json) -> str:
    """Which name of an entry differs from one that counts by the case of its letters only, as a text; "" for none."""
    for name in entry:
        if name not in _ENTRIES and name.casefold() in _ENTRIES:
            return f"{name[:40]!r} differs from {name.casefold()!r} only by the case of its letters"
    return ""


def unknown(config: Json) -> str:
    """What of a config.json gives devices that are not in it; "" for nothing.

    Arguments:
        config: of a question.
    """
    for name in _object(config.get("annotations")):
        if name.startswith(_ANNOTATIONS):
            return f"the annotation {name}"
    for hooks in _object(config.get("hooks")).values():
        for hook in _objects(hooks):
            path, args = str(hook.get("path")), hook.get("args")
            words = [path, *map(str, args if isinstance(args, list) else ())]
            if any(word.rpartition("/")[2] == _CLI for word in words):
                return f"the hook {path}, which calls {_CLI},"
            if path.rpartition("/")[2] in _HOOKS and _asks_hook(config):
                return f"the hook {path}, with the variables and mounts of the container,"
    return ""


def _asks_hook(config: Json) -> bool:
    """Whether NVIDIA's hook may give a device: by a variable, by mounts, or to an image of before that variable."""
    env = _object(config.get("process")).get("env")
    variables = dict(str(entry).partition("=")[::2] for entry in env) if isinstance(env, list) else {}
    mounts = (str(mount.get("destination")) for mount in _objects(config.get("mounts")))
    if any(name.startswith("DOCKER_RESOURCE") for name in variables) or any(_DEVICE_LIST in path for path in mounts):
        return True
    value = variables.get("NVIDIA_VISIBLE_DEVICES", "")
    return value not in _NO_DEVICE if value else "CUDA_VERSION" in variables


def of_config(question: Question, world: World) -> tuple[bool, set[str]]:
    """Whether the container may open any device, and what hardware config.json has.

    A value of another type than the specification has is refused by the low-level runtimes themselves.

    Arguments:
        question: the create.
        world: answers what lies at a path, and what is hardware.
    Raises:
        CdiError: errors of the configuration.
    """
    config = question.config
    linux = _object(config.get("linux"))
    has: set[str] = set()
    for node in _objects(linux.get("devices")):
        kind = "b" if node.get("type") == "b" else "c"
        major, minor = (_number(node.get(name)) & bits for name, bits in _NUMBERS)
        if not _is_common(kind, major, minor):
            has.add(f"{kind} {major}:{minor}")
    has |= {f"interface {name}" for name in _object(linux.get("netDevices"))}
    is_open, rules = allowing(list(_objects(_object(linux.get("resources")).get("devices"))))
    is_any = is_open and (_may_make_nodes(config) or not _has_mounts_of_its_own(linux))
    directories = [_absolute(_object(config.get("root")).get("path"), question)]
    for mount in _objects(config.get("mounts")):
        source = mount.get("source")
        is_any = is_any or (is_open and mount.get("type") == "devtmpfs")
        if mount.get("type") == "overlay":
            directories += [_absolute(layer, question) for layer in _layers(mount)]
        if not isinstance(source, str) or ("/" not in source and not _is_bind(mount)):
            continue
        path = _absolute(source, question)
        what = _at(path, world)
        if what == _DIRECTORY:
            directories.append(path)
        elif what:
            has.add(what)
    if rules or is_open:
        every = {item for own, _ in world.given("hardware", "").values() for item in own}
        has |= allowed(rules, every)
        if is_open:
            has |= _below(directories, every, world)
    return is_any, has


_NUMBERS = (("major", _MAJOR_BITS), ("minor", _MINOR_BITS))


def allowing(rules: Iterable[Json]) -> tuple[bool, list[Json]]:
    """Whether no rule denies all, and the rules behind the last that does which may let a device be opened.

    Arguments:
        rules: of linux.resources.devices.
    """
    listed = list(rules)
    denials = [index for index, rule in enumerate(listed) if _denies_all(rule)]
    behind = listed[denials[-1] + 1 :] if denials else listed
    return not denials, [
        rule
        for rule in behind
        if rule.get("allow") is True
        and {"r", "w"} & set(str(rule.get("access") or "rwm"))
        and not (rule.get("type") == "c" and _is_common("c", rule.get("major"), rule.get("minor")))
    ]


def allowed(rules: Iterable[Json], items: Iterable[str]) -> set[str]:
    """Which hardware rules let be opened.

    Arguments:
        rules: of `allowing`.
        items: hardware.
    """
    listed = list(rules)
    return {item for item in items if any(_matches(rule, item) for rule in listed)}


def _matches(rule: Json, item: str) -> bool:
    """Whether a rule allows a device, given as type and numbers."""
    kind, _, numbers = item.partition(" ")
    if kind not in ("b", "c") or ":" not in numbers:
        return False
    major, minor = (int(number) for number in numbers.split(":"))
    if _is_common(kind, major, minor):
        return False
    letter = str(rule.get("type") or "a")[0]  # crun compares the first letter alone
    if letter == "a":
        return True  # whatever numbers it has: the kernel takes none with this type
    return letter in (kind, "u") and _fits(rule.get("major"), major) and _fits(rule.get("minor"), minor)


def _fits(number: object, wanted: int) -> bool:
    """Whether a number of a rule stands for a number: missing and negative ones stand for all."""
    return not isinstance(number, int) or number < 0 or number & _RULE_BITS == wanted


def _denies_all(rule: Json) -> bool:
    return (
        rule.get("allow", False) is False
        and rule.get("type", "a") in ("a", "", None)
        and rule.get("major", -1) in (None, -1)
        and rule.get("minor", -1) in (None, -1)
        and {"r", "w", "m"} <= set(str(rule.get("access") or "rwm"))
    )


def _below(directories: Iterable[str], every: Iterable[str], world: World) -> set[str]:
    """The hardware that lies below directories; compared as files, since a source may be a link or a bind mount."""
    mounted = {identity for path in directories if (identity := _identity(path, world))}
    below = set()
    for item in every:
        above = item
        while above.startswith("/") and above != "/":
            above = parent(above) or "/"
            if _identity(above, world) in mounted:
                below.add(item)
    return below


def _identity(path: str, world: World) -> tuple[int, int] | None:
    try:
        status = world.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _at(path: str, world: World) -> str:
    """What the source of a mount is: _DIRECTORY, hardware by type and numbers, or "" for anything else."""
    try:
        status = world.stat(path)
    except OSError:
        return ""  # the low-level runtime cannot mount it either
    if status.st_mode & _S_IFMT == _S_IFDIR:
        return _DIRECTORY
    kind, major, minor, *_ = node_of(status)
    return f"{kind} {major}:{minor}" if kind in ("b", "c") and not _is_common(kind, major, minor) else ""


def is_real(item: str) -> bool:
    """Whether hardware is none of the nodes that every container has."""
    kind, _, numbers = item.partition(" ")
    if kind not in ("b", "c"):
        return item not in _COMMON_PATHS
    major, _, minor = numbers.partition(":")
    return not _is_common(kind, int(major), int(minor))


def _is_common(kind: object, major: object, minor: object) -> bool:
    if kind == "b" or not isinstance(major, int):
        return False
    return major in _TERMINALS or (isinstance(minor, int) and (major, minor) in _COMMON)


def _may_make_nodes(config: Json) -> bool:
    capabilities = _object(_object(config.get("process")).get("capabilities"))
    sets = (capabilities.get("bounding"), capabilities.get("effective"))
    return any(name in names for names in sets if isinstance(names, list) for name in ("CAP_MKNOD", "CAP_SYS_ADMIN"))


def _has_mounts_of_its_own(linux: Json) -> bool:
    namespaces = _objects(linux.get("namespaces"))
    return any(namespace.get("type") == "mount" and not namespace.get("path") for namespace in namespaces)


def _layers(mount: Json) -> Iterator[str]:
    """The directories of an overlay."""
    options = mount.get("options")
    for option in options if isinstance(options, list) else ():
        name, _, value = str(option).partition("=")
        if name in ("lowerdir", "lowerdir+", "upperdir", "datadir+"):
            yield from value.split(":")


def _is_bind(mount: Json) -> bool:
    options = mount.get("options")
    return mount.get("type") == "bind" or (
        isinstance(options, list) and bool({"bind", "rbind"} & set(map(str, options)))
    )


def _absolute(path: object, question: Question) -> str:
    text = path if isinstance(path, str) else ""
    return text if text.startswith("/") else f"{question.bundle}/{text}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
