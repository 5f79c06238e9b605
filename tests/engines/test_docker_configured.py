"""dockerd 20.10 takes a daemon.json that the edits of shim.engines.docker wrote, when it starts and when it reloads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.harness.device import FakeDevice, seen
from engines.harness.docker import Docker
from engines.harness.sandbox import Sandbox, wait_until

from shim.engines import verify
from shim.engines.model import NewRuntime, Put
from shim.engines.table import ENGINES
from shim.engines.texts import editing, json_edit
from shim.host.host import Daemon, Host

docker = ENGINES["docker"]

pytestmark = pytest.mark.engine


class Configured:
    """A dockerd whose file is edited while it runs, and what shim.engines sees of it.

    Arguments:
        words: more of its command line.
    """

    def __init__(self, sandbox: Sandbox, shim: Path, *words: str) -> None:
        self.sandbox = sandbox
        self.daemon = Docker(sandbox, shim, words=words)
        self.file = self.daemon.directory / "daemon.json"
        argv = ("/usr/sbin/dockerd", "--config-file", str(self.file), *words)
        self.host = Host(daemons=[Daemon(7, argv, 0.0)])
        self.location = docker.locate(self.host)

    def edit(self, new: NewRuntime) -> None:
        """Make the edits that `configure` makes."""
        registry = docker.read(self.host, self.location)
        steps = docker.edits(self.host, self.location, registry, new)
        self.file.write_bytes(editing.apply(steps, {str(self.file): self.file.read_bytes()})[str(self.file)])

    def put(self, keys: tuple[str, ...], value: Any) -> None:
        """Change one key as an administrator would."""
        step = Put(keys, value)
        self.file.write_text(json_edit.put(self.file.read_text(), step.keys, step.value))

    def reload(self) -> None:
        """What `systemctl reload docker` does."""
        before = self.log.count("Reloaded configuration")
        pid = (self.daemon.directory / "pid").read_text()
        self.sandbox.run("kill", "-HUP", pid).ok()
        wait_until(lambda: self.log.count("Reloaded configuration") > before, "dockerd has reloaded its file")

    @property
    def log(self) -> str:
        return (self.sandbox.scratch / "dockerd.log").read_text(errors="replace")

    def info(self, member: str) -> Any:
        return json.loads(self.daemon("info", "--format", f"{{{{json .{member}}}}}").ok())

    def stale(self) -> list[str]:
        """What the daemon does not know yet, and what helps."""
        found = docker.ask_daemon(self.host, self.location, docker.read(self.host, self.location))
        assert found is not None, "dockerd answers on its socket"
        return [f"{one}; {one.remedy}" for one in found]


@pytest.fixture
def configured(sandbox: Sandbox, shim: Path) -> Iterator[Configured]:
    it = Configured(sandbox, shim)
    yield it
    it.daemon.stop()


def test_a_runtime_is_there_after_a_reload_and_the_default_too(
    configured: Configured, shim: Path, device: FakeDevice
) -> None:
    assert configured.location.version[:2] == (20, 10)
    configured.put(("runtimes", "other"), {"path": "/usr/sbin/runc", "runtimeArgs": ["--debug"]})
    configured.reload()
    assert configured.stale() == []

    configured.edit(NewRuntime("shim", str(shim)))
    (said,) = configured.stale()
    assert "does not know the runtime shim as the file has it; systemctl reload docker" in said
    assert "shim" not in configured.info("Runtimes")
    configured.reload()
    assert configured.stale() == []
    runtimes = configured.info("Runtimes")
    assert {"runc", "other", "shim"} <= set(runtimes)
    assert runtimes["shim"] == {"path": str(shim)}
    assert runtimes["other"]["runtimeArgs"] == ["--debug"]
    assert configured.daemon.run("--rm", "--runtime=shim", script=device.probe).status == 0

    configured.edit(NewRuntime("shim", str(shim), default=True))
    (said,) = configured.stale()
    assert "the file's default runtime is shim; that of the running dockerd" in said
    configured.reload()
    assert configured.info("DefaultRuntime") == "shim"
    assert seen(configured.daemon.run("--rm", script=device.probe).ok())
    assert configured.stale() == []


def test_c2_dockerd_starts_no_program_that_its_path_lacks_and_verify_names_it(
    configured: Configured, sandbox: Sandbox
) -> None:
    """A runtime by its bare name: in the PATH of whoever runs verify, and not in dockerd's."""
    directory = sandbox.scratch / "host"
    (directory / "elsewhere").write_text('#!/bin/sh\nexec /usr/sbin/runc "$@"\n')
    (directory / "elsewhere").chmod(0o755)
    configured.put(("runtimes", "by-name"), {"path": "elsewhere"})
    configured.put(("runtimes", "by-path"), {"path": str(sandbox.host / "elsewhere")})
    configured.reload()
    assert configured.daemon.run("--rm", "--runtime=by-path", script="true").status == 0
    failed = configured.daemon.run("--rm", "--runtime=by-name", script="true")
    assert "executable file not found in $PATH" in failed.err
    daemon = Daemon(7, ("/usr/sbin/dockerd", "--config-file", str(configured.file)), 0.0, path="/usr/sbin:/usr/bin")
    host = Host(daemons=[daemon], environment={"PATH": str(directory)})
    findings = verify.findings(host, docker, docker.locate(host), "shim")
    (found,) = (finding for finding in findings if finding.id == "RUNTIME_BINARY_MISSING" and "by-name" in finding.text)
    assert found.text == (
        "the runtime by-name has the program elsewhere, which is in no directory of the PATH of the running daemon "
        f"(process 7): /usr/sbin:/usr/bin; there is {directory}/elsewhere"
    )


def test_runtimes_of_the_command_line_are_lost_by_a_reload_so_a_restart_is_advised(
    sandbox: Sandbox, shim: Path
) -> None:
    configured = Configured(sandbox, shim, "--add-runtime", "flagged=/usr/sbin/runc")
    try:
        assert "flagged" in configured.info("Runtimes")
        configured.edit(NewRuntime("shim", str(shim)))
        (said,) = configured.stale()
        assert "systemctl restart docker" in said
        configured.reload()
        assert "flagged" not in configured.info("Runtimes")
    finally:
        configured.daemon.stop()


def test_a_file_that_begins_empty_works_after_configure(sandbox: Sandbox, shim: Path) -> None:
    file = sandbox.scratch / "empty.json"
    file.write_text("")
    directories = [f"--data-root={sandbox.scratch}/d", f"--exec-root={sandbox.scratch}/x"]
    argv = ["/usr/sbin/dockerd", "--config-file", str(file), *directories]
    host = Host(daemons=[Daemon(7, tuple(argv), 0.0)])
    location = docker.locate(host)
    (fault,) = docker.read(host, location).findings
    assert fault.id == "ENGINE_CONFIG_SYNTAX"
    assert "EOF" in sandbox.run(*argv).err
    after = editing.apply(
        docker.edits(host, location, docker.read(host, location), NewRuntime("shim", str(shim))), {str(file): b""}
    )
    file.write_bytes(after[str(file)].replace(b"{\n", b'{\n  "hosts": ["nonsense"],\n', 1))
    assert "nonsense" in sandbox.run(*argv).err, "it is read to its end, and only what we broke is refused"


def test_running_containers_that_ask_a_vendors_runtime_are_counted(
    configured: Configured, sandbox: Sandbox, shim: Path
) -> None:
    """Found by the working directory of containerd's shim, which no manual promises: this test would notice."""
    vendor = sandbox.host / "nvidia-container-runtime"
    (sandbox.scratch / "host" / vendor.name).write_text('#!/bin/sh\nexec /usr/sbin/runc "$@"\n')
    (sandbox.scratch / "host" / vendor.name).chmod(0o755)
    configured.put(("runtimes", "nvidia"), {"path": str(vendor)})
    configured.put(("default-runtime",), "nvidia")
    configured.reload()
    asks = configured.daemon.run("--detach", "--env=NVIDIA_VISIBLE_DEVICES=all", script="sleep 1000").ok().strip()
    configured.daemon.run("--detach", script="sleep 1000").ok()
    ended = configured.daemon.run("--env=NVIDIA_VISIBLE_DEVICES=all", script="true")
    assert ended.status == 0
    words = ("--engine=docker", f"--config={configured.file}", f"--path={shim}", "--dry-run", "--output=json")
    [said] = json.loads(sandbox.run(shim, "runtime", "configure", *words).ok())
    assert {one["source"]: one["containers"] for one in said["lost_requests"]} == {
        "environment": [asks],
        "old-images": [],
    }
