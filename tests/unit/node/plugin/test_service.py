"""`shim node plugin` as a process, before a fake kubelet: real gRPC over real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from fakekubelet import PATIENCE, FakeKubelet, Follower, RefusedError, wait

from shim.cdi import directories

if TYPE_CHECKING:
    from unit.node.plugin.conftest import Plugin

GPU = "vendor.com/gpu"
KEY = "cdi.k8s.io/vendor.com_gpu"


def test_a_kind_is_registered_listed_and_allocated_by_annotation(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(2)
    process = plugin.start()
    follower = kubelet.plugin(GPU)
    assert kubelet.registered == [(GPU, "shim-vendor.com_gpu.sock", "v1beta1")]
    assert follower.options.get_preferred_allocation_available
    assert not follower.options.pre_start_required
    assert follower.lists == [{"0": ("Healthy", ()), "1": ("Healthy", ())}]
    assert follower.allocate(["1"]) == [({KEY: "vendor.com/gpu=1"}, [])]
    assert follower.allocate(["0", "1"], ["0"]) == [
        ({KEY: "vendor.com/gpu=0,vendor.com/gpu=1"}, []),
        ({KEY: "vendor.com/gpu=0"}, []),
    ]
    follower.call("PreStartContainer", {"devices_ids": ["0"]})
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert [path.name for path in plugin.kubelet.iterdir()] == ["kubelet.sock"]
    assert follower.ended.wait(PATIENCE)
    assert len(follower.lists) == 1, "a list is sent when it has changed"
    assert plugin.events()[-1]["event"] == "end"


def test_cdi_names_are_handed_over_where_it_is_configured(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(2)
    plugin.config.write_text('form = "cdi"\n')
    plugin.start("--kubelet-version", "v1.31.2")
    follower = kubelet.plugin(GPU)
    assert follower.allocate(["0", "1"]) == [({}, ["vendor.com/gpu=0", "vendor.com/gpu=1"])]


@pytest.mark.parametrize(
    ("containers", "code", "texts"),
    [
        pytest.param(
            [["7"]], "NOT_FOUND", ["vendor.com/gpu has no device '7'", "there are: 0, 1", "--dry-run"], id="unknown"
        ),
        pytest.param([["0"], ["7"]], "NOT_FOUND", ["'7'"], id="of two containers one is wrong"),
        pytest.param([["all"]], "INVALID_ARGUMENT", ["it stands for several devices", "Units: 0, 1"], id="no unit"),
        pytest.param([["0", "0"]], "INVALID_ARGUMENT", ["'0' twice"], id="twice"),
        pytest.param([[]], "INVALID_ARGUMENT", ["a container without devices"], id="no device"),
        pytest.param([], "INVALID_ARGUMENT", ["no container"], id="no container"),
        pytest.param([["0::1"]], "NOT_FOUND", ["'0::1'"], id="a replica of what is not shared"),
        pytest.param([["x" * 3000]], "NOT_FOUND", ["has no device 'xxx"], id="long"),
    ],
)
def test_a_malformed_request_is_refused_with_cause_and_remedy(
    served: tuple[Plugin, Follower], containers: list[list[str]], code: str, texts: list[str]
) -> None:
    plugin, follower = served
    with pytest.raises(RefusedError) as refused:
        follower.allocate(*containers)
    assert refused.value.code == code
    assert [text for text in texts if text not in str(refused.value)] == []
    assert plugin.wait_event("refuse", str(refused.value)[:100])["code"] == code
    assert follower.allocate(["0"]), "the service goes on"


@pytest.mark.parametrize("method", ["Allocate", "GetPreferredAllocation", "GetDevicePluginOptions"])
def test_bytes_that_are_no_message_are_refused(served: tuple[Plugin, Follower], method: str) -> None:
    _, follower = served
    with pytest.raises(RefusedError, match="the request is no") as refused:
        follower.raw(method, b"\xff\xff\xff")
    assert refused.value.code == "INVALID_ARGUMENT"
    assert follower.allocate(["0"])


@pytest.mark.parametrize(
    ("available", "size", "must", "text"),
    [
        (["0", "9"], 1, (), "no device '9'"),
        (["0"], 2, (), "2 of 1"),
        (["0", "1"], 1, ("0", "1"), "1 of 2"),
        (["0"], 1, ("1",), "cannot be chosen"),
        (["0", "0"], 1, (), "'0' twice in available_deviceIDs"),
    ],
)
def test_a_preference_that_cannot_be_met_is_refused(
    served: tuple[Plugin, Follower], available: list[str], size: int, must: tuple[str, ...], text: str
) -> None:
    with pytest.raises(RefusedError, match=text):
        served[1].prefer(available, size, must)


def test_a_thousand_devices(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1000)
    plugin.start()
    follower = kubelet.plugin(GPU)
    every = [str(number) for number in range(1000)]
    assert list(follower.health()) == every
    assert set(follower.health().values()) == {"Healthy"}
    assert len(follower.prefer(every, 8)) == 8
    ((annotations, _),) = follower.allocate(every)
    assert annotations[KEY].count(",") == 999
    (plugin.nodes / "gpu500").unlink()
    wait(lambda: follower.health().get("500") == "Unhealthy", lambda: "it stays healthy")
    assert list(follower.health().values()).count("Unhealthy") == 1


# --- the kubelet comes and goes -----------------------------------------------------------------------------------


def test_it_registers_again_with_a_kubelet_that_was_started_anew(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    process = plugin.start()
    kubelet.plugin(GPU)
    for count in (2, 3):
        kubelet.stop()
        kubelet.start()
        assert kubelet.plugin(GPU).allocate(["0"])
        assert len(kubelet.registered) == count
    assert process.poll() is None


def test_it_waits_for_a_kubelet_that_is_not_there_yet(plugin: Plugin) -> None:
    plugin.gpus(1)
    plugin.start()
    plugin.wait_event("wait", "kubelet.sock is missing")
    with FakeKubelet(plugin.kubelet) as kubelet:
        assert kubelet.plugin(GPU).health() == {"0": "Healthy"}


def test_a_socket_that_was_removed_is_made_anew(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    plugin.start()
    kubelet.plugin(GPU)
    (plugin.kubelet / "shim-vendor.com_gpu.sock").unlink()
    wait(lambda: len(kubelet.registered) == 2, lambda: f"{kubelet.registered}")
    assert kubelet.plugin(GPU).allocate(["0"])


def test_a_kubelet_that_ceases_to_follow_is_registered_with_again(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    plugin.start()
    kubelet.plugin(GPU).close()
    wait(lambda: len(kubelet.registered) == 2, lambda: f"{kubelet.registered}")
    assert kubelet.plugin(GPU).health() == {"0": "Healthy"}


def test_a_refused_registration_is_tried_again(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    kubelet.refusal = "the resource is taken"
    plugin.start()
    plugin.wait_event("register", "does not register vendor.com/gpu: INVALID_ARGUMENT: the resource is taken")
    kubelet.refusal = ""
    assert kubelet.plugin(GPU).health() == {"0": "Healthy"}


def test_a_killed_plugin_is_started_again(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    first = plugin.start()
    follower = kubelet.plugin(GPU)
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE)
    assert follower.ended.wait(PATIENCE)
    assert (plugin.kubelet / "shim-vendor.com_gpu.sock").exists(), "its socket is left behind"
    second = plugin.start()
    wait(lambda: len(kubelet.registered) == 2, plugin.log.read_text)
    assert kubelet.plugin(GPU).allocate(["0"])
    assert second.poll() is None


def test_a_second_plugin_is_refused_and_the_first_goes_on(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    plugin.start()
    follower = kubelet.plugin(GPU)
    second = plugin.run()
    assert second.returncode == 1
    assert "PLUGIN_RUNNING" in second.stderr
    assert "another process serves vendor.com/gpu already" in second.stderr
    assert follower.allocate(["0"])


# --- specs, nodes and grants change -------------------------------------------------------------------------------


def test_a_device_vanishes_and_returns(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(2)
    plugin.start()
    follower = kubelet.plugin(GPU)
    (plugin.nodes / "gpu1").unlink()
    follower.wait_health(**{"0": "Healthy", "1": "Unhealthy"})
    with pytest.raises(RefusedError, match=r"gpu1 is missing.*Usable units of vendor.com/gpu: 0") as refused:
        follower.allocate(["1"])
    assert refused.value.code == "FAILED_PRECONDITION"
    plugin.wait_event("unhealthy", "gpu1 is missing")
    (plugin.nodes / "gpu1").write_text("")
    plugin.wait_event("unhealthy", "gpu1 is no device node")
    plugin.node("gpu1", 101)
    follower.wait_health(**{"0": "Healthy", "1": "Healthy"})
    assert follower.allocate(["1"])
    assert len(follower.lists) == 3, "another cause for the same health is no change"


def test_specs_change_without_a_restart(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    plugin.start()
    follower = kubelet.plugin(GPU)
    plugin.gpus(3)
    follower.wait_health(**{"0": "Healthy", "1": "Healthy", "2": "Healthy"})
    plugin.spec("vendor.com/npu", {"a": [plugin.node("npu", 200)]})
    assert kubelet.plugin("vendor.com/npu").allocate(["a"]) == [({"cdi.k8s.io/vendor.com_npu": "vendor.com/npu=a"}, [])]
    (plugin.specs / "vendor.com-gpu.json").unlink()
    wait(lambda: follower.lists[-1] == {}, lambda: f"{follower.lists[-1]}")
    with pytest.raises(RefusedError, match="there are: none"):
        follower.allocate(["0"])
    plugin.gpus(1)
    follower.wait_health(**{"0": "Healthy"})
    assert len(kubelet.registered) == 2, "the same socket serves on"


def test_a_spec_that_cannot_be_read_is_reported_and_the_others_are_served(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    (plugin.specs / "broken.json").write_text("{")
    plugin.start()
    assert kubelet.plugin(GPU).health() == {"0": "Healthy"}
    plugin.wait_event("finding", "SPEC_SYNTAX")


def test_an_exclusively_granted_device_is_unhealthy_with_all_its_replicas(plugin: Plugin, kubelet: FakeKubelet) -> None:
    nodes = [plugin.node("gpu0", 3), plugin.node("gpu1", 5)]
    plugin.spec(GPU, {"0": nodes[:1], "1": nodes[1:], "all": nodes})
    plugin.config.write_text(f'[[resource]]\nkind = "{GPU}"\nreplicas = 2\n')
    plugin.start()
    follower = kubelet.plugin(GPU)
    follower.wait_health(**dict.fromkeys(("0::0", "0::1", "1::0", "1::1"), "Healthy"))
    plugin.grants.add("repo-a", ["vendor.com/gpu=0"], lambda: directories.read([str(plugin.specs)]), exclusive=True)
    follower.wait_health(**{"0::0": "Unhealthy", "0::1": "Unhealthy", "1::0": "Healthy", "1::1": "Healthy"})
    with pytest.raises(RefusedError, match=r"granted exclusively to repo-a.*shim grant revoke repo-a"):
        follower.allocate(["0::1"])
    plugin.grants.revoke("repo-a", ["vendor.com/gpu=0"])
    follower.wait_health(**dict.fromkeys(("0::0", "0::1", "1::0", "1::1"), "Healthy"))
    (plugin.top / "grants.json").write_text("[]")
    follower.wait_health(**dict.fromkeys(("0::0", "0::1", "1::0", "1::1"), "Unhealthy"))


def test_replicas_are_shared_and_the_answer_has_each_unit_once(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(2)
    plugin.config.write_text(f'[[resource]]\nkind = "{GPU}"\nname = "vendor.com/gpu.shared"\nreplicas = 3\n')
    plugin.start()
    follower = kubelet.plugin("vendor.com/gpu.shared")
    assert len(follower.health()) == 6
    assert follower.allocate(["0::2"], ["0::1"]) == [({"cdi.k8s.io/vendor.com_gpu.shared": "vendor.com/gpu=0"}, [])] * 2
    assert follower.prefer(["0::0", "1::0", "1::1"], 1) == ["1::0"]
    with pytest.raises(RefusedError, match="several-replicas = true"):
        follower.allocate(["0::0", "1::0"])


def test_a_container_may_have_several_replicas_where_it_is_configured(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(2)
    plugin.config.write_text(
        f'[[resource]]\nkind = "{GPU}"\nreplicas = 3\nseveral-replicas = true\nallocation = "packed"\n'
    )
    plugin.start()
    follower = kubelet.plugin(GPU)
    assert follower.allocate(["0::2", "0::1", "1::0"]) == [({KEY: "vendor.com/gpu=0,vendor.com/gpu=1"}, [])]
    assert follower.prefer(["0::0", "1::0", "1::1"], 1) == ["0::0"]


# --- the process itself -------------------------------------------------------------------------------------------


def test_counters_are_served(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(2)
    (plugin.nodes / "gpu1").unlink()
    address = str(plugin.kubelet.parent / "metrics")
    plugin.start("--metrics", address)
    follower = kubelet.plugin(GPU)
    follower.allocate(["0"])
    with pytest.raises(RefusedError):
        follower.allocate(["9"])
    text = _scrape(socket.AF_UNIX, address)
    for line in (
        'shim_node_plugin_allocations_total{resource="vendor.com/gpu",result="OK"} 1',
        'shim_node_plugin_allocations_total{resource="vendor.com/gpu",result="NOT_FOUND"} 1',
        'shim_node_plugin_registrations_total{resource="vendor.com/gpu",result="OK"} 1',
        'shim_node_plugin_lists_total{resource="vendor.com/gpu"} 1',
        'shim_node_plugin_devices{resource="vendor.com/gpu",health="healthy"} 1',
        'shim_node_plugin_devices{resource="vendor.com/gpu",health="unhealthy"} 1',
        'shim_node_plugin_device_healthy{resource="vendor.com/gpu",device="vendor.com/gpu=1"} 0',
        'shim_node_plugin_registered{resource="vendor.com/gpu"} 1',
        'shim_node_plugin_form{form="annotation"} 1',
    ):
        assert line in text.splitlines(), text


def test_counters_are_served_at_a_port(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plugin.start("--metrics", f"127.0.0.1:{port}")
    kubelet.plugin(GPU)
    assert "shim_node_plugin_start_time_seconds " in _scrape(socket.AF_INET, ("127.0.0.1", port))


def _scrape(family: int, address: str | tuple[str, int]) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(address)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def test_no_privilege_is_left(plugin: Plugin, kubelet: FakeKubelet) -> None:
    plugin.gpus(1)
    process = plugin.start()
    kubelet.plugin(GPU)
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{thread}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
        assert {status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapBnd")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1"
    assert os.stat(plugin.kubelet / "shim-vendor.com_gpu.sock").st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--kubelet-dir", "/nowhere"],
            "PLUGIN_SOCKET: /nowhere: the kubelet's directory cannot be used: it is no directory",
        ),
        (["--metrics", "/nowhere/socket"], "PLUGIN_SOCKET: nothing can listen at /nowhere/socket for metrics"),
        (["--config", "/nowhere/node.toml"], "NODE_CONFIG: /nowhere/node.toml: it cannot be read"),
    ],
)
def test_what_cannot_begin_ends_with_an_error(plugin: Plugin, words: list[str], text: str) -> None:
    done = plugin.run(*words)
    assert done.returncode == 1
    assert text in done.stderr


@pytest.mark.parametrize("words", [["--metrics", "nonsense"], ["--kubelet-version", "new"], ["--kubelet-version", "1"]])
def test_a_word_of_another_form_is_a_usage_error(plugin: Plugin, words: list[str]) -> None:
    assert plugin.run(*words).returncode == 2


def test_a_dry_run_shows_units_and_what_is_left_out(plugin: Plugin) -> None:
    nodes = [plugin.node("gpu0", 3), plugin.node("gpu1", 5)]
    plugin.spec(GPU, {"0": nodes[:1], "1": nodes[1:], "again": nodes[1:], "all": nodes})
    plugin.spec("Vendor_x/nic", {"0": [plugin.node("nic0", 7)]})
    (plugin.nodes / "gpu1").unlink()
    shown = plugin.run("--dry-run", "--kubelet-version", "1.20.2")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0] == "form: annotation (kubelet 1.20.2 passes no CDI names on (1.29 does))"
    rows = [line.split(maxsplit=5) for line in shown.stdout.splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        [GPU, "0", "healthy"],
        [GPU, "1", "unhealthy"],
        [GPU, "all", "left"],
        [GPU, "again", "left"],
    ]
    assert "PLUGIN_KIND: the kind Vendor_x/nic is no resource" in shown.stderr
    document = json.loads(plugin.run("--dry-run", "-o", "json").stdout)
    assert document["form"] == "annotation"
    (resource,) = document["resources"]
    assert [device["ids"] for device in resource["devices"]] == [["0"], ["1"]]
    assert [each["name"] for each in resource["leftOut"]] == ["vendor.com/gpu=all", "vendor.com/gpu=again"]
    assert not plugin.kubelet.joinpath("shim-vendor.com_gpu.sock").exists()


def test_a_kind_of_nothing_but_all_does_not_take_the_hardware_of_another(plugin: Plugin) -> None:
    """`management.nvidia.com/gpu=all` comes before `nvidia.com/gpu` in the alphabet, and has the nodes of every GPU."""
    nodes = [plugin.node("gpu0", 3), plugin.node("gpu1", 5)]
    plugin.spec("a.vendor.com/gpu", {"all": nodes})
    plugin.spec(GPU, {"0": nodes[:1], "1": nodes[1:]})
    plugin.spec("vendor.com/whole", {"all": [plugin.node("other", 7)]})
    document = json.loads(plugin.run("--dry-run", "-o", "json").stdout)
    units = {each["name"]: [device["name"] for device in each["devices"]] for each in document["resources"]}
    assert units == {
        GPU: ["vendor.com/gpu=0", "vendor.com/gpu=1"],
        "a.vendor.com/gpu": [],
        "vendor.com/whole": ["vendor.com/whole=all"],
    }


def test_a_node_without_kinds_is_shown_as_such(plugin: Plugin) -> None:
    shown = plugin.run("--dry-run")
    assert "no kind of the spec directories is a resource" in shown.stdout


def test_a_host_below_another_root(plugin: Plugin, kubelet: FakeKubelet) -> None:
    """As in a container with the host's root at /host: paths of specs and links are those of the host."""
    root = plugin.top / "host"
    (root / "run/cdi").mkdir(parents=True)
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "dev").mkdir()
    os.mknod(root / "dev/gpu0", 0o20600, os.makedev(1, 3))
    document = {"cdiVersion": "0.6.0", "kind": GPU, "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0"}]}},
        {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu1"}]}},
    ]}  # fmt: skip
    (root / "run/cdi/a.json").write_text(json.dumps(document))
    (root / "etc/shim").mkdir(parents=True)
    (root / "etc/shim/node.toml").write_text(f'[[resource]]\nkind = "{GPU}"\nname = "vendor.com/host"\n')
    words = [str(plugin.words()[0]), "node", "plugin", "--host-root", str(root), "--kubelet-dir", str(plugin.kubelet)]
    plugin.launch(words)
    kubelet.plugin("vendor.com/host").wait_health(**{"0": "Healthy", "1": "Unhealthy"})
