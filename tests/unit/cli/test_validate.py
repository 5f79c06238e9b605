"""`shim cdi validate --host` and `--for` as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

GOOD = """\
cdiVersion: "0.5.0"
kind: acme.example/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/null
"""
STALE = (
    GOOD
    + """\
    - path: /dev/acme7
    mounts:
    - {hostPath: /opt/acme/libacme.so.7, containerPath: /usr/lib/libacme.so.7, options: [bind]}
    hooks:
    - hookName: poststop
      path: /opt/acme/hook
"""
)


@pytest.fixture
def shim(launcher: Path, trusted_path: Path) -> Any:
    """Run `shim cdi validate`; its result. The configuration names one directory, trusted_path/cdi."""
    (trusted_path / "cdi").mkdir()
    (trusted_path / "config.toml").write_text(f'[cdi]\nspec-dirs = ["{trusted_path}/cdi"]\n')

    def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SHIM_CONFIG": f"{trusted_path}/config.toml"}
        command = [launcher, "cdi", "validate", *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, check=False)

    return run


def found(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str, int]]:
    """Id, level and line of each finding of all files."""
    every = [finding for of_file in json.loads(done.stdout).values() for finding in of_file]
    return [(finding["id"], finding["level"], finding["line"]) for finding in every]


def test_what_the_host_lacks_has_file_and_line(shim: Any, trusted_path: Path) -> None:
    path = trusted_path / "acme.yaml"
    path.write_text(STALE)
    assert [line for _, _, line in found(shim("-o", "json", path))] == [12], "without --host the hook's stage alone"
    done = shim("--host", path, "-o", "json")
    assert done.returncode == 1
    assert found(done) == [
        ("NODE_UNUSABLE", "ERROR", 8),
        ("MOUNT_MISSING", "ERROR", 10),
        ("HOOK_STAGE", "WARNING", 12),
        ("HOOK_MISSING", "ERROR", 12),
    ]
    assert f"{path}:8: the device node /dev/acme7 of the host" in shim("--host", path).stderr


def test_host_alone_checks_the_directories_of_the_configuration(shim: Any, trusted_path: Path) -> None:
    path = trusted_path / "cdi/acme.yaml"
    path.write_text(GOOD)
    done = shim("--host")
    assert (done.returncode, done.stdout) == (0, f"{path}: valid\n")
    path.chmod(0o666)
    assert "SPEC_UNTRUSTED" in shim("--host").stderr
    path.unlink()
    path.parent.rmdir()
    done = shim("--host")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{path.parent}: missing\n")
    done = shim()
    assert (done.returncode, "--host alone" in done.stderr) == (2, True)


def test_standard_input_is_checked_against_the_host(shim: Any) -> None:
    assert ("NODE_UNUSABLE", "ERROR", 8) in found(shim("--host", "-", "-o", "json", stdin=STALE))


def test_a_version_that_is_too_high_for_an_engine_is_named(shim: Any) -> None:
    text = GOOD.replace("0.5.0", "1.0.0")
    assert shim("-", stdin=text).returncode == 0
    done = shim("--for", "podman=4.9.3", "-", stdin=text)
    assert done.returncode == 1
    assert "-:1: cdiVersion 1.0.0 is too high: podman=4.9.3 reads up to 0.6.0" in done.stderr
    assert "write cdiVersion 0.5.0" in done.stderr
    assert shim("--for", "podman=5.5", "-", stdin=text).returncode == 0


def test_a_version_that_is_too_low_says_which_would_do_and_whether_the_engine_reads_that(shim: Any) -> None:
    text = GOOD + "    additionalGids: [44]\n"
    done = shim("--for", "podman=4.9.3", "--for", "docker=29.2", "-", stdin=text)
    assert "write cdiVersion 0.7.0 or newer" in done.stderr
    assert (
        "-:8: devices[0].containerEdits.additionalGids needs CDI 0.7.0: podman=4.9.3 reads up to 0.6.0" in done.stderr
    )
    assert "docker" not in done.stderr


def test_what_is_a_warning_elsewhere_is_an_error_for_an_engine(shim: Any) -> None:
    text = GOOD.replace("acme.example/gpu", "acme.example/g")
    assert found(shim("-", "-o", "json", stdin=text)) == [("KIND_SHORT", "WARNING", 2)]
    assert found(shim("--for", "docker=29.2", "-", "-o", "json", stdin=text)) == [("KIND_SHORT", "ERROR", 2)]


def test_an_unknown_engine_is_refused_before_anything_is_read(shim: Any) -> None:
    done = shim("--for", "acme=1", "/nowhere.yaml")
    assert done.returncode == 1
    assert "DISCOVERY_WISH" in done.stderr
    assert "nowhere" not in done.stderr
