"""What commands print besides their subject: remedies, order, colours, system errors, the help of a finding."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim.base.findings import TABLE, Finding
from shim.cli import output

BAD = """\
cdiVersion: "0.6.0"
devices:
- name: "0"
  containerEdits:
    env: [wrong]
- nam: x
kind: nonsense
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def shim(launcher: Path, tmp_path: Path) -> Run:
    def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [launcher, *words], input=stdin, capture_output=True, text=True, cwd=tmp_path, check=False
        )

    return run


# --- D11: wrong remedies and raw errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("cdi validate MISSING", "name a file that exists"),
        ("cdi diff MISSING MISSING", "name a file that exists"),
        ("cdi inject MISSING a.b/c=0", "name a file that exists"),
        ("config show MISSING", "name a file that exists"),
        ("explain --replay MISSING", "name a file that exists"),
        ("runtime verify --engine docker --config .", "name a file in it"),
        ("config default --to FILE/x", "name another file: there is a file where its directory should be"),
        ("config default --to /proc/x", "make its directory first, or name a file in one that exists"),
    ],
)
def test_d11_a_missing_file_was_to_be_checked_for_its_mode(
    installed: Path, tmp_path: Path, command: str, remedy: str
) -> None:
    """The remedies were those of files that are there: check owner and mode, mend the file, make space."""
    (tmp_path / "FILE").write_text("")
    words = [str(installed), *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"  {remedy}" in done.stdout + done.stderr
    assert "Errno" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "command", ["cdi validate LINK", "cdi diff LINK LINK", "config show LINK", "explain --replay LINK"]
)
def test_d11_a_link_to_nothing_was_to_be_named_by_another_name(shim: Run, tmp_path: Path, command: str) -> None:
    """`ls` shows the file, and the remedy was to name a file that exists."""
    (tmp_path / "LINK").symlink_to("/nowhere/nvidia.yaml")
    done = shim(*command.split())
    assert done.returncode == 1
    assert "remove the link, or restore its target /nowhere/nvidia.yaml" in done.stderr


def test_d11_a_link_to_nothing_in_a_spec_directory_is_told_with_its_target(shim: Run, trusted_path: Path) -> None:
    (trusted_path / "a.yaml").symlink_to("/nowhere/nvidia.yaml")
    for command in (("cdi", "list", "--spec-dir", str(trusted_path)), ("cdi", "validate", str(trusted_path))):
        error = shim(*command).stderr
        assert f"{trusted_path}/a.yaml: cannot be opened: it leads to /nowhere/nvidia.yaml, which is missing" in error
        assert "remove the link, or restore its target /nowhere/nvidia.yaml" in error


def test_d11_a_file_that_is_there_has_the_usual_remedy(shim: Run, tmp_path: Path) -> None:
    """The control: only a missing file is named by another."""
    (tmp_path / "FILE").write_text("[")
    done = shim("config", "show", "FILE")
    assert TABLE["SETTINGS"][1] in done.stderr


@pytest.mark.other_user
def test_d11_a_directory_that_cannot_be_listed_is_a_finding_about_it(launcher: Path, trusted_path: Path) -> None:
    """It was "the output cannot be written"."""
    trusted_path.chmod(0o700)
    command: list[str | Path] = ["setpriv", "--reuid=4242", "--clear-groups", launcher, "cdi", "validate", trusted_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ERROR SPEC_DIR_UNREADABLE" in done.stderr
    assert "run it as root" in done.stderr


def test_d11_faults_of_a_file_come_in_the_order_of_its_lines(shim: Run) -> None:
    """They came in the order of the reference library's checks: 6, 7, 5."""
    done = shim("cdi", "validate", "-", stdin=BAD)
    lines = [int(number) for number in re.findall(r"-:(\d+):", done.stderr)]
    assert len(lines) >= 3
    assert lines == sorted(lines)
    found = json.loads(shim("cdi", "validate", "-o", "json", "-", stdin=BAD).stdout)["-"]
    assert [one["line"] for one in found] == lines


def test_d11_no_table_has_blanks_at_the_end_of_a_line(shim: Run) -> None:
    for command in ("config show", "runtime verify --engine docker", "cdi list -v"):
        done = shim(*command.split())
        assert done.stdout
        assert not re.search(r"[ \t]$", done.stdout, re.MULTILINE), command


def test_c11_the_lines_of_a_remedy_are_lines_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines to add to a template were printed as one, with each end of a line as a backslash and an n."""
    remedy = 'add these lines to it:\n[a.b]\n  c = "\x1b"\n'
    finding = Finding("ENGINE_CONFIG_SHAPE", "it cannot be changed", remedy, path="/x.tmpl", line=3)
    output.show_findings([finding])
    assert capsys.readouterr().err.splitlines() == [
        "ERROR ENGINE_CONFIG_SHAPE: /x.tmpl:3: it cannot be changed",
        "    add these lines to it:",
        "    [a.b]",
        '      c = "\\x1b"',
    ]
    output.show_finding_table([finding])
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines[2:]] == ["add these lines to it:", "[a.b]", 'c = "\\x1b"']


# --- D11: colours -----------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(launcher: Path, tmp_path: Path) -> Iterator[Callable[..., str]]:
    def run(*words: str, **variables: str) -> str:
        """All that a command prints on a terminal."""
        main, other = pty.openpty()
        kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment = {**kept, "TERM": "xterm", **variables}
        process = subprocess.Popen([launcher, *words], stdin=other, stdout=other, stderr=other, env=environment)
        os.close(other)
        text = b""
        while True:
            try:
                text += os.read(main, 4096)
            except OSError:  # EIO: the last process has closed it
                break
        process.wait()
        os.close(main)
        return text.decode()

    (tmp_path / "bad.yaml").write_text(BAD)
    yield run


def test_d11_levels_and_diffs_have_a_colour_on_a_terminal(
    terminal: Callable[..., str], shim: Run, tmp_path: Path
) -> None:
    level = ("cdi", "validate", f"{tmp_path}/bad.yaml")
    lines = ("config", "default", "--to", f"{tmp_path}/new", "--dry-run")
    assert "\x1b[31mERROR\x1b[0m SPEC_INVALID" in terminal(*level)
    assert "\x1b[32m+[cdi]" in terminal(*lines)
    for words in (level, lines):
        assert "\x1b" not in shim(*words).stdout + shim(*words).stderr, "never in a pipe"
        assert "\x1b" not in terminal(*words, NO_COLOR="1")
        assert "\x1b" not in terminal(*words, TERM="dumb")


def test_d11_headers_have_no_style_where_there_is_to_be_none(terminal: Callable[..., str]) -> None:
    assert "\x1b[1m" in terminal("config", "show")
    assert "\x1b" not in terminal("config", "show", NO_COLOR="1")


# --- `shim help ID` ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["SPEC_SYNTAX", "INTERNAL", list(TABLE)[-2]])
def test_d10_help_prints_what_a_finding_means(shim: Run, id: str) -> None:
    """The document with the ids was not installed."""
    done = shim("help", id)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{id} ({TABLE[id][0]})\n\n")
    assert TABLE[id][1] in done.stdout
    assert "###" not in done.stdout
    assert len(done.stdout) > len(TABLE[id][1]) + 80


def test_d10_every_finding_has_an_entry_that_help_finds() -> None:
    from shim.cli import finding_help

    for id in TABLE:
        assert re.search(r"\)\n\n\S.*\n\nUsual remedy: ", finding_help.text(id), re.DOTALL), id


def test_d10_help_names_the_id_that_was_meant(shim: Run) -> None:
    done = shim("help", "SPEC_SYNTX")
    assert done.returncode == 2
    assert "SPEC_SYNTAX" in done.stderr
