#!/usr/bin/env python3
"""Run a bundle of this directory through shim and print what the container saw next to what was asked.

    bundles/run.py hello

It takes the shim of the repository's .venv, else the installed one. Ways in: `run --device` as a person would, and
annotation + `create`/`start` as an engine does. expected.json says which devices are asked for (none: the bundle's own
config.json asks) and either what the container sees or the words with which it is refused. Exit status 1 when it comes
out otherwise. Standard library only; needs runc and busybox-static.

It runs in a mount namespace of its own with a fresh /run: specs count only where root alone can write, which /tmp is
not, and nothing is left behind. Without root it enters a user namespace, too, in which there is no cgroup to write: the
container gets its device, but the rule that allows it is not applied.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUSYBOX = Path("/bin/busybox")
INSIDE = "SHIM_BUNDLES_INSIDE"  # set where the mount namespace is ours: "root", or "user" in a user namespace
NO_NAMESPACE = "without root this needs a user namespace, which this machine does not allow; as root it needs none"
APPLETS = ("sh", "cat", "head", "od", "ls", "env", "sleep", "id", "test")


def find_shim() -> Path:
    """The launcher that `make` has built, else the installed one."""
    built = HERE.parent / ".venv/bin/shim"
    installed = shutil.which("shim")
    if not built.exists() and not installed:
        sys.exit("shim is not here: `make dev` builds it, `make install` installs it")
    return built if built.exists() else Path(str(installed))


def make_root(root: Path) -> None:
    """A root file system of one static busybox and the directories that a runtime mounts on."""
    for name in ("bin", "dev", "proc", "sys", "etc", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")


def make_ready(name: str, scratch: Path) -> Path:
    """Copy the bundle below `scratch`, give it a root, fill in paths, write a configuration that finds its specs.

    A bundle's own config.toml follows that configuration.
    """
    bundle = scratch / name
    shutil.copytree(HERE / name, bundle)
    make_root(bundle / "rootfs")
    for spec in (bundle / "cdi").iterdir():
        spec.write_text(spec.read_text().replace("@BUNDLE@", str(bundle)))
    if os.environ[INSIDE] == "user":
        config = json.loads((bundle / "config.json").read_text())
        del config["linux"]["cgroupsPath"]
        (bundle / "config.json").write_text(json.dumps(config))
    own = bundle / "config.toml"
    settings = f'[cdi]\nspec-dirs = ["{bundle}/cdi"]\n' + (own.read_text() if own.exists() else "")
    (scratch / "config.toml").write_text(settings)
    return bundle


class Runtime:
    """shim, called as an engine calls a runtime, with its state below a directory of ours."""

    def __init__(self, shim: Path, scratch: Path, output: int) -> None:
        self._output = output
        self._command = [
            str(shim),
            "--root",
            str(scratch / "state"),
            "--log",
            str(scratch / "log"),
            "--log-format",
            "json",
        ]
        self._environment = {**os.environ, "SHIM_CONFIG": str(scratch / "config.toml")}

    def call(self, *arguments: str) -> int:
        """Run one verb; its exit status. What it and the container print goes where the bundle's output goes."""
        print("  $ shim", *arguments, flush=True)
        return subprocess.run(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=self._environment,
            check=False,
        ).returncode

    def state(self, container: str) -> str:
        """The container's status as `state` tells it, "gone" when there is none."""
        answer = subprocess.run([*self._command, "state", container], capture_output=True, check=False)
        return str(json.loads(answer.stdout)["status"]) if answer.returncode == 0 else "gone"


def by_option(runtime: Runtime, bundle: Path, devices: list[str]) -> int:
    """`shim run --device NAME`."""
    options = [word for device in devices for word in ("--device", device)]
    return runtime.call("run", *options, "--bundle", str(bundle), f"{bundle.name}-{os.getpid()}-run")


def by_annotation(runtime: Runtime, bundle: Path, devices: list[str]) -> int:
    """An annotation in config.json, then create, start and delete."""
    if devices:
        path = bundle / "config.json"
        config = json.loads(path.read_text())
        config["annotations"] = {"cdi.k8s.io/bundle": ",".join(devices)}
        path.write_text(json.dumps(config))
    container = f"{bundle.name}-{os.getpid()}-create"
    status = runtime.call("create", "--bundle", str(bundle), container)
    if status == 0:
        status = runtime.call("start", container)
        end = time.monotonic() + 30
        while runtime.state(container) == "running" and time.monotonic() < end:
            time.sleep(0.05)
        runtime.call("delete", "--force", container)
    return status


def compare(expected: dict[str, str], output: str) -> bool:
    """Print what was seen next to what was asked; whether all of it is there."""
    seen = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    for what, wanted in expected.items():
        verdict = "ok" if seen.get(what) == wanted else "MISSING"
        print(f"    {what:6} asked: {wanted:24} seen: {seen.get(what, '(nothing)'):24} {verdict}")
    return all(seen.get(what) == wanted for what, wanted in expected.items())


def is_as_expected(expected: dict[str, Any], bundle: Path, status: int, output: str) -> bool:
    """Whether one way ended as expected.json says; prints what is to be compared."""
    if "refused" in expected:
        print("    " + output.strip())
        return status == 1 and expected["refused"].replace("@BUNDLE@", str(bundle)) in output
    good = compare(expected["seen"], output) and status == 0
    if not good:
        print("    " + output.strip())
    return good


def main(name: str, shim: Path) -> int:
    """Run the bundle in both ways; the exit status."""
    if os.environ[INSIDE] == "user":
        print("without root: in a user namespace, without a cgroup")
    expected = json.loads((HERE / name / "expected.json").read_text())
    good = True
    ways: tuple[Callable[[Runtime, Path, list[str]], int], ...] = (by_option, by_annotation)
    for way in ways:
        with (
            tempfile.TemporaryDirectory(prefix="shim-", dir="/run") as scratch,
            tempfile.TemporaryFile() as output,
        ):
            print(f"{name}: {(way.__doc__ or '').strip() if expected['devices'] else 'its config.json asks'}")
            bundle = make_ready(name, Path(scratch))
            status = way(Runtime(shim, Path(scratch), output.fileno()), bundle, expected["devices"])
            output.seek(0)
            good = is_as_expected(expected, bundle, status, output.read().decode(errors="replace")) and good
    outcome = "is refused with these words" if "refused" in expected else "has its device"
    print(f"the container {outcome if good else 'does NOT come out as expected.json says'}")
    return 0 if good else 1


def enter_namespaces() -> None:
    """Execute this script again where its mounts are its own; raises SystemExit where the machine does not allow it."""
    kind = "user" if os.geteuid() else "root"
    options = ["--mount", *(["--user", "--map-root-user"] if kind == "user" else [])]
    if subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode:
        sys.exit(NO_NAMESPACE)
    script = 'mount -t tmpfs -o mode=0755 tmpfs /run && exec "$@"'
    command = ["unshare", *options, "sh", "-c", script, "sh", sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**os.environ, INSIDE: kind})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} NAME, one of: " + " ".join(sorted(p.parent.name for p in HERE.glob("*/cdi"))))
    if INSIDE not in os.environ:
        enter_namespaces()
    sys.exit(main(sys.argv[1], find_shim()))
