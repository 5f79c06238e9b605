"""`shim gate verify` and `shim gate log`: each way around a gate has its finding."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conformance.gate_wire import running

from shim.base.findings import CdiError
from shim.cli import gate as command
from shim.gate import decisions, verify
from shim.gate.judge import Policy

INFO = {
    "ServerVersion": "28.2.2",
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {"path": "runc"}},
    "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "CgroupDriver": "systemd",
}


@pytest.fixture
def socket(tmp_path: Path) -> str:
    """A path at which only root could connect."""
    (tmp_path / "docker.sock").touch(mode=0o600)
    return str(tmp_path / "docker.sock")


def found(socket: str, policy: Policy | None = None, info: dict[str, Any] | None = None, **more: Any) -> list[str]:
    rules = policy or Policy("repo-a", bind_roots=())
    deployment = verify.Deployment(rules, socket, {**INFO, **(info or {})}, more.pop("version", {}), **more)
    return [finding.id for finding in verify.check(deployment)]


def test_nothing_is_wrong_with_a_good_deployment(socket: str) -> None:
    assert found(socket, spec_dirs=("/etc/cdi", "/var/run/cdi")) == []


@pytest.mark.parametrize(
    ("info", "more", "expected"),
    [
        pytest.param({"ServerVersion": "20.10.24"}, {}, "GATE_ENGINE", id="no CDI"),
        pytest.param({"ServerVersion": "26.1.4"}, {}, "GATE_ENGINE", id="reads the top"),
        pytest.param({}, {"version": {"Components": [{"Name": "Podman Engine"}]}}, "GATE_PODMAN", id="podman"),
        pytest.param({}, {"config": {"hosts": ["unix:///x", "tcp://0.0.0.0:2375"]}}, "GATE_TCP", id="TCP in the file"),
        pytest.param({}, {"words": ("dockerd", "-H", "tcp://127.0.0.1:2375")}, "GATE_TCP", id="TCP in a word"),
        pytest.param({}, {"words": ("dockerd", "--host=tcp://[::]:1")}, "GATE_TCP", id="TCP in a long word"),
        pytest.param({}, {"spec_dirs": ("/etc/cdi",)}, "GATE_SPEC_DIRS", id="other directories"),
        pytest.param({"CgroupDriver": "none"}, {}, "GATE_CGROUP", id="no cgroups"),
        pytest.param({}, {"words": ("dockerd", "-Htcp://:1")}, "GATE_TCP", id="TCP behind a letter"),
        pytest.param({"LiveRestoreEnabled": True}, {}, "GATE_LIVE_RESTORE", id="live restore"),
        pytest.param({"Swarm": {"ControlAvailable": True}}, {}, "GATE_SWARM", id="a manager"),
    ],
)
def test_a_way_around_the_gate_is_found(info: dict[str, Any], more: dict[str, Any], expected: str, socket: str) -> None:
    assert found(socket, info=info, **more) == [expected]


@pytest.mark.parametrize(
    ("runtime", "more", "count"),
    [
        pytest.param({"path": "/usr/bin/nvidia-container-runtime"}, {}, 1, id="environment of images"),
        pytest.param({"path": "/opt/other"}, {}, 1, id="unknown"),
        pytest.param({"path": "/usr/bin/shim"}, {"open_sources": True}, 1, id="shim with open sources"),
        pytest.param({"path": "/usr/bin/shim", "runtimeArgs": ["--device=a/b=c"]}, {}, 1, id="devices for everybody"),
        pytest.param({"path": "/usr/bin/shim"}, {}, 0, id="shim"),
    ],
)
def test_a_default_runtime_that_gives_devices(
    runtime: dict[str, Any], more: dict[str, Any], count: int, socket: str
) -> None:
    policy = Policy("repo-a", runtimes={"": (), "default": ()}, bind_roots=())
    info = {"DefaultRuntime": "default", "Runtimes": {"default": runtime}}
    assert found(socket, policy, info, **more) == ["GATE_RUNTIME"] * count


def test_a_default_runtime_that_is_not_in_the_policy(socket: str) -> None:
    """A container would be created with none named, stored with its name, and refused at its start."""
    assert found(socket, info={"DefaultRuntime": "crun", "Runtimes": {"crun": {"path": "crun"}}}) == ["GATE_RUNTIME"]


@pytest.mark.parametrize(("mode", "expected"), [(0o600, []), (0o666, ["GATE_SOCKET"])])
def test_who_can_connect_without_the_gate(mode: int, expected: list[str], socket: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Path(socket).chmod(mode)
    assert found(socket) == expected
    Path(socket).unlink()
    assert found(socket) == ["GATE_SOCKET"]


def test_a_group_that_can_connect(socket: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    os.chown(socket, -1, 12345)
    Path(socket).chmod(0o660)
    assert found(socket) == ["GATE_SOCKET"]


def test_binds(socket: str, tmp_path: Path) -> None:
    assert found(socket, Policy("repo-a")) == ["GATE_BINDS"]
    assert found(socket, Policy("repo-a", bind_roots=("/nowhere",))) == ["GATE_NODEV"]
    is_nodev = bool(os.statvfs(tmp_path).f_flag & os.ST_NODEV)
    assert found(socket, Policy("repo-a", bind_roots=(str(tmp_path),))) == ([] if is_nodev else ["GATE_NODEV"])


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({}, 1),
        ({"builder": {"entitlements": {"device": True}}}, 1),
        ({"builder": {"entitlements": {"device": False}}}, 0),
        ({"builder": {"entitlements": {"device": False, "security-insecure": True}}}, 1),
    ],
)
def test_a_builder_that_passes_must_be_without_devices(config: dict[str, Any], count: int, socket: str) -> None:
    policy = Policy("repo-a", builder="daemon", bind_roots=())
    assert found(socket, policy, config=config) == ["GATE_BUILDER"] * count
    assert found(socket, config=config) == []


def test_a_spec_whose_devices_every_build_gets(socket: str, tmp_path: Path) -> None:
    spec = tmp_path / "x.json"
    spec.write_text('{"annotations": {"org.mobyproject.buildkit.device.autoallow": "true"}}')
    (tmp_path / "y.json").write_text("{}")
    automatic = verify.automatic([str(spec), str(tmp_path / "y.json"), "/nowhere"])
    assert automatic == (str(spec),)
    policy = Policy("repo-a", builder="daemon", bind_roots=())
    config = {"builder": {"entitlements": {"device": False}}}
    assert found(socket, policy, config=config, automatic=automatic) == ["GATE_BUILDER"]


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command.gate, words)
    return done.exit_code, done.output


def test_the_command_asks_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path) as setup:
        setup.daemon.info = {**INFO, "ServerVersion": "20.10.24"}
        words = ["verify", "--subject=repo-a", f"--upstream={setup.gate.upstream}", f"--grants={tmp_path}/none"]
        status, output = run(*words, "-o", "json")
    document = json.loads(output[: output.rindex("}") + 1])
    ids = [finding["id"] for finding in document["findings"]]
    assert {"GATE_ENGINE", "GATE_BINDS"} <= set(ids)
    assert status == int("ERROR" in {finding["level"] for finding in document["findings"]})


def test_the_command_without_a_daemon_and_with_broken_grants(trusted_path: Path) -> None:
    (trusted_path / "grants.json").write_text("{")
    words = ["verify", "--subject=repo-a", "--upstream=/nowhere/docker.sock", f"--grants={trusted_path}/grants.json"]
    status, output = run(*words)
    assert status == 1
    assert "GATE_UPSTREAM" in output
    assert "GRANTS_UNREADABLE" in output


LINES = [
    {"time": "2026-01-01T00:00:00Z", "subject": "repo-a", "event": "start"},
    {
        "time": "2026-01-01T00:00:01Z",
        "subject": "repo-a",
        "decision": "deny",
        "reason": "privileged",
        "method": "POST",
        "target": "/containers/create",
        "uid": 1000,
    },
    {"time": "2026-01-01T00:00:02Z", "subject": "repo-b", "decision": "deny", "reason": "swarm"},
    {
        "time": "2026-01-01T00:00:03Z",
        "subject": "repo-a",
        "decision": "allow",
        "reason": "ok-granted",
        "method": "POST",
        "target": "/containers/create",
        "uid": 1000,
        "devices": ["nvidia.com/gpu=0"],
    },
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES) + "no JSON\n[]\n{")
    return path


def test_decisions_of_a_file_are_shown(log: Path) -> None:
    status, output = run("log", "--subject=repo-a", f"--file={log}")
    assert status == 0
    lines = output.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == ["2026-01-01T00:00:01Z", "deny", "privileged", "1000", "POST", "/containers/create"]
    assert lines[2].endswith("nvidia.com/gpu=0")
    last = json.loads(run("log", "--subject=repo-a", f"--file={log}", "-n1", "-o", "json")[1])
    assert [entry["reason"] for entry in last["decisions"]] == ["ok-granted"]


def test_decisions_of_the_journal(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def journalctl(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert words[-1] == "--unit=shim-gate@repo-a.service"
        return subprocess.CompletedProcess(words, 0, log.read_text(), "")

    monkeypatch.setattr(subprocess, "run", journalctl)
    assert len(run("log", "--subject=repo-a")[1].splitlines()) == 3


def test_a_journal_that_cannot_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 1, "", "No journal files were found.\n")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(CdiError, match=r"journalctl failed: No journal files were found\.") as caught:
        decisions.of_journal("repo-a")
    assert caught.value.findings[0].id == "GATE_LOG"
    with pytest.raises(CdiError, match="it cannot be read"):
        decisions.of_file("/nowhere/log")
