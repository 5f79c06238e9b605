"""Who serves a device, and what is said about the files that do not."""

from __future__ import annotations

import os
import posix
import socket
from pathlib import Path

import pytest
from conformance.cache import by_our_rule, describe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.cdi.specs import put

from shim.cdi import directories, unresolved
from shim.host.trust import Trust

GPU0 = "acme.example/gpu=0"


def _open(*dirs: Path) -> directories.Directories:
    return directories.read([str(path) for path in dirs])


def _path_of(found: directories.Directories, name: str) -> str | None:
    served = found.get(name)
    return served[0].path if served else None


def test_a_missing_directory_is_skipped_and_told(tmp_path: Path) -> None:
    put(tmp_path / "b/x.json", "0")
    found = _open(tmp_path / "a", tmp_path / "b")
    assert found.devices() == [GPU0]
    assert found.searched == [(f"{tmp_path}/a", "missing"), (f"{tmp_path}/b", "ok")]
    assert found.findings == {}


def test_the_later_directory_serves_and_the_earlier_file_is_shadowed(tmp_path: Path) -> None:
    low, high = put(tmp_path / "low/x.json", "0", "1"), put(tmp_path / "high/y.json", "0")
    found = _open(tmp_path / "low", tmp_path / "high")
    assert _path_of(found, GPU0) == str(high)
    assert _path_of(found, "acme.example/gpu=1") == str(low)
    assert found.shadowed == [(GPU0, str(low), str(high))]
    assert found.conflicts == {}
    assert [spec.priority for spec in found.specs] == [0, 1]


def test_in_three_directories_all_lower_files_are_shadowed_by_the_highest(tmp_path: Path) -> None:
    paths = [str(put(tmp_path / f"{n}/x.json", "0")) for n in range(3)]
    found = _open(*(tmp_path / f"{n}" for n in range(3)))
    assert found.shadowed == [(GPU0, paths[0], paths[2]), (GPU0, paths[1], paths[2])]


def test_two_files_of_one_directory_conflict_and_both_are_told(tmp_path: Path) -> None:
    a, b = put(tmp_path / "a.json", "0", "1"), put(tmp_path / "b.json", "0")
    found = _open(tmp_path)
    assert found.devices() == ["acme.example/gpu=1"]
    assert found.conflicts == {GPU0: [str(a), str(b)]}
    told = {path: [(one.id, one.rule) for one in findings] for path, findings in found.findings.items()}
    assert told == {str(a): [("SPEC_CONFLICT", "conflict")], str(b): [("SPEC_CONFLICT", "conflict")]}
    assert str(b) in found.findings[str(a)][0].text
    assert unresolved.refused(found.findings) == []


def test_a_conflict_below_does_not_take_the_good_device_above_away(tmp_path: Path) -> None:
    put(tmp_path / "low/a.json", "0")
    put(tmp_path / "low/b.json", "0")
    good = put(tmp_path / "high/c.json", "0")
    assert _path_of(_open(tmp_path / "low", tmp_path / "high"), GPU0) == str(good)


def test_a_conflict_above_hides_the_good_device_below(tmp_path: Path) -> None:
    put(tmp_path / "low/a.json", "0")
    put(tmp_path / "high/b.json", "0")
    put(tmp_path / "high/c.json", "0")
    found = _open(tmp_path / "low", tmp_path / "high")
    assert found.get(GPU0) is None
    assert found.vendors() == ["acme.example"]
    assert found.shadowed == []


def test_a_conflict_in_the_middle_matters_only_without_a_higher_device(tmp_path: Path) -> None:
    for path in ("low/a", "mid/b", "mid/c"):
        put(tmp_path / f"{path}.json", "0")
    dirs = [tmp_path / "low", tmp_path / "mid", tmp_path / "high"]
    assert _open(*dirs).get(GPU0) is None
    high = put(tmp_path / "high/d.json", "0")
    assert _path_of(_open(*dirs), GPU0) == str(high)


def test_a_directory_given_twice_neither_conflicts_with_nor_shadows_itself(tmp_path: Path) -> None:
    put(tmp_path / "a.json", "0")
    found = directories.read([str(tmp_path), f"{tmp_path}/./"])
    assert found.devices() == [GPU0]
    assert found.conflicts == {}
    assert found.shadowed == []
    assert found.findings == {}


@pytest.mark.parametrize("obstacle", ["file", "link loop", "below a file", "nul"])
def test_a_directory_that_cannot_be_listed_is_told_and_does_not_hide_the_next(obstacle: str, tmp_path: Path) -> None:
    put(tmp_path / "good/a.json", "0")
    bad = tmp_path / "bad"
    if obstacle == "file":
        bad.write_text("")
    elif obstacle == "link loop":
        bad.symlink_to("bad")
    elif obstacle == "below a file":
        bad.write_text("")
        bad /= "x"
    else:
        bad = Path(f"{bad}\0")
    found = directories.read([str(bad), str(tmp_path / "good")])
    assert found.devices() == [GPU0]
    assert [finding.id for finding in found.findings[str(bad)]] == ["SPEC_DIR_UNREADABLE"]
    assert found.searched[0][1] not in ("ok", "missing")
    assert found.searched[1] == (f"{tmp_path}/good", "ok")


def test_d11_a_directory_that_is_a_link_to_nothing_was_just_missing(trusted_path: Path) -> None:
    put(trusted_path / "good/a.json", "0")
    link = trusted_path / "link"
    link.symlink_to("/nowhere/cdi")
    for trust in (None, Trust()):
        found = directories.read([str(link), str(trusted_path / "none"), str(trusted_path / "good")], trust)
        (finding,) = found.findings[str(link)]
        assert (finding.id, finding.remedy) == (
            "SPEC_DIR_UNREADABLE",
            "remove the link, or restore its target /nowhere/cdi",
        )
        assert found.searched[0] == (str(link), "it leads to /nowhere/cdi, which is missing")
        assert found.searched[1] == (str(trusted_path / "none"), "missing")


def test_a_spec_file_may_stand_in_the_place_of_a_directory(tmp_path: Path) -> None:
    one, other = put(tmp_path / "one.json", "0"), put(tmp_path / "other.json", "0")
    found = _open(one, other)
    assert _path_of(found, GPU0) == str(other)
    assert found.shadowed == [(GPU0, str(one), str(other))]


@pytest.mark.parametrize("name", ["a.yml", "a.YAML", "a.Json", "a.yaml.bak", "yaml", "a", "a.txt"])
def test_names_of_other_endings_are_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("no spec {")
    found = _open(tmp_path)
    assert (found.specs, found.findings) == ([], {})


def test_files_are_taken_in_the_order_of_the_bytes_of_their_names(tmp_path: Path) -> None:
    names = ["10.json", "9.json", "B.json", "_.json", "a-1.json", "a.json", "é.json", "\uff5e.json", "😀.json"]
    for number, name in enumerate(names):
        put(tmp_path / name, str(number))
    assert [Path(spec.path).name for spec in _open(tmp_path).specs] == names


def test_a_name_that_is_no_utf8_is_read(tmp_path: Path) -> None:
    put(Path(os.fsdecode(bytes(tmp_path) + b"/\xff.json")), "0")
    assert _open(tmp_path).devices() == [GPU0]


def test_a_sub_directory_is_skipped_but_a_link_to_one_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "specs/sub.yaml/a.json", "1")
    put(tmp_path / "specs/good.json", "0")
    (tmp_path / "specs/link.yaml").symlink_to("sub.yaml")
    found = _open(tmp_path / "specs")
    assert found.devices() == [GPU0]
    assert [finding.id for finding in unresolved.refused(found.findings)] == ["SPEC_UNREADABLE"]
    assert list(found.findings) == [f"{tmp_path}/specs/link.yaml"]


def test_what_is_no_regular_file_is_refused_without_being_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(tmp_path)  # a socket's address is short
        try:
            listener.bind("socket.yaml")
        finally:
            os.chdir(here)
    put(tmp_path / "good.json", "0")
    found = _open(tmp_path)
    assert found.devices() == [GPU0]
    assert sorted(Path(path).name for path in found.findings) == ["pipe.yaml", "socket.yaml"]


def test_a_link_to_a_device_is_refused_without_opening_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "null.yaml").symlink_to("/dev/null")
    _open(tmp_path)  # loads what is loaded late
    monkeypatch.setattr(posix, "open", None)
    found = _open(tmp_path)
    told = {Path(path).name: findings[0].rule for path, findings in found.findings.items()}
    assert told == {"zero.yaml": "unreadable", "null.yaml": "no-data"}


def test_vendors_classes_and_kinds_are_those_of_every_usable_spec(tmp_path: Path) -> None:
    put(tmp_path / "a.json", "0", kind="b.example/net")
    put(tmp_path / "b.json", "0", kind="a.example/net")
    put(tmp_path / "c.json", "0", kind="a.example/gpu")
    found = _open(tmp_path)
    assert found.vendors() == ["a.example", "b.example"]
    assert found.classes() == ["gpu", "net"]
    assert found.kinds() == ["a.example/gpu", "a.example/net", "b.example/net"]


def test_the_default_directories_are_those_of_the_specification() -> None:
    assert directories.DEFAULT == ("/etc/cdi", "/var/run/cdi")


_files = st.dictionaries(
    st.sampled_from(["a.json", "b.json", "c.yaml"]), st.lists(st.sampled_from("012"), unique=True), max_size=3
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_files, min_size=1, max_size=4), st.data())
def test_whatever_stands_where_the_highest_directory_that_names_a_device_decides(
    tmp_path: Path, layout: list[dict[str, list[str]]], data: st.DataObject
) -> None:
    """Against a second and simpler writing of the rule, a file without devices being a refused one."""
    top = tmp_path / str(len(list(tmp_path.iterdir())))
    dirs = []
    for number, files in enumerate(layout):
        dirs.append(f"{top}/{number}")
        for name, devices in files.items():
            put(top / str(number) / name, *devices)
    dirs += data.draw(st.lists(st.sampled_from(dirs), max_size=1))  # one may be given twice
    found = directories.read(dirs)
    queries = [f"acme.example/gpu={device}" for device in "0123"]
    assert describe(found, queries) == by_our_rule(dirs, queries)
    for name, loser, winner in found.shadowed:
        served = found.get(name)
        assert served is not None
        assert served[0].path == winner != loser


def test_what_others_can_write_is_not_trusted_and_its_neighbours_are_served(trusted_path: Path) -> None:
    good, bad = trusted_path / "good", trusted_path / "bad"
    for place in (good, bad):
        place.mkdir()
        for name in ("a", "b"):
            text = f'{{"cdiVersion": "0.6.0", "kind": "{place.name}.example/{name}", "devices": [{{"name": "0", '
            (place / f"{name}.json").write_text(text + '"containerEdits": {"env": ["A=1"]}}]}')
    (good / "b.json").chmod(0o666)
    bad.chmod(0o1777)
    found = directories.read([str(good), str(bad)], Trust())
    assert found.devices() == ["good.example/a=0"]
    assert [finding.id for finding in found.findings[str(good / "b.json")]] == ["SPEC_UNTRUSTED"]
    assert [finding.id for finding in found.findings[str(bad)]] == ["SPEC_UNTRUSTED"]
    assert found.searched[1] == (str(bad), f"not trusted: {bad} can be written by everybody")
    # the control: without trust all of them count
    assert len(directories.read([str(good), str(bad)]).devices()) == 4


def test_a_link_to_the_null_device_is_no_matter_of_trust(trusted_path: Path) -> None:
    """It was refused as writable by everybody, with the advice to take the write permission from /dev/null."""
    (trusted_path / "masked.yaml").symlink_to("/dev/null")
    (trusted_path / "zero.yaml").symlink_to("/dev/zero")
    found = directories.read([str(trusted_path)], Trust())
    told = {Path(path).name: findings[0].rule for path, findings in found.findings.items()}
    assert told == {"masked.yaml": "no-data", "zero.yaml": "untrusted"}
