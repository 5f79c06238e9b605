"""Cases of specs.json: one text each, taken or refused, and what it says."""

from __future__ import annotations

import base64
from typing import Any

from shim.cdi import deviations, spec, versions

from .runner import difference


def run(case: dict[str, Any], tmpdir: str) -> str | None:  # noqa: ARG001 - the interface of all families
    """None: as expected. Else the id of a deviation, or what differs."""
    given = case["input"]
    text = base64.b64decode(given["text_b64"]) if "text_b64" in given else given["text"].encode()
    expected = {member: value for member, value in case["expect"].items() if member != "schema"}
    got = answer(text, expected)
    wrong = difference(got, expected)
    return wrong and (_deviation(text, expected) or wrong)


def answer(text: bytes, expected: dict[str, Any]) -> dict[str, Any]:
    """What we make of a text, in the form of `expect`; of a refused one only what is expected to be said of it."""
    document, findings = spec.examine(text)
    got: dict[str, Any] = {"accepted": not findings}
    if "minimum" in expected:  # also of a refused document, unless its text could not be decoded
        got["minimum"] = versions.minimum(document)
    try:
        read = spec.parse(text)
    except spec.SpecError as error:
        first = error.findings[0]
        got["error"] = first.rule
        if "needs" in expected and f" needs {expected['needs']}" in f"{first.text} {first.remedy}":
            got["needs"] = expected["needs"]
        if "field" in expected and f"unknown field {expected['field']!r}" in first.text:
            got["field"] = expected["field"]
        return got
    return got | {
        "vendor": read.vendor,
        "class": read.klass,
        "devices": list(read.devices),
        "spec": read.document,
    }


def _deviation(text: bytes, expected: dict[str, Any]) -> str | None:
    """The deviation that alone made the difference: without its findings the result is the expected one."""
    document, findings = spec.examine(text)
    rules = {finding.rule for finding in findings}
    if len(rules) != 1 or not rules <= deviations.TABLE.keys():
        return None
    rule = rules.pop()
    if expected["accepted"] and spec.canonical(document) == expected["spec"]:
        return rule
    return rule if expected.get("error") == "crash" and rule == "null-item" else None
