"""Who asks for what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.create import request
from shim.create.bundle import Input
from shim.create.invocation import Invocation
from shim.create.question import Question

PREFIXES = ("cdi.k8s.io/",)
KIND = "acme.example/gpu"


def _ask(annotations: Any = None, *options: str, prefixes: tuple[str, ...] = PREFIXES) -> dict[str, str]:
    return request.ask(annotations, options, prefixes, KIND)


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


# --- how many -------------------------------------------------------------------------------------------------------


def test_as_many_names_as_permitted_of_the_longest_length_are_taken() -> None:
    request.check_names([f"{number:0256}" for number in range(128)])


@pytest.mark.parametrize(
    ("names", "told"),
    [
        pytest.param([str(number) for number in range(129)], "129 devices", id="one device too many"),
        pytest.param(["acme.example/gpu=" + "x" * 240], "257 letters", id="one letter too many"),
    ],
)
def test_requests_beyond_any_use_are_refused(names: list[str], told: str) -> None:
    with pytest.raises(CdiError, match=told) as caught:
        request.check_names(names)
    assert caught.value.findings[0].id == "REQUEST_LIMIT"
    assert ("shorter name" in caught.value.findings[0].remedy) == (len(names) == 1), "fewer devices do not shorten one"


@pytest.mark.parametrize(("annotations", "devices"), [(ASKED["one name"][0], ()), ({}, ("0",))])
def test_d11_an_unknown_option_has_the_remedy_of_the_way_in_which_was_asked(
    annotations: dict[str, str], devices: tuple[str, ...]
) -> None:
    """Who asked by annotation was to put --device behind the verb."""
    text = json.dumps({"annotations": annotations})
    words = [
        "low=/bin/runc",
        "name=shim",
        "self=/bin/shim",
        "verb=create",
        "bundle=/b",
        "unknown=--new",
        *(f"device={device}" for device in devices),
        "--",
    ]
    question = Question(Invocation(words), Input(text.encode()), rootful=True)
    with pytest.raises(CdiError) as caught:
        request.check(question, _ask(annotations, *devices))
    assert caught.value.findings[0].id == "OPTION_UNKNOWN"
    assert ("--device" in caught.value.findings[0].remedy) == bool(devices)


# --- config.json ----------------------------------------------------------------------------------------------------

BAD_CWDS = {
    "a descriptor": "/proc/self/fd/7",
    "a descriptor behind needless slashes": "//proc/./self/fd/7/",
    "what lies behind a descriptor": "/proc/self/fd/7/../../../tmp",
    "a way round": "/tmp/../proc/self/cwd",
    "above the root and back": "/../proc/1/root",
    "any file there": "/proc/sys",
}


@pytest.mark.parametrize("cwd", BAD_CWDS.values(), ids=BAD_CWDS.keys())
def test_a_working_directory_below_proc_is_refused(cwd: str) -> None:
    with pytest.raises(CdiError) as caught:
        request.check_cwd({"process": {"cwd": cwd}})
    assert caught.value.findings[0].id == "CWD_FORBIDDEN"


@pytest.mark.parametrize("cwd", ["/", "/proc", "/work/proc/self", "/process/self", "", None, 7])
def test_other_working_directories_are_not_our_business(cwd: object) -> None:
    request.check_cwd({"process": {"cwd": cwd}})


def _misspelt(config: dict[str, Any]) -> list[tuple[str, str, str]]:
    call = Invocation(["low=/bin/true", "name=shim", "self=/x", "verb=create", "--"])
    return Question(call, Input(json.dumps(config).encode()), rootful=True).misspelt


ODD_SPELLINGS: dict[str, dict[str, Any]] = {
    "a second process": {"process": {}, "Process": {"env": ["A=1"]}},
    "the only mounts": {"MOUNTS": []},
    "hooks with a long s": {"hook\u017f": {}},
    "in process": {"process": {"Env": []}},
    "in the user": {"process": {"user": {"AdditionalGids": [1]}}},
    "in linux": {"linux": {"Devices": []}},
    "in the resources": {"linux": {"resources": {"DEVICES": []}}},
    "a hook stage": {"hooks": {"createcontainer": []}},
    "a second root": {"root": {"path": "rootfs"}, "Root": {"path": "other"}},
    "annotations": {"Annotations": {}},
    "in the root": {"root": {"Path": "other"}},
    "the label of mounts": {"linux": {"mountlabel": "x"}},
}


@pytest.mark.parametrize("config", ODD_SPELLINGS.values(), ids=ODD_SPELLINGS.keys())
def test_a_member_that_go_takes_for_one_that_we_edit_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(CdiError, match="some readers take for") as caught:
        request.check_spelling(_misspelt(config))
    assert caught.value.findings[0].id == "CONFIG_JSON"


@pytest.mark.parametrize("config", [{}, {"process": None, "linux": [], "hooks": 3}, {"X-Mine": 1, "linux": {"Own": 1}}])
def test_unknown_members_and_wrong_types_are_left_to_others(config: dict[str, Any]) -> None:
    request.check_spelling(_misspelt(config))
    request.check_cwd(config)


ITEMS: list[tuple[dict[str, Any], str]] = [
    ({"mounts": [{"destination": "/a"}, {"deSTInation": "/b"}]}, "mounts has 'deSTInation'"),
    ({"mounts": [{"de\u017ftination": "/b"}]}, "which some readers take for destination"),
    ({"linux": {"devices": [{"Path": "/dev/a"}]}}, "linux.devices has 'Path'"),
    ({"linux": {"resources": {"devices": [{"Allow": True}]}}}, "linux.resources.devices has 'Allow'"),
    ({"linux": {"namespaces": [{"Type": "user"}]}}, "linux.namespaces has 'Type'"),
    ({"linux": {"uidMappings": [{"hostid": 5}]}}, "linux.uidMappings has 'hostid'"),
]


@pytest.mark.parametrize(("config", "text"), ITEMS)
def test_f15_a_misspelt_member_of_an_item_is_refused(config: dict[str, Any], text: str) -> None:
    """Go takes deSTInation for destination: the mount that it names was neither replaced nor sorted by its depth."""
    with pytest.raises(CdiError, match=text) as caught:
        request.check_items(config)
    assert caught.value.findings[0].id == "CONFIG_JSON"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"mounts": None, "linux": [1]},
        {"mounts": [None, 1, {"destination": "/a", "unknown": 1}], "linux": {"devices": [{"path": "/a", "more": 2}]}},
    ],
)
def test_other_members_of_items_are_no_misspellings(config: dict[str, Any]) -> None:
    request.check_items(config)
