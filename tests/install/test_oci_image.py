"""The image of `make oci-image`, started by a real containerd, with the root of the machine mounted in it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from engines.harness import device as fake
from engines.harness import programs
from engines.harness.containerd import Containerd
from engines.harness.device import FakeDevice
from engines.harness.sandbox import Result, Sandbox, wait_until
from fakekubelet import FakeKubelet
from install.machine import TOP, Machine, make

import shim

pytestmark = [pytest.mark.engine, pytest.mark.nightly]  # the packages are fetched, and the image is compressed

NAME = f"localhost/cdi-shim:{shim.__version__}"
CONFIG = "/etc/containerd/config.toml"
STATE = ("/usr/local", "/etc/shim", "/etc/containerd", "/etc/logrotate.d", "/var/lib/shim", "/run/shim")


# What ctr gives a container
DEFAULTS = {
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID"),
    *("CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL"),
    "CAP_AUDIT_WRITE",
}

POD = yaml.safe_load((TOP / "packaging/kubernetes/daemonset.yaml").read_text())["spec"]["template"]["spec"]


def _container(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(container for container in POD["containers"] if container["name"] == name)
    return found


@pytest.fixture(scope="module")
def archive() -> Path:
    """The image as a tar."""
    make("oci-image")
    (path,) = (TOP / "dist").glob("cdi-shim_*.oci.tar")
    return path


@dataclass
class Node:
    """A machine whose containerd runs the image."""

    machine: Machine
    containerd: Containerd
    archive: Path
    calls: int = 0

    def start(self, *words: str) -> Result:
        """A container as `install` of the DaemonSet with another command, and what it says."""
        self.calls += 1
        command = ["run", "--rm", *self.privileges("install")]
        return self.containerd.ctr(*command, NAME, f"node-{self.calls}", "/usr/bin/shim", *words)

    def stay(self, name: str, *words: str) -> Path:
        """A container of the DaemonSet that stays, with its own command and further words; its log."""
        log = self.machine.sandbox.scratch / f"{name}.log"
        command = ["run", "--detach", "--log-uri", f"file://{log}", *self.privileges(name)]
        self.containerd.ctr(*command, NAME, name, "/usr/bin/shim", *_container(name)["args"], *words).ok()
        return log

    def end(self, name: str) -> None:
        """End such a container as the kubelet does."""
        self.containerd.ctr("task", "kill", "--signal", "TERM", name).ok()
        wait_until(lambda: "RUNNING" not in self.containerd.ctr("task", "ls").out, f"{name} has ended")
        self.containerd.ctr("task", "delete", name)
        self.containerd.ctr("container", "delete", name).ok()

    def privileges(self, name: str) -> list[str]:
        """What the DaemonSet gives a container: capabilities, mounts, a root that cannot be written."""
        container = _container(name)
        assert container["securityContext"]["readOnlyRootFilesystem"]
        granted = {f"CAP_{word}" for word in container["securityContext"]["capabilities"].get("add", ())}
        words = ["--read-only", "--with-ns", "pid:/proc/1/ns/pid"]
        words += [word for name in granted - DEFAULTS for word in ("--cap-add", name)]
        words += [word for name in DEFAULTS - granted for word in ("--cap-drop", name)]
        paths = {volume["name"]: volume["hostPath"]["path"] for volume in POD["volumes"]}
        for mount in container["volumeMounts"]:
            source, mode = paths[mount["name"]], "ro" if mount.get("readOnly") else "rw"
            if source != "/":
                self.machine.run("mkdir", "-p", source).ok()
            words += ["--mount", f"type=bind,src={source},dst={mount['mountPath']},options=rbind:{mode}"]
        return words

    def report(self, *words: str, status: int = 0) -> dict[str, Any]:
        done = self.start(*words, "-o", "json")
        assert done.status == status, done.out + done.err
        document: dict[str, Any] = json.loads(done.out)
        return document


@pytest.fixture(scope="module")
def node(archive: Path) -> Iterator[Node]:
    with Sandbox() as sandbox:
        machine = Machine(sandbox)
        machine.run("rm", "-rf", "/etc/shim/low-level", "/etc/containerd", "/var/lib/shim").ok()
        containerd = Containerd(sandbox, Path("/usr/local/bin/shim"))
        containerd.ctr("image", "import", archive).ok()
        yield Node(machine, containerd, archive)
        containerd.stop()


def test_the_image_is_a_layout_whose_digests_are_right(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr] # all are files
    for path, data in files.items():
        if path.startswith("blobs/sha256/"):
            assert path.rpartition("/")[2] == hashlib.sha256(data).hexdigest()
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == NAME
    directory = {str(path.relative_to(TOP / "dist/oci-image")) for path in (TOP / "dist/oci-image").rglob("*")}
    assert files.keys() <= directory


def test_the_same_source_and_packages_give_the_same_image(archive: Path) -> None:
    before = archive.read_bytes()
    make("oci-image")
    assert archive.read_bytes() == before


def test_every_command_of_the_image_runs_in_it(node: Node) -> None:
    assert node.start("version").ok().startswith("shim ")
    for words in (("node", "install"), ("node", "labels"), ("cdi", "refresh")):
        assert "Usage: shim" in node.start(*words, "--help").ok()
    command = ["run", "--rm", NAME, "grpc", "/usr/bin/python3.11", "-c"]
    script = "import grpc, google.protobuf.descriptor_pool; print(grpc.__version__)"
    assert node.containerd.ctr(*command, script).ok()


def test_it_installs_on_the_host_gives_a_device_and_leaves_nothing(node: Node) -> None:
    machine, containerd = node.machine, node.containerd
    install = ("node", "install", "--host-root", "/host", "--engine", "containerd")
    before = machine.files(*_there(machine))
    assert node.report(*install, "--dry-run")["files"] == "would be placed"
    assert machine.files(*_there(machine)) == before

    done = node.report(*install)
    assert (done["files"], done["engines"][0]["changed"]) == ("placed", True)
    assert "/usr/local/bin/shim" in machine.run("cat", f"{containerd.directory}/config.toml").ok(), "of the daemon"
    assert machine.run("readlink", "/etc/shim/low-level/shim").ok().strip() == programs.find("runc")[0]
    version = json.loads(machine.run("/usr/local/bin/shim", "version", "-o", "json").ok())
    assert version["interpreter"] == f"{done['directory']}/python/bin/python3"
    assert node.report(*install)["files"] == "present"

    device = FakeDevice(machine.sandbox)
    device.publish()
    container = ("--annotation", f"cdi.k8s.io/x={fake.NAME}")
    answer = containerd.run("asks", "--rm", *container, script=fake.PROBE.replace("ZERO", "/dev/shim/zero")).ok()
    assert "env=one" in answer
    assert "zero=00000000" in answer

    containerd.run("stays", "--detach", *container, script="sleep 1000").ok()
    refused = node.report("node", "uninstall", "--host-root", "/host", status=1)
    assert [finding["id"] for finding in refused["findings"]] == ["CONTAINERS_RUNNING"]
    assert containerd.ctr("task", "exec", "--exec-id", "e", "stays", "true").ok() == ""
    containerd.ctr("task", "kill", "--signal", "KILL", "stays").ok()
    containerd.ctr("task", "delete", "--force", "stays")
    containerd.ctr("container", "delete", "stays").ok()

    removed = node.report("node", "uninstall", "--host-root", "/host")
    assert removed["engines"][0]["changed"]
    assert "bin/shim" not in machine.run("cat", f"{containerd.directory}/config.toml").ok()
    after = machine.files(*_there(machine))
    assert [line for line in after if line not in before] == []
    assert "shim" not in machine.run("ls", "/run", "/var/lib", "/usr/local/bin", "/usr/local/lib").ok().split()


def test_the_plugin_of_the_daemonset_serves_the_devices_of_the_host(node: Node) -> None:
    machine = node.machine
    FakeDevice(machine.sandbox).publish()
    sockets = machine.sandbox.scratch / "kubelet"
    machine.run("mkdir", "-p", "/var/lib/kubelet/device-plugins", sockets).ok()
    machine.run("mount", "--bind", sockets, "/var/lib/kubelet/device-plugins").ok()
    with FakeKubelet(sockets) as kubelet:
        node.stay("plugin")
        follower = kubelet.plugin(fake.KIND)
        assert follower.lists[0].keys() == {"one"}
        assert follower.allocate(["one"]) == [({f"cdi.k8s.io/{fake.KIND.replace('/', '_')}": fake.NAME}, [])]
        node.end("plugin")
    machine.run("umount", "/var/lib/kubelet/device-plugins").ok()
    machine.run("rm", "-r", "/var/lib/kubelet").ok()


def test_the_labels_of_the_daemonset_are_the_hosts(node: Node) -> None:
    file = "/etc/kubernetes/node-feature-discovery/features.d/shim"
    log = node.stay("labels")
    wait_until(lambda: node.machine.run("test", "-e", file).status == 0, "the feature file is there")
    node.end("labels")
    assert node.machine.run("test", "-e", file).status == 1, log.read_text()
    node.machine.run("rm", "-r", "/etc/kubernetes").ok()


def _there(machine: Machine) -> list[str]:
    return [path for path in STATE if machine.run("test", "-e", path).status == 0]


def test_it_stays_sets_the_host_up_and_takes_everything_back_at_sigterm(node: Node) -> None:
    machine = node.machine
    before = machine.files(*_there(machine))
    log = node.stay("install", "--engine", "none", "--uninstall-on-exit")
    wait_until(lambda: machine.run("test", "-e", "/usr/local/bin/shim").status == 0, "it is installed")
    wait_until(lambda: "inventory" in machine.run("ls", "/var/lib/shim").out, "the host is set up")
    node.end("install")
    assert machine.run("test", "-e", "/usr/local/bin/shim").status == 1, log.read_text()
    assert [line for line in machine.files(*_there(machine)) if line not in before] == []
