"""CDI names or an annotation: by the kubelet, and by the engine's configuration and process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from shim.host.host import Daemon, Host
from shim.node.plugin import form

CRI = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n'
DIRS = ("/etc/cdi", "/var/run/cdi")
SHIM = """\
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.shim]
runtime_type = "io.containerd.runc.v2"
container_annotations = ["cdi.k8s.io/*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.shim.options]
BinaryName = "/usr/bin/shim"
"""


class Node(Host):
    """A node with containerd and kubelet, of versions that a test chooses."""

    versions: dict[str, tuple[int, ...]] = {}  # noqa: RUF012 - each test has a class of its own

    def version(self, program: str) -> tuple[int, ...]:
        return self.versions.get(program, ())


def node(
    top: Path,
    config: str,
    containerd: tuple[int, ...] = (1, 7, 2),
    kubelet: tuple[int, ...] = (1, 31, 0),
    gates: str = "",
    started: float = 0.0,
) -> Host:
    for name in ("containerd", "kubelet"):
        path = top / "usr/bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
    (top / "etc/containerd").mkdir(parents=True)
    (top / "etc/containerd/config.toml").write_text(config)
    begun = started or time.time() + 10
    daemons = [
        Daemon(1, ("/usr/bin/containerd",), begun),
        Daemon(2, ("/usr/bin/kubelet", *([f"--feature-gates={gates}"] if gates else [])), begun),
    ]
    host = Node(str(top), daemons=daemons)
    host.versions = {"/usr/bin/containerd": containerd, "/usr/bin/kubelet": kubelet}
    return host


ENABLED = CRI + "enable_cdi = true\n"


@pytest.mark.parametrize(
    ("config", "versions", "gates", "expected", "why"),
    [
        pytest.param(ENABLED, ((1, 7, 2), (1, 31)), "", "cdi", "the engine resolves them", id="both can"),
        pytest.param(ENABLED, ((1, 7, 2), (1, 29)), "", "cdi", "the engine resolves them", id="the first by default"),
        pytest.param(ENABLED, ((1, 7, 2), (1, 28, 4)), "", "annotation", "kubelet 1.28.4 passes no", id="gate closed"),
        pytest.param(
            ENABLED, ((1, 7, 2), (1, 28)), "A=false,DevicePluginCDIDevices=true", "cdi", "resolves", id="gate open"
        ),
        pytest.param(
            ENABLED, ((1, 7, 2), (1, 20, 2)), "", "annotation", "1.20.2 passes no CDI names", id="old kubelet"
        ),
        pytest.param(ENABLED, ((1, 7, 2), ()), "", "annotation", "version of kubelet is unknown", id="unknown kubelet"),
        pytest.param(
            ENABLED, ((1, 6, 20), (1, 31)), "", "annotation", "CDI support of containerd is off", id="old engine"
        ),
        pytest.param(CRI, ((1, 7, 2), (1, 31)), "", "annotation", "CDI support of containerd is off", id="not enabled"),
        pytest.param(
            ENABLED + 'cdi_spec_dirs = ["/etc/cdi"]\n',
            ((1, 7, 2), (1, 31)),
            "",
            "annotation",
            "containerd does not read the spec directory /var/run/cdi",
            id="other directories",
        ),
        pytest.param("version = [", ((1, 7, 2), (1, 31)), "", "annotation", "containerd: ", id="unreadable"),
    ],
)
def test_auto_takes_cdi_names_only_where_they_arrive(
    tmp_path: Path,
    config: str,
    versions: tuple[tuple[int, ...], tuple[int, ...]],
    gates: str,
    expected: str,
    why: str,
) -> None:
    chosen = form.decide(node(tmp_path, config, *versions, gates), "auto", DIRS)
    assert chosen.form == expected
    assert why in chosen.why


def test_a_version_that_is_given_counts(tmp_path: Path) -> None:
    host = node(tmp_path, ENABLED, kubelet=())
    assert form.decide(host, "auto", DIRS, (1, 30)).form == "cdi"
    assert form.decide(host, "auto", DIRS, (1, 20)).form == "annotation"


def test_a_containerd_that_was_not_restarted_does_not_resolve_yet(tmp_path: Path) -> None:
    host = node(tmp_path, ENABLED, started=time.time() - 1000)
    chosen = form.decide(host, "auto", DIRS)
    assert (chosen.form, chosen.why) == (
        "annotation",
        "containerd was not restarted since its configuration was changed",
    )


def test_an_engine_that_is_not_seen_to_run_is_not_trusted_to_resolve(tmp_path: Path) -> None:
    """As in a container, where the host's processes are not seen."""
    host = Node(str(node(tmp_path, ENABLED).root), daemons=[])
    chosen = form.decide(host, "auto", DIRS, (1, 31))
    assert chosen.form == "annotation"
    assert "the process of containerd is not seen from here" in chosen.why


def test_without_an_engine_in_sight_it_is_the_annotation(tmp_path: Path) -> None:
    chosen = form.decide(Host(str(tmp_path), daemons=[]), "auto", DIRS, (1, 31))
    assert (chosen.form, chosen.why) == ("annotation", "no engine is seen from here")


def test_a_configured_form_is_used_and_a_doubt_is_reported(tmp_path: Path) -> None:
    host = node(tmp_path, CRI, kubelet=(1, 20))
    chosen = form.decide(host, "cdi", DIRS)
    assert chosen.form == "cdi"
    (finding,) = chosen.findings
    assert finding.id == "PLUGIN_FORM"
    assert "kubelet 1.20 passes no CDI names on" in finding.text


def test_annotations_that_nobody_reads_are_reported(tmp_path: Path) -> None:
    chosen = form.decide(node(tmp_path / "a", CRI), "annotation", DIRS)
    assert [finding.id for finding in chosen.findings] == ["PLUGIN_FORM"]
    assert "there is no runtime shim" in chosen.findings[0].text
    resolved = form.decide(node(tmp_path / "b", ENABLED), "annotation", DIRS)
    assert (resolved.form, resolved.findings) == ("annotation", ())


def test_the_files_on_which_it_depends_are_named(tmp_path: Path) -> None:
    assert form.decide(node(tmp_path, ENABLED), "auto", DIRS).files == ("/etc/containerd/config.toml",)


def test_the_version_is_that_of_the_program(tmp_path: Path) -> None:
    """k3s is one program with a kubelet in it."""
    top = tmp_path / "usr/local/bin"
    top.mkdir(parents=True)
    program = top / "k3s"
    program.write_text("")
    os.chmod(program, 0o755)
    host = Node(str(tmp_path), daemons=[Daemon(1, ("/usr/local/bin/k3s", "server"), 1.0)])
    host.versions = {"/usr/local/bin/k3s": (1, 28, 3)}
    assert form.version(host) == (1, 28, 3)
    assert form.version(Node(str(tmp_path / "empty"), daemons=[])) == ()
