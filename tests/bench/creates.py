"""What a create costs, up to the start of the low-level runtime, which is T here."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import specs
from bench.clock import SHIM, spawn
from shim.cdi import directories
from shim.grants.store import Store

CONFIG: dict[str, Any] = {
    "ociVersion": "1.0.2",
    "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/usr/bin:/bin", "TERM=xterm"], "cwd": "/"},
    "root": {"path": "rootfs"},
    "mounts": [
        {"destination": f"/mnt/{n}", "type": "bind", "source": "/tmp", "options": ["rbind", "rprivate"]}
        for n in range(12)
    ],
    "linux": {
        "seccomp": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [{"names": [f"call{n}" for n in range(350)], "action": "SCMP_ACT_ALLOW"}],
        },
        "namespaces": [{"type": "pid"}, {"type": "mount"}],
    },
}


KIND, MANY = "bench.example/gpu", "bench.example/many"
# The variables of an image for GPUs
IMAGE = {**CONFIG["process"], "env": [*CONFIG["process"]["env"], "NVIDIA_VISIBLE_DEVICES=all"]}


# What an engine allows every container: without a denial of the rest each create is judged in Python
RULES = [
    {"allow": False, "access": "rwm"},
    *({"allow": True, "type": "c", "major": 1, "minor": minor, "access": "rwm"} for minor in (3, 5, 7, 8, 9)),
    {"allow": True, "type": "c", "major": 136, "access": "rwm"},
]
ENFORCED = {**CONFIG, "linux": {**CONFIG["linux"], "resources": {"devices": RULES}}}
SETTINGS = Path("/etc/shim/bench.toml")


def make_bundle(directory: Path, name: str, device: str = "") -> str:
    """A bundle of the usual size (some 9 kB with seccomp); its directory."""
    bundle = directory / name
    bundle.mkdir()
    config = {**CONFIG, "annotations": {"cdi.k8s.io/bench": device}} if device else CONFIG
    (bundle / "config.json").write_text(json.dumps(config))
    return str(bundle)


def creates(directory: Path) -> dict[str, Callable[[], float]]:
    """The commands to time, by what they show. Bundles that are edited are put back before each run."""

    def create(name: str, device: str = "") -> Callable[[], float]:
        bundle = make_bundle(directory, name, device)
        original = Path(bundle, "config.json").read_bytes()

        def run() -> float:
            Path(bundle, "config.json").write_bytes(original)
            return spawn(SHIM, "--root", "/run/x", "create", "--bundle", bundle, "id")

        return run

    Path("/etc/cdi").mkdir(exist_ok=True)
    specs.make_libraries()
    for name, text in (("gpu", specs.gpus(8, KIND)), ("many", specs.many(1000, MANY))):
        Path(f"/etc/cdi/{name}.yaml").write_text(text)
        specs.make_nodes(text)
    return {
        "exec into a container with a record": execute(directory),
        "update of a container with a record": update(directory),
        "pass-through (state)": lambda: spawn(SHIM, "--root", "/run/x", "state", "id"),
        "create, nothing asked": create("nothing"),
        "create, one of 8 GPUs, repeated": asking(directory, "repeated", itertools.repeat(f"{KIND}=3")),
        "create, nothing asked, grants enforced": enforced(directory, "nothing-enforced", {}),
        "create, one of 8 GPUs, repeated, grants enforced": enforced(
            directory, "repeated-enforced", {"cdi.k8s.io/bench": f"{KIND}=3"}
        ),
        "create, one of 8 GPUs, a new question": asking(directory, "new", combinations()),
        "create, one of 1000, repeated": asking(directory, "many", itertools.repeat(f"{MANY}=d700")),
        "create, one of 1000, a new question": asking(directory, "new-many", (f"{MANY}=d{n}" for n in range(1000))),
    }


def combinations() -> Iterator[str]:
    """Requests that no create has made before: two GPUs and more, in all combinations."""
    for count in range(2, 8):
        for chosen in itertools.combinations(range(8), count):
            yield ",".join(f"{KIND}={number}" for number in chosen)


def asking(directory: Path, name: str, requests: Iterator[str]) -> Callable[[], float]:
    """A create of a new container, whose annotation has a key of its own each time, as of a device plugin."""
    bundle = Path(make_bundle(directory, name))
    numbers = itertools.count()

    def run() -> float:
        number = next(numbers)
        annotations = {f"cdi.k8s.io/bench_{number:08x}": next(requests)}
        (bundle / "config.json").write_text(json.dumps({**CONFIG, "process": IMAGE, "annotations": annotations}))
        return spawn(SHIM, "--root", "/run/x", "create", "--bundle", str(bundle), f"{name}{number}")

    return run


def enforced(directory: Path, name: str, annotations: dict[str, str]) -> Callable[[], float]:
    """A create on a machine where grants are enforced, and one GPU is granted."""
    bundle = Path(make_bundle(directory, name))
    text = json.dumps({**ENFORCED, "process": IMAGE, "annotations": annotations})
    numbers = itertools.count()
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text('[grants]\nenforce = true\ndefault-subject = "bench"\n')
    Store().add("bench", [f"{KIND}=3"], lambda: directories.read(["/etc/cdi"]))
    environment = {**os.environ, "SHIM_CONFIG": str(SETTINGS)}

    def run() -> float:
        (bundle / "config.json").write_text(text)
        words = ("--root", "/run/x", "create", "--bundle", str(bundle), f"{name}{next(numbers)}")
        return spawn(SHIM, *words, env=environment)

    return run


def execute(directory: Path) -> Callable[[], float]:
    """An exec of a container that was created with a device, so that its record says what to set."""
    process = json.dumps({"user": {"uid": 0, "gid": 0}, "args": ["true"], "env": ["PATH=/bin"], "cwd": "/"})
    return _later(directory, "exec", "--process", process, "NVIDIA_VISIBLE_DEVICES=void")


def update(directory: Path) -> Callable[[], float]:
    """An update of such a container's resources, with the device rules that an engine knows."""
    rules = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}]
    resources = json.dumps({"cpu": {"cpus": "0-1"}, "devices": rules})
    return _later(directory, "update", "--resources", resources, '"major":195')


def _later(directory: Path, verb: str, option: str, text: str, wanted: str) -> Callable[[], float]:
    """A call with a file, which is put back before each run, and must hold `wanted` behind it."""
    bundle = Path(make_bundle(directory, verb, f"{KIND}=3"))
    file = directory / f"{verb}.json"
    created = False

    def run() -> float:
        nonlocal created
        if not created:
            spawn(SHIM, "--root", "/run/x", "create", "--bundle", str(bundle), verb)
            created = True
        file.write_text(text)
        took = spawn(SHIM, "--root", "/run/x", verb, option, str(file), verb)
        if wanted not in file.read_text():
            raise SystemExit(f"{verb} did not set what the device needs")
        return took

    return run
