"""The host as the daemon sees it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from conformance.gate_wire import running

from shim.gate.daemon_view import Runtimes, View, of_info, resolve

GPU = "nvidia.com/gpu=0"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/plain", "/srv/plain"),
        ("/srv/absolute/x", "/dev/x"),
        ("/srv/relative/null", "/dev/null"),
        ("/srv/twice", "/dev"),
        ("/srv/above", "/dev"),
        ("/srv/missing/a/b", "/srv/missing/a/b"),
        ("/srv/file/below", "/srv/file/below"),
    ],
)
def test_links_are_resolved_below_the_root(path: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "srv/plain").mkdir(parents=True)
    (tmp_path / "srv/file").touch()
    for name, target in {
        "absolute": "/dev",
        "relative": "../dev",
        "twice": "absolute",
        "above": "../../../../../dev",
    }.items():
        (tmp_path / "srv" / name).symlink_to(target)
    assert resolve(path, str(tmp_path)) == expected


def test_a_circle_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        resolve("/a", str(tmp_path))


def test_the_root_is_that_of_the_process_that_listens(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        listener.bind(f"{tmp_path}/socket")
        listener.listen()
        view = View(f"{tmp_path}/socket", "/nowhere")
        assert view.root() == f"/proc/{os.getpid()}/root"
        (tmp_path / "link").symlink_to("/dev")
        assert view.realpath(f"{tmp_path}/link") == "/dev"


RUNTIMES: dict[str, Any] = {
    "runc": {"path": "runc"},
    "shim-gpu0": {"path": "/usr/bin/shim", "runtimeArgs": ["--device", GPU]},
    "both": {"path": "/usr/local/bin/shim-crun", "runtimeArgs": [f"--device={GPU}", "--device=a/b=c"]},
    "plain": {"path": "/usr/bin/shim"},
    "other-option": {"path": "/usr/bin/shim", "runtimeArgs": ["--device", GPU, "--root=/x"]},
    "other-program": {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": ["--device", GPU]},
}


def test_runtimes_of_the_shim_stand_for_the_devices_of_their_arguments() -> None:
    assert of_info({"Runtimes": RUNTIMES}) == {"shim-gpu0": (GPU,), "both": (GPU, "a/b=c")}
    assert of_info({"Runtimes": None}) == {}


def test_the_daemon_is_asked_each_time_and_the_policy_counts_first(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        runtimes = Runtimes({"": (), "plain": ()}, setup.gate.upstream)
        assert runtimes.get("shim-gpu0") is None
        setup.daemon.info = {"Runtimes": RUNTIMES}
        assert runtimes.get("shim-gpu0") == (GPU,)
        assert runtimes["plain"] == ()
        assert set(runtimes) == {"", "plain", "shim-gpu0", "both"}
        assert len(runtimes) == 4
    assert Runtimes({}, "/nowhere").get("shim-gpu0") is None
