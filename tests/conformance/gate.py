"""Cases of gate.json: a request as bytes through the gate's parser and judgement, and once more through its sockets.

Behind the sockets is a daemon that records what reaches it: nothing of a request that is refused, and exactly the
expected value of one that passes.
"""

from __future__ import annotations

import json
from typing import Any

from shim.gate import head
from shim.gate.judge import Decision, Denied, Policy, Request, decide
from shim.gate.judge.decision import refusal

from . import gate_wire
from .runner import difference

_FROZEN = {"annotation_prefixes": tuple, "device_paths": frozenset, "volume_types": frozenset, "allow": frozenset}
_FROZEN |= {"env_live_runtimes": frozenset, "never": tuple, "readonly": tuple, "min_api": tuple}


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else what differs."""
    return compare(decision_of(case["input"]), case["expect"]) or _on_the_wire(case["input"], case["expect"], tmpdir)


def _on_the_wire(given: dict[str, Any], expected: dict[str, Any], tmpdir: str) -> str | None:
    """What differs where the same bytes go through sockets."""
    state = given.get("state") or {}
    grants = gate_wire.FakeGrants(None if given["grants"] is None else frozenset(given["grants"]))
    arguments = {"containers": containers(state), "realpath": links(state)}
    with gate_wire.running(tmpdir, policy_of(given), grants, **arguments) as setup:
        status, headers, body = setup.ask(wire(given))
        reached = setup.daemon.received
    if expected["decision"] == "deny":
        got: dict[str, Any] = {"status": status, "reason": headers.get("x-shim-gate"), "reached": len(reached)}
        message = json.loads(body)["message"] if body else ""
        if not message.endswith(f" [{expected['reason']}]"):
            return f"on the wire: the message is {message}"
        return difference(got, {"status": expected["status"], "reason": expected["reason"], "reached": 0})
    got = {"passed": status in (101, 200), "reached": len(reached)}
    if "forward" in expected:
        got["forward"] = json.loads(reached[0].body)
    wanted = {"passed": True, "reached": 1}
    return difference(got, wanted | ({"forward": expected["forward"]} if "forward" in expected else {}))


def compare(decision: Decision, expected: dict[str, Any]) -> str | None:
    """What differs between a decision and the members of an expectation."""
    got: dict[str, Any] = {"decision": "allow" if decision.is_allowed else "deny", "reason": decision.reason}
    if decision.status:
        got["status"] = decision.status
    if decision.admission is not None:
        got["mode"] = decision.admission.mode
    if decision.body:
        got["forward"] = json.loads(decision.body)
    if not decision.is_allowed and not decision.message.endswith(f" [{decision.reason}]"):
        return f"the message does not end with the reason: {decision.message}"
    return difference({member: got.get(member) for member in expected}, expected)


def decision_of(case: dict[str, Any]) -> Decision:
    """The decision on a case."""
    raw = wire(case)
    text, _, body = raw.partition(head.END)
    try:
        if not _:
            head.check_partial(raw)
        parsed = head.parse(text)
    except Denied as denied:
        return refusal(denied)
    given = case.get("request", {})
    body = (given.get("body") or "").encode() if given else body
    request = Request(parsed.method, parsed.target, parsed.headers, body, parsed.length, parsed.is_chunked)
    state = case.get("state") or {}
    grants = None if case["grants"] is None else frozenset(case["grants"])
    return decide(request, policy_of(case), grants, containers(state).get, links(state))


def wire(case: dict[str, Any]) -> bytes:
    """The bytes of a case's request."""
    if "raw" in case:
        return str(case["raw"]).encode("latin-1")
    request = case["request"]
    body = (request.get("body") or "").encode()
    if ["Transfer-Encoding", "chunked"] in request["headers"]:
        body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    lines = [f"{request['method']} {request['target']} HTTP/1.1", "Host: docker"]
    for name, value in request["headers"]:
        # some lengths are those of an earlier text of the body; larger ones are meant so
        too_short = name == "Content-Length" and 0 < int(value) < len(body)
        lines.append(f"{name}: {len(body) if too_short else value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def policy_of(case: dict[str, Any]) -> Policy:
    """The defaults, with what the case overrides."""
    given = {name: _FROZEN.get(name, lambda value: value)(value) for name, value in (case.get("policy") or {}).items()}
    if isinstance(given.get("bind_roots"), list):
        given["bind_roots"] = tuple(given["bind_roots"])
    if "runtimes" in given:
        runtimes = given["runtimes"]
        named = runtimes.items() if isinstance(runtimes, dict) else ((name, ()) for name in runtimes)
        given["runtimes"] = {name: tuple(names) for name, names in named}
    return Policy(**{"subject": "repo-a", **given})


def containers(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The stored containers of a case."""
    stored: dict[str, dict[str, Any]] = state.get("containers", {})
    return stored


def links(state: dict[str, Any]) -> Any:
    """The function that resolves the links of a case."""
    targets: dict[str, str] = state.get("links", {})

    def resolve(path: str) -> str:
        for _ in range(40):
            link = next((link for link in targets if path == link or path.startswith(link + "/")), None)
            if link is None:
                return path
            path = targets[link] + path[len(link) :]
        return path

    return resolve
