"""Broken links of engines' configuration: each gives its finding, and no other ERROR."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.doctor.hosts import DAEMON, Patient, errors

from shim.base.findings import ERROR, WARNING
from shim.host.host import Daemon

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


# --- the kubelet ----------------------------------------------------------------------------------------------------

KUBELET = "/var/lib/kubelet/config.yaml"


def _kubelet(*words: str) -> Harm:
    return lambda patient: patient.options.update(daemons=[Daemon(9, ("/usr/bin/kubelet", *words), 1.0)])


def _both(*harms: Harm) -> Harm:
    def harm(patient: Patient) -> None:
        for each in harms:
            each(patient)

    return harm


def _file(text: str, path: str = KUBELET) -> Harm:
    return lambda patient: patient.write(path, text)


# Where the kubelet's driver is set -> whether it differs from that of the runtime, which is systemd
DRIVERS: dict[str, tuple[Harm, bool]] = {
    "no kubelet": (lambda _: None, False),
    "its configuration has the same": (_file("cgroupDriver: systemd\n"), False),
    "its configuration has another": (_file("kind: KubeletConfiguration\ncgroupDriver: cgroupfs\n"), True),
    "its configuration in JSON has another": (_file('{"cgroupDriver": "cgroupfs"}'), True),
    "its configuration sets none": (_file("kind: KubeletConfiguration\n"), True),
    "its option wins over the configuration": (
        _both(_file("cgroupDriver: cgroupfs\n"), _kubelet("--cgroup-driver=systemd")),
        False,
    ),
    "it names another file": (
        _both(
            _file("cgroupDriver: systemd\n"),
            _file("cgroupDriver: cgroupfs\n", "/etc/k.yaml"),
            _kubelet("--config", "/etc/k.yaml"),
        ),
        True,
    ),
    "a later file of its directory wins": (
        _both(
            _file("cgroupDriver: cgroupfs\n"),
            _file("cgroupDriver: cgroupfs\n", "/etc/k.d/10-a.conf"),
            _file("cgroupDriver: systemd\n", "/etc/k.d/20-b.conf"),
            _kubelet(f"--config={KUBELET}", "--config-dir=/etc/k.d"),
        ),
        False,
    ),
    "it runs without any configuration": (_kubelet(), True),
    "its configuration is no YAML": (_file("a: [\n"), True),
}


@pytest.mark.parametrize("case", DRIVERS)
def test_c5_the_runtime_must_have_the_cgroup_driver_of_the_kubelet(containerd: Patient, case: str) -> None:
    harm, differs = DRIVERS[case]
    harm(containerd)
    assert errors(containerd.examine()) == ({"KUBELET_CGROUPS"} if differs else set())


def test_c5_an_engine_that_tells_the_kubelet_its_driver_makes_it_a_warning(containerd: Patient) -> None:
    _file("cgroupDriver: cgroupfs\n")(containerd)
    containerd.version = (2, 0, 1)
    findings = [finding for finding in containerd.examine().findings if finding.id == "KUBELET_CGROUPS"]
    assert [finding.level for finding in findings] == [WARNING]
    assert "SystemdCgroup = false for shim" in findings[0].remedy


def test_c5_docker_is_not_the_kubelets_engine(patient: Patient) -> None:
    _file("cgroupDriver: systemd\n")(patient)
    assert "KUBELET_CGROUPS" not in {finding.id for finding in patient.examine().findings}
