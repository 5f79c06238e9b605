"""`shim hook precreate`: the recipe of create between two pipes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

KIND = "acme.example/gpu"
ASKING = {"annotations": {"cdi.k8s.io/x": f"{KIND}=0"}}
ANY = '[sources]\npodman-annotations = "any"\n'


class Scene:
    """A spec directory and a configuration; the installed launcher.

    The configuration lets annotations count although no podman calls; who calls is the matter of the last tests.
    """

    def __init__(self, directory: Path, launcher: Path) -> None:
        hook = {"hookName": "createContainer", "path": str(launcher), "args": ["shim", "hook", "update-ldcache"]}
        edits = {"env": ["GPU=0"], "hooks": [hook]}
        devices = [{"name": "0", "containerEdits": edits}]
        spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": devices}
        (directory / "cdi").mkdir()
        (directory / "cdi/gpu.json").write_text(json.dumps(spec))
        self.log = directory / "log"
        self.settings = directory / "config.toml"
        self.settings.write_text(f'[log]\nfile = "{self.log}"\n[cdi]\nspec-dirs = ["{directory}/cdi"]\n{ANY}')
        self._launcher = launcher

    def __call__(
        self, text: str | bytes, *words: str, out: Any = subprocess.PIPE
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self._launcher, "hook", "precreate", *words],
            input=text if isinstance(text, bytes) else text.encode(),
            stdout=out,
            stderr=subprocess.PIPE,
            env={**os.environ, "SHIM_CONFIG": str(self.settings)},
            timeout=60,
            check=False,
        )

    def logged(self) -> Any:
        return json.loads(self.log.read_text().splitlines()[-1])


@pytest.fixture
def scene(trusted_path: Path, installed: Path) -> Scene:
    return Scene(trusted_path, installed)


def test_the_config_comes_out_with_the_device(scene: Scene, tmp_path: Path) -> None:
    """The hook stays in: nobody knows yet what will run the container, and the tree is not touched."""
    (tmp_path / "etc").mkdir()
    config = {**ASKING, "x-unknown": [1], "root": {"path": str(tmp_path)}, "process": {"env": ["A=b"], "cwd": "/"}}
    done = scene(json.dumps(config))
    assert (done.returncode, done.stderr) == (0, b"")
    edited = json.loads(done.stdout)
    assert edited["process"]["env"] == ["A=b", "GPU=0"]
    assert edited["x-unknown"] == [1]
    [hook] = edited["hooks"]["createContainer"]
    assert (hook["args"], hook["timeout"]) == (["shim", "hook", "update-ldcache"], 10)
    assert list((tmp_path / "etc").iterdir()) == []
    logged = scene.logged()
    assert (logged["verb"], logged["outcome"], logged["folded"]) == ("precreate", "injected", [])
    again = scene(done.stdout)
    assert (again.returncode, again.stdout) == (0, done.stdout)


UNASKED: dict[str, str] = {
    "nothing asks": '{"process" : {} }\n',
    "no JSON": "{",
    "no object": "[]",
    "a name twice": '{"a":1,"a":2}',
    "nothing": "",
}


@pytest.mark.parametrize("text", UNASKED.values(), ids=UNASKED.keys())
def test_where_nothing_asks_the_very_bytes_come_out(scene: Scene, text: str) -> None:
    done = scene(text)
    assert (done.returncode, done.stdout, done.stderr) == (0, text.encode(), b"")
    assert not scene.log.exists()


REFUSED: dict[str, tuple[str, str]] = {
    "a device that nobody serves": (json.dumps({"annotations": {"cdi.k8s.io/x": f"{KIND}=7"}}), "DEVICE_UNKNOWN"),
    "no JSON that seems to ask": ('{"annotations":{"cdi.k8s.io/x"', "CONFIG_JSON"),
    "a name twice": (f'{{"annotations":{{"cdi.k8s.io/x":"a","cdi.k8s.io/x":"{KIND}=0"}}}}', "CONFIG_JSON"),
    "no object that could be edited": (json.dumps({**ASKING, "process": []}), "CONFIG_JSON"),
    "a working directory of the host": (json.dumps({**ASKING, "process": {"cwd": "/proc/self/fd/7"}}), "CWD_FORBIDDEN"),
    "more than anybody needs": (" " * (16 << 20) + json.dumps(ASKING), "CONFIG_JSON"),
}


@pytest.mark.parametrize(("text", "finding"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_given_is_refused_in_one_line_and_logged(scene: Scene, text: str, finding: str) -> None:
    done = scene(text)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"shim: {finding}: ".encode())
    assert done.stderr.count(b"\n") == 1
    if len(text) < 1 << 20:
        assert (scene.logged()["outcome"], scene.logged()["findings"][-1]["id"]) == ("failed", finding)


def test_an_output_that_takes_nothing_is_an_error(scene: Scene) -> None:
    with Path("/dev/full").open("wb") as full:
        done = scene(json.dumps(ASKING), out=full)
    assert done.returncode == 1
    assert b"cannot be written" in done.stderr


def test_it_takes_no_arguments(scene: Scene) -> None:
    done = scene("{}", "x")
    assert (done.returncode, done.stdout) == (2, b"")


def test_what_an_image_may_have_written_is_refused_where_the_parent_is_no_known_podman(scene: Scene) -> None:
    """Found by use, F2: an image of podman 4.3 got the device by its own annotation. Here no podman calls at all."""
    scene.settings.write_text(scene.settings.read_text().replace(ANY, ""))
    done = scene(json.dumps(ASKING))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"shim: REQUEST_ORIGIN: annotation cdi.k8s.io/x asks for acme.example/gpu=0: ")
    assert b"--runtime-flag" not in done.stderr, "the runtime that follows is not shim"
    assert scene.logged()["findings"][-1]["id"] == "REQUEST_ORIGIN"
    assert scene('{"annotations": {"other": "x"}}').returncode == 0


def test_such_annotations_can_be_ignored(scene: Scene) -> None:
    scene.settings.write_text(scene.settings.read_text().replace('"any"', '"ignore"'))
    text = json.dumps(ASKING).encode()
    done = scene(text)
    assert (done.returncode, done.stdout) == (0, text)
    assert scene.logged()["findings"][-1]["id"] == "REQUEST_IGNORED"


def test_an_image_that_says_it_is_a_sandbox_takes_no_device_away(scene: Scene) -> None:
    """Found by use, F3. podman's stage knows no id, and its pods have no such sandbox."""
    forged = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": ""}
    edited = json.loads(scene(json.dumps({"annotations": {**ASKING["annotations"], **forged}})).stdout)
    assert edited["process"]["env"] == ["GPU=0"]
