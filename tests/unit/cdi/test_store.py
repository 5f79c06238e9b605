"""Specs are written whole or not at all, and only when a reader would take them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.cdi.specs import document

from shim.base.findings import CdiError
from shim.cdi import directories, spec, store

Json = dict[str, Any]
FORMS: tuple[Literal["yaml"], Literal["json"]] = ("yaml", "json")
DOCUMENT = document({"0": {"env": ["A=1"], "deviceNodes": [{"path": "/dev/null", "fileMode": 438}]}})


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_written_is_served(form: Any, tmp_path: Path) -> None:
    path = store.write(DOCUMENT, str(tmp_path / "cdi"), format=form)
    assert path == f"{tmp_path}/cdi/acme.example-gpu.{form}"
    assert Path(path).stat().st_mode & 0o7777 == 0o644
    assert Path(tmp_path, "cdi").stat().st_mode & 0o7777 == 0o755
    found = directories.read([str(tmp_path / "cdi")])
    assert found.devices() == ["acme.example/gpu=0"]
    assert found.findings == {}
    assert _names(tmp_path / "cdi") == [Path(path).name]


@pytest.mark.parametrize(
    ("name", "form", "transient", "written"),
    [
        (None, None, None, "acme.example-gpu.yaml"),
        (None, None, "ctr/0", "acme.example-gpu_ctr_0.yaml"),
        (None, "json", "ctr", "acme.example-gpu_ctr.json"),
        ("mine", None, None, "mine.yaml"),
        ("mine", "json", None, "mine.json"),
        ("mine.json", None, None, "mine.json"),
        ("mine.txt", None, None, "mine.txt.yaml"),
    ],
)
def test_the_file_is_named_after_the_kind_or_as_wanted(
    name: str | None, form: Any, transient: str | None, written: str, tmp_path: Path
) -> None:
    path = store.write(DOCUMENT, str(tmp_path), name, form, transient)
    assert _names(tmp_path) == [written]
    assert (Path(path).read_text()[0] == "{") == written.endswith(".json")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", ".hidden", "..", "", "a\nb", "a\0b", "x" * 300, "\udcff"])
def test_a_name_that_is_not_one_file_is_refused(name: str, tmp_path: Path) -> None:
    for action in (lambda: store.write(DOCUMENT, str(tmp_path), name), lambda: store.remove(name, str(tmp_path))):
        with pytest.raises(CdiError) as caught:
            action()
        assert [finding.id for finding in caught.value.findings] == ["SPEC_TARGET"]
    assert _names(tmp_path) == []


def test_contradicting_wishes_are_errors_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="yaml file"):
        store.write(DOCUMENT, str(tmp_path), "a.yaml", "json")
    with pytest.raises(ValueError, match="exclude each other"):
        store.write(DOCUMENT, str(tmp_path), "a", transient_id="x")
    with pytest.raises(ValueError, match="toml"):
        store.write(DOCUMENT, str(tmp_path), format=cast("Any", "toml"))
    assert _names(tmp_path) == []


@pytest.mark.parametrize(
    "bad",
    [
        {**DOCUMENT, "kind": "gpu"},
        {**DOCUMENT, "devices": []},
        {**DOCUMENT, "extra": 1},
        {**DOCUMENT, "cdiVersion": "0.3.0", "containerEdits": {"additionalGids": [1]}},
        {**DOCUMENT, "annotations": {"a": float("nan")}},
        {**DOCUMENT, "annotations": {"a": "\ud800"}},
        {**DOCUMENT, "annotations": object()},
        document({"0": {"hooks": [None]}}),
    ],
)
def test_a_document_that_no_reader_would_take_is_not_written(bad: Json, tmp_path: Path) -> None:
    good = store.write(DOCUMENT, str(tmp_path))
    before = Path(good).read_bytes()
    for form in FORMS:
        with pytest.raises(spec.SpecError) as caught:
            store.write(bad, str(tmp_path), "acme.example-gpu", form)
        assert [finding.line for finding in caught.value.findings if finding.line] == []
    assert Path(good).read_bytes() == before
    assert _names(tmp_path) == ["acme.example-gpu.yaml"]


def test_a_file_that_is_replaced_keeps_mode_and_owner_and_changes_its_inode(tmp_path: Path) -> None:
    path = Path(store.write(DOCUMENT, str(tmp_path)))
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    before = path.stat()
    store.write({**DOCUMENT, "containerEdits": {"env": ["N=1"]}}, str(tmp_path))
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert "N=1" in path.read_text()


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    for mask in (0, 0o077):
        old = os.umask(mask)
        try:
            path = Path(store.write(DOCUMENT, str(tmp_path / f"{mask}")))
        finally:
            os.umask(old)
        assert path.stat().st_mode & 0o7777 == 0o644
        assert path.parent.stat().st_mode & 0o7777 == 0o755


def test_a_link_in_the_place_of_the_file_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "cdi").mkdir()
    link = tmp_path / "cdi" / "acme.example-gpu.yaml"
    link.symlink_to("../target")
    store.write(DOCUMENT, str(tmp_path / "cdi"))
    assert (tmp_path / "target").read_text() == "mine"
    assert not link.is_symlink()


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(store.write(DOCUMENT, str(tmp_path)))
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in ("fsync", "replace", "fchmod"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(
                CdiError, match=r"was not written: /.*acme\.example-gpu\.yaml: the file system is full"
            ) as caught:
                store.write({**DOCUMENT, "containerEdits": {"env": ["N=1"]}}, str(tmp_path))
        assert caught.value.findings[0].id == "SPEC_WRITE"
        assert "/var/run/cdi" in caught.value.findings[0].remedy
        assert path.read_bytes() == before
        assert _names(tmp_path) == [path.name]


@pytest.mark.parametrize("obstacle", ["parent missing", "below a file", "a directory of that name"])
def test_what_hinders_writing_is_said_with_a_remedy(obstacle: str, tmp_path: Path) -> None:
    directory = tmp_path / "a" / "cdi"
    if obstacle == "below a file":
        (tmp_path / "a").write_text("")
    elif obstacle == "a directory of that name":
        (directory / "acme.example-gpu.yaml").mkdir(parents=True)
    with pytest.raises(CdiError, match="was not written") as caught:
        store.write(DOCUMENT, str(directory))
    assert caught.value.findings[0].id == "SPEC_WRITE"
    assert caught.value.findings[0].remedy
    if directory.is_dir():
        assert _names(directory) == ["acme.example-gpu.yaml"]


def test_removing_takes_the_file_and_a_missing_one_is_no_error(tmp_path: Path) -> None:
    store.write(DOCUMENT, str(tmp_path))
    store.write(DOCUMENT, str(tmp_path), format="json")
    assert store.remove("acme.example-gpu", str(tmp_path)) is True
    assert _names(tmp_path) == ["acme.example-gpu.json"]
    assert store.remove("acme.example-gpu", str(tmp_path)) is False
    assert store.remove("acme.example-gpu.json", f"{tmp_path}/") is True
    assert store.remove("x", str(tmp_path / "none")) is False


def test_removing_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").mkdir()
    with pytest.raises(CdiError, match="was not removed"):
        store.remove("x", str(tmp_path))


NO_TEXT = ["y", "no", "null", "~", "1e3", "0o17", "0x10", "12:30:45", "2001-01-01", "=", "<<", "1_0", ".5", "-"]
PUNCTUATION = [
    "a: b",
    "a #b",
    "",
    " ",
    "\t",
    "a\nb",
    "\\",
    '"',
    "'",
    "[",
    "{",
    "*a",
    "&a",
    "!a",
    "|",
    ">",
    "%",
    "@",
    "`",
]
LETTERS = ["é", "😀", "\x7f", "\x85", "\u2028", "\ufeff"]


@pytest.mark.parametrize("text", [*NO_TEXT, *PUNCTUATION, *LETTERS])
def test_texts_that_yaml_could_take_for_something_else_stay_texts(text: str) -> None:
    given_ = document({"0": {"env": [f"A={text}"]}})
    given_["annotations"] = {"k": text}
    for form in FORMS:
        data = store.encode(given_, form)
        assert spec.parse(data).document["annotations"] == {"k": text}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.sampled_from(["yaml", "json"]))
def test_every_text_is_read_back_or_refused_with_a_reason(text: str, form: Any) -> None:
    given_ = document({"0": {"env": [f"A={text}"]}})
    try:
        data = store.encode(given_, form)
    except spec.SpecError as error:
        assert error.findings[0].text
        assert not text.isprintable()
        return
    assert spec.parse(data).devices["0"]["env"] == [f"A={text}"]


def test_json_is_json(tmp_path: Path) -> None:
    path = store.write(document({"0": {"env": ["A=é\x85"]}}), str(tmp_path), format="json")
    assert json.loads(Path(path).read_text())["devices"][0]["containerEdits"] == {"env": ["A=é\x85"]}
