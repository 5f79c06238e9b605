"""User namespaces: podman as root with --uidmap, and podman of an unprivileged user.

There low-level runtimes bind-mount device nodes and take the path in the container for the one on the host, so a node
with another path fails under native CDI (podman 4.3 and 5.8); and root in the container is nobody to the host's nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.harness.device import NAME, NODE_DIRECTORY, WITH, FakeDevice, seen
from engines.harness.podman import Podman
from engines.harness.sandbox import UID, Sandbox

pytestmark = pytest.mark.engine

REQUEST = f"--annotation=cdi.k8s.io/vendor-test_one={NAME}"
FIRST = 100_000  # the host's id of the container's root
MAPPED = [f"--uidmap=0:{FIRST}:60000", f"--gidmap=0:{FIRST}:60000"]
GROUP = 1044  # a group of the host


@pytest.fixture
def node(sandbox: Sandbox) -> Iterator[Path]:
    """A node of the host with the numbers of /dev/zero, which root and its group alone may open."""
    path = Path(NODE_DIRECTORY, "guarded")
    sandbox.run("mknod", "-m", "660", path, "c", "1", "5").ok()
    yield path
    sandbox.run("rm", path).ok()


def _publish(sandbox: Sandbox, edits: dict[str, Any]) -> None:
    spec = {"cdiVersion": "0.7.0", "kind": "vendor.test/fake", "devices": [{"name": "one", "containerEdits": edits}]}
    (sandbox.scratch / "etc-cdi/vendor.json").write_text(json.dumps(spec), encoding="ascii")


def _findings(sandbox: Sandbox) -> list[str]:
    """The ids in the last line of the log of creates."""
    line = (sandbox.scratch / "log/shim.log").read_text().splitlines()[-1]
    return [finding["id"] for finding in json.loads(line)["findings"]]


READ = "head -c 4 /dev/in | od -An -tx1 | tr -d ' '"


def test_what_runtimes_do_to_the_null_device_stays_inside(sandbox: Sandbox) -> None:
    """They chown their standard streams: after these tests the machine's /dev/null belonged to uid 100000."""
    device, node, kind = sandbox.run("stat", "-c", "%d %i %F", "/dev/null").ok().split(maxsplit=2)
    outside = Path("/dev/null").stat()
    assert kind == "character special file\n"
    assert (int(device), int(node)) != (outside.st_dev, outside.st_ino)


def test_a_node_with_another_path_on_the_host_is_given(rootful: Podman, device: FakeDevice) -> None:
    assert seen(rootful.run("--rm", *MAPPED, REQUEST, script=device.probe).ok()) == WITH
    assert device.hook_state() is not None


def test_a_node_of_root_alone_does_not_open_and_the_log_says_why(rootful: Podman, sandbox: Sandbox, node: Path) -> None:
    _publish(sandbox, {"deviceNodes": [{"path": "/dev/in", "hostPath": str(node)}]})
    ran = rootful.run("--rm", *MAPPED, REQUEST, script=f"stat -c %a /dev/in; {READ}")
    assert ran.out == "660\n"
    assert "Permission denied" in ran.err
    assert _findings(sandbox) == ["NODE_CLOSED"]


def test_it_opens_where_the_container_holds_its_owner(rootful: Podman, sandbox: Sandbox, node: Path) -> None:
    sandbox.run("chown", f"{FIRST + 7}:{FIRST + 7}", node).ok()
    _publish(sandbox, {"deviceNodes": [{"path": "/dev/in", "hostPath": str(node)}]})
    assert rootful.run("--rm", "--name=owned", *MAPPED, REQUEST, script=READ).ok() == "00000000\n"
    assert _findings(sandbox) == []


def test_it_opens_by_its_group_where_that_is_mapped(rootful: Podman, sandbox: Sandbox, node: Path) -> None:
    """The spec names the group of the host; inside it has another number."""
    sandbox.run("chown", f"0:{GROUP}", node).ok()
    _publish(sandbox, {"deviceNodes": [{"path": "/dev/in", "hostPath": str(node)}], "additionalGids": [GROUP]})
    ran = rootful.run("--rm", MAPPED[0], f"--gidmap=0:{GROUP - 50}:60000", REQUEST, script=f"id -G; {READ}")
    assert ran.ok() == "0 50\n00000000\n"
    assert _findings(sandbox) == []


def test_a_group_that_is_not_mapped_is_left_out_and_told(rootful: Podman, sandbox: Sandbox, node: Path) -> None:
    sandbox.run("chown", f"0:{GROUP}", node).ok()
    _publish(sandbox, {"deviceNodes": [{"path": "/dev/in", "hostPath": str(node)}], "additionalGids": [GROUP]})
    assert rootful.run("--rm", *MAPPED, REQUEST, script="id -G").ok() == "0\n"
    assert _findings(sandbox) == ["GID_UNMAPPED", "NODE_CLOSED"]


# --- an unprivileged user -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def settings(sandbox: Sandbox, own: Path) -> None:
    """The user's own configuration: specs of his own count, too."""
    text = f'[cdi]\nspec-dirs = ["/etc/cdi", "{own}/cdi"]\n'
    sandbox.run("/bin/sh", "-c", f"printf '{text}' > {own}/shim/config.toml", user=str(UID)).ok()


@pytest.mark.parametrize("options", [[], ["--userns=keep-id"]], ids=["as root inside", "as himself inside"])
def test_a_user_gets_the_whole_device_of_a_spec_of_roots(
    rootless: Podman, device: FakeDevice, options: list[str]
) -> None:
    assert seen(rootless.run("--rm", *options, REQUEST, script=device.probe).ok()) == WITH


def test_a_user_has_specs_of_his_own(rootless: Podman, device: FakeDevice, sandbox: Sandbox, own: Path) -> None:
    published = sandbox.scratch / "etc-cdi/vendor.json"
    sandbox.run("install", "-m", "644", "-o", str(UID), "/etc/cdi/vendor.json", own / "cdi/vendor.json").ok()
    published.unlink()
    try:
        assert seen(rootless.run("--rm", REQUEST, script=device.probe).ok()) == WITH
    finally:
        sandbox.run("rm", own / "cdi/vendor.json").ok()
    line = json.loads((sandbox.scratch / "host/own/shim/log").read_text().splitlines()[-1])
    assert line["specs"] == [f"{own}/cdi/vendor.json"]
    assert line["outcome"] == "injected"


def test_a_spec_that_others_can_write_does_not_count(rootless: Podman, sandbox: Sandbox, own: Path) -> None:
    sandbox.run("install", "-m", "666", "-o", str(UID), "/etc/cdi/vendor.json", own / "cdi/vendor.json").ok()
    (sandbox.scratch / "etc-cdi/vendor.json").unlink()
    try:
        ran = rootless.run("--rm", REQUEST, script="true")
    finally:
        sandbox.run("rm", own / "cdi/vendor.json").ok()
    assert ran.status == 126
    assert "vendor.json: it is not trusted" in ran.err


def test_groups_that_a_user_cannot_give_are_left_out(rootless: Podman, sandbox: Sandbox) -> None:
    """With them runc and crun refuse the container: the number means nothing in the user's namespace."""
    _publish(sandbox, {"env": ["A=1"], "additionalGids": [GROUP]})
    assert rootless.run("--rm", REQUEST, script="echo $A").ok() == "1\n"
    line = json.loads((sandbox.scratch / "host/own/shim/log").read_text().splitlines()[-1])
    assert [finding["id"] for finding in line["findings"]] == ["GID_UNMAPPED"]
