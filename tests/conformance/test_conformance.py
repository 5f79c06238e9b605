"""All vectors through the runner, and the runner itself: a run that cannot fail would prove nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance import runner
from conformance.__main__ import main

VECTORS = Path(__file__).parent / "vectors"
FILES = sorted(file.stem for file in VECTORS.glob("*.json"))
NAME = {"id": "n", "input": {"op": "vendor", "value": "acme"}, "expect": {"valid": True}}


def run(directory: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    _, failed = runner.run_directory(directory, said.append)
    return failed, said


def write(directory: Path, name: str, *cases: dict[str, Any]) -> None:
    (directory / name).write_text(json.dumps({"cases": cases}))


def test_every_vector_passes_or_deviates_by_a_named_rule() -> None:
    failed, said = run(VECTORS)
    assert failed == 0, "\n".join(said)
    assert [line.partition(":")[0] for line in said if " passed, " in line][:-1] == FILES
    assert said[-2].endswith(")")
    assert said[-1].endswith(" passed, 0 failed")


@pytest.mark.parametrize("family", FILES)
def test_a_file_of_another_name_is_recognised_by_its_cases(family: str) -> None:
    cases = runner.read_cases(VECTORS / f"{family}.json")
    assert len(cases) >= 19
    assert runner.family_of(Path("hidden-part.json"), cases) == family


def test_a_file_that_holds_no_vectors_is_named_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    write(tmp_path, "other.json", {"id": "g", "input": {"path": "/v1"}, "expect": {}})
    assert run(tmp_path) == (
        0,
        [f"{name}.json: unknown vector file, not run" for name in ("broken", "list", "other")]
        + ["0 deviations", "0 passed, 0 failed"],
    )


def test_a_run_of_nothing_does_not_pass(tmp_path: Path) -> None:
    """`make conformance VECTORS=DIR` with a wrong DIR ended in success."""
    assert main([str(tmp_path)]) == 1
    write(tmp_path, "names.json", NAME)
    assert main([str(tmp_path)]) == 0


def test_a_wrong_result_fails_and_is_told(tmp_path: Path) -> None:
    write(tmp_path, "names.json", NAME, {**NAME, "id": "wrong", "expect": {"valid": False, "error": "vendor-char"}})
    failed, said = run(tmp_path)
    assert failed == 1
    assert said[0] == "names: 1 passed, 1 failed"
    assert said[1].startswith("    wrong: got ")
    assert said[-1] == "1 passed, 1 failed"


def test_a_case_that_raises_fails_with_its_traceback(tmp_path: Path) -> None:
    write(tmp_path, "names.json", {**NAME, "input": {"op": "no such", "value": ""}})
    failed, said = run(tmp_path)
    assert failed == 1
    assert "KeyError" in said[1]


HOOK = '{"cdiVersion": "1.1.0", "kind": "a/b", "devices": [{"name": "d", "containerEdits": {"hooks": [%s]}}]}'
RELATIVE = HOOK % '{"hookName": "poststop", "path": "x"}'


def spec_case(text: str, **expect: Any) -> dict[str, Any]:
    return {"id": "s", "input": {"text": text}, "expect": expect}


def test_a_deviation_counts_only_when_nothing_else_differs(tmp_path: Path) -> None:
    document = json.loads(RELATIVE) | {"containerEdits": {}}
    taken = {"accepted": True, "vendor": "a", "class": "b", "devices": ["d"], "minimum": "0.3.0"}
    write(
        tmp_path,
        "specs.json",
        spec_case(RELATIVE, **taken, spec=document),
        spec_case(RELATIVE, **taken, spec=document | {"kind": "a/other"}),
        spec_case(RELATIVE, accepted=False, error="hook-name", minimum="0.3.0"),
        spec_case(RELATIVE.replace("poststop", "x"), **taken, spec=document),
    )
    failed, said = run(tmp_path)
    assert said[0] == "specs: 0 passed, 3 failed, 1 deviations (hook-relative 1)"
    assert failed == 3


def test_tokens_are_expanded_in_input_and_expectation() -> None:
    tokens = {"{X}": {"unit": "ab", "count": 3}}
    given = {"text": "<{X}>", "list": ["{X}", 1], "{X}": None, "expand": tokens}
    assert runner.expanded(given, tokens) == {
        "text": "<ababab>",
        "list": ["ababab", 1],
        "ababab": None,
        "expand": tokens,
    }


def test_a_case_for_an_ordinary_user_runs_without_root() -> None:
    def whoami(case: dict[str, Any], tmpdir: str) -> str | None:
        (Path(tmpdir) / case["id"]).touch()
        return str(Path("/proc/self/status").read_text().partition("Uid:")[2].split()[0])

    assert runner.run_case(whoami, {**NAME, "requires": ["not-root"]}) != "0"
