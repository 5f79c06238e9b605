"""MIG instances come and go: a watcher sees it in /proc, and the spec follows."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import yaml
from conformance import hosts
from unit.discover.nvidia import test_native

from shim.discover import generate, refresh
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.discover.watch import Watch
from shim.host.host import Host

SPEC = "/var/run/cdi/shim-nvidia.com-gpu.yaml"
DIRS = ("/var/run/cdi",)
CAPABILITIES = "proc/driver/nvidia/capabilities/gpu7/mig"
SECOND = [
    test_native.file(f"/{CAPABILITIES}/gi4/access", "DeviceFileMinor: 40\n"),
    test_native.file(f"/{CAPABILITIES}/gi4/ci0/access", "DeviceFileMinor: 41\n"),
    test_native.node("/dev/nvidia-caps/nvidia-cap40", 40, "0444"),
    test_native.node("/dev/nvidia-caps/nvidia-cap41", 41, "0444"),
]


@pytest.fixture
def host(trusted_path: Path) -> Host:
    """Eight GPUs, the first of them with one MIG instance, and their spec."""
    hosts.build([*test_native.HOST, *test_native.MIG], trusted_path)
    (trusted_path / "var/run").mkdir(parents=True)
    host = Host(str(trusted_path))
    # without hooks, so that no launcher is needed
    wish = Wish("/usr/local/bin/shim", disabled_hooks=frozenset({"all"}))
    assert generate.generate(host, wish, Target(spec_dirs=DIRS), ["nvidia"]).written == {SPEC}
    return host


def instances(top: Path) -> list[str]:
    spec = yaml.safe_load(Path(f"{top}{SPEC}").read_text())
    return [device["name"] for device in spec["devices"] if ":" in device["name"]]


def test_an_instance_appears_and_disappears_within_two_seconds(host: Host, trusted_path: Path) -> None:
    watch = Watch(host)
    began = time.monotonic()
    hosts.build(SECOND, trusted_path)
    assert watch.wait(10)
    assert refresh.refresh(host, DIRS).state == refresh.WRITTEN
    assert time.monotonic() - began < 2
    assert instances(trusted_path) == ["0:gi3:ci0", "0:gi4:ci0"]
    watch.forgive([SPEC])
    began = time.monotonic()
    shutil.rmtree(trusted_path / CAPABILITIES / "gi3")
    assert watch.wait(10)
    outcome = refresh.refresh(host, DIRS)
    assert time.monotonic() - began < 2
    assert outcome.state == refresh.WRITTEN
    assert ("WARNING", "SPEC_SHRINKS") in [(finding.level, finding.id) for finding in outcome.findings]
    assert instances(trusted_path) == ["0:gi4:ci0"]


def test_a_gpu_that_is_no_longer_divided_is_one_device_again(host: Host, trusted_path: Path) -> None:
    shutil.rmtree(trusted_path / CAPABILITIES)
    assert refresh.refresh(host, DIRS).state == refresh.WRITTEN
    assert instances(trusted_path) == []
    hosts.build(test_native.MIG[:2], trusted_path)
    assert refresh.refresh(host, DIRS).state == refresh.WRITTEN
    assert instances(trusted_path) == ["0:gi3:ci0"]
