"""The injections of tests/conformance/vectors/inject.json, each as a create of a bundle with `--device`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .scenes import LOGS, LOW_LEVEL, config, create, dump, program, text

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
FILE = Path(__file__).parent.parent / "conformance/vectors/inject.json"
DIRECTORY = "/v"  # in place of the vectors' {DIR}
NODES = [
    {"path": "/dev/fuse", "node": "c 10 229", "mode": "666"},
    {"path": "/dev/loop0", "node": "b 7 0", "mode": "660"},
    {"path": "/dev/kmsg", "node": "c 1 11"},
]


def _file(entry: Json) -> Json:
    path = f"{DIRECTORY}/{entry['path']}"
    mode = {"mode": entry["mode"]} if "mode" in entry else {}
    kind = entry.get("type", "file")
    if kind == "file":
        return {"path": path, "text": entry.get("content", "").replace("{DIR}", DIRECTORY), **mode}
    if kind == "symlink":
        return {"path": path, "link": entry["target"].replace("{DIR}", DIRECTORY)}
    if kind in ("char", "block"):
        return {"path": path, "node": f"{kind[0]} {entry['major']} {entry['minor']}", **mode}
    return {"path": path, **({"directory": True} if kind == "dir" else {"special": kind}), **mode}


def cases() -> Iterator[Json]:
    """All of them."""
    for vector in json.loads(FILE.read_text())["cases"]:
        given = json.loads(json.dumps(vector["input"]).replace("{DIR}", DIRECTORY))
        settings = text("/etc/shim/config.toml", f"[cdi]\nspec-dirs = {json.dumps(given['dirs'])}\n")
        hooks = dict.fromkeys(
            re.findall(r'"(/usr/bin/[^"]+)"', "".join(e.get("content", "") for e in given["entries"]))
        )
        files = [LOGS, LOW_LEVEL, *NODES, settings, config(dump(given["config"]))]
        files += [*map(program, hooks), *map(_file, vector["input"]["entries"])]
        yield {"id": f"vectors/{vector['id']}", "files": files, "steps": [create(*given["devices"])]}
