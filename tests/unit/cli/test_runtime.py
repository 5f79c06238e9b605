"""`shim runtime …`: what is said, in which form, with which exit status. On this machine, with containerd 1.6."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from shim.cli import runtime as cli_runtime
from shim.cli import shim as command
from shim.engines import launcher, table, undo_records
from shim.host import abilities
from shim.host.host import Daemon, Host

CONFIG = """# a comment
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = true
"""


class Machine:
    """Configuration of containerd in a directory of the test's own; `shim runtime` works on it."""

    def __init__(self, top: Path, shim: Path) -> None:
        self.config = top / "config.toml"
        self.config.write_text(CONFIG)
        self.shim = shim
        self.links = top / "links"

    def __call__(self, *words: str | Path) -> Result:
        options = ["--engine", "containerd", "--config", self.config] if "--engine" not in words else []
        return CliRunner().invoke(command, ["runtime", *map(str, words), *map(str, options)])

    def configure(self, *words: str) -> Result:
        return self("configure", "--path", self.shim, *words)


@pytest.fixture
def machine(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(undo_records, "SYSTEM_DIRECTORY", str(trusted_path / "state"))
    monkeypatch.setattr(launcher, "LINKS", str(trusted_path / "links"))
    monkeypatch.setattr(abilities, "RECORD", str(trusted_path / "abilities"))
    asked = Host.version

    def version(host: Host, program: str) -> tuple[int, ...]:
        """A containerd whose keys go into the file itself; that of Debian sid takes a drop-in."""
        return (1, 6, 20) if program.endswith("/containerd") else asked(host, program)

    monkeypatch.setattr(Host, "version", version)
    shim = trusted_path / "shim"
    shim.write_text("#!/bin/sh\n")
    shim.chmod(0o755)
    return Machine(trusted_path, shim)


@pytest.mark.rootful
def test_configure_says_what_it_wrote(machine: Machine) -> None:
    done = machine.configure()
    assert done.exit_code == 0, done.output
    assert f"containerd: {machine.config} written" in done.output
    assert f"{machine.links}/shim -> /usr/sbin/runc" in done.output
    assert machine.configure().output.startswith("containerd: nothing to change\n")
    assert (machine.links / "shim").readlink() == Path("/usr/sbin/runc")


@pytest.mark.rootful
def test_a_dry_run_prints_a_diff(machine: Machine) -> None:
    done = machine.configure("--dry-run")
    assert done.exit_code == 0, done.output
    assert machine.config.read_text() == CONFIG
    assert not machine.links.exists()
    assert done.stdout.startswith(f"--- {machine.config}\n+++ {machine.config}\n@@ ")
    assert f'+    BinaryName = "{machine.shim}"\n' in done.stdout
    assert f"would be: {machine.links}/shim -> " in done.stdout
    machine.configure()
    assert f'-    BinaryName = "{machine.shim}"\n' in machine("remove", "--dry-run").stdout
    assert machine("remove").exit_code == 0
    assert machine.config.read_text() == CONFIG


@pytest.mark.rootful
def test_the_diff_of_a_file_without_last_line_break_is_one_that_patch_takes(machine: Machine) -> None:
    machine.config.write_text(CONFIG.rstrip("\n"))
    said = machine.configure("--dry-run").stdout
    assert "     SystemdCgroup = true\n\\ No newline at end of file\ncontainerd: would be:" in said


@pytest.mark.rootful
def test_the_result_as_json(machine: Machine) -> None:
    (said,) = json.loads(machine.configure("-o", "json").stdout)
    assert (said["engine"], said["changed"], [file["path"] for file in said["files"]]) == (
        "containerd",
        True,
        [str(machine.config)],
    )
    assert said["link"] == {"path": f"{machine.links}/shim", "before": None, "after": "/usr/sbin/runc"}
    assert "SOURCE_OFF" in [finding["id"] for finding in said["findings"]]


@pytest.mark.parametrize("words", [("--dry-run",), ()], ids=["dry run", "for real"])
def test_what_a_vendors_runtime_took_and_shim_does_not_is_reported(
    machine: Machine, trusted_path: Path, words: tuple[str, ...]
) -> None:
    """Nothing was said: containers that asked by a variable of their image started without their devices."""
    vendor = trusted_path / "nvidia-container-runtime"
    vendor.write_text("#!/bin/sh\n")
    vendor.chmod(0o755)
    section = '[plugins."io.containerd.grpc.v1.cri".containerd'
    machine.config.write_text(
        f'version = 2\n{section}]\ndefault_runtime_name = "nvidia"\n{section}.runtimes.nvidia]\n'
        f'runtime_type = "io.containerd.runc.v2"\n{section}.runtimes.nvidia.options]\nBinaryName = "{vendor}"\n'
    )
    done = machine.configure(*words)
    assert done.exit_code == 0, done.output
    assert f"WARNING VENDOR_REQUESTS: {vendor} takes the variable NVIDIA_VISIBLE_DEVICES as a request" in done.stderr
    (said,) = json.loads(machine.configure(*words, "-o", "json").stdout)
    assert said["lost_requests"] == [
        {"source": source, "taken_from": "any", "counts_for": "off", "containers": []}
        for source in ("environment", "old-images")
    ]


def test_verify_prints_the_registration_the_runtimes_and_the_findings(machine: Machine) -> None:
    machine.configure()
    done = machine("verify")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[1:6] == [
        "CONFIG_VERSION=2",
        f"RUNTIME={machine.shim}",
        "RUNTIME_TYPE=io.containerd.runc.v2",
        "SYSTEMD_CGROUP=true",
        "HANDLER=shim",
    ]
    assert [line.split()[:2] for line in lines[7:9]] == [["runc", "(default)"], ["shim", str(machine.shim)]]
    assert any(line.split()[:2] == ["NOTE", "SOURCE_OFF"] for line in lines)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_verify_is_folded_to_the_width_of_the_terminal(launcher: Path, trusted_path: Path, columns: int) -> None:
    """Rows of runtimes and findings were up to 400 columns wide; in a pipe each finding and remedy is a line."""
    config = trusted_path / "daemon.json"
    table = '{"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/opt/a/b/gone"}}'
    name = "a-runtime-of-a-vendor"
    config.write_text(f'{{"default-runtime": "{name}", "runtimes": {{"{name}": {table}}}}}')
    verify = f"runtime verify --engine docker --config {config}"
    done = subprocess.run(
        ["script", "-qec", f"unset COLUMNS; stty cols {columns}; {launcher} {verify}", "/dev/null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.stdout.splitlines()]
    longest = max((word for line in lines for word in line.split()), key=len)
    assert max(map(len, lines)) <= max(columns, len(longest) + 6)
    finding = f"the runtime {name} has the program /opt/a/b/gone, which is missing"
    assert finding in " ".join(line.strip() for line in lines)
    for word in (f"{name} (default)", "/opt/a/b/gone", "io.containerd.runc.v2", f"{config}:1"):
        assert any(word in line for line in lines), "each cell stays whole"
    piped = subprocess.run([launcher, *verify.split()], capture_output=True, text=True, check=False).stdout
    assert any(line.startswith("ERROR") and line.endswith(finding) for line in piped.splitlines())


def test_c17_verify_says_by_which_option_a_runtime_is_registered(
    monkeypatch: pytest.MonkeyPatch, trusted_path: Path
) -> None:
    """It was called "(built in)"."""
    config = trusted_path / "daemon.json"
    config.write_text("{}")
    dockerd = Daemon(2, ("/usr/sbin/dockerd", "--config-file", str(config), "--add-runtime=toy=/opt/toy"), 0.0)
    monkeypatch.setattr(Host, "daemons", lambda _host, name: [dockerd] if name == "dockerd" else [])
    shown = CliRunner().invoke(command, ["runtime", "verify", "--engine", "docker", "--config", str(config)]).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("toy "))
    assert line.endswith("--add-runtime of the running daemon")
    assert "runc (default)" in shown
    assert "(built in)" in shown


def test_verify_of_what_is_not_registered_fails_and_invents_nothing(machine: Machine) -> None:
    done = machine("verify", "-o", "json")
    assert done.exit_code == 1
    said: dict[str, Any]
    (said,) = json.loads(done.stdout)
    assert said["registration"] == {
        "config_version": 2,
        "runtime": None,
        "runtime_type": None,
        "systemd_cgroup": None,
        "handler": None,
    }
    assert [finding["id"] for finding in said["findings"] if finding["level"] == "ERROR"] == ["HANDLER_MISSING"]


@pytest.mark.parametrize("verb", ["configure", "verify", "remove"])
def test_d9_json_was_an_object_for_one_engine_and_a_list_for_auto(machine: Machine, verb: str) -> None:
    """A script had to know how many engines there are, and registration had keys in capitals."""
    done = machine.configure("-o", "json") if verb == "configure" else machine(verb, "-o", "json")
    found = json.loads(done.stdout)
    assert [one["engine"] for one in found] == ["containerd"]

    def names(value: Any) -> list[str]:
        if isinstance(value, list):
            return [name for item in value for name in names(item)]
        return [one for key, item in value.items() for one in (key, *names(item))] if isinstance(value, dict) else []

    assert [name for name in names(found) if name != name.lower()] == []


@pytest.mark.parametrize(
    ("manifest", "status", "said"),
    [
        ("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: gpu}\nhandler: shim\n", 0, ""),
        (
            "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: gpu}\nhandler: shin\n",
            1,
            "HANDLER_MISSING",
        ),
        ("kind: [\n", 1, "MANIFEST_INVALID"),
    ],
    ids=["a handler that is there", "a handler that is not", "no YAML"],
)
def test_verify_checks_a_manifest(machine: Machine, tmp_path: Path, manifest: str, status: int, said: str) -> None:
    machine.configure()
    file = tmp_path / "rc.yaml"
    file.write_text(manifest)
    done = machine("verify", "--manifest", file)
    assert done.exit_code == status, done.output
    assert said in done.stdout
    assert "\nHANDLER=shim\n" in done.stdout, "what is registered is told all the same"


def test_a_refusal_changes_nothing_and_says_why(machine: Machine) -> None:
    machine.config.write_text('version = 2\ndisabled_plugins = ["cri"]\n')
    done = machine.configure()
    assert done.exit_code == 1
    assert "containerd: nothing was changed" in done.stderr
    assert "ERROR CRI_DISABLED" in done.stderr
    assert machine.config.read_text() == 'version = 2\ndisabled_plugins = ["cri"]\n'
    assert json.loads(machine.configure("-o", "json").stdout)[0]["findings"][0]["id"] == "CRI_DISABLED"


def test_a_dry_run_shows_the_change_and_what_would_refuse_it(machine: Machine) -> None:
    machine.shim.chmod(0o777)
    done = machine.configure("--dry-run")
    assert done.exit_code == 1
    assert "+++ " in done.stdout
    assert "ERROR LAUNCHER_UNTRUSTED" in done.stderr
    assert machine.configure().exit_code == 1
    assert machine.config.read_text() == CONFIG


def test_auto_leaves_out_the_containerd_that_works_for_docker_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = machine.config.with_name("docker.toml")
    config.write_text('disabled_plugins = ["cri"]\n')
    daemon_json = machine.config.with_name("daemon.json")
    host = Host(
        daemons=[
            Daemon(1, ("/usr/bin/containerd", "--config", str(config)), 0.0),
            Daemon(2, ("/usr/sbin/dockerd", "--config-file", str(daemon_json)), 0.0),
        ]
    )
    monkeypatch.setattr(cli_runtime, "Host", lambda: host)
    monkeypatch.setattr(table, "present", lambda _: [table.ENGINES["containerd"], table.ENGINES["docker"]])
    done = CliRunner().invoke(command, ["runtime", "configure", "--path", str(machine.shim)])
    assert done.exit_code == 0, done.output
    assert "containerd: left out" in done.stdout
    assert f"docker: {daemon_json} written" in done.stdout
    assert CliRunner().invoke(command, ["runtime", "remove"]).exit_code == 0
    assert not daemon_json.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["configure", "--engine", "auto", "--config", "/etc/x"],
        ["configure", "--engine", "containerd", "--hook"],
        ["verify", "--engine", "kata"],
        ["verify", "--engine", "auto", "--config", "/etc/x"],
        ["remove", "now"],
        ["configure", "--name", "../shim"],
        ["verify", "--engine", "auto", "--drop-in", "/etc/x"],
        ["verify", "--manifest", "/nowhere.yaml", "--engine", "docker"],
    ],
    ids=" ".join,
)
def test_usage(machine: Machine, words: list[str]) -> None:
    assert machine(*words).exit_code == 2


@pytest.mark.parametrize("words", [[], ["configure"], ["verify"], ["remove"], ["class"]], ids=" ".join)
def test_help_has_an_example(words: list[str]) -> None:
    done = CliRunner().invoke(command, ["runtime", *words, "--help"])
    assert done.exit_code == 0
    assert "Example" in done.output


@pytest.mark.rootful
def test_configure_asks_the_low_level_runtime_what_it_can_do(machine: Machine) -> None:
    """The create path starts no process; so this is when `RUNTIME features` is asked, and its answer written down."""
    script = machine.config.parent / "able"
    script.write_bytes(Path("/usr/sbin/runc").read_bytes())
    script.chmod(0o755)
    machine.configure("--low-level", str(script))
    assert os.path.exists(abilities.RECORD)
    assert str(script) not in Path(abilities.RECORD).read_text(), "runc 1.1 knows no linux.netDevices"


# --- RuntimeClass -----------------------------------------------------------------------------------------------------


def _class(*words: str) -> Result:
    return CliRunner().invoke(command, ["runtime", "class", *words])


def test_class_writes_what_verify_accepts(machine: Machine, tmp_path: Path) -> None:
    machine.configure()
    made = _class(
        "--name=gpu", "--handler=shim", "--node-selector=a.b/c=d", "--toleration=x=y:NoSchedule", "--overhead=cpu=10m"
    )
    assert made.exit_code == 0, made.output
    file = tmp_path / "rc.yaml"
    file.write_text(made.stdout)
    assert machine("verify", "--manifest", file).exit_code == 0
    said = yaml.safe_load(made.stdout)
    assert (said["metadata"]["name"], said["handler"], said["overhead"]) == (
        "gpu",
        "shim",
        {"podFixed": {"cpu": "10m"}},
    )
    assert said["scheduling"]["nodeSelector"] == {"a.b/c": "d"}
    assert said["scheduling"]["tolerations"] == [
        {"key": "x", "operator": "Equal", "value": "y", "effect": "NoSchedule"}
    ]


@pytest.mark.parametrize("words", [(), ("--handler", "shim"), ("--pod",)], ids=" ".join)
def test_d11_a_wrong_name_of_a_class_is_reported_once(words: tuple[str, ...]) -> None:
    """`--name GPU_x` was wrong as a name, as a label and as the handler, each with a sentence of its own."""
    refused = _class("--name", "GPU_x", *words)
    assert refused.exit_code == 2
    assert refused.stderr.count("GPU_x") == 1
    assert "metadata.name is 'GPU_x', which is no DNS label" in refused.stderr


def test_class_adds_a_pod_of_that_class() -> None:
    both = list(yaml.safe_load_all(_class("--pod", "--resource=acme.com/gpu").stdout))
    assert [one["kind"] for one in both] == ["RuntimeClass", "Pod"]
    assert both[1]["spec"]["runtimeClassName"] == both[0]["metadata"]["name"]
    assert both[1]["spec"]["containers"][0]["resources"] == {"limits": {"acme.com/gpu": 1}}


@pytest.mark.parametrize(
    "word",
    ["--name=Not_A_Label", "--node-selector=x", "--toleration=:x", "--overhead=cpu=lots", "--resource=acme.com/gpu"],
)
def test_class_refuses_what_kubernetes_would(word: str) -> None:
    assert _class(word).exit_code == 2


@pytest.mark.parametrize("verb", ["configure", "verify", "remove"])
def test_a_fifo_in_the_place_of_a_configuration_is_an_error_at_once(machine: Machine, verb: str) -> None:
    """It was opened, and waited for a writer for ever."""
    machine.config.unlink()
    os.mkfifo(machine.config)
    done = machine.configure() if verb == "configure" else machine(verb)
    assert done.exit_code == 1
    assert "ENGINE_CONFIG_UNREADABLE" in done.output
    assert "it is no regular file" in done.output


def test_a_fifo_in_the_place_of_a_manifest_is_an_error_at_once(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest")
    done = machine("verify", "--manifest", tmp_path / "manifest")
    assert done.exit_code == 2
    assert "it is no regular file" in done.output


def test_a_configuration_that_another_user_can_change_is_named(machine: Machine) -> None:
    """Whoever owns the file has the engine start any program as root: nothing said so."""
    machine.configure()
    assert "CONFIG_UNTRUSTED" not in machine("verify").output
    os.chown(machine.config, 4242, 0)
    done = machine("verify", "-o", "json")
    (finding,) = [one for one in json.loads(done.stdout)[0]["findings"] if one["id"] == "CONFIG_UNTRUSTED"]
    assert (finding["level"], finding["path"]) == ("WARNING", str(machine.config))
    assert "belongs to uid 4242" in finding["text"]


def _link(records: Path, elsewhere: Path) -> None:
    records.symlink_to(elsewhere)


def _writable(records: Path, _: Path) -> None:
    records.mkdir()
    records.chmod(0o777)


def _foreign(records: Path, _: Path) -> None:
    records.mkdir()
    os.chown(records, 4242, 4242)


@pytest.mark.rootful
@pytest.mark.parametrize("make", [_link, _writable, _foreign])
def test_records_that_others_could_write_are_neither_written_nor_read(
    machine: Machine, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    """They were written through a link, whose target got mode 0700, and what they say goes back into root's files."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    make(Path(undo_records.SYSTEM_DIRECTORY), elsewhere)
    for done in (machine.configure(), machine("remove")):
        assert done.exit_code == 1
        assert "CONFIG_BACKUP" in done.output
    assert machine.config.read_text() == CONFIG
    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_mode & 0o777 == 0o777


@pytest.mark.rootful
def test_a_directory_of_records_that_is_there_keeps_its_mode(machine: Machine) -> None:
    records = Path(undo_records.SYSTEM_DIRECTORY)
    assert machine.configure().exit_code == 0
    assert records.stat().st_mode & 0o777 == 0o700
    records.chmod(0o755)
    assert machine("remove").exit_code == 0
    assert not list(records.parent.glob("state/*"))
