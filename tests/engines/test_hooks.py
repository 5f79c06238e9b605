"""Hooks in containers of real runc and crun: the image's own loader finds injected libraries by name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Result, Sandbox

from shim.host import ldcache

pytestmark = pytest.mark.engine

LIBRARIES = [f"libdriver{i}.so.{i % 3}" for i in range(30)]
SCRIPT = f"LD_PRELOAD='{' '.join(LIBRARIES)}' /bin/dynamic && echo started"


@pytest.fixture(scope="module")
def driver(sandbox: Sandbox) -> Path:
    """Thirty libraries under the names that their files have on a host: no soname link among them."""
    folder = sandbox.scratch / "driver"
    folder.mkdir()
    source = folder / "driver.c"
    source.write_text("int driver(void) { return 1; }\n")
    common = folder / "driver.o"
    subprocess.run(["gcc", "-fPIC", "-c", "-o", common, source], check=True)
    for soname in LIBRARIES:
        subprocess.run(
            ["gcc", "-shared", f"-Wl,-soname,{soname}", "-o", folder / f"{soname}.550.1", common], check=True
        )
    source.unlink()
    common.unlink()
    return folder


def with_libc(root: Path) -> None:
    """Give a root the host's libc and one program that needs it."""
    shutil.copy("/bin/true", root / "bin/dynamic")
    told = subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True, check=True).stdout
    for file in re.findall(r"(/\S+) \(0x", told):
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file[1:])


def start(
    sandbox: Sandbox,
    runtime: Runtime,
    shim: Path,
    driver: Path,
    name: str,
    hook: list[str],
    *,
    read_only: bool = False,
    stage: str = "createContainer",
) -> tuple[Result, Bundle]:
    """Run a container with the driver's files mounted one by one, as a spec lists them, and a hook."""
    bundle = Bundle(sandbox, f"{name}-{runtime.name}", SCRIPT)
    with_libc(bundle.directory / "rootfs")
    config: dict[str, Any] = bundle.config()
    config["root"]["readonly"] = read_only
    config["mounts"] += [
        {
            "destination": f"/opt/driver/{file.name}",
            "source": str(file),
            "type": "bind",
            "options": ["ro", "nosuid", "nodev", "bind"],
        }
        for file in sorted(driver.iterdir())
    ]
    if hook:
        entry = {"path": str(shim), "args": hook, "env": ["PATH=/usr/bin"], "timeout": 20}
        config["hooks"] = {stage: [entry]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    return runtime("run", "--bundle", bundle.directory, bundle.id), bundle


HOOKS = {
    "ours": ["shim", "hook", "update-ldcache", "--folder", "/opt/driver"],
    "the-vendor-s": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/opt/driver"],
}


@pytest.mark.parametrize("stage", ["createContainer", "createRuntime", "prestart"])
@pytest.mark.parametrize("form", list(HOOKS))
def test_every_library_is_found_by_its_soname(
    sandbox: Sandbox, runtime: Runtime, shim: Path, driver: Path, form: str, stage: str
) -> None:
    """In the earlier stages the hook runs on the host, where the container's mounts are not to be seen."""
    ran, bundle = start(sandbox, runtime, shim, driver, f"find-{form}-{stage}", HOOKS[form], stage=stage)
    assert (ran.ok(), ran.err) == ("started\n", "")
    cache = ldcache.decode((bundle.directory / "rootfs/etc/ld.so.cache").read_bytes())
    assert {entry.key for entry in cache.entries} >= set(LIBRARIES)


def test_without_the_hook_none_is_found(sandbox: Sandbox, runtime: Runtime, shim: Path, driver: Path) -> None:
    """The test above can fail."""
    ran, _ = start(sandbox, runtime, shim, driver, "no-hook", [])
    assert ran.err.count("cannot be preloaded") == len(LIBRARIES)


def test_a_read_only_root_starts(sandbox: Sandbox, runtime: Runtime, shim: Path, driver: Path) -> None:
    """runc makes the root read-only after the hook, crun before it: then there is a warning and no cache."""
    ran, _ = start(sandbox, runtime, shim, driver, "read-only", HOOKS["ours"], read_only=True)
    assert ran.ok() == "started\n"
    assert ran.err.count("cannot be preloaded") == (0 if runtime.name == "runc" else len(LIBRARIES))


def test_an_image_s_fifo_holds_no_container_up(sandbox: Sandbox, runtime: Runtime, shim: Path) -> None:
    """The loader's configuration in the image is a FIFO: a hook that opens it plainly never comes back."""
    root = sandbox.scratch / "bundles" / f"fifo-{runtime.name}" / "rootfs"
    bundle = Bundle(sandbox, f"fifo-{runtime.name}", "echo started")
    subprocess.run(["mkfifo", root / "etc/ld.so.conf", root / "lib/libpipe.so.1"], check=True)
    config = bundle.config()
    config["hooks"] = {"createContainer": [{"path": str(shim), "args": HOOKS["ours"], "env": ["PATH=/usr/bin"]}]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    assert runtime("run", "--bundle", bundle.directory, bundle.id).ok() == "started\n"


def test_a_hook_in_a_user_namespace_does_without_a_config_that_it_cannot_read(
    sandbox: Sandbox, runtime: Runtime, shim: Path, driver: Path
) -> None:
    """It belongs to the host's root alone. The hook gave up, although crun's state has the container's root.

    runc's has none: there the error says what could not be read.
    """
    bundle = Bundle(sandbox, f"userns-{runtime.name}", SCRIPT)
    root = bundle.directory / "rootfs"
    with_libc(root)
    shutil.copytree(driver, root / "opt/driver")
    for path in [root, *root.rglob("*")]:
        os.chown(path, 300_000, 300_000, follow_symlinks=False)
    config = bundle.config()
    config["root"]["readonly"] = False
    mapping = [{"containerID": 0, "hostID": 300_000, "size": 65536}]
    config["linux"].update(uidMappings=mapping, gidMappings=mapping)
    config["linux"]["namespaces"].append({"type": "user"})
    config["hooks"] = {"createContainer": [{"path": str(shim), "args": HOOKS["ours"], "env": ["PATH=/usr/bin"]}]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    bundle.file.chmod(0o600)
    ran = runtime("run", "--bundle", bundle.directory, bundle.id)
    if runtime.name == "crun":
        assert (ran.ok(), ran.err) == ("started\n", "")
        assert (root / "etc/ld.so.cache").stat().st_uid == 300_000
    else:
        assert f"cannot read {bundle.file}" in ran.err
