"""What pods get of devices on a real node: run by `make test-kubernetes`, inside of node.py, in this order.

The cases share the node, which takes half a minute to start; each begins and ends with two free devices.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubernetes.cluster import (
    CONFIG,
    KIND,
    NODES,
    SPEC,
    Kubelet,
    Plugin,
    allocatable,
    create,
    delete,
    events,
    exactly,
    got,
    kubectl,
    make_node,
    phase,
    wait,
    wait_for_count,
    write_spec,
)

TOP = Path(__file__).parent.parent.parent
MANIFESTS = TOP / "packaging/kubernetes"
SOCKET = Path("/var/lib/kubelet/device-plugins/kubelet.sock")


@pytest.fixture(scope="module")
def plugin() -> Iterator[Plugin]:
    """The plugin, with two devices and the RuntimeClass that shim writes."""
    written = subprocess.run(
        [os.environ["SHIM"], "runtime", "class"], capture_output=True, text=True, check=True
    ).stdout
    kubectl("apply", "-f", "-", stdin=written)
    for number in (0, 1):
        make_node(number)
    write_spec([0, 1])
    started = Plugin()
    started.start()
    wait_for_count(2)
    yield started
    if started.is_running():
        assert started.end() == 0, "SIGTERM ends the plugin well"


@pytest.fixture(scope="module")
def kubelet(plugin: Plugin) -> Iterator[Kubelet]:
    """The kubelet; one that a case has started ends before the plugin."""
    assert plugin.is_running()
    started = Kubelet()
    yield started
    started.close()


def test_a_pod_gets_exactly_its_device_and_no_more_than_there_are(plugin: Plugin) -> None:
    assert plugin.is_running()
    create("a")
    create("b")
    first, second = got("a"), got("b")
    assert sorted((first["env"], second["env"])) == ["0", "1"]
    assert first == exactly(first["env"])
    assert second == exactly(second["env"])
    create("c")
    wait(
        "the scheduler names the reason",
        lambda: re.search("FailedScheduling: .*Insufficient vendor.com/gpu", events("c")),
    )
    assert phase("c") == "Pending"
    delete("a")
    assert got("c") == first, "the device that became free"
    delete("b", "c")


@pytest.mark.usefixtures("plugin")
def test_without_the_class_nothing_arrives_though_the_device_is_accounted_for() -> None:
    create("plain", runtime="")
    assert got("plain") == {"env": "absent"}
    delete("plain")


@pytest.mark.usefixtures("plugin")
def test_a_device_vanishes_and_returns() -> None:
    (NODES / "gpu1").unlink()
    wait_for_count(1)
    create("last")
    assert got("last") == exactly("0")
    delete("last")
    make_node(1)
    wait_for_count(2)


def test_the_kubelet_starts_anew(plugin: Plugin, kubelet: Kubelet, capsys: pytest.CaptureFixture[str]) -> None:
    create("stays")
    had = got("stays")
    kubelet.end()
    before = plugin.log.read_text().count("registered")
    SOCKET.unlink(missing_ok=True)
    kubelet.start()
    wait("the kubelet listens", SOCKET.exists)
    listening = time.monotonic()
    wait("the plugin registers", lambda: plugin.log.read_text().count("registered") > before, 30)
    with capsys.disabled():
        sys.stderr.write(f"registered {time.monotonic() - listening:.1f} s after the kubelet's socket was there\n")
    wait("the node is ready", lambda: kubectl("wait", "--for=condition=Ready", "node/node", "--timeout=5s", fails=True))
    wait_for_count(2)
    assert phase("stays") == "Running"
    create("beside")
    assert got("beside")["env"] != had["env"], "the kubelet still knows who has which device"
    delete("stays", "beside")


@pytest.mark.usefixtures("plugin")
def test_a_spec_changes() -> None:
    make_node(2)
    write_spec([0, 1, 2])
    wait_for_count(3)
    write_spec([0, 1])
    wait_for_count(2)
    (NODES / "gpu2").unlink()


def test_the_plugin_is_killed_and_started_again(plugin: Plugin) -> None:
    create("running")
    had = got("running")
    plugin.end(signal.SIGKILL)
    wait("the kubelet notices it", lambda: allocatable() == "0")
    assert phase("running") == "Running"
    plugin.start()
    wait_for_count(2)
    create("next")
    assert got("next")["env"] != had["env"]
    delete("running", "next")


def test_a_device_is_shared_by_replicas(plugin: Plugin) -> None:
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text(f'[[resource]]\nkind = "{KIND}"\nname = "{KIND}.shared"\nreplicas = 2\n')
    plugin.end()
    plugin.start()
    wait_for_count(4, f"{KIND}.shared")
    names = ["r0", "r1", "r2", "r3"]
    for name in names:
        create(name, resource=f"{KIND}.shared")
    given = sorted(got(name)["env"] for name in names)
    assert given == ["0", "0", "1", "1"]
    delete(*names)
    CONFIG.unlink()
    plugin.end()
    plugin.start()
    wait_for_count(2)


@pytest.mark.usefixtures("plugin")
def test_a_refusal_of_shim_is_in_the_events_of_the_pod() -> None:
    create("refused", restart="Always")
    got("refused")
    SPEC.chmod(0o666)
    kubectl("exec", "refused", "--", "kill", "-TERM", "1", fails=True)
    text = wait("an event has the reason", lambda: re.search(r"Failed: .*", events("refused")))[0]
    assert "DEVICE_UNKNOWN" in text
    assert str(SPEC) in text
    SPEC.chmod(0o644)
    delete("refused")
    wait_for_count(2)


def test_kubectl_takes_the_manifests() -> None:
    done = kubectl("apply", "--dry-run=client", "-k", str(MANIFESTS))
    assert "daemonset.apps/shim-node created (dry run)" in done
    examples = [word for path in sorted((MANIFESTS / "examples").iterdir()) for word in ("-f", str(path))]
    assert "created (dry run)" in kubectl("apply", "--dry-run=client", *examples)
