"""What the fuzz targets in Python share: their command, and the file that is left of an input that failed."""

from __future__ import annotations

import argparse
import hashlib
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# seed, inputs to begin with, whether to go on, the directory of inputs that failed -> lines for people
Run = Callable[[int, list[bytes], Callable[[], bool], Path], list[str]]


@contextmanager
def kept(target: str, data: bytes, crashes: Path) -> Iterator[None]:
    """Write an input to crash-TARGET-DIGEST of a directory where the block raises an exception."""
    try:
        yield
    except Exception:
        (crashes / f"crash-{target}-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)
        raise


def lines(tally: Counter[str]) -> list[str]:
    """How often each outcome came, and the number of inputs."""
    return [*(f"{count:10} {text}" for text, count in tally.most_common()), f"{sum(tally.values())} inputs"]


def main(target: str, description: str, run: Run) -> int:
    """Replay files, or fuzz with the files of a directory to begin with; the exit status.

    Arguments:
        target: name of the module below fuzz.
        description: of its help.
        run: of the target.
    """
    parser = argparse.ArgumentParser(prog=f"python3 -m fuzz.{target}", description=description)
    parser.add_argument("files", nargs="+", type=Path, help="files, or a directory of them")
    parser.add_argument("--seconds", type=float, help="make more for so long; without it they are only read")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--crashes", type=Path, default=Path(), help="where an input goes that failed")
    given = parser.parse_args()
    paths = [path for one in given.files for path in (sorted(one.iterdir()) if one.is_dir() else [one])]
    end = time.monotonic() + (given.seconds or 0)
    print(f"seed {given.seed}", flush=True)
    try:
        report = run(given.seed, [path.read_bytes() for path in paths], lambda: time.monotonic() < end, given.crashes)
    except Exception:
        traceback.print_exc()
        return 1
    print("\n".join(report))
    return 0
