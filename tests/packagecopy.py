"""Copies of the installed package, to be damaged."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import shim

PACKAGE = Path(shim.__file__).parent


def copy_package(directory: Path, *left_out: str) -> Path:
    """Copy the package into a directory, with what reads its configuration; the copy.

    Arguments:
        directory: one that root alone can write, or the copy does not count.
        left_out: patterns of names that are not copied.
    """
    shutil.copytree(PACKAGE, directory / "shim", ignore=shutil.ignore_patterns(*left_out))
    if sys.version_info < (3, 11):  # tomli, and the library that its wheel is compiled into
        modules = PACKAGE.parent
        for path in (modules / "tomli", *modules.glob("*__mypyc*.so")):
            (directory / path.name).symlink_to(path)
    return directory / "shim"
