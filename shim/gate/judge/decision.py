"""The decision on a request, in a fixed order: what can never work is reported before a grant that is missing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shim.gate.judge import create, devices, host, json_strict, routes, target, volumes
from shim.gate.judge.json_strict import quoted
from shim.gate.judge.messages import Denied
from shim.gate.judge.model import RELAY, STREAM, TUNNEL, Admission, Decision
from shim.gate.judge.structure import canonical

if TYPE_CHECKING:
    from shim.gate.judge.model import Inspect, Policy, RealPath, Request

_IDENTITY = re.compile(r"[0-9a-f]{64}")
METHODS = frozenset({"DELETE", "GET", "HEAD", "POST", "PUT"})
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
_CLASSIC = (
    "BuildKit is off for this repository; use DOCKER_BUILDKIT=0 docker build, or let the operator set"
    ' builder = "daemon" (shim gate verify reports what is missing)'
)
_NO_BUILDS = "builds are off for this repository; use docker pull or docker load, or let the operator set builder"


def decide(
    request: Request, policy: Policy, grants: frozenset[str] | None, inspect: Inspect, realpath: RealPath
) -> Decision:
    """Decide on a whole request.

    Arguments:
        request: with the body, where its route is judged.
        policy: of the subject.
        grants: the names granted to the subject; None where the grants cannot be read, which gives no device.
        inspect: a container as the daemon has stored it.
        realpath: resolves links as the daemon does.

    Returns: the decision; a refusal is no exception here.
    """
    try:
        admission = admit(request, policy)
        return _judge(request, admission, policy, grants, inspect, realpath)
    except Denied as denied:
        return refusal(denied)


def refusal(denied: Denied) -> Decision:
    """The decision that a refusal is."""
    return Decision(False, denied.reason, denied.status, denied.message)


def admit(request: Request, policy: Policy) -> Admission:
    """Judge the head of a request: method, target, route, content type, upgrade, declared length.

    Arguments:
        request: its body is not looked at.
        policy: of the subject.

    Raises Denied: the reason.
    """
    if request.method not in METHODS:
        raise Denied("http-method", method=quoted(request.method))
    parsed = target.parse(request.target, policy.min_api)
    route = routes.find(request.method, parsed.path)
    target.check_highest(parsed, policy.min_api)
    _check_builder(route.kind, parsed, policy)
    if route.kind == "start":
        _check_start(request, parsed)
    reads_body = route.kind in routes.READ
    _check_content_type(request, parsed.path, is_read=reads_body)
    upgrade = _checked_upgrade(request, route.kind)
    if reads_body and (request.length or 0) > policy.body_limit:
        raise Denied("http-too-large", limit=policy.body_limit)
    mode = TUNNEL if route.kind in routes.UPGRADES else STREAM if route.kind in routes.STREAMED else RELAY
    return Admission(route.kind, parsed.encoded(), route.parameters, parsed.query, mode, reads_body, upgrade)


def _check_builder(kind: str, parsed: target.Target, policy: Policy) -> None:
    if kind in ("hijack-session", "hijack-grpc") and policy.builder != "daemon":
        raise Denied("builder-grpc", what=_CLASSIC if policy.builder == "classic" else _NO_BUILDS)
    if kind != "build":
        return
    if policy.builder == "deny":
        raise Denied("builder-grpc", what=_NO_BUILDS)
    if any(value != b"1" for value in parsed.values("version")) and policy.builder != "daemon":
        raise Denied("builder-grpc", what=_CLASSIC)
    if parsed.values("cgroupparent") and "cgroup-parent" not in policy.allow:
        raise Denied("cgroup-parent", name="cgroup-parent")
    for value in parsed.values("securityopt"):
        if value not in (b"null", b"[]"):
            raise Denied("security-opt", option=quoted(value.decode("latin-1")))


def _check_start(request: Request, parsed: target.Target) -> None:
    if request.has_body:
        raise Denied("start-body")
    if parsed.values("checkpoint") or parsed.values("checkpoint-dir"):
        raise Denied("checkpoint")


def _check_content_type(request: Request, path: str, *, is_read: bool) -> None:
    """Go merges the fields of a form with the query, and decodes JSON only of its own type."""
    given = request.header("content-type")
    media = given[0].partition(";")[0].strip().lower() if given else ""
    is_form = media in _FORMS and request.method in ("POST", "PUT")
    if len(given) > 1 or is_form or (is_read and request.has_body and media != "application/json"):
        raise Denied("http-content-type", type=quoted(", ".join(given)), path=path)


def _checked_upgrade(request: Request, kind: str) -> str:
    """The protocol that a client asks to switch to. Elsewhere the daemon ignores it, and a tunnel would be open."""
    given = [value.strip().lower() for value in request.header("upgrade")]
    if not given:
        return ""
    allowed = routes.UPGRADES.get(kind, "")
    if given != [allowed]:
        what = f"this route switches to {allowed} only" if allowed else "this route switches to no other protocol"
        raise Denied("http-upgrade", what=what)
    return allowed


def _judge(
    request: Request,
    admission: Admission,
    policy: Policy,
    grants: frozenset[str] | None,
    inspect: Inspect,
    realpath: RealPath,
) -> Decision:
    kind = admission.kind
    if kind == "start":
        stored = inspect(admission.parameters[0])
        if stored is None:
            return Decision(True, "ok-start", admission=admission)
        names = create.judge_stored(stored, policy, grants, inspect, realpath)
        return Decision(True, "ok-start", admission=_of_judged(admission, stored), names=tuple(names))
    if kind not in routes.READ:
        return Decision(True, "ok", admission=admission)
    body = request.body or b""
    if len(body) > policy.body_limit:
        raise Denied("http-too-large", limit=policy.body_limit)
    if kind not in routes.JUDGED:
        forwarded = json_strict.encode(json_strict.parse(body)) if body else b""
        return Decision(True, "ok", admission=admission, body=forwarded)
    if kind == "hijack-json" and not body:
        return Decision(True, "ok", admission=admission, body=b"")
    value = json_strict.parse(body)
    judged: dict[str, Any]
    asked: list[str] = []
    if kind == "create":
        if value is None:
            raise Denied("json-type", what="it must be an object")
        judged, asked = create.judge(value, policy, grants, inspect, realpath)
    else:
        judged = _judge_other(kind, value, policy, grants)
    devices.check_granted(asked, policy, grants)
    reason = "ok-granted" if asked else "ok" if kind == "hijack-json" else "ok-judged"
    return Decision(True, reason, admission=admission, body=json_strict.encode(judged), names=tuple(asked))


def _of_judged(admission: Admission, stored: dict[str, Any]) -> Admission:
    """The start of the container that was judged, whichever has its name meanwhile."""
    identity = stored.get("Id")
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        return admission
    name = f"/containers/{admission.parameters[0]}/"
    return replace(admission, target=admission.target.replace(name, f"/containers/{identity}/", 1))


def _judge_other(kind: str, value: Any, policy: Policy, grants: frozenset[str] | None) -> dict[str, Any]:
    judged = canonical(value, "exec-start" if kind == "hijack-json" else kind)
    if kind == "update":
        if judged.get("DeviceRequests"):
            devices.of_requests([{**request, "Driver": ""} for request in judged["DeviceRequests"]], policy, grants)
        devices.check_paths(judged.get("Devices") or (), policy)
        host.check_zero(judged, "update", policy, ("device-cgroup-rule", "cgroup-parent"))
    elif kind == "exec":
        host.check_zero(judged, "exec", policy, ("exec-privileged",))
    elif kind == "volume":
        volumes.check_driver(judged.get("Driver") or "")
        host.check_zero(judged, "volume", policy, ("cluster-volume",))
        volumes.check_options(judged.get("DriverOpts") or {}, policy)
    return judged
