"""`make bench`: what shim costs, as ratios within one run.

T is a static program that returns at once, P is `python3 -I -S -c pass`; both are timed between the commands that are
compared with them, so that a slow machine is slow for all. A figure is the median over many rounds, and beside it the
range in which eight of ten rounds lie. `--write ../docs` renews docs/benchmarks.md. Everything runs in a private
mount namespace, with /etc/shim, /etc/cdi, /run/shim and /var/log of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import containers, creates, discover, engines, gate, hooks, library, many, report
from bench.clock import compare, measure, show, spawn

GROUPS = ["create", "library", "many", "hooks", "containers", "engines", "discover", "gate"]


def private_system(directory: Path) -> None:
    """An /etc, a /run and a /var/log of our own, in this mount namespace only: the machine's stay as they are."""
    upper, work = directory / "upper", directory / "work"
    upper.mkdir()
    work.mkdir()
    layers = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", "/etc"], check=True)
    for path in ("/run", "/var/log"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", path], check=True)


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
    parser.add_argument(
        "--write", type=Path, metavar="DIRECTORY", help="put the figures into its benchmarks.md and .svg"
    )
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
        Path("/etc/shim/low-level").mkdir(parents=True, exist_ok=True)
        Path("/etc/shim/low-level/shim").symlink_to(t)
        units = {
            "T": lambda: spawn(t),
            "P": lambda: spawn(sys.executable, "-I", "-S", "-c", "pass"),
        }
        found: dict[str, list[report.Row]] = {}
        taken = measure({**units, **(creates.creates(directory) if "create" in wanted else {})}, options.rounds)
        if "library" in wanted:
            taken.update(library.library(max(5, options.rounds // 10)))
        show(taken)
        found["a call, until the low-level runtime is executed"] = report.rows(taken, [])
        if "many" in wanted:
            taken = measure(units, options.rounds)
            taken.update(many.many(directory, max(3, options.rounds // 20)))
            show(taken)
            found["one of several creates at once, a spec being rewritten"] = report.rows(taken, [])
        for title, group, rounds in (
            ("hooks, each a whole process", hooks, options.rounds // 4),
            ("a container with runc: create, start, delete", containers, options.rounds // 4),
            ("a container by an engine's client", engines, options.rounds // 10),
            ("a Docker API behind the gate", gate, options.rounds // 5),
            ("specs of a host, `shim cdi generate` as a whole process", discover, options.rounds // 4),
        ):
            if group.__name__.rpartition(".")[2] in wanted:
                with group.commands(directory) as commands:
                    taken = measure({**units, **commands}, max(5, rounds))
                show(taken)
                compare(taken, group.COMPARED)
                found[title] = report.rows(taken, group.COMPARED)
        if options.write:
            words = [f"--rounds {options.rounds}", *options.groups]
            command = f"make bench BENCH='{' '.join(words)}'"
            report.write(options.write, {title: rows for title, rows in found.items() if rows}, command)


if __name__ == "__main__":
    main()
