"""The files of a root's Python that `shim node install` brings to hosts: program, standard library, shared libraries.

The shared libraries are those that the program, its extension modules and the modules of shim name as needed, and those
that these need, with the loader. What depends on more than Python itself needs stays away: OpenSSL, SQLite, terminals;
hashlib and hmac then use Python's own code.

Source: elf(5), DT_NEEDED and PT_INTERP, as readelf(1) of binutils prints them.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

# Of the standard library: what no module of shim imports, nor its dependencies
LEFT_OUT = {
    *("test", "tests", "idlelib", "turtledemo", "lib2to3", "ensurepip", "distutils", "tkinter", "pydoc_data", "venv"),
    *("sqlite3", "dbm", "curses", "xmlrpc", "wsgiref", "unittest", "turtle.py", "sitecustomize.py", "LICENSE.txt"),
}
_WITHOUT = re.compile(
    r"config-3\.|EXTERNALLY-MANAGED|(_sqlite3|_tkinter|_curses|readline|_dbm|_gdbm|nis|_ssl|_hashlib)[._]"
)
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(.+)\]")
_LOADER = re.compile(r"Requesting program interpreter: (.+)\]")


def described(root: Path, version: str, others: list[Path]) -> dict[str, Any]:
    """The document of the interpreter, see shim.node.interpreter.

    Arguments:
        root: a directory with the files of a distribution; they are named without it.
        version: of Python, "3.11" for instance.
        others: further files that need libraries: the extension modules of shim.
    Raises:
        FileNotFoundError: the root lacks the Python, or a library.
    """
    program = root / f"usr/bin/python{version}"
    library = root / f"usr/lib/python{version}"
    files = {"bin/python3": program}
    for path in standard_library(library):
        files[f"lib/python{version}/{path.relative_to(library)}"] = path
    needing = [program, *(path for path in files.values() if path.suffix == ".so"), *others]
    loader, libraries = needed(root, needing)
    files |= {f"lib/{name}": path for name, path in libraries.items()}
    return {
        "program": "bin/python3",
        "loader": f"lib/{loader}",
        "files": {name: str(path.relative_to(root)) for name, path in sorted(files.items())},
    }


def standard_library(library: Path) -> list[Path]:
    """Its files, sorted, without what is left out."""
    if not library.is_dir():
        raise FileNotFoundError(f"{library} is missing")
    paths = []
    for top, directories, names in os.walk(library):
        directories[:] = sorted(name for name in directories if name not in LEFT_OUT and not _WITHOUT.match(name))
        paths += [Path(top, name) for name in sorted(names) if name not in LEFT_OUT and not _WITHOUT.match(name)]
    return paths


def needed(root: Path, paths: list[Path]) -> tuple[str, dict[str, Path]]:
    """The shared libraries that files need.

    Returns:
        the name of the loader, and the libraries by their names, the loader's included.
    """
    libraries: dict[str, Path] = {}
    loader, waiting = "", list(paths)
    while waiting:
        text = _read(waiting)
        waiting = []
        if match := _LOADER.search(text):
            loader = match[1].rpartition("/")[2]
        for name in sorted({*_NEEDED.findall(text), *([loader] if loader else [])} - libraries.keys()):
            libraries[name] = _library(root, name)
            waiting.append(libraries[name])
    return loader, libraries


def _read(paths: list[Path]) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    words = ["readelf", "--wide", "--dynamic", "--program-headers", *map(str, paths)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


def _library(root: Path, name: str) -> Path:
    """A library of the root, by the path of its own file: a name is usually a link to it."""
    for directory in ("usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/lib", "lib", "usr/lib64", "lib64"):
        for path in root.glob(f"{directory}/{name}"):
            target = path
            while target.is_symlink():  # an absolute link leads within the root
                text = str(target.readlink())
                target = root / text.lstrip("/") if text.startswith("/") else target.parent / text
            return Path(os.path.normpath(target))
    raise FileNotFoundError(f"no library {name} in {root}")
