"""What the kernel module shows in /proc and /sys, without NVML."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import hosts

from shim.discover.model import Wish
from shim.discover.nvidia import gpus, pci, proc
from shim.discover.nvidia.options import driver_tree
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
from shim.host.host import Host

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs)\nGCC version:  gcc"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\nGCC version:  gcc"
UNUSED = "GPU-????????-????-????-????-????????????"


def file(path: str, content: str) -> dict[str, object]:
    return {"path": path, "kind": "f", "content": content}


def information(address: str, minor: int, uuid: str, more: str = "") -> dict[str, object]:
    text = f"Model: \t\t NVIDIA A100\nIRQ:   \t\t 28\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n{more}"
    return file(f"/proc/driver/nvidia/gpus/{address}/information", text)


def host_of(top: Path, *entries: dict[str, object]) -> Host:
    hosts.build(list(entries), top)
    return Host(str(top))


@pytest.mark.parametrize(
    ("path", "text", "version"),
    [
        ("/proc/driver/nvidia/version", OPEN, "570.86.10"),
        ("/proc/driver/nvidia/version", CLOSED, "535.54.03"),
        ("/proc/driver/nvidia/version", "something else", ""),
        ("/sys/module/nvidia/version", "535.1\n", "535.1"),
        ("/sys/module/nvidia/version", "unknown\n", ""),
    ],
)
def test_the_version_is_that_of_the_kernel_module(tmp_path: Path, path: str, text: str, version: str) -> None:
    assert proc.driver_version(host_of(tmp_path, file(path, text))) == version


def test_gpus_are_counted_by_pci_address(tmp_path: Path) -> None:
    host = host_of(
        tmp_path,
        file("/proc/driver/nvidia/version", OPEN),
        information("10000:01:00.0", 0, "GPU-c"),
        information("0000:b1:00.0", 1, UNUSED),
        information("0000:3b:00.0", 5, "GPU-a"),
        information("0000:3c:00.0", 6, "GPU-x", "GPU Excluded:\t Yes\n"),
        file("/sys/bus/pci/devices/0000:b1:00.0/numa_node", "1\n"),
        file("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "-1\n"),
    )
    assert proc.snapshot(host) == Snapshot(
        "570.86.10",
        gpus=(
            Gpu(0, 5, "GPU-a", "0000:3b:00.0", "NVIDIA A100"),
            Gpu(1, 1, "", "0000:b1:00.0", "NVIDIA A100", numa=1),
            Gpu(2, 0, "GPU-c", "10000:01:00.0", "NVIDIA A100"),
        ),
        source="proc",
    )


def test_mig_devices_are_pairs_of_instances(tmp_path: Path) -> None:
    """mig-minors lists what could exist; what exists has a directory."""
    top = "/proc/driver/nvidia/capabilities/gpu3/mig"
    host = host_of(
        tmp_path,
        information("0000:3b:00.0", 3, "GPU-a"),
        file(f"{top}/config", "DeviceFileMinor: 1\n"),
        file(f"{top}/gi2/access", "DeviceFileMinor: 402\nDeviceFileMode: 256\n"),
        file(f"{top}/gi2/ci1/access", "DeviceFileMinor: 404\n"),
        file(f"{top}/gi10/access", "DeviceFileMinor: 410\n"),
        file(
            "/proc/driver/nvidia-caps/mig-minors", "config 1\n\nbad line\ngpu3/gi2/access 402\ngpu3/gi9/ci0/access 9\n"
        ),
    )
    (gpu,) = proc.snapshot(host).gpus
    assert (gpu.mig_enabled, gpu.mig) == (True, (Mig(-1, gi=2, ci=1),))
    assert proc.capabilities(host) == {(3, 2, -1): 402, (3, 2, 1): 404, (3, 10, -1): 410, (3, 9, 0): 9}


def test_names_that_proc_does_not_know_are_reported(tmp_path: Path) -> None:
    top = "/proc/driver/nvidia/capabilities/gpu3/mig"
    mig = [file(f"{top}/gi2/{name}access", "DeviceFileMinor: 4\n") for name in ("", "ci1/")]
    host = host_of(tmp_path, information("0000:3b:00.0", 3, "GPU-a"), information("0000:3c:00.0", 4, UNUSED), *mig)
    snapshot = gpus.take(host, driver_tree(host, Wish("/x")), Wish("/x"))
    assert [finding.id for finding in snapshot.errors] == ["DISCOVERY_PART"] * 3
    assert "the UUID of GPU 1 is not known" in snapshot.errors[1].text
    assert "named by their instances (0:gi2:ci1)" in snapshot.errors[2].text


def test_a_host_without_the_driver_has_no_source(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    snapshot = gpus.take(host, driver_tree(host, Wish("/x")), Wish("/x"))
    assert not snapshot.is_loaded
    assert [finding.id for finding in snapshot.errors] == ["DISCOVERY_PART"]
    assert "there is no libnvidia-ml.so.1" in snapshot.errors[0].text


@pytest.mark.parametrize(
    ("written", "kernel"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0000:01:00.0", "0000:01:00.0"),
        ("", ""),
        ("bogus", ""),
    ],
)
def test_addresses_of_nvml_as_the_kernel_writes_them(written: str, kernel: str) -> None:
    assert pci.normal(written) == kernel
