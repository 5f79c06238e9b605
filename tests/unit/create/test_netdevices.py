"""Which hooks stand in for linux.netDevices, and when."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.create import netdevices

LAUNCHER = "/usr/local/bin/shim"
NETWORK = {"type": "network"}
OTHER = {"path": "/usr/bin/other", "args": ["other"]}


def config(**members: Any) -> dict[str, Any]:
    linux = {"namespaces": [{"type": "pid"}, NETWORK], **members.pop("linux", {})}
    return {"ociVersion": "1.2.0", "linux": linux, **members}


def place(given: dict[str, Any], devices: dict[str, str], **change: Any) -> dict[str, Any]:
    before = copy.deepcopy(given)
    arguments: dict[str, Any] = {"native": False, "rootful": True, "launcher": LAUNCHER, **change}
    result = netdevices.place(given, devices, **arguments)
    assert given == before
    return result


def refused(given: dict[str, Any], devices: dict[str, str], **change: Any) -> list[str]:
    with pytest.raises(CdiError) as caught:
        place(given, devices, **change)
    return [finding.id for finding in caught.value.findings]


def test_two_hooks_take_the_place_of_the_interfaces() -> None:
    placed = place(config(linux={"netDevices": {"eth5": {"name": "net0"}}}), {"eth5": "net0"})
    assert placed["linux"] == {"namespaces": [{"type": "pid"}, NETWORK]}
    search = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    common = {"path": LAUNCHER, "env": [search], "timeout": 10}
    assert placed["hooks"] == {
        "createRuntime": [{"args": [LAUNCHER, "hook", "netdevices", "attach", "eth5:net0"], **common}],
        "poststop": [{"args": [LAUNCHER, "hook", "netdevices", "detach", "eth5:net0"], **common}],
    }


def test_the_path_of_the_network_goes_to_poststop() -> None:
    given = config()
    given["linux"]["namespaces"] = [{"type": "network", "path": "/run/netns/pod"}]
    hooks = place(given, {"eth5": "net0"})["hooks"]
    assert hooks["createRuntime"][0]["args"][3:] == ["attach", "eth5:net0"]
    assert hooks["poststop"][0]["args"][3:] == ["detach", "--netns=/run/netns/pod", "eth5:net0"]


def test_the_hooks_stand_behind_those_that_are_there() -> None:
    hooks = place(config(hooks={"createRuntime": [OTHER], "prestart": [OTHER]}), {"eth5": "net0"})["hooks"]
    assert hooks["createRuntime"][0] == OTHER
    assert len(hooks["createRuntime"]) == 2
    assert hooks["prestart"] == [OTHER]


def test_a_second_create_on_the_same_bundle_adds_nothing() -> None:
    once = place(config(), {"eth5": "net0"})
    assert place(once, {"eth5": "net0"}) == once


def test_interfaces_that_the_config_had_itself_stay_where_they_are() -> None:
    placed = place(config(linux={"netDevices": {"eth5": {"name": "a"}, "eth6": {"name": "b"}}}), {"eth5": "a"})
    assert placed["linux"]["netDevices"] == {"eth6": {"name": "b"}}


@pytest.mark.parametrize("native", [True, False])
def test_without_interfaces_nothing_changes(native: bool) -> None:
    given = config()
    assert place(given, {}, native=native, rootful=False) is given


def test_a_runtime_that_knows_them_gets_them_as_they_are() -> None:
    given = config(linux={"netDevices": {"eth5": {"name": "net0"}}})
    assert place(given, {"eth5": "net0"}, native=True) is given


def test_hooks_of_an_earlier_create_keep_what_they_move_under_a_runtime_that_knows_by_now() -> None:
    """A bundle that was run before crun was renewed: crun moved the interface, and the hook found it gone."""
    once = place(config(), {"eth5": "net0"})
    again = {**once, "linux": {**once["linux"], "netDevices": {"eth5": {"name": "net0"}}}}
    assert place(again, {"eth5": "net0"}, native=True) == once


def test_what_they_do_not_move_is_for_that_runtime() -> None:
    once = place(config(), {"eth5": "net0"})
    both = {"eth5": {"name": "net0"}, "eth6": {"name": "net1"}}
    again = {**once, "linux": {**once["linux"], "netDevices": both}}
    placed = place(again, {"eth5": "net0", "eth6": "net1"}, native=True)
    assert placed == {**once, "linux": {**once["linux"], "netDevices": {"eth6": {"name": "net1"}}}}


def test_a_second_create_adds_hooks_for_what_is_new_only() -> None:
    once = place(config(), {"eth5": "net0"})
    twice = place(once, {"eth5": "net0", "eth6": "net1"})
    assert [hook["args"][4:] for hook in twice["hooks"]["createRuntime"]] == [["eth5:net0"], ["eth6:net1"]]
    assert [hook["args"][4:] for hook in twice["hooks"]["poststop"]] == [["eth5:net0"], ["eth6:net1"]]


@pytest.mark.parametrize("args", [None, [], ["x"], ["shim", "hook", "netdevices", "detach", "eth5:net0"]])
def test_other_hooks_move_nothing(args: list[str] | None) -> None:
    given = config(
        linux={"netDevices": {"eth5": {"name": "net0"}}}, hooks={"createRuntime": [{"path": "/x", "args": args}]}
    )
    assert place(given, {"eth5": "net0"}, native=True) is given


@pytest.mark.parametrize("native", [True, False])
def test_rootless_is_refused(native: bool) -> None:
    assert refused(config(), {"eth5": "net0"}, rootful=False, native=native) == ["NETDEV_ROOTLESS"]


@pytest.mark.parametrize("given", [{}, {"linux": {}}, {"linux": {"namespaces": [{"type": "pid"}]}}, {"linux": None}])
def test_the_network_of_the_host_is_refused(given: dict[str, Any]) -> None:
    assert refused(given, {"eth5": "net0"}) == ["NETDEV_HOST_NETWORK"]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        pytest.param("", "a", id="no name on the host"),
        pytest.param("eth5", "", id="no name in the container"),
        pytest.param("eth5", ".", id="a dot"),
        pytest.param("eth5", "..", id="two dots"),
        pytest.param("eth5", "a/b", id="a slash"),
        pytest.param("eth5", "a:b", id="a colon"),
        pytest.param("eth5", "a b", id="a blank"),
        pytest.param("eth5", "a\nb", id="a line break"),
        pytest.param("eth5", "a\x00b", id="a zero byte"),
        pytest.param("eth5", "%d", id="a template of nothing"),
        pytest.param("eth5", "a%d%d", id="two templates"),
        pytest.param("eth5", "a%s", id="another template"),
        pytest.param("eth%d", "a", id="a template on the host"),
        pytest.param("eth5", "sixteen-bytes-16", id="16 bytes"),
        pytest.param("eth5", "éééééééé", id="16 bytes in 8 characters"),
    ],
)
def test_names_that_the_kernel_would_not_take_are_refused(host: str, name: str) -> None:
    assert refused(config(), {host: name}) == ["NETDEV_NAME"]


@pytest.mark.parametrize("name", ["a", "net%d", "fifteen-bytes-1", "a=b", "enp3s0f0np0", "é"])
def test_names_that_the_kernel_takes(name: str) -> None:
    assert place(config(), {"eth5": name})["hooks"]["createRuntime"][0]["args"][-1] == f"eth5:{name}"


def test_two_interfaces_with_one_name_are_refused_unless_it_is_a_template() -> None:
    assert refused(config(), {"eth5": "net0", "eth6": "net0"}) == ["NETDEV_NAME"]
    assert place(config(), {"eth5": "net%d", "eth6": "net%d"})["hooks"]["poststop"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert refused({}, {"eth5": ""}, rootful=False) == ["NETDEV_ROOTLESS", "NETDEV_NAME", "NETDEV_HOST_NETWORK"]


def test_the_last_to_name_an_interface_of_the_host_decides() -> None:
    def origin(*pairs: tuple[str, str]) -> dict[str, Any]:
        return {"edits": {"netDevices": [{"hostInterfaceName": host, "name": name} for host, name in pairs]}}

    origins = [origin(("eth5", "a"), ("eth6", "b")), {"edits": {"env": ["A=1"]}}, origin(("eth5", "c"))]
    assert netdevices.wanted(origins) == {"eth5": "c", "eth6": "b"}
