"""A create in which a key nearly asks, by the installed launcher: the container starts, and the log has the warning."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.create.test_annotation_near import NEAR

NAME = "shim-near"
LINK, LOG = Path("/etc/shim/low-level") / NAME, Path("/var/log/shim.log")


@pytest.fixture(autouse=True)
def _low_level() -> Iterator[None]:
    LINK.parent.mkdir(parents=True, exist_ok=True)
    LINK.symlink_to("/bin/true")
    yield
    LINK.unlink()


def create(launcher: Path, bundle: Path, annotations: dict[str, Any]) -> list[dict[str, Any]]:
    """A create; the lines that it added to the log."""
    before = LOG.read_text() if LOG.exists() else ""
    (bundle / "config.json").write_text(json.dumps({"annotations": annotations, "root": {"path": "rootfs"}}))
    words = [NAME, "--root", "/run/near", "create", "--bundle", str(bundle), "c1"]
    subprocess.run(words, executable=launcher, env={"PATH": os.environ["PATH"]}, check=True, timeout=60)
    after = LOG.read_text() if LOG.exists() else ""
    return [json.loads(line) for line in after.removeprefix(before).splitlines()]


ALONE = {name: case[0] for name, case in NEAR.items() if case[1] and "cdi.k8s.io/x" not in case[0]}


@pytest.mark.rootful
@pytest.mark.parametrize("annotations", ALONE.values(), ids=ALONE.keys())
def test_b14_a_key_that_nearly_asks_was_not_in_the_log(
    launcher: Path, trusted_path: Path, annotations: dict[str, Any]
) -> None:
    """Where nothing else asked, Python was not started, and the container started without its device in silence."""
    (line,) = create(launcher, trusted_path, annotations)
    assert (line["outcome"], line["devices"], line["id"]) == ("unchanged", {}, "c1")
    assert [finding["id"] for finding in line["findings"]] == ["ANNOTATION_NEAR"]
    (key,) = annotations
    assert key in line["findings"][0]["text"]


def test_a_key_without_a_device_in_its_value_leaves_no_line(launcher: Path, trusted_path: Path) -> None:
    assert create(launcher, trusted_path, {"cdi.k8s.io": "on"}) == []
