"""The routes of the API: what is passed on, what is judged, what is refused by name. Another route is refused, too."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shim.gate.judge.messages import Denied

# (method, pattern, kind): {id} is a single segment, {name} (of an image) may have several. The first match counts.
ROUTES: tuple[tuple[str, str, str], ...] = (
    ("POST", "/containers/create", "create"),
    ("POST", "/containers/{id}/update", "update"),
    ("POST", "/containers/{id}/start", "start"),
    ("POST", "/containers/{id}/restart", "start"),
    ("POST", "/containers/{id}/exec", "exec"),
    ("POST", "/exec/{id}/start", "hijack-json"),
    ("POST", "/containers/{id}/attach", "hijack"),
    ("GET", "/containers/{id}/attach/ws", "hijack-ws"),
    ("POST", "/session", "hijack-session"),
    ("POST", "/grpc", "hijack-grpc"),
    ("POST", "/volumes/create", "volume"),
    ("POST", "/commit", "commit"),
    ("POST", "/build", "build"),
    ("POST", "/images/create", "stream"),
    ("POST", "/images/load", "stream"),
    ("PUT", "/containers/{id}/archive", "stream"),
    ("POST", "/containers/{id}/(kill|pause|unpause|stop|wait|resize|rename)", "plain"),
    ("POST", "/exec/{id}/resize", "plain"),
    ("POST", "/(containers|images|networks|volumes|build)/prune", "plain"),
    ("POST", "/build/cancel", "plain"),
    ("POST", "/networks/create", "opaque"),
    ("POST", "/networks/{id}/(connect|disconnect)", "opaque"),
    ("POST", "/auth", "opaque"),
    ("POST", "/images/{name}/(push|tag)", "stream"),
    ("DELETE", "/(containers|volumes|networks)/{id}", "plain"),
    ("DELETE", "/images/{name}", "plain"),
    ("GET", "/_ping", "plain"),
    ("HEAD", "/_ping", "plain"),
    (
        "GET",
        "/(info|version|events|system/df|images/json|images/search|images/get|containers/json|volumes|networks|plugins"
        "|plugins/privileges|swarm|services|nodes|tasks|secrets|configs)",
        "plain",
    ),
    ("GET", "/containers/{id}/(json|top|logs|stats|changes|export|archive)", "plain"),
    ("HEAD", "/containers/{id}/archive", "plain"),
    ("GET", "/exec/{id}/json", "plain"),
    ("GET", "/images/{name}/(json|history|get|attestations)", "plain"),
    ("GET", "/(volumes|networks|services|nodes|tasks)/{id}", "plain"),
    ("GET", "/services/{id}/logs", "plain"),
    ("GET", "/tasks/{id}/logs", "plain"),
    ("GET", "/plugins/{name}/json", "plain"),
    ("GET", "/distribution/{name}/json", "plain"),
    ("GET", "/networks/", "plain"),
    ("POST", "/plugins/.*", "deny:plugin"),
    ("DELETE", "/plugins/.*", "deny:plugin"),
    ("POST", "/(swarm|services|nodes|secrets|configs)/.*", "deny:swarm"),
    ("DELETE", "/(services|nodes|secrets|configs)/.*", "deny:swarm"),
    ("PUT", "/volumes/{id}", "deny:cluster-volume"),
    ("GET", "/debug/.*", "deny:debug-endpoint"),
    ("GET", "/containers/{id}/checkpoints", "deny:checkpoint"),
    ("POST", "/containers/{id}/checkpoints", "deny:checkpoint"),
    ("DELETE", "/containers/{id}/checkpoints/.*", "deny:checkpoint"),
)
# Kinds whose response may become a connection without HTTP, and the protocol to which alone a client may ask to switch
UPGRADES = {
    "hijack": "tcp", "hijack-json": "tcp", "hijack-ws": "websocket", "hijack-session": "h2c", "hijack-grpc": "h2c",
}  # fmt: skip
STREAMED = frozenset({"stream", "build"})
JUDGED = frozenset({"create", "update", "exec", "volume", "hijack-json"})  # their body is of a known struct
READ = JUDGED | {"commit", "opaque"}  # their body is read, and forwarded in a fresh encoding


@dataclass(frozen=True)
class Route:
    """The route of a request: its kind, and the parts of the path that its pattern leaves open."""

    kind: str
    parameters: tuple[str, ...]


def find(method: str, path: str) -> Route:
    """The route of a method and a canonical path. Raises Denied: route-unknown, or the reason of a refused route."""
    for pattern, kind in _COMPILED.get(method, ()):
        match = pattern.fullmatch(path)
        if match:
            if kind.startswith("deny:"):
                raise Denied(kind.removeprefix("deny:"))
            return Route(kind, match.groups())
    raise Denied("route-unknown", method=method, path=path)


def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.replace("(", "(?:").replace("{id}", "([^/]+)").replace("{name}", "(.+)")
    return re.compile(text)


_COMPILED: dict[str, list[tuple[re.Pattern[str], str]]] = {}
for _method, _pattern, _kind in ROUTES:
    _COMPILED.setdefault(_method, []).append((_compiled(_pattern), _kind))
