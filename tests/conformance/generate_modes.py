"""Rules by which the modes of NVIDIA other than nvml differ from what the reference writes; each takes what it states.

`as_ours` changes what is expected where a rule says exactly what stands in its place. `deviation` names the rule that
explains every difference that is left; a difference that none explains is a failure.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR
from shim.discover.nvidia import companions, imex, management, options

from . import effects

if TYPE_CHECKING:
    from shim.base.findings import Finding
    from shim.discover.model import Wish
    from shim.host.tree import Tree

    Difference = tuple[str, str, str, Any, Any]  # see effects.differences
    Documents = list[dict[str, Any]]

_OWN_KINDS = {
    **{mode: f"{options.DOMAIN}/{mode}" for mode in companions.COMPANIONS},
    "imex": imex.KIND,
    "management": management.KIND,
}
_GPUS = f"{options.DOMAIN}/gpu"


def as_ours(wish: Wish, theirs: Documents) -> tuple[Documents, str | None]:
    """What the reference wrote with the class that the mode has here, and the rule; None where it makes no change."""
    kind = _OWN_KINDS.get(wish.mode.lower())
    if wish.kind or kind is None or {document["kind"] for document in theirs} != {_GPUS}:
        return theirs, None
    return [{**document, "kind": kind} for document in theirs], "own-class"


def deviation(
    given: dict[str, Any], wish: Wish, ours: Documents, theirs: Documents, findings: list[Finding], host: Tree
) -> str | None:
    """The rule by which we do not write what the reference does.

    Arguments:
        given: the case.
        wish: its command line.
        ours, theirs: the specs.
        findings: what we report.
        host: the machine.
    Returns:
        the id of a rule that explains all differences, None when there is none.
    """
    if not theirs:
        return None
    wanted = {name: value for document in theirs for name, value in effects.of_document(document, host).items()}
    errors = [finding for finding in findings if finding.level == ERROR]
    if not ours:
        return _refusal(wish, theirs, wanted, errors, host)
    mine = {name: value for document in ours for name, value in effects.of_document(document, host).items()}
    different = effects.differences(mine, wanted)
    if not all(_is_missing(wish, error, wanted) for error in errors):
        return None
    if not different:
        return "required-missing" if errors else None
    explained = {
        "tegra-root": _is_root(wish, different, wanted),
        "tegra-pattern": _is_pattern(wish, different),
        "tegra-gpus": _is_discrete(given, wish, different),
        "sandboxutils": _is_sandboxutils(given, different),
    }
    return next((rule for rule, is_explained in explained.items() if is_explained), None)


def _is_missing(wish: Wish, error: Finding, wanted: dict[str, Any]) -> bool:
    """Whether an error names what their devices do not have either: a node of a mode's driver, or a listed libcuda."""
    words = error.text.split()
    companion = companions.COMPANIONS.get(wish.mode)
    if companion and error.text.startswith("there is no device node "):
        (pattern,) = (pattern for pattern in companion.required if words[5].endswith(f"{pattern},"))
        return not any(fnmatchcase(path, pattern) for device in wanted.values() for path in device["node"])
    is_listed = error.text.endswith("is missing, without which no program can use the GPU")
    return is_listed and not any(words[0] in device["mount"] for device in wanted.values())


def _refusal(wish: Wish, theirs: Documents, wanted: dict[str, Any], errors: list[Finding], host: Tree) -> str | None:
    """We write nothing: for a word that means nothing to the reference either, or for lists that name nothing."""
    kinds = {document["kind"] for document in theirs}
    if len(errors) == 1 and errors[0].id == "DISCOVERY_WISH":
        features = [f"--feature-flag {word}: " for word in wish.features - options.FEATURES]
        devices = [f"--device {word}: " for word in wish.devices if not wanted.keys() & {f"{k}={word}" for k in kinds}]
        files = [f"--csv-file {path}: " for path in wish.csv_files if not host.is_file(path)]
        return "unknown-word" if errors[0].text.startswith((*features, *devices, *files) or ("\0",)) else None
    nothing = [_is_release_alone(device) for device in wanted.values()]
    return "tegra-nothing" if wish.mode in {"csv", "auto"} and errors and all(nothing) else None


def _is_release_alone(device: effects.Effects) -> bool:
    groups = {name: set(values) for name, values in device.items() if values and name != "env"}
    return groups in ({"mount": {options.TEGRA_RELEASE}}, {})


def _is_root(wish: Wish, different: list[Difference], wanted: dict[str, Any]) -> bool:
    """Links of lists lie below the driver's root, which also has the file of the release."""
    root = wish.driver_root
    if root == "/" or wish.mode not in {"csv", "auto"}:
        return False

    def explains(name: str, group: str, key: str, mine: Any, their: Any) -> bool:
        if group == "mount" and key == options.TEGRA_RELEASE:
            return bool(mine and mine[0] == root + key and their in (None, [key, mine[1]]))
        if group != "link":
            return False
        if key.startswith(f"{root}/"):
            return mine is None
        return bool(mine) and wanted[name]["link"].get(root + key) == root + mine

    return all(explains(*difference) for difference in different)


def _is_pattern(wish: Wish, different: list[Difference]) -> bool:
    """A pattern without / ignores links of that name."""
    patterns = [pattern for pattern in wish.csv_ignored if "/" not in pattern]

    def explains(key: str) -> bool:
        return any(fnmatchcase(key.rpartition("/")[2], pattern) for pattern in patterns)

    return all(group == "link" and explains(key) for _, group, key, _, _ in different)


def _is_discrete(given: dict[str, Any], wish: Wish, different: list[Difference]) -> bool:
    """Each discrete GPU is a device, however many there are."""
    gpus = (given["nvml"] or {}).get("gpus", [])
    names = {f"{_GPUS}={name}" for number, gpu in enumerate(gpus) for name in (str(number), gpu["uuid"])}

    def explains(name: str, group: str, key: str, mine: Any, their: Any) -> bool:
        if group == "device":
            return bool(mine and not their and name in names)
        return name == f"{_GPUS}=all" and group == "node" and key.startswith("/dev/nvidia") and their is None

    return wish.mode in {"csv", "auto"} and len(gpus) > 2 and all(explains(*difference) for difference in different)


def _is_sandboxutils(given: dict[str, Any], different: list[Difference]) -> bool:
    """NVML and sysfs alone are asked: about DRM nodes, and for the driver's version."""
    library = given.get("sandboxutils") or {}
    listed = {item["path"] for items in library.get("resources", {}).values() for item in items}
    versions = {str(answers.get("driver_version")) for answers in (library, given["nvml"] or {})}
    # a library that there is in the version of the driver that runs alone, with its link for build tools
    stems = {key.partition(".so.")[0] for _, group, key, _, _ in different if group == "mount"}

    def explains(group: str, key: str, mine: Any, their: Any) -> bool:
        if group in {"node", "link"} and key.startswith("/dev/dri/"):
            return key in listed and mine is None
        if group == "link" and key.removesuffix(".so") in stems:
            return their is None
        return len(versions) == 2 and any(version in f"{key} {mine} {their}" for version in versions)

    return bool(library) and all(explains(*difference) for _, *difference in different)
