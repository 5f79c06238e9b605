"""A hundred files that a spec directory should never hold, made below a directory.

`texts` are contents, each to be refused; `make` adds what is no file at all. Whoever reads a directory of these beside
good specs must neither fall, nor wait, nor serve less than the good specs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

GOOD = b"cdiVersion: 0.6.0\nkind: %b\ndevices:\n- name: d\n  containerEdits: {env: [A=1]}\n"
_HEAD = b"cdiVersion: 1.1.0\nkind: bad.example/x\ndevices:\n- name: d\n  containerEdits:\n    env: [A=1]\n"
_MIB = 1 << 20


def _device(edits: bytes) -> bytes:
    return b"cdiVersion: 1.1.0\nkind: bad.example/x\ndevices:\n- name: d\n  containerEdits: " + edits + b"\n"


def _json(edits: bytes) -> bytes:
    device = b'{"name":"d","containerEdits":' + edits + b"}"
    return b'{"cdiVersion":"1.1.0","kind":"bad.example/x","devices":[' + device + b"]}"


def _laughs(start: bytes, join: bytes) -> bytes:
    lines = [b"a: &a " + start]
    for number in range(1, 30):
        one, other = b"%d" % (number - 1) if number > 1 else b"", b"%d" % number
        alias = b"*a" + one
        lines.append(b"b%b: &a%b %b" % (other, other, join % b", ".join([alias] * 10)))
    return b"\n".join(lines) + b"\n" + _HEAD


def _indented(depth: int) -> bytes:
    return b"".join(b" " * level + b"a:\n" for level in range(depth))


def texts() -> dict[str, bytes]:
    """Name -> content; every one must be refused, in a .yaml as in a .json file."""
    found = {
        "empty": b"",
        "spaces": b"  \n \n",
        "comment": b"# nothing\n",
        "null": b"null\n",
        "document-marks": b"---\n...\n---\n",
        "byte-order-mark": b"\xef\xbb\xbf",
        "nuls": b"\0" * 4096,
        "nul-inside": GOOD % b"bad.example/x" + b"\0",
        "escape": b"\x1b[2J" + _HEAD,
        "not-utf8": b"cdiVersion: \xff\xfe\xfd\n",
        "latin1": "cdiVersion: é\n".encode("latin-1"),
        "half-utf16": b"\xff\xfe" + b"a",
        "utf16-without-mark": (GOOD % b"bad.example/x").decode().encode("utf-16-le"),
        "random": bytes(range(256)) * 64,
        "elf": b"\x7fELF" + b"\2\1\1" + b"\0" * 100,
        "list": b"- a\n- b\n",
        "text": b"hello\n",
        "number": b"42\n",
        "open-brace": b"{",
        "open-bracket": b'{"devices": [',
        "open-quote": b'cdiVersion: "1.1.0\n',
        "tab": b"cdiVersion: 1.1.0\n\tkind: a/b\n",
        "merge-conflict": b"<<<<<<< HEAD\n" + _HEAD,
        "unknown-alias": b"cdiVersion: *nobody\n",
        "self-reference": b"&a {cdiVersion: 1.1.0, kind: bad.example/x, devices: *a}\n",
        "self-list": b"cdiVersion: 1.1.0\nkind: bad.example/x\ndevices: &d [*d]\n",
        "merge-itself": b"&a\n<<: *a\ncdiVersion: 1.1.0\n",
        "laughs-list": _laughs(b"[x, x]", b"[%b]"),
        "laughs-map": _laughs(b"{x: 1}", b"{k: [%b]}"),
        "laughs-env": _device(b"{env: [A=1]}").replace(b"[A=1]", b"&e [" + b", ".join([b"A=1"] * 9) + b"]")
        + b"".join(b"x%d: &x%d [*e, *e, *e, *e, *e, *e, *e, *e]\n" % (n, n) for n in range(9)),
        "many-aliases": b"a: &a [" + b"x, " * 5000 + b"]\nb: [" + b"*a, " * 5000 + b"]\n",
        "many-anchors": b"".join(b"- &a%d x\n" % n for n in range(20000)),
        "python-object": b"cdiVersion: !!python/object/apply:os.system ['touch /tmp/pwned']\n",
        "python-name": b"!!python/name:os.system\n",
        "yaml-9": b"%YAML 9.9\n---\n" + _HEAD,
        "bad-binary": b"cdiVersion: !!binary '#'\n",
        "bad-float": b"cdiVersion: 1.1.0\nkind: !!float abc\n",
        "bad-date": b"cdiVersion: 2001-99-99\n",
        "set": b"!!set {a, b}\n",
        "deep-brackets": b"[" * 100_000,
        "deep-braces": b'{"a":' * 100_000,
        "deep-closed": b"[" * 100_000 + b"]" * 100_000,
        "deep-flow": _device(b"{env: " + b"[" * 5000 + b"]" * 5000 + b"}"),
        "deep-indentation": _indented(1500),
        "deep-dashes": b"- " * 20_000 + b"a\n",
        "deep-questions": b"? " * 20_000 + b"a\n",
        "long-line": b"x" * _MIB,
        "long-key": b"k" * (2 * _MIB) + b": 1\n",
        "long-string": b'{"cdiVersion": "' + b"1" * (2 * _MIB) + b'"}',
        "many-commas": b"[" + b"," * 100_000 + b"]",
        "many-empty-lists": b"[" + b"[]," * 50_000 + b"]",
        "five-mib": _HEAD + b"#" * (5 * _MIB),
        "long-integer": _json(b'{"deviceNodes":[{"path":"/dev/x","major":' + b"9" * 6000 + b"}]}"),
        "long-exponent": _json(b'{"deviceNodes":[{"path":"/dev/x","major":1e999999999}]}'),
        "infinity": _json(b'{"deviceNodes":[{"path":"/dev/x","major":Infinity}]}'),
        "not-a-number": _json(b'{"additionalGids":[NaN]}'),
        "negative-gid": _json(b'{"additionalGids":[-1]}'),
        "surrogate": _json(b'{"env":["A=\\ud800"]}'),
        "escaped-slash": _json(b'{"env":["A=\\/"]}'),
        "behind-json": _json(b'{"env":["A=1"]}') [:-1] + b',}}}',
        "duplicate-key": _HEAD + b"kind: bad.example/y\n",
        "duplicate-json-key": b'{"kind":"bad.example/x",' + _json(b'{"env":["A=1"]}')[1:],
        "unknown-field": _HEAD + b"extra: 1\n",
        "list-key": b"[a, b]: 1\n",
        "null-key": b"~: 1\n" + _HEAD,
        "no-version": GOOD.replace(b"cdiVersion: 0.6.0\n", b"") % b"bad.example/x",
        "unknown-version": GOOD.replace(b"0.6.0", b"9.9.9") % b"bad.example/x",
        "version-list": GOOD.replace(b"0.6.0", b"[0, 6]") % b"bad.example/x",
        "no-kind": b"cdiVersion: 0.6.0\ndevices: []\n",
        "no-devices": b"cdiVersion: 0.6.0\nkind: bad.example/x\ndevices: []\n",
        "devices-null": b"cdiVersion: 0.6.0\nkind: bad.example/x\ndevices: [null]\n",
        "devices-text": b"cdiVersion: 0.6.0\nkind: bad.example/x\ndevices: all\n",
        "devices-map": b"cdiVersion: 0.6.0\nkind: bad.example/x\ndevices: {d: {}}\n",
        "device-twice": GOOD % b"bad.example/x" + b"- name: d\n  containerEdits: {env: [A=1]}\n",
        "device-name": GOOD.replace(b"name: d", b"name: ../d") % b"bad.example/x",
        "device-newline": GOOD.replace(b"name: d", b'name: "d\\n"') % b"bad.example/x",
        "no-edits": _device(b"{}"),
        "edits-null": _device(b"null"),
        "edits-list": _device(b"[]"),
        "env-without-equals": _device(b"{env: [A]}"),
        "env-null": _device(b"{env: [null]}"),
        "hook-name": _device(b"{hooks: [{hookName: atLunch, path: /x}]}"),
        "permissions": _device(b"{deviceNodes: [{path: /dev/x, permissions: all}]}"),
        "closid": _device(b"{intelRdt: {closID: ..}}"),
    }  # fmt: skip
    for kind in (b"", b"a", b"/", b"a/", b"/b", b"1/b", b"a/-", b"a//b", b"a b/c", b"../b", "é/b".encode(), b"a/b="):
        found[f"kind-{len(found)}"] = GOOD % (b'"' + kind + b'"')
    for member in (b"deviceNodes", b"hooks", b"mounts", b"netDevices"):
        found[f"null-{member.decode()}"] = _device(b"{" + member + b": [null]}")
        found[f"null-{member.decode()}-spec"] = _HEAD + b"containerEdits: {" + member + b": [null]}\n"
        found[f"null-{member.decode()}-json"] = _json(b'{"' + member + b'":[null]}')
    return found


def make(directory: Path) -> list[Path]:
    """Make all of it; returns the paths that must be refused (sub-directories are made too, but are no files)."""
    refused = []
    for name, content in texts().items():
        for suffix in (".yaml", ".json"):
            path = directory / f"{name}{suffix}"
            path.write_bytes(content)
            refused.append(path)
    for name, target in {
        "dangling": "gone",
        "loop": "loop.yaml",
        "ping": "pong.yaml",
        "pong": "ping.yaml",
        "to-directory": ".",
        "to-root": "/",
        "to-pipe": "pipe.yaml",
        "to-zero": "/dev/zero",
        "to-full": "/dev/full",
        "to-null": "/dev/null",
        "to-memory": "/proc/self/mem",
        "to-itself": "/proc/self/exe",
        "below-a-file": "empty.yaml/x",
        "long-target": "x" * 4000,
    }.items():
        path = directory / f"{name}.yaml"
        path.symlink_to(target)
        refused.append(path)
    refused += [directory / "pipe.yaml", directory / "socket.yaml", directory / f"{'n' * 250}.yaml"]
    os.mkfifo(directory / "pipe.yaml")
    os.mknod(directory / "socket.yaml", stat.S_IFSOCK | 0o666)
    refused[-1].write_bytes(b"{")
    odd = Path(os.fsdecode(bytes(directory) + b"/\xff\n\x1b.yaml"))
    odd.write_bytes(b"{")
    locked = directory / "locked.yaml"
    locked.write_bytes(GOOD % b"bad.example/x")
    locked.chmod(0)
    for name, size in (("fifty-mib", 50 * _MIB), ("one-tib", 1 << 40)):
        with (directory / f"{name}.yaml").open("wb") as file:
            file.write(GOOD % b"bad.example/x" + b"#" * _MIB)
            file.truncate(size)
        refused.append(directory / f"{name}.yaml")
    (directory / "directory.yaml").mkdir()
    (directory / "directory.yaml" / "inner.yaml").write_bytes(GOOD % b"bad.example/x")
    return [*refused, odd, locked]


def make_good(directory: Path) -> list[str]:
    """Specs between them, in the order of names first, amid and last; returns the devices they serve."""
    kinds = {"!first.yaml": "good.example/first", "m.json": "a/b", "~last.yaml": "good.example/last"}
    for name, kind in kinds.items():
        (directory / name).write_bytes(GOOD % kind.encode())
    return sorted(f"{kind}=d" for kind in kinds.values())
