"""The netDevices hook against a real kernel: interfaces go into a namespace and come back."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.hooks.networks import HOOK, TAG, Hook, Network

from shim.base.findings import CdiError, Finding
from shim.hooks import lending, netdevices
from shim.hooks.interfaces import Interface, why
from shim.hooks.loan import Loan, Record

pytestmark = pytest.mark.rootful


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    """A host with the veth nic0 (its other end: peer0), a container with nothing but lo."""
    host, container = Network(), Network()
    try:
        host.ip("link add nic0 address 02:00:00:00:00:10 mtu 1400 type veth peer name peer0")
        host.ip("link set peer0 up")
        yield Hook(host, container, tmp_path)
    finally:
        host.end()
        container.end()


def refused(done: subprocess.CompletedProcess[str], finding: str, *parts: str) -> None:
    """One line with this finding, and nothing else."""
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"shim: {finding}: ")
    for part in parts:
        assert part in done.stderr


# --- what goes with the interface ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("10.9.0.2/24", True, id="a permanent IPv4 address goes with it"),
        pytest.param("fd00:9::2/64 nodad", True, id="a permanent IPv6 address goes with it"),
        pytest.param("10.9.0.2 peer 10.9.0.1/32", True, id="a point-to-point address goes with it"),
        pytest.param("10.9.0.2/24 label nic0:x", True, id="a labelled address goes with it"),
        pytest.param("10.9.0.2/24 scope link", False, id="an address of link scope stays behind"),
        pytest.param("10.9.0.2/24 scope host", False, id="an address of host scope stays behind"),
        pytest.param("10.9.0.2/24 valid_lft 900 preferred_lft 900", False, id="a leased IPv4 address stays behind"),
        pytest.param("fd00:9::2/64 valid_lft 900 preferred_lft 900", False, id="a leased IPv6 address stays behind"),
    ],
)
@pytest.mark.parametrize("state", ["up", "down"])
def test_addresses_are_those_of_the_runtime_specification(hook: Hook, given: str, kept: bool, state: str) -> None:
    hook.host.ip(f"addr add {given} dev nic0")
    hook.host.ip(f"link set nic0 {state}")
    before = hook.host.addresses("nic0")
    assert len(before) == 1
    hook.attach("nic0:net0")
    assert hook.container.addresses("net0") == (before if kept else [])


def test_all_properties_of_an_address_go_with_it(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 broadcast 10.9.0.99 metric 50 label nic0:x dev nic0")
    hook.host.ip("addr add 10.9.1.2 peer 10.9.1.1/32 dev nic0")
    hook.host.ip("addr add fd00:9::2/64 dev nic0 noprefixroute preferred_lft 0 nodad")
    hook.host.ip("link set nic0 up")

    def seen(network: Network, name: str) -> set[str]:
        lines = network.ip(f"-o addr show dev {name} scope global").replace(name, "IF").splitlines()
        return {" ".join(line.split()[1:]) for line in lines}

    before = seen(hook.host, "nic0")
    hook.attach("nic0:net0")
    assert seen(hook.container, "net0") == before
    assert len(before) == 3


def test_the_routes_are_those_that_the_kernel_makes_for_the_addresses(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 metric 50 dev nic0")
    hook.host.ip("addr add fd00:9::2/64 nodad dev nic0")
    hook.host.ip("link set nic0 up")
    hook.host.ip("route add default via 10.9.0.1 dev nic0")
    hook.host.ip("route add 10.77.0.0/16 via 10.9.0.1 dev nic0")
    hook.attach("nic0:net0")
    routes = [" ".join(line.split()) for line in hook.container.ip("route show").splitlines()]
    assert routes == ["10.9.0.0/24 dev net0 proto kernel scope link src 10.9.0.2 metric 50"]
    assert "fd00:9::/64 dev net0 proto kernel" in hook.container.ip("-6 route show")
    assert "default" not in hook.container.ip("-6 route show")


@pytest.mark.parametrize("state", ["up", "down"])
def test_the_interface_is_up_in_the_container_with_its_hardware_address_and_mtu(hook: Hook, state: str) -> None:
    hook.host.ip(f"link set nic0 {state}")
    hook.attach("nic0:net0")
    link = hook.container.links()["net0"]
    assert "UP" in link["flags"]
    assert (link["address"], link["mtu"]) == ("02:00:00:00:00:10", 1400)
    assert hook.host.names() == {"peer0"}


def test_packets_flow_through_the_interface(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    hook.host.ip("addr add 10.9.0.1/24 dev peer0")
    hook.attach("nic0:net0")
    client = "import socket; socket.create_connection(('10.9.0.1', 7), timeout=20).close()"
    server = "import socket; s = socket.create_server(('10.9.0.1', 7)); print('up', flush=True); s.accept()"
    with subprocess.Popen(hook.host.inside(sys.executable, "-c", server), stdout=subprocess.PIPE) as serving:
        try:
            assert serving.stdout
            assert serving.stdout.readline() == b"up\n"
            done = hook.container.run(sys.executable, "-c", client)
            assert done.returncode == 0, done.stderr
        finally:
            serving.kill()


def test_a_container_in_a_user_namespace_gets_the_interface_and_gives_it_back(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    inner = Network("--user", "--map-root-user")
    try:
        hook.container.end()
        hook.container = inner
        hook.attach("nic0:net0")
        assert inner.addresses("net0") == ["10.9.0.2/24"]
        assert hook.detach_with_path("nic0:net0").stderr == ""
        assert hook.host.addresses("nic0") == ["10.9.0.2/24"]
    finally:
        inner.end()


def test_the_hook_works_at_the_stage_of_old_runtimes_too(hook: Hook) -> None:
    """Prestart gives the state of a container that is called created."""
    assert hook.run("attach", "nic0:net0", state=hook.state(status="created")).returncode == 0
    assert hook.container.names() == {"net0"}


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "first", "others"),
    [
        pytest.param("net0", "net0", {"nic0", TAG + "nic0"}, id="its name on the host becomes an alternative name"),
        pytest.param("nic0", "nic0", {TAG + "nic0"}, id="a name that stays needs no alternative"),
        pytest.param("net%d", "net0", {"nic0", TAG + "nic0"}, id="a template becomes the first free name"),
    ],
)
def test_names_in_the_container(hook: Hook, target: str, first: str, others: set[str]) -> None:
    hook.attach(f"nic0:{target}")
    assert hook.container.names() == {first}
    assert hook.container.links()[first]["altnames"] == others


def test_a_template_steps_over_names_that_the_container_has(hook: Hook) -> None:
    hook.container.ip("link add net0 type veth peer name net1")
    hook.attach("nic0:net%d")
    assert hook.container.names() == {"net0", "net1", "net2"}
    done = hook.detach_with_path("nic0:net%d")
    assert (done.returncode, done.stderr) == (0, "")
    assert hook.container.names() == {"net0", "net1"}


def test_the_container_may_have_an_interface_that_is_named_like_the_one_of_the_host(hook: Hook) -> None:
    hook.container.ip("link add nic0 type veth peer name other")
    hook.attach("nic0:net0")
    assert hook.container.names() == {"nic0", "other", "net0"}
    assert hook.container.links()["net0"]["altnames"] == {TAG + "nic0"}
    assert hook.detach_with_path("nic0:net0").returncode == 0
    assert hook.host.names() == {"nic0", "peer0"}
    assert hook.container.names() == {"nic0", "other"}


def test_an_interface_is_found_by_an_alternative_name_of_the_host_and_keeps_all_its_names(hook: Hook) -> None:
    hook.host.ip("link property add dev nic0 altname enp3s0 altname blue")
    hook.attach("blue:enp3s0")
    assert hook.container.names() == {"enp3s0"}
    assert hook.detach_with_path("blue:enp3s0").stderr == ""
    assert hook.host.links()["nic0"]["altnames"] == {"enp3s0", "blue"}


def test_two_interfaces_may_swap_their_names(hook: Hook) -> None:
    hook.host.ip("link add nic1 address 02:00:00:00:00:11 type veth peer name peer1")
    hook.attach("nic0:nic1", "nic1:nic0")
    links = hook.container.links()
    assert [links[name]["address"][-2:] for name in ("nic0", "nic1")] == ["11", "10"]
    assert hook.detach_with_path("nic0:nic1", "nic1:nic0").stderr == ""
    links = hook.host.links()
    assert [links[name]["address"][-2:] for name in ("nic0", "nic1")] == ["10", "11"]


# --- what is refused, and that nothing has happened then -------------------------------------------------------------


PORT = "link add br0 type bridge;link set nic0 master br0"


@pytest.mark.parametrize(
    ("prepare", "pair", "finding", "part"),
    [
        pytest.param("", "nic7:net0", "NETDEV_MISSING", "nic7; it has lo,", id="an interface that the host lacks"),
        pytest.param("", "lo:net0", "NETDEV_MOVE", "loopback", id="lo"),
        pytest.param("", "nic0:lo", "NETDEV_NAME_TAKEN", "lo", id="a name that the container has"),
        pytest.param(PORT, "nic0:net0", "NETDEV_ENSLAVED", "br0", id="a bridge port"),
        pytest.param("link add br0 type bridge", "br0:net0", "NETDEV_MOVE", "bridges", id="a bridge"),
    ],
)
def test_refused(hook: Hook, prepare: str, pair: str, finding: str, part: str) -> None:
    for words in filter(None, prepare.split(";")):
        hook.host.ip(words)
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    hook.host.ip("link set nic0 up")
    before, there = hook.host.links(), hook.container.links()
    refused(hook.run("attach", pair), finding, part)
    after = hook.host.links()
    assert {name: (link["altnames"], link["flags"]) for name, link in after.items()} == {
        name: (link["altnames"], link["flags"]) for name, link in before.items()
    }
    assert hook.host.addresses("nic0") == ["10.9.0.2/24"]
    assert hook.container.links().keys() == there.keys()
    assert hook.records() == []


def test_a_name_that_the_container_has_as_an_alternative_one_is_taken(hook: Hook) -> None:
    hook.container.ip("link add one type veth peer name two")
    hook.container.ip("link property add dev one altname net0")
    refused(hook.run("attach", "nic0:net0"), "NETDEV_NAME_TAKEN", "net0")
    assert hook.host.names() == {"nic0", "peer0"}


def test_every_obstacle_is_named_before_anything_moves(hook: Hook) -> None:
    done = hook.run("attach", "nic0:net0", "nic7:net1", "nic8:net2")
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stderr.splitlines()] == ["NETDEV_MISSING:", "NETDEV_MISSING:"]
    assert hook.host.names() == {"nic0", "peer0"}


def test_what_was_moved_comes_back_when_a_later_one_fails(hook: Hook) -> None:
    hook.host.ip("link add nic1 type veth peer name peer1")
    for name, address in (("nic0", "10.9.0.2/24"), ("nic1", "fd00:9::2/64 nodad")):
        hook.host.ip(f"addr add {address} dev {name}")
        hook.host.ip(f"link set {name} up")
    hook.container.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
    done = hook.run("attach", "nic0:net0", "nic1:net1")
    refused(done, "NETDEV_ADDRESS", "fd00:9::2/64", "IPv6 is switched off")
    assert hook.container.names() == set()
    assert hook.host.names() == {"nic0", "nic1", "peer0", "peer1"}
    assert (hook.host.addresses("nic0"), hook.host.addresses("nic1")) == (["10.9.0.2/24"], ["fd00:9::2/64"])
    links = hook.host.links()
    assert all("UP" in links[name]["flags"] and not links[name]["altnames"] for name in ("nic0", "nic1"))
    assert hook.records() == []


def test_a_container_in_the_network_of_the_host_is_refused(hook: Hook) -> None:
    refused(hook.run("attach", "nic0:net0", state=hook.state(pid=hook.host.pid)), "NETDEV_HOST_NETWORK")


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(("unshare", "--user", "--map-root-user"), id="root of a user namespace"),
        pytest.param(("unshare", "--user"), id="a user without privileges"),
    ],
)
@pytest.mark.parametrize("stage", ["attach", "detach"])
def test_without_root_it_is_refused(hook: Hook, user: tuple[str, ...], stage: str) -> None:
    refused(hook.run(stage, "nic0:net0", before=user), "NETDEV_ROOTLESS")
    assert hook.host.names() == {"nic0", "peer0"}


def test_without_the_library_that_drops_privileges_it_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prctl", None)
    with pytest.raises(CdiError) as caught, netdevices._confined(0, None):
        pytest.fail("it must not work with all privileges")
    (found,) = caught.value.findings
    assert (found.id, "python-prctl" in found.text) == ("NETDEV_PRIVILEGE", True)
    assert found.remedy.startswith(f"{sys.executable} -m pip install python-prctl")


@pytest.mark.parametrize("capability", ["net_admin", "sys_admin", "setpcap"])
def test_root_without_a_capability_is_refused(hook: Hook, capability: str) -> None:
    done = hook.run("attach", "nic0:net0", before=("setpriv", f"--bounding-set=-{capability}"))
    refused(done, "NETDEV_PRIVILEGE")
    assert hook.host.names() == {"nic0", "peer0"}
    assert hook.records() == []


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param('{"id": "c", "pid": 1}', id="no bundle"),
        pytest.param('{"id": "c", "pid": 1, "bundle": "b"}', id="a relative bundle"),
        pytest.param('{"id": "c", "pid": 1, "bundle": 7}', id="a bundle that is no text"),
        pytest.param('{"id": "c", "pid": "x", "bundle": "/b"}', id="a pid that is no number"),
        pytest.param('{"id": "c", "pid": -1, "bundle": "/b"}', id="a negative pid"),
        pytest.param('{"id": "c", "bundle": "/b"}', id="no pid"),
        pytest.param('{"id": "c", "pid": 1, "bundle": "/no/such/directory"}', id="a bundle that is not there"),
    ],
)
def test_a_state_that_cannot_be_used_is_refused(hook: Hook, state: str) -> None:
    refused(hook.run("attach", "nic0:net0", state=state), "NETDEV_STATE")


def test_a_record_that_is_a_link_is_not_followed(hook: Hook) -> None:
    victim = hook.bundle / "victim"
    victim.write_text("whole")
    (hook.bundle / ".shim-netdevices-c1.json").symlink_to(victim)
    refused(hook.run("attach", "nic0:net0"), "NETDEV_STATE")
    assert victim.read_text() == "whole"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="no stage"),
        pytest.param(("attach",), id="no device"),
        pytest.param(("move", "nic0:net0"), id="another stage"),
        pytest.param(("attach", "nic0"), id="no colon"),
        pytest.param(("attach", "nic0:net0", "nic0:net1"), id="an interface twice"),
        pytest.param(("attach", "nic0:a/b"), id="a name with a slash"),
        pytest.param(("attach", "nic%d:net0"), id="a template for the host's name"),
        pytest.param(("attach", "--netns=/x", "nic0:net0"), id="an option of the other stage"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(hook: Hook, words: tuple[str, ...]) -> None:
    done = hook.run(*words)
    assert (done.returncode, done.stderr[:6]) == (2, "usage:")


# --- again, and at once ----------------------------------------------------------------------------------------------


def test_a_second_attach_finds_the_interface_in_place(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    hook.attach("nic0:net0")
    hook.container.ip("link set net0 down")  # as if the first had been killed before its last step
    hook.container.ip("addr flush dev net0")
    hook.attach("nic0:net0")
    assert hook.container.addresses("net0") == ["10.9.0.2/24"]
    assert "UP" in hook.container.links()["net0"]["flags"]
    assert hook.detach_with_path("nic0:net0").stderr == ""
    assert hook.host.addresses("nic0") == ["10.9.0.2/24"]


def test_a_second_attach_under_another_name_is_refused(hook: Hook) -> None:
    hook.attach("nic0:net0")
    refused(hook.run("attach", "nic0:net1"), "NETDEV_NAME_TAKEN", "as net0 and not as net1")
    assert hook.detach_with_path("nic0:net0").stderr == ""
    assert hook.host.names() == {"nic0", "peer0"}


def test_the_second_container_of_a_pod_finds_it_and_does_not_take_it_away(hook: Hook) -> None:
    hook.attach("nic0:net0")
    second = hook.state(id="c2")
    assert hook.run("attach", "nic0:net0", state=second).returncode == 0
    assert hook.run("detach", f"--netns={hook.container.path}", "nic0:net0", state=second).returncode == 0
    assert hook.container.names() == {"net0"}


def test_of_two_containers_that_ask_at_once_one_gets_it_whole(hook: Hook) -> None:
    other = Network()
    try:
        hook.host.ip("addr add 10.9.0.2/24 dev nic0")
        words = hook.host.inside(*HOOK, "attach", "nic0:net0")
        states = [hook.state(), hook.state(id="c2", pid=other.pid)]
        running = [subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in states]
        errors = [process.communicate(state, timeout=120)[1] for process, state in zip(running, states, strict=True)]
        assert sorted(process.returncode for process in running) == [0, 1]
        assert any("NETDEV_MISSING" in error for error in errors)
        winner = hook.container if running[0].returncode == 0 else other
        assert winner.addresses("net0") == ["10.9.0.2/24"]
        assert len(hook.records()) == 1
    finally:
        other.end()


# --- back to the host ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["up", "down"])
def test_a_namespace_with_a_path_gives_it_back_as_it_was(hook: Hook, state: str) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    hook.host.ip(f"link set nic0 {state}")
    hook.attach("nic0:net0")
    hook.container.ip("addr add 10.66.0.6/24 dev net0")
    hook.container.ip("link property add dev net0 altname evil")
    done = hook.detach_with_path("nic0:net0")
    assert (done.returncode, done.stderr) == (0, "")
    link = hook.host.links()["nic0"]
    assert link["altnames"] == set()
    assert ("UP" in link["flags"]) == (state == "up")
    assert hook.host.addresses("nic0") == ["10.9.0.2/24"]
    assert hook.container.names() == set()
    assert hook.records() == []


def test_it_can_be_lent_again_and_again(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    for _ in range(3):
        hook.attach("nic0:net0")
        assert hook.container.addresses("net0") == ["10.9.0.2/24"]
        assert hook.detach_with_path("nic0:net0").stderr == ""
    assert hook.host.names() == {"nic0", "peer0"}


def test_a_virtual_interface_is_gone_with_a_private_namespace_and_that_is_no_error(hook: Hook) -> None:
    hook.attach("nic0:net0")
    hook.container.end()
    done = hook.detach("nic0:net0")
    assert (done.returncode, done.stderr) == (0, "")
    assert hook.records() == []


def test_an_interface_that_the_kernel_gave_back_gets_its_name_addresses_and_state(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    hook.host.ip("link set nic0 up")
    hook.attach("nic0:net0")
    # What the kernel does with hardware when the namespace ends: to the initial one, as devN, down, without addresses
    hook.container.ip("link property del dev net0 altname nic0")
    hook.container.ip("link set net0 down")
    hook.container.ip("link set net0 name dev7")
    hook.container.ip(f"link set dev7 netns {hook.host.pid}")
    hook.container.end()
    done = hook.detach("nic0:net0")
    assert (done.returncode, done.stderr) == (0, "")
    assert hook.host.names() == {"nic0", "peer0"}
    assert hook.host.addresses("nic0") == ["10.9.0.2/24"]
    assert "UP" in hook.host.links()["nic0"]["flags"]
    assert hook.host.links()["nic0"]["altnames"] == set()


def test_an_interface_whose_poststop_never_ran_is_found_by_its_tag_the_next_time(hook: Hook) -> None:
    hook.host.ip("link set nic0 name dev7")
    hook.host.ip(f"link property add dev dev7 altname {TAG}nic0")
    hook.attach("nic0:net0")
    assert hook.container.names() == {"net0"}
    assert hook.detach_with_path("nic0:net0").stderr == ""
    assert hook.host.names() == {"nic0", "peer0"}


def test_an_interface_that_the_container_put_in_its_place_does_not_reach_the_host(hook: Hook) -> None:
    hook.attach("nic0:net0")
    hook.container.ip(f"link property del dev net0 altname {TAG}nic0")
    hook.container.ip("link add evil0 type veth peer name evil1")
    hook.container.ip(f"link property add dev evil0 altname {TAG}nic0")
    done = hook.detach_with_path("nic0:net0")
    assert done.returncode == 0
    assert done.stderr.startswith("shim: NETDEV_LOST: ")
    assert hook.host.names() == {"peer0"}
    assert hook.container.names() == {"net0", "evil0", "evil1"}


@pytest.mark.parametrize(
    ("taken", "name"),
    [
        pytest.param("nic0", "net0", id="its name is taken: it keeps the container's"),
        pytest.param("nic0 net0", "dev", id="both names are taken: it becomes devN"),
    ],
)
def test_a_name_that_the_host_gave_to_another_is_left_to_that_one(hook: Hook, taken: str, name: str) -> None:
    hook.attach("nic0:net0")
    for number, other in enumerate(taken.split()):
        hook.host.ip(f"link add {other} type veth peer name other{number}")
    done = hook.detach_with_path("nic0:net0")
    assert done.returncode == 0
    assert done.stderr.startswith("shim: NETDEV_LOST: ")
    (link,) = [link for link in hook.host.links().values() if link["address"] == "02:00:00:00:00:10"]
    assert link["ifname"].rstrip("0123456789") == name.rstrip("0123456789")
    assert hook.container.names() == set()


@pytest.mark.parametrize("path", ["/no/such/namespace", "/proc/self/ns/pid", "/etc/passwd", "/proc/self/ns/net"])
def test_a_path_that_leads_to_no_other_network_any_more_counts_as_gone(hook: Hook, path: str) -> None:
    hook.attach("nic0:net0")
    hook.container.end()
    done = hook.detach(f"--netns={path}", "nic0:net0")
    assert (done.returncode, done.stderr) == (0, "")


def test_detach_without_a_loan_touches_nothing(hook: Hook) -> None:
    before = hook.host.links()
    assert hook.detach("nic0:net0").stderr == ""
    assert hook.detach_with_path("nic0:net0").stderr == ""
    assert hook.host.links() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "loans": [{}]}', '{"format": 9}'])
def test_a_record_that_is_not_whole_counts_as_none(hook: Hook, text: str) -> None:
    record = hook.bundle / ".shim-netdevices-c1.json"
    record.write_text(text)
    record.chmod(0o600)
    assert hook.detach("nic0:net0").stderr == ""
    hook.attach("nic0:net0")
    assert hook.container.names() == {"net0"}


# --- hardware, which no test can make: the kernel's side is played ---------------------------------------------------


def test_a_record_that_cannot_be_written_whole_keeps_what_it_said(tmp_path: Path) -> None:
    """A short write was taken for a whole one, and had cut off what stood there: the poststop hook found no loan."""
    written = Record(str(tmp_path), "c1")
    written.create()
    loans = [Loan(host="nic0", name="nic0", altnames=[], kind="", identity=["x"], up=True, addresses=["y" * 500])]
    written.write(loans)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, before[1]))  # so that the kernel takes a part of the next line
    try:
        with pytest.raises(OSError, match="File too large"):
            written.write([*loans, *loans])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert Path(written.path).stat().st_size == 900
    assert [one.host for one in written.read()] == ["nic0"]
    written.write([*loans, *loans])
    assert [one.host for one in written.read()] == ["nic0", "nic0"]
    written.close()
    assert len(Record(str(tmp_path), "c1").take()) == 2


def test_an_interface_comes_back_when_the_disk_fills_up_while_it_is_lent(hook: Hook) -> None:
    hook.host.ip("addr add 10.9.0.2/24 dev nic0")
    hook.attach("nic0:net0")
    (record,) = hook.bundle.iterdir()
    lines = record.read_bytes().splitlines()
    assert len(lines) == 3, "an empty one, before and after the move"
    hook.detach_with_path("nic0:net0")
    before = hook.host.links(), hook.host.addresses("nic0")
    done = hook.run("attach", "nic0:net0", before=("prlimit", f"--fsize={len(lines[1]) + 20}"))
    assert done.returncode == 1
    assert done.stderr.startswith("shim: NETDEV_STATE: ")
    assert done.stderr.count("\n") == 1
    assert (hook.host.links(), hook.host.addresses("nic0")) == before
    hook.attach("nic0:net0")
    assert hook.container.names() == {"net0"}


USUAL_WORDS = ("no such file or directory", "permission denied", "executable file not found")


@pytest.mark.parametrize("words", [("attach", "nic0:net0"), ("detach", "nic0:net0")], ids=["attach", "detach"])
@pytest.mark.parametrize("missing", ["the bundle", "the process"])
def test_no_error_is_worded_as_the_kernel_words_it(hook: Hook, missing: str, words: tuple[str, ...]) -> None:
    """Engines turn "No such file or directory" into exit status 127: the hook wrote it of its own files."""
    other = {"bundle": "/no/such/bundle"} if missing == "the bundle" else {"pid": 1 << 22}
    done = hook.run(*words, state=hook.state(**other))
    assert done.returncode == (1 if words[0] == "attach" else 0)
    assert done.stderr.startswith("shim: NETDEV_STATE: ") == (words[0] == "attach")
    assert not any(usual in done.stderr.lower() for usual in USUAL_WORDS)


def test_an_error_of_the_kernel_has_words_that_change_no_exit_status() -> None:
    for number, name in errno.errorcode.items():
        assert not any(usual in why(number).lower() for usual in USUAL_WORDS), name
    assert why(errno.ENODEV) == "No such device"


def detach(devices: dict[str, str], host: Any, loans: list[Loan]) -> list[Finding]:
    return lending.detach(devices, host, None, loans)


class Playing:
    """A host network in which the interface turns up after some looks."""

    def __init__(self, after: int) -> None:
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.looks = after
        self.done: list[str] = []
        self.card = Interface({"index": 7, "ifname": "dev7", "flags": 0})
        self.card.identity = ["pci", "0000:03:00.0", "0200"]

    def interfaces(self) -> list[Interface]:
        self.looks -= 1
        return [self.card] if self.looks < 0 else []

    def __getattr__(self, name: str) -> object:
        return lambda *arguments: self.done.append(" ".join([name, *(str(a) for a in arguments if isinstance(a, str))]))


def loan(**members: Any) -> Loan:
    given: dict[str, Any] = {
        "host": "ib0",
        "name": "ib0",
        "altnames": [],
        "kind": "",
        "identity": ["pci", "0000:03:00.0", "0200"],
    }
    return Loan(**{**given, "up": True, "addresses": [], **members})


@pytest.mark.parametrize("tagged", [True, False])
def test_hardware_is_waited_for_and_known_by_tag_or_by_what_it_is(tagged: bool) -> None:
    host = Playing(after=3)
    host.card.altnames = [TAG + "ib0"] if tagged else []
    assert detach({"ib0": "net0"}, host, [loan()]) == []
    assert host.done == [*([f"remove_name {TAG}ib0"] if tagged else []), "rename ib0", "set_up"]


def test_hardware_that_does_not_come_back_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "_RETURN_WAIT", 0.05)
    findings = detach({"ib0": "net0"}, Playing(after=10**9), [loan()])
    assert [finding.id for finding in findings] == ["NETDEV_LOST"]


@pytest.mark.parametrize("kind", ["veth", "macvlan", "dummy"])
def test_what_died_with_its_namespace_is_not_waited_for(kind: str) -> None:
    host = Playing(after=1)
    assert detach({"ib0": "net0"}, host, [loan(kind=kind)]) == []
    assert host.looks == 0


def test_another_card_with_its_tag_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "_RETURN_WAIT", 0.05)
    host = Playing(after=0)
    host.card.altnames = [TAG + "ib0"]
    host.card.identity = ["pci", "0000:04:00.0", "0201"]
    findings = detach({"ib0": "net0"}, host, [loan()])
    assert [finding.id for finding in findings] == ["NETDEV_LOST"]
    assert host.done == []


# --- privileges and environment --------------------------------------------------------------------------------------


def test_two_capabilities_are_left_while_the_kernel_is_spoken_to() -> None:
    code = (
        "import os; from shim.hooks.netdevices import _confined\n"
        "with _confined(os.open('/proc/self/ns/net', os.O_RDONLY), None): print(open('/proc/self/status').read())"
    )
    command = [sys.executable, "-I", "-B", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    needed = 1 << 12 | 1 << 21  # CAP_NET_ADMIN, CAP_SYS_ADMIN
    assert {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "CapInh": 0, "CapPrm": needed, "CapEff": needed, "CapBnd": needed, "CapAmb": 0,
    }  # fmt: skip
    assert (status["NoNewPrivs"], status["Name"]) == ("1", "shim-netdevices")


def test_no_variable_reaches_the_hook(hook: Hook, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "pyroute2.py").write_text(f"open({str(marker)!r}, 'w')")
    hostile = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHOME": "", "PYTHONSTARTUP": "x", "HOME": str(tmp_path)}
    control = subprocess.run([sys.executable, "-c", "import pyroute2"], env=hostile, check=False, timeout=60)
    assert control.returncode == 0
    assert marker.exists()
    marker.unlink()
    done = hook.run("attach", "nic0:net0", env=hostile)
    assert (done.returncode, done.stderr) == (0, "")
    assert not marker.exists()


def test_the_record_is_readable_for_nobody_else(hook: Hook) -> None:
    hook.attach("nic0:net0")
    (record,) = hook.records()
    assert (hook.bundle / record).stat().st_mode & 0o7777 == 0o600
    assert json.loads((hook.bundle / record).read_text().splitlines()[-1])["loans"][0]["kind"] == "veth"


def test_the_hook_leaves_no_process_behind(hook: Hook) -> None:
    hook.attach("nic0:net0")
    inode = Path(hook.host.path).stat().st_ino
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        users = [path for path in Path("/proc").glob("[0-9]*/ns/net") if _inode(path) == inode]
        if len(users) == 1:
            break
        time.sleep(0.05)
    assert len(users) == 1


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
