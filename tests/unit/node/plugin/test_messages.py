"""The kubelet's API as data: the bytes are those of the API, and names that are too long stay apart."""

from __future__ import annotations

from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.node.plugin import allocation, endpoint, library
from shim.node.plugin.messages import MESSAGES, METHODS, Messages
from shim.node.plugin.snapshot import ResourceState, UnitState
from shim.node.plugin.topology import Position
from shim.node.plugin.units import Unit
from shim.node.settings import Resource


@pytest.fixture(scope="module")
def messages() -> Messages:
    library.load()
    return Messages()


@pytest.mark.parametrize(
    ("name", "members", "expected"),
    [
        # field << 3 | 2, length, content; worked out by hand from api.proto
        ("RegisterRequest", {"version": "v", "endpoint": "e", "resource_name": "r"}, b"\x0a\x01v\x12\x01e\x1a\x01r"),
        ("RegisterRequest", {"options": {"get_preferred_allocation_available": True}}, b"\x22\x02\x10\x01"),
        ("Device", {"ID": "0", "health": "Healthy"}, b"\x0a\x010\x12\x07Healthy"),
        ("Device", {"topology": {"nodes": [{"ID": 1}]}}, b"\x1a\x04\x0a\x02\x08\x01"),
        ("ContainerAllocateResponse", {"annotations": {"k": "v"}}, b"\x22\x06\x0a\x01k\x12\x01v"),
        ("ContainerAllocateResponse", {"envs": {"k": "v"}}, b"\x0a\x06\x0a\x01k\x12\x01v"),
        ("ContainerAllocateResponse", {"cdi_devices": [{"name": "n"}]}, b"\x2a\x03\x0a\x01n"),
        ("AllocateRequest", {"container_requests": [{"devices_ids": ["0"]}]}, b"\x0a\x03\x0a\x010"),
        (
            "ContainerPreferredAllocationRequest",
            {"available_deviceIDs": ["0"], "must_include_deviceIDs": ["1"], "allocation_size": 2},
            b"\x0a\x010\x12\x011\x18\x02",
        ),
    ],
)
def test_a_message_has_the_bytes_of_the_api(
    messages: Messages, name: str, members: dict[str, Any], expected: bytes
) -> None:
    assert messages[name](**members).SerializeToString() == expected
    assert messages[name].FromString(expected) == messages[name](**members)


def test_every_method_has_its_messages(messages: Messages) -> None:
    for forms in METHODS.values():
        for form in forms:
            assert messages[form.rstrip("*")]
    assert {messages[name].DESCRIPTOR.full_name for name in MESSAGES} == {f"v1beta1.{name}" for name in MESSAGES}


LONG = f"{'a' * 50}.com/{'b' * 40}"


def test_the_key_of_an_annotation_has_the_resource() -> None:
    assert allocation.key("vendor.com/gpu") == "cdi.k8s.io/vendor.com_gpu"
    keys = [allocation.key(LONG), allocation.key(LONG + "c")]
    assert len(set(keys)) == 2
    for key in keys:
        assert key.startswith("cdi.k8s.io/aaaa")
        assert len(key.partition("/")[2]) == 63


def test_the_name_of_a_socket_fits() -> None:
    assert endpoint.socket_name("vendor.com/gpu", "/var/lib/kubelet/device-plugins") == "shim-vendor.com_gpu.sock"
    names = [endpoint.socket_name(name, "/var/lib/kubelet/device-plugins") for name in (LONG, LONG + "c")]
    assert len(set(names)) == 2
    for name in names:
        assert len(f"/var/lib/kubelet/device-plugins/.{name}.new") <= 107
    with pytest.raises(CdiError, match="its path is too long") as refused:
        endpoint.socket_name("vendor.com/gpu", "/" + "d" * 90)
    assert refused.value.findings[0].id == "PLUGIN_SOCKET"


def _state(*devices: str, **members: Any) -> ResourceState:
    listed = [UnitState(Unit(f"vendor.com/gpu={device}", device, frozenset()), Position()) for device in devices]
    return ResourceState(Resource("vendor.com/gpu", "vendor.com/gpu", **members), tuple(listed))


def test_ids_are_the_names_or_with_replicas_their_numbers() -> None:
    assert list(_state("a", "b").ids) == ["a", "b"]
    assert list(_state("a", "b", replicas=2).ids) == ["a::0", "a::1", "b::0", "b::1"]


def test_a_long_name_has_a_short_id() -> None:
    state = _state("x" * 100 + "a", "x" * 100 + "b", replicas=2)
    assert len(state.ids) == 4
    assert {len(id) for id in state.ids} == {63}
    for id, unit in state.ids.items():
        (answer,) = allocation.answers(state, [[id]], "annotation")
        assert answer.names == (unit.unit.name,), "the answer has the name of the spec"


def test_a_prefix_of_the_configuration_is_used() -> None:
    (answer,) = allocation.answers(_state("a"), [["a"]], "annotation", "acme.com/")
    assert answer.annotations == {"acme.com/vendor.com_gpu": "vendor.com/gpu=a"}


def test_many_devices_are_not_all_listed_in_a_refusal() -> None:
    with pytest.raises(allocation.RefusedError) as refused:
        allocation.answers(_state(*(f"gpu{number}" for number in range(1000))), [["gpx7"]], "cdi")
    assert "nearest of 1000: gpu7" in str(refused.value)
    assert len(str(refused.value)) < 300
