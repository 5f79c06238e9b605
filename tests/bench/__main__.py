"""`make bench`: what shim costs, as ratios within one run.

T is a static program that returns at once, P is `python3 -I -S -c pass`; both are timed between the commands that are
compared with them, so that a slow machine is slow for all. A figure is the median over many rounds, and the smallest
beside it. Everything runs in a private mount namespace, with /etc/shim, /etc/cdi and /run/shim of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import containers, creates, hooks, library
from bench.clock import compare, measure, show, spawn

GROUPS = ["create", "library", "hooks", "containers"]


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


def main() -> None:
    """Measure in a private mount namespace."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; without any: all")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not set(options.groups) <= set(GROUPS):
        parser.error(f"the groups are {', '.join(GROUPS)}")
    if not options.inside:
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-m", "bench", *sys.argv[1:], "--inside"])
    wanted = options.groups or GROUPS
    with tempfile.TemporaryDirectory(prefix="shim-bench-") as name:
        directory = Path(name)
        private_system(directory)
        t = build_t(directory)
        Path("/etc/shim/low-level").mkdir(parents=True)
        Path("/etc/shim/low-level/shim").symlink_to(t)
        units = {
            "T": lambda: spawn(t),
            "P": lambda: spawn(sys.executable, "-I", "-S", "-c", "pass"),
        }
        taken = measure({**units, **(creates.creates(directory) if "create" in wanted else {})}, options.rounds)
        if "library" in wanted:
            taken.update(library.library(max(5, options.rounds // 10)))
        show(taken)
        for group in (hooks, containers):
            if group.__name__.rpartition(".")[2] in wanted:
                with group.commands(directory) as commands:
                    taken = measure({**units, **commands}, max(5, options.rounds // 4))
                show(taken)
                compare(taken, group.COMPARED)


if __name__ == "__main__":
    main()
