"""The tool finds what differs, names what is meant, and a part of the pins holds in every run of the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pins import compare, generated, runner, store
from pins.__main__ import check, chosen
from pins.compare import Difference
from pins.normal import normal
from pins.scenes import Dice

Json = dict[str, Any]
VENV = Path(sys.prefix)
# Every n-th case of these: some seconds. `make pins` compares all of them.
SOME = {"generated": 25, "vectors": 10, "bundles": 1, "traces": 10, "lives": 2, "commands": 12, "written": 1}


@pytest.mark.engine
def test_what_is_pinned_holds_or_is_named() -> None:
    told = check(VENV, every=SOME)
    assert not told, "\n\n".join(told)


def _bundle() -> list[Json]:
    return list(chosen(list(store.read("bundles"))[1:], ["bundles/hello-option"]))


@pytest.mark.engine
def test_a_changed_byte_is_found() -> None:
    before = _bundle()
    after = list(runner.run(before, VENV))[-1]
    entries = compare.load()
    assert compare.explain(compare.differences(before[-1], after), entries) == []
    parts = before[-1]["made"]["run"]
    parts["config"] = parts["config"].replace("HELLO=world", "HELLO=World")
    (found,) = compare.explain(compare.differences(before[-1], after), entries)
    assert (found.where, found.part) == ("bundles/hello-option#run", "config")
    assert found.gone == ['process.env[] = "HELLO=World"']
    assert found.new == ['process.env[] = "HELLO=world"']


@pytest.mark.engine
def test_a_case_that_cannot_be_run_is_no_difference() -> None:
    broken = {"id": "x", "files": [{"path": "/proc/1/no/such", "text": ""}], "steps": []}
    with pytest.raises(runner.BrokenError, match="x: "):
        list(runner.run([broken], VENV))


def test_a_case_is_made_for_ever_alike() -> None:
    stored = [{**line} for line in list(store.read("generated"))[1:]]
    for line in stored:
        line.pop("made", None)
    assert list(generated.cases()) == stored
    assert sum("id" in line for line in stored) == 2000


def test_the_dice_fall_as_published() -> None:
    """The first numbers of splitmix64 from 1234567, as its authors' program prints them."""
    dice = Dice(0)
    dice._state = 1234567
    assert [dice.below(2**64) for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


# --- lines ----------------------------------------------------------------------------------------------------------

TEXTS: dict[str, tuple[str, list[str]]] = {
    "a text": ("one\ntwo\n", ["one", "two"]),
    "an object": ('{"a":{"b":[1,1.50],"c":{}},"d":["x"]}', ["a.b[] = 1", "a.b[] = 1.50", "a.c = {}", 'd[] = "x"']),
    "objects in a list": ('[{"a":1},{"a":2}]', ["[]:", "[].a = 1", "[]:", "[].a = 2"]),
    "a file": ("-rw------- 0 0\n{\n  \"a\": null\n}\n", ["-rw------- 0 0", "a = null"]),
    "JSON lines": ('{"a":1}\n{"a":2}\n', ["a = 1", "a = 2"]),
    "a name twice": ('{"a":1,"a":2}', ["a = 1", "a = 2"]),
    "no JSON": ("{broken\n", ["{broken"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), TEXTS.values(), ids=TEXTS.keys())
def test_a_part_becomes_lines(text: str, lines: list[str]) -> None:
    assert compare.lines(text) == lines


def _case(part: str, text: str | None) -> Json:
    return {"id": "a/b", "made": {"create": {} if text is None else {part: text}}}


CHANGES: dict[str, tuple[str | None, str | None, list[str], list[str]]] = {
    "one value": ('{"a":1,"b":2}', '{"a":1,"b":3}', ["b = 2"], ["b = 3"]),
    "a value more in front": ('{"a":[1,2]}', '{"a":[0,1,2]}', [], ["a[] = 0"]),
    "another order": ('{"a":1,"b":2}', '{"b":2,"a":1}', ["b = 2"], ["b = 2"]),
    "only a space": ('{"a":1}', '{"a": 1}', ["bytes: '{\"a\":1}'"], ["bytes: '{\"a\": 1}'"]),
    "only an escape": ('["/"]', '["\\/"]', ["bytes: '[\"/\"]'"], ["bytes: '[\"\\\\/\"]'"]),
    "a part less": ("x\n", None, ["x"], []),
    "an empty part more": (None, "", [], ["(empty)"]),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "gone", "come"), CHANGES.values(), ids=CHANGES.keys())
def test_a_difference_is_told_by_its_lines(old: str | None, new: str | None, gone: list[str], come: list[str]) -> None:
    (found,) = compare.differences(_case("config", old), _case("config", new))
    assert found == Difference("a/b#create", "config", gone, come)


def test_what_differs_from_run_to_run_is_no_difference() -> None:
    line = '{"time":"2026-01-02T03:04:05Z","id":"c1"}'
    assert list(compare.differences(_case("log", line), _case("log", normal("log", line.replace("03:", "04:"))))) == []


def test_a_rule_holds_for_its_parts_only() -> None:
    line = '{"time":"2026-01-02T03:04:05Z"}'
    assert normal("config", line) == line


# --- what is meant --------------------------------------------------------------------------------------------------

ENTRY = """
[[difference]]
reason = "warnings stand in the log alone"
cases = ["a/*"]
parts = ["stderr"]
gone = "shim: warning: .*"
"""


def _entries(tmp_path: Path, text: str) -> list[compare.Entry]:
    path = tmp_path / "differences.toml"
    path.write_text(text)
    return compare.load(path)


def _stderr(*gone: str, new: tuple[str, ...] = (), where: str = "a/b#create", part: str = "stderr") -> Difference:
    return Difference(where, part, list(gone), list(new))


def test_an_entry_explains_what_it_names(tmp_path: Path) -> None:
    entries = _entries(tmp_path, ENTRY)
    assert compare.explain([_stderr("shim: warning: A", "shim: warning: B")], entries) == []
    assert compare.report([], entries) == []


UNNAMED = {
    "another line that goes": _stderr("shim: DEVICE_UNKNOWN"),
    "a line that comes": _stderr(new=("shim: warning: A",)),
    "another part": _stderr("shim: warning: A", part="log"),
    "another case": _stderr("shim: warning: A", where="b/a#create"),
    "more than the line": _stderr("and shim: warning: A"),
}


@pytest.mark.parametrize("found", UNNAMED.values(), ids=UNNAMED.keys())
def test_an_entry_explains_nothing_else(tmp_path: Path, found: Difference) -> None:
    entries = _entries(tmp_path, ENTRY)
    assert compare.explain([found], entries) == [found]
    assert len(compare.report([found], entries)) == 2, "the difference, and the entry that matches nothing"


CONDITIONS = {"given": '"sandbox"', "told": "REQUEST_ORIGIN"}


@pytest.mark.parametrize(("name", "text"), CONDITIONS.items(), ids=CONDITIONS.keys())
def test_an_entry_may_ask_what_a_case_is_given_or_told(tmp_path: Path, name: str, text: str) -> None:
    entries = _entries(tmp_path, f"{ENTRY}{name} = '{text}'\n")
    found = _stderr("shim: warning: A")
    assert compare.explain([found], entries) == [found]
    setattr(found, name, f"in a {text} here")
    assert compare.explain([found], entries) == []


def test_an_entry_may_say_that_lines_move(tmp_path: Path) -> None:
    entries = _entries(tmp_path, ENTRY.replace("gone", "moved").replace("shim: warning: .*", "m.*"))
    assert compare.explain([_stderr("m1", "m2", new=("m2", "m1"))], entries) == []
    left = [_stderr("m1", "m1"), _stderr("m1", new=("m2",)), _stderr("x", new=("x",))]
    assert compare.explain([*left, _stderr("m1", "m1", new=("m1",))], entries) == [*left, _stderr("m1")]


def test_an_entry_may_say_what_a_line_becomes(tmp_path: Path) -> None:
    entries = _entries(tmp_path, ENTRY.replace("shim: warning: .*", "a(.*)") + "becomes = 'b\\1'\n")
    assert compare.explain([_stderr("a1", "a2", new=("b2", "b1"))], entries) == []
    left = [_stderr("a1"), _stderr("a1", new=("b2",)), _stderr("x1", new=("b1",))]
    assert compare.explain(left, entries) == left


def test_a_step_is_told_what_it_added_to_a_log(tmp_path: Path) -> None:
    """Of the log only the new lines count: an entry for what a step says would explain every later step as well."""
    old: Json = {"id": "a/b", "made": {"one": {"log": "x\n"}, "two": {"log": "x\ny\n"}}}
    new: Json = {"id": "a/b", "made": {"one": {"log": "z\n"}, "two": {"log": "z\ny\n"}}}
    (found,) = compare.differences(old, new)
    assert (found.where, found.gone, found.new, found.told) == ("a/b#one", ["x"], ["z"], "z\n")
    entries = _entries(tmp_path, ENTRY.replace("stderr", "log").replace("shim: warning: .*", "x") + 'new = "z"\n')
    assert compare.explain([found], entries) == []


def test_of_a_difference_only_the_rest_is_told(tmp_path: Path) -> None:
    found = _stderr("shim: warning: A", "shim: DEVICE_UNKNOWN")
    assert compare.explain([found], _entries(tmp_path, ENTRY)) == [_stderr("shim: DEVICE_UNKNOWN")]


def test_two_entries_may_explain_one_difference(tmp_path: Path) -> None:
    second = ENTRY.replace("gone", "new").replace("warning", "error")
    found = _stderr("shim: warning: A", new=("shim: error: A",))
    assert compare.explain([found], _entries(tmp_path, ENTRY + second)) == []


def test_an_entry_that_matches_nothing_is_told(tmp_path: Path) -> None:
    (told,) = compare.report([], _entries(tmp_path, ENTRY))
    assert told.endswith("warnings stand in the log alone")


BAD = {
    "no reason": ENTRY.replace("reason", "because"),
    "anything may go and come": ENTRY.replace('gone = "shim: warning: .*"', ""),
    "an unknown key": ENTRY + 'case = "x"\n',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_an_entry_that_is_not_as_it_should_be_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="entry 1"):
        _entries(tmp_path, text)


def test_like_differences_are_told_once() -> None:
    found = [_stderr("x", where=f"a/{number}#create") for number in range(9)]
    assert compare.report(found, []) == [
        f"stderr of {', '.join(f'a/{n}#create' for n in range(4))} and 5 more\n    - x"
    ]


# --- what 6022cb0 left ----------------------------------------------------------------------------------------------


def _made(name: str, step: str) -> dict[str, str]:
    found: dict[str, str] = next(case for case in store.read("written") if case.get("id") == name)["made"][step]
    return found


def test_what_6022cb0_left_counts_where_it_is_pinned() -> None:
    """The control of the family `written`: 6022cb0 itself reads its records, its index and what configure left."""
    assert '"GPU=0"' in _made("written/exec", "plain")["file:/s/process"]
    assert "file:/s/process" not in _made("written/exec", "of another container")
    assert '"GPU=X"' in _made("written/index marked", "create")["config"]
    assert '"GPU=1"' in _made("written/index right", "create")["config"]
    assert "nothing to change" in _made("written/docker debian-12", "configure again")["stdout"]
    assert (
        _made("written/docker debian-12", "remove")["file:/var/lib/shim/engines/docker-shim-38475f5d51504722.json"]
        == "gone"
    )
