"""Names: the sentences of the rules, and what must hold for any text."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.cdi import names
from shim.cdi.names import BadName

CHECKS = {"vendor": names.check_vendor, "class": names.check_class, "device": names.check_device}


@pytest.mark.parametrize("part", CHECKS)
@pytest.mark.parametrize("name", ["a", "Z9", "a-b", "a_b", "a.b", "a..b", "acme.example", "k" * 300])
def test_letters_and_digits_with_separators_inside_are_a_name(part: str, name: str) -> None:
    CHECKS[part](name)


@pytest.mark.parametrize(
    ("part", "name", "rule"),
    [
        ("vendor", "", "vendor-empty"),
        ("vendor", "9a", "vendor-first-char"),
        ("vendor", "-a", "vendor-first-char"),
        ("class", "a-", "class-last-char"),
        ("class", "a:b", "class-char"),
        ("device", ":0", "device-first-char"),
        ("device", "0\n", "device-last-char"),
        ("device", "a b!", "device-char"),
        ("device", "w\u00b2", "device-char"),  # a superscript is a digit to str.isdigit
        ("device", "\u0663", "device-first-char"),  # an Arabic digit, too
        ("vendor", "acme\u212a", "vendor-char"),  # the Kelvin sign becomes a k in lower case
        ("vendor", "acme\udcc3", "vendor-last-char"),  # a byte that is no UTF-8
        ("vendor", "a\udcffb", "vendor-char"),
    ],
)
def test_the_first_broken_rule_is_named_with_the_part(part: str, name: str, rule: str) -> None:
    with pytest.raises(BadName, match=part) as refused:
        CHECKS[part](name)
    assert refused.value.rule == rule


def test_a_device_may_start_with_a_digit_and_hold_colons() -> None:
    names.check_device("0000:3b:00.0")


def test_a_message_quotes_a_long_name_in_part_only() -> None:
    with pytest.raises(BadName) as refused:
        names.check_device("x" * 100_000 + "!")
    assert len(str(refused.value)) < 250
    assert str(refused.value).endswith("but must end in a letter or digit")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("acme.example/gpu=0", ("acme.example", "gpu", "0")),
        ("a/b=c=d", ("a", "b", "c=d")),
        ("a/b/c=d", ("a", "b/c", "d")),
        ("/a/b=c", ("", "", "/a/b=c")),
        ("a=b/c", ("", "", "a=b/c")),
        ("a/b=", ("", "", "a/b=")),
        ("a/=c", ("", "", "a/=c")),
        ("", ("", "", "")),
    ],
)
def test_a_qualified_name_is_cut_at_the_first_signs_or_not_at_all(name: str, parts: tuple[str, str, str]) -> None:
    assert names.split_qualified(name) == parts


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("gpu0", "missing-vendor"),
        ("/dev/null", "missing-vendor"),
        ("a/b=c=d", "device-char"),
        ("a/b/c=d", "class-char"),
        ("9a/b=c", "vendor-first-char"),
    ],
)
def test_a_bad_qualified_name_is_quoted_with_the_rule_of_its_part(name: str, rule: str) -> None:
    with pytest.raises(BadName, match="is not a qualified name") as refused:
        names.parse_qualified(name)
    assert refused.value.rule == rule
    assert repr(name) in str(refused.value)


def test_a_spec_is_named_after_its_kind() -> None:
    assert names.spec_name_for_kind("acme.example/gpu") == "acme.example-gpu"
    assert names.transient_spec_name_for_kind("acme.example/gpu", "pod/7") == "acme.example-gpu_pod_7"
    with pytest.raises(BadName, match="VENDOR/CLASS"):
        names.spec_name_for_kind("gpu")


INNER = string.ascii_letters + string.digits + "_-."
KINDS = st.from_regex(r"[a-zA-Z](?:[a-zA-Z0-9_.-]*[a-zA-Z0-9])?", fullmatch=True)
DEVICES = st.from_regex(r"[a-zA-Z0-9](?:[a-zA-Z0-9_.:-]*[a-zA-Z0-9])?", fullmatch=True)


@given(KINDS, KINDS, DEVICES)
def test_what_is_composed_of_good_parts_comes_apart_again(vendor: str, klass: str, device: str) -> None:
    assert names.parse_qualified(names.compose(vendor, klass, device)) == (vendor, klass, device)
    assert names.split_kind(f"{vendor}/{klass}") == (vendor, klass)


@given(st.text(), st.sampled_from(sorted(CHECKS)))
def test_a_name_that_is_taken_has_only_the_letters_of_the_rule(text: str, part: str) -> None:
    try:
        CHECKS[part](text)
    except BadName as bad:
        assert bad.rule.startswith(part)
    else:
        assert set(text) <= set(INNER + ":")
        assert text[0] in string.ascii_letters + string.digits
        assert text[-1] in string.ascii_letters + string.digits


@given(st.text())
def test_splitting_loses_nothing(text: str) -> None:
    vendor, klass, device = names.split_qualified(text)
    assert text == (names.compose(vendor, klass, device) if vendor else device)
