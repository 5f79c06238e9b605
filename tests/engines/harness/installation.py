"""The launcher as `make install` places it, with an interpreter that notes each of its starts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import shim

from .sandbox import Sandbox

INTERPRETER = """#!/bin/sh
echo "$*" >> NOTES
exec PYTHON "$@"
"""


class Installation:
    """A directory of root's with `bin/shim` and `lib/shim/launch`; the modules are those of the environment under test.

    Only the launcher starts this interpreter, so that what is not in its notes never was Python.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        launcher = Path(sys.executable).parent / "shim"
        assert launcher.is_file(), f"{launcher} is missing: install the project into this environment first"
        self._top = sandbox.scratch / "host/installed"
        self._inside = sandbox.host / "installed"
        self._notes = sandbox.scratch / "tmp/python-starts"
        self._notes.touch()
        self._notes.chmod(0o666)  # a rootless engine's runtime is nobody in particular
        for name in ("bin", "lib/shim"):
            (self._top / name).mkdir(parents=True)
        shutil.copy(launcher, self._top / "bin/shim")
        text = INTERPRETER.replace("NOTES", str(self._notes)).replace("PYTHON", f"{sandbox.venv}/bin/python3")
        (self._top / "lib/shim/python").write_text(text)
        (self._top / "lib/shim/python").chmod(0o755)
        modules = sandbox.venv / Path(shim.__file__).parent.parent.relative_to(sys.prefix)
        (self._top / "lib/shim/launch").write_text(f"{self._inside}/lib/shim/python\n{modules}\n")

    @property
    def launcher(self) -> Path:
        """The launcher, by its path inside."""
        return self._inside / "bin/shim"

    def link(self, name: str) -> Path:
        """A link of that name to the launcher, beside it; its path inside."""
        (self._top / "bin" / name).symlink_to("shim")
        return self._inside / "bin" / name

    @contextmanager
    def without(self, what: str) -> Iterator[None]:
        """Meanwhile the interpreter is missing ("interpreter"), or a module that each create needs ("module")."""
        launch = self._top / "lib/shim/launch"
        whole = launch.read_text(encoding="utf-8")
        interpreter, modules = whole.splitlines()
        if what == "interpreter":
            interpreter = f"{interpreter}-missing"
        else:
            copy = self._top / "lib/shim/damaged"
            if not copy.exists():
                left_out = shutil.ignore_patterns("hot", "rules.py", "__pycache__")
                shutil.copytree(Path(shim.__file__).parent, copy / "shim", ignore=left_out)
            modules = f"{self._inside}/lib/shim/damaged"
        launch.write_text(f"{interpreter}\n{modules}\n", encoding="utf-8")
        try:
            yield
        finally:
            launch.write_text(whole, encoding="utf-8")

    def forget(self) -> None:
        """Begin the notes anew."""
        self._notes.write_bytes(b"")

    def starts(self) -> list[str]:
        """The command line of each start of Python since then, without the interpreter."""
        lines = self._notes.read_text(encoding="utf-8").splitlines()  # a question has several
        return [line for line in lines if line.startswith("-I -S -B ")]
