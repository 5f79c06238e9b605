"""Templates of k3s that go on from the base: single keys change, every other byte stays."""

from __future__ import annotations

import pytest

from shim.base.findings import CdiError
from shim.engines.texts import template_edit

BASES = ['{{ template "base" . }}', '{{template "base" .}}', '{{- template "base" . -}}']


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("around", ["{}\n", "# mine\n\n{}  \n\n[a]\nb = 1 # b\n", "x = 1\n{}", "{}\r\n[a]\r\n"])
def test_a_key_comes_and_goes_and_nothing_else_changes(base: str, around: str) -> None:
    text = around.format(base)
    new = template_edit.put(text, ("t", "k"), {"v": "1"})
    assert template_edit.loads(new)["t"] == {"k": {"v": "1"}}
    assert base in new
    assert template_edit.put(new, ("t", "k"), {"v": "1"}) == new
    assert template_edit.drop(new, ("t", "k")).split() == text.split()
    assert template_edit.drop(text, ("t", "k")) == text


def test_c11_a_template_without_the_language_is_toml() -> None:
    text = "# mine\n[a]\nb = 1 # b\n"
    new = template_edit.put(text, ("t", "k"), {"v": "1"})
    assert new.startswith(text)
    assert template_edit.drop(new, ("t",)).split() == text.split()


def test_lines_are_numbered_as_in_the_template() -> None:
    assert template_edit.plain(f"#\n{BASES[0]}\n[a]\n").splitlines()[2] == "[a]"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{BASES[0]}\n{BASES[0]}\n",
        f"{BASES[0]}\n{{{{ if .X }}}}\n",
        f'a = """\n{BASES[0]}',
        f"a = 1 {BASES[0]}",
    ],
    ids=["empty", "two", "more of the language", "inside of a text", "not on a line of its own"],
)
def test_another_template_is_refused(text: str) -> None:
    with pytest.raises(CdiError) as refused:
        template_edit.put(text, ("t", "k"), 1, "/t.tmpl")
    assert [
        (one.id in {"ENGINE_CONFIG_SHAPE", "ENGINE_CONFIG_SYNTAX"}, one.path) for one in refused.value.findings
    ] == [(True, "/t.tmpl")]
