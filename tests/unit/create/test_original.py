"""`run --device` holds for this run: the next one begins from the config.json that was there before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shim.create import original, record_files

DEVICES = [{"name": name, "containerEdits": {"env": [f"GPU{name}=1"]}} for name in ("0", "1")]
SPEC = {"cdiVersion": "0.6.0", "kind": "acme.example/gpu", "devices": DEVICES}
TEXT = '{ "process": {"env": []}, "x" : 1 }\n'  # not as we would write it


class Scene:
    """A bundle that is run again and again, by a low-level runtime that tells what it found."""

    def __init__(self, directory: Path, modules: Path) -> None:
        (directory / "cdi").mkdir()
        (directory / "cdi/gpu.json").write_text(json.dumps(SPEC))
        (directory / "config.toml").write_text(
            f'log.file = ""\n[cdi]\nspec-dirs = ["{directory}/cdi"]\ndefault-kind = "acme.example/gpu"\n'
        )
        self.bundle = directory / "bundle"
        self.bundle.mkdir()
        self.config = self.bundle / "config.json"
        self.config.write_text(TEXT)
        self.kept = Path(f"{self.config}{original.ENDING}")
        self.settings = directory / "config.toml"
        self._main = modules / "shim" / "__main__.py"

    def command(self, *words: str, verb: str = "run", script: str = "cat config.json") -> list[str]:
        said = ["low=/bin/sh", "name=shim", "self=/x/shim", f"verb={verb}", f"bundle={self.bundle}", *words]
        low = ["sh", "-c", script]
        return [sys.executable, "-I", "-S", "-B", str(self._main), "create", *said, "--", *low]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SHIM_CONFIG": str(self.settings)}

    def run(self, *words: str, verb: str = "run") -> Any:
        """The variables that a run's low-level runtime finds in config.json."""
        options: dict[str, Any] = {"cwd": self.bundle, "env": self.environment(), "text": True}
        return json.loads(subprocess.check_output(self.command(*words, verb=verb), **options))["process"]["env"]


@pytest.fixture
def scene(trusted_path: Path, modules: Path) -> Scene:
    return Scene(trusted_path, modules)


def test_b12_an_option_of_one_run_holds_for_it_alone(scene: Scene) -> None:
    """The bundle kept each device that it was ever run with, and nobody could take it out again."""
    assert scene.run("device=0") == ["GPU0=1"]
    assert scene.run("device=1") == ["GPU1=1"]
    assert scene.run("asks=0") == []
    assert scene.config.read_text() == TEXT
    assert not scene.kept.exists()


def test_owner_and_mode_are_those_of_the_file(scene: Scene) -> None:
    scene.config.chmod(0o640)
    os.chown(scene.config, 4242, 4242)
    scene.run("device=0")
    for file in (scene.kept, scene.config):
        status = file.stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 4242, 4242)
    scene.run("asks=0")
    assert (scene.config.stat().st_mode & 0o7777, scene.config.stat().st_uid) == (0o640, 4242)


def test_a_config_that_was_edited_since_stays(scene: Scene) -> None:
    scene.run("device=0")
    edited = scene.config.read_text().replace('"GPU0=1"', '"GPU0=2"')
    scene.config.write_text(edited)
    assert scene.run("asks=0") == ["GPU0=2"]
    assert scene.config.read_text() == edited
    assert not scene.kept.exists()


def test_a_run_in_the_foreground_is_not_robbed_of_its_device(scene: Scene) -> None:
    """It may not have read the file yet. What both began from is kept, so that the run after them has it again."""
    wait = scene.command("device=0", script="read x; cat config.json")
    first = subprocess.Popen(wait, cwd=scene.bundle, env=scene.environment(), stdin=-1, stdout=-1, text=True)
    while not scene.kept.exists() or "GPU0" not in scene.config.read_text():
        assert first.poll() is None
    assert scene.run("asks=0") == ["GPU0=1"]
    assert scene.run("device=1") == ["GPU0=1", "GPU1=1"]
    assert json.loads(first.communicate("go\n")[0])["process"]["env"] == ["GPU0=1", "GPU1=1"]
    assert scene.run("asks=0") == []
    assert scene.config.read_text() == TEXT


@pytest.mark.rootful
@pytest.mark.parametrize("is_there", [True, False])
def test_a_container_that_lives_keeps_the_config_that_was_made_for_it(
    scene: Scene, tmp_path: Path, is_there: bool
) -> None:
    """exec takes the variables of its device from there, update the rules."""
    root, id = tmp_path / "root", f"original-{os.getpid()}"
    key = record_files.key("shim", str(root), id)
    runc = tmp_path / "runc"
    runc.symlink_to("/bin/sh")
    words = [f"root={root}", f"id={id}", f"key={key}", f"low={runc}"]
    (root / id).mkdir(parents=True)
    try:
        scene.run("device=0", *words)
        if not is_there:
            (root / id).rmdir()
        assert scene.run("asks=0") == (["GPU0=1"] if is_there else [])
    finally:
        Path(record_files.directory(), key).unlink(missing_ok=True)


@pytest.mark.parametrize("text", ["", "nonsense", "[9]\nx", '[1,1,"x"]', '{"a":1}\n'])
def test_a_kept_file_that_is_none_changes_nothing(scene: Scene, text: str) -> None:
    scene.run("device=0")
    before = scene.config.read_text()
    scene.kept.write_text(text)
    assert scene.run("asks=0") == ["GPU0=1"]
    assert scene.config.read_text() == before


@pytest.mark.rootful
def test_a_kept_file_of_another_user_or_behind_a_link_does_not_count(scene: Scene) -> None:
    scene.run("device=0")
    os.chown(scene.kept, 4242, 4242)
    assert scene.run("asks=0") == ["GPU0=1"]
    os.chown(scene.kept, 0, 0)
    behind = scene.kept.rename(scene.kept.with_name("kept"))
    scene.kept.symlink_to(behind)
    assert scene.run("asks=0") == ["GPU0=1"]


def test_engines_call_create_and_nothing_is_kept_for_them(scene: Scene) -> None:
    assert scene.run("device=0", verb="create") == ["GPU0=1"]
    assert not scene.kept.exists()
    assert scene.run("asks=0") == ["GPU0=1"]
