"""What the start of a container costs: create, start and delete, with a tiny root.

The device is a driver of 29 libraries, 12 nodes and one hook, as a spec of ours lists them. Beside bare runc stands
runc with the same edits already in config.json: the difference to it is what the shim adds, the rest is what was asked
for. Where create does the work of hooks itself, it is timed with that and without.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engines.harness import images, programs
from unit.native.elves import library

from bench.clock import spawn
from shim.config.settings import Settings

LIBRARIES = [f"libdriver{i}.so.{i % 3}" for i in range(29)]
NODES = 12
KIND = "bench.example/whole"
CGROUP = "shim-bench"

BARE = "runc: create, start, delete"
EDITED = "runc with the same edits and hooks"
WITH = "shim with a device, create and hook"
FOLDED = "shim with a device, hook folded"
WITHOUT = "shim, nothing asked"
SIX = "runc, six small hook programs and ldconfig -r"

SHIM = "/etc/shim/venv/bin/shim"  # a path that belongs to root, as hooks of specs must
FOLDS = "fold" in Settings.__slots__

COMPARED = [
    (WITH, BARE),
    (WITH, EDITED),
    (WITH, SIX),
    (SIX, BARE),
    (WITHOUT, BARE),
    *([(FOLDED, BARE), (FOLDED, WITH)] if FOLDS else []),
]


def make_libraries(directory: Path) -> list[str]:
    """The driver's libraries in a new directory; their names."""
    directory.mkdir()
    for soname in LIBRARIES:
        (directory / f"{soname}.550.1").write_bytes(library(soname, needed=("libc.so.6",), padding=50_000))
    return sorted(file.name for file in directory.iterdir())


def driver_edits(libraries: list[str], nodes: str, shim: str) -> dict[str, Any]:
    """What the spec of the driver adds to a container.

    Arguments:
        libraries: their paths on the host.
        nodes: the directory of the nodes on the host.
        shim: the launcher, which is the hook.
    """
    mounts = [
        {
            "hostPath": path,
            "containerPath": f"/usr/lib/{Path(path).name}",
            "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
        }
        for path in libraries
    ]
    words = ["create-symlinks", "update-ldcache", "disable-device-node-modification", "update-application-profile"]
    links = ["--link", "libdriver1.so.1::/usr/lib/libdriver1.so", "--folder", "/usr/lib"]
    return {
        "env": ["BENCH=1"],
        "deviceNodes": [{"path": f"/dev/gpu{i}", "hostPath": f"{nodes}/gpu{i}"} for i in range(NODES)],
        "mounts": mounts,
        "hooks": [{"hookName": "createContainer", "path": shim, "args": ["shim", "hook", *words, *links]}],
    }


def make_driver(directory: Path) -> dict[str, Any]:
    """The host's part of the device, and its spec."""
    libraries = make_libraries(directory / "driver")
    nodes = Path("/run/bench-nodes")
    nodes.mkdir()
    for number in range(NODES):
        os.mknod(nodes / f"gpu{number}", 0o20666, os.makedev(1, 5))
    Path("/etc/shim/venv").mkdir()
    subprocess.run(["mount", "--bind", sys.prefix, "/etc/shim/venv"], check=True)
    edits = driver_edits([f"{directory}/driver/{name}" for name in libraries], str(nodes), SHIM)
    return {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": "all", "containerEdits": edits}]}


def put_six(file: Path, program: str) -> None:
    """Exchange the hook of a config.json for six small programs and ldconfig, as a chain of single hooks costs."""
    config = json.loads(file.read_bytes())
    small = [{"path": program, "args": ["hook"]}] * 6
    ldconfig = {"path": "/sbin/ldconfig", "args": ["ldconfig", "-r", str(file.parent / "rootfs")]}
    config["hooks"] = {"createContainer": [*small, ldconfig]}
    file.write_text(json.dumps(config))


def make_config(runc: str, bundle: Path) -> dict[str, Any]:
    """The config.json of `runc spec` for a container that ends at once."""
    images.write_root(bundle / "rootfs")
    subprocess.run([runc, "spec", "--bundle", bundle], check=True)
    config: dict[str, Any] = json.loads((bundle / "config.json").read_bytes())
    config["process"].update(terminal=False, args=["/bin/true"], env=["PATH=/bin"])
    config["linux"]["cgroupsPath"] = f"/{CGROUP}/{bundle.name}"
    return config


@contextmanager
def commands(directory: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The commands to time, by what they show. Bundles are put back before each run."""
    (runc,) = programs.find("runc")
    low = Path("/etc/shim/low-level/shim")
    low.unlink()
    low.symlink_to(runc)
    Path("/etc/cdi").mkdir(exist_ok=True)
    Path("/etc/cdi/whole.json").write_text(json.dumps(make_driver(directory)))
    root = ["--root", "/run/bench-runc"]
    for fold in ("off", "ours") if FOLDS else ():
        Path(f"/etc/shim/{fold}.toml").write_text(f'[hooks]\nfold = "{fold}"\n')

    def whole(
        name: str, program: str, *, asks: bool = True, edited: bool = False, six: str = "", fold: str = "off"
    ) -> Callable[[], float]:
        bundle = directory / name
        bundle.mkdir()
        config = make_config(runc, bundle)
        if asks:
            config["annotations"] = {"cdi.k8s.io/bench": f"{KIND}=all"}
        file = bundle / "config.json"
        file.write_text(json.dumps(config))
        env = {**os.environ, **({"SHIM_CONFIG": f"/etc/shim/{fold}.toml"} if FOLDS and asks else {})}
        if edited:
            spawn(SHIM, *root, "create", "--bundle", str(bundle), name, env=env)
            spawn(runc, *root, "delete", "--force", name)
        if six:
            put_six(file, six)
        before = file.read_bytes()

        def run() -> float:
            file.write_bytes(before)
            shutil.rmtree(bundle / "rootfs")
            images.write_root(bundle / "rootfs")
            took = spawn(program, *root, "create", "--bundle", str(bundle), name, env=env)
            took += spawn(program, *root, "start", name, env=env)
            while status_of(runc, *root, name) != "stopped":
                time.sleep(0.001)
            return took + spawn(program, *root, "delete", name, env=env)

        return run

    try:
        yield {
            BARE: whole("bare", runc, asks=False),
            EDITED: whole("edited", runc, edited=True),
            SIX: whole("six", runc, edited=True, six=str(directory / "t")),
            WITH: whole("with", SHIM),
            **({FOLDED: whole("folded", SHIM, fold="ours")} if FOLDS else {}),
            WITHOUT: whole("without", SHIM, asks=False),
        }
    finally:
        for place in Path("/sys/fs/cgroup").glob(f"**/{CGROUP}"):
            for inner in [*place.iterdir(), place]:
                if inner.is_dir():
                    inner.rmdir()


def status_of(runc: str, *words: str) -> str:
    """What runc says about a container, words: its --root and its id."""
    *root, name = words
    told = subprocess.run([runc, *root, "state", name], capture_output=True, check=True).stdout
    return str(json.loads(told)["status"])
