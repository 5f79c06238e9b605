"""The environment is handed on as it came."""

from __future__ import annotations

import os
import sys

from hypothesis import given
from hypothesis import strategies as st

from shim.base.execute import Environment

NAME = st.binary(min_size=1, max_size=12).filter(lambda name: not set(name) & set(b"=\0"))
VALUE = st.binary(max_size=12).filter(lambda value: b"\0" not in value)


def _renamed(name: bytes) -> bytes:
    """What the launcher does (native/python.c)."""
    return b"SHIM_KEEP_" + name if name == b"LC_ALL" or name.startswith((b"LD_", b"SHIM_KEEP_")) else name


@given(st.lists(st.tuples(NAME, VALUE)))
def test_order_duplicates_and_bytes_stay_and_the_renaming_is_undone(pairs: list[tuple[bytes, bytes]]) -> None:
    entries = [*(_renamed(name) + b"=" + value for name, value in pairs), b"LC_ALL=C"]
    block = b"".join(entry + b"\0" for entry in entries)
    environment = Environment(block)
    assert list(zip(environment.keys(), environment.values(), strict=True)) == pairs


def test_execve_takes_it_with_its_duplicates() -> None:
    """The reason for the class: a dict would lose the second A."""
    block = b"B=2\0A=1\0A=3\0SHIM_KEEP_LD_PRELOAD=x\0"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        show = "import sys; sys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())"
        command = ["/usr/bin/python3", "-I", "-S", "-c", show]
        os.execve(command[0], command, Environment(block))  # type: ignore[arg-type]  # a mapping as far as execve looks
    os.close(write)
    with open(read, "rb") as output:
        assert output.read() == b"B=2\0A=1\0A=3\0LD_PRELOAD=x\0"
    assert os.waitpid(child, 0)[1] == 0
    assert sys.executable
