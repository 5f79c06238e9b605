"""What is wrong in containerd's configuration, or will surprise."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.engines.containerd_machine import CONFIG, Machine, daemon, faults, written
from unit.engines.trees import toml

from shim.engines.model import Location
from shim.engines.table import ENGINES
from shim.host.host import Host

containerd = ENGINES["containerd"]

GRPC, RUNTIME = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
TYPE = 'runtime_type = "io.containerd.runc.v2"\n'
PASSES = 'container_annotations = ["cdi.k8s.io/*"]\n'
OTHER = "/etc/containerd/conf.d/other.toml"


def _runtime(plugin: str, name: str, table: str = TYPE, options: str = "") -> str:
    header = f'[plugins."{plugin}".containerd.runtimes.{name}'
    return f"{header}]\n{table}{header}.options]\n{options}"


def _found(host: Machine, id: str) -> list[tuple[str, int, str]]:
    return [(one.path, one.line, one.text) for one in faults(host) if one.id == id]


# version of the file, of containerd, the section that is there, what it should be; None where it is right
SECTIONS: dict[str, tuple[str, tuple[int, ...], str, str | None]] = {
    "no version is version 1": ("", (1, 6, 20), GRPC, "plugins.cri]; a file that states no version is of version 1"),
    "version 1": ("version = 1", (1, 7, 1), RUNTIME, "plugins.cri]"),
    "version 1, its own": ("version = 1", (1, 7, 1), "cri", None),
    "version 2, a name of version 1": (
        "version = 2",
        (1, 7, 1),
        "cri",
        f'plugins."{GRPC}"]; containerd 1.x does not start',
    ),
    "version 2, a name of version 3": ("version = 2", (1, 7, 1), RUNTIME, f'plugins."{GRPC}"]'),
    "version 2, a name of version 3, under 2.x": ("version = 2", (2, 1, 9), RUNTIME, None),
    "version 2, its own": ("version = 2", (1, 7, 1), GRPC, None),
    "version 2, its own, under 2.x": ("version = 2", (2, 1, 9), GRPC, None),
    "version 3, a name of version 2": ("version = 3", (2, 1, 9), GRPC, f'plugins."{RUNTIME}".containerd]'),
    "version 3, a name of version 1": ("version = 3", (2, 1, 9), "cri", f'plugins."{RUNTIME}"]'),
    "version 3, its own": ("version = 3", (2, 1, 9), RUNTIME, None),
    "version 4, a name of version 2": ("version = 4", (2, 3, 0), GRPC, f'plugins."{RUNTIME}".containerd]'),
    "version 4, its own": ("version = 4", (2, 3, 0), RUNTIME, None),
}


@pytest.mark.parametrize(("said", "version", "section", "right"), SECTIONS.values(), ids=SECTIONS)
def test_a_section_of_another_version_counts_for_nothing(
    said: str, version: tuple[int, ...], section: str, right: str | None
) -> None:
    host = Machine({CONFIG: f"{said}\n\n{_runtime(section, 'shim')}"}, version)
    found = _found(host, "CONFIG_DEAD_SECTION")
    assert [(path, line) for path, line, _ in found] == ([(CONFIG, 3)] if right else [])
    assert all(f"of the file it is [{right}" in text for _, _, text in found)


OTHERS = {
    ("version = 2", "plugins.linux"): 'plugins."io.containerd.runtime.v1.linux"',
    ("version = 2", "plugins.bolt"): 'plugins."io.containerd.metadata.v1.bolt"',
    ("", 'plugins."io.containerd.internal.v1.opt"'): "plugins.opt",
    ("version = 3", f'plugins."{GRPC}".registry'): 'plugins."io.containerd.cri.v1.images".registry',
    ("version = 3", f'plugins."{GRPC}".cni'): f'plugins."{RUNTIME}".cni',
}


@pytest.mark.parametrize(("there", "right"), OTHERS.items(), ids=[" ".join(one) for one in OTHERS])
def test_other_sections_too(there: tuple[str, str], right: str) -> None:
    [(_, line, text)] = _found(Machine({CONFIG: f"{there[0]}\n[{there[1]}]\nx = 1\n"}), "CONFIG_DEAD_SECTION")
    assert (line, text.partition(";")[0].endswith(f"of the file it is [{right}]")) == (2, True)


def test_what_is_left_of_the_old_plugin_in_version_3_is_no_fault() -> None:
    text = f'version = 3\n[plugins."{GRPC}"]\nstream_server_port = "10010"\ndisable_tcp_service = true\n'
    assert _found(Machine({CONFIG: text}), "CONFIG_DEAD_SECTION") == []


def test_the_image_of_the_sandbox_moved() -> None:
    text = f'version = 3\n[plugins."{GRPC}"]\nsandbox_image = "x"\n'
    [(_, line, said)] = _found(Machine({CONFIG: text}), "CONFIG_DEAD_SECTION")
    assert (line, 'it is [plugins."io.containerd.cri.v1.images".pinned_images]' in said) == (3, True)


def test_an_import_is_looked_at_as_well() -> None:
    files = {CONFIG: 'version = 2\nimports = ["conf.d/*.toml"]\n', OTHER: _runtime(RUNTIME, "x")}
    assert [one[0] for one in _found(Machine(files), "CONFIG_DEAD_SECTION")] == [OTHER]


def test_a_header_without_quotes() -> None:
    text = f"version = 2\n[plugins.{GRPC}.containerd.runtimes.shim]\n{TYPE}"
    [(path, line, said)] = _found(Machine({CONFIG: text}), "CONFIG_HEADER_UNQUOTED")
    assert (path, line) == (CONFIG, 2)
    assert said.endswith(f'[plugins."{GRPC}".containerd.runtimes.shim]')


TYPES = {
    'SystemdCgroup = "true"': 'SystemdCgroup is the text "true"; it must be true or false, without quotes',
    "SystemdCgroup = 1": "SystemdCgroup is the value 1",
    "BinaryName = true": "BinaryName is true; it must be a text",
}


@pytest.mark.parametrize(("line", "said"), TYPES.items(), ids=TYPES)
def test_an_option_of_a_wrong_type(line: str, said: str) -> None:
    text = f"version = 2\n{_runtime(GRPC, 'x', options=line)}"
    [(path, number, found)] = _found(Machine({CONFIG: text}), "CONFIG_TYPE")
    assert (path, number, found.startswith(said)) == (CONFIG, 5, True)


@pytest.mark.parametrize(
    "line",
    [
        'enable_cdi = "true"',
        'cdi_spec_dirs = "/etc/cdi"',
        "containerd.default_runtime_name = 1",
        'containerd.runtimes.x.privileged_without_host_devices = "false"',
        'containerd.runtimes.x.container_annotations = "cdi.k8s.io/*"',
        "containerd.runtimes.x.pod_annotations = [1]",
    ],
)
def test_a_key_of_a_wrong_type(line: str) -> None:
    host = Machine({CONFIG: f'version = 2\n[plugins."{GRPC}"]\n{line}\n'})
    assert [number for _, number, _ in _found(host, "CONFIG_TYPE")] == [3]


@pytest.mark.parametrize("line", ['imports = "conf.d/*.toml"', 'disabled_plugins = "cri"', "required_plugins = [1]"])
def test_a_list_that_is_none(line: str) -> None:
    assert [number for _, number, _ in _found(Machine({CONFIG: f"version = 2\n{line}\n"}), "CONFIG_TYPE")] == [2]


def test_types_that_are_right_are_no_fault() -> None:
    text = f"version = 2\n{_runtime(GRPC, 'x', TYPE + PASSES, 'SystemdCgroup = true')}"
    assert _found(Machine({CONFIG: text}), "CONFIG_TYPE") == []


def test_a_runtime_without_type() -> None:
    text = f"version = 2\n{_runtime(GRPC, 'x', '', 'SystemdCgroup = true')}"
    assert [one[:2] for one in _found(Machine({CONFIG: text}), "RUNTIME_TYPE_MISSING")] == [(CONFIG, 2)]


def test_runc_needs_none_in_containerd_2() -> None:
    text = f"version = 3\n{_runtime(RUNTIME, 'runc', '', 'SystemdCgroup = true')}"
    assert _found(Machine({CONFIG: text}), "RUNTIME_TYPE_MISSING") == []


UNUSED = {
    "nobody imports anything": ("version = 3\n", OTHER, True),
    "the import is of another directory": ('version = 3\nimports = ["/etc/x/*.toml"]\n', OTHER, True),
    "beside the main file": ("version = 3\n", "/etc/containerd/shim.toml", True),
    "in config.d": ("version = 2\n", "/etc/containerd/config.d/x.toml", True),
    "imported": ('version = 3\nimports = ["conf.d/*.toml"]\n', OTHER, False),
}


@pytest.mark.parametrize(("main", "path", "is_unused"), UNUSED.values(), ids=UNUSED)
def test_a_drop_in_that_nobody_imports(main: str, path: str, is_unused: bool) -> None:
    host = Machine({CONFIG: main, path: f"version = 3\n{_runtime(RUNTIME, 'shim')}"})
    found = _found(host, "DROP_IN_UNUSED")
    assert [one[0] for one in found] == ([path] if is_unused else [])
    assert all(text.endswith("are not there: shim") for _, _, text in found)


@pytest.mark.parametrize("text", ['version = 3\n[debug]\nlevel = "info"\n', "not toml"])
def test_a_file_that_registers_nothing_may_lie_there(text: str) -> None:
    assert _found(Machine({CONFIG: "version = 3\n", OTHER: text}), "DROP_IN_UNUSED") == []


def test_a_runtime_that_an_import_takes_away_from_containerd_1() -> None:
    files = {
        CONFIG: f'version = 2\nimports = ["conf.d/*.toml"]\n{_runtime(GRPC, "runc")}',
        OTHER: f"version = 2\n{_runtime(GRPC, 'nvidia')}",
    }
    [(path, line, text)] = _found(Machine(files, (1, 7, 24)), "RUNTIME_LOST")
    assert (path, line) == (CONFIG, 3)
    assert "are not there: runc" in text
    assert OTHER in text
    assert _found(Machine(files, (2, 1, 9)), "RUNTIME_LOST") == [], "2.x merges key by key"


ANNOTATIONS = {
    "nothing is let through": ("", True),
    "another domain": ('container_annotations = ["x/*"]\n', True),
    "ours": (PASSES, False),
    "everything": ('container_annotations = ["*/*"]\n', False),
    "a star ends at the slash": ('container_annotations = ["*"]\n', True),
}


@pytest.mark.parametrize(("table", "is_told"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations_of_the_kubelet_that_do_not_arrive(table: str, is_told: bool) -> None:
    host = Machine({CONFIG: f"version = 2\n{_runtime(GRPC, 'shim', TYPE + table)}"})
    assert bool(_found(host, "RUNTIME_ANNOTATIONS")) == is_told


def test_prefixes_of_the_configuration_have_to_arrive_as_well() -> None:
    """Only cdi.k8s.io/* was looked for, and written, whatever [cdi] annotation-prefixes said."""
    ours = {"/etc/shim/config.toml": '[cdi]\nannotation-prefixes = ["cdi.k8s.io/", "acme[.com"]\n'}
    text = f"version = 2\n{_runtime(GRPC, 'shim', TYPE + PASSES)}"
    [found] = [one for one in faults(Machine({CONFIG: text, **ours})) if one.id == "RUNTIME_ANNOTATIONS"]
    assert 'lacks "acme\\[.com*", "acme\\[.com*/*"' in found.text
    assert "cdi.k8s.io" not in found.text
    after = written(Machine({CONFIG: text, **ours}))
    table = toml(after[CONFIG])["plugins"][GRPC]["containerd"]["runtimes"]["shim"]
    assert table["container_annotations"] == ["cdi.k8s.io/*", "acme\\[.com*", "acme\\[.com*/*"]


# --- what authors of Pods could ask for -------------------------------------------------------------------------------

PODS = {
    "the pattern that people paste": ('["cdi.k8s.io/*"]', True),
    "one of several": ('["io.kata.*", "cdi.*/*"]', True),
    "one key": ('["cdi.k8s.io/gpu"]', True),
    "every key with a slash": ('["*/*"]', True),
    "a star ends at the slash": ('["*"]', False),
    "another domain": ('["io.katacontainers.*", "x.cdi.k8s.io/*"]', False),
    "a malformed pattern matches nothing": ('["cdi.k8s.io/["]', False),
    "no pattern": ("[]", False),
}


@pytest.mark.parametrize(("patterns", "is_told"), PODS.values(), ids=PODS)
def test_a_runtime_of_ours_takes_no_requests_of_pods(patterns: str, is_told: bool) -> None:
    """A Pod's author could give a device to each container of the Pod: verify said WARNING, configure nothing."""
    table = f"{TYPE}{PASSES}pod_annotations = {patterns}\n"
    found = _found(Machine({CONFIG: f"version = 2\n{_runtime(GRPC, 'shim', table)}"}), "POD_REQUESTS")
    assert [(path, line) for path, line, _ in found] == ([(CONFIG, 5)] if is_told else [])


def test_other_runtimes_may_take_whatever_they_like() -> None:
    table = f'{TYPE}pod_annotations = ["cdi.k8s.io/*"]\n'
    host = Machine({CONFIG: f"version = 2\n{_runtime(GRPC, 'other', table)}{_runtime(GRPC, 'shim', TYPE + PASSES)}"})
    assert _found(host, "POD_REQUESTS") == []


def test_a_runtime_of_another_name_is_recognised_by_its_program(tmp_path: Path, launcher: Path) -> None:
    programs = {"ours": launcher, "theirs": Path("/bin/true")}
    runtimes = [
        _runtime(GRPC, name, f'{TYPE}pod_annotations = ["*.k8s.io/*"]\n', f'BinaryName = "{path}"\n')
        for name, path in programs.items()
    ]
    (tmp_path / "config.toml").write_text("version = 2\n" + "".join(runtimes))
    host = Host("/", daemons=[])
    location = Location("containerd", str(tmp_path / "config.toml"))
    found = containerd.faults(host, location, containerd.read(host, location), "shim")
    [text] = [one.text for one in found if one.id == "POD_REQUESTS"]
    assert 'of the runtime ours holds "*.k8s.io/*", which matches cdi.k8s.io/' in text


def test_prefixes_of_the_configuration_are_looked_for_in_pods_patterns() -> None:
    ours = {"/etc/shim/config.toml": '[cdi]\nannotation-prefixes = ["acme.com/"]\n'}
    for pattern, is_told in (("acme.*/*", True), ("cdi.k8s.io/*", False)):
        table = f'{TYPE}{PASSES}pod_annotations = ["{pattern}"]\n'
        host = Machine({CONFIG: f"version = 2\n{_runtime(GRPC, 'shim', table)}", **ours})
        assert bool(_found(host, "POD_REQUESTS")) == is_told


CGROUPS = {
    "the same": ("SystemdCgroup = true", "SystemdCgroup = true", False),
    "neither says it": ("", "SystemdCgroup = false", False),
    "ours lacks it": ("SystemdCgroup = true", "", True),
    "ours alone has it": ("", "SystemdCgroup = true", True),
}


@pytest.mark.parametrize(("default", "ours", "differ"), CGROUPS.values(), ids=CGROUPS)
def test_cgroups_unlike_those_of_the_default_runtime(default: str, ours: str, differ: bool) -> None:
    text = f"version = 2\n{_runtime(GRPC, 'runc', options=default)}\n{_runtime(GRPC, 'shim', options=ours)}\n"
    assert bool(_found(Machine({CONFIG: text}), "RUNTIME_CGROUPS")) is differ


CDI = {
    "1.6": ("version = 2\n", (1, 6, 20), "1.6.20 has no CDI support"),
    "1.7": ("version = 2\n", (1, 7, 24), f'enable_cdi is not true in [plugins."{GRPC}"]'),
    "2.x": (f'version = 3\n[plugins."{RUNTIME}"]\nenable_cdi = false\n', (2, 1, 9), f'[plugins."{RUNTIME}"]'),
    "2.x by default": ("version = 3\n", (2, 1, 9), ""),
}


@pytest.mark.parametrize(("text", "version", "said"), CDI.values(), ids=CDI)
def test_containerds_own_cdi_is_off(text: str, version: tuple[int, ...], said: str) -> None:
    found = _found(Machine({CONFIG: text}, version), "CDI_OFF")
    assert len(found) == bool(said)
    assert all(said in one for _, _, one in found)


def test_cri_is_off() -> None:
    host = Machine({CONFIG: '\ndisabled_plugins = ["cri"]\n'})
    assert [one[:2] for one in _found(host, "CRI_DISABLED")] == [(CONFIG, 2)]


def test_an_import_that_is_missing() -> None:
    host = Machine({CONFIG: 'version = 2\nimports = ["gone.toml", "none/*.toml"]\n'})
    [(path, line, text)] = _found(host, "ENGINE_CONFIG_UNREADABLE")
    assert (path, line, "/etc/containerd/gone.toml" in text) == (CONFIG, 2, True)


def test_the_daemon_reads_another_file() -> None:
    host = Machine({CONFIG: "version = 2\n"}, daemons=[daemon("containerd", "-c", "/x.toml")])
    location = containerd.locate(host, config=CONFIG)
    found = containerd.faults(host, location, containerd.read(host, location), "shim")
    [other] = [one for one in found if one.id == "ENGINE_CONFIG_OTHER"]
    assert (other.path, "reads /x.toml" in other.text) == (CONFIG, True)
