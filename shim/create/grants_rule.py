"""Grants: a container gets only devices that are granted to its subject. Late: only where they are enforced.

Names are judged first, for the better message. Then hardware, since an engine that injects by itself leaves no names:
what is in config.json and belongs to a CDI device of this host (the edits of the device's own, shim.grants.overlap)
must belong to a granted device as well. What create adds belongs to devices whose names were judged.

    linux.devices        each entry, by type and numbers
    mounts               each whose source is a device node, by type and numbers
    linux.netDevices     each interface
    device rules         each device whose numbers a rule matches with r or w, behind the last rule that denies all;
                         m alone, as in the rules of engines, lets a node be made that cannot be opened
    without such a denial (no device cgroup keeps the container from any node): each device below a directory that is
    mounted, and each device at all for a container that may make nodes (CAP_MKNOD) or mounts devtmpfs

Nodes that every container has (null, zero, terminals) are no hardware, also where a spec names them.

The subject comes from what the operator controls, never from an image or from labels; the first of these that names
one: the name by which the engine starts shim, the path of the bundle, the cgroup, containerd's namespace, the default.

The launcher starts Python for each config.json with anything of the list above (native/hardware.c).

Source: OCI runtime specification, config-linux.md, "Device allowed list"; kernel, cgroup-v1/devices.rst.
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean, parent
from shim.host.nodes import node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from shim.config.settings import Settings
    from shim.create.question import Question
    from shim.create.world import World

    Json = dict[str, Any]

_SHOWN = 8  # names in a message
# null, zero, full, random, urandom; tty, console, ptmx; pseudo terminals: Documentation/admin-guide/devices.txt
_COMMON = frozenset((1, minor) for minor in (3, 5, 7, 8, 9)) | frozenset((5, minor) for minor in (0, 1, 2))
_TERMINALS = range(136, 144)
_S_IFMT, _S_IFDIR = 0o170000, 0o040000
_DIRECTORY = "a directory"
# Annotations by which runc and crun widen the device cgroup, or give a VM a device
_DANGEROUS = ("org.systemd.property.Device", "krun.gpu_flags")
_ANY = -1  # in a rule: every number


def subject_of(question: Question, settings: Settings) -> str:
    """The subject of a container, "" where nothing names one.

    Arguments:
        question: the create.
        settings: with the tables of subjects.
    """
    linux = question.config.get("linux")
    cgroup = linux.get("cgroupsPath") if isinstance(linux, dict) else None
    namespace = question.root.rstrip("/").rpartition("/")[2]
    return (
        settings.runtimes.get(question.name, "")
        or _by_pattern(settings.bundles, clean(question.bundle) if question.bundle.startswith("/") else "")
        or _by_pattern(settings.cgroups, cgroup if isinstance(cgroup, str) else "")
        or settings.namespaces.get(namespace, "")
        or settings.default_subject
    )


def hangs_on_the_call(question: Question, settings: Settings) -> bool:
    """Whether the subject comes from what differs between two creates of the same question: bundle or cgroup."""
    if settings.runtimes.get(question.name):
        return False
    return bool(settings.bundles or settings.cgroups)


def check_names(names: Iterable[str], question: Question, settings: Settings, world: World) -> None:
    """Refuse devices that are not granted.

    Arguments:
        names: qualified names that are asked for.
        question, settings: the create, and the configuration that counts.
        world: is asked for the grants.
    Raises:
        CdiError: GRANT_MISSING, GRANTS_UNREADABLE.
    """
    subject = subject_of(question, settings)
    listed = list(names)
    if not listed:
        return
    granted: list[str] = world.given("grants", subject)["names"] if subject else []
    missing = [name for name in listed if name not in granted]
    if missing:
        raise _missing(missing, subject, granted, "")


def check_hardware(question: Question, settings: Settings, world: World) -> None:
    """Refuse hardware of devices that are not granted.

    Arguments: as of `check_names`.
    Raises:
        CdiError: GRANT_MISSING, GRANTS_UNREADABLE, CONFIG_JSON for a config.json that can be read in two ways, and
            errors of the configuration.
    """
    fault = question.fault or question.unsure or ("a name is misspelt in it" if question.raw else "")
    if fault:
        text = f"{fault}, so it is not certain which devices the container gets, and grants are enforced"
        raise CdiError([Finding("CONFIG_JSON", text, path=question.path)])
    _check_annotations(question.config)
    has_any, has = _hardware(question, world)
    if not has_any and not has:
        return
    devices = world.given("hardware", "")
    subject = subject_of(question, settings)
    granted: list[str] = world.given("grants", subject)["names"] if subject else []
    allowed = {item for name in granted if name in devices for part in devices[name] for item in part}
    if has_any:
        has = {item for own, _ in devices.values() for item in own if not item.startswith("interface ")}
    missing: dict[str, str] = {}
    for item in sorted(has - allowed):
        names = [name for name, (own, _) in devices.items() if item in own and _is_real(item)]
        if names:
            missing.setdefault(min(names, key=lambda name: len(devices[name][0])), item)  # a card rather than `all`
    if missing:
        names = sorted(missing)
        raise _missing(names, subject, granted, f" ({missing[names[0]]} is in config.json)")


def _missing(names: list[str], subject: str, granted: list[str], where: str) -> CdiError:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    are = "is" if len(names) == 1 else "are"
    if not subject:
        text = f"{shown} {are} not granted{where}: no subject is known for this container"
        remedy = "name one in the configuration: default-subject, or a table of subjects, below [grants]"
        return CdiError([Finding("GRANT_MISSING", text, remedy)])
    has = ", ".join(granted[:_SHOWN]) or "nothing"
    command = " ".join(f"--device {name}" for name in names[:_SHOWN])
    text = f"{shown} {are} not granted to {subject}{where}; granted: {has}"
    return CdiError([Finding("GRANT_MISSING", text, f"`shim grant add {subject} {command}`")])


# --- what is in config.json -------------------------------------------------------------------------------------------


def _check_annotations(config: Json) -> None:
    annotations = config.get("annotations")
    for name in annotations if isinstance(annotations, dict) else ():
        if name.startswith(_DANGEROUS):
            text = f"the annotation {name} can open devices that are not granted"
            raise CdiError([Finding("GRANT_MISSING", text, "leave the annotation out, and ask for a granted device")])


def _hardware(question: Question, world: World) -> tuple[bool, set[str]]:
    """Whether the container may open any device, and what hardware config.json has.

    A value of another type than the specification has is refused by the low-level runtimes themselves.
    """
    config = question.config
    linux = _object(config.get("linux"))
    has: set[str] = set()
    for node in _objects(linux.get("devices")):
        if not _is_common(node.get("type"), node.get("major"), node.get("minor")):
            kind = "b" if node.get("type") == "b" else "c"
            has.add(f"{kind} {node.get('major') or 0}:{node.get('minor') or 0}")
    has |= {f"interface {name}" for name in _object(linux.get("netDevices"))}
    is_open, rules = _allowing(list(_objects(_object(linux.get("resources")).get("devices"))))
    is_any = is_open and _may_make_nodes(config)
    directories: list[str] = []
    for mount in _objects(config.get("mounts")):
        source = mount.get("source")
        is_any = is_any or (is_open and mount.get("type") == "devtmpfs")
        if not isinstance(source, str) or ("/" not in source and not _is_bind(mount)):
            continue
        path = source if source.startswith("/") else f"{question.bundle}/{source}"
        what = _at(path, world)
        if what == _DIRECTORY:
            directories.append(path)
        elif what:
            has.add(what)
    if rules or (is_open and directories):
        every = {item for own, _ in world.given("hardware", "").values() for item in own}
        has |= {item for item in every if any(_matches(rule, item) for rule in rules)}
        if is_open:
            has |= _below(directories, every, world)
    return is_any, has


def _allowing(rules: list[Json]) -> tuple[bool, list[Json]]:
    """Whether no rule denies all, and the rules behind the last that does which may let a device be opened."""
    denials = [index for index, rule in enumerate(rules) if _denies_all(rule)]
    behind = rules[denials[-1] + 1 :] if denials else rules
    return not denials, [
        rule
        for rule in behind
        if rule.get("allow") is True
        and {"r", "w"} & set(str(rule.get("access") or "rwm"))
        and not (rule.get("type") == "c" and _is_common("c", rule.get("major"), rule.get("minor")))
    ]


def _matches(rule: Json, item: str) -> bool:
    """Whether a rule allows a device, given as type and numbers."""
    kind, _, numbers = item.partition(" ")
    if kind not in ("b", "c") or ":" not in numbers:
        return False
    major, minor = (int(number) for number in numbers.split(":"))
    if _is_common(kind, major, minor):
        return False
    if rule.get("type", "a") in ("a", "", None):
        return True  # whatever numbers it has: the kernel takes none with this type
    return (
        rule.get("type") == kind
        and rule.get("major", _ANY) in (None, _ANY, major)
        and rule.get("minor", _ANY) in (None, _ANY, minor)
    )


def _denies_all(rule: Json) -> bool:
    return (
        rule.get("allow", False) is False
        and rule.get("type", "a") in ("a", "", None)
        and rule.get("major", _ANY) in (None, _ANY)
        and rule.get("minor", _ANY) in (None, _ANY)
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


def _is_real(item: str) -> bool:
    """Whether hardware is none of the nodes that every container has."""
    kind, _, numbers = item.partition(" ")
    if kind not in ("b", "c"):
        return item not in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
    major, _, minor = numbers.partition(":")
    return not _is_common(kind, int(major), int(minor))


def _is_common(kind: object, major: object, minor: object) -> bool:
    return kind != "b" and ((major, minor) in _COMMON or major in _TERMINALS)


def _may_make_nodes(config: Json) -> bool:
    capabilities = _object(_object(config.get("process")).get("capabilities"))
    sets = (capabilities.get("bounding"), capabilities.get("effective"))
    return any("CAP_MKNOD" in names for names in sets if isinstance(names, list))


def _is_bind(mount: Json) -> bool:
    options = mount.get("options")
    return mount.get("type") == "bind" or (
        isinstance(options, list) and bool({"bind", "rbind"} & set(map(str, options)))
    )


def _by_pattern(patterns: dict[str, str], text: str) -> str:
    return next((subject for pattern, subject in patterns.items() if text and matches(pattern, text)), "")


def matches(pattern: str, text: str) -> bool:
    """Whether a text has the form of a pattern, in which * stands for any text, also with slashes."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first) or len(text) < len(first) + len(rest[-1]) or not text.endswith(rest[-1]):
        return False
    at, end = len(first), len(text) - len(rest[-1])
    for part in rest[:-1]:
        index = text.find(part, at, end)
        if index < 0:
            return False
        at = index + len(part)
    return True


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
