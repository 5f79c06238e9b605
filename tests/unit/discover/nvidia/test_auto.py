"""Mode auto: WSL, Tegra and ordinary hosts are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conformance import hosts

from shim.discover import nvidia
from shim.discover.model import Discovery, Wish
from shim.discover.nvidia import gpus, native, options, tegra, wsl
from shim.discover.nvidia.snapshot import Gpu, Snapshot
from shim.host.host import Host

RELEASE = {"path": "/etc/nv_tegra_release", "kind": "f", "content": "# R36"}
CHIP = {"path": "/sys/devices/soc0/family", "kind": "f", "content": "Tegra\n"}
OTHER_CHIP = {"path": "/sys/devices/soc0/family", "kind": "f", "content": "Snapdragon\n"}
DXG = {"path": "/dev/dxg", "kind": "c", "major": 10, "minor": 125}
DXCORE = {"path": "/usr/lib/wsl/lib/libdxcore.so", "kind": "elf", "role": "dxcore"}
NO_NVML = Snapshot()
FROM_PROC = Snapshot("570.1", "", (Gpu(0, name="Orin (nvgpu)"),), "proc")
DISCRETE = Snapshot("570.1", "12.8", (Gpu(0, name="NVIDIA H100 80GB HBM3"),), "nvml")
ORIN = Snapshot("570.1", "12.8", (Gpu(0, name="Orin (nvgpu)"),), "nvml")
MIXED = Snapshot("570.1", "12.8", (Gpu(0, name="NVIDIA RTX"), Gpu(1, name="NVIDIA Thor")), "nvml")


@pytest.mark.parametrize(
    ("entries", "snapshot", "mode"),
    [
        ([], NO_NVML, "nvml"),
        ([], ORIN, "nvml"),
        ([OTHER_CHIP], NO_NVML, "nvml"),
        ([RELEASE], NO_NVML, "csv"),
        ([CHIP], NO_NVML, "csv"),
        ([RELEASE], FROM_PROC, "csv"),
        ([RELEASE], ORIN, "csv"),
        ([CHIP], MIXED, "csv"),
        ([RELEASE], DISCRETE, "nvml"),
        ([DXG], NO_NVML, "nvml"),
        ([DXCORE], DISCRETE, "nvml"),
        ([DXG, DXCORE], DISCRETE, "wsl"),
        ([DXG, DXCORE, RELEASE], ORIN, "wsl"),
    ],
)
def test_the_host_decides(
    entries: list[dict[str, Any]], snapshot: Snapshot, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def discover(_: Host, wish: Wish, *given: Snapshot) -> Discovery:
        assert given in ((), (snapshot,))  # NVML is not asked twice
        asked.append(wish.mode)
        return Discovery(options.VENDOR)

    monkeypatch.setattr(gpus, "take", lambda *_: snapshot)
    monkeypatch.setattr(native, "discover", discover)
    monkeypatch.setattr(wsl, "discover", discover)
    monkeypatch.setattr(tegra, "discover_with", discover)
    hosts.build(entries, tmp_path)
    nvidia.discover(Host(str(tmp_path)), Wish("/x"))
    assert asked == [mode]


@pytest.mark.parametrize(("entry", "is_present"), [(RELEASE, True), (CHIP, True), (DXG, True), (OTHER_CHIP, False)])
def test_a_host_without_pci_device_is_known_by_its_platform(
    entry: dict[str, Any], is_present: bool, tmp_path: Path
) -> None:
    hosts.build([entry], tmp_path)
    assert nvidia.is_present(Host(str(tmp_path)), Wish("/x")) is is_present
