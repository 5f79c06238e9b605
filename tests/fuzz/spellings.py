"""`make fuzz FUZZ=spellings`: config.json in all its spellings, as create reads it and as runc does.

Names in another case (U+017F and U+212A fold to s and k), written by escapes, given twice; objects that merge, null,
other types, bytes that are no UTF-8, text behind the end. For each input create decides, and unit.create.golike says
what runc makes of it. What must hold:

    a request that runc sees is given whole, or the create is refused; the launcher's scan sees it, too
    without one nothing is given, and a refusal has a reason that the scan sees
    what is given, runc sees, and nothing else has changed for it

An input with which that does not hold is written as crash-spellings-DIGEST;

    cd tests && python3 -m fuzz.spellings FILE...

reads such files once more.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import posix
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unit.create import golike

from fuzz import command
from shim.base import fastjson
from shim.create import changes
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import Decision, decide
from shim.create.world import World
from shim.hooks._core import ffi, lib

Random = random.Random
KIND = "acme.example/gpu"
PREFIX = "cdi.k8s.io/"
MOUNT, SOURCE = "/opt/fuzz", "/usr/share"
ENV = "FUZZ=1"


# --- the contract ---


class Host:
    """The machine of the creates: one spec, and a directory for config.json."""

    def __init__(self, directory: Path) -> None:
        (directory / "cdi").mkdir()
        mount = {"hostPath": SOURCE, "containerPath": MOUNT, "options": ["ro", "bind"]}
        devices = [{"name": name, "containerEdits": {"env": [ENV], "mounts": [mount]}} for name in ("0", "1")]
        spec = {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices}
        (directory / "cdi/x.json").write_text(json.dumps(spec))
        settings = directory / "c.toml"
        settings.write_text(f'[cdi]\nspec-dirs = ["{directory}/cdi"]\n[sources]\npodman-annotations = "any"\n')
        self.environment = {b"SHIM_CONFIG": os.fsencode(settings)}
        self._config = directory / "config.json"
        words = ["low=/bin/true", "name=shim", "self=/x", "verb=create", "id=c", f"bundle={directory}", "--", "true"]
        self._call = Invocation(words)

    def decide(self, data: bytes) -> tuple[Decision, bytes]:
        """What create decides about a config.json, and what that becomes."""
        self._config.write_bytes(data)
        bundle = Bundle(self._call.config)
        decision = decide(Question(self._call, bundle, rootful=True), World())
        if decision.refusal or not decision.edits:
            return decision, data
        return decision, fastjson.dumps(changes.make(bundle.config, decision.edits)).encode()


def scan(data: bytes) -> bool:
    """Whether the launcher takes it for a create that may ask."""
    return bool(lib.asks(ffi.from_buffer(data), len(data), lib.built_in_needles, lib.BUILT_IN_NEEDLES))


def outcome(host: Host, data: bytes) -> str:
    """What create and runc make of an input, in a few words that are the same for inputs of a kind.

    Raises:
        AssertionError: they contradict each other.
    """
    decision, edited = host.decide(data)
    refused = str(decision.refusal.findings[0].id) if decision.refusal else ""
    assert refused != "INTERNAL", decision.refusal
    try:
        runc = golike.decode(data)
    except golike.RefusedError:
        assert not decision.edits or refused or data != edited
        return f"runc refuses it, shim: {refused or 'nothing'}"
    keys = {key: text for key, text in (runc.get("annotations") or {}).items() if key.startswith(PREFIX)}
    names = {name for text in keys.values() for name in text.split(",") if name}
    if keys:
        assert scan(data), f"the launcher passes the request on: {keys}"
        assert refused or names <= set(decision.requests), f"runc sees {keys}, shim {decision.requests}"
    if refused:
        assert scan(data), "a create in which nothing asks is refused"
        return f"refused: {refused}, {'asked' if keys else 'not asked for runc'}"
    assert set(decision.requests) <= names, f"shim sees {decision.requests}, runc {keys}"
    if not decision.requests:
        assert edited == data
        return f"nothing is given, {len(keys)} keys"
    check_edits(runc, golike.decode(edited))
    return f"given, {len(decision.requests)} devices"


def check_edits(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Assert that the device is all by which two configs differ for runc.

    As the reference library does: of variables of one name the last gives way, of mounts at one destination the first.
    """
    env = list((before.get("process") or {}).get("env") or ())
    name = ENV.partition("=")[0]
    places = [index for index, entry in enumerate(env) if entry.partition("=")[0] == name]
    if places:
        env[places[-1]] = ENV
    else:
        env.append(ENV)
    assert after["process"]["env"] == env, (after["process"]["env"], env)
    mounts = before.get("mounts") or []
    there = [mount for mount in mounts if mount.get("destination") == MOUNT]
    kept = [mount for mount in mounts if mount is not (there or [None])[0]]
    mounts = [*kept, {"destination": MOUNT, "source": SOURCE, "options": ["ro", "bind"]}]
    assert sorted(map(repr, after.get("mounts") or ())) == sorted(map(repr, mounts)), (after.get("mounts"), mounts)
    assert _rest(after) == _rest(before), (_rest(after), _rest(before))


def _rest(config: dict[str, Any]) -> Any:
    process = {name: value for name, value in (config.get("process") or {}).items() if name != "env"}
    rest = {name: value for name, value in config.items() if name not in ("process", "mounts")}
    return _without_empty({**rest, "process": process})


def _without_empty(value: Any) -> Any:
    """Without members of the value zero, which Go does not tell from missing ones."""
    if isinstance(value, dict):
        found = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in found.items() if item}
    return value


# --- spellings ---


class Text:
    """A part of JSON as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text


def _name(source: Random, name: str) -> Text:
    """A member's name, mostly as it is."""
    way = source.random()
    if way < 0.97:
        return Text(json.dumps(name))
    if way < 0.98:
        return Text(json.dumps("".join(source.choice((c.upper(), c)) for c in name)))
    if way < 0.99:
        other = {"s": "\u017f", "k": "\u212a", "S": "\u017f", "K": "\u212a"}
        changed = "".join(other.get(c, c) if source.random() < 0.5 else c for c in name)
        return Text(json.dumps(changed, ensure_ascii=source.random() < 0.5))
    at = source.randrange(len(name)) if name else 0
    return Text(f'"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"' if name else '""')


Members = list[tuple[str, Callable[[Random], str]]]


def _object(source: Random, members: Members) -> str:
    """An object with some of these members, some of them twice."""
    chosen = [member for member in members if source.random() < 0.75]
    if source.random() < 0.05 and members:
        chosen.insert(source.randrange(len(chosen) + 1), source.choice(members))
    return "{" + ",".join(f"{_name(source, name).text}:{value(source)}" for name, value in chosen) + "}"


def _or_odd(source: Random, text: str) -> str:
    """A value, seldom null or one of another type."""
    return source.choice(("null", "null", "null", "[]", "{}", '""', "0")) if source.random() < 0.015 else text


def _annotations(source: Random) -> str:
    keys = (
        "cdi.k8s.io/x",
        "cdi.k8s.io/y",
        "cdi.k8s.io/",
        "a.example/z",
        "Cdi.k8s.io/x",
        "CDI.K8S.IO/x",
        "cdi.\u212a8s.io/x",
    )
    values = (f"{KIND}=0", f"{KIND}=1", f"{KIND}=0,{KIND}=1", f"{KIND}=9", "", "none", "é\\ud800")
    pairs = []
    for _ in range(source.choice((0, 1, 1, 1, 2, 3))):
        key = json.dumps(source.choice(keys), ensure_ascii=source.random() < 0.5)
        if source.random() < 0.1:
            key = key.replace("cdi", "\\u0063di").replace("/", source.choice(("/", "\\/", "\\u002f")))
        pairs.append(f"{key}:{_or_odd(source, chr(34) + source.choice(values) + chr(34))}")
    return _or_odd(source, "{" + ",".join(pairs) + "}")


def _texts(*choices: str) -> Callable[[Random], str]:
    return lambda source: _or_odd(source, json.dumps([source.choice(choices) for _ in range(source.choice((0, 1, 2)))]))


def _one_of(*choices: Any) -> Callable[[Random], str]:
    return lambda source: _or_odd(source, json.dumps(source.choice(choices)))


def _struct(*members: tuple[str, Callable[[Random], str]]) -> Callable[[Random], str]:
    return lambda source: _or_odd(source, _object(source, list(members)))


def _array(item: Callable[[Random], str]) -> Callable[[Random], str]:
    return lambda source: _or_odd(source, "[" + ",".join(item(source) for _ in range(source.choice((0, 1, 2)))) + "]")


_CONFIG: Members = [
    ("ociVersion", _one_of("1.0.2")),
    ("annotations", _annotations),
    (
        "process",
        _struct(
            ("env", _texts("PATH=/bin", "A=1", "FUZZ=0", "NVIDIA_VISIBLE_DEVICES=all")),
            ("cwd", _one_of("/", "/x")),
            ("args", _texts("sh")),
            ("user", _struct(("uid", _one_of(0, 5)), ("gid", _one_of(0)), ("additionalGids", _one_of([], [7])))),
        ),
    ),
    ("root", _struct(("path", _one_of("rootfs", "other")), ("readonly", _one_of(True, False)))),
    (
        "mounts",
        _array(
            _struct(
                ("destination", _one_of("/proc", "/opt/fuzz", "/data", "/data/x")),
                ("source", _one_of("proc", "/srv")),
                ("type", _one_of("proc", "bind", "")),
                ("options", _texts("ro", "bind")),
            )
        ),
    ),
    (
        "linux",
        _struct(("namespaces", _array(_struct(("type", _one_of("mount", "pid"))))), ("mountLabel", _one_of("l"))),
    ),
    ("hostname", _one_of("h", "cdi.k8s.io/x")),
]


def _spelling(source: Random) -> bytes:
    data = _object(source, _CONFIG).encode("utf-8", "surrogatepass")
    way = source.random()
    if way < 0.03:
        return data + source.choice((b" ", b"x", b'{"annotations":{"cdi.k8s.io/x":"acme.example/gpu=0"}}'))
    if way < 0.06:
        at = source.randrange(len(data))
        return data[:at] + source.choice((b"\xff", b"\xc3", b"\x00", b"\xef\xbb\xbf")) + data[at:]
    if way < 0.09:
        at = source.randrange(len(data))
        return data[:at] + data[at + source.choice((1, 2, 8)) :]
    return data


def _damaged(source: Random, data: bytes) -> bytes:
    at = source.randrange(len(data) + 1)
    part = data[at : at + source.choice((1, 4, 20))]
    return (
        data[:at] + source.choice((b"", part * 2, source.choice((b"S", b"K", b",", b'"', b"\\u006b")))) + data[at + 1 :]
    )


def inputs(seed: int, pool: list[bytes]) -> Iterator[bytes]:
    """Inputs without end."""
    source = Random(seed)
    while True:
        yield _damaged(source, source.choice(pool)) if source.random() < 0.2 else _spelling(source)


# --- the run ---


def run(seed: int, pool: list[bytes], go_on: Callable[[], bool], crashes: Path) -> collections.Counter[str]:
    """Decide about inputs as long as `go_on` says; how often each outcome came.

    Raises:
        Exception: create and runc contradict each other; the input lies in `crashes`.
    """
    tally: collections.Counter[str] = collections.Counter()
    before = dict(posix.environ)
    with tempfile.TemporaryDirectory(prefix="shim-fuzz-", dir="/var/lib") as directory:
        host = Host(Path(directory))
        posix.environ.update(host.environment)
        try:
            for number, data in enumerate(itertools.chain(pool, inputs(seed, pool))):
                if number >= len(pool) and not go_on():
                    break
                with command.kept("spellings", data, crashes):
                    tally[outcome(host, data)] += 1
        finally:
            posix.environ.clear()
            posix.environ.update(before)
    return tally


def main() -> int:
    """Replay files, or fuzz with the files of a directory to begin with."""
    return command.main("spellings", "Spellings of config.json.", lambda *given: command.lines(run(*given)))


if __name__ == "__main__":
    raise SystemExit(main())
