"""Which configuration file counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.config import location

SYSTEM = ("/etc/shim/config.toml", "/etc/nvidia-container-runtime/config.toml")
ALICE = 4242


def test_the_variable_wins_over_all_places() -> None:
    assert location.candidates({b"SHIM_CONFIG": b"/x/y.toml", b"XDG_CONFIG_HOME": b"/home/a"}) == ("/x/y.toml",)
    assert location.find({b"SHIM_CONFIG": b"/x/y.toml"}) == "/x/y.toml"


@pytest.mark.rootful
def test_root_does_not_look_into_a_user_directory(trusted_path: Path) -> None:
    (trusted_path / "shim").mkdir()
    (trusted_path / "shim" / "config.toml").touch()
    assert location.candidates({b"XDG_CONFIG_HOME": bytes(trusted_path)}) == SYSTEM


ROOTLESS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from shim.config import location  # while the modules can be read: a clone may lie in a directory of root's alone
os.setgroups([]); os.setgid(4242); os.setuid(4242)
variable, path = sys.argv[2].encode().split(b"=")
print(*location.candidates({variable: path}))
"""


@pytest.mark.parametrize(("owner", "counts"), [(ALICE, True), (0, False), (4343, False)])
def test_rootless_the_directory_of_the_caller_comes_first_if_it_is_his(
    trusted_path: Path, modules: Path, owner: int, counts: bool
) -> None:
    trusted_path.chmod(0o755)
    own = trusted_path / "shim"
    own.mkdir(mode=0o755)
    os.chown(own, owner, owner)
    (own / "config.toml").touch()
    variable = f"XDG_CONFIG_HOME={trusted_path}"
    command = ["/usr/bin/python3", "-I", "-S", "-B", "-c", ROOTLESS, str(modules), variable]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    mine = (f"{own}/config.toml",) if counts else ()
    assert tuple(done.stdout.split()) == mine + SYSTEM


def test_d7_a_user_s_own_file_needs_no_variable_but_home(trusted_path: Path, modules: Path) -> None:
    """~/.config is what everybody has; XDG_CONFIG_HOME is hardly ever set, and podman hands it to no runtime."""
    trusted_path.chmod(0o755)
    own = trusted_path / ".config/shim"
    own.mkdir(parents=True)
    os.chown(own, ALICE, ALICE)
    command = ["/usr/bin/python3", "-I", "-S", "-B", "-c", ROOTLESS, str(modules), f"HOME={trusted_path}"]
    assert subprocess.check_output(command, text=True).split() == [f"{own}/config.toml", *SYSTEM]
    assert location.candidates({b"HOME": bytes(trusted_path)}) == SYSTEM, "root has none"


def test_create_loads_no_toml_without_a_file(modules: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from shim.config import location\n"
        "location.SYSTEM_FILE = location.VENDOR_FILE = '/nonexistent/x'\n"
        "assert location.load().path == ''\n"
        "assert not {'tomllib', 'tomli', 'shim.config.reader'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-I", "-S", "-B", "-c", script, str(modules)]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    assert done.returncode == 0, done.stderr
