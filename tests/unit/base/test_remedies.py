"""What helps where a file cannot be read: a link that leads nowhere is there, and its target is not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from shim.base import remedies

GONE = OSError(errno.ENOENT, "gone")


# Path below the directory -> what is restored, "" where no link is to blame
PATHS = {
    "absolute": "/nowhere/x",
    "relative": "HERE/sub/none",
    "chain": "HERE/sub/none",
    "upwards": "HERE/sub/../none",
    "through/x.yaml": "/nowhere",
    "through/a/b/x.yaml": "/nowhere",
    "plain": "",
    "sub/plain": "",
    "good": "",
    "good/plain": "",
    "file/x": "",
    "a\0b": "",
}


@pytest.mark.parametrize(("path", "target"), PATHS.items())
def test_d11_the_remedy_for_a_link_to_nothing_was_to_name_a_file_that_exists(
    tmp_path: Path, path: str, target: str
) -> None:
    """The file was named, by its directory, and is there: its target is missing."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").touch()
    for name, to in {
        "absolute": "/nowhere/x",
        "relative": "sub/none",
        "chain": "relative",
        "upwards": "sub/../none",
        "through": "/nowhere",
        "good": "sub",
    }.items():
        (tmp_path / name).symlink_to(to)
    target = target.replace("HERE", str(tmp_path))
    assert remedies.missing_target(f"{tmp_path}/{path}") == target
    expected = f"remove the link, or restore its target {target}" if target else "name a file that exists"
    assert remedies.to_read(GONE, f"{tmp_path}/{path}") == expected
    assert remedies.to_read(OSError(errno.ENOENT, "gone", f"{tmp_path}/{path}")) == expected


def test_a_link_beside_the_working_directory_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("none")
    monkeypatch.chdir(tmp_path)
    assert remedies.missing_target("link") == "none"
    assert remedies.missing_target("none") == ""


def test_another_error_than_a_missing_file_keeps_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("none")
    path = str(tmp_path / "link")
    assert remedies.to_read(OSError(errno.EACCES, "closed", path)).startswith("run it as root")
    assert remedies.to_read(ValueError("a NUL")) == ""
