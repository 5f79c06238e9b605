"""Needles: the texts by which the launcher knows a create that may ask, compiled from the configuration. Cold.

Without a configuration the launcher has a list of its own. With one it would have to send every create to Python, so
the reader of the configuration leaves this file beside the index (native/needles.c reads it):

    shim-needles 1 VERSION
    input DEV INO SIZE MTIME_NS CTIME_NS PATH     a configuration file that was read
    absent PATH                                   one that would count before it, or in its place
    needle TEXT
    enforce                                       grants are enforced: the launcher searches for hardware, too
    end

It counts while every input has the identity that it lists. It may only err towards Python: a needle that
JSON could spell in several ways is not written, and then there is no file at all.
"""

from __future__ import annotations

from shim import __version__
from shim.base.replace import replace
from shim.cdi.annotations import PREFIX
from shim.host.identity import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 1


def write(
    path: str, inputs: Iterable[tuple[str, list[int] | None]], needles: Iterable[str], *, enforces: bool = False
) -> bool:
    """Write the file; failure is silent, since without it Python is asked.

    Arguments:
        path: the file; nothing is written into a directory that is not ours.
        inputs: the configuration files that decide, each with its identity (shim.cdi.index.identity).
        needles: one of them stands in each config.json that asks. The usual annotation prefix is always added: it is
            what a configuration that stops counting falls back to.
        enforces: whether grants are enforced.
    Returns:
        whether it was written.
    """
    lines = [f"shim-needles {FORMAT} {__version__}"]
    for name, known in inputs:
        lines.append(f"input {' '.join(map(str, known))} {name}" if known else f"absent {name}")
    wanted = dict.fromkeys([PREFIX, *needles])
    lines += [*(f"needle {needle}" for needle in wanted), *(["enforce"] if enforces else ()), "end", ""]
    text = "\n".join(lines)
    if not all(_is_plain(needle) for needle in wanted) or text.count("\n") != len(lines) - 1:
        return False
    if not is_ours(path.rpartition("/")[0]):
        return False
    try:
        replace(path, text.encode("utf-8", "surrogateescape"))
    except (OSError, ValueError):
        return False
    return True


def _is_plain(needle: str) -> bool:
    """Whether JSON spells it in one way only, but for escapes that the launcher takes for a hit."""
    return bool(needle) and needle.isascii() and needle.isprintable() and not set(needle) & set('"\\<>& ')
