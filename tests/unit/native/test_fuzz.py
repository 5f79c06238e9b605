"""The fuzz targets build, and pass over their corpus and over each beginning of its files.

`make fuzz` searches for more with clang; here `replay.c` stands in for libFuzzer. See native/fuzz/README.md.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "native"
HOOKS = NATIVE.parent / "hooks"
FUZZ = NATIVE / "fuzz"
TARGETS = sorted(path.stem for path in FUZZ.glob("*.c") if path.stem != "replay")
FLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
FLAGS += [f"-I{NATIVE}", f"-I{HOOKS}"]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All our C but the launcher's main(), with sanitizers."""
    place = tmp_path_factory.mktemp("core")
    sources = [path for top in (NATIVE, HOOKS) for path in top.glob("*.c") if path.name != "launcher.c"]
    definitions = ['-DSHIM_VERSION="fuzz"']
    subprocess.run(["cc", *FLAGS, *definitions, "-c", *sources], cwd=place, check=True)
    return sorted(place.glob("*.o"))


def run(target: str, core: list[Path], place: Path, *inputs: Path) -> subprocess.CompletedProcess[str]:
    program = place / target
    sources = [FUZZ / f"{target}.c", FUZZ / "replay.c", *core]
    subprocess.run(["cc", *FLAGS, "-o", program, *sources, "-pthread"], check=True)
    return subprocess.run(
        [program, *inputs],
        env={"UBSAN_OPTIONS": "halt_on_error=1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_passes(target: str, core: list[Path], tmp_path: Path) -> None:
    inputs = sorted((FUZZ / "corpus" / target).iterdir())
    assert inputs
    done = run(target, core, tmp_path, *inputs)
    assert (done.returncode, done.stdout) == (0, f"{len(inputs)}\n"), done.stderr


def test_every_corpus_has_its_target() -> None:
    assert sorted(path.name for path in (FUZZ / "corpus").iterdir()) == TARGETS
    assert {"grammar", "scan", "needles", "json"} <= set(TARGETS)


def test_the_driver_tells_when_an_input_is_missing(core: list[Path], tmp_path: Path) -> None:
    assert run("needles", core, tmp_path, tmp_path / "nothing").returncode == 2


def test_the_target_notices_a_scan_that_looks_at_no_escape(core: list[Path], tmp_path: Path) -> None:
    """Without this all could pass because nothing is compared."""
    blind = tmp_path / "scan.c"
    text = (NATIVE / "scan.c").read_text()
    assert text.count("if (hides(") == 1
    blind.write_text(text.replace("if (hides(", "if (false && hides("))
    subprocess.run(["cc", *FLAGS, "-c", blind], cwd=tmp_path, check=True)
    others = [tmp_path / "scan.o", *(path for path in core if path.name != "scan.o")]
    inputs = (FUZZ / "corpus/scan").iterdir()
    assert run("scan", others, tmp_path, *inputs).returncode != 0
