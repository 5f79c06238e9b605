"""`shim node labels` as a user types it, on fake machines and through the launcher."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conformance import runner
from conformance.labels_nvidia import build
from conformance.labels_nvml import LabelsNvml
from unit.node.labels import label_hosts

import shim.cli
from shim.cli import node_labels
from shim.discover.nvidia import nvml, nvml_facts_child
from shim.host.host import Host
from shim.node.labels.feature_file import DIRECTORY, FILE

CASES = {case["id"]: case["input"] for case in runner.read_cases(label_hosts.VECTORS / "labels-nvidia.json")}
T4 = CASES["ts-twice"]

Run = Callable[..., Result]


@pytest.fixture
def machine(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Run]:
    """Make the machine of a case; what runs `shim node labels` on it, with words and a status that is expected."""

    def make(given: dict[str, Any]) -> Run:
        build({**given, "config": None}, trusted_path)
        answers = lambda *_, **__: nvml_facts_child.collect(LabelsNvml(given["nvml"]))  # noqa: E731 - as in conformance
        monkeypatch.setattr(nvml, "ask", answers)
        monkeypatch.setattr(node_labels, "Host", lambda _root="/": Host(str(trusted_path)))

        def run(*words: str, status: int = 0) -> Result:
            done = CliRunner().invoke(shim.cli.shim, ["node", "labels", *words])
            assert done.exit_code == status, done.output
            return done

        return run

    return make


def file(trusted_path: Path) -> dict[str, str]:
    lines = (trusted_path / FILE.lstrip("/")).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_labels_are_printed_and_nothing_is_written(
    machine: Callable[[dict[str, Any]], Run], trusted_path: Path
) -> None:
    run = machine(T4)
    printed = run("--no-timestamp").stdout.splitlines()
    assert "nvidia.com/gpu.product=Tesla-T4" in printed
    assert printed == sorted(printed)
    document = json.loads(run("-o", "json").stdout)
    assert document["labels"]["nvidia.com/gpu.count"] == "1"
    assert document["labels"]["nvidia.com/gfd.timestamp"].isdecimal()
    assert document["findings"] == []
    assert not (trusted_path / DIRECTORY.lstrip("/")).exists()


def test_the_file_is_written_once(machine: Callable[[dict[str, Any]], Run], trusted_path: Path) -> None:
    run = machine(T4)
    shown = run("--oneshot", "--no-timestamp", "--dry-run").stdout
    assert "+nvidia.com/gpu.product=Tesla-T4" in shown and "would be written: " in shown
    assert not (trusted_path / DIRECTORY.lstrip("/")).exists()
    run("--oneshot", "--no-timestamp")
    assert file(trusted_path)["nvidia.com/gpu.product"] == "Tesla-T4"
    document = json.loads(run("--oneshot", "--no-timestamp", "--dry-run", "-o", "json").stdout)
    assert (document["written"], document["diff"], document["path"]) == (False, "", FILE)


def test_a_configuration_of_the_vendor_counts_where_no_option_is_given(
    machine: Callable[[dict[str, Any]], Run], trusted_path: Path
) -> None:
    run = machine(T4)
    (trusted_path / "config").write_text(T4["config"] + "flags: {migStrategy: mixed, gfd: {outputFile: /out/gfd}}\n")
    run("--oneshot", "--vendor-config", "/config")
    written = (trusted_path / "out/gfd").read_text()
    assert "nvidia.com/gpu.replicas=4\n" in written and "nvidia.com/mig.strategy=mixed\n" in written
    printed = run("--oneshot", "--vendor-config", "/config", "--output-file", "-", "--mig-strategy", "none").stdout
    assert "mig.strategy" not in printed
    (trusted_path / "config").write_text("version: v9\n")
    assert "version 'v9' is not known" in str(run("--vendor-config", "/config", status=1).exception)


def test_sharing_is_that_of_the_device_plugin(
    machine: Callable[[dict[str, Any]], Run], trusted_path: Path, tmp_path: Path
) -> None:
    run = machine(T4)
    (trusted_path / "etc/shim").mkdir(parents=True)
    (trusted_path / "etc/shim/node.toml").write_text('[[resource]]\nkind = "nvidia.com/gpu"\nreplicas = 2\n')
    assert "nvidia.com/gpu.replicas=2" in run().stdout
    file_of_node = tmp_path / "node.toml"
    file_of_node.write_text('[[resource]]\nkind = "nvidia.com/gpu"\nreplicas = 5\n')
    printed = run("--config", str(file_of_node)).stdout.splitlines()
    assert {"nvidia.com/gpu.replicas=5", "nvidia.com/gpu.product=Tesla-T4-SHARED"} <= set(printed)
    assert "cannot be read" in str(run("--config", str(tmp_path / "missing"), status=1).exception)


def test_where_the_vendors_own_discovery_writes_nothing_is_written_unless_forced(
    machine: Callable[[dict[str, Any]], Run], trusted_path: Path
) -> None:
    run = machine(T4)
    gfd = trusted_path / DIRECTORY.lstrip("/") / "gfd"
    gfd.parent.mkdir(parents=True)
    gfd.write_text("nvidia.com/gpu.count=1\n")
    assert "LABELS_TAKEN" in run("--oneshot").stderr
    assert file(trusted_path) == {}
    run("--oneshot", "--force")
    assert file(trusted_path)["nvidia.com/gpu.count"] == "1"


def test_a_driver_that_does_not_answer_leaves_the_old_file(
    machine: Callable[[dict[str, Any]], Run], trusted_path: Path
) -> None:
    run = machine(CASES["gpu-lost"])
    old = trusted_path / FILE.lstrip("/")
    old.parent.mkdir(parents=True)
    old.write_text("nvidia.com/old=1\n")
    failed = run("--oneshot", status=1)
    assert "LABELS_INCOMPLETE" in failed.stderr and "GPU 1" in failed.stderr
    assert file(trusted_path) == {"nvidia.com/old": "1"}


def test_a_missing_driver_is_a_failure_of_a_vendor_that_is_named(machine: Callable[[dict[str, Any]], Run]) -> None:
    run = machine(CASES["no-library-nvml"])
    assert run("--no-timestamp").stdout == ""
    assert "there is no libnvidia-ml.so.1" in run("--vendor", "nvidia", status=1).stderr
    assert "vgpu.present=false" in run("--vendor", "nvidia", "--allow-missing-driver").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--oneshot", "--watch"], "give one of them"),
        (["--dry-run"], "--dry-run goes with --oneshot"),
        (["--interval", "5"], "go with --watch"),
        (["--keep", "--oneshot"], "go with --watch"),
        (["--mig-strategy", "all"], "'all' is not one of"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], told: str) -> None:
    done = CliRunner().invoke(shim.cli.shim, ["node", "labels", *words])
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_watch_writes_the_file_and_removes_it_at_the_end(installed: Path, trusted_path: Path) -> None:
    file_of_ours = trusted_path / "features.d" / "shim"
    argv = [str(installed), "node", "labels", "--watch", "--vendor", "rules", "--output-file", str(file_of_ours)]
    for words, is_left in ((["--interval", "60"], False), (["--keep"], True)):
        process = subprocess.Popen([*argv, *words], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            assert "written: 0 labels" in process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        assert file_of_ours.exists() is is_left
