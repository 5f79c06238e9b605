"""`shim completion`, and what bash offers, asked by the script that it reads."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SPEC = """\
cdiVersion: "0.6.0"
kind: acme.example/gpu
devices:
- {name: "0", containerEdits: {env: [GPU=0]}}
- {name: "10", containerEdits: {env: [GPU=1]}}
"""

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(launcher: Path, trusted_path: Path) -> Complete:
    """The words that bash gets for a line, with the cursor at its end, and how it completes paths itself."""
    (trusted_path / "cdi").mkdir()
    (trusted_path / "cdi/acme.yaml").write_text(SPEC)
    settings = trusted_path / "config.toml"
    settings.write_text(f'[cdi]\nspec-dirs = ["{trusted_path}/cdi"]\n')
    script = """
        source <(shim completion bash)
        compopt() { echo "$2"; }
        COMP_LINE=$1; COMP_POINT=${#1}
        _shim_completion shim
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{launcher.parent}:{os.environ['PATH']}", "SHIM_CONFIG": str(settings)}

    def run(line: str) -> list[str]:
        command = ["bash", "--norc", "-c", script, "bash", line]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.split()

    return run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shim cdi show a", ["acme.example/gpu=0", "acme.example/gpu=10"]),
        ("shim explain --device ", ["acme.example/gpu=0", "acme.example/gpu=10"]),
        ("shim run --device ac", ["acme.example/gpu=0", "acme.example/gpu=10"]),
        ("shim cdi inject config.json a", ["acme.example/gpu=0", "acme.example/gpu=10"]),
        ("shim cdi list a", ["acme.example/gpu"]),
        ("shim cdi validate ", ["default"]),
        ("shim cdi diff old.yaml ", ["default"]),
        ("shim config show ", ["default"]),
        ("shim runtime configure --config /etc/", ["default"]),
        ("shim explain --bundle ", ["dirnames"]),
        ("shim create --bundle ", ["dirnames"]),
        ("shim help c", ["cdi", "completion", "config"]),
        ("shim help cdi s", ["show"]),
        ("shim help SPEC_SY", ["SPEC_SYNTAX"]),
        ("shim che", ["checkpoint"]),
    ],
)
def test_d6_the_shell_knew_commands_and_options_alone(complete: Complete, line: str, words: list[str]) -> None:
    assert complete(line) == words


@pytest.mark.parametrize(
    "line",
    ["shim cdi show acme.example/gpu=", "shim run --device=acme.example/gpu=", "shim run --device acme.example/gpu="],
)
def test_d6_a_name_with_an_equals_sign_is_three_words_of_bash(complete: Complete, line: str) -> None:
    """What bash replaces is what stands behind the sign."""
    assert complete(line) == ["0", "10"]


def test_d6_a_broken_configuration_offers_no_device_and_says_nothing(complete: Complete, trusted_path: Path) -> None:
    (trusted_path / "config.toml").write_text("nonsense")
    assert complete("shim cdi show a") == []


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o nosort"), ("zsh", "#compdef shim"), ("fish", "set -l")]
)
def test_d6_completion_prints_the_script_of_a_shell(launcher: Path, shell: str, word: str) -> None:
    done = subprocess.run([launcher, "completion", shell], capture_output=True, text=True, check=True)
    assert word in done.stdout
    assert "_SHIM_COMPLETE" in done.stdout
