"""A path of an image that is one thing at one moment and a link to the host at the next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from security import evilroot
from security.stage import Stage
from unit.native.elves import library

FLIPPER = Path(__file__).with_name("flipper.py")


@contextmanager
def flipping(stage: Stage, place: str) -> Iterator[None]:
    """Exchange this path of the stage's image with a link to a copy of it outside, all the time."""
    honest, evil = stage.root / place, stage.root / "evil"
    target = stage.victim / "target"
    if honest.is_dir():
        shutil.copytree(honest, target, symlinks=True)
        (target / evilroot.FOREIGN).write_bytes(library(evilroot.FOREIGN))
    else:
        honest.touch()
        target.write_text("the victim's")
    evil.symlink_to(target)
    flipper = subprocess.Popen(
        [sys.executable, "-I", "-S", FLIPPER, os.path.realpath(honest.parent) + f"/{honest.name}", evil],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert flipper.stdout
    assert flipper.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        count, _ = flipper.communicate()
    assert int(count) > 1, "nothing was exchanged"
