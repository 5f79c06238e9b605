"""Roots of distributions: made once from Debian's archive, and entered below an overlay, so that they stay as made.

    ROOTS/SUITE/     by mmdebstrap: Python, no compiler
    ROOTS/SUITE-KIND/    the same with more packages
    Machine          a use: what is written in it goes with it

A command runs in a mount and a PID namespace of its own, with the network of this machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

# Of every root: enough for a virtual environment, no compiler
PACKAGES = ("ca-certificates", "python3", "python3-venv")

# What pip and apt of this machine go by: proxies, mirrors of indexes, certificates
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/root/.config/pip", "/root/.pip", "/etc/ssl/certs")

_ENTER = """
set -eu
root=$1 scratch=$2
shift 2
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work$OVERLAY" "$scratch/root"
cd "$scratch/root"
mount -t proc proc proc
eval "$PROLOGUE"
mount --rbind /dev dev
mount --rbind /sys sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p ".$2"; elif [ ! -e ".$2" ]; then mkdir -p "$(dirname ".$2")"; : >".$2"; fi
    mount --rbind "$1" ".$2"
    shift 2
done
shift
unset PROLOGUE OVERLAY
exec "$ENTER_PYTHON" -I -S -c "$ENTER_ROOT" "$@"
"""

# Not chroot: a process below a root that is not the namespace's own may make no user namespace, and a process that
# enters its mount namespace again would see the machine's root
_ROOT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.pivot_root(b".", b".") or libc.umount2(b".", 2):
    sys.exit(os.strerror(ctypes.get_errno()))
os.chdir("/")
for name in ("ENTER_PYTHON", "ENTER_ROOT"):
    del os.environ[name]
os.execvp(sys.argv[1], sys.argv[1:])
"""


def mirror() -> str:
    """The address of the archive from which roots are made; raises CalledProcessError where none is known."""
    script = Path(__file__).parent.parent.parent / "packaging/mirror.sh"
    return subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def make(suite: str, kind: str = "", packages: tuple[str, ...] = ()) -> Path:
    """The root of a suite, which appears complete or not at all.

    Arguments:
        suite: of Debian.
        kind: names a root with more packages.
        packages: these.

    Raises CalledProcessError: the archive cannot be reached, or mmdebstrap is missing.
    """
    roots = Path(os.environ.get("ROOTS") or "/var/tmp/shim-roots")
    directory = roots / (f"{suite}-{kind}" if kind else suite)
    if not directory.is_dir():
        fresh = directory.with_name(f"{directory.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        roots.mkdir(parents=True, exist_ok=True)
        late = "--aptopt=Acquire::Check-Valid-Until false"  # a mirror may be frozen
        kept = "--skip=cleanup/apt"  # its lists, with which the root can install more
        words = [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={','.join((*PACKAGES, *packages))}",
            late,
            kept,
        ]
        subprocess.run([*words, suite, fresh, mirror()], check=True)
        fresh.rename(directory)
    return directory


class Machine:
    """A root in use.

    Arguments:
        root: as made by `make`.
        binds: directories and files of this machine -> where they are seen.

    Attributes:
        enter: the command that executes another in new namespaces.
        prologue: what the shell runs in them, in the root, as soon as that has /proc.
        overlay: more options of the overlay, each after a comma.
    """

    enter: tuple[str, ...] = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    prologue = ""
    overlay = ""

    def __init__(self, root: Path, binds: dict[str, str] | None = None) -> None:
        self.root = root
        self.binds = binds or {}
        self.scratch = Path(tempfile.mkdtemp(prefix="shim-root-", dir="/var/tmp"))
        for name in ("upper", "work", "root"):
            (self.scratch / name).mkdir()
        self.upper = self.scratch / "upper"

    def run(self, *words: str | Path, online: bool = False, cwd: str = "/") -> subprocess.CompletedProcess[str]:
        """Run a command as root of the machine.

        Arguments:
            words: the command.
            online: with this machine's settings of the network.
            cwd: its working directory.
        Returns:
            status, and standard output with standard error.
        """
        binds = [word for pair in self.binds.items() for word in pair]
        binds += [word for path in NETWORK if online and Path(path).exists() for word in (os.path.realpath(path), path)]
        # the shell stays, as process 1 that has a parent's duties
        script = f"cd {shlex.quote(cwd)} && {shlex.join(map(str, words))}; exit $?"
        variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        variables |= {"LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        if online:
            variables |= {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
        variables |= {"PROLOGUE": self.prologue, "OVERLAY": self.overlay}
        variables |= {"ENTER_PYTHON": "/usr/bin/python3", "ENTER_ROOT": _ROOT}
        enter = [*self.enter, "sh", "-c", _ENTER, "enter"]
        words = (*enter, str(self.root), str(self.scratch), *binds, "--", "/bin/sh", "-c", script)
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=variables,
        ) as process:
            try:
                output = process.communicate()[0]
            except BaseException:
                process.kill()  # and all that it started
                process.communicate()  # to their end: they may write below `upper`
                raise
        return subprocess.CompletedProcess(words, process.returncode, output)

    def ok(self, *words: str | Path, online: bool = False, cwd: str = "/") -> str:
        """The output of a command that must succeed; raises RuntimeError with it otherwise."""
        done = self.run(*words, online=online, cwd=cwd)
        if done.returncode:
            raise RuntimeError(f"{self.root.name}: {shlex.join(map(str, words))}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def copy(self, source: Path, target: str) -> None:
        """Copy a file of this machine."""
        there = self.upper / target.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, there)

    def close(self) -> None:
        """Remove what was written in it."""
        shutil.rmtree(self.scratch)

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
