"""Spec directories of shim beside those of the engines' own CDI support."""

from __future__ import annotations

import json

import pytest
from unit.engines.trees import LAUNCHER, Machine, tree

from shim.base.findings import Finding
from shim.engines import spec_dirs, verify
from shim.engines.model import NewRuntime
from shim.engines.table import ENGINES

CRI = 'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\n'
SETTINGS = "/etc/shim/config.toml"
OURS = '[cdi]\nspec-dirs = ["/etc/cdi", "/var/run/cdi", "/srv/cdi"]\n'
CDI = NewRuntime("shim", LAUNCHER, cdi=True)
# engine -> a tree of its own, its file, the text before and behind the list of directories, a version with CDI
FILES = {
    "containerd": ("none", "/etc/containerd/config.toml", f"{CRI}cdi_spec_dirs = ", (2, 3, 4)),
    "crio": ("bare", "/etc/crio/crio.conf", "[crio.runtime]\ncdi_spec_dirs = ", (1, 37, 0)),
    "docker": ("none", "/etc/docker/daemon.json", '{"cdi-spec-dirs": ', (29, 7, 0)),
    "podman": ("debian-12", "/etc/containers/containers.conf", "[engine]\ncdi_spec_dirs = ", (5, 8, 0)),
}


def machine(engine: str, theirs: str, ours: str = "", version: tuple[int, ...] = ()) -> Machine:
    """An engine with these directories, "" for its own default, on a machine where shim has those."""
    name, path, head, known = FILES[engine]
    files = {path: head + theirs + "}" * (engine == "docker")} if theirs else {}
    files |= {SETTINGS: ours} if ours else {}
    return Machine(ENGINES[engine], tree(engine, name, files), version or known)


def found(of: Machine) -> list[Finding]:
    """What verify reports about the directories."""
    return list(spec_dirs.findings(of.host, of.engine, of.location, of.read()))


@pytest.mark.parametrize("engine", FILES)
def test_c4_the_same_directories_are_in_order(engine: str) -> None:
    assert found(machine(engine, "")) == []
    assert found(machine(engine, '["/etc/cdi/", "/run/cdi"]')) == [], "/var/run is a link to /run"
    assert found(machine(engine, '["/etc/cdi", "/var/run/cdi", "/srv/cdi"]', OURS)) == []


LINES = {
    "containerd": 'cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi", "/srv/cdi"] below '
    '[plugins."io.containerd.cri.v1.runtime"]',
    "crio": 'cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi", "/srv/cdi"] below [crio.runtime]',
    "docker": '"cdi-spec-dirs": ["/etc/cdi", "/var/run/cdi", "/srv/cdi"] into /etc/docker/daemon.json',
    "podman": 'cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi", "/srv/cdi"] below [engine] in '
    "/etc/containers/containers.conf.d/99-shim.conf",
}  # fmt: skip


@pytest.mark.parametrize("engine", FILES)
def test_c4_a_directory_that_the_engine_lacks_is_reported_with_its_line(engine: str) -> None:
    """CRI-O and containerd refuse every annotated container before shim is called; verify said nothing."""
    (finding,) = found(machine(engine, "", OURS))
    refuses = engine in {"containerd", "crio"}
    assert (finding.id, finding.level) == (("CDI_REFUSES", "ERROR") if refuses else ("SPEC_DIRS_DIFFER", "WARNING"))
    assert "/srv/cdi" in finding.text
    assert finding.remedy.startswith(f"write {LINES[engine]}")
    assert 'spec-dirs = ["/etc/cdi", "/var/run/cdi"] below [cdi] in /etc/shim/config.toml' in finding.remedy
    assert found(machine(engine, "", OURS).configured(CDI)) == [], "--enable-cdi adds it"


@pytest.mark.parametrize("engine", ["containerd", "crio"])
def test_c4_an_empty_list_refuses_every_annotated_container(engine: str) -> None:
    """`cdi_spec_dirs = []` of CRI-O was a note: "not needed"."""
    of = machine(engine, "[]")
    (finding,) = found(of)
    assert finding.id == "CDI_REFUSES"
    assert "in no directory at all, and refuses a container" in finding.text
    assert "CDI_OFF" not in of.ids()
    assert [*map(str, found(of.configured()))] == [str(finding)], "so configure does not take itself back"
    assert found(of.configured(CDI)) == []


@pytest.mark.parametrize("engine", FILES)
def test_c4_more_directories_or_another_order_are_a_warning(engine: str) -> None:
    for theirs in ('["/etc/cdi", "/var/run/cdi", "/opt/cdi"]', '["/var/run/cdi", "/etc/cdi"]'):
        (finding,) = found(machine(engine, theirs))
        assert finding.id == "SPEC_DIRS_DIFFER"
        assert finding.remedy == f"write spec-dirs = {theirs} below [cdi] in /etc/shim/config.toml"


WITHOUT_CDI = {"containerd": (1, 6, 20), "crio": (1, 23, 0), "docker": (20, 10, 24), "podman": (4, 0, 0)}


@pytest.mark.parametrize(("engine", "version"), WITHOUT_CDI.items(), ids=WITHOUT_CDI)
def test_c4_an_engine_without_cdi_has_no_directories_to_compare(engine: str, version: tuple[int, ...]) -> None:
    name = "debian-1.6" if engine == "containerd" else FILES[engine][0]
    assert found(Machine(ENGINES[engine], tree(engine, name, {SETTINGS: OURS}), version)) == []


def test_c4_podman_before_5_5_has_no_key_for_them() -> None:
    (finding,) = found(machine("podman", "", OURS, (4, 3, 1)))
    assert finding.remedy == 'write spec-dirs = ["/etc/cdi", "/var/run/cdi"] below [cdi] in /etc/shim/config.toml'


@pytest.mark.parametrize(
    ("version", "fate"), [((1, 7, 24), "starts without them"), ((2, 3, 4), "is refused (since containerd 2.3)")]
)
def test_c4_containerd_without_cdi_is_said_to_refuse_what_it_refuses(version: tuple[int, ...], fate: str) -> None:
    """2.3 refuses CDI devices of the kubelet where CDI is off; the documents said that nothing happens."""
    head = CRI if version > (2,) else 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n'
    text = f"{head}enable_cdi = false\n"
    of = Machine(ENGINES["containerd"], tree("containerd", "none", {FILES["containerd"][1]: text}), version)
    (finding,) = (one for one in of.faults() if one.id == "CDI_OFF")
    assert finding.text.endswith(fate)
    assert found(of) == []


def kind_of(letter: str) -> str:
    return json.dumps({"cdiVersion": "0.6.0", "kind": f"gid.com/{letter}", "devices": [_DEVICE]})


_DEVICE = {"name": "0", "containerEdits": {"env": ["A=1"]}}


@pytest.mark.parametrize("engine", FILES)
def test_b22_a_class_of_one_letter_is_a_warning_where_the_engine_reads_it(engine: str) -> None:
    """containerd 2.3 panics on it and does not start; only validate warned."""
    specs = {f"/etc/cdi/{name}.json": kind_of(name) for name in ("x", "xy")}
    specs |= {"/etc/cdi/broken.json": "{", "/srv/x.json": kind_of("x")}
    name, _, _, version = FILES[engine]

    def warned(version: tuple[int, ...]) -> list[tuple[str, str]]:
        of = Machine(ENGINES[engine], tree(engine, name, specs), version)
        findings = verify.findings(of.host, of.engine, of.location, "shim")
        return [(finding.level, finding.path) for finding in findings if finding.id == "KIND_SHORT"]

    assert warned(version) == [("WARNING", "/etc/cdi/x.json")]
    assert warned({"containerd": (1, 6, 20), "crio": (1, 23), "docker": (20, 10), "podman": (4, 0)}[engine]) == []
