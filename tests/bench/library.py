"""The library alone: open a directory of specs and inject one device."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path

from bench import specs
from bench.clock import Taken
from bench.creates import CONFIG
from shim import cdi


def library(rounds: int) -> Taken:
    """Open the directory and inject one device, in this process: the library alone, its modules loaded."""
    taken: Taken = {}
    for name, text, device in (
        ("library: load + inject, 8 GPUs (YAML)", specs.gpus(8, "bench.example/gpu"), "bench.example/gpu=3"),
        ("library: load + inject, 1000 (YAML)", specs.many(1000, "bench.example/many"), "bench.example/many=d700"),
        (
            "library: load + inject, 1000 (JSON)",
            specs.as_json(specs.many(1000, "bench.example/many")),
            "bench.example/many=d700",
        ),
    ):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "x.json" if text.startswith("{") else "x.yaml").write_text(text)
            for number in range(rounds + 1):
                gc.collect()
                start = time.perf_counter()
                cdi.apply(cdi.make_plan([device], cdi.open((directory,))), CONFIG)
                if number:
                    taken.setdefault(name, []).append(time.perf_counter() - start)
    return taken
