"""What the tests of NVIDIA's discovery share: a libnvidia-ml of our own, and fake hosts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[..., Path]


@pytest.fixture
def build_nvml(trusted_path: Path) -> Build:
    """Builds a libnvidia-ml with some macros, NAME or NAME=VALUE, below a trusted root, and returns its path there."""

    def build(*macros: str, soname: str = "libnvidia-ml.so.1") -> Path:
        library = trusted_path / "driver/usr/lib64/libnvidia-ml.so.1"
        library.parent.mkdir(parents=True, exist_ok=True)
        source = Path(__file__).with_name("nvml.c")
        options = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{soname}"]
        subprocess.run(["gcc", *options, *(f"-D{macro}" for macro in macros), "-o", library, source], check=True)
        return library

    return build
