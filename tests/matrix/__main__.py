"""`make test-matrix`: what needs no daemon, in roots of several distributions and on several Pythons; prints a table.

Each row has a root of its own with the wheel of the last commit, and the tests of that commit. `hot`, which a wheel has
for the Python that built it alone, is written anew by that of the row, as a build there would. Two Pythons of which
Debian has no package come from pyenv where they are. The Python of Debian 11 is refused; its `ldconfig` writes an older
format, with which nothing is compared.

The output of every row lies in build/matrix/. `--write FILE` renews the table between two marks of a document.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from matrix import roots
from matrix.roots import Machine

TOP = Path(__file__).parent.parent.parent
LOGS = TOP / "build/matrix"

# Headers for python-prctl, which is built, and the programs that tests start
TESTED = (
    *(
        "gcc",
        "libc6-dev",
        "libcap-dev",
        "python3-dev",
        "musl-tools",
        "make",
        "git",
        "curl",
        "procps",
        "strace",
        "iproute2",
    ),
    *("busybox-static", "runc", "crun", "containerd", "musl"),
)
CACHE = "tests/unit/native/test_ldcache.py"
PYENV = Path.home() / ".pyenv/versions"
REFUSED = "bullseye"  # its Python is too old
MARKS = ("<!-- matrix: begin -->\n", "<!-- matrix: end -->\n")
NOT_RUN = "Not run, since none of them could be had here: Ubuntu, RHEL 9, SLES, NixOS, Alpine."
HEAD = ("distribution", "glibc", "Python", "tests without a daemon", "`ld.so.cache` as its `ldconfig`", "`make run`")


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Arguments:
        name: of the distribution.
        suite: of Debian.
        python: the interpreter; a pattern below pyenv's directory for another than the distribution's.
        runs: whether `make run` is part of it.
    """

    name: str
    suite: str
    python: str = "/usr/bin/python3"
    runs: bool = False


ROWS = (
    Row("Debian 11", REFUSED),
    Row("Debian 12", "bookworm", "3.10.*/bin/python3"),
    Row("Debian 12", "bookworm", runs=True),
    Row("Debian 12", "bookworm", "3.12.*/bin/python3"),
    Row("Debian 13", "trixie", runs=True),
    Row("Debian sid", "sid"),
)


def source(machine: Machine) -> None:
    """Put the last commit into /src."""
    top = machine.upper / "src"
    top.mkdir()
    archive = subprocess.run(["git", "-C", TOP, "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-C", top, "-x"], input=archive, check=True)


def prepare(machine: Machine, python: str, wheel: Path) -> None:
    """An environment in /opt/shim with the wheel and what the tests need."""
    source(machine)
    machine.copy(wheel, f"/wheels/{wheel.name}")
    machine.ok(python, "-m", "venv", "/opt/shim")
    pip = ("/opt/shim/bin/python", "-m", "pip", "-q", "install")
    machine.ok(*pip, "--upgrade", "pip>=25.1", online=True)
    group = "/src/pyproject.toml:run-tests"
    machine.ok(*pip, f"/wheels/{wheel.name}[privileges]", "--group", group, online=True)
    (modules,) = (machine.upper / "opt/shim/lib").glob("python3.*/site-packages")
    place = f"/{modules.relative_to(machine.upper)}"
    hot = ("-X", "no_debug_ranges", "/src/packaging/hot.py", place, f"{place}/shim/hot")
    machine.ok("/opt/shim/bin/python", *hot)


def tested(machine: Machine, name: str, *paths: str) -> str:
    """Run tests; the words of pytest's last line, "failed" among them where some did."""
    words = (
        "/opt/shim/bin/pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not engine and not other_user",
    )
    script = '"$@" >/src/output 2>&1; exit $?'  # a file, so that a run that hangs can be looked at
    status = machine.run("sh", "-c", script, "sh", *words, *paths, cwd="/src").returncode
    printed = (machine.upper / "src/output").read_text(encoding="utf-8", errors="replace")
    (LOGS / f"{name}.log").write_text(printed, encoding="utf-8")
    counts = re.findall(r"(\d+) (passed|failed|errors?)\b", printed.rstrip().rpartition("\n")[2])
    return ", ".join(f"{count} {word}" for count, word in counts) or f"failed: status {status}"


def ran(suite: str) -> str:
    """`make run` in an empty root, where it installs all that it needs itself."""
    with Machine(roots.make(suite)) as machine:
        source(machine)
        machine.ok("apt-get", "install", "-y", "-qq", "--no-install-recommends", "make", online=True)
        done = machine.run("make", "run", online=True, cwd="/src")
    (LOGS / f"{suite}-make-run.log").write_text(done.stdout, encoding="utf-8")
    return "passes" if done.returncode == 0 else f"failed: status {done.returncode}"


def refused(suite: str) -> str:
    """What the Python of a distribution that is too old is refused with; "failed" where it is not."""
    with Machine(roots.make(suite)) as machine:
        machine.copy(TOP / "packaging/need.sh", "/src/packaging/need.sh")
        done = machine.run("env", "PYTHON=/usr/bin/python3", "/src/packaging/need.sh", "run")
        version = machine.ok("python3", "-c", "import platform; print(platform.python_version())").strip()
    words = f"Python 3.10 or later is needed, and /usr/bin/python3 is {version}"
    return f"{version}: refused" if done.returncode == 1 and words in done.stdout else f"{version}: failed"


def glibc(suite: str) -> str:
    """The version of a suite's C library."""
    with Machine(roots.make(suite)) as machine:
        return machine.ok("ldd", "--version").split("\n")[0].rpartition(" ")[2]


def measure(row: Row, wheel: Path) -> tuple[str, ...]:
    """The cells of a row."""
    if row.suite == REFUSED:
        return (row.name, glibc(row.suite), refused(row.suite), "", "", "")
    pyenv = next(iter(sorted(PYENV.glob(row.python))), None) if not row.python.startswith("/") else None
    if not pyenv and not row.python.startswith("/"):
        return (row.name, glibc(row.suite), row.python.partition(".*")[0], "not run: pyenv has none here", "", "")
    binds = {str(PYENV): str(PYENV)} if pyenv else {}
    tests = roots.make("bookworm", "tests", TESTED)
    if row.suite != "bookworm":  # the tests know what these versions answer
        binds |= {f"{tests}{path}": path for path in ("/usr/bin/containerd", "/usr/bin/crun", "/usr/sbin/runc")}
    with Machine(roots.make(row.suite, "tests", TESTED), binds) as machine:
        prepare(machine, str(pyenv or row.python), wheel)
        version = machine.ok("/opt/shim/bin/python", "-c", "import platform; print(platform.python_version())").strip()
        name = f"{row.suite}-{version}"
        units = [f"tests/unit/{path.name}" for path in sorted((TOP / "tests/unit").glob("*/")) if path.name != "native"]
        units = [path for path in units if not path.endswith("__pycache__")]
        cache = tested(machine, f"{name}-cache", CACHE)
        passed = tested(machine, name, "tests/conformance", *units)
    run = ran(row.suite) if row.runs else ""
    return (row.name, glibc(row.suite), version, passed, cache, run)


def table(cells: list[tuple[str, ...]]) -> str:
    """The table as Markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD), *cells]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + f"\n{NOT_RUN}\n"


def main() -> None:
    """Measure, print, and end with status 1 where something failed."""
    parser = argparse.ArgumentParser(prog="make test-matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--row", action="append", default=[], metavar="WORD", help="rows with this word alone")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this document")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it mounts and enters roots, which only root can do")
    LOGS.mkdir(parents=True, exist_ok=True)
    cells = []
    for row in ROWS:
        if not options.row or any(word in f"{row.name} {row.suite} {row.python}" for word in options.row):
            cells.append(measure(row, options.wheel))
            print(" | ".join(cells[-1]), flush=True)
    text = table(cells)
    (LOGS / "matrix.md").write_text(text, encoding="utf-8")
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        before, after = document.partition(MARKS[0])[0], document.partition(MARKS[1])[2]
        options.write.write_text(f"{before}{MARKS[0]}{text}{MARKS[1]}{after}", encoding="utf-8")
    print(f"\n{text}")
    if "failed" in text or "error" in text:
        sys.exit(f"something failed: the output lies in {LOGS}")


if __name__ == "__main__":
    main()
