"""Grants: a container gets only devices that are granted to its subject. Late: only where they are enforced.

Names are judged first, for the better message. Then hardware (shim.create.grants_hardware), since an engine that
injects by itself leaves no names: what is in config.json and belongs to a CDI device of this host (the edits of the
device's own, shim.grants.overlap) must belong to a granted device as well. What create adds belongs to devices whose
names were judged. The device rules of an update are judged likewise (shim.create.update_grants).

The launcher starts Python for each config.json that may have such hardware (native/hardware.c).
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.create import grants_hardware
from shim.create.grants_subject import subject_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.config.settings import Settings
    from shim.create.question import Question
    from shim.create.world import World

    Json = dict[str, Any]

_SHOWN = 8  # names in a message


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
    granted = _granted(subject, world)
    missing = [name for name in listed if name not in granted]
    if missing:
        raise _missing(missing, subject, granted, "")


def check_hardware(names: Iterable[str], question: Question, settings: Settings, world: World) -> list[str]:
    """Refuse hardware of devices that are not granted.

    Arguments: as of `check_names`.
    Returns:
        the exclusively granted devices of the container, by its names or by its hardware: they must be reserved for it
        (shim.create.holders).
    Raises:
        CdiError: GRANT_MISSING, GRANT_EXCLUSIVE, GRANTS_UNREADABLE, CONFIG_JSON for a config.json that can be read in
            two ways, and errors of the configuration.
    """
    fault = question.fault or question.unsure or ("a name is misspelt in it" if question.raw else "")
    fault = fault or grants_hardware.fault(question.config)
    if fault:
        text = f"{fault}, so it is not certain which devices the container gets, and grants are enforced"
        raise CdiError([Finding("CONFIG_JSON", text, path=question.path)])
    unknown = grants_hardware.unknown(question.config)
    if unknown:
        text = f"{unknown} can open devices that are not granted"
        raise CdiError([Finding("GRANT_MISSING", text, "leave it out, and ask for a granted device by its CDI name")])
    has_any, has = grants_hardware.of_config(question, world)
    has = _check(has, question, settings, world, "config.json", has_any=has_any)
    exclusive = _exclusive(list(names), has, subject_of(question, settings), world)
    if exclusive and question.verb == "precreate":
        text = (
            f"{', '.join(exclusive)} is granted exclusively, and a precreate hook cannot reserve it for the container"
        )
        raise CdiError([Finding("GRANT_EXCLUSIVE", text)])
    return exclusive


def check_rules(rules: list[Json], question: Question, settings: Settings, world: World) -> None:
    """Refuse device rules of an update that open hardware of devices that are not granted.

    What config.json has already stays open, whatever became of its grant since: a running container keeps its devices.

    Arguments:
        rules: of the update.
        question: of the container, with the config.json that it was created with.
        settings, world: as of `check_names`.
    Raises:
        CdiError: as `check_hardware`.
    """
    is_known = "linux" in question.config and not (question.fault or question.unsure or question.raw)
    is_open, own = grants_hardware.allowing(_rules_of(question.config) if is_known else [])
    if is_open and is_known:
        return  # it has no device cgroup that could be opened
    every = {item for devices, _ in world.given("hardware", "").values() for item in devices}
    has = grants_hardware.allowed(grants_hardware.allowing(rules)[1], every)
    has -= grants_hardware.allowed(own, every)
    _check(has, question, settings, world, "the update")


def _rules_of(config: Json) -> list[Json]:
    linux = config.get("linux")
    resources = linux.get("resources") if isinstance(linux, dict) else None
    rules = resources.get("devices") if isinstance(resources, dict) else None
    return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []


def _check(
    has: set[str], question: Question, settings: Settings, world: World, where: str, *, has_any: bool = False
) -> set[str]:
    """Refuse hardware that belongs to a device of this host, and to none that is granted; returns the hardware."""
    if not has_any and not has:
        return has
    devices = world.given("hardware", "")
    subject = subject_of(question, settings)
    granted = _granted(subject, world)
    allowed = {item for name in granted if name in devices for part in devices[name] for item in part}
    if has_any:
        has = {item for own, _ in devices.values() for item in own if not item.startswith("interface ")}
    missing: dict[str, str] = {}
    for item in sorted(has - allowed):
        names = [name for name, (own, _) in devices.items() if item in own and grants_hardware.is_real(item)]
        if names:
            missing.setdefault(min(names, key=lambda name: len(devices[name][0])), item)  # a card rather than `all`
    if missing:
        names = sorted(missing)
        raise _missing(names, subject, granted, f" ({missing[names[0]]} is in {where})")
    return has


def _exclusive(names: list[str], has: set[str], subject: str, world: World) -> list[str]:
    """The exclusively granted devices among names, and those to which hardware belongs.

    A device whose numbers are all there counts before one that has some of them: partitions of a card share its node.
    What a shared grant gives needs no reservation.
    """
    if not subject or not (names or has):
        return []
    grants = world.given("grants", subject)
    exclusive = [name for name in names if name in grants["exclusive"]]
    if not has or not grants["exclusive"]:
        return exclusive
    devices = world.given("hardware", "")
    owned = {name: {item for item in devices[name][0] if item[0] != "/"} for name in grants["names"] if name in devices}
    numbers = {name: own for name, own in owned.items() if name in grants["exclusive"]}
    whole = [name for name, own in numbers.items() if own and own <= has]
    left = has.difference(*(own for name, own in owned.items() if name in whole or name not in numbers))
    parts = [name for name, own in numbers.items() if own & left]
    return list(dict.fromkeys([*exclusive, *whole, *parts]))


def _granted(subject: str, world: World) -> list[str]:
    granted: list[str] = world.given("grants", subject)["names"] if subject else []
    return granted


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
