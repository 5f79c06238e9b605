"""Start: which part of shim a call of Python is for. HOT.

shim/__main__.py has only what must come before any module, since it is compiled each time.
"""

from __future__ import annotations

import sys

from shim.base.execute import let_interrupts_through

if sys.hexversion < 0x030A0000:  # some modules can be loaded by an older Python, and fail later with a riddle
    raise ImportError(f"Python {sys.version.split()[0]} is too old, {sys.executable} must be 3.10 or later")

# Directories of the libraries, where they are not beside the package: packaging/meson_install.py writes them here. They
# come last, so nothing there stands before a module of Python's own.
LIBRARIES: tuple[str, ...] = ()

# Part -> its module; for all others the command line
PARTS = {
    "create": "shim.create",
    "precreate": "shim.create.precreate",
    "netdevices": "shim.hooks.netdevices",
    "gate": "shim.gate.serve",
}


def main(part: str, words: list[str]) -> None:
    """Run a part of shim.

    Arguments:
        part: "create", "precreate", "netdevices", "gate" or "cli".
        words: what the launcher hands over to it (shim.create.invocation), or a command line.
    """
    if words[:1] == ["sigint=held"]:
        del words[0]
        let_interrupts_through()
    sys.path += LIBRARIES
    module = PARTS.get(part, "shim.cli")
    __import__(module)
    sys.modules[module].main(words)
