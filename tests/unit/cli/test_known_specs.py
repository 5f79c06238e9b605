"""Every spec that the tests know, checked against this host and against engines, and transformed there and back.

They are the texts of the conformance vectors that a reader takes, the specs that the reference's generators write, the
golden specs of fake hosts, and those of the bundles.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from shim.base.findings import CdiError
from shim.cdi import advice, relocate, spec, store, versions
from shim.create.host_rules import HostRules
from shim.create.world import World
from shim.discover import engine_fit, engine_versions, hook_forms
from shim.host.identity import is_rootful

Json = dict[str, Any]

TOP = Path(__file__).parents[3]
VECTORS = TOP / "tests/conformance/vectors"
ENGINES = ("podman=4.1", "podman=4.9.3", "docker=29.2", "cri-o=1.24")


def _documents(value: Any) -> list[Json]:
    """The specs that are anywhere in a plain value."""
    if isinstance(value, dict):
        here = [value] if {"cdiVersion", "kind", "devices"} <= value.keys() else []
        return here + [found for item in value.values() for found in _documents(item)]
    return [found for item in value for found in _documents(item)] if isinstance(value, list) else []


def _texts(name: str) -> list[bytes]:
    if name == "specs":
        cases = json.loads((VECTORS / "specs.json").read_text())["cases"]
        texts = [case["input"].get("text") for case in cases if case["expect"]["accepted"]]
        return [text.encode() for text in texts if isinstance(text, str)]
    if name in {"bundles", "golden"}:
        below = TOP / "bundles" if name == "bundles" else TOP / "tests/unit/discover/golden"
        found = [_documents(list(yaml.safe_load_all(path.read_text()))) for path in sorted(below.rglob("*.yaml"))]
    else:
        found = [_documents(json.loads((VECTORS / f"{name}.json").read_text()))]
    texts = [json.dumps(document) for documents in found for document in documents]
    return [text.replace("{HOOK}", "/usr/bin/nvidia-cdi-hook").encode() for text in texts]


# Source -> how many it has at least
SOURCES = {"specs": 400, "bundles": 3, "golden": 14, "generate-nvidia": 160, "generate-amd": 30, "generate-intel": 14}


@pytest.fixture(scope="module", params=SOURCES)
def known(request: pytest.FixtureRequest) -> list[tuple[bytes, Json]]:
    """Text and document of each valid spec of a source."""
    usable = [text for text in _texts(request.param) if not spec.faults(text)]
    assert len(usable) >= SOURCES[request.param]
    return [(text, spec.parse(text).document) for text in usable]


def test_each_is_judged_by_the_rules_of_this_host_with_lines(known: list[tuple[bytes, Json]]) -> None:
    judge = HostRules(World(), "/bin/sh", rootful=is_rootful(), user=os.geteuid())
    for text, _ in known:
        for finding in advice.warnings(text, "/etc/cdi/x.yaml", judge.objections):
            assert finding.line > 0, finding
            assert finding.path == "/etc/cdi/x.yaml"


@pytest.mark.parametrize("engine", ENGINES)
def test_each_that_is_lowered_for_an_engine_is_read_by_it(known: list[tuple[bytes, Json]], engine: str) -> None:
    limit = engine_versions.highest(engine)
    for text, document in known:
        too_new = [finding for finding in engine_fit.check(text, "x", engine) if finding.id == "SPEC_TOO_NEW"]
        assert all(finding.line for finding in too_new)
        assert bool(too_new) == (versions.rank(document["cdiVersion"]) > versions.rank(limit))
        try:
            lowered, _ = engine_versions.lowered(document, limit, lambda _: ("c", 1, 3, 0o666, 0, 0))
        except CdiError as error:
            assert error.findings[0].id in {"SPEC_LOWERED", "DISCOVERY_NAME"}
            continue
        if lowered["devices"]:
            data = store.encode({**lowered, "cdiVersion": versions.minimum(lowered)})
            found = engine_fit.check(data, "x", engine)
            assert [finding for finding in found if finding.id == "SPEC_TOO_NEW"] == []


def test_the_version_there_and_back_gives_the_same(known: list[tuple[bytes, Json]]) -> None:
    for text, document in known:
        lowest = engine_fit.as_version(text, "x", versions.minimum(document))
        highest = engine_fit.as_version(store.encode(lowest), "x", versions.CURRENT)
        assert highest["cdiVersion"] == versions.CURRENT
        assert engine_fit.as_version(store.encode(highest), "x", document["cdiVersion"].removeprefix("v")) == {
            **document,
            "cdiVersion": document["cdiVersion"].removeprefix("v"),
        }


@pytest.mark.parametrize("relative_to", [relocate.HOST, relocate.CONTAINER])
def test_a_root_there_and_back_gives_the_same(known: list[tuple[bytes, Json]], relative_to: str) -> None:
    """But for a host path that is the container's, which needs not be said, and for paths with `..`."""
    for text, document in known:
        if b".." in text:
            continue
        for edits in relocate.blocks(document):
            for node in edits.get("deviceNodes", ()):
                if node.get("hostPath") == node["path"]:
                    del node["hostPath"]
        there = relocate.moved(document, "/", "/elsewhere/x", relative_to)
        assert relocate.moved(there, "/elsewhere/x", "/", relative_to) == document


def test_hooks_there_and_back_do_the_same(known: list[tuple[bytes, Json]]) -> None:
    for _, document in known:
        ours, _ = hook_forms.to_shim(document, "/usr/local/bin/shim")
        theirs, _ = hook_forms.to_vendor(ours, "/usr/bin/nvidia-cdi-hook")
        again, _ = hook_forms.to_shim(theirs, "/usr/local/bin/shim")
        assert again == ours
        back, _ = hook_forms.to_vendor(again, "/usr/bin/nvidia-cdi-hook")
        assert back == theirs
