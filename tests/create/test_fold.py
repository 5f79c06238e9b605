"""Folding: what create does itself is what the hook would have done, and all else is left to it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from native.elves import library
from native.trees import CONF, Entry, build, picture
from shim.hooks import ldcache

from shim.cdi.plan import Plan
from shim.create import fold, present
from shim.create.settings import OURS
from shim.create.verdict import Invocation

SHIM = str(Path(sys.executable).parent / "shim")
LIB = "usr/lib/x86_64-linux-gnu"
LIBC: dict[str, Entry] = {"etc/ld.so.conf": CONF, f"{LIB}/ld-linux-x86-64.so.2": library("ld-linux-x86-64.so.2")}
LDCACHE = ["hook", "update-ldcache", "--folder", f"/{LIB}"]


def hook(*words: str, path: str = SHIM, name: str = "shim", stage: str = "createContainer") -> dict[str, Any]:
    return {"hookName": stage, "path": path, "args": [name, *words], "env": ["A=1"], "timeout": 10}


class Scene:
    """A bundle, a driver of some libraries on the host, and a plan that mounts them."""

    def __init__(self, path: Path, image: dict[str, Entry] | None = None) -> None:
        self.path = path
        self.root = build(path / "bundle" / "rootfs", LIBC if image is None else image)
        self.driver = path / "driver"
        self.driver.mkdir()
        for name in ("libcuda.so", "libml.so"):
            (self.driver / f"{name}.550.1").write_bytes(library(f"{name}.1"))
        self.config: dict[str, Any] = {
            "root": {"path": "rootfs"},
            "mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}, {"destination": "/proc"}],
        }
        self.mounts = [
            {"hostPath": str(file), "containerPath": f"/{LIB}/{file.name}", "options": ["ro", "bind"]}
            for file in sorted(self.driver.iterdir())
        ]
        self.nodes: list[dict[str, Any]] = []
        self.low = "/usr/bin/runc"

    def fold(self, *hooks: dict[str, Any], which: str = OURS) -> tuple[dict[str, Any], list[Any]]:
        """Fold the plan; the config and what was done. Nothing that was given is changed."""
        edits = {"mounts": self.mounts, "deviceNodes": self.nodes, "hooks": list(hooks)}
        plan = Plan(["a.b/c=d"], [{"spec": "/etc/cdi/a.json", "device": "d", "edits": edits}])
        words = [f"low={self.low}", "name=shim", f"self={SHIM}", "verb=create", f"bundle={self.path / 'bundle'}", "--"]
        edited = present.add(plan, self.config)
        before = copy.deepcopy((edited, self.config, plan.origins))
        folded, done = fold.fold(edited, self.config, plan, Invocation(words), which, rootful=True)
        assert (edited, self.config, plan.origins) == before
        return folded, [name for one in done for name in one["names"]]

    def names(self, file: Path | None = None) -> set[str]:
        """What the loader finds by name."""
        data = (file or self.root / "etc/ld.so.cache").read_bytes()
        return {entry.key for entry in ldcache.decode(data).entries}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def args(config: dict[str, Any]) -> list[list[str]]:
    return [entry["args"] for stage in (config.get("hooks") or {}).values() for entry in stage]


def test_a_cache_is_made_and_the_hook_is_not_in_the_config(scene: Scene) -> None:
    folded, done = scene.fold(hook(*LDCACHE))
    assert done == ["update-ldcache"]
    assert "hooks" not in folded
    assert scene.names() >= {"libcuda.so.1", "libml.so.1"}


def test_a_second_create_changes_nothing(scene: Scene) -> None:
    everything = hook(*LDCACHE, "create-symlinks", "--link", f"libcuda.so.1::/{LIB}/libcuda.so")
    folded, done = scene.fold(everything)
    assert done == ["create-symlinks", "update-ldcache"]
    before = picture(scene.path)
    for _ in range(4):
        scene.config = folded
        assert scene.fold(everything)[0] == folded
    assert picture(scene.path) == before


def run_the_hook(scene: Scene, config: dict[str, Any], entry: dict[str, Any]) -> None:
    """Start a hook as runc does: in a mount namespace in which all is mounted."""
    bundle = scene.path / "bundle"
    (bundle / "config.json").write_text(json.dumps(config))
    (bundle / "state").write_text(json.dumps({"bundle": str(bundle)}))
    script = "mount --make-rprivate /\n"
    for mount in config["mounts"]:
        point = f"{scene.root}{mount['destination']}"
        source = mount.get("source", "")
        if mount.get("type") == "tmpfs":
            script += f"mkdir -p {point}; mount -t tmpfs tmpfs {point}\n"
        elif source.startswith("/"):
            make = "mkdir -p" if Path(source).is_dir() else "install -m 755 -D /dev/null"
            script += f"test -e {point} || {make} {point}; mount --bind {source} {point}\n"
    for node in (config.get("linux") or {}).get("devices", []):
        script += f": > {scene.root}{node['path']}\n"
    script += f"exec -a {entry['args'][0]} {SHIM} {' '.join(entry['args'][1:])} < {bundle}/state"
    done = subprocess.run(
        ["unshare", "-m", "bash", "-ec", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    (bundle / "config.json").unlink()
    (bundle / "state").unlink()


EVERYTHING = [
    *("hook", "create-symlinks", "enable-cuda-compat", "update-ldcache", "update-application-profile"),
    *("--folder", f"/{LIB}", "--folder", "/opt/lent", "--link", f"libcuda.so.1::/{LIB}/libcuda.so"),
    *("--host-driver-version", "550.1"),
]


@pytest.mark.parametrize("lent", [False, True], ids=["files", "files and a directory"])
def test_the_tree_is_that_of_the_hook(tmp_path: Path, lent: bool) -> None:
    image = {**LIBC, "usr/local/cuda/compat/libcuda.so.560.1": library("libcuda.so.1"), f"{LIB}/libold.so.1": library()}
    hooked, folded = Scene(tmp_path / "hooked", image), Scene(tmp_path / "folded", image)
    for scene in (hooked, folded):
        scene.nodes = [{"path": "/dev/nvidia3", "type": "c", "major": 195, "minor": 3}]
        if lent:
            (scene.path / "lent").mkdir()
            (scene.path / "lent/libl.so.2").write_bytes(library("libl.so.1"))
            scene.mounts.append(
                {"hostPath": str(scene.path / "lent"), "containerPath": "/opt/lent", "options": ["rbind"]}
            )
    config, done = folded.fold(hook(*EVERYTHING))
    assert done == EVERYTHING[1:5]
    (hooked.root / "dev").mkdir()
    (folded.root / "dev").mkdir()
    (hooked.root / "proc").mkdir()
    (folded.root / "proc").mkdir()
    given = json.loads(json.dumps(config).replace(str(folded.path), str(hooked.path)))
    run_the_hook(hooked, given, hook(*EVERYTHING))
    assert picture(folded.root) == picture(hooked.root)
    assert hooked.names() >= {"libcuda.so", "libcuda.so.1", "libml.so.1"} | ({"libl.so.1"} if lent else set())
