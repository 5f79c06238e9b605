"""Which low-level runtime a launcher becomes: one table, by the launcher itself, by the core, and as engines are told.

The story: there were three searches. With /usr/local/sbin/runc a link to shim, or with runc in PATH only, the launcher
executed one runtime while `shim explain` and `shim runtime configure` went by another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from unit.native.world import LAUNCHER, compile_program

from shim.engines import launcher
from shim.hooks import core
from shim.hooks._core import ffi, lib
from shim.host.host import PROGRAM_DIRECTORIES, Host

OWN = "opt/shim"  # the launcher's directory
SELF = "the launcher"  # a link to it
DIRECTORY, PLAIN = "a directory", "a file that cannot be executed"

# name of the launcher, what lies where, PATH -> the runtime
CASES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "shim takes runc": ("shim", {"usr/bin/runc": ""}, "", "/usr/bin/runc"),
    "the directories have an order": ("shim", {"usr/bin/runc": "", "usr/sbin/runc": ""}, "", "/usr/sbin/runc"),
    "runc before crun, wherever both are": (
        "shim",
        {"bin/runc": "", "usr/local/sbin/crun": ""},
        "",
        "/bin/runc",
    ),
    "crun where there is no runc": ("shim", {"usr/bin/crun": ""}, "", "/usr/bin/crun"),
    "shim-crun takes crun alone": ("shim-crun", {"usr/bin/runc": "", "bin/crun": ""}, "", "/bin/crun"),
    "shim-crun takes nothing else": ("shim-crun", {"usr/bin/runc": ""}, "", ""),
    "in a runtime's place it is the runtime behind": ("runc", {"usr/bin/runc": ""}, "", "/usr/bin/runc"),
    "a link to the launcher is passed over": (
        "shim",
        {"usr/local/sbin/runc": SELF, "usr/bin/runc": ""},
        "",
        "/usr/bin/runc",
    ),
    "and crun taken where runc is nothing else": (
        "shim",
        {"usr/local/sbin/runc": SELF, "usr/bin/crun": ""},
        "",
        "/usr/bin/crun",
    ),
    "never itself": ("shim", {"usr/local/sbin/runc": SELF, "bin/crun": SELF}, "/usr/local/sbin", ""),
    "runc in PATH only": ("shim", {"opt/bin/runc": ""}, "/opt/bin", "/opt/bin/runc"),
    "the second part of PATH": ("shim", {"opt/bin/runc": ""}, "/nowhere::/opt/bin", "/opt/bin/runc"),
    "PATH comes last, even for the name that comes first": (
        "shim",
        {"opt/bin/runc": "", "usr/bin/crun": ""},
        "/opt/bin",
        "/usr/bin/crun",
    ),
    "a relative part of PATH is none": ("shim", {"opt/bin/runc": "", "runc": ""}, "opt/bin:.:", ""),
    "itself in PATH": ("shim", {"opt/bin/runc": SELF, "opt/x/runc": ""}, "/opt/bin:/opt/x", "/opt/x/runc"),
    "a directory is no program": ("shim", {"usr/sbin/runc": DIRECTORY, "bin/runc": ""}, "", "/bin/runc"),
    "nor is a file that cannot be executed": ("shim", {"usr/sbin/runc": PLAIN, "bin/runc": ""}, "", "/bin/runc"),
    "nothing at all": ("shim", {}, "/opt/bin", ""),
}

# target of /etc/shim/low-level/NAME -> the runtime, where runc lies in /usr/bin
LINKS: dict[str, tuple[str, str]] = {
    "a link decides": ("/opt/real", "/opt/real"),
    "even to what is missing": ("/opt/missing", "/opt/missing"),
    "a relative link is wrong": ("real", ""),
    "a link to the launcher is wrong": (f"/{OWN}/shim", ""),
}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("program", tmp_path_factory.mktemp("program") / "program")


def test_the_directories_are_the_same_in_c_and_python() -> None:
    assert tuple(ffi.string(path).decode() for path in lib.program_directories) == PROGRAM_DIRECTORIES


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for directory in ("proc", OWN, "etc/shim/low-level", *(path[1:] for path in PROGRAM_DIRECTORIES)):
        (tmp_path / directory).mkdir(parents=True)
    shutil.copy(LAUNCHER, tmp_path / OWN / "shim")
    return tmp_path


def lay(tree: Path, files: dict[str, str], program: Path) -> None:
    for name, kind in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == SELF:
            path.symlink_to(os.path.relpath(tree / OWN / "shim", path.parent))
        elif kind == DIRECTORY:
            path.mkdir()
        else:
            shutil.copy(program, path)
            path.chmod(0o644 if kind == PLAIN else 0o755)


def by_launcher(tree: Path, name: str, path: str) -> str:
    """What it executes, with the tree as its root."""
    if name != "shim":
        (tree / OWN / name).symlink_to("shim")
    script = 'mount --rbind /proc "$1/proc" && cd "$1" && exec env -i PATH="$3" "$4" "$1" "/opt/shim/$2" state x'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(tree), name, path, shutil.which("chroot") or "chroot"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seen = [found for found in tree.rglob("*.seen") if "proc" not in found.relative_to(tree).parts]
    if done.returncode:
        assert "LOWLEVEL_" in done.stderr
        assert seen == []
        return done.stderr.partition("runtime ")[2].split()[0] if "LOWLEVEL_EXEC" in done.stderr else ""
    [found] = seen
    return f"/{found.relative_to(tree)}".removesuffix(".seen")


def by_core(tree: Path, name: str, path: str) -> str:
    """As `shim explain` asks for its own machine."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.chroot(tree)
        os.write(writer, core.low_level("/opt/shim/shim", name, path=path).encode())
        os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    with open(reader, encoding="utf-8") as output:
        return output.read()


def by_engines(tree: Path, name: str, path: str) -> str:
    """As `shim runtime` tells what a registered launcher becomes."""
    if not (tree / OWN / name).exists():
        (tree / OWN / name).symlink_to("shim")
    return launcher.low_level_of(Host(str(tree), environment={"PATH": path}), f"/{OWN}/{name}")


@pytest.mark.parametrize("ask", [by_launcher, by_core, by_engines])
@pytest.mark.parametrize(("name", "files", "path", "expected"), CASES.values(), ids=CASES.keys())
def test_without_a_link(
    tree: Path, program: Path, ask: object, name: str, files: dict[str, str], path: str, expected: str
) -> None:
    lay(tree, files, program)
    assert callable(ask)
    assert ask(tree, name, path) == expected


@pytest.mark.parametrize("ask", [by_launcher, by_core])
@pytest.mark.parametrize(("target", "expected"), LINKS.values(), ids=LINKS.keys())
def test_with_a_link(tree: Path, program: Path, ask: object, target: str, expected: str) -> None:
    """Engines are told where a link leads, and what is wrong with it: see tests/unit/engines."""
    lay(tree, {"usr/bin/runc": "", "opt/real": ""}, program)
    (tree / "etc/shim/low-level/shim").symlink_to(target)
    assert callable(ask)
    assert ask(tree, "shim", "") == expected


def test_the_name_of_a_link_is_that_of_the_launcher(tree: Path, program: Path) -> None:
    lay(tree, {"usr/bin/runc": "", "opt/real": ""}, program)
    (tree / "etc/shim/low-level/shim-x").symlink_to("/opt/real")
    assert [by_core(tree, name, "") for name in ("shim", "shim-x")] == ["/usr/bin/runc", "/opt/real"]


def test_something_else_in_the_place_of_the_link_is_wrong(tree: Path, program: Path) -> None:
    lay(tree, {"usr/bin/runc": ""}, program)
    (tree / "etc/shim/low-level/shim").touch()
    assert (by_core(tree, "shim", ""), by_launcher(tree, "shim", "")) == ("", "")


def test_a_launcher_that_is_gone_is_nowhere(tree: Path, program: Path) -> None:
    lay(tree, {"usr/bin/runc": ""}, program)
    (tree / OWN / "shim").unlink()
    assert core.search_low_level(f"{tree}/{OWN}/shim", "shim", path="", root=str(tree)) == "/usr/bin/runc"


def test_names_that_are_too_long_are_nowhere(tree: Path, program: Path) -> None:
    lay(tree, {"usr/bin/runc": ""}, program)
    long = "x" * 5000
    assert core.search_low_level("/x", long, path=f"/{long}", root=str(tree)) == ""
    assert core.search_low_level("/x", "shim", path=f"/{long}:/usr/bin", root=long) == ""
    assert core.low_level("/x", long) == ""
