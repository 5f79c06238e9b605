"""Labels of the other vendors' devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.node.labels import label_hosts

from shim.discover.model import Device
from shim.host.host import Host
from shim.node.labels import devices, values
from shim.node.labels.sharing import Sharing

NONE = Sharing()
_GIB = 1 << 30


@pytest.mark.parametrize("name", label_hosts.HOSTS)
def test_the_labels_of_a_host_are_the_golden_labels(name: str, tmp_path: Path) -> None:
    assert label_hosts.labels(name, tmp_path) == label_hosts.golden()[name]


def test_each_golden_set_belongs_to_a_host_and_is_valid() -> None:
    golden = label_hosts.golden()
    assert set(golden) == set(label_hosts.HOSTS)
    for name, value in (item for labels in golden.values() for item in labels.items()):
        own = name.partition("/")[2]
        assert values.is_value(own) and own
        assert values.is_value(value)


def device(name: str, model: str, memory: int = 0, kind: str = "acme.com/fpga", version: str = "") -> Device:
    return Device(name, "rules", model, version, memory, cdi_names=(f"{kind}={name}",))


def test_several_models_are_told_apart(tmp_path: Path) -> None:
    every = [device("0", "Small", _GIB), device("1", "Big (TM)", 4 * _GIB), device("2", "Big (TM)", 4 * _GIB)]
    assert devices.labels(Host(str(tmp_path)), every, NONE) == {
        "acme.com/fpga.count": "3",
        "acme.com/fpga.product": "Big-TM",
        "acme.com/fpga.memory": "4096",
        "acme.com/fpga.replicas": "1",
        "acme.com/fpga.sharing-strategy": "none",
        "acme.com/fpga.model.Big-TM.count": "2",
        "acme.com/fpga.model.Big-TM.memory": "4096",
        "acme.com/fpga.model.Small.count": "1",
        "acme.com/fpga.model.Small.memory": "1024",
    }


def test_what_cannot_be_asked_for_is_not_counted(tmp_path: Path) -> None:
    assert devices.labels(Host(str(tmp_path)), [Device("0", "amd", "MI300X")], NONE) == {}


def test_a_driver_version_and_a_memory_that_differ_have_no_wrong_label(tmp_path: Path) -> None:
    every = [device("0", "X", _GIB, version="1.2"), device("1", "X", 0, version="1.3")]
    labels = devices.labels(Host(str(tmp_path)), every, NONE)
    assert set(labels) == {f"acme.com/fpga.{name}" for name in ("count", "product", "replicas", "sharing-strategy")}
    labels = devices.labels(Host(str(tmp_path)), every[:1], NONE)
    assert (labels["acme.com/fpga.driver-version"], labels["acme.com/fpga.memory"]) == ("1.2", "1024")


def test_sharing_is_stated_of_the_resource_that_is_shared(tmp_path: Path) -> None:
    every = [device("0", "X"), device("0", "Y", kind="acme.com/dsp")]
    labels = devices.labels(Host(str(tmp_path)), every, Sharing("time-slicing", {"acme.com/fpga": 3}))
    assert labels["acme.com/fpga.product"] == "X-SHARED"
    assert (labels["acme.com/fpga.replicas"], labels["acme.com/dsp.replicas"]) == ("3", "1")
    assert (labels["acme.com/fpga.sharing-strategy"], labels["acme.com/dsp.sharing-strategy"]) == (
        "time-slicing",
        "none",
    )
