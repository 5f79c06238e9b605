"""Who asks for what."""

from __future__ import annotations

from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.create.request import ask

PREFIXES = ("cdi.k8s.io/",)
KIND = "acme.example/gpu"


def _ask(annotations: Any = None, *options: str, prefixes: tuple[str, ...] = PREFIXES) -> dict[str, str]:
    return ask(annotations, options, prefixes, KIND)


ASKED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing": ({}, {}),
    "an annotation of another prefix": ({"x/y": "acme.example/gpu=0"}, {}),
    "one name": ({"cdi.k8s.io/a": "acme.example/gpu=0"}, {"acme.example/gpu=0": "annotation cdi.k8s.io/a"}),
    "two names in their order": (
        {"cdi.k8s.io/a": "acme.example/gpu=1,acme.example/gpu=0"},
        {"acme.example/gpu=1": "annotation cdi.k8s.io/a", "acme.example/gpu=0": "annotation cdi.k8s.io/a"},
    ),
    "the same name by two keys counts once, the first key in order keeps the credit": (
        {"cdi.k8s.io/b": "acme.example/gpu=0", "cdi.k8s.io/a": "acme.example/gpu=0"},
        {"acme.example/gpu=0": "annotation cdi.k8s.io/a"},
    ),
}


@pytest.mark.parametrize(("annotations", "wanted"), ASKED.values(), ids=ASKED.keys())
def test_annotations_ask(annotations: dict[str, str], wanted: dict[str, str]) -> None:
    found = _ask(annotations)
    assert found == wanted
    assert list(found) == list(wanted)


def test_options_come_first_and_a_bare_name_takes_the_default_kind() -> None:
    found = _ask({"cdi.k8s.io/a": "acme.example/gpu=1"}, "other.example/nic=e0", "1")
    assert found == {"other.example/nic=e0": "--device", "acme.example/gpu=1": "--device"}
    assert list(found) == ["other.example/nic=e0", "acme.example/gpu=1"]


def test_other_prefixes_can_be_configured() -> None:
    assert _ask({"dev.example/x": "a.b/c=d"}, prefixes=("dev.example/", "cdi.k8s.io/")) == {
        "a.b/c=d": "annotation dev.example/x"
    }


BAD: dict[str, tuple[Any, tuple[str, ...], str, str]] = {
    "an annotation with a space": ({"cdi.k8s.io/a": "acme.example/gpu=0, b"}, (), "ANNOTATION_INVALID", "cdi.k8s.io/a"),
    "an empty annotation": ({"cdi.k8s.io/a": ""}, (), "ANNOTATION_INVALID", "cdi.k8s.io/a"),
    "an annotation that is no text": ({"cdi.k8s.io/a": 7}, (), "ANNOTATION_INVALID", "cdi.k8s.io/a"),
    "an option without a device": (None, ("acme.example/gpu",), "DEVICE_NAME", "acme.example/gpu"),
    "an empty option": (None, ("",), "DEVICE_NAME", "--device"),
    "a path": (None, ("/dev/null",), "DEVICE_NAME", "/dev/null"),
    "a pattern": (None, ("acme.example/gpu=*",), "DEVICE_NAME", "*"),
}


@pytest.mark.parametrize(("annotations", "options", "finding", "named"), BAD.values(), ids=BAD.keys())
def test_what_is_no_name_is_refused_with_its_place(
    annotations: Any, options: tuple[str, ...], finding: str, named: str
) -> None:
    with pytest.raises(CdiError) as caught:
        _ask(annotations, *options)
    assert caught.value.findings[0].id == finding
    assert named in str(caught.value)
