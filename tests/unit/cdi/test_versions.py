"""Versions: which feature asks for which, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from shim.cdi import versions


def document(edits: dict[str, Any] | None = None, name: str = "d", **members: Any) -> dict[str, Any]:
    device = {"name": name, "containerEdits": edits or {"env": ["A=1"]}}
    return {"cdiVersion": "0.3.0", "kind": "a/b", "devices": [device], **members}


FEATURES = [
    ("a type of a mount", "0.4.0", {"mounts": [{"type": "bind"}]}, ".mounts[0].type"),
    ("a path on the host", "0.5.0", {"deviceNodes": [{}, {"hostPath": "/x"}]}, ".deviceNodes[1].hostPath"),
    ("group ids", "0.7.0", {"additionalGids": [0]}, ".additionalGids"),
    ("an empty intelRdt", "0.7.0", {"intelRdt": {}}, ".intelRdt"),
    ("empty schemata", "1.1.0", {"intelRdt": {"schemata": []}}, ".intelRdt.schemata"),
    ("monitoring", "1.1.0", {"intelRdt": {"enableMonitoring": True}}, ".intelRdt.enableMonitoring"),
    ("network devices", "1.1.0", {"netDevices": [{}]}, ".netDevices"),
]


@pytest.mark.parametrize(("what", "version", "edits", "place"), FEATURES, ids=[row[0] for row in FEATURES])
def test_a_feature_asks_for_its_version_on_a_device_and_on_the_spec(
    what: str, version: str, edits: dict[str, Any], place: str
) -> None:
    assert what
    assert versions.needs(document(edits)) == (version, f"devices[0].containerEdits{place}")
    assert versions.needs(document(containerEdits=edits)) == (version, f"containerEdits{place}")


@pytest.mark.parametrize(
    ("version", "written"),
    [
        ("0.6.0", document(annotations={"a": "b"})),
        ("0.6.0", document(kind="a/b.c")),
        ("0.5.0", document(name="0")),
        ("0.3.0", document(kind="a.b/c")),
        ("0.3.0", document(kind="a.b")),
        ("0.3.0", document({"mounts": [{"type": ""}], "netDevices": [], "additionalGids": []})),
        ("0.3.0", {}),
    ],
)
def test_the_minimum_is_the_highest_that_is_asked_for(version: str, written: dict[str, Any]) -> None:
    assert versions.minimum(written) == version


@pytest.mark.parametrize("version", [*versions.KNOWN, "v1.1.0"])
def test_every_listed_version_is_known_with_and_without_a_v(version: str) -> None:
    assert versions.known(version)


@pytest.mark.parametrize("version", ["", "v", "vv1.0.0", "V1.0.0", "1.1", "0.6.1", "1.1.0 ", "1.1.0\n", "\u0661.1.0"])
def test_anything_else_is_not_known(version: str) -> None:
    assert not versions.known(version)


def test_a_version_that_is_too_low_says_which_field_asks_for_which() -> None:
    with pytest.raises(versions.BadVersion) as refused:
        versions.check(document({"intelRdt": {"enableMonitoring": True}}))
    assert str(refused.value) == (
        "cdiVersion 0.3.0 is too low: devices[0].containerEdits.intelRdt.enableMonitoring needs 1.1.0"
    )
    assert (refused.value.rule, refused.value.needs) == ("version-too-low", "1.1.0")
    assert refused.value.remedy == "write cdiVersion 1.1.0 or newer"


def test_an_unknown_version_is_answered_with_the_list() -> None:
    with pytest.raises(versions.BadVersion, match=r"'0\.6\.1' is not known") as refused:
        versions.check(document() | {"cdiVersion": "0.6.1"})
    assert refused.value.rule == "unknown-version"
    assert "0.3.0, 0.4.0" in refused.value.remedy
    assert "0.2.0" not in refused.value.remedy


def test_two_known_versions_are_always_too_low() -> None:
    with pytest.raises(versions.BadVersion, match=r"0.2.0 is too low: any document needs 0.3.0"):
        versions.check(document() | {"cdiVersion": "0.2.0"})
