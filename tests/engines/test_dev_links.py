"""Links below /dev, such as those of /dev/dri/by-path: made in the container's own /dev, and in no other mount.

A spec of a GPU with DRM nodes has a create-symlinks hook for them. /dev is a mount of its own in every container, and
the hook wrote into no mount but the root's, so the links were missing without a word.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Result, Sandbox

pytestmark = pytest.mark.engine

LINK = "/dev/dri/by-path/pci-0000:03:00.0-card"
HOOK = ["shim", "hook", "create-symlinks", "--link", f"../card0::{LINK}"]
SCRIPT = f"readlink {LINK} || echo none"
DEV = {"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755"]}


def start(
    sandbox: Sandbox, runtime: Runtime, shim: Path, name: str, *mounts: dict[str, Any], read_only: bool = False
) -> Result:
    """Run a container with these mounts at /dev and below, and the hook."""
    bundle = Bundle(sandbox, f"{name}-{runtime.name}", SCRIPT)
    config: dict[str, Any] = bundle.config()
    config["root"]["readonly"] = read_only
    others = [mount for mount in config["mounts"] if not mount["destination"].startswith("/dev")]
    config["mounts"] = [*others, *mounts]
    entry = {"path": str(shim), "args": HOOK, "env": ["PATH=/usr/bin"], "timeout": 20}
    config["hooks"] = {"createContainer": [entry]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    return runtime("run", "--bundle", bundle.directory, bundle.id)


def bind(destination: str, source: Path) -> dict[str, Any]:
    return {"destination": destination, "source": str(source), "type": "bind", "options": ["rbind", "rw"]}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_link_is_made_in_the_container_s_own_dev(
    sandbox: Sandbox, runtime: Runtime, shim: Path, read_only: bool
) -> None:
    ran = start(sandbox, runtime, shim, f"own-dev-{read_only}", DEV, read_only=read_only)
    assert (ran.ok(), ran.err) == ("../card0\n", "")


@pytest.mark.parametrize("destination", ["/dev", "/dev/dri"])
def test_nothing_is_written_into_a_directory_of_the_host(
    sandbox: Sandbox, runtime: Runtime, shim: Path, destination: str
) -> None:
    """Also not where it lies in a tmpfs of the host, which looks like the container's own."""
    host = sandbox.scratch / f"host-dev-{destination.count('/')}-{runtime.name}"
    host.mkdir()
    sandbox.run("mount", "-t", "tmpfs", "tmpfs", str(host)).ok()
    sandbox.run("mkdir", str(host / "dri")).ok()
    sandbox.run("mknod", str(host / "null"), "c", "1", "3").ok()  # without it no process starts
    mounts = [bind(destination, host)] if destination == "/dev" else [DEV, bind(destination, host)]
    ran = start(sandbox, runtime, shim, f"host-dev-{destination.count('/')}", *mounts)
    assert ran.out == "none\n"
    assert sandbox.run("find", str(host), "-type", "l").ok() == ""


def test_the_host_s_own_dev_is_left_alone(sandbox: Sandbox, runtime: Runtime, shim: Path) -> None:
    ran = start(sandbox, runtime, shim, "real-dev", bind("/dev", Path("/dev")))
    assert ran.out == "none\n"
    assert subprocess.run(["ls", LINK], capture_output=True, check=False).returncode != 0


def test_a_link_of_the_image_at_dev_is_not_followed(sandbox: Sandbox, runtime: Runtime, shim: Path) -> None:
    """runc and crun mount at where the link leads; what is there by then is not /dev of this root by its path."""
    name = "linked-dev"
    root = sandbox.scratch / "bundles" / f"{name}-{runtime.name}" / "rootfs"
    bundle = Bundle(sandbox, f"{name}-{runtime.name}", "ls -R /devices /dev")
    subprocess.run(["rm", "-rf", root / "dev"], check=True)
    (root / "dev").symlink_to("devices")
    (root / "devices").mkdir()
    config: dict[str, Any] = bundle.config()
    others = [mount for mount in config["mounts"] if not mount["destination"].startswith("/dev")]
    config["mounts"] = [*others, DEV]
    entry = {"path": str(shim), "args": HOOK, "env": ["PATH=/usr/bin"], "timeout": 20}
    config["hooks"] = {"createContainer": [entry]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    ran = runtime("run", "--bundle", bundle.directory, bundle.id)
    assert "pci-0000" not in ran.out
