"""`make test-matrix`: what needs no daemon, in roots of several distributions and on several Pythons; prints a table.

Each row has a root of its own with the wheel of the last commit, and the tests of that commit. `hot`, which a wheel has
for the Python that built it alone, is written anew by that of the row, as a build there would. Two Pythons of which
Debian has no package come from pyenv where they are. The Python of Debian 11 is refused; that its
glibc reads a cache of the hook is measured by older_glibc.py. Where musl is the only C library there is no Python: the
tests of the launcher and of the hooks are run, on a machine and in a container of that kind.

build/matrix/ has for each row a directory with all output, and a file with its result and the commit. The table has the
rows that were measured now, and the others as they were measured last. `--write FILE` renews it between two marks of a
document. A row that takes longer than LIMIT has failed; pytest prints the stack of a test that hangs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from matrix import older_glibc, roots
from matrix.roots import Machine

TOP = Path(__file__).parent.parent.parent
LOGS = TOP / "build/matrix"
LIMIT = 3600  # seconds for a row
HANGS = 600  # seconds for a test, then its stack is printed

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
NATIVE = "tests/unit/native"  # where the Python alone is another, the C parts are the same
ENGINES = (  # of Debian 12, and a library of crun that sid lacks
    *("/usr/bin/containerd", "/usr/bin/crun", "/usr/sbin/runc"),
    "/usr/lib/x86_64-linux-gnu/libyajl.so.2",
)
CACHE = f"{NATIVE}/test_ldcache.py"
TESTS = ("tests/conformance", "tests/unit")
PYENV = Path.home() / ".pyenv/versions"
REFUSED = "bullseye"  # its Python is too old
MUSL = "musl"
MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"
MUSL_TESTS = (
    "install/test_musl.py",
    "engines/test_fold.py::test_a_root_with_musl",
    "unit/native/test_hooks.py::test_musl_gets_its_list",
)
PYTEST = ("-q", "-o", f"faulthandler_timeout={HANGS}")
MEMORY = "src/.pytest_cache/v/cache/lastfailed"  # which tests failed, as pytest notes it
COUNT = r"(\d+) (passed|failed|skipped|errors?)\b"
MARKS = ("<!-- matrix: begin -->\n", "<!-- matrix: end -->\n")
NOT_RUN = "Not run, since none of them could be had here: Ubuntu, RHEL 9, SLES, NixOS, Alpine."
HEAD = (
    *("distribution", "C library", "Python", "tests without a daemon", "`ld.so.cache` as its `ldconfig`", "`make run`"),
    "commit",
)


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Arguments:
        name: of the distribution.
        suite: of Debian.
        python: the interpreter; a pattern below pyenv's directory for another than the distribution's.
        runs: whether `make run` is part of it.

    Attributes:
        key: the name of its directory and its file.
    """

    name: str
    suite: str
    python: str = "/usr/bin/python3"
    runs: bool = False

    @property
    def key(self) -> str:
        """The suite, with the version of another Python than the distribution's."""
        return self.suite if self.python.startswith("/") else f"{self.suite}-{self.python.partition('.*')[0]}"

    @property
    def logs(self) -> Path:
        """The directory for its output."""
        return LOGS / self.key

    def chosen(self, word: str) -> bool:
        """Whether a word of `--row` means this row: its key, or a part of what no key is."""
        return word == self.key if word in {row.key for row in ROWS} else word in f"{self.name} {self.key}"


ROWS = (
    Row("Debian 11", REFUSED),
    Row("Debian 12", "bookworm", "3.10.*/bin/python3"),
    Row("Debian 12", "bookworm", runs=True),
    Row("Debian 12", "bookworm", "3.12.*/bin/python3"),
    Row("Debian 13", "trixie", runs=True),
    Row("Debian sid", "sid", runs=True),
    Row("musl and busybox alone", MUSL),
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


def tested(machine: Machine, log: Path, *words: str) -> str:
    """Run tests in a root, which `words` are for pytest; what it counted, "failed" among it where some did."""
    words = ("/opt/shim/bin/pytest", *PYTEST, "-m", "not engine and not other_user", *words)
    script = '"$@" >/src/output 2>&1; exit $?'  # a file, so that a run that hangs can be looked at
    try:
        status = machine.run("sh", "-c", script, "sh", *words, cwd="/src").returncode
    finally:
        shutil.copy(machine.upper / "src/output", log)
    return counted(log.read_text(encoding="utf-8", errors="replace"), status)


def counted(printed: str, status: int) -> str:
    """The counts in pytest's last line; "failed" is among the words where pytest did not end with status 0."""
    counts = re.findall(COUNT, printed.rstrip().rpartition("\n")[2])
    words = [f"{count} {word}" for count, word in counts]
    if status and not re.search(r"\d (failed|error)", printed[-200:]):
        words.append(f"failed: status {status}")
    return ", ".join(words) or "failed: no test was run"


def combined(before: str, again: str) -> str:
    """The counts of a row, and those of its failed tests, which were run again, as counts of the row.

    "failed" stays where it is not clear that these were all.
    """
    first, second = ({word: int(count) for count, word in re.findall(COUNT, cell)} for cell in (before, again))
    if set(first) != {"failed", "passed"} or set(second) - set(first) or sum(second.values()) != first["failed"]:
        return f"failed: {before}; again {again}"
    left = second.get("failed", 0)
    return (f"{left} failed, " if left else "") + f"{first['passed'] + second.get('passed', 0)} passed"


def ran(suite: str, log: Path) -> str:
    """`make run` in an empty root, where it installs all that it needs itself."""
    with Machine(roots.make(suite)) as machine:
        source(machine)
        machine.ok("apt-get", "install", "-y", "-qq", "--no-install-recommends", "make", online=True)
        done = machine.run("make", "run", online=True, cwd="/src")
    log.write_text(done.stdout, encoding="utf-8")
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


def musl(row: Row) -> tuple[str, ...]:
    """The cells of the row without glibc: tests of this environment that make such a machine and such a container."""
    version = subprocess.run([MUSL_LOADER], stderr=subprocess.PIPE, text=True, check=False).stderr.split("\n")[1]
    words = [str(Path(sys.executable).with_name("pytest")), *PYTEST, "-p", "no:cacheprovider"]
    words += [f"{TOP}/tests/{path}" for path in MUSL_TESTS]
    done = subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    (row.logs / "tests.log").write_text(done.stdout, encoding="utf-8")
    passed = counted(done.stdout, done.returncode)
    return (row.name, f"musl {version.rpartition(' ')[2]}", "none", passed, "not read; the list of musl is written", "")


def measure(row: Row, wheel: Path, *, again: bool = False) -> tuple[str, ...]:
    """The cells of a row, without the commit; `again`: the row's failed tests alone are run."""
    if row.suite == MUSL:
        return musl(row)
    if row.suite == REFUSED:
        return (row.name, glibc(row.suite), refused(row.suite), "", older_glibc.measured(row.suite, wheel), "")
    pyenv = next(iter(sorted(PYENV.glob(row.python))), None) if not row.python.startswith("/") else None
    if not pyenv and not row.python.startswith("/"):
        return (row.name, glibc(row.suite), row.python.partition(".*")[0], "not run: pyenv has none here", "", "")
    binds = {str(PYENV): str(PYENV)} if pyenv else {}
    tests = roots.make("bookworm", "tests", TESTED)
    if row.suite != "bookworm":  # the tests know what these versions answer
        binds |= {f"{tests}{path}": path for path in ENGINES}
    units = (*TESTS, f"--ignore={NATIVE if pyenv else CACHE}")
    with Machine(roots.make(row.suite, "tests", TESTED), binds) as machine:
        prepare(machine, str(pyenv or row.python), wheel)
        version = machine.ok("/opt/shim/bin/python", "-c", "import platform; print(platform.python_version())").strip()
        if again:
            machine.copy(row.logs / "lastfailed", MEMORY)
            passed = tested(machine, row.logs / "again.log", *units, "--last-failed")
            _, library, _, before, cache, run = stored(row)[:6]
            return (row.name, library, version, combined(before, passed), cache, run)
        cache = tested(machine, row.logs / "cache.log", CACHE)
        passed = tested(machine, row.logs / "tests.log", *units)
        if (machine.upper / MEMORY).exists():
            shutil.copy(machine.upper / MEMORY, row.logs)
    run = ran(row.suite, row.logs / "make-run.log") if row.runs else ""
    return (row.name, glibc(row.suite), version, passed, cache, run)


def result(row: Row, wheel: Path, *, again: bool) -> bool:
    """Measure a row, or run its failed tests again; print its cells and store them; whether all passed."""
    if not again:
        shutil.rmtree(row.logs, ignore_errors=True)
        row.logs.mkdir(parents=True)
    started = time.monotonic()
    words = ("git", "-C", TOP, "rev-parse", "--short", "HEAD")
    commit = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if again:
        failed = re.sub(r".*?(\d+) (failed|error).*", r"\1", stored(row)[3])
        commit = f"{stored(row)[6]}, {failed} of them at {commit}"
    signal.alarm(LIMIT)
    try:
        cells = measure(row, wheel, again=again)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        (row.logs / "error.log").write_text(f"{error}\n", encoding="utf-8")
        cells = (row.name, "", "", f"failed: {type(error).__name__}", "", "")
    finally:
        signal.alarm(0)
    passed = not re.search(r"\b(failed|errors?)\b", " ".join(cells))
    cells = (*cells, commit)
    (LOGS / f"{row.key}.json").write_text(json.dumps(cells, indent=1), encoding="utf-8")
    print(" | ".join(cells), f"({(time.monotonic() - started) / 60:.1f} minutes)", flush=True)
    if not passed:
        print(f"failed: its output lies in {row.logs}", flush=True)
    return passed


def stored(row: Row) -> tuple[str, ...]:
    """The cells of a row as they were measured last, which may be never."""
    path = LOGS / f"{row.key}.json"
    python = "" if row.python.startswith("/") else row.python.partition(".*")[0]
    return tuple(json.loads(path.read_text())) if path.exists() else (row.name, "", python, "not run", "", "", "")


def table(cells: list[tuple[str, ...]]) -> str:
    """The table as Markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD), *cells]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + f"\n{NOT_RUN}\n"


def too_late(*_: object) -> None:
    """A row has taken too long."""
    raise TimeoutError(f"no end after {LIMIT // 60} minutes")


def main() -> None:
    """Measure, print, and end with status 1 where something failed."""
    parser = argparse.ArgumentParser(prog="make test-matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--row", action="append", default=[], metavar="WORD", help="measure this row alone, or the rows with this word"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the marks of this document")
    parser.add_argument("--again", action="store_true", help="of rows with failed tests run these alone")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it mounts and enters roots, which only root can do")
    rows = [row for row in ROWS if not options.row or any(row.chosen(word) for word in options.row)]
    if not rows:
        sys.exit(f"there is no such row; there are: {', '.join(row.key for row in ROWS)}")
    if options.again:
        rows = [row for row in rows if (row.logs / "lastfailed").exists() and "failed" in stored(row)[3]]
    signal.signal(signal.SIGALRM, too_late)
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = [row for row in rows if not result(row, options.wheel, again=options.again)]
    text = table([stored(row) for row in ROWS])
    (LOGS / "matrix.md").write_text(text, encoding="utf-8")
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        before, after = document.partition(MARKS[0])[0], document.partition(MARKS[1])[2]
        options.write.write_text(f"{before}{MARKS[0]}{text}{MARKS[1]}{after}", encoding="utf-8")
    print(f"\n{text}")
    if failed:
        sys.exit(f"failed, see the output in: {' '.join(str(row.logs) for row in failed)}")


if __name__ == "__main__":
    main()
