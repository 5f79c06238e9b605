"""`make bench`: what shim costs, as ratios within one run.

T is a static program that returns at once, P is `python3 -I -S -c pass`; both are timed between the commands that are
compared with them, so that a slow machine is slow for all. A figure is the median over many rounds, and the smallest
beside it. Everything runs in a private mount namespace, with /etc/shim, /etc/cdi and /run/shim of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import specs

if TYPE_CHECKING:
    from collections.abc import Callable

SHIM = str(Path(sys.executable).parent / "shim")
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


def spawn(*command: str) -> float:
    """Seconds that a command takes from spawn to exit; it must succeed."""
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ)
    _, status = os.waitpid(child, 0)
    took = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return took


def private_system(directory: Path) -> None:
    """An /etc and a /run of our own, in this mount namespace only: the machine's stay as they are."""
    upper, work = directory / "upper", directory / "work"
    upper.mkdir()
    work.mkdir()
    layers = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", "/etc"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run"], check=True)


def build_t(directory: Path) -> str:
    """T: a static program that returns at once."""
    source = directory / "t.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-O2", "-static", "-o", directory / "t", source], check=True)
    return str(directory / "t")


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
    Path("/etc/cdi/gpu.yaml").write_text(specs.gpus(8, "bench.example/gpu"))
    Path("/etc/cdi/many.yaml").write_text(specs.many(1000, "bench.example/many"))
    return {
        "pass-through (state)": lambda: spawn(SHIM, "--root", "/run/x", "state", "id"),
        "create, nothing asked": create("nothing"),
        "create, one of 8 GPUs": create("gpus", "bench.example/gpu=3"),
        "create, one of 1000": create("many", "bench.example/many=d700"),
    }


def measure(commands: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Time all commands in turn, round by round, after one round that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, run in commands.items():
            took = run()
            if number:
                taken[name].append(took)
    return taken


def library(rounds: int) -> dict[str, list[float]]:
    """Open the directory and inject one device, in this process: the library alone, its modules loaded."""
    from shim import cdi

    taken: dict[str, list[float]] = {}
    for name, text, device in (
        ("library: load + inject, 8 GPUs (YAML)", specs.gpus(8, "bench.example/gpu"), "bench.example/gpu=3"),
        ("library: load + inject, 1000 (YAML)", specs.many(1000, "bench.example/many"), "bench.example/many=d700"),
        (
            "library: load + inject, 1000 (JSON)",
            specs.as_json(specs.many(1000, "bench.example/many")),
            "bench.example/many=d700",
        ),
    ):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "x.json" if text.startswith("{") else "x.yaml").write_text(text)
            for number in range(rounds + 1):
                gc.collect()
                start = time.perf_counter()
                cdi.apply(cdi.make_plan([device], cdi.open((directory,))), CONFIG)
                if number:
                    taken.setdefault(name, []).append(time.perf_counter() - start)
    return taken


def show(taken: dict[str, list[float]]) -> None:
    """One line a figure: milliseconds, and ratios of medians (and of minima) to T and to P."""

    def of(name: str, by: str) -> str:
        medians = statistics.median(taken[name]) / statistics.median(taken[by])
        return f"{medians:7.2f} ({min(taken[name]) / min(taken[by]):.2f})"

    print(f"{'':44} {'ms':>7} {'to T (min)':>15} {'to P (min)':>15}")
    for name, times in taken.items():
        print(f"{name:44} {statistics.median(times) * 1000:7.2f} {of(name, 'T'):>15} {of(name, 'P'):>15}")


def main() -> None:
    """Measure in a private mount namespace."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-m", "bench", *sys.argv[1:], "--inside"])
    with tempfile.TemporaryDirectory(prefix="shim-bench-") as name:
        directory = Path(name)
        private_system(directory)
        t = build_t(directory)
        Path("/etc/shim/low-level").mkdir(parents=True)
        Path("/etc/shim/low-level/shim").symlink_to(t)
        commands = {
            "T": lambda: spawn(t),
            "P": lambda: spawn(sys.executable, "-I", "-S", "-c", "pass"),
            **creates(directory),
        }
        taken = measure(commands, options.rounds)
        taken.update(library(max(5, options.rounds // 10)))
        show(taken)


if __name__ == "__main__":
    main()
