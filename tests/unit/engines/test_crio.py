"""CRI-O: which files count, what registers the shim, what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from unit.engines import trees
from unit.engines.trees import LAUNCHER, Machine, tree

from shim.base.findings import CdiError
from shim.engines.model import NewRuntime
from shim.engines.table import ENGINES
from shim.host.host import Host

crio = ENGINES["crio"]

DROP_IN = "/etc/crio/crio.conf.d/99-shim.conf"


def machine(name: str = "packaged-1.31", files: dict[str, str] | None = None, version: tuple[int, ...] = ()) -> Machine:
    return Machine(crio, tree("crio", name, files), version)


def table(of: Machine, wanted: NewRuntime = trees.WANTED) -> dict[str, Any]:
    """The table of the shim that configure writes."""
    document = trees.toml(of.texts(wanted)[DROP_IN])
    found: dict[str, Any] = document["crio"]["runtime"]["runtimes"]["shim"]
    return found


DEFAULTS = [
    ("bare", "crun", "/usr/bin/crun"),
    ("default-1.28", "runc", "/usr/sbin/runc"),
    ("kata", "crun", "/usr/bin/crun"),
    ("kubespray", "crun", "/usr/local/bin/crun"),
    ("minikube", "crun", "/usr/bin/crun"),
    ("nvidia-toolkit", "nvidia", "/usr/bin/nvidia-container-runtime"),
    ("openshift-4.18", "crun", "/usr/bin/crun"),
    ("packaged-1.31", "crun", "/usr/libexec/crio/crun"),
]


@pytest.mark.parametrize(("name", "default", "low_level"), DEFAULTS)
def test_the_default_runtime_and_its_program_are_found(name: str, default: str, low_level: str) -> None:
    registry = machine(name).read()
    assert (registry.default, registry.low_level) == (default, low_level)


def test_every_tree_is_in_the_table_above() -> None:
    assert [name for name, _, _ in DEFAULTS] == trees.names("crio")


@pytest.mark.parametrize("name", trees.names("crio"))
def test_configured_every_former_runtime_is_there_and_ours_besides(name: str) -> None:
    before, after = machine(name).read(), machine(name).configured().read()
    assert after.runtimes.keys() == before.runtimes.keys() | {"shim"}
    assert after.runtimes["shim"].path == LAUNCHER
    assert after.runtimes["shim"].file == DROP_IN
    assert after.default == before.default
    assert after.low_level == before.low_level


@pytest.mark.parametrize("name", trees.names("crio"))
@pytest.mark.parametrize(
    "wanted", [trees.WANTED, NewRuntime("shim", LAUNCHER, default=True, cdi=True)], ids=["", "default"]
)
def test_a_second_time_nothing_changes(name: str, wanted: NewRuntime) -> None:
    once = machine(name).configured(wanted)
    assert once.texts(wanted) == {DROP_IN: once.host.read(DROP_IN)}


@pytest.mark.parametrize("name", trees.names("crio"))
def test_it_works_without_a_fault_of_its_own(name: str) -> None:
    assert set(machine(name).configured().ids()) <= {"CDI_OFF", "HOOK_DOUBLE", "ENGINE_CONFIG_OTHER"}


def test_the_table_has_what_the_default_runtime_has() -> None:
    assert table(machine("openshift-4.18")) == {
        "runtime_path": LAUNCHER,
        "runtime_type": "oci",
        "runtime_root": "/run/crun",
        "allowed_annotations": [
            "io.containers.trace-syscall",
            "io.kubernetes.cri-o.Devices",
            "io.kubernetes.cri-o.LinkLogs",
        ],
    }


def test_a_built_in_default_runtime_gives_its_built_in_values() -> None:
    """A table of our own has none of them by itself."""
    assert table(machine("bare"))["allowed_annotations"] == [
        "io.containers.trace-syscall",
        "io.kubernetes.cri-o.Devices",
    ]


@pytest.mark.parametrize(
    ("version", "manager", "expected"),
    [
        (
            (1, 37, 0),
            "",
            {"runtime_root": "/run/crun", "container_min_memory": "500KiB", "monitor_cgroup": "system.slice"},
        ),
        ((1, 37, 0), "cgroupfs", {"runtime_root": "/run/crun", "container_min_memory": "500KiB"}),
        ((1, 30, 0), "", {"runtime_root": "/run/runc", "monitor_cgroup": "system.slice"}),
    ],
)
def test_c10_the_built_in_runtime_gives_its_root_cgroup_and_least_memory(
    version: tuple[int, ...], manager: str, expected: dict[str, str]
) -> None:
    """A limit of 4 MiB failed under shim where no file had a table for crun: it needs 500 KiB there, others 12 MiB."""
    text = f'[crio.runtime]\ncgroup_manager = "{manager}"\n' if manager else ""
    written = table(machine("bare", {"/etc/crio/crio.conf": text}, version))
    keys = ("runtime_root", "container_min_memory", "monitor_cgroup")
    assert {key: written[key] for key in keys if key in written} == expected
    own = '[crio.runtime.runtimes.crun]\nruntime_path = "/usr/bin/crun"\n'
    assert "container_min_memory" not in table(machine("bare", {"/etc/crio/crio.conf": own}, (1, 37))), (
        "a table of a file"
    )


@pytest.mark.parametrize(
    ("line", "is_copied"),
    [
        ('monitor_env = ["PATH=/bin"]', True),
        ('monitor_exec_cgroup = "container"', True),
        ("privileged_without_host_devices = true", True),
        ('default_annotations = {"run.oci.systemd.subgroup" = ""}', True),
        ("inherit_default_runtime = true", False),
        ('platform_runtime_paths = {"linux/arm64" = "/usr/bin/crun-arm64"}', False),
        ('runtime_config_path = "/etc/kata.toml"', False),
        ("stream_websockets = true", False),
    ],
)
def test_a_key_of_the_default_runtime_is_copied_unless_it_would_undo_us(line: str, is_copied: bool) -> None:
    mine = f'[crio.runtime.runtimes.mine]\nruntime_path = "/usr/bin/crun"\n{line}\n'
    text = f'[crio.runtime]\ndefault_runtime = "mine"\n{mine}'
    assert (line.partition(" ")[0] in table(machine("bare", {"/etc/crio/crio.conf": text}))) == is_copied


def test_nothing_is_copied_from_a_runtime_for_virtual_machines() -> None:
    kata = {"/etc/crio/crio.conf.d/90-default.conf": '[crio.runtime]\ndefault_runtime = "kata"\n'}
    copied = table(machine("kata", kata))
    assert copied["runtime_type"] == "oci"
    assert copied["runtime_root"] == "/run/crun", "that of the built-in crun"


def test_conmon_rs_stays_the_monitor_where_it_is_the_default() -> None:
    text = '[crio.runtime.runtimes.crun]\nruntime_type = "pod"\nmonitor_path = "/usr/bin/conmonrs"\n'
    copied = table(machine("bare", {"/etc/crio/crio.conf": text}))
    assert (copied["runtime_type"], copied["monitor_path"]) == ("pod", "/usr/bin/conmonrs")


def test_cdis_annotations_are_never_in_allowed_annotations() -> None:
    """CRI-O drops a runtime that allows an annotation it does not know, and takes none of CDI's away."""
    for name in trees.names("crio"):
        assert not any("cdi" in one for one in table(machine(name)).get("allowed_annotations", []))


def test_the_default_stays_unless_it_is_asked_for() -> None:
    assert machine().configured(NewRuntime("shim", LAUNCHER, default=True)).read().default == "shim"
    assert machine().configured().read().default == "crun"


def test_as_the_default_it_still_follows_the_former_default() -> None:
    """What an administrator changes there later comes over with the next configure, and not from our own table."""
    wanted = NewRuntime("shim", LAUNCHER, default=True)
    once = machine().configured(wanted)
    changed = (once.host.read("/etc/crio/crio.conf.d/10-crio.conf") or b"").replace(b"/run/crun", b"/run/other")
    once.host = once.host.with_files({"/etc/crio/crio.conf.d/10-crio.conf": changed})
    assert table(once, wanted)["runtime_root"] == "/run/other"


def test_cdi_of_cri_o_is_on_unless_its_directories_were_taken_away() -> None:
    assert machine().read().spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert machine().read().cdi is True
    off = machine("minikube")
    assert off.read().cdi is False
    assert "CDI_OFF" not in off.ids(), "it is more than off: CDI_REFUSES"
    assert off.configured(NewRuntime("shim", LAUNCHER, cdi=True)).read().cdi is True


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("cdi_spec_dirs = []", NewRuntime("shim", LAUNCHER, cdi=True)),
        ('default_runtime = "crun"', NewRuntime("shim", LAUNCHER, default=True)),
    ],
    ids=["CDI", "default"],
)
def test_c6_a_key_that_a_later_file_sets_as_well_is_not_written(key: str, wanted: NewRuntime) -> None:
    """It had no effect, and configure reported success."""
    path = "/etc/crio/crio.conf.d/99-zz.conf"
    of = machine(files={path: f"[crio.runtime]\n{key}\n"})
    with pytest.raises(CdiError) as refused:
        of.texts(wanted)
    (found,) = refused.value.findings
    assert (found.id, found.path, found.line) == ("DROP_IN_UNUSED", path, 2)
    assert f"it sets crio.runtime.{key.split(maxsplit=1)[0]}, and is read after {DROP_IN}" in found.text
    assert of.texts()[DROP_IN], "neither is set without being asked for"
    earlier = machine(files={path.replace("99-zz", "10-a"): f"[crio.runtime]\n{key}\n"})
    assert earlier.texts(wanted)[DROP_IN], "an earlier file does not matter"


def test_c6_a_key_that_the_command_line_of_the_daemon_sets_is_not_written() -> None:
    daemon = ("crio", "--default-runtime=crun", "--cdi-spec-dirs", "")
    of = Machine(crio, tree("crio", "packaged-1.31", None, daemon))
    with pytest.raises(CdiError) as refused:
        of.texts(NewRuntime("shim", LAUNCHER, default=True))
    (found,) = refused.value.findings
    assert (found.id, found.path) == ("DROP_IN_UNUSED", DROP_IN)
    assert "was started with --default-runtime=crun" in found.text


def test_an_old_cri_o_has_no_cdi() -> None:
    old = machine(version=(1, 23, 4))
    assert old.read().cdi is False
    assert "1.24 is the first" in str(next(one for one in old.faults() if one.id == "CDI_OFF"))


def test_drop_ins_of_a_file_elsewhere_lie_beside_it() -> None:
    """A tree mounted somewhere: ours went into the directory of the machine on which configure ran."""
    location = crio.locate(Host("/nonexistent", daemons=[]), "/host/etc/crio/crio.conf")
    assert location.drop_in == "/host/etc/crio/crio.conf.d/99-shim.conf"


def test_a_monitor_that_was_missing_before_is_no_new_fault() -> None:
    of = machine("bare", {"/etc/crio/crio.conf": '[crio.runtime.runtimes.crun]\nmonitor_path = "/opt/gone"\n'})
    before, after = of.faults(), of.configured().faults()
    assert [str(one.text) for one in before if one.id == "RUNTIME_BINARY_MISSING"] == [
        "monitor_path /opt/gone is missing: CRI-O does not start"
    ]
    assert {(one.id, one.text) for one in after} <= {(one.id, one.text) for one in before}


@pytest.mark.parametrize(("version", "name"), [((1, 30, 9), "runc"), ((1, 31, 0), "crun"), ((), "crun")])
def test_the_built_in_default_depends_on_the_version(version: tuple[int, ...], name: str) -> None:
    assert machine("bare", version=version).read().default == name


# --- files ------------------------------------------------------------------------------------------------------------


def test_every_file_below_the_directory_counts_in_the_order_of_a_walk() -> None:
    files = {
        "/etc/crio/crio.conf.d/20/b.conf": '[crio.runtime]\ndefault_runtime = "b"\n',
        "/etc/crio/crio.conf.d/20-a": '[crio.runtime]\ndefault_runtime = "a"\n',
        "/etc/crio/crio.conf.d/.hidden": "",
    }
    registry = machine(files=files).read()
    assert [path.removeprefix("/etc/crio/crio.conf.d/") for path in registry.files] == [
        ".hidden",
        "10-crio.conf",
        "20/b.conf",
        "20-a",
    ]
    assert registry.default == "a"


def test_a_table_that_comes_again_replaces_the_former_one_whole() -> None:
    again = {"/etc/crio/crio.conf.d/50-again.conf": '[crio.runtime.runtimes.crun]\nruntime_root = "/run/x"\n'}
    runtime = machine(files=again).read().runtimes["crun"]
    assert runtime.table == {"runtime_root": "/run/x"}
    assert (runtime.file, runtime.line) == ("/etc/crio/crio.conf.d/50-again.conf", 1)


def test_settings_count_in_any_letters_and_are_merged_key_by_key() -> None:
    more = {"/etc/crio/crio.conf.d/50.conf": '[CRIO.Runtime]\nDefault_Runtime = "runc"\n'}
    registry = machine(files=more).read()
    assert registry.default == "runc"
    assert sorted(registry.runtimes) == ["crun", "runc"]


@pytest.mark.parametrize(("manager", "expected"), [("systemd", True), ("cgroupfs", False), (None, True)])
def test_the_cgroup_manager_is_that_of_all_runtimes(manager: str | None, expected: bool) -> None:
    text = f'[crio.runtime]\ncgroup_manager = "{manager}"\n' if manager else ""
    registry = machine(files={"/etc/crio/crio.conf": text}).read()
    assert {one.systemd_cgroup for one in registry.runtimes.values()} == {expected}


def test_the_files_of_the_daemon_that_runs_count() -> None:
    argv = ("/usr/bin/crio", "-c", "/opt/crio.conf", "--config-dir=/opt/conf.d")
    files = {"/opt/crio.conf": "", "/opt/conf.d/1.conf": '[crio.runtime.runtimes.crun]\nruntime_path = "/usr/bin/x"\n'}
    running = Machine(crio, tree("crio", "bare", files, argv))
    assert (running.location.config, running.location.drop_in) == ("/opt/crio.conf", "/opt/conf.d/99-shim.conf")
    assert running.read().files == ["/opt/crio.conf", "/opt/conf.d/1.conf"]


def test_the_command_line_of_the_daemon_wins() -> None:
    argv = ("crio", "--default-runtime=runc", "--cgroup-manager", "cgroupfs", "--cdi-spec-dirs=/a,/b")
    registry = Machine(crio, tree("crio", "packaged-1.31", None, argv)).read()
    assert (registry.default, registry.low_level) == ("runc", "/usr/libexec/crio/runc")
    assert registry.runtimes["crun"].systemd_cgroup is False
    assert registry.spec_dirs == ("/a", "/b")


def test_c17_runtimes_of_the_command_line_are_there_and_replace_those_of_the_files() -> None:
    """`--runtimes` was not read: verify said that there is no such runtime."""
    argv = (
        "crio",
        "--runtimes",
        "a:/opt/a:/run/a,b:/opt/b:/run/b:vm:true:/etc/b.toml",
        "--runtimes=shim:/opt/c:/run/c",
    )
    text = f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\n'
    of = Machine(crio, tree("crio", "packaged-1.31", {DROP_IN: text}, argv))
    runtimes = of.read().runtimes
    assert {"a", "b", "shim", "crun"} <= runtimes.keys()
    assert (runtimes["a"].path, runtimes["a"].type, runtimes["a"].table["runtime_root"]) == ("/opt/a", "oci", "/run/a")
    assert (runtimes["b"].type, runtimes["b"].table["runtime_config_path"]) == ("vm", "/etc/b.toml")
    assert runtimes["b"].table["privileged_without_host_devices"] is True
    assert (runtimes["shim"].path, runtimes["shim"].option, runtimes["crun"].option) == ("/opt/c", "--runtimes", "")
    (found,) = (one for one in of.faults() if one.id == "DROP_IN_UNUSED")
    assert "--runtimes on the command line of the running CRI-O replaces the whole table of shim" in found.text


def test_a_drop_in_that_cri_o_would_not_read_is_refused() -> None:
    with pytest.raises(CdiError) as caught:
        Machine(crio, tree("crio", "bare"), drop_in="/etc/crio/99-shim.conf")
    assert [one.id for one in caught.value.findings] == ["DROP_IN_UNUSED"]
    assert "/etc/crio/crio.conf.d/99-shim.conf" in caught.value.findings[0].remedy


def test_files_of_a_set_up_of_ones_own_are_taken_as_named() -> None:
    own = Machine(crio, tree("crio", "bare"), config="/opt/crio.conf", drop_in="/opt/conf.d/50.conf")
    assert (own.location.config, own.location.drop_in) == ("/opt/crio.conf", "/opt/conf.d/50.conf")


# --- faults -----------------------------------------------------------------------------------------------------------


def line_of(of: Machine, id: str) -> tuple[str, int]:
    (found,) = (one for one in of.faults() if one.id == id)
    return found.path, found.line


@pytest.mark.parametrize(
    "lines",
    [
        'runtime_type = "vm"',
        'runtime_type = "io.containerd.runc.v2"',
        "inherit_default_runtime = true",
        'platform_runtime_paths = {"linux/amd64" = "/usr/bin/crun"}',
        'runtime_config_path = "/etc/x.toml"',
        'allowed_annotations = ["cdi.k8s.io/"]',
    ],
)
def test_a_runtime_that_cri_o_drops_or_bypasses_is_reported(lines: str) -> None:
    text = f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\n{lines}\n'
    assert line_of(machine(files={DROP_IN: text}), "RUNTIME_IGNORED") == (DROP_IN, 1)


DROPPED = {
    "a stream by websockets": ("stream_websockets = true", "stream_websockets goes with"),
    "an affinity that is none": ('exec_cpu_affinity = "last"', 'exec_cpu_affinity = "last" is unknown'),
    "a log without fsync": ('no_sync_log = true\nruntime_type = "pod"', "no_sync_log goes with"),
    "a profile that is missing": ('seccomp_profile = "/etc/gone.json"', "/etc/gone.json is missing, or no JSON"),
    "a profile that is no JSON": ('seccomp_profile = "/etc/broken.json"', "/etc/broken.json is missing, or no JSON"),
    "an annotation that is unknown": (
        'allowed_annotations = ["vendor.com/x"]',
        "allowed_annotations hold vendor.com/x",
    ),
    "an unknown type": ('runtime_type = "oci2"', 'runtime_type = "oci2" is unknown'),
}
TAKEN = (
    'stream_websockets = true\nruntime_type = "pod"',
    'exec_cpu_affinity = "first"',
    "no_sync_log = true",
    'seccomp_profile = "/etc/profile.json"',
    'allowed_annotations = ["devices.crio.io", "io.kubernetes.cri-o.Devices", "run.oci."]',
)
PROFILES = {"/etc/broken.json": "{", "/etc/profile.json": "{}"}


@pytest.mark.parametrize(("lines", "says"), DROPPED.values(), ids=DROPPED)
def test_c10_every_value_for_which_cri_o_drops_a_runtime_is_reported(lines: str, says: str) -> None:
    """CRI-O goes on without the runtime, with one line in its journal: verify had nothing to say."""
    text = f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\n{lines}\n'
    (found,) = (one for one in machine(files={DROP_IN: text, **PROFILES}).faults() if one.id == "RUNTIME_IGNORED")
    assert says in found.text
    assert (found.path, found.line) == (DROP_IN, 1)


@pytest.mark.parametrize("lines", TAKEN)
def test_c10_a_value_that_cri_o_takes_is_not_reported(lines: str) -> None:
    text = f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\n{lines}\n'
    assert "RUNTIME_IGNORED" not in machine(files={DROP_IN: text, **PROFILES}).ids()


FOREIGN = {
    **DROPPED,
    "a configuration of another type": ('runtime_config_path = "/etc/profile.json"', "runtime_config_path goes with"),
    "a program for virtual machines by another name": (
        'runtime_type = "vm"',
        "a program called containerd-shim-NAME-v2",
    ),
    "a configuration that is missing": (
        'runtime_type = "vm"\nruntime_path = "/opt/containerd-shim-kata-v2"\nruntime_config_path = "/etc/gone.toml"',
        "runtime_config_path /etc/gone.toml is missing",
    ),
}
OTHER = "/etc/crio/crio.conf.d/50-other.conf"


@pytest.mark.parametrize(("lines", "says"), FOREIGN.values(), ids=FOREIGN)
def test_c10_a_runtime_of_others_that_cri_o_drops_was_not_reported(lines: str, says: str) -> None:
    """It went on without that handler as well, and verify was silent: a WARNING, since it is none of shim's."""
    path = "" if "runtime_path" in lines else 'runtime_path = "/usr/bin/other"\n'
    text = f"\n[crio.runtime.runtimes.other]\n{path}{lines}\n"
    found = [one for one in machine(files={OTHER: text, **PROFILES}).faults() if one.id == "RUNTIME_IGNORED"]
    assert [(one.level, one.path, one.line) for one in found] == [("WARNING", OTHER, 2)]
    assert found[0].text.startswith("the runtime other: ")
    assert says in found[0].text
    assert "none of shim's" in found[0].remedy


@pytest.mark.parametrize(
    "lines",
    [
        *TAKEN,
        "inherit_default_runtime = true",
        'inherit_default_runtime = true\nruntime_type = "vm"',  # which is replaced
        'runtime_type = "vm"\nruntime_path = "/opt/containerd-shim-kata-v2"\nruntime_config_path = "/etc/profile.json"',
    ],
)
def test_c10_a_runtime_of_others_that_cri_o_takes_is_not_reported(lines: str) -> None:
    path = "" if "runtime_path" in lines else 'runtime_path = "/usr/bin/other"\n'
    text = f"[crio.runtime.runtimes.other]\n{path}{lines}\n"
    assert "RUNTIME_IGNORED" not in machine(files={OTHER: text, **PROFILES}).ids()


def test_c10_a_default_runtime_that_cri_o_would_drop_keeps_it_from_starting() -> None:
    text = '[crio.runtime.runtimes.crun]\nruntime_path = "/usr/bin/crun"\nexec_cpu_affinity = "all"\n'
    (found,) = (one for one in machine("bare", {"/etc/crio/crio.conf": text}).faults() if one.id == "RUNTIME_IGNORED")
    assert "crun is the default runtime, so CRI-O does not start" in found.text
    assert (found.path, found.line) == ("/etc/crio/crio.conf", 1)


@pytest.mark.parametrize(
    ("prefixes", "annotations", "ids"),
    [
        ("", '"cdi.k8s.io/gpu" = "vendor.com/class=dev0"', ["RUNTIME_ANNOTATIONS"]),
        ("", '"run.oci.systemd.subgroup" = ""', []),
        ('["acme.com/"]', '"cdi.k8s.io/gpu" = "vendor.com/class=dev0"', []),
        ('["acme.com/"]', '"acme.com/gpu" = "vendor.com/class=dev0"', ["RUNTIME_ANNOTATIONS"]),
    ],
)
def test_a_request_that_the_table_gives_to_pods_does_not_count(prefixes: str, annotations: str, ids: list[str]) -> None:
    """CRI-O adds default_annotations to those of the Pod, where its author can replace them."""
    text = f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\ndefault_annotations = {{{annotations}}}\n'
    ours = {"/etc/shim/config.toml": f"[cdi]\nannotation-prefixes = {prefixes}\n"} if prefixes else {}
    of = machine(files={DROP_IN: text, **ours})
    assert [one.id for one in of.faults() if one.id == "RUNTIME_ANNOTATIONS"] == ids


@pytest.mark.parametrize(("state", "ids"), [("off", ["RUNTIME_ANNOTATIONS"]), ("any", ["SOURCE_ANY"])])
def test_where_every_pod_can_ask_verify_warns(state: str, ids: list[str]) -> None:
    """Whoever may create a Pod of this runtime gets any device, by an annotation."""
    table = f'runtime_path = "{LAUNCHER}"\ndefault_annotations = {{"cdi.k8s.io/x" = "vendor.com/class=dev0"}}\n'
    ours = {"/etc/shim/config.toml": f'[sources]\npod-annotations = "{state}"\n'}
    of = machine(files={DROP_IN: f"[crio.runtime.runtimes.shim]\n{table}", **ours})
    found = [one for one in of.faults() if one.id in {"SOURCE_ANY", "RUNTIME_ANNOTATIONS"}]
    assert [one.id for one in found] == ids
    if state == "any":
        assert "every Pod gets the devices that it names" in found[0].text
        assert (found[0].path, found[0].level) == ("/etc/shim/config.toml", "WARNING")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (
            "[crio.runtime]\nselinux = true\ndefault_runtime = 1\n",
            3,
            "default_runtime is the number 1 instead of a text",
        ),
        ('[crio.runtime.runtimes.x]\nprivileged_without_host_devices = "true"\n', 2, "instead of a true or false"),
        ('[crio.runtime.runtimes.x]\nallowed_annotations = "a"\n', 2, "instead of a list of texts"),
        ('[crio.runtime]\nruntimes = ["runc"]\n', 2, "instead of a table"),
    ],
)
def test_a_value_of_another_type_is_reported_with_its_line(text: str, line: int, says: str) -> None:
    of = machine("bare", {"/etc/crio/crio.conf": text})
    assert line_of(of, "CONFIG_TYPE") == ("/etc/crio/crio.conf", line)
    assert says in next(one.text for one in of.faults() if one.id == "CONFIG_TYPE")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[crio.runtimes.shim]\nruntime_path = "/x"\n', 1),
        ('[runtimes.shim]\nruntime_path = "/x"\n', 1),
        ('[crio.runtime.shim]\nruntime_path = "/x"\n', 1),
        ('[crio]\ndefault_runtime = "crun"\n', 2),
    ],
)
def test_a_table_where_cri_o_looks_for_none_is_reported(text: str, line: int) -> None:
    assert line_of(machine("bare", {"/etc/crio/crio.conf": text}), "CONFIG_DEAD_SECTION") == (
        "/etc/crio/crio.conf",
        line,
    )


def test_a_name_with_a_dot_needs_quotes() -> None:
    of = machine("bare", {"/etc/crio/crio.conf": '\n[crio.runtime.runtimes.my.shim]\nruntime_path = "/x"\n'})
    assert line_of(of, "CONFIG_HEADER_UNQUOTED") == ("/etc/crio/crio.conf", 2)
    assert '[crio.runtime.runtimes."my.shim"]' in next(str(one) for one in of.faults())


def test_a_file_beside_the_directory_is_of_no_effect() -> None:
    stray = {"/etc/crio/conf.d/99-shim.conf": f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\n'}
    assert line_of(machine(files=stray), "DROP_IN_UNUSED") == ("/etc/crio/conf.d/99-shim.conf", 1)


def test_a_later_table_of_the_same_name_makes_ours_useless() -> None:
    later = {"/etc/crio/crio.conf.d/99-zz.conf": '[crio.runtime.runtimes.shim]\nruntime_path = "/usr/bin/crun"\n'}
    of = machine(files=later).configured()
    assert line_of(of, "DROP_IN_UNUSED")[0] == DROP_IN


def test_a_broken_file_that_is_not_read_is_nobodys_business() -> None:
    assert "DROP_IN_UNUSED" not in machine(files={"/etc/crio/old.conf": "[crio"}).ids()


def test_a_copy_in_the_directory_counts_and_is_reported() -> None:
    of = machine("minikube")
    assert of.read().runtimes["crun"].systemd_cgroup is True
    assert line_of(of, "ENGINE_CONFIG_OTHER") == ("/etc/crio/crio.conf.d/02-crio.conf~", 0)


def test_another_main_file_than_the_daemons_is_reported() -> None:
    running = Machine(crio, tree("crio", "bare", None, ("crio",)), config="/opt/crio.conf")
    assert line_of(running, "ENGINE_CONFIG_OTHER") == ("/opt/crio.conf", 0)


def test_a_default_runtime_without_a_table_stops_cri_o() -> None:
    of = machine(files={"/etc/crio/crio.conf.d/50.conf": '[crio.runtime]\ndefault_runtime = "cruun"\n'})
    assert "there are crun" in next(one.text for one in of.faults() if one.id == "HANDLER_MISSING")


def test_a_monitor_that_is_missing_stops_cri_o() -> None:
    text = f'[crio.runtime.runtimes.shim]\nruntime_path = "{LAUNCHER}"\nmonitor_path = "/usr/lib/conmon"\n'
    of = machine(files={DROP_IN: text})
    assert line_of(of, "RUNTIME_BINARY_MISSING") == (DROP_IN, 1)


def test_a_vendors_hook_injects_a_second_time() -> None:
    assert line_of(machine("nvidia-toolkit"), "HOOK_DOUBLE")[0].endswith("/oci-nvidia-hook.json")


def test_broken_toml_is_refused_with_its_line() -> None:
    with pytest.raises(CdiError) as caught:
        machine(files={"/etc/crio/crio.conf": "[crio.runtime]\ndefault_runtime = runc\n"}).read()
    (found,) = caught.value.findings
    assert (found.id, found.path, found.line) == ("ENGINE_CONFIG_SYNTAX", "/etc/crio/crio.conf", 2)
