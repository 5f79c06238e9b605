"""The linters are tests: one command, and nobody merges what they refuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

import shim

TOP = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


def _run(*command: str | Path, cwd: Path = TOP) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing() -> None:
    _run(BIN / "ruff", "check", "--no-cache", ".")


def test_ruff_would_format_nothing() -> None:
    _run(BIN / "ruff", "format", "--no-cache", "--check", ".")


def test_mypy_finds_nothing_in_the_installed_package(modules: Path) -> None:
    """From elsewhere, so that the package that was installed is looked at, the C core in it."""
    _run(
        BIN / "mypy", "--cache-dir=/dev/null", "--config-file", TOP / "pyproject.toml", "-p", "shim", cwd=modules.parent
    )


def test_mypy_finds_nothing_in_tests_and_bundles() -> None:
    # from tests/, so that `import shim` finds the installed package as the tests do
    _run(BIN / "mypy", "--config-file", TOP / "pyproject.toml", ".", "../bundles", cwd=TOP / "tests")


def test_mypy_finds_nothing_in_packaging() -> None:
    _run(BIN / "mypy", "--config-file", TOP / "pyproject.toml", ".", cwd=TOP / "packaging")


def test_clang_format_would_change_nothing() -> None:
    files = [path for top in ("native", "hooks", "tests") for path in sorted((TOP / top).rglob("*.[ch]"))]
    assert len(files) > 50
    _run(BIN / "clang-format", "--dry-run", "--Werror", *files)


def test_the_analyzer_of_gcc_finds_nothing_in_our_c(tmp_path: Path) -> None:
    """Leaks, uses after free, null pointers on a path through one file; with the warnings of the build."""
    flags = re.search(r"hardened = \[(.*?)\]", (TOP / "native/meson.build").read_text())
    assert flags is not None
    options = [*re.findall(r"'([^']+)'", flags[1]), "-std=gnu11", "-O1", "-fanalyzer", "-c", "-o", "/dev/null"]
    defines = ['-DSHIM_VERSION="x"', f"-I{TOP}/native", f"-I{TOP}/hooks"]
    sources = [path for directory in ("native", "hooks") for path in sorted((TOP / directory).glob("*.c"))]
    assert len(sources) > 25
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda source: _run("gcc", *options, *defines, source), sources):
            pass
    leak = tmp_path / "leak.c"  # the control
    leak.write_text("#include <stdlib.h>\nvoid f(void);\nvoid f(void) { char *p = malloc(9); if (p) *p = 1; }\n")
    with pytest.raises(AssertionError, match="analyzer-malloc-leak"):
        _run("gcc", *options, leak)


def test_every_header_can_be_included_alone() -> None:
    for directory in ("native", "hooks"):
        for header in sorted((TOP / directory).glob("*.h")):
            include: list[str | Path] = [
                "-include",
                header,
                "-x",
                "c",
                "/dev/null",
                f"-I{TOP}/native",
                f"-I{TOP}/hooks",
            ]
            _run("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *include)


def test_every_ignored_rule_carries_its_reason() -> None:
    """In pyproject.toml each line with a rule name ends in a comment; in code each noqa and type: ignore says why."""
    section = (TOP / "pyproject.toml").read_text().partition("[tool.ruff.lint]")[2].partition("[tool.mypy]")[0]
    ignores = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]+\d*",', line)]
    assert ignores
    assert [line for line in ignores if "#" not in line] == []
    bare = [
        f"{path.relative_to(TOP)}:{number}"
        for top in ("shim", "bundles", "packaging", "tests")
        for path in sorted((TOP / top).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"# (noqa: [A-Z0-9, ]+|type: ignore\[[a-z-]+\]) *$", line)
    ]
    assert bare == []


def test_the_version_stands_in_one_file_and_has_its_entry_in_the_changelog() -> None:
    """The launcher has it by meson, packages by the wheel, documents of packages by their own tests."""
    assert f"shim-answer 1 {shim.__version__} ".encode() in (BIN / "shim").read_bytes()
    assert metadata.version("cdi-shim") == shim.__version__
    assert shim.__version__ not in (TOP / "meson.build").read_text()
    assert f"## {shim.__version__} " in (TOP / "CHANGELOG.md").read_text()
