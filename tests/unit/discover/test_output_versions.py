"""A spec for an old engine has what that engine reads, and a warning about what a container loses by it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from unit.discover import acme

from shim.base.findings import CdiError
from shim.cdi import spec, store, versions
from shim.discover import engine_versions, generate
from shim.discover.model import Wish
from shim.discover.output import Target

pytestmark = pytest.mark.usefixtures("only_acme")

NODE = ("c", 195, 3, 0o660, 0, 44)


@pytest.mark.parametrize(
    ("word", "version"),
    [
        ("podman=4.1", "0.4.0"),
        ("podman=4.3.1", "0.5.0"),
        ("podman=4.9.3", "0.6.0"),
        ("podman=v5.4.2", "0.8.0"),
        ("podman=6", "1.0.0"),
        ("docker=25.0.3", "0.6.0"),
        ("docker=25.0.17", "0.8.0"),
        ("docker=26.0.0", "0.6.0"),
        ("Docker=28.5.1", "1.0.0"),
        ("containerd=1.7.2", "0.5.0"),
        ("containerd=1.7.27~ds1-1", "0.8.0"),
        ("containerd=2.0.5", "1.0.0"),
        ("crio=1.24.6", "0.3.0"),
        ("cri-o=1.35.1", "1.1.0"),
        ("buildah=1.36.0", "0.7.0"),
    ],
)
def test_an_engine_reads_up_to_a_version(word: str, version: str) -> None:
    assert engine_versions.highest(word) == version


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("podmann=4.9", "no engine of that name is known (there are: podman, docker, containerd, cri-o, buildah)"),
        ("podman", "name the engine's version, for example --for podman=4.9.3"),
        ("podman=new", "name the engine's version"),
        ("podman=3.4.4", "podman reads specs of this kind since 4.1"),
        ("docker=20.10.24", "docker reads specs of this kind since 25"),
        ("containerd=1.6.20", "containerd reads specs of this kind since 1.7"),
    ],
)
def test_an_engine_that_is_unknown_or_too_old_is_refused(word: str, text: str) -> None:
    with pytest.raises(CdiError) as caught:
        engine_versions.highest(word)
    assert caught.value.findings[0].id == "DISCOVERY_WISH"
    assert text in str(caught.value)


def test_the_table_is_in_order_and_of_versions_that_exist() -> None:
    for rows in engine_versions.TABLE.values():
        assert [since for since, _ in rows] == sorted(since for since, _ in rows)
        assert {version for _, version in rows} <= set(versions.KNOWN)


def test_of_several_engines_the_oldest_decides() -> None:
    assert engine_versions.limit(["docker=28.5", "podman=4.3.1", "cri-o=1.35"]) == "0.5.0"
    assert engine_versions.limit([]) == ""


def document(**edits: Any) -> dict[str, Any]:
    made = {
        "cdiVersion": "1.1.0",
        "kind": "acme.example/gpu",
        "annotations": {"a": "b"},
        "devices": [
            {"name": "0", "annotations": {"c": "d"}, "containerEdits": edits},
            {"name": "GPU-1", "containerEdits": {"env": ["A=B"]}},
        ],
    }
    made["cdiVersion"] = versions.minimum(made)
    return made


EVERYTHING = {
    "env": ["A=B"],
    "deviceNodes": [{"path": "/dev/a", "hostPath": "/driver/dev/a"}],
    "mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "bind", "options": ["rbind"]}],
    "additionalGids": [44],
    "netDevices": [{"hostInterfaceName": "eth1", "name": "eth1"}],
}


@pytest.mark.parametrize("highest", versions.KNOWN[2:])
def test_whatever_is_asked_for_the_result_is_a_spec_of_that_version(highest: str) -> None:
    made, _ = engine_versions.lowered(document(**EVERYTHING), highest, lambda _: NODE)
    assert versions.KNOWN.index(made["cdiVersion"]) <= versions.KNOWN.index(highest)
    assert made["cdiVersion"] == versions.minimum(made)
    assert spec.faults(store.encode(made)) == []


def test_what_a_version_has_is_kept() -> None:
    before = document(**EVERYTHING)
    assert engine_versions.lowered(before, "1.1.0", lambda _: NODE) == (before, [])
    assert engine_versions.lowered(before, "", lambda _: NODE) == (before, [])


def test_without_additional_groups_a_warning_tells_what_that_means() -> None:
    made, (warning,) = engine_versions.lowered(document(additionalGids=[44], env=["A=B"]), "0.6.0", lambda _: None)
    assert made["devices"][0]["containerEdits"] == {"env": ["A=B"]}
    assert made["cdiVersion"] == "0.6.0"
    assert (warning.id, warning.level) == ("SPEC_LOWERED", "WARNING")
    assert "--group-add" in warning.text


def test_numbers_stand_in_for_a_host_path() -> None:
    made, (renamed, warning) = engine_versions.lowered(
        document(deviceNodes=EVERYTHING["deviceNodes"]), "0.4.0", lambda _: NODE
    )
    assert "so there are gpu0 in their place" in renamed.text
    (node,) = made["devices"][1]["containerEdits"]["deviceNodes"]  # sorted anew: GPU-1, gpu0
    assert node == {"path": "/dev/a", "type": "c", "major": 195, "minor": 3}
    assert "may change at a reboot" in warning.text


def test_a_host_path_without_a_node_cannot_be_lowered() -> None:
    with pytest.raises(CdiError, match=r"cannot be written for 0.4.0: .*hostPath needs 0.5.0") as caught:
        engine_versions.lowered(document(deviceNodes=EVERYTHING["deviceNodes"]), "0.4.0", lambda _: None)
    assert caught.value.findings[0].id == "SPEC_LOWERED"


def test_names_that_begin_with_a_digit_get_the_class_in_front() -> None:
    made, _ = engine_versions.lowered(document(env=["A=B"]), "0.4.0", lambda _: None)
    assert [device["name"] for device in made["devices"]] == ["GPU-1", "gpu0"]
    taken = document(env=["A=B"])
    taken["devices"][1]["name"] = "gpu0"
    with pytest.raises(CdiError, match=r"two devices would be named acme\.example/gpu=gpu0"):
        engine_versions.lowered(taken, "0.4.0", lambda _: None)


def test_a_device_of_which_nothing_is_left_is_left_out() -> None:
    made, warnings = engine_versions.lowered(document(netDevices=EVERYTHING["netDevices"]), "0.6.0", lambda _: None)
    assert [device["name"] for device in made["devices"]] == ["GPU-1"]
    assert any("nothing is left of 0" in warning.text for warning in warnings)


def test_a_host_gets_a_spec_for_its_engine(trusted_path: Path) -> None:
    host = acme.machine(trusted_path, "0", mode=0o660, gid=44)
    target = Target(spec_dirs=("/var/run/cdi",), engines=("podman=4.1.1",))
    outcome = generate.generate(host, Wish("/usr/local/bin/shim"), target, ["auto"])
    assert [finding.id for finding in outcome.findings] == ["SPEC_LOWERED", "SPEC_LOWERED"]
    (written,) = outcome.specs
    assert written.document["cdiVersion"] == "0.3.0"
    assert [device["name"] for device in written.document["devices"]] == ["all", "gpu0", "id-0"]
    plain = generate.generate(host, Wish("/usr/local/bin/shim"), dataclasses.replace(target, engines=()), ["auto"])
    assert [finding.id for finding in plain.findings] == ["SPEC_SHRINKS"]  # gpu0 would go
