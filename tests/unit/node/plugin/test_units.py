"""Which device names are units: one for each piece of hardware."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from shim.cdi import directories
from shim.cdi.spec import parse
from shim.grants import overlap
from shim.node.plugin import units
from shim.node.settings import CONTROL_NODES, Resource, Settings

UUID = "GPU-fef8089b-4820-abfc-e83e-94318197576e"
KIND = "vendor.com/gpu"
TEGRA = ("/dev/nvmap", "/dev/nvhost-ctrl", "/dev/nvhost-gpu")
VECTORS = Path(__file__).parents[3] / "conformance/vectors"


class Nodes:
    """A host without any node: hardware is told apart by its paths."""

    def stat(self, path: str, /) -> Any:
        raise FileNotFoundError(path)

    lstat = readlink = stat

    def getxattr(self, path: str, name: str, /) -> bytes:
        raise FileNotFoundError(path, name)


def served(**kinds: dict[str, list[str]]) -> directories.Directories:
    found = directories.Directories(("/etc/cdi",))
    specs = []
    for name, devices in kinds.items():
        lines = ["cdiVersion: 0.6.0", f"kind: vendor.com/{name}", "devices:"]
        for device, nodes in devices.items():
            listed = ", ".join(f"{{path: {node}}}" for node in nodes)
            edits = f"deviceNodes: [{listed}]" if nodes else "env: [A=1]"
            lines.append(f'- {{name: "{device}", containerEdits: {{{edits}}}}}')
        specs.append(parse("\n".join(lines).encode(), f"/etc/cdi/{name}.yaml", 0))
    found.add(specs)
    return found


def choose(
    names: dict[str, list[str]], settings: Settings | None = None, **resource: Any
) -> tuple[list[str], dict[str, str]]:
    wanted = Resource(KIND, KIND, **resource)
    chosen, left_out = units.choose(wanted, served(gpu=names), settings or Settings(), units.Sharing(), Nodes())
    return [unit.device for unit in chosen], left_out


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param({"0": ["/dev/a"], "1": ["/dev/b"]}, ["0", "1"], id="each a unit"),
        pytest.param({str(n): [f"/dev/a{n}"] for n in (10, 9, 1)}, ["1", "9", "10"], id="natural order"),
        pytest.param({"0": ["/dev/a"], UUID: ["/dev/a"]}, [UUID], id="a UUID before an index"),
        pytest.param({"0": ["/dev/a"], "0000-03-00-0": ["/dev/a"]}, ["0000-03-00-0"], id="an address before an index"),
        pytest.param({"b": ["/dev/a"], "a": ["/dev/a"]}, ["a"], id="else the first"),
        pytest.param(
            {"0": ["/dev/a"], "1": ["/dev/b"], "pair": ["/dev/a", "/dev/b"]}, ["0", "1"], id="parts, not the whole"
        ),
        pytest.param({"0": ["/dev/a"], "1": ["/dev/b"], "all": ["/dev/a", "/dev/b"]}, ["0", "1"], id="not all"),
        pytest.param({"all": ["/dev/a", "/dev/b"]}, ["all"], id="all, where it is alone"),
        pytest.param({"a": [], "b": [], "all": []}, ["a", "b"], id="without hardware"),
        pytest.param(
            {"0": ["/dev/kfd", "/dev/a"], "1": ["/dev/kfd", "/dev/b"]}, ["0", "1"], id="a control node in common"
        ),
        pytest.param({"0": ["/dev/kfd"], "1": ["/dev/kfd"]}, ["0"], id="nothing but a control node"),
        pytest.param({"0": ["/dev/ctl", "/dev/a"], "1": ["/dev/ctl", "/dev/b"]}, ["0"], id="an unknown common node"),
        pytest.param(
            {n: ["/dev/nvidia0", f"/dev/nvidia-caps/nvidia-cap{n}"] for n in ("1", "2")}, ["1", "2"], id="partitions"
        ),
    ],
)
def test_units_are_chosen_by_hardware(devices: dict[str, list[str]], expected: list[str]) -> None:
    chosen, left_out = choose(devices)
    assert chosen == expected
    assert left_out.keys() == devices.keys() - set(expected)


def test_control_nodes_are_configured() -> None:
    devices = {"0": ["/dev/ctl", "/dev/a"], "1": ["/dev/ctl", "/dev/b"]}
    assert choose(devices, Settings(control_nodes=frozenset({"/dev/ctl"})))[0] == ["0", "1"]


def test_patterns_choose_among_names() -> None:
    devices = {"0": ["/dev/a"], UUID: ["/dev/a"], "1": ["/dev/b"]}
    assert choose(devices, devices=("?",)) == (
        ["0", "1"],
        {UUID: "`devices` of the resource has no pattern for it (?)"},
    )
    chosen, left_out = choose(devices, without=("GPU-*", "1"))
    assert (chosen, left_out["1"]) == (["0"], "`except` of the resource has '1'")


def _specs() -> list[dict[str, Any]]:
    """Every spec that the vectors of the generators expect."""
    found: list[dict[str, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict) and {"cdiVersion", "kind", "devices"} <= value.keys():
            found.append(value)
        elif isinstance(value, (dict, list)):
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)

    for path in sorted(VECTORS.glob("generate-*.json")):
        walk(json.loads(path.read_text().replace("{HOOK}", "/usr/bin/hook").replace("{DEVROOT}", "")))
    return found


def test_units_of_all_known_specs_are_disjoint_and_cover_the_hardware() -> None:
    specs = _specs()
    assert {spec["kind"].partition("/")[0] for spec in specs} >= {"nvidia.com", "amd.com", "intel.com"}
    for document in specs:
        spec = parse(json.dumps(document).encode(), "/etc/cdi/a.json", 0)
        every = directories.Directories(("/etc/cdi",))
        every.add([spec])
        # a Tegra system with a second GPU has the nodes of its own one in each device
        settings = Settings(control_nodes=frozenset({*CONTROL_NODES, *TEGRA}))
        chosen, left_out = units.choose(Resource(spec.kind, "a.b/c"), every, settings, units.Sharing(), Nodes())
        assert {unit.device for unit in chosen} | left_out.keys() == set(spec.devices)
        for one, other in combinations(chosen, 2):
            common = {item for item in one.hardware & other.hardware if item.startswith("/")}
            assert common <= settings.control_nodes or not overlap.is_shared(one.hardware, other.hardware)
        hardware = frozenset().union(*(overlap.of_edits(edits, Nodes()) for edits in spec.devices.values()))
        assert hardware == frozenset().union(*(unit.hardware for unit in chosen))


def test_two_resources_never_have_the_same_hardware() -> None:
    every, taken = served(gpu={"0": ["/dev/a"], "1": ["/dev/b"], "x": []}, card={"0": ["/dev/a"]}), units.Sharing()
    first, _ = units.choose(Resource(KIND, "vendor.com/one", devices=("0", "x")), every, Settings(), taken, Nodes())
    second, left_out = units.choose(Resource(KIND, "vendor.com/two"), every, Settings(), taken, Nodes())
    third, other = units.choose(Resource("vendor.com/card", "vendor.com/card"), every, Settings(), taken, Nodes())
    assert [[unit.name for unit in chosen] for chosen in (first, second, third)] == [
        ["vendor.com/gpu=0", "vendor.com/gpu=x"],
        ["vendor.com/gpu=1"],
        [],
    ]
    assert left_out == {"0": "another resource has it", "x": "another resource has it"}
    assert "hardware of vendor.com/gpu=0" in other["0"]
