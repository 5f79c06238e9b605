"""What `shim cdi generate --for podman=VERSION` writes is read by that podman's own CDI, which refuses it otherwise.

podman 4.3 drops a whole spec for a member that it does not know. Its runtime here is not shim, so that no other reader
of specs takes part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.harness.podman import Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

NODE = "/dev/kmsg"  # which every host has and no container; the sandbox puts a node of its own over it
OWN = "/run/shim-tests-generated"
RULE = f'[[device]]\nkind = "vendor.test/node"\nmatch = "{NODE}"\nnames = ["0"]\nall = false\n'
SPEC = "/var/run/cdi/shim-vendor.test-node.yaml"
VIDEO = "44"


def _generate(sandbox: Sandbox, shim: Path, *words: str) -> dict[str, Any]:
    """Generate the spec of the node; the report."""
    options = ("--vendor", "rules", "--rules-dir", f"{sandbox.host}/rules", "--allow-shrink", "-o", "json")
    report: dict[str, Any] = json.loads(sandbox.run(shim, "cdi", "generate", *options, *words).out)
    assert report["specs"], report
    assert report["specs"][0]["state"] == "written", report
    return report


@pytest.fixture
def node(sandbox: Sandbox) -> Iterator[str]:
    """A node with the numbers of /dev/zero, closed to others than its group, and a rule for it."""
    rules = sandbox.scratch / "host/rules"
    rules.mkdir()
    (rules / "node.toml").write_text(RULE, encoding="utf-8")
    sandbox.run("mknod", "-m", "660", OWN, "c", "1", "5").ok()
    sandbox.run("chgrp", VIDEO, OWN).ok()
    sandbox.run("mount", "--bind", OWN, NODE).ok()
    yield NODE
    sandbox.run("umount", NODE).ok()
    sandbox.run("rm", "-rf", OWN, SPEC, "/var/lib/shim/generated", rules).ok()


def test_podman_reads_what_is_written_for_it(
    rootful: Podman, sandbox: Sandbox, shim: Path, low_level: RuntimeName, node: str
) -> None:
    version = rootful("version", "--format", "{{.Client.Version}}").ok().strip()
    assert version.startswith("4.3")
    options = ("--rm", "--device=vendor.test/node=0")
    script = f"head -c1 {node} | od -An -tx1"
    report = _generate(sandbox, shim)
    assert (report["specs"][0]["cdiVersion"], report["findings"]) == ("0.7.0", [])
    refused = rootful.run(*options, script=script, runtime=low_level)
    assert refused.status != 0
    assert "unresolvable CDI devices" in refused.err
    report = _generate(sandbox, shim, "--for", f"podman={version}")
    assert report["specs"], report
    assert report["specs"][0]["cdiVersion"] == "0.5.0"
    assert [(finding["id"], finding["level"]) for finding in report["findings"]] == [("SPEC_LOWERED", "WARNING")]
    assert rootful.run(*options, script=script, runtime=low_level).ok().split() == ["00"]
    report = _generate(sandbox, shim, "--for", "podman=4.1.1")
    assert report["specs"], report
    assert report["specs"][0]["devices"] == ["vendor.test/node=node0"]
    named = ("--rm", "--device=vendor.test/node=node0")
    assert rootful.run(*named, script=script, runtime=low_level).ok().split() == ["00"]
