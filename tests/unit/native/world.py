"""A small world for the launcher: its own /etc/shim, /run, program directories, and programs that note how they start.

One mount namespace serves a whole test module; a call enters it, so that nothing of the host decides an answer and
nothing of the test is left on the host. The launcher lies in an installed tree of its own (bin/shim beside
lib/shim/launch); the interpreter named there is a program that only notes its command line.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

LAUNCHER = Path(sys.executable).parent / "shim"
SOURCES = Path(__file__).parent

# What LD_PRELOAD names: nothing, which a static program does not even notice. The launcher of `make sanitize` is not
# static, so it gets a library that is there.
PRELOAD = os.environ.get("SANITIZER", "./x.so")

# The host may lack these directories of /etc, and they are not ours to make: a writable layer over /etc gets them.
_PREPARE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
mkdir -p /etc/shim /etc/nvidia-container-runtime
mount -t tmpfs -o mode=755 tmpfs /etc/shim
mount -t tmpfs -o mode=755 tmpfs /etc/nvidia-container-runtime
mkdir /etc/shim/low-level
mount -t tmpfs tmpfs /usr/local/sbin
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -m 700 /run/shim /run/shim/c /run/user /run/user/shim
mount --bind /run/shim /run/user/shim
echo ready
exec cat
"""


@dataclass
class Seen:
    """How a program of this world was started."""

    argv: list[bytes] = field(default_factory=list)
    env: list[bytes] = field(default_factory=list)
    fds: dict[int, bytes] = field(default_factory=dict)
    cwd: bytes = b""
    status: list[bytes] = field(default_factory=list)

    @classmethod
    def read(cls, program: Path) -> Seen | None:
        """What the program noted, None when it was not started."""
        notes = Path(f"{program}.seen")
        if not notes.exists():
            return None
        seen = cls()
        for line in notes.read_text().splitlines():
            word, _, digits = line.partition(" ")
            value = bytes.fromhex(digits)
            if word == "arg":
                seen.argv.append(value)
            elif word == "env":
                seen.env.append(value)
            elif word == "fd":
                number, _, target = value.partition(b" ")
                seen.fds[int(number)] = target
            elif word == "cwd":
                seen.cwd = value
            else:
                seen.status.append(value)
        notes.unlink()
        return seen

    def verdict(self) -> dict[str, list[str]]:
        """The launcher's words for Python, by key, in the order given; "--" holds the runtime's command line."""
        words = [os.fsdecode(word) for word in self.argv]
        assert words[1:4] == ["-I", "-S", "-B"]
        assert words[4].endswith("/shim/__main__.py")
        assert words[5:7] == ["create", "sigint=held"]
        end = words.index("--")
        said: dict[str, list[str]] = {"--": words[end + 1 :]}
        for word in words[7:end]:
            key, _, value = word.partition("=")
            said.setdefault(key, []).append(value)
        return said


@dataclass
class Outcome:
    """What came of a call: exit status, output, and which of the two programs was started, and how."""

    status: int
    stdout: str
    stderr: str
    runtime: Seen | None
    python: Seen | None


def compile_program(name: str, target: Path) -> Path:
    """Build a static program from the C file of this name beside us."""
    command = ["cc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(SOURCES / f"{name}.c")]
    subprocess.run(command, check=True)
    return target


class World:
    """See the module.

    Attributes:
        bin: the directory of the launcher and of its other names.
        runtime: the program that stands in for the low-level runtime of "shim".
        python: the program that stands in for the interpreter.
        modules: the directory of our Python modules, as far as the launcher looks at it.
        bundle: a bundle directory, the working directory of calls.
        launch: the file that names interpreter and modules.
        run_env: the environment in which files below /run/shim count for whoever runs the tests.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bundle = root / "bundle"
        self.modules = root / "modules"
        for directory in (
            self.bin,
            self.bundle,
            root / "lib/shim",
            root / "layer",
            self.modules / "shim",
            root / "low",
        ):
            directory.mkdir(parents=True)
        shutil.copy2(LAUNCHER, self.bin / "shim")
        (self.modules / "shim/__main__.py").write_text("\n# end\n")
        self.runtime = compile_program("program", root / "low/runc")
        self.python = self.add_program("python/python3")
        self.start = compile_program("start", root / "start")
        self.launch = root / "lib/shim/launch"
        self.launch.write_text(f"{self.python}\n{self.modules}\n")
        unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
        self.run_env = [] if os.geteuid() == 0 else [b"XDG_RUNTIME_DIR=/run/user"]
        self.holder = subprocess.Popen(
            [*unshare, "sh", "-c", _PREPARE, "sh", str(root / "layer")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.holder.stdout
        assert self.holder.stdout.readline() == b"ready\n"
        self.link("shim", self.runtime)

    def close(self) -> None:
        """Let the namespace go: its shell ends with its input."""
        self.holder.communicate()

    def add_program(self, name: str) -> Path:
        """Another program that notes how it is started, at this place below the root."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.runtime, target)
        return target

    def name(self, name: str) -> None:
        """Give the launcher another name."""
        (self.bin / name).symlink_to("shim")

    def inside(self, *command: str | Path) -> None:
        """Run a command in the namespace."""
        subprocess.run([*self._enter(), *map(str, command)], check=True)

    def link(self, name: str, target: Path | str) -> None:
        """Set the low-level runtime of a name, as an administrator would."""
        self.inside("ln", "-sfn", str(target), f"/etc/shim/low-level/{name}")

    def put(self, path: str, text: str = "", mode: int = 0o600) -> None:
        """Write a file in the namespace, with its directories."""
        script = 'mkdir -p -m 700 "${1%/*}" && rm -rf "$1" && printf %s "$2" > "$1" && chmod "$3" "$1"'
        self.inside("sh", "-c", script, "sh", path, text, f"{mode:o}")

    def config(self, text: str | bytes) -> None:
        """Write the bundle's config.json."""
        (self.bundle / "config.json").write_bytes(text.encode() if isinstance(text, str) else text)

    def call(
        self,
        *words: str | bytes | Path,
        name: str = "shim",
        env: list[bytes] | None = None,
        cwd: Path | None = None,
        pass_fds: tuple[int, ...] = (),
        umask: int = 0o22,
        ignored: tuple[signal.Signals, ...] = (),
        rootless: bool = False,
        stderr: int = subprocess.PIPE,
    ) -> Outcome:
        """Call the launcher by a name, and see what came of it; rootless: as root of a user namespace of its own."""
        variables = self.root / "environment"
        variables.write_bytes(b"".join(variable + b"\0" for variable in env or []))

        def ignore() -> None:
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)

        launcher = self.bin / name
        user = ["unshare", "--user", "--map-root-user"] if rootless else []
        command = [*self._enter(), *user, self.start, cwd or self.bundle, variables, launcher, launcher, *words]
        done = subprocess.run(
            [os.fsencode(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=pass_fds,
            umask=umask,
            preexec_fn=ignore,
            timeout=60,
            check=False,
        )
        runtime, python = Seen.read(self.runtime), Seen.read(self.python)
        return Outcome(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr or b""), runtime, python)

    def _enter(self) -> list[str]:
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self.holder.pid), "-m", *user, "--"]
