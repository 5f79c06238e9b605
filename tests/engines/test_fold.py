"""A driver's hooks, done by create or left to the start, by runc and crun: the container finds every library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engines.harness.driver import ANNOTATIONS, FOLDER, LINK, SONAMES, Driver, hook_words, made
from engines.harness.podman import Podman
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Result, Sandbox

pytestmark = pytest.mark.engine

MODES = ("folded", "hook")
ALL = [*SONAMES, LINK]
OPENED = f"opened {len(ALL)}\n"
OPEN = f"/bin/open {' '.join(ALL)}"


@pytest.fixture(scope="module")
def driver(sandbox: Sandbox) -> Driver:
    return Driver(sandbox)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, driver: Driver, shim: Path) -> str:
    """Who does the hook's work."""
    driver.publish(shim, hook_words(), fold="ours" if request.param == "folded" else "off")
    chosen: str = request.param
    return chosen


def bundle_of(sandbox: Sandbox, runtime: Runtime, name: str, script: str, *, read_only: bool = False) -> Bundle:
    bundle = Bundle(sandbox, f"{name}-{runtime.name}", script, annotations=ANNOTATIONS)
    config = bundle.config()
    config["root"]["readonly"] = read_only
    bundle.file.write_text(json.dumps(config))
    return bundle


def run(runtime: Runtime, bundle: Bundle) -> Result:
    return runtime("run", "--bundle", bundle.directory, bundle.id)


def check_mode(driver: Driver, bundle: Bundle, mode: str) -> None:
    """The hook is in config.json if and only if create has not done its work."""
    assert driver.folded() == (["create-symlinks", "update-ldcache"] if mode == "folded" else [])
    assert ("hooks" in bundle.config()) == (mode == "hook")


def test_every_library_is_found_and_five_starts_leave_what_one_leaves(
    sandbox: Sandbox, runtime: Runtime, driver: Driver, mode: str
) -> None:
    bundle = bundle_of(sandbox, runtime, f"all-{mode}", f"{OPEN}; /sbin/ldconfig -p")
    driver.put_glibc(bundle.directory / "rootfs")
    ran = run(runtime, bundle)
    assert ran.err == ""
    assert ran.ok().startswith(OPENED)
    # as it is in the mount namespace, the hook's way: the links are there, and ldconfig finds the same as we did
    listed = {line.split()[0]: line.split()[-1] for line in ran.out.splitlines() if " => " in line}
    assert {listed.get(soname) for soname in ALL} == {f"{FOLDER}/{soname}" for soname in ALL}
    check_mode(driver, bundle, mode)
    before = made(bundle.directory)
    for _ in range(4):
        assert run(runtime, bundle).ok() == ran.out
    assert made(bundle.directory) == before


def test_both_ways_leave_the_same_tree(sandbox: Sandbox, runtime: Runtime, driver: Driver, shim: Path) -> None:
    trees = []
    for mode, fold in zip(MODES, ("ours", "off"), strict=True):
        driver.publish(shim, hook_words(), fold=fold)
        bundle = bundle_of(sandbox, runtime, f"same-{mode}", OPEN)
        driver.put_glibc(bundle.directory / "rootfs")
        assert run(runtime, bundle).ok() == OPENED
        check_mode(driver, bundle, mode)
        trees.append(made(bundle.directory / "rootfs"))
        for file in driver.files.iterdir():  # the mount points: crun makes them with another mode than we and runc do
            trees[-1][f"{FOLDER[1:]}/{file.name}"] = None
    assert trees[0] == trees[1]


def test_a_vendor_s_spec_is_folded_where_the_configuration_says_so(
    sandbox: Sandbox, runtime: Runtime, driver: Driver
) -> None:
    """Its program is not even there any more: a file of its name, which fails, shows that nobody starts it."""
    program = sandbox.host / "nvidia-cdi-hook"
    (sandbox.scratch / "host/nvidia-cdi-hook").write_text("#!/bin/sh\nexit 1\n")
    (sandbox.scratch / "host/nvidia-cdi-hook").chmod(0o755)
    for fold, starts in (("ours", False), ("known", True)):
        driver.publish(program, hook_words("nvidia-cdi-hook"), fold=fold)
        bundle = bundle_of(sandbox, runtime, f"vendor-{fold}", OPEN)
        driver.put_glibc(bundle.directory / "rootfs")
        ran = run(runtime, bundle)
        assert (ran.status == 0, ran.out) == (starts, OPENED if starts else "")


def test_a_read_only_root(sandbox: Sandbox, runtime: Runtime, driver: Driver, mode: str) -> None:
    """runc makes it read-only after its hooks, crun before: there only create comes early enough."""
    bundle = bundle_of(sandbox, runtime, f"ro-{mode}", OPEN, read_only=True)
    driver.put_glibc(bundle.directory / "rootfs")
    ran = run(runtime, bundle)
    works = mode == "folded" or runtime.name == "runc"
    assert ran.ok().endswith(OPENED if works else "opened 0\n")
    assert ran.err == ""  # crun shows nothing of what hooks say


@pytest.mark.parametrize("read_only", [True, False])
def test_by_default_create_does_what_a_hook_could_not(
    sandbox: Sandbox, runtime: Runtime, driver: Driver, shim: Path, read_only: bool
) -> None:
    """Every library is found in both; elsewhere than in a read-only root the hook is as fast, and runs."""
    driver.publish(shim, hook_words(), fold="auto")
    bundle = bundle_of(sandbox, runtime, f"auto-{read_only}", OPEN, read_only=read_only)
    driver.put_glibc(bundle.directory / "rootfs")
    ran = run(runtime, bundle)
    assert ran.ok().endswith(OPENED)
    check_mode(driver, bundle, "folded" if read_only else "hook")


def test_a_root_without_configuration_of_the_loader(
    sandbox: Sandbox, runtime: Runtime, driver: Driver, mode: str
) -> None:
    """As distroless images are: a libc, and nothing in /etc that speaks of it."""
    bundle = bundle_of(sandbox, runtime, f"distroless-{mode}", OPEN)
    driver.put_glibc(bundle.directory / "rootfs", ldconfig=False)
    ran = run(runtime, bundle)
    assert (ran.ok(), ran.err) == (OPENED, "")


def test_a_root_with_musl(sandbox: Sandbox, runtime: Runtime, driver: Driver, mode: str) -> None:
    """Its loader reads no cache but a list of directories, and finds the soname links in them."""
    bundle = bundle_of(sandbox, runtime, f"musl-{mode}", "/bin/musl && echo started")
    driver.put_musl(bundle.directory / "rootfs")
    ran = run(runtime, bundle)
    assert (ran.ok(), ran.err) == ("started\n", "")


HOSTILE = """
ln -s {canary}/file etc/ld.so.cache
mkfifo etc/ld.so.conf
ln -s {canary} etc/ld.so.conf.d
mkdir -p opt/driver etc/.cdi-shim~0
ln -s {canary}/file opt/driver/libdriver0.so.0
mkfifo opt/driver/libdriver1.so.1 lib/libpipe.so.1
mkdir opt/driver/libdriver2.so.2
ln -s {canary}/file opt/driver/libdriver.so
ln -s {canary}/made opt/driver/libdriver3.so.0
"""


def test_what_an_image_puts_in_our_way_harms_nobody(
    sandbox: Sandbox, runtime: Runtime, driver: Driver, mode: str
) -> None:
    """Links to the host, FIFOs and directories where we write: the container starts, the host is as before."""
    canary = sandbox.scratch / f"canary-{mode}"
    canary.mkdir()
    (canary / "file").write_text("as before\n")
    bundle = bundle_of(sandbox, runtime, f"hostile-{mode}", "echo started")
    root = bundle.directory / "rootfs"
    driver.put_glibc(root, ldconfig=False)
    sandbox.run("/bin/sh", "-ec", HOSTILE.format(canary=canary), cwd=root).ok()
    before = made(canary)
    assert run(runtime, bundle).ok() == "started\n"
    assert made(canary) == before


# --- user namespaces ------------------------------------------------------------------------------------------------

# whatever we made in the container, by owner and mode, as it is seen in there; and whether somebody else may read it
SEEN = f"""
for f in /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d/00-cdi-shim.conf; do
    stat -c '%u %g %a' $f; cat $f > /dev/null || echo unreadable
done
stat -c '%u %g %a' /etc/ld.so.conf.d {FOLDER}
stat -c '%u %g' {FOLDER}/{SONAMES[0]} {FOLDER}/{LINK}
"""
OURS = ["0 0 644"] * 3 + ["0 0 755"] * 2 + ["0 0"] * 2


@pytest.mark.parametrize("reader", [[], ["--user=1000"]], ids=["as it is", "uid 1000"])
def test_what_is_made_belongs_to_the_container_s_root(
    podman: Podman, sandbox: Sandbox, mode: str, reader: list[str]
) -> None:
    options = ["--userns=keep-id"] if podman.rootless else ["--uidmap=0:100000:60000", "--gidmap=0:100000:60000"]
    request = [f"--annotation={key}={value}" for key, value in ANNOTATIONS.items()]
    ran = podman.run("--rm", *options, *reader, *request, script=SEEN)
    assert ran.ok().splitlines() == OURS
    log = sandbox.scratch / ("host/own/shim/log" if podman.rootless else "log/shim.log")
    folded = json.loads(log.read_text().splitlines()[-1])["folded"]
    assert folded == (["create-symlinks", "update-ldcache"] if mode == "folded" else [])
