"""Annotations that were probably meant to be requests."""

from __future__ import annotations

from typing import Any

import pytest

from shim.config.settings import Settings
from shim.create import annotation_requests
from shim.create.world import World

ASKS = {"cdi.k8s.io/x": "v.example/gpu=0"}

# Annotations -> a part of the warning, "" for none
NEAR: dict[str, tuple[dict[str, Any], str]] = {
    "no slash": ({"cdi.k8s.io": "v.example/gpu=0"}, "cdi.k8s.io"),
    "capital letters": ({"CDI.k8s.io/x": "v.example/gpu=0"}, "CDI.k8s.io/x"),
    "another letter in the place of the slash": ({"cdi.k8s.io_x": "v.example/gpu=0"}, "cdi.k8s.io_x"),
    "a blank in front": ({" cdi.k8s.io/x": "v.example/gpu=0"}, "' cdi.k8s.io/x'"),
    "beside a request": ({**ASKS, "cdi.K8S.io/y": "v.example/gpu=1"}, "cdi.K8S.io/y"),
    "podman cut the value at its comma": ({**ASKS, "v.example/gpu": "1"}, "v.example/gpu=1"),
    "podman cut it, another class of the vendor": ({**ASKS, "v.example/nic": "p0"}, "v.example/nic=p0"),
    "a request": (ASKS, ""),
    "a key of another owner": ({**ASKS, "io.kubernetes.cri/name": "x"}, ""),
    "a key that is a kind where nothing asks": ({"v.example/gpu": "1"}, ""),
    "a value that names no device": ({"cdi.k8s.io": "on"}, ""),
    "a value that is no text": ({"CDI.k8s.io/x": 3}, ""),
}


@pytest.mark.parametrize(("annotations", "told"), NEAR.values(), ids=NEAR.keys())
def test_b14_an_annotation_that_nearly_asks_is_named(
    annotations: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container started without its device, and nothing was said."""
    monkeypatch.delenv("CRI_O_EXTERNAL", raising=False)
    found = annotation_requests.find({"annotations": annotations}, "c1", Settings(), World(), precreate=False)
    assert [finding.id for finding in found.findings] == (["ANNOTATION_NEAR"] if told else [])
    assert told in "".join(map(str, found.findings))
    assert found.requests == {key: value for key, value in annotations.items() if key == "cdi.k8s.io/x"}
