"""Cases of version.json: known versions, and the lowest one that a document needs."""

from __future__ import annotations

from typing import Any

from shim.cdi import versions

from .runner import difference

_PLAIN = {"kind": "acme.example/widget", "devices": [{"name": "w0", "containerEdits": {"env": ["W=0"]}}]}


def run(case: dict[str, Any], tmpdir: str) -> str | None:  # noqa: ARG001 - the interface of all families
    """None: as expected. Else what differs."""
    got = answer(case["input"])
    members = {*case["expect"], "error", "needs"} & {*got, *case["expect"]}
    return difference({member: got.get(member) for member in members}, case["expect"])


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """What we make of an input, in the form of `expect`."""
    if given["op"] == "current":
        return {"current": versions.CURRENT}
    document = given.get("spec", _PLAIN)
    got: dict[str, Any] = {"known": versions.known(given.get("version", "")), "minimum": versions.minimum(document)}
    if given["op"] == "minimum":
        return got
    try:
        versions.check({**document, "cdiVersion": given["version"]})
    except versions.BadVersion as bad:
        got |= {"accepted": False, "error": bad.rule}
        return got | {"needs": bad.needs} if bad.needs else got
    return got | {"accepted": True}
