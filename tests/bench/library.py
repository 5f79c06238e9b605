"""The library alone: open a directory of specs and inject one device, from the files and from an index."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path

from bench import specs
from bench.clock import Taken
from bench.creates import CONFIG
from shim import cdi

MANY = ("bench.example/many", "bench.example/many=d700")


def library(rounds: int) -> Taken:
    """Open the directory and inject one device, in this process, its modules loaded."""
    cases = (
        ("8 GPUs (YAML)", specs.gpus(8, "bench.example/gpu"), "bench.example/gpu=3"),
        ("1000 (YAML)", specs.many(1000, MANY[0]), MANY[1]),
        ("1000 (JSON)", specs.as_json(specs.many(1000, MANY[0])), MANY[1]),
    )
    taken: Taken = {}
    for name, text, device in cases:
        with tempfile.TemporaryDirectory() as directory:
            specs_in = Path(directory, "cdi")
            specs_in.mkdir()
            (specs_in / ("x.json" if text.startswith("{") else "x.yaml")).write_text(text)
            time.sleep(0.2)  # an index is kept of files that have been at rest for a while
            for way, index in (("files", ""), ("index", f"{directory}/run/index")):
                for number in range(rounds + 1):
                    gc.collect()
                    start = time.perf_counter()
                    cdi.apply(cdi.make_plan([device], cdi.open((str(specs_in),), index=index)), CONFIG)
                    if number:  # the first one makes the index
                        taken.setdefault(f"library, {way}: load + inject, {name}", []).append(
                            time.perf_counter() - start
                        )
    return taken
