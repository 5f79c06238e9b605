"""What labels state of GPUs: from a real library, loaded by the real pynvml in the child process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.discover.model import Wish
from shim.discover.nvidia import cuda, facts, nvml
from shim.discover.nvidia.facts import Facts
from shim.host.host import Host
from shim.host.tree import Tree

Build = Callable[..., Path]
CLUSTER = "9a000000-0000-0000-0000-000000000000"


def taken(library: Path) -> Facts | nvml.Failure:
    answers = nvml.answered(Host(), Tree(Host(), str(library.parent)), f"/{library.name}", with_facts=True)
    assert not isinstance(answers, nvml.Failure), answers
    return facts.of(answers)


@pytest.mark.parametrize("macros", [(), ("FIRST_FORMS",)])
def test_the_facts_of_two_gpus_and_two_mig_devices(build_nvml: Build, macros: tuple[str, ...]) -> None:
    answer = taken(build_nvml(*macros))
    assert isinstance(answer, Facts)
    assert (answer.driver_version, answer.cuda_version, answer.refused) == ("570.86.10", 12080, {})
    first, second = answer.gpus
    assert (first.name, first.memory, first.compute) == ("NVIDIA H100 80GB HBM3", 80 << 30, (9, 0))
    assert (first.is_mig_capable, first.is_mig_enabled) == (True, True)
    assert (second.is_mig_capable, second.is_mig_enabled, second.mig) == (False, False, ())
    assert (first.pci_address, second.pci_address) == ("0000:17:00.0", "10000:27:00.0")
    assert first.fabric == (CLUSTER, 7)
    assert second.fabric == ((CLUSTER, 7) if macros else None)
    assert [(mig.index, mig.profile, dict(mig.refused)) for mig in first.mig] == [
        (0, "1g.10gb", {}),
        (2, "1c.2g.20gb+gfx", {}),
    ]
    assert first.mig[0].attributes["memory"] == 9856
    assert first.mig[1].attributes["slices.gi"] == 2
    assert (dict(first.refused), dict(second.refused)) == ({}, {})


def test_a_function_that_refuses_is_kept_with_its_code(build_nvml: Build) -> None:
    answer = taken(build_nvml("MIG_LOST=15"))
    assert isinstance(answer, Facts)
    assert [dict(mig.refused) for mig in answer.gpus[0].mig] == [{}, {"DeviceGetGpuInstanceId": 15}]


def test_a_library_without_mig_has_gpus_all_the_same(build_nvml: Build) -> None:
    answer = taken(build_nvml("NO_MIG"))
    assert isinstance(answer, Facts)
    assert [(gpu.is_mig_capable, dict(gpu.refused)) for gpu in answer.gpus] == [(False, {})] * 2


def test_a_gpu_without_a_handle_is_a_failure() -> None:
    answer = facts.of({"gpus": [{"index": 1, "error": ["DeviceGetHandleByIndex", 15]}]})
    assert isinstance(answer, nvml.Failure)
    assert (answer.call, answer.code) == ("DeviceGetHandleByIndex", 15)
    assert answer.text.startswith("GPU 1: nvmlDeviceGetHandleByIndex: the GPU is lost")


def test_no_library_of_cuda_is_a_failure(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    answer = cuda.take(host, Tree(host), Wish(""))
    assert isinstance(answer, nvml.Failure)
    assert answer.is_absent and "there is no libcuda.so.1 below /" in answer.text


CUDA = """
int cuInit(unsigned flags) { (void)flags; return INIT; }
int cuDriverGetVersion(int *version) { *version = 12060; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device)
{ (void)size; (void)device; __builtin_strcpy(name, "Orin"); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { (void)device; *value = which == 75 ? 8 : 7; return 0; }
int cuDeviceTotalMem_v2(unsigned long *memory, int device) { (void)device; *memory = 32188137472UL; return 0; }
"""


@pytest.mark.parametrize("code", [0, 100])
def test_a_real_library_of_cuda_answers(trusted_path: Path, code: int) -> None:
    source = trusted_path / "cuda.c"
    source.write_text(CUDA)
    libraries = trusted_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    argv: list[str | Path] = ["gcc", "-shared", "-fPIC", f"-DINIT={code}", "-Wl,-soname,libcuda.so.1", source, "-o"]
    subprocess.run([*argv, libraries / "libcuda.so.1"], check=True)
    answer = cuda.take(Host(), Tree(Host(), str(trusted_path)), Wish(""))
    if code:
        assert isinstance(answer, nvml.Failure)
        assert (answer.call, answer.code) == ("cuInit", 100)
        return
    assert isinstance(answer, Facts)
    (gpu,) = answer.gpus
    assert (answer.source, answer.cuda_version) == ("cuda", 12060)
    assert (gpu.name, gpu.memory, gpu.compute) == ("Orin", 32188137472, (8, 7))
