"""Several specs of one kind as one: each device gives a container the same as before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.create.strategies import BLOCKS

from shim.base.findings import CdiError
from shim.cdi import plan, store
from shim.cdi.combine import combined
from shim.cdi.directories import Directories
from shim.cdi.edits import apply
from shim.cdi.spec import Spec, parse

Json = dict[str, Any]


def spec(path: str, common: Json, devices: dict[str, Json], **more: Any) -> Spec:
    listed = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    document = {"cdiVersion": "1.1.0", "kind": "acme.example/gpu", "devices": listed, "containerEdits": common, **more}
    return parse(store.encode(document, "json"), path)


def injected(specs: list[Spec], name: str) -> Json:
    served = Directories(["/etc/cdi"])
    served.add(specs)
    resolved = plan.make([f"acme.example/gpu={name}"], served, lookup=lambda _: ("c", 1, 2, 0o666, 0, 0))
    return apply(resolved, {"ociVersion": "1.0.0", "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/"}})


def test_what_all_files_share_is_written_once() -> None:
    common = {"env": ["A=1"], "mounts": [{"hostPath": "/x", "containerPath": "/x"}]}
    first, second = spec("/a", common, {"0": {"env": ["N=0"]}}), spec("/b", common, {"1": {"env": ["N=1"]}})
    made = combined([first, second])
    assert made["containerEdits"] == common
    assert [device["containerEdits"] for device in made["devices"]] == [{"env": ["N=0"]}, {"env": ["N=1"]}]


def test_what_one_file_has_goes_into_its_devices_in_front_of_their_own() -> None:
    first = spec("/a", {"env": ["A=1", "B=1"]}, {"0": {"env": ["B=0"]}})
    second = spec("/b", {"env": ["A=1"], "additionalGids": [44]}, {"1": {"env": ["N=1"]}}, cdiVersion="0.7.0")
    made = combined([first, second])
    assert (made["containerEdits"], made["cdiVersion"]) == ({"env": ["A=1"]}, "1.1.0")
    assert [device["containerEdits"] for device in made["devices"]] == [
        {"env": ["B=1", "B=0"]},
        {"env": ["N=1"], "additionalGids": [44]},
    ]


def test_each_conflict_is_named() -> None:
    first = spec("/a", {}, {"0": {"env": ["N=0"]}, "1": {"env": ["N=1"]}}, annotations={"k": "1", "same": "x"})
    second = spec("/b", {}, {"0": {"env": ["N=0"]}, "1": {"env": ["N=2"]}}, annotations={"k": "2", "same": "x"})
    other = spec("/c", {}, {"3": {"env": ["N=0"]}}, kind="acme.example/nic")
    with pytest.raises(CdiError) as caught:
        combined([first, second, other])
    assert [(finding.id, str(finding)) for finding in caught.value.findings] == [
        ("SPEC_CONFLICT", "/c: it has the kind acme.example/nic, and /a has acme.example/gpu"),
        ("SPEC_CONFLICT", "/b: the device 1 is otherwise in /a"),
        ("SPEC_CONFLICT", "/b: the annotation k is otherwise in /a"),
    ]


def test_the_version_is_what_the_members_need() -> None:
    first = spec("/a", {}, {"x": {"env": ["N=0"]}}, cdiVersion="0.3.0")
    second = spec("/b", {}, {"1": {"env": ["N=0"]}}, cdiVersion="0.5.0")
    assert combined([first, second])["cdiVersion"] == "0.5.0"


def test_an_interface_of_a_device_replaces_that_of_its_file_and_a_name_is_not_shared() -> None:
    def interfaces(common: str, own: str) -> list[Spec]:
        edits = [{"netDevices": [{"hostInterfaceName": name, "name": "net0"}]} for name in (common, own)]
        return [spec("/a", edits[0], {"0": edits[1]}), spec("/b", {}, {"1": {"env": ["N=1"]}})]

    made = combined(interfaces("eth5", "eth5"))
    assert made["devices"][0]["containerEdits"] == {"netDevices": [{"hostInterfaceName": "eth5", "name": "net0"}]}
    with pytest.raises(CdiError, match="two interfaces net0"):
        combined(interfaces("eth5", "eth6"))


@given(BLOCKS, BLOCKS, BLOCKS, BLOCKS, st.booleans())
def test_each_device_gives_a_container_the_same(a: Json, b: Json, own: Json, other: Json, same: bool) -> None:
    mark = {"env": ["OWN=1", *own.get("env", [])]}
    specs = [
        spec("/a", _single(a), {"0": _single({**own, **mark})}),
        spec("/b", _single(a if same else b), {"1": _single({**other, **mark})}),
    ]
    made = parse(store.encode(combined(specs), "json"), "/merged")
    for name in ("0", "1"):
        assert injected([made], name) == injected(specs, name)


def _single(block: Json) -> Json:
    """Edits that a spec may have: no interface twice, each with a name of its own."""
    made = {kind: value for kind, value in block.items() if value}
    if "netDevices" in made:
        [first, *_] = made["netDevices"]
        made["netDevices"] = [{**first, "name": f"n-{first['hostInterfaceName']}"}]
    return made
