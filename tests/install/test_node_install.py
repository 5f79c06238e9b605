"""`shim node install` and `uninstall` below a directory that is the root of a host, without engines that run.

The hosts are those of tests/configs with a static busybox: no Python, no C library, no /proc and no /dev.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from install.machine import load

pytestmark = pytest.mark.engine

CONFIGS = Path(__file__).parent.parent / "configs"
SHIM = Path(sys.prefix) / "bin/shim"
ECHO = "#!/bin/sh\necho runc version 1.1.5\n"


@pytest.fixture(scope="module")
def payload(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image has for hosts, with the Python of this machine."""
    directory = tmp_path_factory.mktemp("payload") / "image"
    shutil.copytree(image, directory)
    listed = load("oci_interpreter").described(
        Path("/"), f"3.{sys.version_info[1]}", sorted((directory / "modules").rglob("*.so"))
    )
    (directory / "interpreter.json").write_text(json.dumps(listed))
    return directory


@dataclass
class Node:
    """A host's root, and the command with it."""

    root: Path
    payload: Path

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.command(verb), *words], capture_output=True, text=True, check=False)

    def command(self, verb: str) -> list[str]:
        image = ["--image", str(self.payload)] if verb == "install" else []
        return [str(SHIM), "node", verb, "--host-root", str(self.root), *image]

    def report(self, verb: str, *words: str, status: int = 0) -> dict[str, Any]:
        done = self.run(verb, *words, "-o", "json")
        assert done.returncode == status, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def ids(self, verb: str, *words: str, status: int = 1) -> list[str]:
        """The findings that are not notes."""
        findings = self.report(verb, *words, status=status)["findings"]
        return [finding["id"] for finding in findings if finding["level"] != "NOTE"]

    def contents(self) -> dict[str, str]:
        """All that is there: path -> text or target."""
        paths = sorted(self.root.rglob("*"))
        return {
            str(path.relative_to(self.root)): os.readlink(path)
            if path.is_symlink()
            else path.read_bytes().hex()[:4000]
            if path.is_file()
            else "directory"
            for path in paths
        }

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file


def _node(directory: Path, payload: Path, kind: str) -> Node:
    shutil.copytree(CONFIGS / kind, directory, symlinks=True)
    node = Node(directory, payload)
    for name in ("bin", "etc", "usr/bin"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", directory / "bin/sh")
    for name in ("containerd", "runc"):
        if not (directory / "usr/bin" / name).exists():
            node.write(f"usr/bin/{name}", ECHO, 0o755)
    return node


@pytest.fixture
def hosts() -> Iterator[Path]:
    """A directory for hosts, in memory: an installation ends with syncfs(2), which waits for all that use a disk."""
    with tempfile.TemporaryDirectory(prefix="hosts-", dir="/run") as directory:
        yield Path(directory)


@pytest.fixture
def node(hosts: Path, payload: Path) -> Node:
    """A host with containerd, and without a configuration file of it."""
    return _node(hosts / "host", payload, "containerd/none")


# kind of host -> options, the file that gets our keys
HOSTS = {
    "containerd/debian-1.6": ("containerd", "etc/containerd/config.toml"),
    "containerd/none": ("containerd", "etc/containerd/config.toml"),
    "containerd/k3s-1.35": (
        "containerd",
        "var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/shim.toml",
    ),
    "containerd/rke2-1.33": ("containerd", "var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.tmpl"),
    "containerd/k0s-1.34": ("containerd", "etc/k0s/containerd.d/shim.toml"),
    "crio/packaged-1.31": ("crio", "etc/crio/crio.conf.d/99-shim.conf"),
    "docker/debian-12": ("docker", "etc/docker/daemon.json"),
}


# In every run: one of each engine, and one that a distribution of Kubernetes writes
ALWAYS = ("containerd/none", "containerd/k3s-1.35", "crio/packaged-1.31", "docker/debian-12")


@pytest.mark.parametrize(
    "kind", [kind if kind in ALWAYS else pytest.param(kind, marks=pytest.mark.nightly) for kind in HOSTS]
)
def test_a_host_of_each_kind_gets_it_and_has_nothing_of_it_afterwards(hosts: Path, payload: Path, kind: str) -> None:
    node = _node(hosts / "host", payload, kind)
    engine, file = HOSTS[kind]
    before = node.contents()
    planned = node.report("install", "--engine", engine, "--dry-run")
    assert (planned["files"], planned["engines"][0]["files"][0]["path"]) == ("would be placed", f"/{file}")
    assert node.contents() == before, "a dry run changes nothing"

    done = node.report("install", "--engine", engine)
    assert (done["files"], done["directory"].rpartition("-")[2]) == ("placed", "1")
    assert planned["engines"][0]["files"] == done["engines"][0]["files"]
    assert "/usr/local/bin/shim" in (node.root / file).read_text()
    assert os.readlink(node.root / "etc/shim/low-level/shim").rpartition("/")[2] in {"runc", "crun"}
    after = node.contents()
    again = node.report("install", "--engine", engine)
    assert (again["files"], again["engines"][0]["changed"]) == ("present", False)
    assert node.contents() == after

    node.report("uninstall", "--dry-run")
    assert node.contents() == after, "a dry run changes nothing"
    removed = node.report("uninstall")
    assert removed["engines"][0]["changed"]
    left = {path: text for path, text in node.contents().items() if before.get(path) != text}
    assert left.keys() <= {"var", "var/lib", "etc/containerd"}, "directories of the system alone"
    assert before.items() <= node.contents().items()


def test_the_installed_python_takes_nothing_from_the_host(node: Node) -> None:
    """The host has another C library under the same names."""
    for name in ("lib/ld-musl-x86_64.so.1", "lib/libc.so.6", "lib64/ld-linux-x86-64.so.2", "usr/lib/libm.so.6"):
        node.write(name, "none of ours", 0o755)
    assert node.report("install")["files"] == "placed"
    launch = (node.root / "usr/local/lib/shim/launch").read_text().splitlines()
    program = launch[0]
    assert program.startswith(launch[1])
    words = [program, "-I", "-S", "-B", f"{launch[1]}/shim/__main__.py", "cli", "shim", "version", "-o", "json"]
    done = subprocess.run(["chroot", node.root, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["interpreter"] == program


def test_absolute_links_of_the_host_lead_within_it(node: Node) -> None:
    """/etc/containerd and /usr/local lie elsewhere on some hosts; followed from here they would be this machine's."""
    for link, target in (("etc/containerd", "/data/containerd"), ("usr/local", "/data/local")):
        (node.root / target.lstrip("/")).mkdir(parents=True)
        (node.root / link).symlink_to(target)
    node.report("install")
    assert "/usr/local/bin/shim" in (node.root / "data/containerd/config.toml").read_text()
    assert (node.root / "data/local/bin/shim").is_file()
    assert not Path("/data").exists()


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_file_of_another_origin_is_replaced_only_by_force(node: Node) -> None:
    other = node.write("usr/local/bin/shim", "of another program", 0o755)
    before = node.contents()
    assert node.ids("install") == ["NODE_PLACEMENT"]
    assert node.contents() == before
    assert node.ids("install", "--force", status=0) == []
    assert other.read_bytes()[:4] == b"\x7fELF"


def test_a_python_that_does_not_run_on_the_host_leaves_nothing(node: Node, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(node.payload, broken)
    document = json.loads((broken / "interpreter.json").read_text())
    document["files"]["lib/libc.so.6"] = "etc/hostname"
    (broken / "interpreter.json").write_text(json.dumps(document))
    before = node.contents()
    done = Node(node.root, broken).run("install")
    assert done.returncode == 1
    assert "NODE_PLACEMENT" in done.stderr
    assert "does not run on this host: " in done.stderr
    assert node.contents() == before


def test_an_engine_that_refuses_takes_the_first_installation_back(node: Node) -> None:
    node.write("etc/containerd/config.toml", "version = [")
    before = node.contents()
    assert node.ids("install") == ["ENGINE_CONFIG_SYNTAX"]
    assert before == {path: text for path, text in node.contents().items() if path in before}
    assert not (node.root / "usr/local/bin").exists()


def test_without_an_image_or_a_host_nothing_is_done(node: Node, tmp_path: Path) -> None:
    assert Node(node.root, tmp_path / "none").ids("install") == ["NODE_IMAGE"]
    assert Node(tmp_path / "none", node.payload).ids("install") == ["NODE_HOST_ROOT"]
    for words in (["--wait", "--dry-run"], ["--uninstall-on-exit"], ["--no-units"], ["--prefix", "usr"]):
        assert node.run("install", *words).returncode == 2


def test_files_that_name_the_launcher_keep_it(node: Node) -> None:
    node.report("install")
    node.write("etc/containerd/conf.d/mine.toml", 'version = 2\nBinaryName = "/usr/local/bin/shim"\n')
    before = node.contents()
    assert node.ids("uninstall") == ["NODE_NEEDED"]
    assert node.contents() == before
    assert node.report("uninstall", "--force")["installed"]
    assert not (node.root / "usr/local/bin").exists()


# --- later ------------------------------------------------------------------------------------------------------------


def test_a_later_image_replaces_the_installation_and_the_former_stays_for_processes_in_it(
    node: Node, tmp_path: Path
) -> None:
    first = node.report("install")["directory"]
    later = tmp_path / "later"
    shutil.copytree(node.payload, later)
    (later / "share/doc/cdi-shim/create.md").write_text("a later text\n")
    second = Node(node.root, later).report("install")
    assert (second["files"], second["directory"] != first) == ("placed", True)
    launch = (node.root / "usr/local/lib/shim/launch").read_text().splitlines()
    assert launch == [f"{second['directory']}/python/bin/python3", second["directory"]]
    assert (node.root / first.lstrip("/") / "python/bin/python3").exists()
    assert node.report("uninstall")["installed"]
    assert not (node.root / "usr/local").exists()


SYSTEMCTL = '#!/bin/sh\necho "$@" >>/calls\n[ "$2" != "$(cat /missing)" ]\n'


@pytest.mark.parametrize(
    ("kind", "missing", "calls"),
    [
        ("containerd/none", "", ["restart containerd"]),
        ("containerd/k3s-1.35", "k3s", ["restart k3s", "restart k3s-agent"]),
    ],
)
def test_an_engine_is_restarted_where_its_configuration_changed(
    hosts: Path, payload: Path, kind: str, missing: str, calls: list[str]
) -> None:
    node = _node(hosts / "host", payload, kind)
    node.write("usr/bin/systemctl", SYSTEMCTL, 0o755)
    (node.root / "bin/cat").symlink_to("sh")
    node.write("missing", missing)
    assert len(node.report("install", "--engine", "containerd", "--restart")["restarted"]) == 1
    assert (node.root / "calls").read_text().splitlines() == calls
    assert node.report("install", "--engine", "containerd", "--restart")["restarted"] == []
    assert len(node.report("uninstall", "--restart")["restarted"]) == 1
    assert (node.root / "calls").read_text().splitlines() == calls * 2


def test_a_restart_that_fails_is_an_error_and_the_files_are_written(node: Node) -> None:
    node.write("usr/bin/systemctl", "#!/bin/sh\necho no bus >&2\nexit 1\n", 0o755)
    report = node.report("install", "--restart", status=1)
    assert [finding["text"] for finding in report["findings"] if finding["id"] == "NODE_RESTART"] == [
        "`systemctl restart containerd` failed: no bus"
    ]
    assert (node.root / "etc/containerd/config.toml").exists()


def test_a_setup_that_cannot_run_is_an_error(node: Node) -> None:
    report = node.report("install", "--setup", status=1)
    (finding,) = [finding for finding in report["findings"] if finding["id"] == "NODE_SETUP"]
    assert "/proc/self/exe cannot be read" in finding["text"], "the launcher needs /proc, which this host lacks"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_waits_and_takes_everything_back_at_a_signal(node: Node, number: int) -> None:
    before = node.contents()
    command = [*node.command("install"), "--wait", "--uninstall-on-exit"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("/usr/local/bin/shim: placed")
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.endswith("/usr/local/bin/shim: removed\n")
    assert before.items() <= node.contents().items()
    assert not (node.root / "usr/local").exists()
