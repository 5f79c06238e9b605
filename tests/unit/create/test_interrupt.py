"""Ctrl-C while a container is created: the old config.json or the new one, no traceback, and death by the signal."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["GPU=0"]}}],
}


def test_an_interrupt_at_any_moment_leaves_no_traceback_and_a_whole_config(
    installed: Path, trusted_path: Path, tmp_path: Path
) -> None:
    """29 of 60 ended in a traceback of Python, which the user of `shim run` saw on the terminal."""
    shim = installed.parent / "shim-true"  # whose low-level runtime is /usr/bin/true
    shim.symlink_to(installed.name)
    (trusted_path / "cdi").mkdir()
    (trusted_path / "c.toml").write_text(f'[cdi]\nspec-dirs = ["{trusted_path}/cdi"]\n')
    config = tmp_path / "config.json"
    original = '{"process": {"env": []}}'

    def start() -> subprocess.Popen[str]:
        config.write_text(original)
        (trusted_path / "cdi/x.json").write_text(json.dumps(SPEC))  # a new one, else the launcher repeats the decision
        return subprocess.Popen(
            [shim, "create", "--device", "acme.example/gpu=0", "--bundle", tmp_path, "c1"],
            env={"SHIM_CONFIG": str(trusted_path / "c.toml")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    began = time.monotonic()
    assert start().communicate()[0] == ""
    edited = config.read_text()
    assert json.loads(edited)["process"]["env"] == ["GPU=0"]
    usual = time.monotonic() - began

    chance = random.Random(1)
    statuses = []
    for _ in range(60):
        with start() as running:
            time.sleep(chance.random() * usual)
            running.send_signal(signal.SIGINT)
            said, _ = running.communicate()
        statuses.append(running.returncode)
        assert said == ""
        assert config.read_text() in {original, edited}
    assert set(statuses) <= {0, -signal.SIGINT}
    assert -signal.SIGINT in statuses, "none was hit"
    with start() as running:
        running.communicate()
    assert (running.returncode, config.read_text()) == (0, edited)
