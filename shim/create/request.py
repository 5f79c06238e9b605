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

# A pod's sandbox gets the annotations of its pod (containerd with pod_annotations), yet nobody works in it.
_SANDBOX = (
    ("io.kubernetes.cri.container-type", "sandbox"),  # containerd
    ("io.kubernetes.cri-o.ContainerType", "sandbox"),  # CRI-O
)


def is_sandbox(config: dict[str, Any]) -> bool:
    """Whether this is a pod's pause container, by the annotations that containerd and CRI-O set themselves."""
    given = config.get("annotations")
    return isinstance(given, dict) and any(given.get(key) == value for key, value in _SANDBOX)


def ask(config: dict[str, Any], options: Iterable[str], prefixes: tuple[str, ...], default_kind: str) -> dict[str, str]:
    """Collect the qualified names that are asked for.

    Arguments:
        config: the decoded config.json.
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
    given = config.get("annotations")
    try:
        listed = parse_annotations(given if isinstance(given, dict) else None, prefixes)
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
