"""node.toml: its keys, and every fault of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.node import settings
from shim.node.settings import Resource, Settings

TOP = Path(__file__).parents[3]


def test_without_a_file_every_kind_is_a_resource(tmp_path: Path) -> None:
    read = settings.read(str(tmp_path / "node.toml"))
    assert read == Settings()
    assert read.of_kind("vendor.com/gpu") == [Resource("vendor.com/gpu", "vendor.com/gpu")]


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(CdiError) as refused:
        settings.read(str(tmp_path / "node.toml"), is_named=True)
    assert refused.value.findings[0].id == "NODE_CONFIG"


WHOLE = """
kinds = ["nvidia.com/*"]
form = "cdi"
subject = "pods"
control-nodes = ["/dev/acme_ctl"]
[[resource]]
kind = "vendor.com/gpu"
name = "vendor.com/gpu.shared"
devices = ["a*"]
except = ["ab"]
replicas = 4
several-replicas = true
allocation = "packed"
[[resource]]
kind = "vendor.com/gpu"
"""


def test_every_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(WHOLE)
    read = settings.read(str(path))
    shared = Resource("vendor.com/gpu", "vendor.com/gpu.shared", ("a*",), ("ab",), 4, True, "packed")
    whole = Resource("vendor.com/gpu", "vendor.com/gpu")
    assert (read.path, read.form, read.subject, read.resources) == (str(path), "cdi", "pods", (shared, whole))
    assert {"/dev/acme_ctl", "/dev/kfd"} <= read.control_nodes
    assert read.of_kind("vendor.com/gpu") == [shared, whole]
    assert read.of_kind("nvidia.com/gpu") == [Resource("nvidia.com/gpu", "nvidia.com/gpu")]
    assert read.of_kind("amd.com/gpu") == []


def test_the_example_of_the_documents_is_valid_and_has_every_key() -> None:
    text = (TOP / "docs/configuration.md").read_text().partition("## The node's file")[2]
    example = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    read = settings.parse("\n".join(line[4:] for line in example.splitlines()))
    assert read.resources[0].replicas == 4
    keys = {*settings._KEYS, *settings._RESOURCE_KEYS}
    assert keys == set(re.findall(r"^    ([a-z-]+) =", text, re.MULTILINE))
    assert [node for node in settings.CONTROL_NODES if f"`{node}`" not in text] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kinds = [", "it is not valid TOML"),
        ("kind = []", "kind means nothing here; the nearest is kinds"),
        ("kinds = 'a'", "kinds must be a list of texts"),
        ("form = 'both'", "form must be one of auto, cdi, annotation"),
        ("subject = 'a b'", "subject must be the name of a subject"),
        ("control-nodes = ['kfd']", "control-nodes must be a list of absolute paths"),
        ("resource = 1", "resource must be written as [[resource]]"),
        ("[[resource]]", "resource[0] has no kind"),
        ("[[resource]]\nkind = 'gpu'", "resource[0].kind must be VENDOR/CLASS"),
        ("[[resource]]\nkind = 'a.b/c'\nname = 7", "resource[0].name must be a text"),
        ("[[resource]]\nkind = 'a.b/c'\nreplicas = 0", "resource[0].replicas must be a number from 1 to 1000"),
        ("[[resource]]\nkind = 'a.b/c'\nreplicas = true", "resource[0].replicas must be a number"),
        (
            "[[resource]]\nkind = 'a.b/c'\nreplika = 2",
            "resource[0].replika means nothing here; the nearest is replicas",
        ),
        ("[[resource]]\nkind = 'a.b/c'\nseveral-replicas = 1", "several-replicas must be true or false"),
        ("[[resource]]\nkind = 'a.b/c'\nallocation = 'x'", "allocation must be one of spread, packed"),
        ("[[resource]]\nkind = 'A_b/c'", "'A_b/c' is no name of a resource: its domain must be lower-case"),
        ("[[resource]]\nkind = 'a.b/c'\n[[resource]]\nkind = 'a.b/c'", "two resources have the name a.b/c"),
    ],
)
def test_a_fault_is_reported_with_what_is_taken(text: str, fault: str) -> None:
    with pytest.raises(CdiError) as refused:
        settings.parse(text, "/etc/shim/node.toml")
    (finding,) = refused.value.findings
    assert finding.id == "NODE_CONFIG"
    assert fault in finding.text


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(CdiError) as refused:
        settings.parse("a = 1\nform = 2\n[[resource]]\nkind = 3\nreplicas = 0")
    assert len(refused.value.findings) == 4


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("nvidia.com/gpu", True),
        ("drm/gpu", True),
        ("vendor.com/mig-1g.5gb", True),
        ("vendor.com/A_b", True),
        ("gpu", False),
        ("Vendor.com/gpu", False),
        ("vendor_x.com/gpu", False),
        ("vendor.com/", False),
        ("vendor.com/gpu-", False),
        ("kubernetes.io/gpu", False),
        ("x.kubernetes.io/gpu", False),
        ("requests.vendor.com/gpu", False),
        (f"vendor.com/{'a' * 64}", False),
        (f"{'a' * 245}/gpu", False),
    ],
)
def test_names_of_resources_are_those_of_kubernetes(name: str, valid: bool) -> None:
    assert (settings.name_objection(name) == "") is valid
