"""Every bundle of bundles/ comes out as its expected.json says, run as a newcomer runs it: by bundles/run.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BUNDLES = Path(__file__).parent.parent.parent / "bundles"
NAMES = sorted(path.parent.name for path in BUNDLES.glob("*/config.json"))

pytestmark = pytest.mark.engine


def _run(bundles: Path, name: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SHIM_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"  # for copies of the directory
    command = [str(bundles / "run.py"), name]  # a program: it had neither the mode nor a first line for that
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)


def test_every_directory_is_a_bundle_that_explains_itself() -> None:
    for directory in (path for path in BUNDLES.iterdir() if path.is_dir() and path.name != "__pycache__"):
        assert {"config.json", "expected.json", "README.md", "cdi"} <= {path.name for path in directory.iterdir()}
        assert f"`{directory.name}`" in (BUNDLES / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_comes_out_as_it_says(name: str) -> None:
    done = _run(BUNDLES, name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name in NAMES if "seen" in (BUNDLES / name / "expected.json").read_text()])
def test_a_bundle_whose_spec_lost_its_devices_is_noticed(tmp_path: Path, name: str) -> None:
    """The control: run.py can fail. Without its devices the spec names others, and there is no container."""
    shutil.copytree(BUNDLES, tmp_path / "bundles")
    for spec in (tmp_path / "bundles" / name / "cdi").iterdir():
        spec.write_text(re.sub(r'(\bkind"?: "?)[\w./-]+', r"\1lost.example/other", spec.read_text()))
    done = _run(tmp_path / "bundles", name)
    assert done.returncode == 1
    assert "does NOT come out as expected.json says" in done.stdout
    assert "DEVICE_UNKNOWN" in done.stdout


def test_a_variable_asks_for_nothing_unless_the_configuration_says_so(tmp_path: Path) -> None:
    shutil.copytree(BUNDLES, tmp_path / "bundles")
    (tmp_path / "bundles/image-variable/config.toml").unlink()
    done = _run(tmp_path / "bundles", "image-variable")
    assert done.returncode == 1
    assert re.search("visible +asked: void +seen: 0 +MISSING", done.stdout)


def test_a_refusal_for_another_reason_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(BUNDLES, tmp_path / "bundles")
    (tmp_path / "bundles/refused/cdi/radio.yaml").unlink()
    done = _run(tmp_path / "bundles", "refused")
    assert (done.returncode, "DEVICE_UNKNOWN" in done.stdout) == (1, True)


def test_a_bundle_runs_without_root_in_a_user_namespace() -> None:
    """It refused everybody but root, though runc needs nothing there but a cgroup, which the bundle can do without."""
    user = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "--bounding-set=-all"]
    command = [*user, "unshare", "--user", "true"]
    assert subprocess.run(command, check=False).returncode == 0, "this machine allows no user namespaces"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": "/nowhere"}
    words = [*user, str(BUNDLES / "run.py"), "hello"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without root: in a user namespace, without a cgroup" in done.stdout
