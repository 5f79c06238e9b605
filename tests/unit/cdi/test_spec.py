"""Spec files: every fault at once, each with its line and what would be right; limits; reading from disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import Finding
from shim.cdi import deviations, spec
from shim.cdi.spec import SpecError

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors" / "specs.json"
TEXTS = [
    case["input"]["text"].encode()
    for case in json.loads(VECTORS.read_text())["cases"]
    if "text" in case["input"] and "expand" not in case["input"] and len(case["input"]["text"]) < 2000
]

GOOD = b"""\
cdiVersion: 0.6.0
kind: acme.example/gpu
containerEdits:
  env: [ACME=1]
devices:
- name: "0"
  containerEdits: {deviceNodes: [{path: /dev/null}]}
- name: all
  containerEdits: {env: [ALL=1]}
"""

# One of each kind of fault, in places that differ.
BAD = b"""\
cdiVersion: "0.3.0"
kind: acme.example/gpu-
containerEdits:
  env:
  - A=1
  - NOVALUE
  mounts:
  - hostpath: /a
    containerPaht: /b
    containerPath: /c
devices:
- name: 0
  containerEdits:
    deviceNodes:
    - path: /dev/x
      type: char
      permissions: rwx
      fileMode: "0660"
    hooks:
    - hookName: create
      path: bin/x
- name: 0
  containerEdits:
    hooks:
    -
"""


def told(findings: list[Finding]) -> list[tuple[str, int, str]]:
    return [(finding.rule, finding.line, finding.text) for finding in findings]


def test_a_good_spec_is_its_parts() -> None:
    read = spec.parse(GOOD, "/etc/cdi/a.yaml", 3)
    assert (read.path, read.priority) == ("/etc/cdi/a.yaml", 3)
    assert (read.kind, read.vendor, read.klass) == ("acme.example/gpu", "acme.example", "gpu")
    assert list(read.devices) == ["0", "all"]
    assert read.devices["0"] == {"deviceNodes": [{"path": "/dev/null"}]}
    assert read.edits == {"env": ["ACME=1"]}
    assert read.document["devices"][1] == {"name": "all", "containerEdits": {"env": ["ALL=1"]}}
    assert spec.faults(GOOD) == []


def test_every_fault_of_a_file_is_told_at_once_with_line_and_field() -> None:
    assert told(spec.faults(BAD, "x.yaml")) == [
        ("unknown-field", 9, "containerEdits.mounts[0].containerPaht: unknown field 'containerPaht'; "
                             "the nearest is containerPath"),
        ("wrong-type", 18, "devices[0].containerEdits.deviceNodes[0].fileMode: is a text, "
                           "but must be a whole number from 0 to 4294967295"),
        ("version-too-low", 1, "cdiVersion: cdiVersion 0.3.0 is too low: "
                               "the digit that starts devices[0].name needs 0.5.0"),
        ("class-last-char", 2, "kind: class 'gpu-' ends in '-', but must end in a letter or digit"),
        ("env", 6, "containerEdits.env[1]: 'NOVALUE' is not of the form NAME=VALUE"),
        ("node-type", 16, "devices[0].containerEdits.deviceNodes[0].type: 'char' is no type of a device node: "
                          "c or u (character), b (block) and p (pipe) are"),
        ("node-permissions", 17, "devices[0].containerEdits.deviceNodes[0].permissions: 'rwx' are no permissions: "
                                 "letters of r (read), w (write), m (mknod), or the word none"),
        ("hook-name", 20, "devices[0].containerEdits.hooks[0].hookName: 'create' is no stage of a hook"),
        ("duplicate-device", 22, "devices[1].name: device '0' is there already, as devices[0]"),
        ("null-item", 25, "devices[1].containerEdits.hooks[0]: is null, but must be a mapping"),
        ("hook-relative", 21, "devices[0].containerEdits.hooks[0].path: 'bin/x' is relative: which program runs "
                              "would depend on where the runtime was started"),
    ]  # fmt: skip


def test_a_refused_file_raises_all_its_findings_with_path_and_remedy() -> None:
    with pytest.raises(SpecError) as refused:
        spec.parse(BAD, "/etc/cdi/x.yaml")
    findings = refused.value.findings
    assert told(findings) == told(spec.faults(BAD))
    assert {finding.path for finding in findings} == {"/etc/cdi/x.yaml"}
    assert str(refused.value).startswith("/etc/cdi/x.yaml:9: containerEdits.mounts[0].containerPaht: unknown field")
    assert findings[0].remedy.startswith("write containerPath, or remove it; fields here are hostPath, containerPath")
    assert findings[2].remedy == "write cdiVersion 0.5.0 or newer"


def test_lines_are_told_for_json_as_well() -> None:
    text = json.dumps({"cdiVersion": "1.1.0", "kind": "a/b", "devices": [{"name": "d", "containerEdit": {}}]}, indent=1)
    assert told(spec.faults(text.encode()))[0] == (
        "unknown-field", 7, "devices[0].containerEdit: unknown field 'containerEdit'; the nearest is containerEdits"
    )  # fmt: skip


def test_a_field_in_another_spelling_is_found_by_its_line() -> None:
    text = GOOD.replace(b"kind: acme.example/gpu", b"KIND: acme.example/gpu-").replace(b"env: [ALL=1]", b"ENV: [ALL]")
    assert [(rule, line) for rule, line, _ in told(spec.faults(text))] == [("class-last-char", 2), ("env", 9)]


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (b"", "no-data", 0),
        (b"# only this\n", "no-data", 0),
        (b"[1]", "wrong-type", 1),
        (b"a: [1\nb: 2\n", "yaml-syntax", 2),
        (b"kind: a/b\nkind: a/b\n", "duplicate-key", 2),
        (b"? [a]\n: b\n", "bad-map-key", 1),
        (b"~: b\n", "bad-map-key", 1),
        (b"kind: *x\n", "yaml-syntax", 1),
        (b"kind: &x [*x]\n", "yaml-syntax", 1),
        (b"%YAML 1.2\n---\nkind: a/b\n", "yaml-syntax", 1),
        (b"kind: !!int word\n", "yaml-syntax", 1),
        (b"kind: \xff\n", "yaml-syntax", 1),
        (b"kind: \x07\n", "yaml-syntax", 1),
        (b'\n{"kind": "a\\/b"}', "yaml-syntax", 2),
        (b'{"kind": "\\ud83d\\ude00"}', "yaml-syntax", 1),
    ],
)
def test_a_broken_text_is_refused_with_its_line(text: bytes, rule: str, line: int) -> None:
    assert told(spec.faults(text))[0][:2] == (rule, line)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ((b"", b""), None),
        ((b"ALL=1]}\n", b"ALL=1]}\n---\n"), None),  # an empty document loses nothing
        ((b"ALL=1]}\n", b"ALL=1]}\n...\n# the end\n"), None),
        ((b"ALL=1]}\n", b"ALL=1]}\n---\nkind: a/b\n"), "trailing-text"),
        ((b"ALL=1]}\n", b"ALL=1]}\n...\nmore\n"), "trailing-text"),
        ((b"ALL=1]}\n", b"ALL=1]}\n---\n---\n[\n"), "trailing-text"),
        ((b"env: [ALL=1]", b"hooks: [{hookName: poststop, path: x}]"), "hook-relative"),
        ((b"env: [ALL=1]", b"mounts: [~]"), "null-item"),
        ((b"env: [ALL=1]", b"env: [ALL=1], ENV: [B=1]"), "field-twice"),
    ],
)
def test_where_we_are_stricter_the_rule_is_the_deviation(change: tuple[bytes, bytes], rule: str | None) -> None:
    rules = [finding.rule for finding in spec.faults(GOOD.replace(*change))]
    assert rules == ([rule] if rule else [])
    assert rule is None or rule in deviations.TABLE


def test_our_own_findings_stand_behind_those_of_the_reference() -> None:
    text = GOOD.replace(b"env: [ALL=1]", b"hooks: [{hookName: x, path: x}]") + b"---\nmore\n"
    assert [finding.rule for finding in spec.faults(text)] == ["hook-name", "hook-relative", "trailing-text"]


@pytest.mark.parametrize("items", [99, 100, 101, 5000])
def test_the_findings_of_one_file_are_limited(items: int) -> None:
    text = GOOD.replace(b"env: [ALL=1]", b"env: [%s]" % b",".join([b"x"] * items))
    findings = spec.faults(text)
    assert len(findings) == min(items, 101)
    assert [finding.rule for finding in findings].count("more") == (items > 100)
    with pytest.raises(SpecError) as refused:
        spec.parse(text)
    assert told(refused.value.findings) == told(findings)


def test_a_text_of_more_than_four_mebibytes_is_not_looked_at() -> None:
    assert spec.faults(GOOD + b"#" * (spec.MAX_SIZE - len(GOOD))) == []
    [finding] = spec.faults(GOOD + b"#" * (spec.MAX_SIZE - len(GOOD) + 1))
    assert (finding.rule, finding.id) == ("too-large", "SPEC_UNREADABLE")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"a: &a [%s]\nb: [%s]\n" % (b"x," * 90_000, b"*a," * 10), "too-many-nodes"),
        (b"a: [%s]\n" % (b"x," * 600_000), "too-many-nodes"),
        (b'{"a": [%s]}' % b",".join([b"1"] * 600_000), "too-many-nodes"),
        (b"".join(b"k%d: &k%d [%s]\n" % (n, n, b"*k%d," % (n - 1) * 9) for n in range(1, 20)), "yaml-syntax"),
        (b"k0: &k0 x\n" + b"".join(b"k%d: &k%d [%s]\n" % (n, n, b"*k%d," % (n - 1) * 9) for n in range(1, 20)),
         "yaml-alias-bomb"),
        (b"[" * 100_000, "yaml-syntax"),
        (b'{"a":' * 100_000, "yaml-syntax"),
        (b"- " * 100_000, "yaml-syntax"),
    ],
)  # fmt: skip
def test_a_text_that_would_cost_too_much_is_refused(text: bytes, rule: str) -> None:
    assert spec.faults(text)[0].rule == rule


def test_aliases_within_limits_are_taken() -> None:
    devices = b"".join(b"- {name: d%d, containerEdits: *e}\n" % number for number in range(50))
    read = spec.parse(b"cdiVersion: 1.1.0\nkind: a/b\ncontainerEdits: &e {env: [A=1, B=2]}\ndevices:\n" + devices)
    assert read.devices["d49"] == read.edits == {"env": ["A=1", "B=2"]}


@given(st.binary(max_size=300))
def test_any_bytes_give_a_spec_or_a_spec_error(data: bytes) -> None:
    agree(data)


@given(st.data())
def test_a_mutated_spec_gives_a_spec_or_a_spec_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        drop = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + drop :]
    agree(text)


PIECES = [
    b"", b"&a ", b"*a", b"<<: ", b'"', b"'", b"[", b"]", b"{", b"}", b": ", b"- ", b"\n", b"\t", b"~", b"!!int ", b"!",
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\\/", b"\\ud800", b"1e400", b".nan", b"-0.0", b"9" * 30, b"0x", b"---\n",
    b"...\n", b"%YAML 1.2\n", b"#", b"|", b"? ", b",", b"KIND", b"\xc2\x85", b"1_0", b"\r", b" :", b'\\":',
    b"!!binary ", b"!!null ",
]  # fmt: skip


def agree(data: bytes) -> None:
    """parse and faults say the same, and nothing but SpecError comes out."""
    findings = spec.faults(data, "f")
    try:
        spec.parse(data, "f")
    except SpecError as error:
        assert told(error.findings) == told(findings)
        assert findings
        for finding in findings:
            assert finding.text.isprintable()
            assert finding.rule
            assert finding.line <= data.count(b"\n") + data.count(b"\r") + len(data.split(b"\xc2\x85")) + 3
    else:
        assert findings == []


def test_a_file_is_read_from_disk_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(GOOD)
    (tmp_path / "a.yaml").symlink_to("real")
    assert spec.read(str(tmp_path / "a.yaml"), 1).priority == 1


def make_nothing(path: Path) -> None:
    assert not path.exists()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: nothing of it may be read beyond the limit


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (make_nothing, "unreadable"),
        (Path.mkdir, "unreadable"),
        (make_pipe, "unreadable"),
        (make_large, "too-large"),
        (lambda path: path.symlink_to(path.name), "unreadable"),
        (lambda path: path.symlink_to("/dev/zero"), "unreadable"),
        (lambda path: path.symlink_to("/dev/null"), "no-data"),
    ],
    ids=["nothing", "a directory", "a pipe", "a tebibyte", "a loop", "an endless device", "the usual mask"],
)
def test_what_is_no_file_of_usual_size_is_refused_at_once(tmp_path: Path, make: Any, rule: str) -> None:
    path = tmp_path / "x.yaml"
    make(path)
    with pytest.raises(SpecError) as refused:
        spec.read(str(path))
    [finding] = refused.value.findings
    assert (finding.rule, finding.path) == (rule, str(path))


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(SpecError, match="x"):
        spec.read("/etc/x\0y")
