"""Build the wheel that needs no compiler where it is installed: `wheel.py SOURCE OUTPUT --roots DIRECTORY`.

One wheel for an architecture: the launcher is static, and the C core keeps to the limited API of Python 3.10. The core
is compiled by this machine's gcc against the C library of Debian 11 (glibc 2.31), whose packages are unpacked below
DIRECTORY once; no program of them is run, so no root is needed. Debian 11 itself has Python 3.9 only, so the headers of
Python are this machine's: those of the limited API are the same in every version.

What was built is then checked: auditwheel for the symbols of the C library, abi3audit for those of Python.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = "bullseye"
LIBC = "2_31"
PACKAGES = "libc6-dev,linux-libc-dev"
PYTHON = "cp310"  # the oldest that is supported, which the limited API of native/meson.build names, too


def sysroot(roots: Path) -> Path:
    """The unpacked C library, with its headers; it appears complete or not at all."""
    directory = roots / f"{SUITE}-libc-{platform.machine()}"
    if not directory.is_dir():
        fresh = directory.with_name(directory.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        roots.mkdir(parents=True, exist_ok=True)
        asked = subprocess.run([HERE / "mirror.sh"], capture_output=True, text=True, check=True)
        mirror = asked.stdout.strip()
        late = "--aptopt=Acquire::Check-Valid-Until false"  # a mirror may be frozen
        words = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={PACKAGES}", late, SUITE, str(fresh), mirror]
        subprocess.run(words, check=True)
        for link in fresh.rglob("*"):
            if link.is_symlink() and (target := link.readlink()).is_absolute():  # it ends outside of the directory
                link.unlink()
                link.symlink_to(os.path.relpath(f"{fresh}{target}", link.parent))
        fresh.rename(directory)
    return directory


def compiler(root: Path) -> list[str]:
    """The compiler for that C library.

    Debian has one header of Python in the directory of the architecture, which is that of the root now: it gets a link.
    """
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    python = f"{multiarch}/python{sys.version_info[0]}.{sys.version_info[1]}"
    header = Path("/usr/include", python)
    link = root / "usr/include" / python
    if multiarch and header.is_dir() and not link.is_symlink():
        link.symlink_to(header)
    # -B: else the start files and libraries beside gcc come first, which are this machine's
    return ["gcc", f"--sysroot={root}", f"-B{root}/usr/lib/{multiarch}"]


def run(*words: str | Path, **variables: str) -> None:
    """Run a tool of this environment; raises SystemExit with its output when it fails."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")


def build(source: Path, scratch: Path, cc: list[str]) -> Path:
    """Compile the source; the wheel of this machine, for every Python."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
    run(*pip, "--no-build-isolation", "--no-deps", "-w", scratch, source, CC=shlex.join(cc))
    (wheel,) = scratch.glob("*.whl")
    run(sys.executable, "-m", "wheel", "tags", "--remove", f"--python-tag={PYTHON}", wheel)
    (wheel,) = scratch.glob("*.whl")
    return wheel


def check(wheel: Path, output: Path) -> Path:
    """Write it with the tag of its C library; raises SystemExit where it needs more than that or the limited API."""
    tag = f"manylinux_{LIBC}_{platform.machine()}"
    run("abi3audit", "--strict", wheel)
    run("auditwheel", "repair", f"--plat={tag}", "--wheel-dir", output, wheel)
    (done,) = output.glob(f"{wheel.name.split('-')[0]}-*-{PYTHON}-abi3-*{platform.machine()}.whl")
    return done


def main() -> None:
    """Build, check, and print the sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--roots", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        wheel = check(build(options.source, Path(directory), compiler(sysroot(options.roots))), options.output)
    with zipfile.ZipFile(wheel) as archive:
        (launcher,) = (member for member in archive.infolist() if member.filename.endswith(".data/scripts/shim"))
        unpacked = sum(member.file_size for member in archive.infolist())
    print(f"{wheel}: {wheel.stat().st_size} bytes, unpacked {unpacked}, the launcher {launcher.file_size}")


if __name__ == "__main__":
    main()
