"""What the kernel takes as the name of a network interface. HOT: imports nothing."""

from __future__ import annotations

SIZE = 15  # bytes: IFNAMSIZ of linux/if.h without the final zero


def fault(name: str, *, template: bool) -> str:
    """What is wrong with the name of an interface, "" when nothing is (dev_valid_name of the kernel).

    Arguments:
        name: the name.
        template: a final %d is allowed: the kernel puts the first free number there.
    """
    stem = name[:-2] if template and name.endswith("%d") else name
    if not stem or stem in {".", ".."}:
        return "it is not a name"
    if len(name.encode("utf-8", "surrogateescape")) > SIZE:
        return f"it is longer than {SIZE} bytes"
    for char in stem:
        if char in "/:%" or char.isspace() or not char.isprintable():
            return "it holds a character that no interface name can have"
    return ""
