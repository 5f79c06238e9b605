"""What documents, docstrings and comments refer to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shim.cli import shim

TOP = Path(__file__).parent.parent
FOLDERS = ("docs", "native", "hooks", "shim", "tests", "packaging", "bundles")
ENDINGS = ("py", "c", "h", "md", "json", "sh", "toml", "yaml")
PATH = re.compile(rf"(?<![\w./~$-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w\.(?:{'|'.join(ENDINGS)})\b")
MODULE = re.compile(r"(?<![\w./\"])shim\.[a-z_]+(?:\.[a-z_]+)+")
PACKAGES = [path.name for path in (TOP / "shim").iterdir() if path.is_dir() and (path / "__init__.py").exists()]

# The modules of engines cite the documents of an engine's own repository: "Source: containerd, docs/cri/config.md".
CITED = re.compile(r"docs/[\w./-]+")


def sources() -> list[Path]:
    tops = [TOP / name for name in FOLDERS]
    found = [path for top in tops for ending in ("py", "c", "h", "md", "sh") for path in top.rglob(f"*.{ending}")]
    found += [*TOP.glob("*.md"), TOP / "Makefile", TOP / "meson.build", TOP / "native/meson.build"]
    found.remove(Path(__file__))
    return sorted(path for path in found if not {"vectors", "configs", "data", "corpus"} & set(path.parts))


def text_of(path: Path) -> str:
    """A document whole; of a program its comments and docstrings, without the marks that break their lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        docstrings = re.findall(r'"""(.*?)"""', text, re.DOTALL)
        if path.name.startswith("test_"):
            del docstrings[1:]  # those of tests may name what was wrong once
        text = "\n".join(docstrings + re.findall(r"#(.*)", text))
    elif path.suffix in {".c", ".h"}:
        text = "\n".join(re.findall(r"/\*(.*?)\*/", text, re.DOTALL))
    return re.sub(r"\s*\n[\s*#]*", " ", text)


def missing(text: str) -> Iterator[str]:
    """References that lead nowhere."""
    for path in PATH.findall(text):
        if not (TOP / path).exists():
            yield path
    for name in MODULE.findall(text):
        parts = name.split(".")
        if parts[1] in PACKAGES and not is_module(parts[:3]):
            yield name


def is_module(parts: list[str]) -> bool:
    """Whether a module has this name, or a package and the last part is a name in it."""
    path = TOP.joinpath(*parts)
    package = TOP.joinpath(*parts[:-1], "__init__.py").read_text(encoding="utf-8")
    return path.with_suffix(".py").exists() or path.is_dir() or parts[-1] == "_core" or parts[-1] in package


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(TOP)))
def test_what_is_named_is_there(path: Path) -> None:
    """precreate.py named a document that does not exist, and the list of attacks tests that had moved."""
    text = text_of(path)
    if (TOP / "shim/engines") in path.parents:
        text = CITED.sub("", text)
    assert list(missing(text)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see docs/create.md, and shim.create.recipe.decide", []),
        ("(docs/precreate.json)", ["docs/precreate.json"]),
        ("as native/places.c says", []),
        ("as native/native.h says", ["native/native.h"]),
        ("shim.create.verdict reads it", ["shim.create.verdict"]),
    ],
)
def test_a_reference_that_leads_nowhere_is_found(text: str, expected: list[str]) -> None:
    assert list(missing(text)) == expected


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner
            yield from _commands(inner, f"{name} {word}")
    yield name, command.help or ""


@pytest.mark.parametrize(("name", "text"), [one for one in _commands(shim, "shim") if one[0] != "shim"])
def test_every_command_has_an_example(name: str, text: str) -> None:
    """The README says so."""
    assert re.search(r"Examples?( of such a file)?:\n", text), name
