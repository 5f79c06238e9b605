"""A host without glibc, whose only C library is musl and whose only program is busybox: the launcher needs neither."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness import programs
from matrix.roots import Machine
from unit.native.elves import library

from shim.host import ldcache

pytestmark = pytest.mark.engine

BUSYBOX, MUSL = programs.find("busybox", "/lib/ld-musl-x86_64.so.1")
CALL = ("--bundle", "/bundle", "c1")


@pytest.fixture(scope="module")
def musl(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A root with an installation whose interpreter is missing, a low-level runtime, and a bundle."""
    root = tmp_path_factory.mktemp("musl")
    for name in (
        "bin",
        "lib/shim",
        "usr/local/bin",
        "etc/shim/low-level",
        "proc",
        "dev",
        "sys",
        "run",
        "var/log",
        "tmp",
    ):
        (root / name).mkdir(parents=True)
    for name, source in (("bin/busybox", BUSYBOX), ("lib/ld-musl-x86_64.so.1", MUSL), ("bin/shim", image / "bin/shim")):
        shutil.copy(source, root / name)
    (root / "bin/sh").symlink_to("busybox")
    (root / "lib/shim/launch").write_text("/usr/bin/python3\n/usr/lib/shim\n")
    runtime = root / "usr/local/bin/stub"
    runtime.write_text('#!/bin/sh\necho "reached: $*"\n')
    runtime.chmod(0o755)
    (root / "etc/shim/low-level/shim").symlink_to("/usr/local/bin/stub")
    image_root = root / "bundle/rootfs"
    (image_root / "opt/gpu").mkdir(parents=True)
    (image_root / "etc").mkdir()
    (image_root / "opt/gpu/libg.so.1.1").write_bytes(library("libg.so.1"))
    (root / "bundle/config.json").write_text(json.dumps({"root": {"path": "rootfs"}}))
    state = {"ociVersion": "1.0.2", "id": "c1", "pid": 1, "bundle": "/bundle"}
    (root / "bundle/state.json").write_text(json.dumps(state))
    with Machine(root) as machine:
        yield machine


@pytest.mark.parametrize("verb", ["state", "create", "delete"])
def test_what_asks_for_no_device_reaches_the_runtime(musl: Machine, verb: str) -> None:
    words = (verb, *CALL) if verb == "create" else (verb, "c1")
    assert musl.ok("/bin/shim", *words) == f"reached: {' '.join(words)}\n"


def test_what_asks_for_a_device_is_refused_with_what_is_missing(musl: Machine) -> None:
    done = musl.run("/bin/shim", "create", "--device", "example.com/test=one", *CALL)
    assert done.returncode == 1
    assert done.stdout.startswith("shim: SHIM_BROKEN: /usr/")


def test_a_hook_writes_the_cache_of_an_image_with_glibc(musl: Machine) -> None:
    musl.ok("sh", "-c", "/bin/shim hook update-ldcache --folder /opt/gpu </bundle/state.json")
    cache = ldcache.decode((musl.upper / "bundle/rootfs/etc/ld.so.cache").read_bytes())
    assert [entry.key for entry in cache.entries] == ["libg.so.1"]
