"""Names become a plan; device nodes are completed from the host."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.cdi.specs import document, put

from shim.base.findings import CdiError
from shim.base.nearest import distance
from shim.cdi import directories, edits, plan, unresolved
from shim.host.fakenodes import FakeNodes

if TYPE_CHECKING:
    from shim.cdi.directories import Directories

Json = dict[str, Any]
G0, G1 = "acme.example/gpu=0", "acme.example/gpu=1"


def _found(tmp_path: Path, devices: dict[str, Json], spec_edits: Json | None = None) -> Directories:
    (tmp_path / "a.json").write_text(json.dumps(document(devices, spec_edits)))
    return directories.read([str(tmp_path)])


def test_spec_level_edits_come_once_before_the_first_device_of_their_file(tmp_path: Path) -> None:
    found = _found(tmp_path, {"0": {"env": ["A=0"]}, "1": {"env": ["A=1"]}}, {"env": ["S=1"]})
    made = plan.make([G1, G0, G1], found)
    assert made.devices == [G1, G0, G1]
    assert [origin["device"] for origin in made.origins] == [None, "1", "0", "1"]
    assert {origin["spec"] for origin in made.origins} == {f"{tmp_path}/a.json"}


def test_a_file_without_spec_level_edits_has_no_origin_for_them(tmp_path: Path) -> None:
    put(tmp_path / "a.json", "0")
    made = plan.make([G0], directories.read([str(tmp_path)]))
    assert made.to_json() == {
        "devices": [G0],
        "origins": [{"spec": f"{tmp_path}/a.json", "device": "0", "edits": {"env": ["FROM=x"]}}],
        "findings": [],
    }


def test_no_name_makes_an_empty_plan(tmp_path: Path) -> None:
    assert plan.make([], directories.read([str(tmp_path)])).to_json() == {"devices": [], "origins": [], "findings": []}


HOST = FakeNodes(
    {
        "/dev/c": ("c", 195, 7, 0o660),
        "/dev/b": ("b", 8, 1, 0o600),
        "/dev/p": ("p", 0, 0, 0o640),
        "/dev/dir": ("", 0, 0, 0o755),
    }
)
C = {"type": "c", "major": 195, "minor": 7, "fileMode": 0o660}

# what it is, the node of the spec, by "spec", by "disk"; a text is the rule of the error, "stale" marks a finding
FULL = {"type": "c", "major": 1}
P = {"type": "p", "fileMode": 0o640}

# What it is, the node of the spec without its path, its path, by "spec", by "disk" (None: the same), of which "disk"
# warns. A text in place of a node is the rule of the error.
NODES: list[tuple[str, Json, str, Json | str, Json | str | None, str]] = [
    ("only a path", {}, "/dev/c", C, None, ""),
    ("the host path counts", {"hostPath": "/dev/c"}, "/dev/x", C, None, ""),
    ("a mode that is given stays, 0 too", {"fileMode": 0}, "/dev/c", {**C, "fileMode": 0}, None, ""),
    ("a pipe has no numbers", {}, "/dev/p", P, None, ""),
    ("an absent node with all given", FULL, "/dev/no", FULL, None, "NODE_PHANTOM"),
    ("an absent node without type", {"major": 1}, "/dev/no", "node-stat", None, ""),
    ("an absent pipe", {"type": "p"}, "/dev/no", {"type": "p"}, None, ""),
    ("a directory", {}, "/dev/dir", "node-not-a-device", None, ""),
    ("a directory, all given", FULL, "/dev/dir", FULL, None, "NODE_PHANTOM"),
    ("another type", {"type": "b"}, "/dev/c", "node-type-mismatch", None, ""),
    ("type u on a character device", {"type": "u"}, "/dev/c", "node-type-mismatch", C, ""),
    ("other numbers", {**FULL, "minor": 8}, "/dev/c", {**FULL, "minor": 8, "fileMode": 0o660}, C, "DEVNUM_STALE"),
    ("the same major without minor", {"type": "c", "major": 195}, "/dev/c", {**C, "minor": None}, C, "DEVNUM_STALE"),
    ("the same numbers", C, "/dev/c", C, None, ""),
    ("numbers without type", {"major": 9, "minor": 8}, "/dev/c", {**C, "major": 9, "minor": 8}, C, "DEVNUM_STALE"),
    ("major 0 is no major", {"type": "c", "major": 0, "minor": 5}, "/dev/c", C, None, ""),
    (
        "all given, another type",
        {"type": "b", "major": 9},
        "/dev/c",
        {"type": "b", "major": 9, "fileMode": 0o660},
        "node-type-mismatch",
        "",
    ),
    ("a negative major", {"type": "c", "major": -1}, "/dev/no", "node-negative-number", None, ""),
    ("a negative minor", {**FULL, "minor": -1}, "/dev/no", "node-negative-number", None, ""),
]


@pytest.mark.parametrize("numbers", ["spec", "disk"])
@pytest.mark.parametrize(
    ("given", "path", "by_spec", "by_disk", "warning"), [row[1:] for row in NODES], ids=[row[0] for row in NODES]
)
def test_nodes(
    given: Json, path: str, by_spec: Json | str, by_disk: Json | str | None, warning: str, numbers: Any, tmp_path: Path
) -> None:
    node = {"path": path, **given}
    found = _found(tmp_path, {"0": {"deviceNodes": [node]}})
    served = found.get(G0)
    assert served is not None
    before = copy.deepcopy(served[0].devices)
    expected = by_disk if numbers == "disk" and by_disk is not None else by_spec
    if isinstance(expected, str):
        with pytest.raises(plan.NodeError) as caught:
            plan.make([G0], found, numbers=numbers, lookup=HOST)
        finding = caught.value.findings[0]
        assert (finding.id, finding.rule, finding.path) == ("NODE_UNUSABLE", expected, f"{tmp_path}/a.json")
        assert caught.value.node == path
        assert path in finding.text
        return
    made = plan.make([G0], found, numbers=numbers, lookup=HOST)
    wanted = {**node, **{member: value for member, value in expected.items() if value is not None}}
    assert made.origins[0]["edits"]["deviceNodes"] == [wanted]
    assert [finding.id for finding in made.findings] == ([warning] if warning and numbers == "disk" else [])
    assert served[0].devices == before, "the spec itself is not filled in"


def test_b2_a_node_that_only_the_spec_has_is_named_with_its_numbers(tmp_path: Path) -> None:
    """It was made from the spec's numbers, which may be another driver's after a reboot, and nothing was said."""
    found = _found(tmp_path, {"0": {"deviceNodes": [{"path": "/dev/no", "type": "c", "major": 240, "minor": 1}]}})
    [warning] = plan.make([G0], found, numbers="disk", lookup=HOST).findings
    assert (warning.id, warning.level, warning.path) == ("NODE_PHANTOM", "WARNING", f"{tmp_path}/a.json")
    assert "/dev/no is not on the host" in warning.text
    assert "c 240:1" in warning.text


def test_a_warning_survives_being_written_down(tmp_path: Path) -> None:
    found = _found(tmp_path, {"0": {"deviceNodes": [{"path": "/dev/c", "type": "c", "major": 9, "minor": 8}]}})
    made = plan.make([G0], found, numbers="disk", lookup=HOST)
    again = plan.Plan.from_json(json.loads(json.dumps(made.to_json())))
    assert again.to_json() == made.to_json()
    assert "9:8" in str(again.findings[0])
    assert "195:7" in str(again.findings[0])
    assert edits.apply(again, {})["linux"]["devices"][0]["major"] == 195


@pytest.mark.parametrize(
    "value", [{}, [], {"devices": [], "origins": [{}], "findings": []}, {"devices": 1, "origins": [], "findings": []}]
)
def test_what_is_no_plan_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not a plan"):
        plan.Plan.from_json(value)


# --- names that nobody serves -------------------------------------------------------------------------------------


def test_unknown_names_are_all_told_in_order_and_nothing_is_resolved(tmp_path: Path) -> None:
    put(tmp_path / "a.json", "0")
    nodes = FakeNodes({})
    with pytest.raises(plan.UnresolvedError) as caught:
        plan.make(["z.z/z=1", G0, "b.b/b=2", "z.z/z=1"], directories.read([str(tmp_path)]), lookup=nodes)
    assert caught.value.names == ["z.z/z=1", "b.b/b=2", "z.z/z=1"]
    assert [finding.id for finding in caught.value.findings] == ["DEVICE_UNKNOWN", "DEVICE_UNKNOWN"]
    assert nodes.asked == []
    assert isinstance(caught.value, CdiError)


def _said(names: list[str], *dirs: Path) -> str:
    with pytest.raises(plan.UnresolvedError) as caught:
        plan.make(names, directories.read([str(path) for path in dirs]))
    text = str(caught.value)
    assert "\n" not in text
    for words in ("no such file or directory", "permission denied", "executable file not found"):
        assert words not in text.lower()
    return text


def test_the_text_names_directories_searched_files_refused_and_near_names(tmp_path: Path) -> None:
    put(tmp_path / "etc/a.json", "gpu0", "gpu1", "all")
    put(tmp_path / "etc/b.json", "x", kind="beta.example/net")
    (tmp_path / "etc/broken.yaml").write_text("cdiVersion: 1.1.0\nkind: [")
    (tmp_path / "file").write_text("")
    said = _said(["acme.example/gpu=gpu2"], tmp_path / "etc", tmp_path / "run", tmp_path / "file")
    assert "acme.example/gpu=gpu2: the specs of acme.example/gpu have no device gpu2" in said
    assert "nearest: acme.example/gpu=gpu0, acme.example/gpu=gpu1, acme.example/gpu=all" in said
    assert f"searched {tmp_path}/etc, {tmp_path}/run (missing), {tmp_path}/file (it is not a directory" in said
    assert f"refused {tmp_path}/etc/broken.yaml:" in said
    assert "beta" not in said


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpu0", ["'gpu0' is not a qualified name", "nearest: acme.example/gpu=gpu0"]),
        ("", ["'' is not a qualified name"]),
        ("acme.example/gpu=", ["is not a qualified name"]),
        ("acme.example/gpu=gpu0 ", ["device 'gpu0 ' ends in ' '", "nearest: acme.example/gpu=gpu0"]),
        ("acme.example/gpu=*", ["device '*' starts with '*'"]),
        ("1acme/gpu=gpu0", ["vendor '1acme' starts with '1'"]),
        ("acme.example/g/x=gpu0", ["class 'g/x' contains '/'"]),
        ("acme.exmaple/gpu=gpu0", ["no usable spec is of the kind acme.exmaple/gpu", "nearest: acme.example/gpu=gpu0"]),
        ("Acme.example/gpu=gpu0", ["no usable spec is of the kind Acme.example/gpu", "nearest: acme.example/gpu=gpu0"]),
    ],
)
def test_the_part_of_a_name_that_is_wrong_is_named(name: str, parts: list[str], tmp_path: Path) -> None:
    put(tmp_path / "a.json", "gpu0", "gpu1")
    said = _said([name], tmp_path)
    for part in parts:
        assert part in said


def test_a_conflict_names_the_files(tmp_path: Path) -> None:
    put(tmp_path / "a.json", "0")
    put(tmp_path / "b.json", "0")
    assert f"{G0} is defined by {tmp_path}/a.json and by {tmp_path}/b.json, so none" in _said([G0], tmp_path)


def test_b23_devices_in_conflict_are_one_finding_for_the_files_that_define_them(tmp_path: Path) -> None:
    """Two generations of the spec of 8 GPUs, all asked for: each of the eight had a finding with both paths."""
    names = [str(number) for number in range(8)]
    put(tmp_path / "a.json", *names)
    put(tmp_path / "b.json", *names)
    put(tmp_path / "c.json", "8")
    put(tmp_path / "d.json", "8")
    asked = [f"acme.example/gpu={name}" for name in (*names, "8", "9")]
    with pytest.raises(plan.UnresolvedError) as caught:
        plan.make(asked, directories.read([str(tmp_path)]))
    files = f"{tmp_path}/a.json and by {tmp_path}/b.json"
    assert [(finding.id, finding.text.partition(", so")[0]) for finding in caught.value.findings] == [
        ("SPEC_CONFLICT", f"devices {', '.join(asked[:3])} and 5 more are defined by {files}"),
        ("SPEC_CONFLICT", f"device {asked[8]} is defined by {tmp_path}/c.json and by {tmp_path}/d.json"),
        ("DEVICE_UNKNOWN", caught.value.findings[2].text),
    ]
    assert caught.value.names == asked


def test_a_host_without_any_spec_is_told_so(tmp_path: Path) -> None:
    said = _said([G0], tmp_path / "none")
    assert f"searched {tmp_path}/none (missing)" in said
    assert "nearest" not in said


def test_near_names_are_looked_for_among_so_many_letters_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pod may ask for 128 names, and a host may have 9000 devices: it took 14 seconds to refuse one."""
    put(tmp_path / "a.json", *(f"{'x' * 200}{number}" for number in range(3000)))
    compared: list[int] = []
    plain = distance

    def counted(one: str, other: str) -> int:
        compared.append(len(other))
        return plain(one, other)

    monkeypatch.setattr("shim.cdi.unresolved.distance", counted)
    for count in (1, 128):
        compared.clear()
        said = _said([f"acme.example/gpu={'y' * 200}{number}" for number in range(count)], tmp_path)
        assert "nearest: " in said
        assert 100_000 < sum(compared) <= 200_000


def test_the_text_stays_short_whatever_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "a.json", *(f"device-{number}" for number in range(3000)))
    for number in range(99):
        (tmp_path / f"bad{number}.yaml").write_text("{")
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff\n\x1b.yaml")).write_text("{")
    said = _said([*(f"acme.example/gpu=x{n}" for n in range(100)), "x" * 100000, "\n\0\udcff/=" * 1000], tmp_path)
    assert len(said) < 12000
    assert said.isprintable()
    assert "and 94 more names" in said
    assert "and 92 more files" in said


# --- the driver without a device ---


def _kind(name: str, directory: Path, *devices: str, kind: str = "acme.example/gpu") -> None:
    directory.mkdir(exist_ok=True)
    listed = [{"name": one, "containerEdits": {"env": [f"{name}={one}"]}} for one in devices]
    edits = {"env": [f"{name}=driver"]}
    spec = {"cdiVersion": "0.6.0", "kind": kind, "containerEdits": edits, "devices": listed}
    (directory / f"{name}.json").write_text(json.dumps(spec))


NONE = "acme.example/gpu=none"
DRIVERS: dict[str, tuple[list[str], list[tuple[str, str | None]]]] = {
    "all specs of the kind in the highest directory": ([NONE], [("c", None), ("d", None)]),
    "beside a device of one of them nothing twice": (
        ["acme.example/gpu=2", NONE],
        [("c", None), ("c", "2"), ("d", None)],
    ),
    "a device before it that a lower file serves": (
        ["acme.example/gpu=1", NONE],
        [("a", None), ("a", "1"), ("c", None), ("d", None)],
    ),
    "a kind that has a device of that name": (["other.example/nic=none"], [("e", None), ("e", "none")]),
}


@pytest.mark.parametrize(("names", "origins"), DRIVERS.values(), ids=DRIVERS.keys())
def test_the_driver_of_a_kind_is_what_its_specs_say_for_all_devices(
    tmp_path: Path, names: list[str], origins: list[tuple[str, str | None]]
) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    _kind("a", low, "1")
    _kind("b", low, "5", kind="b.example/x")
    _kind("e", low, "none", kind="other.example/nic")
    _kind("c", high, "2")
    _kind("d", high, "3")
    made = plan.make(names, directories.read([str(low), str(high)]), driver_only=names[-1:])
    assert [(Path(origin["spec"]).stem, origin["device"]) for origin in made.origins] == origins
    assert made.devices == names


def test_the_driver_is_given_only_to_whom_it_is_meant_and_only_if_there_is_one(tmp_path: Path) -> None:
    _kind("a", tmp_path, "1")
    found = directories.read([str(tmp_path)])
    with pytest.raises(plan.UnresolvedError):
        plan.make([NONE], found)
    with pytest.raises(plan.UnresolvedError):
        plan.make(["other.example/nic=none"], found, driver_only=["other.example/nic=none"])


UUID = "GPU-27af7a99-3b2c-4e1d-9c11-0d5f5d8f7a11"
# What is asked for, what is served, what is near
NEAREST: dict[str, tuple[str, list[str], list[str]]] = {
    "a kind that has only all": (
        "management.v.example/gpu=0",
        ["management.v.example/gpu=all", "v.example/gpu=0", "v.example/gpu=1"],
        ["management.v.example/gpu=all", "v.example/gpu=0"],
    ),
    "the beginning of one id": (
        "v.example/gpu=GPU-27af7a99",
        ["v.example/gpu=0", "v.example/gpu=GPU-11111111", f"v.example/gpu={UUID}"],
        [f"v.example/gpu={UUID}", "v.example/gpu=GPU-11111111", "v.example/gpu=0"],
    ),
    "the beginning of two ids": (
        "v.example/gpu=GPU-27af7a9",
        ["v.example/gpu=GPU-27af7a98", "v.example/gpu=GPU-27af7a99"],
        ["v.example/gpu=GPU-27af7a98", "v.example/gpu=GPU-27af7a99"],
    ),
    "a UUID without its prefix, cut short": (
        "v.example/gpu=27af7a99",
        [f"v.example/gpu={n}" for n in range(8)] + ["v.example/gpu=GPU-11111111-3b2c", f"v.example/gpu={UUID}"],
        [f"v.example/gpu={UUID}", "v.example/gpu=2", "v.example/gpu=7"],
    ),
    "a whole UUID without its prefix": (
        f"v.example/gpu={UUID[4:]}",
        [f"v.example/gpu={UUID[:-1]}2", f"v.example/gpu={UUID}"],
        [f"v.example/gpu={UUID}", f"v.example/gpu={UUID[:-1]}2"],
    ),
    "a UUID of a MIG device, cut short": (
        "v.example/gpu=27af7a99",
        ["v.example/gpu=all", f"v.example/gpu=MIG-{UUID[4:]}"],
        [f"v.example/gpu=MIG-{UUID[4:]}", "v.example/gpu=all"],
    ),
    "the prefix of the other": (
        "v.example/gpu=GPU-27af7a99",
        [f"v.example/gpu=MIG-{UUID[4:]}"],
        [f"v.example/gpu=MIG-{UUID[4:]}"],
    ),
    "capital letters": (
        "v.example/gpu=27AF7A99",
        [f"v.example/gpu={UUID}"],
        [f"v.example/gpu={UUID}"],
    ),
    "a part of a UUID and no kind": (
        "27af7a99",
        ["w.example/gpu=27", f"v.example/gpu={UUID}"],
        [f"v.example/gpu={UUID}", "w.example/gpu=27"],
    ),
    "a part of a UUID of another kind": (
        "management.v.example/gpu=27af7a99",
        ["management.v.example/gpu=all", f"v.example/gpu={UUID}"],
        [f"v.example/gpu={UUID}", "management.v.example/gpu=all"],
    ),
    "a part that many hold": (
        "v.example/gpu=GPU-",
        [f"v.example/gpu=GPU-{n}{n}{n}{n}" for n in range(4)],
        ["v.example/gpu=GPU-0000", "v.example/gpu=GPU-1111", "v.example/gpu=GPU-2222"],
    ),
    "an index that a UUID holds": (
        "v.example/gpu=27a",
        [f"v.example/gpu={UUID}", "v.example/gpu=0"],
        ["v.example/gpu=0"],
    ),
    "an index beside a UUID": ("v.example/gpu=7", [f"v.example/gpu={UUID}", "v.example/gpu=0"], ["v.example/gpu=0"]),
}


@pytest.mark.parametrize(("name", "served", "near"), NEAREST.values(), ids=NEAREST.keys())
def test_b11_what_is_offered_is_what_was_meant(name: str, served: list[str], near: list[str]) -> None:
    """A kind with `all` alone hid the device of another kind; an id cut short came last; an index was near a UUID.

    A UUID without `GPU-` was as far from all of them.
    """
    assert unresolved.nearest(name, served) == near
