"""The specs that are expected for fake hosts, in real containers: each node, mount, variable and link is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from engines.harness.published import every_edits, publish
from engines.harness.runtimes import Bundle, Runtime, RuntimeName
from engines.harness.sandbox import Sandbox
from unit.discover.golden_hosts import HOOK, HOSTS, golden

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module", params=["runc"])
def low_level(request: pytest.FixtureRequest) -> RuntimeName:
    """runc alone: what crun makes of specs other tests show."""
    chosen: RuntimeName = request.param
    return chosen


@pytest.mark.parametrize("name", HOSTS)
def test_a_container_has_all_that_the_golden_specs_have(
    runtime: Runtime, sandbox: Sandbox, shim: Path, name: str
) -> None:
    top = sandbox.scratch / "host" / f"golden-{name}"
    top.mkdir()
    HOSTS[name].build(top)
    documents = golden(name)
    asked, script, expected = [], ["echo started"], ["started"]
    for document in documents:
        device = next((one for one in document["devices"] if one["name"] == "all"), document["devices"][0])
        asked += ["--device", f"{document['kind']}={device['name']}"]
        for line, answer in _checks([document.get("containerEdits", {}), device["containerEdits"]]):
            script.append(line)
            expected.append(answer)
        _replace_hooks(document, str(shim))
        publish(sandbox, document, f"{sandbox.host}/golden-{name}", document["kind"].replace("/", "-"))
    bundle = Bundle(sandbox, f"golden-{name}", "\n".join(script))
    output = runtime("run", *asked, "--bundle", bundle.directory, bundle.id).ok()
    assert output.splitlines() == expected


def _checks(parts: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Commands of a container's shell, each with the line that it prints where it has what edits say."""
    for edits in parts:
        for node in edits.get("deviceNodes", ()):
            yield f"echo {node['path']} $(head -c1 {node['path']} | od -An -tx1)", f"{node['path']} 00"
        for mount in edits.get("mounts", ()):
            yield f"ls -d {mount['containerPath']}", mount["containerPath"]
        for variable in edits.get("env", ()):
            yield f'echo "{variable.partition("=")[0]}=${variable.partition("=")[0]}"', variable
        for hook in edits.get("hooks", ()):
            for target, link in _links(hook["args"]):
                yield f"echo {link} $(readlink {link})", f"{link} {target}"
            if "update-ldcache" in hook["args"]:
                yield "test -s /etc/ld.so.cache && echo cached", "cached"


def _links(arguments: list[str]) -> Iterable[tuple[str, str]]:
    """Target and path of each link that a hook makes."""
    values = (value for option, value in pairwise(arguments) if option == "--link")
    for value in values:
        target, _, path = value.partition("::")
        yield target, path


def _replace_hooks(document: dict[str, Any], launcher: str) -> None:
    for edits in every_edits(document):
        for hook in edits.get("hooks", ()):
            assert hook["path"] == HOOK
            hook["path"] = launcher
