"""What a low-level runtime is known to do: only what it said itself, as long as it is the same file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.create.world import World
from shim.host.abilities import learn, native_net_devices

YES = '{"linux": {"netDevices": {"enabled": true}}}'


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "abilities"


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """An ELF program that is no script: `cat`, which prints the file `features` of its working directory."""
    program = tmp_path / "runtime"
    shutil.copy("/bin/cat", program)
    return program


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> None:
        (tmp_path / "features").write_text(text)

    return write


def test_a_runtime_that_says_yes_is_known(runtime: Path, record: Path, says: Callable[[str], None]) -> None:
    says(YES)
    assert not native_net_devices(str(runtime), World(), str(record))
    assert learn(str(runtime), str(record))
    assert native_net_devices(str(runtime), World(), str(record))
    assert record.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param("{}", id="no linux section"),
        pytest.param('{"linux": {}}', id="the member is missing, as in runc 1.1"),
        pytest.param('{"linux": {"netDevices": null}}', id="null"),
        pytest.param('{"linux": {"netDevices": {}}}', id="unknown, as the specification calls a missing value"),
        pytest.param('{"linux": {"netDevices": {"enabled": false}}}', id="no"),
        pytest.param('{"linux": {"netDevices": {"enabled": "true"}}}', id="a text"),
    ],
)
def test_every_other_answer_is_no(runtime: Path, record: Path, says: Callable[[str], None], answer: str) -> None:
    says(answer)
    assert not learn(str(runtime), str(record))
    assert not native_net_devices(str(runtime), World(), str(record))


def test_a_runtime_that_does_not_know_the_question_says_no(record: Path) -> None:
    assert not learn("/bin/false", str(record))


def test_the_installed_runtimes_are_older_than_the_question(record: Path) -> None:
    for name in ("runc", "crun"):
        program = shutil.which(name)
        assert program
        assert not learn(program, str(record))


def test_a_script_is_not_believed(tmp_path: Path, record: Path) -> None:
    script = tmp_path / "wrapper"
    script.write_text(f"#!/bin/sh\necho '{YES}'\n")
    script.chmod(0o755)
    assert not learn(str(script), str(record))


def _replace(runtime: Path) -> None:
    shutil.copy("/bin/cat", runtime.with_name("new"))
    runtime.with_name("new").rename(runtime)


def _append(runtime: Path) -> None:
    with runtime.open("ab") as file:
        file.write(b"x")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_replace, id="replaced by the same bytes"),
        pytest.param(_append, id="written to"),
        pytest.param(lambda runtime: os.utime(runtime, (1, 1)), id="dated back"),
        pytest.param(lambda runtime: runtime.unlink(), id="removed"),
    ],
)
def test_another_file_is_not_the_runtime_that_was_asked(
    runtime: Path, record: Path, says: Callable[[str], None], change: Callable[[Path], None]
) -> None:
    says(YES)
    learn(str(runtime), str(record))
    change(runtime)
    assert not native_net_devices(str(runtime), World(), str(record))


def _link(record: Path) -> None:
    record.rename(record.with_name("other"))
    record.symlink_to("other")


def _fifo(record: Path) -> None:
    record.unlink()
    os.mkfifo(record)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda record: record.write_text(""), id="empty"),
        pytest.param(lambda record: record.write_text(record.read_text().rstrip()), id="half"),
        pytest.param(lambda record: record.write_bytes(b"\xff" + record.read_bytes()), id="no text"),
        pytest.param(lambda record: record.write_text(record.read_text().replace("1", "2", 1)), id="another format"),
        pytest.param(lambda record: record.write_text(record.read_text().replace("net", "x", 1)), id="another ability"),
        pytest.param(lambda record: record.chmod(0o620), id="writable by the group"),
        pytest.param(lambda record: record.chmod(0o602), id="writable by all"),
        pytest.param(lambda record: os.chown(record, 4242, 0), id="of another owner"),
        pytest.param(_link, id="a link"),
        pytest.param(_fifo, id="a FIFO"),
        pytest.param(lambda record: record.unlink(), id="gone"),
    ],
)
def test_an_odd_record_grants_nothing(
    runtime: Path, record: Path, says: Callable[[str], None], spoil: Callable[[Path], None]
) -> None:
    says(YES)
    learn(str(runtime), str(record))
    assert native_net_devices(str(runtime), World(), str(record))
    spoil(record)
    assert not native_net_devices(str(runtime), World(), str(record))


def test_runtimes_are_remembered_side_by_side(
    runtime: Path, record: Path, says: Callable[[str], None], tmp_path: Path
) -> None:
    second = tmp_path / "second"
    shutil.copy("/bin/cat", second)
    says(YES)
    learn(str(runtime), str(record))
    learn(str(second), str(record))
    learn("/bin/false", str(record))
    assert native_net_devices(str(runtime), World(), str(record))
    assert native_net_devices(str(second), World(), str(record))
    says("{}")
    learn(str(second), str(record))
    assert native_net_devices(str(runtime), World(), str(record))
    assert not native_net_devices(str(second), World(), str(record))
    assert [path.name for path in record.parent.iterdir()] == ["abilities"]
