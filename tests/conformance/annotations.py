"""Cases of annotations.json: requests read from annotations, and written into them."""

from __future__ import annotations

from typing import Any

import shim.cdi.annotations as reader
from shim.cdi.names import BadName

from .runner import difference


def run(case: dict[str, Any], tmpdir: str) -> str | None:  # noqa: ARG001 - the interface of all families
    """None: as expected. Else what differs."""
    given, expected = case["input"], case["expect"]
    before = dict(given.get("annotations") or {})
    try:
        got = answer(given)
    except BadName as bad:
        got = {"error": bad.rule}
    if dict(given.get("annotations") or {}) != before:
        return "the annotations given were changed"
    return difference({member: got.get(member) for member in {*expected, "error"}}, {"error": None, **expected})


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """What we make of an input, in the form of `expect`."""
    if given["op"] == "key":
        return {"key": reader.key(given["plugin"], given["device_id"])}
    if given["op"] == "value":
        return {"value": reader.value(given["devices"])}
    if given["op"] == "update":
        return {
            "annotations": reader.update(given["annotations"], given["plugin"], given["device_id"], given["devices"])
        }
    found = reader.parse(given["annotations"])
    devices = [device for _, named in found for device in named]
    return {
        "keys": [key for key, _ in found],
        "by_key": dict(found),
        "devices": devices,
        "devices_sorted": sorted(devices),
    }
