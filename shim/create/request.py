"""Request: which devices are asked for, and who asks. HOT.

A request is not authority: it only says what is wanted. Sources are merged in a fixed order (command line, then
annotations by key), names that were already asked for are dropped, and the first to ask keeps the credit.
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.cdi import names
from shim.cdi.annotations import parse as parse_annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def ask(
    annotations: dict[str, Any] | None, options: Iterable[str], prefixes: tuple[str, ...], default_kind: str
) -> dict[str, str]:
    """Collect the qualified names that are asked for.

    Arguments:
        annotations: those that count (shim.create.annotation_requests), None for none.
        options: values of --device; a bare name takes the default kind.
        prefixes: annotation keys that begin with one of these are requests (CDI specification, "Annotations").
        default_kind: VENDOR/CLASS for bare names.
    Returns:
        qualified name -> source ("--device" or "annotation KEY"), in the order of asking.
    Raises:
        CdiError: DEVICE_NAME or ANNOTATION_INVALID, naming what is wrong with which name.
    """
    wanted: dict[str, str] = {}
    for option in options:
        wanted.setdefault(_qualified(option, default_kind), "--device")
    try:
        listed = parse_annotations(annotations, prefixes)
    except names.BadName as bad:
        raise CdiError([Finding("ANNOTATION_INVALID", str(bad), rule=bad.rule)]) from None
    for key, devices in listed:
        for name in devices:
            wanted.setdefault(name, f"annotation {key}")
    return wanted


def _qualified(option: str, default_kind: str) -> str:
    bare = "/" not in option and "=" not in option
    name = f"{default_kind}={option}" if bare else option
    try:
        names.parse_qualified(name)
    except names.BadName as bad:
        raise CdiError([Finding("DEVICE_NAME", f"--device {option}: {bad}", rule=bad.rule)]) from None
    return name
