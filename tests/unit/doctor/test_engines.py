"""Broken links of engines' configuration: each gives its finding, and no other ERROR."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.doctor.hosts import DAEMON, Patient, errors

from shim.base.findings import ERROR, WARNING

CONTAINERD = "/etc/containerd/config.toml"
CRI = 'plugins."io.containerd.grpc.v1.cri"'
HEALTHY = f"""\
version = 2
[{CRI}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [{CRI}.containerd.runtimes.runc.options]
    SystemdCgroup = true
[{CRI}.containerd.runtimes.shim]
  runtime_type = "io.containerd.runc.v2"
  container_annotations = ["cdi.k8s.io/*"]
  [{CRI}.containerd.runtimes.shim.options]
    BinaryName = "/usr/local/bin/shim"
    SystemdCgroup = true
"""
PODMAN = "/etc/containers/containers.conf"
RUNTIMES = '[engine]\nruntime = "runc"\n[engine.runtimes]\nshim = ["/usr/local/bin/shim"]\nrunc = ["/usr/bin/runc"]\n'

Harm = Callable[[Patient], object]


@pytest.fixture
def containerd(patient: Patient) -> Patient:
    """The machine with containerd in place of docker."""
    patient.path("/usr/bin/dockerd").unlink()
    patient.path(DAEMON).unlink()
    patient.program("/usr/bin/containerd")
    patient.write(CONTAINERD, HEALTHY)
    return patient


@pytest.fixture
def podman(patient: Patient) -> Patient:
    """The machine with podman in place of docker."""
    patient.path("/usr/bin/dockerd").unlink()
    patient.path(DAEMON).unlink()
    patient.program("/usr/bin/podman")
    patient.write(PODMAN, RUNTIMES)
    return patient


def change(old: str, new: str, path: str = CONTAINERD) -> Harm:
    return lambda patient: patient.replace(path, old, new)


IN_CONTAINERD: dict[str, tuple[Harm, str, str]] = {
    "the sections are those of another version": (
        change('plugins."io.containerd.grpc.v1.cri".containerd.runtimes.shim', "plugins.cri.containerd.runtimes.shim"),
        "CONFIG_DEAD_SECTION",
        ERROR,
    ),
    "the header of a section has no quotes": (
        change(f"[{CRI}.containerd.runtimes.shim]", "[plugins.io.containerd.grpc.v1.cri.containerd.runtimes.shim]"),
        "CONFIG_HEADER_UNQUOTED",
        ERROR,
    ),
    "CRI is switched off": (change("version = 2", 'version = 2\ndisabled_plugins = ["cri"]'), "CRI_DISABLED", ERROR),
    "the version is unknown": (change("version = 2", "version = 9"), "ENGINE_CONFIG_VERSION", ERROR),
    "a value has another type": (change("SystemdCgroup = true", 'SystemdCgroup = "true"'), "CONFIG_TYPE", ERROR),
    "the type of the runtime is missing": (
        change('  runtime_type = "io.containerd.runc.v2"\n  container', "  container"),
        "RUNTIME_TYPE_MISSING",
        ERROR,
    ),
    "the cgroup driver is another one": (
        change('shim"\n    SystemdCgroup = true', 'shim"\n    SystemdCgroup = false'),
        "RUNTIME_CGROUPS",
        WARNING,
    ),
    "annotations are not passed on": (
        change('  container_annotations = ["cdi.k8s.io/*"]\n', ""),
        "RUNTIME_ANNOTATIONS",
        WARNING,
    ),
    "the author of a Pod may ask": (
        change("container_annotations", 'pod_annotations = ["cdi.k8s.io/*"]\n  container_annotations'),
        "POD_REQUESTS",
        ERROR,
    ),
    "the runtime is not registered": (
        lambda patient: patient.write(CONTAINERD, HEALTHY.partition(f"[{CRI}.containerd.runtimes.shim]")[0]),
        "HANDLER_MISSING",
        ERROR,
    ),
    "the program of the runtime is gone": (
        change("/usr/local/bin/shim", "/opt/gone/shim"),
        "RUNTIME_BINARY_MISSING",
        ERROR,
    ),
    "shim is the default runtime": (
        change(f"[{CRI}.containerd.runtimes.runc]", f"[{CRI}.containerd]\n  default_runtime_name = \"shim\"\n"
               f"[{CRI}.containerd.runtimes.runc]"),
        "RUNTIME_DEFAULT",
        WARNING,
    ),
}  # fmt: skip

IN_PODMAN: dict[str, tuple[Harm, str, str]] = {
    "the runtime is not registered": (
        change('shim = ["/usr/local/bin/shim"]\n', "", PODMAN),
        "HANDLER_MISSING",
        WARNING,
    ),
    "a hook of a vendor injects, too": (
        lambda patient: patient.write(
            "/usr/share/containers/oci/hooks.d/nvidia.json",
            '{"version": "1.0.0", "hook": {"path": "/usr/bin/nvidia-container-runtime-hook"}, "stages": ["prestart"]}',
        ),
        "HOOK_DOUBLE",
        WARNING,
    ),
    "the file is cut off": (change("[engine.runtimes]", "[engine.runtimes", PODMAN), "ENGINE_CONFIG_SYNTAX", ERROR),
}


def check(patient: Patient, harm: Harm, id: str, level: str) -> None:
    harm(patient)
    report = patient.examine()
    shown = [(finding.level, finding.id, str(finding)) for finding in report.findings]
    assert errors(report) == ({id} if level == ERROR else set()), shown
    assert (level, id) in [(finding.level, finding.id) for finding in report.findings], shown


def test_healthy_engines_have_nothing_wrong(containerd: Patient) -> None:
    containerd.program("/usr/bin/podman")
    containerd.write(PODMAN, RUNTIMES)
    report = containerd.examine()
    assert {finding.level for finding in report.findings} <= {"NOTE", WARNING}, [str(one) for one in report.findings]
    assert {check.subject for check in report.checks} >= {"containerd", "podman"}


@pytest.mark.parametrize(("harm", "id", "level"), IN_CONTAINERD.values(), ids=IN_CONTAINERD)
def test_a_broken_link_of_containerd(containerd: Patient, harm: Harm, id: str, level: str) -> None:
    check(containerd, harm, id, level)


@pytest.mark.parametrize(("harm", "id", "level"), IN_PODMAN.values(), ids=IN_PODMAN)
def test_a_broken_link_of_podman(podman: Patient, harm: Harm, id: str, level: str) -> None:
    check(podman, harm, id, level)


def test_an_engine_without_shim_is_no_fault_where_another_has_it(patient: Patient) -> None:
    patient.program("/usr/bin/containerd")
    patient.write(CONTAINERD, 'version = 2\ndisabled_plugins = ["cri"]\n')
    assert errors(patient.examine()) == set()
    assert errors(patient.examine(engine="containerd")) == {"CRI_DISABLED"}
