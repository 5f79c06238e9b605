"""Writes the C source of the Python module shim.hooks._core: run by meson as `build_core.py OUTPUT HEADER...`.

What Python may call is declared once, in the headers: between the lines BEGIN and END of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

BEGIN, END = "/* cffi: begin */", "/* cffi: end */"

# Integers of a size that cffi asks the compiler for.
TYPES = "".join(f"typedef int... {name};\n" for name in ("dev_t", "ino_t", "uid_t", "gid_t", "mode_t"))


def declarations(header: str) -> str:
    """The declarations of a header that Python may use.

    Arguments:
        header: its text.
    Raises:
        ValueError: it has no such part, or one without an end.
    """
    parts = header.split(f"{BEGIN}\n")[1:]
    if not parts:
        raise ValueError(f"no line {BEGIN!r}")
    for part in parts:
        if part.count(END) != 1:
            raise ValueError(f"one line {END!r} must follow each line {BEGIN!r}")
    return "\n".join(part.partition(END)[0] for part in parts)


def main() -> None:
    """Write the source."""
    from cffi import FFI  # late: the tests of declarations() need none

    output, *headers = map(Path, sys.argv[1:])
    core = FFI()
    core.cdef(TYPES + "\n".join(declarations(header.read_text()) for header in headers))
    core.set_source("_core", "\n".join(f'#include "{header.name}"' for header in headers))
    core.emit_c_code(str(output))


if __name__ == "__main__":
    main()
