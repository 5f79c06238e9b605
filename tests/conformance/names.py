"""Cases of names.json: names split, checked and put together."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from shim.cdi import names

from .runner import difference

if TYPE_CHECKING:
    from collections.abc import Callable

_CHECKS = {"vendor": names.check_vendor, "class": names.check_class, "device": names.check_device}
_BUILDERS: dict[str, tuple[Callable[..., str], tuple[str, ...], str]] = {
    "compose": (names.compose, ("vendor", "class", "name"), "qualified"),
    "spec_name": (names.spec_name, ("vendor", "class"), "name"),
    "transient_spec_name": (names.transient_spec_name, ("vendor", "class", "transient_id"), "name"),
    "spec_name_for_kind": (names.spec_name_for_kind, ("kind",), "name"),
    "transient_spec_name_for_kind": (names.transient_spec_name_for_kind, ("kind", "transient_id"), "name"),
}


def run(case: dict[str, Any], tmpdir: str) -> str | None:  # noqa: ARG001 - the interface of all families
    """None: as expected. Else what differs."""
    expected = case["expect"]
    got = answer(case["input"])
    # The expectation leaves members out where they say nothing new, for example the parts of a name of 300 letters.
    return difference({member: got.get(member) for member in {*expected, "error"}}, {"error": None, **expected})


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """What we make of an input, in the form of `expect`."""
    op = given["op"]
    if op in _BUILDERS:
        build, parts, member = _BUILDERS[op]
        try:
            return {member: build(*(given[part] for part in parts))}
        except names.BadName as bad:
            return {"error": bad.rule}
    if "value_b64" in given:
        value = base64.b64decode(given["value_b64"]).decode("utf-8", "surrogateescape")
    else:
        value = given["value"]
    if op == "kind":
        return dict(zip(("vendor", "class"), names.split_kind(value), strict=True))
    if op == "qualified":
        return _qualified(value)
    try:
        _CHECKS[op](value)
    except names.BadName as bad:
        return {"valid": False, "error": bad.rule}
    return {"valid": True}


def _qualified(value: str) -> dict[str, Any]:
    split = _named(names.split_qualified(value))
    try:
        return {"valid": True, "split": split, "parts": _named(names.parse_qualified(value))}
    except names.BadName as bad:
        return {"valid": False, "split": split, "error": bad.rule}


def _named(parts: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("vendor", "class", "name"), parts, strict=True))
