"""Commands in documents, manifests and units are commands that exist, with options that they take.

Help, completion and manual pages are made from the commands themselves; documents are written by hand, so each command
line in them is read back here: those of code blocks, of code in a line of text, and of messages and docstrings.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shim.cli import shim

TOP = Path(__file__).parent.parent
WRITTEN = ("*.md", "docs/*.md", "packaging/**/*.md", "packaging/systemd/*", "shim/**/*.py")
DOCUMENTS = sorted(path for pattern in WRITTEN for path in TOP.glob(pattern))
CODE = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"(?:^|[\s;&|(=])(?:[\w./-]*/)?shim\s+(?P<rest>[a-z].*)")
ENDS = {"|", "||", "&&", ";", "#", ">", ">>", "<", "2>&1", "&", "…", "...", ")"}


def code_of(path: Path) -> Iterator[str]:
    """Each piece of code in a document: lines of blocks, with continued lines joined, and code within text."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif path.suffix != ".py" and (fenced or line.startswith("    ") or path.suffix != ".md"):
            yield line.strip().removeprefix("$ ").removeprefix("# ")
        else:
            yield from CODE.findall(line)


def words_of(code: str) -> list[str]:
    """The words behind `shim` in a piece of code, up to the end of that command; none where it is not called."""
    call = CALL.search(code)
    if not call:
        return []
    try:
        words = shlex.split(call["rest"], comments=True)
    except ValueError:  # a quote that the text leaves open
        words = call["rest"].split()
    ended = next((index for index, word in enumerate(words) if word in ENDS), len(words))
    return [word.rstrip(";),") for word in words[:ended]]


def faults(words: list[str]) -> Iterator[str]:
    """What the command line knows nothing of."""
    command: click.Command = shim
    context = click.Context(shim, info_name="shim")
    if words[0] not in shim.list_commands(context):
        return  # a verb of the low-level runtime, or a word of a text
    known = set(options_of(shim, context))
    rest = list(words)
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        for name in rest[0].split("|"):  # `shim node install|uninstall`
            if re.fullmatch(r"[a-z][a-z-]*", name) and name not in command.list_commands(context):
                yield f"no command {name} of {context.command_path}"
                return
        name = rest.pop(0).split("|")[0]
        below = command.get_command(context, name)
        if below is None:
            return
        context = click.Context(below, info_name=name, parent=context)
        command = below
        known |= set(options_of(command, context))
    if isinstance(command, click.Group) or command.ignore_unknown_options:
        return
    for word in rest:
        if word == "--":
            return
        option = re.match(r"\[?(--[a-z][a-z0-9-]*)", word)
        if option and option[1] not in known:
            yield f"no option {option[1]} of {context.command_path}"


def options_of(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        yield from (*parameter.opts, *parameter.secondary_opts)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_each_command_of_a_document_exists_with_its_options(path: Path) -> None:
    lines = [words for code in code_of(path) if (words := words_of(code))]
    assert [f"{' '.join(words)}: {fault}" for words in lines for fault in faults(words)] == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("shim cdi list --spec-dir /tmp -o json", []),
        ("shim run --device vendor.com/gpu=0 --bundle b c1", []),
        ("systemctl stop x && shim cdi lsit", ["no command lsit of shim cdi"]),
        ("/usr/local/bin/shim cdi list --specdir=/tmp | less --wrong", ["no option --specdir of shim cdi list"]),
        ("shim grant add|revoke NAME", []),
    ],
)
def test_the_reader_of_commands_sees_what_is_wrong(code: str, expected: list[str]) -> None:
    assert list(faults(words_of(code))) == expected


def test_make_alone_lists_every_target_for_users() -> None:
    """A target with a digit in its name was missing."""
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    listed = subprocess.run(["make", "-s", "-C", TOP], capture_output=True, text=True, check=True).stdout
    described = re.findall(r"^([\w-]+):.*## ", makefile, re.MULTILINE)
    assert [line.split()[1] for line in listed.splitlines()] == described
