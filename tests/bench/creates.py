"""What a create costs, up to the start of the low-level runtime, which is T here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bench import specs
from bench.clock import SHIM, spawn

CONFIG = {
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
    Path("/etc/cdi/gpu.yaml").write_text(specs.gpus(8, "bench.example/gpu"))
    Path("/etc/cdi/many.yaml").write_text(specs.many(1000, "bench.example/many"))
    return {
        "pass-through (state)": lambda: spawn(SHIM, "--root", "/run/x", "state", "id"),
        "create, nothing asked": create("nothing"),
        "create, one of 8 GPUs": create("gpus", "bench.example/gpu=3"),
        "create, one of 1000": create("many", "bench.example/many=d700"),
    }
