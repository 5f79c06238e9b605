"""Which units are taken by exclusive grants of this host."""

from __future__ import annotations

from typing import Any

import pytest

from shim.base.findings import CdiError
from shim.cdi import directories
from shim.cdi.spec import parse
from shim.grants.reader import Grants, unreadable
from shim.node.plugin import exclusive
from shim.node.plugin.units import Unit

SPEC = b"""
cdiVersion: 0.6.0
kind: vendor.com/gpu
devices:
- {name: "0", containerEdits: {deviceNodes: [{path: /dev/gpu0}]}}
- {name: "GPU-a", containerEdits: {deviceNodes: [{path: /dev/gpu0}]}}
- {name: "1", containerEdits: {deviceNodes: [{path: /dev/gpu1}]}}
- {name: all, containerEdits: {deviceNodes: [{path: /dev/gpu0}, {path: /dev/gpu1}]}}
"""


class Look:
    """A host without these nodes."""

    def stat(self, path: str, /) -> Any:
        raise FileNotFoundError(path)

    lstat = readlink = stat

    def getxattr(self, path: str, name: str, /) -> bytes:
        raise FileNotFoundError(path, name)


UNITS = [
    Unit("vendor.com/gpu=0", "0", frozenset({"/dev/gpu0"})),
    Unit("vendor.com/gpu=1", "1", frozenset({"/dev/gpu1"})),
]


def taken(*entries: dict[str, Any], subject: str = "") -> list[str]:
    served = directories.Directories(("/etc/cdi",))
    served.add([parse(SPEC, "/etc/cdi/a.yaml", 0)])
    document = {
        "version": 1,
        "serial": 1,
        "grants": [{"subject": "repo-a", "exclusive": True, **each} for each in entries],
    }
    return sorted(exclusive.taken(UNITS, Grants(document), subject, served, Look()))


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        pytest.param({"device": "vendor.com/gpu=0"}, ["vendor.com/gpu=0"], id="its name"),
        pytest.param({"device": "vendor.com/gpu=GPU-a"}, ["vendor.com/gpu=0"], id="another name of the same hardware"),
        pytest.param({"device": "vendor.com/gpu=all"}, ["vendor.com/gpu=0", "vendor.com/gpu=1"], id="a name of both"),
        pytest.param({"device": "vendor.com/gpu=0", "exclusive": False}, [], id="not exclusive"),
        pytest.param({"device": "vendor.com/gpu=9"}, [], id="a name that no spec has"),
        pytest.param({"device": "vendor.com/gpu=GPU-a", "nameOnly": True}, [], id="by name alone"),
        pytest.param(
            {"device": "vendor.com/gpu=1", "nameOnly": True}, ["vendor.com/gpu=1"], id="by its own name alone"
        ),
    ],
)
def test_an_exclusive_grant_takes_every_name_of_its_hardware(grant: dict[str, Any], expected: list[str]) -> None:
    assert taken(grant) == expected


def test_what_the_pods_have_exclusively_is_theirs() -> None:
    grants = ({"device": "vendor.com/gpu=0", "subject": "pods"}, {"device": "vendor.com/gpu=1"})
    assert taken(*grants, subject="pods") == ["vendor.com/gpu=1"]
    assert taken(*grants) == ["vendor.com/gpu=0", "vendor.com/gpu=1"]


def test_grants_that_cannot_be_read_take_everything() -> None:
    error: CdiError = unreadable("/etc/shim/grants.json", "it is no JSON")
    reasons = exclusive.taken(UNITS, error, "", directories.Directories(()), Look())
    assert list(reasons) == ["vendor.com/gpu=0", "vendor.com/gpu=1"]
    assert "the grants cannot be read: it is no JSON" in reasons["vendor.com/gpu=0"]
