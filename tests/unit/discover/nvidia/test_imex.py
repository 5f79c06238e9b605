"""Mode imex: channels by number, those that have a device node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import hosts

from shim.base.findings import CdiError
from shim.discover import nvidia, vendors
from shim.discover.model import Wish
from shim.discover.nvidia.imex import DIRECTORY
from shim.host.host import Host


def written(top: Path, wish: Wish, root: str = "") -> dict[str, Any]:
    channels: list[dict[str, Any]] = [
        {"path": f"{root}{DIRECTORY}/channel{number}", "kind": "c", "major": 508, "minor": number, "mode": "0666"}
        for number in (0, 7, 2047)
    ]
    others: list[dict[str, Any]] = [
        {"path": f"{root}{DIRECTORY}/channel5", "kind": "l", "target": "channel0"},
        {"path": f"{root}{DIRECTORY}/7", "kind": "c", "major": 508, "minor": 9},
    ]
    hosts.build([*channels, *others], top)
    [(_, document)] = vendors.documents(nvidia.discover(Host(str(top)), wish), wish)
    return document


def names(document: dict[str, Any]) -> list[str]:
    return [device["name"] for device in document["devices"]]


def test_all_channels_are_devices_of_a_class_of_their_own(tmp_path: Path) -> None:
    document = written(tmp_path, Wish("/x", mode="imex"))
    assert document["kind"] == "nvidia.com/imex-channel"
    assert names(document) == ["0", "7", "2047", "all"]
    assert document["devices"][1]["containerEdits"] == {"deviceNodes": [{"path": f"{DIRECTORY}/channel7"}]}
    assert len(document["devices"][3]["containerEdits"]["deviceNodes"]) == 3


def test_channels_are_selected_by_number_and_by_name(tmp_path: Path) -> None:
    document = written(tmp_path, Wish("/x", mode="imex", devices=("7", "channel0"), dev_root="/nodes"), "/nodes")
    assert names(document) == ["0", "7", "all"]
    assert document["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": f"{DIRECTORY}/channel0", "hostPath": f"/nodes{DIRECTORY}/channel0"}
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("1048576", "have the numbers 0 to 1048575"),
        ("channel1048576", "have the numbers 0 to 1048575"),
        ("1048575", "no such device of nvidia.com/imex-channel"),
        ("007", "no such device of nvidia.com/imex-channel"),
    ],
)
def test_a_channel_that_is_not_there_is_refused(word: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CdiError, match=f"--device {word}: .*{message}"):
        written(tmp_path, Wish("/x", mode="imex", devices=(word,)))


@pytest.mark.parametrize(
    ("devices", "remedy"),
    [
        ("Character devices:\n508 nvidia-caps-imex-channels\n", f"mknod {DIRECTORY}/channel0 c 508 0"),
        ("Character devices:\n195 nvidia\n", "modprobe nvidia NVreg_CreateImexChannel0=1"),
    ],
)
def test_without_channels_the_remedy_knows_whether_the_driver_has_them(
    devices: str, remedy: str, tmp_path: Path
) -> None:
    hosts.build([{"path": "/proc/devices", "kind": "f", "content": devices}], tmp_path)
    discovery = nvidia.discover(Host(str(tmp_path)), Wish("/x", mode="imex"))
    [finding] = discovery.findings
    assert (discovery.drafts, finding.id) == ((), "DISCOVERY_INCOMPLETE")
    assert f"no device node {DIRECTORY}/channelN" in finding.text
    assert remedy in finding.remedy
