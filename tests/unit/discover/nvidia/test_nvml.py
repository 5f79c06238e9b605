"""NVML in a child process: a real library, loaded by the real pynvml, which answers, refuses, hangs and crashes."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.discover.model import Wish
from shim.discover.nvidia import gpus, native, nvml
from shim.discover.nvidia.snapshot import Gpu, Mig, Snapshot
from shim.host.host import Host
from shim.host.tree import Tree

Build = Callable[..., Path]
VERSION = "570.86.10"
WISH = Wish("/usr/bin/nvidia-cdi-hook", mode="nvml")
MIGS = (
    Mig(0, "MIG-00000000-bbbb", 3, 0, "1g.10gb", 9856 << 20),
    Mig(2, "MIG-00000001-bbbb", 4, 1, "1c.2g.20gb+gfx", 20096 << 20),
)
MODEL = "NVIDIA H100 80GB HBM3"
FIRST = Gpu(
    0, 0, "GPU-00000000-aaaa", "0000:17:00.0", MODEL, 80 << 30, mig_enabled=True, mig=MIGS, addressing_mode="ats"
)
SECOND = Gpu(1, 7, "GPU-00000001-aaaa", "10000:27:00.0", MODEL, 80 << 30, addressing_mode="none")


def taken(library: Path) -> Snapshot | nvml.Failure:
    return nvml.take(Host(), Tree(Host(), str(library.parent)), f"/{library.name}")


def failure(library: Path, limit: float = 20) -> nvml.Failure:
    answer = nvml.ask(Host(), str(library), limit)
    assert isinstance(answer, nvml.Failure)
    return answer


def test_a_snapshot_of_two_gpus_and_two_mig_devices(build_nvml: Build) -> None:
    assert taken(build_nvml()) == Snapshot(VERSION, "12.8", (FIRST, SECOND), "nvml")


def test_a_library_without_mig_has_gpus_all_the_same(build_nvml: Build) -> None:
    answer = taken(build_nvml("NO_MIG"))
    assert isinstance(answer, Snapshot)
    assert [(gpu.mig_enabled, gpu.mig, gpu.error) for gpu in answer.gpus] == [(False, (), "")] * 2


@pytest.mark.parametrize(("code", "text"), [(15, "the GPU is lost"), (4, "no permission"), (77, "an unknown error")])
def test_a_gpu_that_fails_leaves_the_other(build_nvml: Build, code: int, text: str) -> None:
    answer = taken(build_nvml(f"LOST={code}"))
    assert isinstance(answer, Snapshot)
    assert answer.gpus[0] == FIRST
    assert f"nvmlDeviceGetMinorNumber: {text}" in answer.gpus[1].error
    assert (answer.gpus[1].uuid, answer.gpus[1].pci_address) == (SECOND.uuid, SECOND.pci_address)


def test_a_mig_device_that_fails_leaves_the_other(build_nvml: Build) -> None:
    answer = taken(build_nvml("MIG_LOST=15"))
    assert isinstance(answer, Snapshot)
    assert answer.gpus[0].mig[0] == MIGS[0]
    assert "nvmlDeviceGetGpuInstanceId: the GPU is lost" in answer.gpus[0].mig[1].error


@pytest.mark.parametrize(
    ("macro", "code", "id"),
    [("INIT=9", 9, "DISCOVERY_PART"), ("INIT=18", 18, "DRIVER_MISMATCH"), ("INIT=999", 999, "DISCOVERY_INCOMPLETE"),
     ("NO_COUNT", 13, "DISCOVERY_INCOMPLETE")],
)  # fmt: skip
def test_nvml_as_a_whole_refuses(build_nvml: Build, macro: str, code: int, id: str) -> None:
    library = build_nvml(macro)
    answer = taken(library)
    assert isinstance(answer, nvml.Failure)
    assert answer.code == code
    assert str(library) in answer.text
    assert nvml.finding(answer).id == id


def test_a_library_that_hangs_is_given_up_at_the_limit(build_nvml: Build) -> None:
    """Its child blocks every signal, as one that waits in the kernel does not see them."""
    began = time.monotonic()
    answer = failure(build_nvml("HANG"), limit=0.5)
    assert time.monotonic() - began < 10
    assert "no answer within 0.5 s" in answer.text
    assert not answer.is_absent
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_library_that_crashes_is_named_with_the_signal(build_nvml: Build) -> None:
    answer = failure(build_nvml("CRASH"))
    assert "it crashed (SIGSEGV)" in answer.text
    assert nvml.finding(answer).id == "DISCOVERY_INCOMPLETE"


def test_what_is_no_library_is_named(build_nvml: Build) -> None:
    library = build_nvml()
    library.write_text("INPUT(libnvidia-ml.so)")
    answer = taken(library)
    assert isinstance(answer, nvml.Failure)
    assert answer.is_absent
    assert f"{library} cannot be loaded: " in answer.text


def test_a_library_of_another_soname_is_not_replaced_by_the_machines(build_nvml: Build) -> None:
    answer = taken(build_nvml(soname="libother.so.1"))
    assert isinstance(answer, nvml.Failure)
    assert "libnvidia-ml.so.1" in answer.text


def test_a_library_that_others_can_write_is_not_loaded(build_nvml: Build) -> None:
    library = build_nvml("CRASH")
    library.chmod(0o777)
    answer = taken(library)
    assert isinstance(answer, nvml.Failure)
    assert f"is not loaded: {library} can be written by everybody" in answer.text


def test_no_library_is_loaded_of_a_machine_below_a_directory(build_nvml: Build) -> None:
    library = build_nvml("CRASH")
    host = Host(str(library.parent))
    answer = nvml.take(host, Tree(host), f"/{library.name}")
    assert answer == nvml.Failure("no library of another machine is loaded", is_absent=True)


def test_specs_of_a_driver_root_with_a_real_library(build_nvml: Build) -> None:
    """From the library to the draft: the GPU whose nodes are there is written, MIG devices without theirs are not."""
    root = build_nvml().parents[2]
    (root / "dev").mkdir()
    for name, minor in (("nvidia7", 7), ("nvidiactl", 255), ("nvidia-uvm", 0)):
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(195, minor))
    discovery = native.discover(Host(), Wish(WISH.hook_path, driver_root=str(root)))
    (draft,) = discovery.drafts
    assert [device.names for device in draft.devices] == [("1", SECOND.uuid)]
    assert [(finding.id, finding.text.split(" is ")[0]) for finding in discovery.findings][:2] == [
        ("DISCOVERY_DEVICE", "MIG device 0:0 (MIG-00000000-bbbb)"),
        ("DISCOVERY_DEVICE", "MIG device 0:2 (MIG-00000001-bbbb)"),
    ]


def test_another_version_of_the_kernel_module_is_refused(build_nvml: Build) -> None:
    library = build_nvml()
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n"
    host = Host(files={"/proc/driver/nvidia/version": version.encode()})
    snapshot = gpus.take(host, Tree(host, str(library.parents[2])), WISH)
    assert [finding.id for finding in snapshot.errors] == ["DRIVER_MISMATCH"]
    assert "535.54.03" in snapshot.errors[0].text
    assert VERSION in snapshot.errors[0].text
    assert snapshot.gpus == ()
