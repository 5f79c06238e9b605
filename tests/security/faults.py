"""A create that something goes wrong around: it is killed, a file system is full or read-only, resources are short.

A Yard has the four places where a create writes, each a file system of its own: the bundle, the container's root (where
create does the work of hooks there), /run with the index and the records, and the directory of the log. After each
create `verdict` says what is wrong, and `recover` what is wrong with the next one, for which all is well again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KIND = "acme.example/gpu"
ID = "c1"
DEVICE = f"{KIND}=0"
WORK = ("create-symlinks", "update-ldcache")  # of the hook
LIBRARY = "libgpu.so.1"
PLACES = ("bundle", "root", "run", "log")
PAGE = os.sysconf("SC_PAGESIZE")
_LASTING = re.compile(
    r"shim/(index|needles)-[0-9a-f]{16}|shim/c/[0-9a-f]+|shim/swept|shim-ld\.so\.cache"
)  # what creates leave
SIZE = 2 << 20  # bytes of each file system
ASKING = {"annotations": {"cdi.k8s.io/x": DEVICE}}


class Yard:
    """The files of a create.

    Arguments:
        directory: one that only root can write.
        program: the launcher, or something that stands in for it.
    """

    def __init__(self, directory: Path, program: Path) -> None:
        self.directory, self.program = directory, program
        self.places = {
            "bundle": directory / "bundle",
            "root": directory / "bundle/rootfs",
            "run": Path("/run"),
            "log": directory / "log",
        }
        self.config = self.places["bundle"] / "config.json"
        self.engine_log = directory / "engine.log"
        self.low = directory / "low/runc"
        self.low.parent.mkdir()
        self.low.symlink_to("/bin/true")
        self.specs = directory / "cdi"
        self.specs.mkdir()
        self.publish("0")
        (directory / "c.toml").write_text(
            f'[cdi]\nspec-dirs = ["{self.specs}"]\n[hooks]\nfold = "ours"\n[log]\nfile = "{directory}/log/shim.log"\n'
        )
        link = Path("/etc/shim/low-level") / program.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(self.low)
        self._link = link
        for place in self.places.values():
            place.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0755,size={SIZE}", "tmpfs", place], check=True)
        for name in ("etc", "usr/lib"):
            (self.places["root"] / name).mkdir(parents=True)
        entry = {"destination": "/proc", "type": "proc", "source": "proc"}
        seccomp = {"syscalls": [{"names": [f"call{number}" for number in range(900)]}]}
        config = {
            "ociVersion": "1.0.2",
            "process": {"env": ["PATH=/bin"], "cwd": "/"},
            "root": {"path": "rootfs"},
            "mounts": [entry],
            "linux": {"seccomp": seccomp},
        }
        self.original = json.dumps({**config, **ASKING}, indent=1).encode()
        self.write()
        done = self.create()
        if done.returncode or self.lacks(self.config.read_bytes()):
            raise AssertionError(done)
        self.clean = self.names()

    def publish(self, value: str) -> None:
        """Write the spec, in which a variable has this value."""
        edits = {
            "env": [f"GPU={value}"],
            "mounts": [{"hostPath": "/etc/passwd", "containerPath": f"/usr/lib/{LIBRARY}", "options": ["ro", "bind"]}],
            "deviceNodes": [{"path": "/dev/null"}],
            "hooks": [
                {
                    "hookName": "createContainer",
                    "path": str(self.program),
                    "args": ["shim", "hook", "create-symlinks", "update-ldcache", "--link", "a::/usr/lib/b"],
                }
            ],
        }
        spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": "0", "containerEdits": edits}]}
        spare = self.specs / "spare"
        spare.write_text(json.dumps(spec))
        spare.replace(self.specs / "x.json")

    def close(self) -> None:
        """Take the file systems away."""
        for name in ("root", "bundle", "run", "log"):
            subprocess.run(["umount", "--lazy", self.places[name]], check=True)
        self._link.unlink()

    def write(self) -> None:
        """Put the engine's config.json into the bundle, and an image without the work of hooks into the root."""
        self.config.write_bytes(self.original)
        for name in ("etc/ld.so.cache", "usr/lib/b"):
            (self.places["root"] / name).unlink(missing_ok=True)

    def lacks(self, data: bytes) -> str:
        """What a config.json with the device lacks, "" for nothing.

        Each hook stands there, or its work was done by create; for a root that takes no writes that is a mount, too.
        """
        try:
            config: dict[str, Any] = json.loads(data)
        except ValueError as error:
            return f"it is no JSON: {error}"
        plain: dict[str, Any] = json.loads(self.original)
        if "GPU=" not in "".join(config["process"].pop("env")):
            return "the variable"
        if [node["path"] for node in config["linux"].pop("devices", [])] != ["/dev/null"]:
            return "the node"
        config["linux"].pop("resources", None)
        mounts = [mount["destination"] for mount in config.pop("mounts")]
        if not {"/proc", f"/usr/lib/{LIBRARY}"} <= set(mounts) <= {"/proc", f"/usr/lib/{LIBRARY}", "/etc/ld.so.cache"}:
            return f"the mount: {mounts}"
        hooks = config.pop("hooks", {})
        words = [word for hook in hooks.get("createContainer", []) for word in hook["args"] if word in WORK]
        cached = "/etc/ld.so.cache" in mounts or (self.places["root"] / "etc/ld.so.cache").exists()
        if not cached and "update-ldcache" not in words:
            return "the work of update-ldcache"
        if not (self.places["root"] / "usr/lib/b").is_symlink() and "create-symlinks" not in words:
            return "the work of create-symlinks"
        del plain["process"]["env"], plain["mounts"]
        return "" if config == plain else "something of the engine's"

    def names(self) -> dict[str, set[str]]:
        """All files of the four places, by their paths there."""
        found = {}
        for name, place in self.places.items():
            paths = (Path(path, file) for path, _, files in os.walk(place) for file in files)
            found[name] = {str(path.relative_to(place)) for path in paths if "rootfs" not in path.parts[-2:]}
        return found

    def command(self) -> list[str | Path]:
        """The engine's call."""
        log: list[str | Path] = ["--log", self.engine_log, "--log-format", "json"]
        return [self.program, *log, "--root", "/run/low", "create", "--bundle", self.places["bundle"], ID]

    def environment(self) -> dict[str, str]:
        """Its environment."""
        return {"SHIM_CONFIG": str(self.directory / "c.toml"), "PATH": "/usr/bin:/bin"}

    def create(self, limit: str = ":") -> subprocess.CompletedProcess[str]:
        """One create. limit: a command of the shell that executes the program, such as `ulimit -n 8`."""
        self.engine_log.write_bytes(b"")
        return subprocess.run(
            ["sh", "-c", f'{limit}; exec "$@"', "sh", *self.command()],
            env=self.environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )

    def kill(self, seconds: float) -> int:
        """A create that is killed after that time; its status."""
        with subprocess.Popen(
            self.command(), env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            time.sleep(seconds)
            running.send_signal(signal.SIGKILL)
        return running.returncode

    # --- what must hold ---

    def verdict(self, done: subprocess.CompletedProcess[str] | None) -> list[str]:
        """What is wrong after a create; done: None where it was killed."""
        wrong = []
        data = self.config.read_bytes()
        lacks = self.lacks(data)
        if data != self.original and lacks:
            wrong.append(f"config.json is neither the engine's nor an edited one, it lacks {lacks}: {data[:200]!r}")
        if done is None:
            return wrong
        if done.returncode == 0 and lacks:
            wrong.append(f"a container that asks for a device was started without {lacks}")
        if done.returncode < 0:
            wrong.append(f"the create ended by signal {-done.returncode}")
        if "Traceback" in done.stderr:
            wrong.append(f"a traceback: {done.stderr}")
        return wrong

    def recover(self) -> list[str]:
        """What is wrong with a create for which all is well, and with what it leaves."""
        self.write()
        done = self.create()
        wrong = [f"next: {text}" for text in self.verdict(done)]
        if done.returncode:
            wrong.append(f"the next create fails: {done.stderr}")
        records = Path("/run/shim/c")
        if not records.is_dir() or not any(records.iterdir()):
            wrong.append("the next create leaves no record")
        for name, files in self.names().items():
            more = {file for file in files - self.clean[name] if not _LASTING.fullmatch(file)}
            if more:
                wrong.append(f"left in {name}: {sorted(more)}")
        try:
            last = (self.directory / "log/shim.log").read_text().splitlines()[-1]
            if json.loads(last)["id"] != ID:
                wrong.append(f"the next create's line of the log is of another container: {last}")
        except (OSError, ValueError, IndexError, KeyError) as error:
            wrong.append(f"the next create leaves no line in the log: {error!r}")
        return wrong


# --- faults ---


@contextlib.contextmanager
def full(yard: Yard, name: str, left: int) -> Iterator[None]:
    """A place with so many pages left."""
    filler = yard.places[name] / "filler"
    with filler.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        size = file.tell()
        file.truncate(max(0, size - left * PAGE))
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(yard: Yard, name: str) -> Iterator[None]:
    """A place that takes no writes."""
    place = yard.places[name]
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)


def kills(yard: Yard, count: int, seed: int) -> Iterator[list[str]]:
    """So many creates that are killed at random moments: what is wrong after each, and with the one that follows."""
    chance = random.Random(seed)
    began = time.monotonic()
    yard.write()
    yard.create()
    usual = time.monotonic() - began
    for _ in range(count):
        if chance.random() < 0.3:  # the index is made anew, too
            shutil.rmtree("/run/shim", ignore_errors=True)
        yard.write()
        yard.kill(chance.random() * usual * 1.2)
        yield [*yard.verdict(None), *yard.recover()]
