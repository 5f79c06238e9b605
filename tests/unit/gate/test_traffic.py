"""What the clients of Docker 29 send, recorded: each request passes, and nothing that has a value is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from shim.gate.judge import Policy, Request, decide
from shim.gate.judge.json_strict import is_zero
from shim.gate.judge.model import STREAM, TUNNEL

FILE = Path(__file__).parent.parent.parent / "data/gate-traffic.json"
REQUESTS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="ascii"))["requests"]
GRANTED = frozenset({"vendor.test/fake=one"})
BUILDS = Policy("repo-a", builder="daemon")
CREATES = [recorded for recorded in REQUESTS if recorded["target"].partition("?")[0].endswith("/containers/create")]


def request(recorded: dict[str, Any], body: bytes | None = None) -> Request:
    headers = tuple((name, value) for name, value in recorded["headers"])
    values = dict(headers)
    if body is None and "body" in recorded:
        body = recorded["body"].encode()
    length = len(body) if body is not None else int(values.get("content-length", "0"))
    is_chunked = "transfer-encoding" in values
    return Request(recorded["method"], recorded["target"], headers, body, None if is_chunked else length, is_chunked)


def judged(recorded: dict[str, Any], policy: Policy = BUILDS, body: bytes | None = None) -> Any:
    return decide(request(recorded, body), policy, GRANTED, lambda _: None, lambda path: path)


def without_zeros(value: Any) -> Any:
    """Members of objects without a value are dropped where the gate does not know them; in Go they mean the same."""
    if isinstance(value, dict):
        return {key: without_zeros(item) for key, item in value.items() if not is_zero(item)}
    return [without_zeros(item) for item in value] if isinstance(value, list) else value


def short(recorded: dict[str, Any]) -> str:
    return f"{recorded['method']} {recorded['target'].partition('?')[0]}"


@pytest.mark.parametrize("recorded", REQUESTS, ids=short)
def test_it_passes_as_it_was_sent(recorded: dict[str, Any]) -> None:
    decision = judged(recorded)
    assert decision.is_allowed, decision.message
    sent, forwarded = urlsplit(recorded["target"]), urlsplit(decision.admission.target)
    assert forwarded.path == sent.path
    assert parse_qsl(forwarded.query) == parse_qsl(sent.query)
    if "body" in recorded:
        assert without_zeros(json.loads(decision.body)) == without_zeros(json.loads(recorded["body"]))
    names = {name for name, _ in recorded["headers"]}
    assert decision.admission.mode == TUNNEL or "upgrade" not in names
    assert decision.admission.mode == STREAM or "transfer-encoding" not in names


@pytest.mark.parametrize("recorded", CREATES, ids=short)
def test_the_same_with_privileges_does_not(recorded: dict[str, Any]) -> None:
    value = json.loads(recorded["body"])
    value["HostConfig"]["Privileged"] = True
    decision = judged(recorded, body=json.dumps(value).encode())
    assert (decision.is_allowed, decision.reason) == (False, "privileged")


def test_buildkit_is_refused_by_default() -> None:
    refused = {short(recorded) for recorded in REQUESTS if not judged(recorded, Policy("repo-a")).is_allowed}
    assert refused == {"POST /grpc", "POST /session"}
