"""`make wheel`: it installs where no compiler is, works there, and nothing of it stays. In roots that are made once.

The dependencies come from the package index, as for a user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from install.emptyroot import NAME, equip, write
from install.machine import TOP
from matrix import roots
from matrix.roots import Machine

pytestmark = [pytest.mark.engine, pytest.mark.nightly]

OURS = (
    "find",
    "/opt",
    "/usr",
    "/etc",
    "(",
    "-iname",
    "*shim*",
    "-o",
    "-name",
    "_core*.so",
    ")",
    "-not",
    "-path",
    "*/cffi/*",
)


def _wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """An empty root with a spec, a low-level runtime, and a bundle whose image has a library."""
    with Machine(roots.make(request.param)) as made:
        equip(made, "/usr/local/bin/stub")
        made.ok("mkdir", "-p", "/etc/shim/low-level")
        made.ok("ln", "-s", "/usr/local/bin/stub", "/etc/shim/low-level/shim")
        assert made.run("sh", "-c", "command -v gcc cc clang").stdout == "", "there is a compiler"
        yield made


def test_its_name_has_the_oldest_python_and_c_library(portable: Path) -> None:
    tags = _wheel(portable).stem.split("-")[2:]
    assert tags[:2] == ["cp310", "abi3"]
    assert "manylinux_2_31_x86_64" in tags[2].split(".")


@pytest.mark.parametrize("machine", ["bookworm", "trixie", "sid"], indirect=True)
def test_it_installs_works_and_leaves_nothing(portable: Path, machine: Machine) -> None:
    wheel = _wheel(portable)
    machine.copy(wheel, f"/wheels/{wheel.name}")
    machine.ok("python3", "-m", "venv", "/opt/environment")
    before = machine.ok(*OURS)
    machine.ok("/opt/environment/bin/pip", "install", "-q", f"/wheels/{wheel.name}", online=True)
    shim = "/opt/environment/bin/shim"
    assert machine.ok(shim, "version").startswith("shim ")
    assert NAME in machine.ok(shim, "cdi", "list")
    created = machine.ok(shim, "create", "--device", NAME, "--bundle", "/bundle", "c1")
    assert created == "reached: create --bundle /bundle c1\n"
    config: dict[str, Any] = json.loads((machine.upper / "bundle/config.json").read_bytes())
    assert config["process"]["env"] == ["A=1", "SHIM_TEST=one"]
    machine.ok("sh", "-c", f"{shim} hook update-ldcache --folder /opt/lib </bundle/state.json")
    assert b"libz.so.1\0" in (machine.upper / "bundle/rootfs/etc/ld.so.cache").read_bytes()
    # the netDevices hook needs what only a compiler brings: it names it
    attach = f"unshare --net {shim} hook netdevices attach lo:lo </bundle/state.json"
    refused = machine.run("sh", "-c", attach)
    assert refused.returncode == 1
    assert "/opt/environment/bin/python3 -m pip install python-prctl" in refused.stdout
    machine.ok("/opt/environment/bin/pip", "uninstall", "-q", "-y", "cdi-shim")
    assert machine.ok(*OURS) == before


@pytest.mark.parametrize("machine", ["bullseye"], indirect=True)
def test_an_older_python_is_refused_in_clear_words(portable: Path, machine: Machine) -> None:
    """Debian 11 has Python 3.9: pip, `make` and the launcher each name what is needed."""
    wheel, (archive,) = _wheel(portable), portable.glob("*.tar.gz")
    for file in (wheel, archive):
        machine.copy(file, f"/wheels/{file.name}")
    machine.ok("python3", "-m", "venv", "/opt/environment")
    pip = "/opt/environment/bin/pip"
    assert "is not a supported wheel on this platform" in machine.run(pip, "install", f"/wheels/{wheel.name}").stdout
    words = (pip, "install", f"/wheels/{archive.name}")
    text = "Python 3.10 or later is needed, and /opt/environment/bin/python3 is 3.9"
    assert text in machine.run(*words, online=True).stdout
    machine.copy(TOP / "packaging/need.sh", "/src/packaging/need.sh")
    needs = machine.run("env", "PYTHON=/usr/bin/python3", "/src/packaging/need.sh", "run")
    assert needs.returncode == 1
    assert needs.stdout == (
        "Python 3.10 or later is needed, and /usr/bin/python3 is 3.9.2: make PYTHON=/path/to/a/newer/python3\n"
    )
    machine.ok("python3", "-m", "zipfile", "-e", f"/wheels/{wheel.name}", "/opt/modules")
    machine.ok("sh", "-c", "install -D /opt/modules/*.data/scripts/shim /opt/bin/shim")
    write(machine, "/opt/lib/shim/launch", "/usr/bin/python3\n/opt/modules\n")
    assert machine.ok("/opt/bin/shim", "create", "--bundle", "/bundle", "c1") == "reached: create --bundle /bundle c1\n"
    for call in (("create", "--device", NAME, "--bundle", "/bundle", "c1"), ("cdi", "list")):
        refused = machine.run("/opt/bin/shim", *call)
        assert refused.returncode == 1
        assert "Python 3.9.2 is too old, /usr/bin/python3 must be 3.10 or later" in refused.stdout
        assert refused.stdout.endswith(" (install shim again with Python 3.10 or later)\n")
