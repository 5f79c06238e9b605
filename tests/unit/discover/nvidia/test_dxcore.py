"""libdxcore is asked in a child process: a library of ours answers, hangs, crashes or refuses."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from shim.discover.nvidia import dxcore
from shim.discover.nvidia.dxcore import Adapter
from shim.host.host import Host
from shim.host.tree import Tree

SOURCE = Path(__file__).with_name("stub_dxcore.c")
STORE = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef"
TWO = f'{{3100, "/usr/lib/wsl/drivers/iigd"}}, {{2600, "{STORE}"}}'


def build(directory: Path, *macros: str, adapters: str = TWO) -> Path:
    path = directory / "libdxcore.so"
    options = [f"-D{macro}" for macro in (*macros, f"ADAPTERS={adapters}")]
    subprocess.run(["cc", "-shared", "-fPIC", "-w", *options, "-o", path, SOURCE], check=True)
    return path


def adapters(library: Path) -> tuple[Adapter, ...] | str:
    host = Host()
    return dxcore.adapters(host, Tree(host), str(library))


@pytest.mark.parametrize("macros", [(), ("OLD",)])
def test_adapters_come_with_version_and_store(macros: tuple[str, ...], trusted_path: Path) -> None:
    intel, nvidia = (Adapter(3100, "/usr/lib/wsl/drivers/iigd"), Adapter(2600, STORE))
    assert adapters(build(trusted_path, *macros)) == (intel, nvidia)
    assert (intel.is_usable, nvidia.is_usable) == (True, False)


def test_an_adapter_that_refuses_is_no_obstacle(trusted_path: Path) -> None:
    assert adapters(build(trusted_path, adapters=f'{{0, ""}}, {{3000, "{STORE}"}}')) == (
        Adapter(0, ""),
        Adapter(3000, STORE),
    )
    message = adapters(build(trusted_path, adapters='{0, ""}'))
    assert "D3DKMTQueryAdapterInfo failed with status 0xc0000001 for each of 1 adapters" in message


@pytest.mark.parametrize(
    ("macro", "message"),
    [("CRASHES", "it crashed (SIGSEGV)"), ("REFUSES", "D3DKMTEnumAdapters3 failed with status 0xc0000001")],
)
def test_a_library_that_fails_is_named_with_the_cause(macro: str, message: str, trusted_path: Path) -> None:
    library = build(trusted_path, macro)
    assert adapters(library) == f"{library}: {message}"


def test_a_library_that_hangs_is_left_at_the_limit(trusted_path: Path) -> None:
    library = build(trusted_path, "HANGS")
    before = time.monotonic()
    assert dxcore.ask(Host(), str(library), limit=0.5) == "no answer within 0.5 s"
    assert time.monotonic() - before < 10


def test_what_is_no_library_cannot_be_loaded(trusted_path: Path) -> None:
    (trusted_path / "libdxcore.so").write_text("x")
    assert "libdxcore.so cannot be loaded: " in adapters(trusted_path / "libdxcore.so")


def test_a_library_that_others_can_change_is_not_loaded(trusted_path: Path) -> None:
    library = build(trusted_path, "CRASHES")
    library.chmod(0o777)
    assert "libdxcore.so is not loaded: " in adapters(library)


def test_no_library_of_another_machine_is_loaded(trusted_path: Path) -> None:
    build(trusted_path, "CRASHES")
    host = Host(str(trusted_path))
    message = dxcore.adapters(host, Tree(host), "/libdxcore.so")
    assert message == "/libdxcore.so: no library of another machine is loaded"
