"""`shim cdi transform` as a user types it: through the installed launcher."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

GPU = """\
# written by hand
cdiVersion: "0.7.0"
kind: acme.example/gpu
containerEdits:
  hooks:
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache, --folder, /lib]}
devices:
- name: "0"
  containerEdits:
    mounts: [{hostPath: /usr/lib/x.so, containerPath: /usr/lib/x.so, options: [bind]}]
    additionalGids: [44]
"""


@pytest.fixture
def transform(launcher: Path) -> Any:
    """Run `shim cdi transform`; its result."""

    def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [launcher, "cdi", "transform", *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    return run


def read(text: str) -> Any:
    return yaml.safe_load(text)


def test_a_root_is_replaced_and_the_result_printed(transform: Any) -> None:
    done = transform("root", "--from", "/usr", "--to", "/driver", "-", stdin=GPU)
    assert done.returncode == 0, done.stderr
    [device] = read(done.stdout)["devices"]
    [mount] = device["containerEdits"]["mounts"]
    assert (mount["hostPath"], mount["containerPath"]) == ("/driver/lib/x.so", "/usr/lib/x.so")
    back = transform("root", "--from", "/driver", "--to", "/usr", "-", stdin=done.stdout)
    assert read(back.stdout) == read(GPU)


def test_a_version_is_raised_where_a_moved_path_needs_that(transform: Any) -> None:
    text = 'cdiVersion: "0.3.0"\nkind: a.b/cc\ndevices: [{name: x, containerEdits: {deviceNodes: [{path: /dev/x}]}}]\n'
    done = read(transform("root", "--from", "/dev", "--to", "/r/dev", "-", stdin=text).stdout)
    assert done["cdiVersion"] == "0.5.0"
    assert done["devices"][0]["containerEdits"]["deviceNodes"] == [{"path": "/dev/x", "hostPath": "/r/dev/x"}]


def test_hooks_become_ours_and_the_vendor_s_again(transform: Any, launcher: Path) -> None:
    done = transform("hooks", "--to", "shim", "-", stdin=GPU)
    [hook] = read(done.stdout)["containerEdits"]["hooks"]
    assert (hook["path"], hook["args"]) == (str(launcher), ["shim", "hook", "update-ldcache", "--folder", "/lib"])
    assert read(transform("hooks", "--to", "vendor", "-", stdin=done.stdout).stdout) == read(GPU)
    assert transform("hooks", "--to", "vendor", "--hook-path", "/usr/bin/shim", "-", stdin=GPU).returncode == 2


def test_a_hook_that_is_kept_is_named(transform: Any) -> None:
    done = transform("hooks", "--to", "shim", "-", stdin=GPU.replace("update-ldcache, --folder", "chmod, --path"))
    assert (done.returncode, "HOOK_KEPT" in done.stderr) == (0, True)


def test_a_version_is_lowered_as_far_as_the_content_allows(transform: Any) -> None:
    high = GPU.replace("0.7.0", "1.1.0")
    assert read(transform("version", "--to", "lowest", "-", stdin=high).stdout)["cdiVersion"] == "0.7.0"
    assert read(transform("version", "--to", "1.0.0", "-", stdin=GPU).stdout)["cdiVersion"] == "1.0.0"
    done = transform("version", "--to", "0.6.0", "-", stdin=GPU)
    assert (done.returncode, done.stdout) == (1, "")
    assert "-:11: devices[0].containerEdits.additionalGids needs CDI 0.7.0, and 0.6.0 is asked for" in done.stderr


def test_a_version_that_is_too_low_is_raised(transform: Any) -> None:
    low = GPU.replace("0.7.0", "0.5.0")
    assert read(transform("version", "--to", "lowest", "-", stdin=low).stdout)["cdiVersion"] == "0.7.0"


def test_for_an_engine_a_lower_version_stays(transform: Any) -> None:
    assert read(transform("version", "--for", "docker=29.2", "-", stdin=GPU).stdout)["cdiVersion"] == "0.7.0"
    high = GPU.replace("0.7.0", "1.1.0")
    words = ["version", "--for", "docker=29.2", "--for", "podman=5.2"]
    assert read(transform(*words, "-", stdin=high).stdout)["cdiVersion"] == "0.8.0"
    assert "additionalGids" in transform("version", "--for", "podman=4.9.3", "-", stdin=GPU).stderr


def test_lossy_leaves_out_what_an_engine_does_not_read(transform: Any) -> None:
    done = transform("version", "--for", "podman=4.9.3", "--lossy", "-", stdin=GPU)
    assert done.returncode == 0, done.stderr
    made = read(done.stdout)
    assert (made["cdiVersion"], list(made["devices"][0]["containerEdits"])) == ("0.5.0", ["mounts"])
    assert "WARNING SPEC_LOWERED" in done.stderr
    assert (
        "additionalGids" in transform("version", "--for", "podman=4.9.3", "--lossy", "--dry-run", "-", stdin=GPU).stdout
    )


def test_a_device_that_gets_another_name_is_named(transform: Any) -> None:
    done = transform("version", "--for", "podman=4.1", "--lossy", "-", stdin=GPU)
    assert [device["name"] for device in read(done.stdout)["devices"]] == ["gpu0"]
    assert "so there are gpu0 in their place" in done.stderr


def test_files_are_merged_and_conflicts_named(transform: Any, tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / f"{name}.yaml").write_text(GPU.replace('"0"', f'"{name}"'))
    done = transform("merge", tmp_path / "0.yaml", tmp_path / "1.yaml", "--format", "json")
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == ["0", "1"]
    (tmp_path / "1.yaml").write_text(GPU.replace("[44]", "[45]"))
    done = transform("merge", tmp_path / "0.yaml", tmp_path / "1.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"SPEC_CONFLICT: {tmp_path}/1.yaml: the device 0 is otherwise in {tmp_path}/0.yaml" in done.stderr


def test_a_result_is_written_over_its_input(transform: Any, tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(yaml.safe_load(GPU)))
    path.chmod(0o640)
    words = ["version", "--to", "1.1.0", "--output", path, path]
    shown = transform(*words, "--dry-run")
    assert '+  "cdiVersion": "1.1.0",' in shown.stdout
    assert json.loads(path.read_text())["cdiVersion"] == "0.7.0"
    assert transform(*words).stdout == f"{path}: written\n"
    assert json.loads(path.read_text())["cdiVersion"] == "1.1.0"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_dry_run_without_a_file_shows_the_change_alone(transform: Any) -> None:
    done = transform("version", "--to", "1.0.0", "--dry-run", "-", stdin=GPU)
    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
    assert changed == ['-cdiVersion: "0.7.0"', '+cdiVersion: "1.0.0"']


def test_what_cannot_be_read_or_written_is_a_finding(transform: Any, tmp_path: Path) -> None:
    assert "SPEC_UNREADABLE" in transform("version", "--to", "lowest", tmp_path / "missing.yaml").stderr
    assert "SPEC_INVALID" in transform("hooks", "--to", "shim", "-", stdin="kind: x\n").stderr
    done = transform("version", "--to", "lowest", "--output", tmp_path / "no/such.yaml", "-", stdin=GPU)
    assert (done.returncode, "SPEC_WRITE" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ["version"],
        ["version", "--to", "9.9.9"],
        ["version", "--to", "lowest", "--for", "podman=4.9.3"],
        ["root", "--from", "usr", "--to", "/x"],
        ["version", "--to", "lowest", "--output", "x.yaml", "--format", "json"],
    ],
)
def test_what_makes_no_sense_is_refused(transform: Any, words: list[str]) -> None:
    assert transform(*words, "-", stdin=GPU).returncode == 2
