"""The interpreter that an image brings: three fields of a program changed, and a process in the root of a host."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.node import host_root
from shim.node.interpreter import Brought, PatchError, patched
from shim.node.payload import Payload
from shim.node.placement import Refusal

DEBIAN = Path("/usr/bin/python3").resolve()


def test_a_program_is_started_by_the_other_loader_and_takes_its_libraries_from_the_other_directory(
    tmp_path: Path,
) -> None:
    text = subprocess.run(["ldd", DEBIAN], capture_output=True, text=True, check=True).stdout
    libraries = [Path(word) for word in text.split() if word.startswith("/")]
    loader = next(path.name for path in libraries if path.name.startswith("ld-"))
    for path in libraries:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / loader).chmod(0o755)
    program = tmp_path / "program"
    program.write_bytes(patched(DEBIAN.read_bytes(), str(tmp_path / loader), str(tmp_path)))
    program.chmod(0o755)
    script = "print(open('/proc/self/maps').read())"
    maps = subprocess.run([program, "-I", "-S", "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert {Path(path).name for path in loaded} >= {loader, "libc.so.6"}
    assert {str(Path(path).parent) for path in loaded} == {str(tmp_path)}


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (b"#!/bin/sh\n", "no ELF file"),
        (b"\x7fELF\x01\x01" + bytes(200), "no ELF file of 64 bits"),
        (Path("/bin/busybox").read_bytes(), "not linked dynamically"),
    ],
    ids=["script", "32 bits", "static"],
)
def test_another_program_is_refused(program: bytes, text: str) -> None:
    with pytest.raises(PatchError, match=text):
        patched(program, "/lib/ld.so", "/lib")


def test_a_text_that_does_not_fit_into_the_padding_is_refused() -> None:
    with pytest.raises(PatchError, match="no padding"):
        patched(DEBIAN.read_bytes(), "/lib/ld.so", "/" + "x" * 4096)


def test_a_document_that_is_missing_or_damaged_is_no_image(tmp_path: Path) -> None:
    for text in (None, "{", '{"program": "bin/python3"}', '{"program": "a", "loader": "b", "files": {"a": "none"}}'):
        if text is not None:
            (tmp_path / "interpreter.json").write_text(text)
        with pytest.raises(CdiError) as refused:
            Payload.at(tmp_path, Path("/"))
        assert [finding.id for finding in refused.value.findings] == ["NODE_IMAGE"]


def test_a_program_that_does_not_run_is_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "python/bin").mkdir(parents=True)
    program = tmp_path / "python/bin/python3"
    brought = Brought(Path("/"), "bin/python3", "lib/ld.so", {})
    for text in ("", "#!/bin/sh\necho why >&2\nexit 1\n"):
        program.write_text(text)
        program.chmod(0o755)
        with pytest.raises(Refusal, match="does not run on this host: " + ("why" if text else r"\[Errno 8\]")):
            brought.check(str(tmp_path))


# --- in the root of a host --------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "link").symlink_to("/etc")  # the host's, absolute
    return tmp_path


def test_absolute_paths_are_the_hosts_and_relative_ones_the_images(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = tmp_path_factory.mktemp("modules")
    (modules / "late_package").mkdir()
    (modules / "late_package/__init__.py").touch()
    (modules / "late_package/part.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(str(modules))

    def look(top: Path) -> tuple[list[str], bytes]:
        Path("/link/written").write_text("by the child")
        assert importlib.import_module("late_package.part").ANSWER == 42, "found below the image's root"
        return sorted(os.listdir("/")), (top / "usr/bin/python3").read_bytes()[:4]

    assert host_root.call(str(root), look) == (["etc", "link"], b"\x7fELF")
    assert (root / "etc/written").read_text() == "by the child"
    assert os.path.isabs(os.getcwd())
    assert "late_package" not in sys.modules


def test_errors_of_the_child_are_the_callers(root: Path) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device", "/etc/x")

    with pytest.raises(CdiError, match="/etc/x: it cannot be written: the file system is full"):
        host_root.call(str(root), full)

    def ends(_: Path) -> None:
        os._exit(7)

    with pytest.raises(CdiError, match="ended with status 7, without an answer"):
        host_root.call(str(root), ends)


def test_what_is_no_root_of_a_host_is_refused(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CdiError) as refused:
        host_root.call(str(tmp_path / "nowhere"), lambda _: None)
    assert [finding.id for finding in refused.value.findings] == ["NODE_HOST_ROOT"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CdiError, match="user 1000 cannot install below it"):
        host_root.call(str(root), lambda _: None)
