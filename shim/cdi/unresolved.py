"""The error for names that no spec serves: the fault of each, near names, and the directories searched. Cold.

"unresolvable device" and nothing else is the complaint most often filed against CDI. There are four usual causes: a
mistyped name, a file that was refused, a directory that was not searched, two files with the same device. So the text
has information about all four, in one line, since engines show one line.
"""

from __future__ import annotations

from shim.base.findings import Finding, one_line
from shim.base.nearest import distance
from shim.cdi.directories import OK
from shim.cdi.names import BadName, parse_qualified

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.cdi.types import Served

_NEAR = 3  # near names shown for an unknown name
_REFUSED = 8  # files named in the text; the findings hold all
_LISTED = 3  # devices of a conflict in the text
_NAMES = 8  # unknown names in the text, as above
_LETTERS = 200_000  # of device names that are compared, for all unknown names together: a fifth of a second
_LONGEST = 256  # of a text that is compared
_FEW = 3  # changes that any name may need to be near
_PART = 4  # letters that a part of a name has at least, so that the name is near
_SAME = 50  # devices of the same name that are compared by their kind


def findings(names: Sequence[str], directories: Served) -> list[Finding]:
    """A finding for each distinct name: wrong syntax, or unknown; names that the same files define share a finding.

    Near names are searched only for the names that the text has.
    """
    groups: dict[tuple[str, ...], list[str]] = {}  # paths in conflict, or a name -> names
    for name in dict.fromkeys(names):
        groups.setdefault(tuple(directories.conflicts.get(name, (name,))), []).append(name)
    letters = _LETTERS // max(1, min(len(groups), _NAMES))
    findings = []
    for number, (paths, members) in enumerate(groups.items()):
        if members[0] in directories.conflicts:
            findings.append(_conflict(members, paths))
        else:
            hint = _hint(members[0], directories, letters) if number < _NAMES else ""
            findings.append(_finding(members[0], directories, hint))
    return findings


def subject(names: Sequence[str]) -> str:
    """Devices as the subject of a sentence, with its verb: "device X is", "devices X, Y, Z and 5 more are"."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"device {names[0]} is" if len(names) == 1 else f"devices {', '.join(names[:_LISTED])}{more} are"


def _conflict(names: Sequence[str], paths: Sequence[str]) -> Finding:
    them = "it" if len(names) == 1 else "them"
    text = f"{subject(names)} defined by {' and by '.join(paths)}, so none of them serves {them}"
    return Finding("SPEC_CONFLICT", text, rule="conflict")


def text(unknown: Sequence[Finding], refused: Sequence[Finding], directories: Served) -> str:
    """The error in one line: the names, the directories searched, the files refused with line and reason."""
    parts = [str(finding) for finding in unknown[:_NAMES]]
    if len(unknown) > _NAMES:
        parts.append(f"and {len(unknown) - _NAMES} more names")
    searched = [one_line(path) + ("" if state == OK else f" ({state})") for path, state in directories.searched]
    parts.append("searched " + (", ".join(searched) or "no directory"))
    if refused:
        texts = [str(finding) for finding in refused[:_REFUSED]]
        if len(refused) > _REFUSED:
            texts.append(f"and {len(refused) - _REFUSED} more files")
        parts.append("refused " + ", ".join(texts))
    return "; ".join(parts)


def refused(findings: dict[str, list[Finding]]) -> list[Finding]:
    """The first fault of each file that could not be used, by path; without conflicts and directories."""
    files = [of_path[0] for _, of_path in sorted(findings.items())]
    return [finding for finding in files if finding.id not in ("SPEC_CONFLICT", "SPEC_DIR_UNREADABLE")]


def _finding(name: str, directories: Served, hint: str) -> Finding:
    try:
        parse_qualified(name)
    except BadName as error:
        return Finding("DEVICE_NAME", f"{error}{hint}", rule=error.rule)
    kind, _, device = name.partition("=")
    if kind in directories.kinds():
        message = f"unresolvable device {name}: the specs of {kind} have no device {device}"
    else:
        message = f"unresolvable device {name}: no usable spec is of the kind {kind}"
    return Finding("DEVICE_UNKNOWN", message + hint, rule="unresolved")


def _hint(name: str, directories: Served, letters: int) -> str:
    close = nearest(name, directories.devices(), letters)
    return f" (nearest: {', '.join(close)})" if close else ""


def nearest(name: str, devices: Sequence[str], letters: int = _LETTERS) -> list[str]:
    """The three devices whose names need the fewest changes to become `name`: of its kind, if there are any.

    A name without "=" is also compared with the part behind "=", since people leave the kind out. If exactly one device
    begins with the name, it comes first, then those that hold it (a UUID without its GPU- or MIG-, or cut short); a
    device of that name of another kind is added. Names with hardly a letter in common are not near, such as an index
    and a UUID.

    Arguments:
        name: what was asked for.
        devices: all qualified names.
        letters: how many of their letters are compared; further names are left out, which limits the time.
    """
    if len(name) > _LONGEST:
        return []
    kind, equals, device = name.partition("=")
    same_kind = [candidate for candidate in devices if candidate.startswith(f"{kind}=")]
    if same_kind:
        pool, cut = same_kind, len(kind) + 1  # only the part behind "=" differs
    else:
        pool, cut, device = list(devices), 0, name

    def changes(candidate: str) -> int:
        whole = distance(device, candidate[cut : cut + _LONGEST])
        return whole if equals else min(whole, distance(name, candidate.partition("=")[2][:_LONGEST]))

    compared: list[tuple[int, int, str]] = []
    for candidate in pool:
        letters -= min(len(candidate) - cut, _LONGEST)
        if letters < 0:
            break
        compared.append((changes(candidate), len(compared), candidate))  # equally near names keep their order
    near = [candidate for apart, _, candidate in sorted(compared) if apart <= max(_FEW, len(device))][:_NEAR]
    begun = [candidate for _, _, candidate in compared if device and candidate.startswith(device, cut)]
    first = begun if len(begun) == 1 else []
    wanted = name.partition("=")[2] if equals else name
    first += _holding(wanted, pool) or _holding(wanted, devices)
    if first:
        near = list(dict.fromkeys([*first, *near]))[:_NEAR]
    if same_kind:
        elsewhere = [candidate for candidate in devices if candidate.endswith(f"={device}")][:_SAME]
        elsewhere.sort(key=lambda candidate: distance(kind, candidate.partition("=")[0][:_LONGEST]))
        near = near[: _NEAR - 1] + elsewhere[:1] if elsewhere else near
    return near


def _holding(wanted: str, devices: Sequence[str]) -> list[str]:
    """The devices that have a text in the part behind "=", in any case; none when these are many.

    Where no name has it, it is looked for without its prefix: a MIG- device may be asked for as GPU-.
    """
    prefix, _, bare = wanted.casefold().partition("-")
    for part in (wanted.casefold(), bare if prefix.isalpha() else ""):
        holding = [one for one in devices if part in one.partition("=")[2].casefold()] if len(part) >= _PART else []
        if holding:
            return holding if len(holding) <= _NEAR else []
    return []
