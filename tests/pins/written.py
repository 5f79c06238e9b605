"""What 6022cb0 left on a machine, found by a later build: records of containers, and those of engines' configuration.

The files are the results of other families, so those are made first, and index.json: an index and needles, as 6022cb0
wrote them for the machine of _index(). Inode numbers and times are filled in where they are placed (machine.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import lives, store
from .commands import step
from .scenes import DRIVER, LOGS, LOW_LEVEL, config, create, spec, text

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
_TIME = "1796073994583121343"  # for "<time>", which pins.normal writes; anyone is as good
INDEX = Path(__file__).parent / "index.json"
NIC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/nic",
    "devices": [{"name": "0", "containerEdits": {"env": ["NIC=0"]}}],
}
SPECS = [spec("/etc/cdi/acme.json", lives.SPEC), spec("/var/run/cdi/nic.json", NIC)]
SETTINGS = text(
    "/etc/shim/config.toml",
    '[cdi]\ndefault-kind = "acme.example/gpu"\n[sources]\nenvironment = "any"\n'
    '[sources.variables]\nACME_VISIBLE_DEVICES = "acme.example/gpu"\n',
)
TREES = (
    "containerd kubeadm-1.6",
    "containerd conf-d-2.2",
    "containerd k3s-1.32",
    "crio default-1.28",
    "crio minikube",
    "docker debian-12",
    "docker gpu-host",
    "docker none",
    "podman fedora-42",
    "podman append",
)


def _stored(family: str, name: str) -> Json:
    return next(line for line in store.read(family) if line.get("id") == name)


def _mode(text: str) -> str:
    """`-rw-r--r--` as octal digits."""
    bits = [1 << place for place in range(8, -1, -1)]
    return f"{sum(bit for bit, letter in zip(bits, text[1:10], strict=True) if letter != '-'):o}"


def _left(made: Json) -> Iterator[Json]:
    """The files that a step left, as files to be placed."""
    for part, whole in made.items():
        head, _, content = whole.partition("\n")
        words = head.split()
        if part == "config":
            yield {"path": "/b/config.json", "text": content, "mode": _mode(words[0])}
        elif part == "record":
            place = f"/run/shim/c/{words[0]}"
            yield {"path": place, "text": content, "mode": _mode(words[1]), "identity": "/b/config.json"}
        elif part.startswith("file:") and "->" in words:
            yield {"path": part[5:], "link": words[-1]}
        elif part.startswith("file:") and words[0].startswith("d"):
            yield {"path": part[5:], "directory": True, "mode": _mode(words[0])}
        elif part.startswith("file:"):
            yield {"path": part[5:], "text": content.replace('"<time>"', _TIME), "mode": _mode(words[0])}


def _containers() -> Iterator[Json]:
    case = _stored("lives", "lives/exec")
    left = sorted(_left(case["made"]["create"]), key=lambda file: "identity" in file)  # config.json first
    files = [file for file in case["files"] if file["path"] != "/b/config.json"] + left
    update = _stored("lives", "lives/update")
    yield {"id": "written/exec", "files": files, "steps": [one for one in case["steps"] if one["name"] != "create"]}
    yield {"id": "written/update", "files": files, "steps": [one for one in update["steps"] if one["name"] != "create"]}
    explained = [step("table", "explain c1"), step("json", "explain c1 -o json")]
    yield {"id": "written/explain", "files": files, "steps": explained}
    again = [create(), lives.exec_step("exec after it", "PATH=/bin")]
    yield {"id": "written/create again", "files": files, "steps": again}
    more = [create("acme.example/gpu=1"), lives.exec_step("exec after it", "PATH=/bin", "MODE=image")]
    yield {"id": "written/create with one more", "files": files, "steps": more}


def _engines() -> Iterator[Json]:
    for tree in TREES:
        case = _stored("commands", f"commands/{tree}")
        left = list(_left(case["made"]["configure"]))
        files = [file for file in case["files"] if file["path"] not in {one["path"] for one in left}] + left
        option = f"--engine {tree.partition(' ')[0]}"
        steps = [
            step("verify", f"runtime verify {option} -o json"),
            step("configure again", f"runtime configure {option}"),
            step("remove", f"runtime remove {option}"),
            step("verify after", f"runtime verify {option}"),
        ]
        yield {"id": f"written/{tree}", "files": files, "steps": steps}


def _index() -> Iterator[Json]:
    """An index and needles that count: with what the specs say, with another word, and older than a spec."""
    found = json.loads(INDEX.read_text())
    index = {"path": "/run/shim/index", "text": "\n".join(found["index"]), "mode": "600", "inputs": "index"}
    needles = {"path": "/run/shim/needles", "text": "\n".join(found["needles"]), "mode": "600", "inputs": "needles"}
    asking = {**lives.BARE, "process": {**lives.PROCESS, "env": ["PATH=/bin", "ACME_VISIBLE_DEVICES=1"]}}
    steps = [
        create("acme.example/gpu=1", "acme.example/nic=0"),
        create("2", name="unknown", files=[config(lives.BARE)]),
        create(name="by variable", files=[config(asking)]),
        create(name="nothing asked", files=[config(lives.BARE)]),
    ]
    # another word of the same length: whether the index is what was read
    marked = {**index, "text": index["text"].replace("GPU=1", "GPU=X")}
    later = spec("/etc/cdi/acme.json", {**lives.SPEC, "devices": lives.SPEC["devices"][:1]})
    for name, files in {"right": [index], "marked": [marked], "stale": [index, later]}.items():
        yield {"world": [LOGS, LOW_LEVEL, *DRIVER, *SPECS, SETTINGS, needles, *files], "name": f"index {name}"}
        yield {"id": f"written/index {name}", "files": [config(lives.BARE)], "steps": steps}


def cases() -> Iterator[Json]:
    """All of them."""
    yield from _containers()
    yield from _engines()
    yield from _index()
