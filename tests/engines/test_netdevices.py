"""Network interfaces of a spec reach containers of real runc and crun, which know nothing of linux.netDevices.

Runtimes that know it are younger than Debian 12: a program that says so stands in for one, and leaves the rest to the
real runtime. That crun 1.28 says so and moves the interface was tried by hand.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness import programs
from engines.harness.runtimes import Bundle, Runtime, RuntimeName
from engines.harness.sandbox import USER, Sandbox

pytestmark = pytest.mark.engine

SHOW = "ip -o addr show | grep -v ' lo ' | grep -v fe80; ip link show net0 | grep -o 'UP,' | head -1"


@pytest.fixture
def runtime(sandbox: Sandbox, runtime: Runtime) -> Iterator[Runtime]:
    """The launcher; beside it the host's interface nic0, and net.test/nic=one that gives it away as net0."""
    for words in ("link add nic0 type veth peer name peer0", "addr add 10.9.0.2/24 dev nic0", "link set nic0 up"):
        sandbox.run("ip", *words.split()).ok()
    give(sandbox, "net0")
    yield runtime
    sandbox.run("ip", "link", "del", "peer0").ok()


def give(sandbox: Sandbox, name: str) -> None:
    edits = {"netDevices": [{"hostInterfaceName": "nic0", "name": name}]}
    spec = {"cdiVersion": "1.1.0", "kind": "net.test/nic", "devices": [{"name": "one", "containerEdits": edits}]}
    (sandbox.scratch / "etc-cdi/nic.json").write_text(json.dumps(spec))


def interfaces(sandbox: Sandbox) -> dict[str, list[str]]:
    """Name -> IPv4 addresses of the sandbox's own network, lo left out."""
    told = json.loads(sandbox.run("ip", "-j", "addr", "show").ok())
    return {
        link["ifname"]: [info["local"] for info in link["addr_info"] if info["family"] == "inet"]
        for link in told
        if link["ifname"] in {"nic0", "peer0", "net0"}
    }


def records(bundle: Bundle) -> list[Path]:
    return list(bundle.directory.glob(".shim-*"))


def test_an_interface_goes_into_a_private_network_and_dies_with_it(runtime: Runtime, sandbox: Sandbox) -> None:
    bundle = Bundle(sandbox, "net-private", SHOW)
    ran = runtime("run", "--device", "net.test/nic=one", "--bundle", bundle.directory, bundle.id)
    lines = ran.ok().splitlines()
    assert len(lines) == 2
    assert "net0    inet 10.9.0.2/24" in lines[0]
    assert lines[1] == "UP,"
    assert "shim" not in ran.err
    assert "netDevices" not in bundle.config()["linux"]
    assert "nic0" not in interfaces(sandbox)
    assert records(bundle) == []
    sandbox.run("ip", "link", "add", "peer0", "type", "veth", "peer", "name", "other").ok()  # its other end died, too


def test_an_interface_comes_back_from_a_network_that_outlives_the_container(runtime: Runtime, sandbox: Sandbox) -> None:
    sandbox.run("ip", "netns", "add", "pod").ok()
    bundle = Bundle(sandbox, "net-pod", SHOW, annotations={"cdi.k8s.io/nic": "net.test/nic=one"})
    config = bundle.config()
    for namespace in config["linux"]["namespaces"]:
        if namespace["type"] == "network":
            namespace["path"] = "/run/netns/pod"
    bundle.file.write_text(json.dumps(config))
    for _ in range(2):  # the second start finds the interface as the first did
        ran = runtime.start_and_wait(bundle, "--bundle", bundle.directory)
        assert "net0    inet 10.9.0.2/24" in ran.ok()
        assert interfaces(sandbox) == {"nic0": ["10.9.0.2"], "peer0": []}
        assert records(bundle) == []
    sandbox.run("ip", "netns", "del", "pod").ok()


def test_a_name_that_the_container_has_fails_the_create_and_leaves_the_host_whole(
    runtime: Runtime, sandbox: Sandbox
) -> None:
    give(sandbox, "lo")
    bundle = Bundle(sandbox, "net-taken", SHOW)
    ran = runtime("run", "--device", "net.test/nic=one", "--bundle", bundle.directory, bundle.id)
    assert ran.status != 0
    # runc passes on what a hook wrote, crun has thrown it away
    assert {"runc": "NETDEV_NAME_TAKEN", "crun": "error executing hook"}[runtime.name] in ran.err
    assert runtime.containers() == []
    assert interfaces(sandbox) == {"nic0": ["10.9.0.2"], "peer0": []}
    assert records(bundle) == []


KNOWING = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
    if (argc == 2 && !strcmp(argv[1], "features"))
        return puts("{\"linux\": {\"netDevices\": {\"enabled\": true}}}") < 0;
    execv(RUNTIME, argv);
    return 1;
}
"""


@pytest.fixture
def knowing(sandbox: Sandbox, shim: Path, low_level: RuntimeName) -> Path:
    """The low-level runtime of the launcher: it says that it knows linux.netDevices."""
    program = sandbox.scratch / "host/knowing"
    argv: list[str | Path] = ["gcc", "-x", "c", "-", "-o", program, f'-DRUNTIME="{programs.find(low_level)[0]}"']
    subprocess.run(argv, input=KNOWING, text=True, check=True)
    inside = sandbox.host / "knowing"
    words = ["--engine=docker", f"--config={sandbox.scratch}/daemon.json", f"--path={shim}", f"--low-level={inside}"]
    sandbox.run(shim, "runtime", "configure", *words).ok()  # which asks the runtime what it can do
    return program


def test_a_runtime_that_was_asked_and_knows_them_gets_them_until_it_is_another_file(
    runtime: Runtime, sandbox: Sandbox, knowing: Path
) -> None:
    def run(name: str) -> tuple[Bundle, str]:
        bundle = Bundle(sandbox, name, SHOW)
        return bundle, runtime("run", "--device", "net.test/nic=one", "--bundle", bundle.directory, bundle.id).ok()

    bundle, shown = run("net-native")
    assert bundle.config()["linux"]["netDevices"] == {"nic0": {"name": "net0"}}
    assert not bundle.config().get("hooks")
    assert shown == ""  # the real runtime knows nothing of them, and nobody else touched the interface
    assert interfaces(sandbox) == {"nic0": ["10.9.0.2"], "peer0": []}
    knowing.touch()
    bundle, shown = run("net-another")
    assert "netDevices" not in bundle.config()["linux"]
    assert "net0    inet 10.9.0.2/24" in shown
    sandbox.run("ip", "link", "add", "peer0", "type", "veth", "peer", "name", "other").ok()  # its other end died


@pytest.mark.usefixtures("runtime")
def test_a_user_without_privileges_is_refused_before_anything_happens(sandbox: Sandbox) -> None:
    bundle = Bundle(sandbox, "net-rootless", SHOW)
    before = bundle.identity()
    argv = (sandbox.venv / "bin/shim", "--root", "/tmp/root", "run", "--device", "net.test/nic=one")
    ran = sandbox.run(*argv, "--bundle", bundle.directory, bundle.id, user=USER)
    assert ran.status == 1
    assert ran.err.startswith("shim: NETDEV_ROOTLESS: ")
    assert bundle.identity() == before
    assert interfaces(sandbox) == {"nic0": ["10.9.0.2"], "peer0": []}
