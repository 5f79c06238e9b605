"""What hooks cost, each as a whole process.

The cache is made on an overlay that is mounted anew for each round, as the layers of an image are for a container: then
nothing is known of the upper layer, and the first look at each name is what takes the time. The six hooks are those
that a vendor's spec carries, two of them links.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from unit.native.elves import library

from bench.clock import SHIM, spawn

LIBRARIES = 600
DRIVER = 40
FEW = 29  # of a driver
FOLDER = "usr/lib/x86_64-linux-gnu"
LDCONFIG = "/sbin/ldconfig"

ALL = "hook: update-ldcache, 600 libraries"
ROOT = "hook: update-ldcache --root, 600 libraries"
REFERENCE = "ldconfig -r, 600 libraries"
ALL_FEW = "hook: update-ldcache, 40 libraries"
REFERENCE_FEW = "ldconfig -r, 40 libraries"
ONE = "hooks: six in one process"
SIX = "hooks: six processes"

COMPARED = [(ALL, REFERENCE), (ROOT, REFERENCE), (ALL_FEW, REFERENCE_FEW), (ONE, SIX)]

WORDS = {
    "create-symlinks": ["--link", "libn1.so.1::/usr/lib/libn1.so"],
    "enable-cuda-compat": ["--host-driver-version", "550.1"],
    "update-ldcache": ["--folder", f"/{FOLDER}"],
    "disable-device-node-modification": [],
    "update-application-profile": [],
}


def fill(root: Path, count: int) -> None:
    """A root with this host's libc and libraries of usual shape: a soname link each, for some the linker's link."""
    folder = root / FOLDER
    folder.mkdir(parents=True)
    (root / "etc/ld.so.conf.d").mkdir(parents=True)
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (root / "etc/ld.so.conf.d/x.conf").write_text(f"/usr/local/lib\n/{FOLDER}\n")
    (root / "lib").symlink_to("usr/lib")
    shutil.copy(f"/{FOLDER}/libc.so.6", folder / "libc.so.6")
    for i in range(count):
        name = f"libn{i}.so.{i % 7}"
        body = library(name, needed=("libc.so.6", "libm.so.6", f"libn{i // 2}.so.1"), padding=20_000 + 900 * (i % 200))
        (folder / f"{name}.{i % 11}.{i % 5}").write_bytes(body)
        (folder / name).symlink_to(f"{name}.{i % 11}.{i % 5}")
        if i % 6 == 0:
            (folder / f"libn{i}.so").symlink_to(name)


def state_of(directory: Path, name: str, root: Path) -> str:
    """A bundle for this root; the file with its state."""
    bundle = directory / name
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps({"root": {"path": str(root)}}))
    (bundle / "state").write_text(json.dumps({"ociVersion": "1.0.2", "id": "c", "pid": 1, "bundle": str(bundle)}))
    return str(bundle / "state")


def on_fresh_overlay(place: Path, run: Callable[[], float]) -> Callable[[], float]:
    """Run it on an overlay of the lower layer of a place, which nobody has looked at yet."""

    def fresh() -> float:
        for name in ("upper", "work", "root"):
            (place / name).mkdir(exist_ok=True)
        layers = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
        subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", place / "root"], check=True)
        try:
            return run()
        finally:
            subprocess.run(["umount", place / "root"], check=True)
            for name in ("upper", "work"):
                shutil.rmtree(place / name)

    return fresh


@contextmanager
def commands(directory: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The commands to time, by what they show; the caches are compared before."""
    place, small = directory / "overlay", directory / "overlay-few"
    for at, count in ((place, LIBRARIES), (small, DRIVER)):
        fill(at / "lower", count)
        (at / "root").mkdir()
    root, few = str(place / "root"), directory / "few"
    fill(few, FEW)
    small_root, small_state = str(small / "root"), state_of(directory, "bundle-small", small / "root")
    state, few_state = state_of(directory, "bundle-many", place / "root"), state_of(directory, "bundle-few", few)
    every = [word for words in WORDS.values() for word in words]

    def six() -> float:
        return sum(spawn(SHIM, "hook", hook, *WORDS[hook], stdin=few_state) for hook in ("create-symlinks", *WORDS))

    chosen = {
        ALL: on_fresh_overlay(place, lambda: spawn(SHIM, "hook", "update-ldcache", stdin=state)),
        ROOT: on_fresh_overlay(place, lambda: spawn(SHIM, "hook", "update-ldcache", "--root", root)),
        REFERENCE: on_fresh_overlay(place, lambda: spawn(LDCONFIG, "-r", root)),
        ALL_FEW: on_fresh_overlay(small, lambda: spawn(SHIM, "hook", "update-ldcache", stdin=small_state)),
        REFERENCE_FEW: on_fresh_overlay(small, lambda: spawn(LDCONFIG, "-r", small_root)),
        ONE: lambda: spawn(SHIM, "hook", *WORDS, *every, stdin=few_state),
        SIX: six,
    }
    same_bytes(place, state, root)
    same_bytes(small, small_state, small_root)
    yield chosen


def same_bytes(place: Path, state: str, root: str) -> None:
    """What is compared must have done the same work."""
    made = set()
    for command, stdin in (
        ([SHIM, "hook", "update-ldcache"], state),
        ([SHIM, "hook", "update-ldcache", "--root", root], ""),
        ([LDCONFIG, "-r", root], ""),
    ):

        def run(command: list[str] = command, stdin: str = stdin) -> float:
            took = spawn(*command, stdin=stdin)
            made.add(Path(root, "etc/ld.so.cache").read_bytes())
            return took

        on_fresh_overlay(place, run)()
    if len(made) != 1:
        raise SystemExit("the caches differ")
