"""Run the vector files of a directory: `python -m tests.conformance [-v] [DIR]`, also `make conformance VECTORS=DIR`.

One line a file, last a line `N passed, N failed`; exit status 1 when anything failed or nothing was run. A vector file
is recognised by its name or else by what its cases ask; any other .json file gets a line and is not run. Not compared:
`schema` in specs.json, which is what another, separate check of the reference says, flaws included, and
`expect_v1.1.0`, which is for information. What a deviation may be is said in shim/cdi/deviations.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .runner import run_directory

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="conformance", description="Compare the library with vector files.")
    parser.add_argument("directory", nargs="?", type=Path, default=HERE / "vectors", help="where the files are")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every failed case, not the first few")
    given = parser.parse_args(arguments)
    if not given.directory.is_dir():
        parser.error(f"{given.directory} is not a directory")
    passed, failed = run_directory(given.directory, print, verbose=given.verbose)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
