"""Annotations: requests read strictly, with the place of what is wrong, and written so that they can be read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.cdi.annotations import BadAnnotation, key, parse, update, value
from shim.cdi.names import BadName

GPU = "acme.example/gpu"


def test_requests_come_sorted_by_key_in_the_order_of_each_value() -> None:
    found = parse({"cdi.k8s.io/b": f"{GPU}=1,{GPU}=0", "cdi.k8s.io/a": f"{GPU}=2", "other": "x"})
    assert found == [("cdi.k8s.io/a", [f"{GPU}=2"]), ("cdi.k8s.io/b", [f"{GPU}=1", f"{GPU}=0"])]


def test_no_annotations_ask_for_nothing() -> None:
    assert parse(None) == parse({}) == parse({"CDI.k8s.io/a": "x", "cdi.k8s.io": "x"}) == []


def test_other_prefixes_can_be_read_instead() -> None:
    annotations = {"cdi.k8s.io/a": "broken", "acme/x": f"{GPU}=0", "b": f"{GPU}=1"}
    assert parse(annotations, ("acme/", "b")) == [("acme/x", [f"{GPU}=0"]), ("b", [f"{GPU}=1"])]
    assert parse(annotations, ()) == []


@pytest.mark.parametrize(
    ("written", "number", "reason"),
    [
        ("", 1, "an entry is empty"),
        (f"{GPU}=0,", 2, "an entry is empty"),
        (f"{GPU}=0, {GPU}=1", 2, "must start with a letter"),
        ("gpu0", 1, "VENDOR/CLASS=DEVICE"),
        (7, 0, "is a string"),
    ],
)
def test_a_refusal_names_key_value_and_entry(written: Any, number: int, reason: str) -> None:
    with pytest.raises(BadAnnotation) as refused:
        parse({"cdi.k8s.io/x": written})
    bad = refused.value
    assert (bad.rule, bad.key, bad.value, bad.number) == ("invalid-device", "cdi.k8s.io/x", written, number)
    assert isinstance(bad, BadName)
    for part in ("'cdi.k8s.io/x'", repr(str(written)), reason, f"entry {number} of" if number else ""):
        assert part in str(bad)


@pytest.mark.parametrize(
    ("plugin", "device", "rule"),
    [
        ("", "x", "plugin-empty"),
        ("x", "", "device-id-empty"),
        ("p" * 32, "d" * 31, "name-too-long"),
        ("\u00e9" * 30, "d" * 31, "name-too-long"),  # 63 bytes are allowed, not letters
        ("_p", "d", "name-first-char"),
        ("p", "d/", "name-last-char"),
        ("p q", "d", "name-char"),
        ("p", "\u00e9", "name-char"),
    ],
)
def test_a_key_keeps_the_rules_of_a_label_name(plugin: str, device: str, rule: str) -> None:
    with pytest.raises(BadName) as refused:
        key(plugin, device)
    assert refused.value.rule == rule


def test_slashes_of_an_id_become_underscores() -> None:
    assert key("acme.gpu", "pod/ctr/7") == "cdi.k8s.io/acme.gpu_pod_ctr_7"


def test_an_update_leaves_what_it_was_given_and_takes_no_used_key() -> None:
    before = {"a": "b"}
    after = update(before, "acme.gpu", "c", [f"{GPU}=0"])
    assert before == {"a": "b"}
    assert after == {"a": "b", "cdi.k8s.io/acme.gpu_c": f"{GPU}=0"}
    with pytest.raises(BadName, match="in use"):
        update(after, "acme.gpu", "c", [f"{GPU}=1"])
    with pytest.raises(BadName, match="VENDOR/CLASS"):
        update(None, "acme.gpu", "c", [f"{GPU}=0", "x"])


@given(
    st.lists(st.from_regex(r"[a-z][a-z0-9.]*[a-z0-9]/[a-z]+=[a-z0-9]([a-z0-9:]*[a-z0-9])?", fullmatch=True), min_size=1)
)
def test_what_is_written_is_read_again(devices: list[str]) -> None:
    assert parse(update({}, "p", "d", devices)) == [("cdi.k8s.io/p_d", devices)]


@given(st.text("aZ9_-./: \u00e9", max_size=40), st.text("aZ9_-./: \u00e9", max_size=40))
def test_a_key_that_is_made_is_one_that_kubernetes_takes(plugin: str, device: str) -> None:
    try:
        name = key(plugin, device).removeprefix("cdi.k8s.io/")
    except BadName:
        return
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,61}[A-Za-z0-9]", name)


def test_an_empty_list_of_devices_makes_an_empty_value() -> None:
    assert value(None) == value([]) == ""
