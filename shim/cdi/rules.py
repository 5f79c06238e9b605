"""Rules that a decoded document must satisfy, in the order in which the CDI reference checks them.

That is: version, vendor, class, edits of the spec, then each device, at last whether there is any device. Rules that
only this library has are marked `late` and listed in `deviations`.
"""

from __future__ import annotations

from shim.cdi import versions
from shim.cdi.decode import Fault
from shim.cdi.names import BadName, check_class, check_device, check_vendor, quoted, split_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from shim.cdi.decode import Path

    Wrong = tuple[Path, str, str, str]  # steps below the item, rule, text, remedy

_OURS = frozenset(("hook-relative",))  # rules that the reference does not have
HOOK_NAMES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_NODE_TYPES = frozenset(("", "b", "c", "u", "p"))
_PERMISSIONS = frozenset("rwm")
_MAX_CLOS_ID = 4095  # bytes


def check(document: dict[str, Any]) -> Iterator[Fault]:
    """All faults of a decoded document, first the fault that the reference would report."""
    try:
        versions.check(document)
    except versions.BadVersion as bad:
        yield Fault(("cdiVersion",), bad.rule, str(bad), bad.remedy)
    yield from _kind(document["kind"])
    yield from _edits(document["containerEdits"], ("containerEdits",))
    seen: dict[str, int] = {}
    for index, device in enumerate(document["devices"]):
        path = ("devices", index)
        name = device["name"]
        yield from _name(check_device, name, (*path, "name"))
        edits = device["containerEdits"]
        if edits:
            yield from _edits(edits, (*path, "containerEdits"))
        else:
            text = f"device {quoted(name)} has no edits: it would change nothing"
            yield Fault((*path, "containerEdits"), "empty-device-edits", text, "add an edit, or remove the device")
        if seen.setdefault(name, index) != index:
            text = f"device {quoted(name)} is there already, as devices[{seen[name]}]"
            yield Fault((*path, "name"), "duplicate-device", text, "give each device a name of its own")
    if not document["devices"]:
        yield Fault(("devices",), "no-devices", "there is no device", "add a device")


def _kind(kind: str) -> Iterator[Fault]:
    vendor, klass = split_kind(kind)
    if not vendor:
        text = f"{quoted(kind)} is not a kind" if kind else "kind is missing"
        yield Fault(("kind",), "vendor-empty", text, "the form is VENDOR/CLASS, for example acme.com/gpu")
        return
    yield from _name(check_vendor, vendor, ("kind",))
    yield from _name(check_class, klass, ("kind",))


def _name(checker: Callable[[str], None], name: str, path: Path) -> Iterator[Fault]:
    try:
        checker(name)
    except BadName as bad:
        yield Fault(path, bad.rule, str(bad))


def _edits(edits: dict[str, Any], path: Path) -> Iterator[Fault]:
    for member, check_one in _LISTS:
        for index, item in enumerate(edits.get(member, ())):
            for step, rule, text, remedy in check_one(item):
                yield Fault((*path, member, index, *step), rule, text, remedy, late=rule in _OURS)
    if "intelRdt" in edits:
        yield from _clos_id(edits["intelRdt"].get("closID", ""), (*path, "intelRdt", "closID"))
    if "netDevices" in edits:
        yield from _net_devices(edits["netDevices"], (*path, "netDevices"))


def _variable(variable: str, rule: str = "env") -> Iterable[Wrong]:
    if variable.find("=") > 0:
        return ()
    return [((), rule, f"{quoted(variable)} is not of the form NAME=VALUE", "write NAME=VALUE")]


def _node(node: dict[str, Any]) -> Iterable[Wrong]:
    kind = node.get("type", "")
    permissions = node.get("permissions", "")
    if node["path"] and kind in _NODE_TYPES and (permissions == "none" or _PERMISSIONS.issuperset(permissions)):
        return ()
    faults: list[Wrong] = []
    if not node["path"]:
        faults.append(_missing("path", "node-path", "a device node needs a path in the container"))
    if kind not in _NODE_TYPES:
        text = f"{quoted(kind)} is no type of a device node: c or u (character), b (block) and p (pipe) are"
        faults.append((("type",), "node-type", text, ""))
    if permissions != "none" and not _PERMISSIONS.issuperset(permissions):
        text = f"{quoted(permissions)} are no permissions: letters of r (read), w (write), m (mknod), or the word none"
        faults.append((("permissions",), "node-permissions", text, ""))
    return faults


def _hook(hook: dict[str, Any]) -> Iterable[Wrong]:
    name, program = hook["hookName"], hook["path"]
    faults: list[Wrong] = []
    if name not in HOOK_NAMES:
        text = f"{quoted(name)} is no stage of a hook" if name else "is empty or missing: a hook needs a stage"
        faults.append((("hookName",), "hook-name", text, f"stages are {', '.join(HOOK_NAMES)}"))
    if not program:
        faults.append(_missing("path", "hook-path", "a hook needs a program"))
    elif not program.startswith("/"):
        text = f"{quoted(program)} is relative: which program runs would depend on where the runtime was started"
        faults.append((("path",), "hook-relative", text, "write the absolute path of the program"))
    for index, variable in enumerate(hook.get("env", ())):
        faults += [(("env", index), *wrong[1:]) for wrong in _variable(variable, "hook-env")]
    return faults


def _mount(mount: dict[str, Any]) -> Iterable[Wrong]:
    faults: list[Wrong] = []
    if not mount["hostPath"]:
        faults.append(_missing("hostPath", "mount-host-path", "a mount needs a path on the host"))
    if not mount["containerPath"]:
        faults.append(_missing("containerPath", "mount-container-path", "a mount needs a path in the container"))
    return faults


def _missing(field: str, rule: str, text: str) -> Wrong:
    return (field,), rule, f"is empty or missing: {text}", "write it, or remove the item"


def _clos_id(clos_id: str, path: Path) -> Iterator[Fault]:
    if clos_id == "/":
        return
    if clos_id in (".", "..") or "/" in clos_id or "\n" in clos_id:
        yield Fault(path, "rdt-clos-id", f"{quoted(clos_id)} names no directory of resctrl", "write a plain name, or /")
    elif len(clos_id.encode("utf-8", "replace")) > _MAX_CLOS_ID:
        yield Fault(path, "rdt-clos-id", f"the name is longer than {_MAX_CLOS_ID} bytes")


def _net_devices(devices: list[dict[str, Any]], path: Path) -> Iterator[Fault]:
    seen: dict[str, dict[str, int]] = {"hostInterfaceName": {}, "name": {}}
    for index, device in enumerate(devices):
        for field, rule in (("hostInterfaceName", "net-host-name"), ("name", "net-name")):
            if not device[field]:
                step, _, text, remedy = _missing(field, rule, "a network device needs a name on both sides")
                yield Fault((*path, index, *step), rule, text, remedy)
        for field, rule in (("hostInterfaceName", "net-duplicate-host"), ("name", "net-duplicate-name")):
            first = seen[field].setdefault(device[field], index)
            if device[field] and first != index:
                text = f"{quoted(device[field])} is there already, in netDevices[{first}]"
                yield Fault((*path, index, field), rule, text)


_LISTS: tuple[tuple[str, Callable[[Any], Iterable[Wrong]]], ...] = (
    ("env", _variable),
    ("deviceNodes", _node),
    ("hooks", _hook),
    ("mounts", _mount),
)
