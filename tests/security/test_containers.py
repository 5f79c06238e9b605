"""S01, S05, S06 with real runc and crun: an image that wants the host's programs to do its work finds none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from engines.harness import programs
from engines.harness.runtimes import CGROUP_MODE, Bundle, Runtime, RuntimeName
from engines.harness.sandbox import Sandbox
from unit.native.elves import library

pytestmark = pytest.mark.engine

KIND = "vendor.test/evil"
REQUEST = {"cdi.k8s.io/vendor-test_evil": f"{KIND}=one"}
EVIL_ENV = [
    "PATH=.",
    "LD_PRELOAD=./evil.so",
    "LD_LIBRARY_PATH=.",
    "LD_AUDIT=./evil.so",
    "GLIBC_TUNABLES=glibc.malloc.check=3",
    "GCONV_PATH=.",
    "PYTHONPATH=.",
    "PYTHONHOME=.",
    "PYTHONSTARTUP=./evil.py",
    "BASH_ENV=./evil.sh",
    "ENV=./evil.sh",
]


@pytest.fixture(scope="module", params=get_args(RuntimeName))
def name(request: pytest.FixtureRequest) -> RuntimeName:
    chosen: RuntimeName = request.param
    return chosen


@pytest.fixture(scope="module")
def sandbox(name: RuntimeName) -> Iterator[Sandbox]:
    with Sandbox(CGROUP_MODE[name]) as box:
        yield box


@pytest.fixture
def shim(sandbox: Sandbox) -> Path:
    assert (Path(sys.executable).parent / "shim").is_file()
    return sandbox.venv / "bin/shim"


@pytest.fixture
def runtime(sandbox: Sandbox, shim: Path, name: RuntimeName) -> Runtime:
    sandbox.reset()
    if name == "crun":
        sandbox.link_low_level("shim", programs.find("crun")[0])
    return Runtime(sandbox, shim, name)


@pytest.fixture
def canary(sandbox: Sandbox) -> Path:
    """An empty directory of the host, in which nothing may appear."""
    place = sandbox.scratch / "canary"
    place.mkdir(exist_ok=True)
    for path in place.iterdir():
        path.unlink()
    return place


def spoil(root: Path, canary: Path) -> None:
    """Put into an image whatever programs load or run that let the environment or the working directory decide."""
    source = Path(__file__).with_name("preload.c")
    subprocess.run(["gcc", "-shared", "-fPIC", f'-DCANARY="{canary}"', "-o", root / "evil.so", source], check=True)
    shell = f"#!/bin/sh\n: > {canary}/shell-$$\n"
    programs = ["evil.sh", "true", "ls", "bash", "sh", "sbin/ldconfig", "sbin/ldconfig.real", "usr/bin/nvidia-cdi-hook"]
    for path in programs:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(shell)
        (root / path).chmod(0o755)
    python = f"import os\nopen('{canary}/python-%d' % os.getpid(), 'w')\n"
    for module in ("evil.py", "sitecustomize.py", "usercustomize.py", "json.py", "encodings/__init__.py"):
        (root / module).parent.mkdir(parents=True, exist_ok=True)
        (root / module).write_text(python)
    (root / "etc/ld.so.preload").write_text("/evil.so\n")


def hooks_of(sandbox: Sandbox, shim: Path) -> list[dict[str, Any]]:
    """One of ours, and four of somebody else who thought of no environment.

    Python gets a file: with -c it would look for modules in its working directory, which under runc is the image. All
    read the state, since crun fails when it is faster in writing than a hook that does not is in ending.
    """
    (sandbox.scratch / "host/hook.py").write_text("import json, sys\njson.load(sys.stdin)\n")
    read = "while read -r line; do :; done"
    ours = [
        "create-symlinks",
        "enable-cuda-compat",
        "update-ldcache",
        "update-application-profile",
        "disable-device-node-modification",
    ]
    words = ["--folder", "/opt", "--link", "x::/opt/y", "--host-driver-version", "550.1"]
    commands = [
        (str(shim), ["shim", "hook", *ours, *words]),
        ("/usr/bin/dd", ["dd", "of=/dev/null", "status=none"]),
        ("/usr/bin/python3", ["python3", f"{sandbox.host}/hook.py"]),
        ("/bin/bash", ["bash", "-c", f"{read}; true"]),
        ("/bin/sh", ["sh", "-c", f"{read}; ls > /dev/null"]),
    ]
    return [{"path": path, "args": args} for path, args in commands]


def publish(sandbox: Sandbox, edits: dict[str, Any]) -> None:
    """A spec with one device; its hooks are left to the start, which is what is looked at here."""
    (sandbox.scratch / "etc-shim/config.toml").write_text('[hooks]\nfold = "off"\n')
    spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": "one", "containerEdits": edits}]}
    (sandbox.scratch / "etc-cdi/evil.json").write_text(json.dumps(spec))


def evil_bundle(sandbox: Sandbox, name: str, canary: Path) -> Bundle:
    bundle = Bundle(sandbox, name, "echo started", annotations=REQUEST)
    spoil(bundle.directory / "rootfs", canary)
    config = bundle.config()
    config["process"]["env"] = EVIL_ENV
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    return bundle


# --- S06 and S05: nothing of the image is loaded or run ---


def test_no_hook_loads_or_runs_anything_of_the_image(
    sandbox: Sandbox, runtime: Runtime, shim: Path, canary: Path
) -> None:
    publish(sandbox, {"hooks": [{"hookName": "createContainer", **hook} for hook in hooks_of(sandbox, shim)]})
    bundle = evil_bundle(sandbox, f"preload-{runtime.name}", canary)
    ran = runtime("run", "--bundle", bundle.directory, bundle.id)
    assert ran.ok() == "started\n"
    assert len(bundle.config()["hooks"]["createContainer"]) == len(hooks_of(sandbox, shim))
    assert sorted(canary.iterdir()) == []


def test_our_hook_obeys_nothing_even_with_the_image_s_environment(
    sandbox: Sandbox, runtime: Runtime, shim: Path, canary: Path
) -> None:
    """Without the shim's create: the entry stands in config.json as a careless engine would write it."""
    bundle = evil_bundle(sandbox, f"bare-{runtime.name}", canary)
    config = bundle.config()
    config["hooks"] = {"createContainer": [{**hooks_of(sandbox, shim)[0], "env": EVIL_ENV}]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    plain = Runtime(sandbox, programs.find(runtime.name)[0], runtime.name)
    assert plain("run", "--bundle", bundle.directory, bundle.id).ok() == "started\n"
    assert sorted(canary.iterdir()) == []


@pytest.mark.parametrize("number", range(1, 5))
def test_the_canary_sees_each_foreign_hook_that_is_started_carelessly(
    sandbox: Sandbox, runtime: Runtime, shim: Path, canary: Path, number: int
) -> None:
    """The control: the same hook with the image's environment, which runc gives to hooks that name none."""
    bundle = evil_bundle(sandbox, f"careless-{number}-{runtime.name}", canary)
    config = bundle.config()
    hook = {**hooks_of(sandbox, shim)[number], "env": [name for name in EVIL_ENV if not name.startswith("PYTHONHOME")]}
    words = ["sh", "-c", 'cd "$0" && exec "$@"', str(bundle.directory / "rootfs"), hook["path"], *hook["args"][1:]]
    config["hooks"] = {"createContainer": [{"path": "/bin/sh", "args": words, "env": hook["env"]}]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    plain = Runtime(sandbox, programs.find(runtime.name)[0], runtime.name)
    plain("run", "--bundle", bundle.directory, bundle.id)
    assert sorted(canary.iterdir()) != []


# --- S01: a path of the image is never the source of a mount ---

COMPAT = "usr/local/cuda/compat"


def link_to(target: str) -> Any:
    def make(path: Path) -> None:
        path.symlink_to(target)

    return make


def chain(path: Path) -> None:
    (path.parent / "one").symlink_to("two")
    (path.parent / "two").symlink_to("/" + "../" * 8)
    path.symlink_to("one")


def directory_then_file(path: Path) -> None:
    path.mkdir()
    (path / "libcuda.so.999.1").symlink_to("/../../../../../../etc/passwd")
    (path / "libcuda.so.1").symlink_to("/proc/1/root/etc/passwd")


IMAGES = {
    "an absolute link": link_to("/"),
    "a relative link": link_to("../" * 30),
    "a link by way of /proc": link_to("/proc/self/root"),
    "another process's root": link_to("/proc/1/root"),
    "a chain": chain,
    "files in a directory": directory_then_file,
}


def mounts(sandbox: Sandbox, runtime: Runtime, name: str, make: Any, hook: dict[str, Any]) -> list[tuple[str, str]]:
    """Where from and where to: the mounts of a container whose image has this in the place of the compat directory."""
    script = "cat /proc/self/mountinfo; echo end"
    bundle = Bundle(sandbox, f"{name.replace(' ', '-').replace('/', '-').replace(chr(39), '')}-{runtime.name}", script)
    root = bundle.directory / "rootfs"
    (root / COMPAT).parent.mkdir(parents=True)
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    if make:
        make(root / COMPAT)
    else:
        (root / COMPAT).mkdir()
        (root / COMPAT / "libcuda.so.999.1").write_bytes(library("libcuda.so.1"))
    config = bundle.config()
    config["hooks"] = {"createContainer": [{**hook, "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"ROOT={root}"]}]}
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    out = runtime("run", "--bundle", bundle.directory, bundle.id).ok()
    assert out.endswith("end\n")
    found = []
    for line in out.splitlines()[:-1]:
        fields = line.split()
        source = fields[3].replace(str(bundle.directory), "BUNDLE").replace(bundle.id, "ID")
        found.append((source, fields[4]))
    return sorted(found)


@pytest.mark.parametrize("image", list(IMAGES))
def test_what_is_mounted_does_not_depend_on_the_image(
    sandbox: Sandbox, runtime: Runtime, shim: Path, image: str
) -> None:
    hook = hooks_of(sandbox, shim)[0]
    honest = mounts(sandbox, runtime, f"honest {image}", None, hook)
    assert mounts(sandbox, runtime, f"evil {image}", IMAGES[image], hook) == honest


@pytest.mark.parametrize("image", ["an absolute link", "a relative link", "a chain"])
def test_who_mounts_what_the_image_names_is_seen(sandbox: Sandbox, runtime: Runtime, image: str) -> None:
    """The control: a hook that mounts the image's directory, as the one did that CVE-2024-0132 is about."""
    script = f'cat > /dev/null; mount --bind "$ROOT/{COMPAT}" "$ROOT/opt"'
    hook = {"path": "/bin/sh", "args": ["sh", "-c", script]}
    honest = mounts(sandbox, runtime, f"naive honest {image}", None, hook)
    assert mounts(sandbox, runtime, f"naive evil {image}", IMAGES[image], hook) != honest
