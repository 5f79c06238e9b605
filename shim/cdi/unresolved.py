"""The words for names that nobody serves: what is wrong with each, what is near to it, where was searched. Cold.

"unresolvable device" and nothing else is the complaint most often filed against CDI. The cause is nearly always one of
four: a mistyped name, a file that was refused, a directory that was not searched, two files with one device. So the
text says all four, in one line, since engines show one line.
"""

from __future__ import annotations

from shim.cdi.directories import OK
from shim.cdi.findings import Finding
from shim.cdi.names import BadName, parse_qualified

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.cdi.directories import Directories

_NEAR = 3  # names offered for one that is unknown
_REFUSED = 8  # files named in the text; the findings hold all
_NAMES = 8  # unknown names in the text, as above
_COMPARED = 2000  # devices looked at, and the longest text compared below: this must end soon whatever is asked for
_LONGEST = 256


def findings(names: Sequence[str], directories: Directories) -> list[Finding]:
    """One finding for each distinct name: its syntax, a conflict, or nothing of that name.

    Near names are looked for only for those that the text will hold.
    """
    distinct = list(dict.fromkeys(names))
    told = [_finding(name, directories, _hint(name, directories)) for name in distinct[:_NAMES]]
    return told + [_finding(name, directories, "") for name in distinct[_NAMES:]]


def text(unknown: Sequence[Finding], refused: Sequence[Finding], directories: Directories) -> str:
    """All in one line: the names, the directories searched, the files refused with line and reason."""
    parts = [str(finding) for finding in unknown[:_NAMES]]
    if len(unknown) > _NAMES:
        parts.append(f"and {len(unknown) - _NAMES} more names")
    searched = [path if state == OK else f"{path} ({state})" for path, state in directories.searched]
    parts.append("searched " + (", ".join(searched) or "no directory"))
    if refused:
        told = [str(finding) for finding in refused[:_REFUSED]]
        if len(refused) > _REFUSED:
            told.append(f"and {len(refused) - _REFUSED} more files")
        parts.append("refused " + ", ".join(told))
    return "; ".join(parts)


def _finding(name: str, directories: Directories, hint: str) -> Finding:
    try:
        parse_qualified(name)
    except BadName as error:
        said = str(error)
        said = said if len(said) <= 2 * _LONGEST else said[: 2 * _LONGEST] + "..."
        return Finding("DEVICE_NAME", said + hint, rule=error.rule)
    paths = directories.conflicts.get(name)
    if paths:
        said = f"device {name} is defined by {' and by '.join(paths)}, so none of them serves it"
        return Finding("SPEC_CONFLICT", said, rule="conflict")
    kind, _, device = name.partition("=")
    if kind in directories.kinds():
        said = f"unresolvable device {name}: the specs of {kind} have no device {device}"
    else:
        said = f"unresolvable device {name}: no usable spec is of the kind {kind}"
    return Finding("DEVICE_UNKNOWN", said + hint, rule="unresolved")


def _hint(name: str, directories: Directories) -> str:
    close = nearest(name, directories.devices())
    return f" (nearest: {', '.join(close)})" if close else ""


def nearest(name: str, devices: Sequence[str]) -> list[str]:
    """The three devices whose names need the fewest changes to become `name`, those of its kind before all others.

    A name without "=" is compared with the part behind "=" too, since people leave the kind out.
    """
    if len(name) > _LONGEST:
        return []
    kind = name.partition("=")[0] + "="
    pool = [device for device in devices if device.startswith(kind)] or devices
    bare = "=" not in name

    def changes(device: str) -> tuple[int, str]:
        whole = distance(name, device[:_LONGEST])
        if bare:
            return min(whole, distance(name, device[:_LONGEST].partition("=")[2])), device
        return whole, device

    return sorted(pool[:_COMPARED], key=changes)[:_NEAR]


def distance(one: str, other: str) -> int:
    """Levenshtein distance: insertions, deletions and replacements of letters that turn one text into the other."""
    same = 0
    for letter, wanted in zip(one, other, strict=False):
        if letter != wanted:
            break
        same += 1
    one, other = one[same:], other[same:]
    previous = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, wanted in enumerate(other, 1):
            replaced = previous[column - 1] + (letter != wanted)
            current.append(min(previous[column] + 1, current[-1] + 1, replaced))
        previous = current
    return previous[-1]
