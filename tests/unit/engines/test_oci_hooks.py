"""Directories of OCI hooks."""

from __future__ import annotations

import json

import pytest

from shim.engines import oci_hooks
from shim.host.host import Host


def host(files: dict[str, object]) -> Host:
    texts = {
        path: value.encode() if isinstance(value, str) else json.dumps(value).encode() for path, value in files.items()
    }
    return Host("/nonexistent", texts, daemons=[])


def hook(program: str, *arguments: str, stage: str = "prestart") -> dict[str, object]:
    return {"version": "1.0.0", "hook": {"path": program, "args": list(arguments)}, "stages": [stage]}


def test_a_file_takes_the_place_of_one_of_the_same_name_in_an_earlier_directory() -> None:
    machine = host({"/a/1.json": hook("/x"), "/a/2.json": hook("/y"), "/b/1.json": hook("/z"), "/b/no.txt": "{}"})
    assert [(one.path, one.program) for one in oci_hooks.read(machine, ["/a", "/b"])] == [
        ("/a/2.json", "/y"),
        ("/b/1.json", "/z"),
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hook": 1}', '{"hook": {}}', "[" * 100000])
def test_a_file_that_says_nothing_is_left_out(text: str) -> None:
    assert oci_hooks.read(host({"/a/1.json": text}), ["/a"]) == []


@pytest.mark.parametrize(
    ("file", "is_ours", "is_vendors"),
    [
        (hook("/usr/local/bin/shim", "shim", "hook", "precreate", stage="precreate"), True, False),
        (hook("/usr/local/bin/shim", "shim", "hook", "update-ldcache"), False, False),
        (hook("/usr/bin/nvidia-container-runtime-hook", "nvidia-container-runtime-hook", "prestart"), False, True),
        (hook("/usr/local/nvidia/toolkit/nvidia-container-toolkit", "x", "prestart"), False, True),
        (hook("/usr/libexec/oci/hooks.d/oci-systemd-hook"), False, False),
    ],
)
def test_whose_hook_it_is(file: dict[str, object], is_ours: bool, is_vendors: bool) -> None:
    (found,) = oci_hooks.read(host({"/a/1.json": file}), ["/a"])
    assert (found.is_ours, found.is_vendors) == (is_ours, is_vendors)


def test_our_hook_is_known_again() -> None:
    (found,) = oci_hooks.read(host({"/a/1.json": oci_hooks.precreate("/opt/bin/shim", ["cdi.k8s.io/"])}), ["/a"])
    assert found.is_ours
    assert found.arguments[0] == "shim"


@pytest.mark.parametrize(
    ("prefixes", "pattern", "runs", "does_not"),
    [
        (["cdi.k8s.io/"], "^cdi[.]k8s[.]io/", ["cdi.k8s.io/x"], ["cdi-k8s.io/x", "x/cdi.k8s.io/x"]),
        (
            ["cdi.k8s.io/", "a+b.example/"],
            r"^(cdi[.]k8s[.]io/|a\+b[.]example/)",
            ["cdi.k8s.io/x", "a+b.example/"],
            ["aab.example/"],
        ),
        ([], "^cdi[.]k8s[.]io/", ["cdi.k8s.io/x"], ["x"]),
    ],
)
def test_our_hook_runs_for_every_prefix_of_the_configuration(
    prefixes: list[str], pattern: str, runs: list[str], does_not: list[str]
) -> None:
    """It ran for cdi.k8s.io/ alone: a container that asked by another prefix started without its device."""
    text = oci_hooks.precreate("/opt/bin/shim", prefixes)
    assert json.loads(text)["when"] == {"annotations": {pattern: ".*"}}
    (found,) = oci_hooks.read(host({"/a/1.json": text}), ["/a"])
    assert [found.matches(key) for key in [*runs, *does_not]] == [True] * len(runs) + [False] * len(does_not)
    assert oci_hooks.missing([found], prefixes) == []


def test_a_hook_of_an_earlier_configuration_is_reported() -> None:
    (found,) = oci_hooks.read(host({"/a/1.json": oci_hooks.precreate("/opt/bin/shim", ["cdi.k8s.io/"])}), ["/a"])
    (finding,) = oci_hooks.missing([found], ["cdi.k8s.io/", "v.example/"])
    assert (finding.id, finding.level, finding.path) == ("RUNTIME_ANNOTATIONS", "WARNING", "/a/1.json")
    assert "asks by v.example/… starts without its device" in finding.text
