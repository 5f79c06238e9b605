"""A machine to install on: a sandbox (tests/engines/harness) whose /usr and dpkg database are overlays.

No shim is installed there, even if one is on the machine that runs the tests.

A device is there to be asked for, and the low-level runtime is a script that says it was reached. Nothing is left when
the sandbox ends.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from engines.harness.device import NAME, FakeDevice
from engines.harness.sandbox import Result, Sandbox

TOP = Path(__file__).parent.parent.parent
IMAGE = TOP / "build/image"

RUNTIME = '#!/bin/sh\necho "reached: $*"\n'


def load(name: str) -> ModuleType:
    """A module of packaging/, for tests of its single steps; it may import others that lie beside it."""
    directory = str(TOP / "packaging")
    spec = importlib.util.spec_from_file_location(f"packaging_{name}", f"{directory}/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, directory)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(directory)
    return module


def make(*words: str, cwd: Path = TOP) -> str:
    """Run make as a user does, outside of the sandbox; what it prints."""
    # what the make that runs these tests gave its children is not meant for this one
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "SHIM_"))}
    command = ["make", "-s", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Machine:
    """The machine; `run` is the sandbox's."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.run = sandbox.run
        for number, directory in enumerate(("/usr", "/var/lib/dpkg")):
            base = f"/run/overlay/machine-{number}"
            self.run("mkdir", "-p", f"{base}/upper", f"{base}/work").ok()
            options = f"lowerdir={directory},upperdir={base}/upper,workdir={base}/work"
            self.run("mount", "-t", "overlay", "-o", options, "overlay", directory).ok()
        self.forget()
        FakeDevice(sandbox).publish()
        runtime = sandbox.scratch / "host/runtime"
        runtime.write_text(RUNTIME)
        runtime.chmod(0o755)
        for name in ("shim", "shim-runc", "shim-crun"):
            sandbox.link_low_level(name, f"{sandbox.host}/runtime")

    def forget(self) -> None:
        """Remove every shim: a Debian package, what `make install` put in place, links, and what engines know of it."""
        if self.run("dpkg-query", "-W", "cdi-shim").status == 0:
            self.run("sh", "-c", "rm -f /var/lib/dpkg/info/cdi-shim.*rm").ok()  # it may refuse, with good reason
            self.run("dpkg", "--no-triggers", "--purge", "cdi-shim").ok()
        for prefix in ("/usr", "/usr/local"):
            self.place("uninstall", "--force", "--prefix", prefix)  # fails where there is none
            self.run("rm", "-f", *(f"{prefix}/bin/{name}" for name in ("shim", "shim-runc", "shim-crun"))).ok()
        engines = "/etc/containerd /etc/crio /etc/docker /etc/containers /var/lib/shim"
        self.run("sh", "-c", f"grep -rlsF bin/shim {engines} | xargs -r rm").ok()

    def place(self, *words: str, umask: str = "022") -> Result:
        """Run packaging/install.py as the Makefile does."""
        script = f'umask {umask}; exec /usr/bin/python3 -I -S -B "$0" "$@"'
        return self.run("/bin/sh", "-c", script, TOP / "packaging/install.py", *words, "--image", IMAGE)

    def files(self, *directories: str) -> list[str]:
        """All that lies in directories of the machine, by mode, owner and path, with the targets of links."""
        return self.run("find", *directories, "-printf", "%M %U:%G %p %l\\n").ok().splitlines()

    def assert_works(self, command: str, user: str | None) -> None:
        """Assert that a launcher answers for itself, lists the device, and gives it to a container."""
        assert self.run(command, "version", user=user).ok().startswith("shim ")
        assert NAME in self.run(command, "cdi", "list", user=user).ok()
        bundle = self.sandbox.scratch / "tmp" / f"bundle-{user}"
        config = bundle / "config.json"
        self.run("mkdir", "-p", bundle, user=user).ok()
        self.run("tee", config, user=user, stdin=json.dumps({"process": {"env": ["A=1"]}})).ok()
        words = ("create", "--bundle", str(bundle), "c1")
        created = self.run(command, *words[:1], "--device", NAME, *words[1:], user=user)
        assert created.ok() == f"reached: {' '.join(words)}\n"
        edited: dict[str, Any] = json.loads(config.read_bytes())
        assert edited["process"]["env"] == ["A=1", "SHIM_TEST=one"]
        nodes = [device["path"] for device in edited["linux"].get("devices", ())]
        if user:  # who may not make nodes gets them as mounts
            nodes = [mount["destination"] for mount in edited["mounts"]]
        assert {"/dev/shim/zero", "/dev/shim/gate"} <= set(nodes)
