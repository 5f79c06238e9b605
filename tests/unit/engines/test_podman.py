"""podman: which files count, what registers the shim or its hook, what is wrong with it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.engines import trees
from unit.engines.trees import LAUNCHER, Machine, tree

from shim.base.findings import CdiError
from shim.cli import registration
from shim.engines import configure
from shim.engines import remove as removal
from shim.engines.configure import Options
from shim.engines.model import NewRuntime
from shim.engines.table import ENGINES
from shim.engines.texts import toml_edit
from shim.host.host import Host

podman = ENGINES["podman"]

DROP_IN = "/etc/containers/containers.conf.d/99-shim.conf"
MAIN = "/etc/containers/containers.conf"
ALICE = {"user": 1000, "environment": {"HOME": "/home/alice"}}
JSON, NOCGROUP = "runtime_supports_json", "runtime_supports_nocgroup"
EXAMPLE = Path(__file__).parents[3] / "docs/podman-precreate.json"


def machine(
    name: str = "debian-12", files: dict[str, str] | None = None, version: tuple[int, ...] = (), **who: Any
) -> Machine:
    who = {**ALICE, **who} if name == "rootless" else who
    return Machine(podman, tree("podman", name, files, **who), version)


def engine(of: Machine, wanted: NewRuntime = trees.WANTED) -> dict[str, Any]:
    """The table [engine] that configure writes."""
    (text,) = of.texts(wanted).values()
    found: dict[str, Any] = trees.toml(text)["engine"]
    return found


DEFAULTS = [
    ("append", "crun", "/usr/bin/crun"),
    ("debian-12", "crun", "/usr/bin/crun"),
    ("fedora-42", "crun", "/usr/bin/crun"),
    ("inline", "runc", "/usr/sbin/runc"),
    ("nvidia-hook", "crun", "/usr/bin/crun"),
    ("own-runtimes", "youki", "/usr/local/bin/youki"),
    ("podman-6", "crun", "/usr/bin/crun"),
    ("rhel-8", "runc", "/usr/bin/runc"),
    ("rootless", "runc", "/usr/bin/runc"),
]


@pytest.mark.parametrize(("name", "default", "low_level"), DEFAULTS)
def test_the_default_runtime_and_its_program_are_found(name: str, default: str, low_level: str) -> None:
    registry = machine(name).read()
    assert (registry.default, registry.low_level) == (default, low_level)


def test_every_tree_is_in_the_table_above() -> None:
    assert [name for name, _, _ in DEFAULTS] == trees.names("podman")


@pytest.mark.parametrize("name", trees.names("podman"))
def test_configured_every_former_runtime_is_there_and_ours_besides(name: str) -> None:
    before, after = machine(name).read(), machine(name).configured().read()
    assert after.runtimes.keys() == before.runtimes.keys() | {"shim"}
    assert after.default == before.default
    assert after.low_level == before.low_level


@pytest.mark.parametrize("name", trees.names("podman"))
@pytest.mark.parametrize(
    "wanted", [trees.WANTED, NewRuntime("shim", LAUNCHER, default=True, cdi=True)], ids=["", "default"]
)
def test_a_second_time_nothing_changes(name: str, wanted: NewRuntime) -> None:
    once = machine(name).configured(wanted)
    assert once.texts(wanted) == {once.location.drop_in: once.host.read(once.location.drop_in)}


@pytest.mark.parametrize("name", trees.names("podman"))
def test_it_works_without_a_fault_of_its_own(name: str) -> None:
    assert set(machine(name).configured().ids()) <= {"HOOK_DOUBLE"}


def test_the_default_stays_unless_it_is_asked_for() -> None:
    assert "runtime" not in engine(machine())
    assert engine(machine(), NewRuntime("shim", LAUNCHER, default=True))["runtime"] == "shim"


# --- lists by name ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "json_list", "nocgroup"),
    [
        ("rhel-8", ["crun", "runc", "shim"], None),  # runc knows no --cgroup-manager
        ("own-runtimes", ["crun", "runc", "youki", "shim"], ["crun", "youki", "shim"]),
        (
            "append",
            ["crun", "runc", "kata", "runsc", "youki", "krun", "ocijail", "runsc-kvm", "shim"],
            ["crun", "krun", "shim"],
        ),
        ("rootless", ["crun", "runc", "kata", "shim"], None),
    ],
)
def test_a_list_is_written_whole_with_what_other_files_put_there(
    name: str, json_list: list[str], nocgroup: list[str] | None
) -> None:
    written = engine(machine(name))
    assert written[JSON] == json_list
    assert written.get(NOCGROUP) == nocgroup


def test_a_runtime_of_which_podman_knows_nothing_gives_us_no_place_in_a_list() -> None:
    text = '[engine]\nruntime = "mine"\n[engine.runtimes]\nmine = ["/usr/bin/crun"]\n'
    assert engine(machine("fedora-42", {MAIN: text})) == {"runtimes": {"shim": [LAUNCHER]}}


def test_a_low_level_runtime_of_its_own_decides_the_lists() -> None:
    """runc knows no --cgroup-manager disabled, whatever podman's default runtime is."""
    with_runc = NewRuntime("shim", LAUNCHER, low_level="/usr/sbin/runc")
    assert NOCGROUP in engine(machine("fedora-42"))
    assert NOCGROUP not in engine(machine("fedora-42"), with_runc)
    assert engine(machine("fedora-42"), with_runc)[JSON][-1] == "shim"


def test_a_name_that_the_main_file_adds_later_is_lost_and_that_is_said() -> None:
    later = machine("rhel-8").configured()
    changed = (later.host.read(MAIN) or b"").replace(b'"runc"]', b'"runc", "kata"]')
    later.host = later.host.with_files({MAIN: changed})
    (found,) = later.faults()
    assert (found.id, found.path, found.line) == ("RUNTIME_JSON", DROP_IN, 4)
    assert "has lost kata" in found.text
    again = later.configured()
    assert again.ids() == []
    assert b'"kata", "shim"]' in (again.host.read(DROP_IN) or b"")


def test_a_later_list_without_our_name_is_reported() -> None:
    of = machine().configured()
    later = f'[engine]\n{JSON} = ["crun", "runc"]\n'.encode()
    of.host = of.host.with_files({"/etc/containers/containers.conf.d/99-zz.conf": later})
    (found,) = of.faults()
    assert (found.id, found.path, found.line) == ("RUNTIME_JSON", "/etc/containers/containers.conf.d/99-zz.conf", 2)
    assert "shim is not in runtime_supports_json" in found.text


def test_the_spelling_of_the_manual_has_no_effect() -> None:
    of = machine(files={MAIN: '[engine]\nruntime_supports_nocgroups = ["crun", "shim"]\n'})
    (found,) = of.faults()
    assert (found.id, found.line, found.remedy) == ("RUNTIME_JSON", 2, "write runtime_supports_nocgroup")
    assert engine(of)[NOCGROUP] == ["crun", "krun", "shim"]


# --- files ------------------------------------------------------------------------------------------------------------


def files_of(of: Machine) -> list[str]:
    return of.read().files


ALL = {
    f"{where}{name}": f'[engine]\nruntime = "{number}"\n'
    for number, (where, name) in enumerate(
        [
            ("/usr/share/containers/", "containers.conf"),
            ("/usr/share/containers/", "containers.conf.d/10.conf"),
            ("/usr/share/containers/", "containers.rootful.conf.d/20.conf"),
            ("/etc/containers/", "containers.conf"),
            ("/etc/containers/", "containers.conf.d/10.conf"),
            ("/etc/containers/", "containers.conf.d/50.conf"),
            ("/etc/containers/", "containers.conf.d/99.txt"),
            ("/etc/containers/", "containers.rootless.conf.d/1000/40.conf"),
            ("/etc/containers/", "containers.rootless.conf.d/40.conf"),
            ("/root/.config/containers/", "containers.conf"),
            ("/root/.config/containers/", "containers.conf.d/60.conf"),
            ("/home/alice/.config/containers/", "containers.conf"),
            ("/home/alice/.config/containers/", "containers.conf.d/30.conf"),
        ]
    )
}
ROOT: dict[str, Any] = {"user": 0, "environment": {"HOME": "/root"}}
SYSTEM = [
    "/usr/share/containers/containers.conf",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/10.conf",
    "/etc/containers/containers.conf.d/50.conf",
]


@pytest.mark.parametrize(
    ("version", "who", "expected"),
    [
        ((), ROOT, SYSTEM),
        ((4, 3, 1), ROOT, SYSTEM),
        (
            (5, 4, 2),
            ROOT,
            [*SYSTEM, "/root/.config/containers/containers.conf", "/root/.config/containers/containers.conf.d/60.conf"],
        ),
        (
            (4, 3, 1),
            ALICE,
            [
                *SYSTEM,
                "/home/alice/.config/containers/containers.conf",
                "/home/alice/.config/containers/containers.conf.d/30.conf",
            ],
        ),
        (
            (6, 0, 0),
            ROOT,
            [
                "/root/.config/containers/containers.conf",
                "/etc/containers/containers.conf.d/10.conf",
                "/usr/share/containers/containers.rootful.conf.d/20.conf",
                "/etc/containers/containers.conf.d/50.conf",
                "/root/.config/containers/containers.conf.d/60.conf",
            ],
        ),
        (
            (6, 0, 0),
            ALICE,
            [
                "/home/alice/.config/containers/containers.conf",
                "/etc/containers/containers.conf.d/10.conf",
                "/home/alice/.config/containers/containers.conf.d/30.conf",
                "/etc/containers/containers.rootless.conf.d/1000/40.conf",
                "/etc/containers/containers.conf.d/50.conf",
            ],
        ),
    ],
)
def test_the_files_depend_on_version_and_caller(version: tuple[int, ...], who: Any, expected: list[str]) -> None:
    assert files_of(machine("debian-12", ALL, version, **who)) == expected


DIRECTORY = "/etc/containers/containers.conf.d"
OWN = "/root/.config/containers/containers.conf.d"
CRUN_ALONE = f'[engine]\n{JSON} = ["crun"]\n'


@pytest.mark.parametrize(
    ("version", "others", "expected"),
    [
        ((6, 0, 0), {f"{OWN}/50-mine.conf": CRUN_ALONE}, "99-shim.conf"),
        ((6, 0, 0), {f"{OWN}/99-zz.conf": CRUN_ALONE}, "99-zzz-shim.conf"),
        ((6, 0, 0), {f"{OWN}/99-shim.conf": CRUN_ALONE}, "99-shimz-shim.conf"),
        ((6, 0, 0), {f"{DIRECTORY}/a.conf": CRUN_ALONE, f"{DIRECTORY}/zzz.conf": "[engine]\n"}, "zzzz-shim.conf"),
        ((6, 0, 0), {f"{DIRECTORY}/zzz.conf": "[containers]\n"}, "99-shim.conf"),
        ((5, 4, 2), {f"{DIRECTORY}/99-zz.conf": CRUN_ALONE}, "99-zzz-shim.conf"),
        ((5, 4, 2), {f"{OWN}/99-zz.conf": CRUN_ALONE}, "99-shim.conf"),  # whatever the name: it is read later
    ],
)
def test_c7_our_drop_in_has_a_name_behind_those_that_would_replace_its_lists(
    version: tuple[int, ...], others: dict[str, str], expected: str
) -> None:
    """podman 6 reads drop-ins by name, whatever their directories: one called 99-zz took our lists' place."""
    of = machine("debian-12", others, version, **ROOT)
    assert of.location.drop_in == f"{DIRECTORY}/{expected}"
    after = of.configured()
    assert after.read().runtimes["shim"].path == LAUNCHER
    if not (version < (6,) and OWN in str(others)):
        assert after.ids() == []
        assert after.texts() == {of.location.drop_in: after.host.read(of.location.drop_in)}, "a second time as well"


def test_c7_a_drop_in_of_ours_elsewhere_does_not_hide_a_second_name() -> None:
    """Of two drop-ins with one name podman 6 reads one: `configure --name mine` was refused beside root's own."""
    mine = NewRuntime("mine", LAUNCHER)
    others = {f"{OWN}/99-shim.conf": f'[engine.runtimes]\nshim = ["{LAUNCHER}"]\n'}
    after = machine("debian-12", others, (6, 0, 0), **ROOT).configured(mine)
    assert {"shim", "mine"} <= after.read().runtimes.keys()


def test_c7_a_link_is_no_drop_in_of_podman_6(tmp_path: Path) -> None:
    """It reads regular files alone, as its predecessors did not."""
    directory = tmp_path / DIRECTORY.lstrip("/")
    directory.mkdir(parents=True)
    (tmp_path / "other").write_text('[engine]\nruntime = "linked"\n')
    (directory / "10.conf").symlink_to(tmp_path / "other")
    of = Machine(podman, Host(str(tmp_path), daemons=[], **ROOT), (5, 4, 2))
    assert of.read().default == "linked"
    assert Machine(podman, of.host, (6, 0, 0)).read().files == []


@pytest.mark.parametrize(("version", "has"), [((4, 6, 1), False), ((4, 7, 0), True), ((6, 0, 0), True), ((), True)])
def test_c17_the_list_keeps_every_name_that_this_podman_has_built_in(version: tuple[int, ...], has: bool) -> None:
    """Written whole, runtime_supports_json lost ocijail, which podman has had in it since 4.7."""
    written = engine(machine("fedora-42", version=version))[JSON]
    assert ("ocijail" in written) == has
    assert written[-1] == "shim"


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("cdi_spec_dirs = []", NewRuntime("shim", LAUNCHER, cdi=True)),
        ('runtime = "crun"', NewRuntime("shim", LAUNCHER, default=True)),
    ],
    ids=["CDI", "default"],
)
def test_c6_a_key_that_a_later_file_sets_as_well_is_not_written(key: str, wanted: NewRuntime) -> None:
    """The file that CONTAINERS_CONF_OVERRIDE names is read last, whatever the name of ours is."""
    environment = {"CONTAINERS_CONF_OVERRIDE": "/srv/override.conf"}
    of = machine("debian-12", {"/srv/override.conf": f"[engine]\n{key}\n"}, (5, 8, 0), environment=environment)
    with pytest.raises(CdiError) as refused:
        of.texts(wanted)
    (found,) = refused.value.findings
    assert (found.id, found.path, found.line) == ("DROP_IN_UNUSED", "/srv/override.conf", 2)
    assert of.texts(), "neither is set without being asked for"


def test_containers_conf_of_the_environment_is_the_only_file() -> None:
    files = {"/srv/c.conf": '[engine]\nruntime = "runc"\n', "/srv/o.conf": '[engine]\nruntime = "crun"\n'}
    environment = {"CONTAINERS_CONF": "/srv/c.conf", "CONTAINERS_CONF_OVERRIDE": "/srv/o.conf"}
    old = machine(files=files, version=(4, 3, 1), environment=environment)
    new = machine(files=files, version=(4, 9, 0), environment=environment)
    assert (files_of(old), old.read().default) == (["/srv/c.conf"], "runc")
    assert (files_of(new), new.read().default) == (["/srv/c.conf", "/srv/o.conf"], "crun")
    assert old.location.drop_in == ""
    assert list(old.texts()) == ["/srv/c.conf"]
    assert old.ids() == ["ENGINE_CONFIG_OTHER"]


def test_a_podman_without_drop_ins_gets_our_keys_into_its_main_file() -> None:
    of = machine("rhel-8", version=(3, 0, 1))
    after = of.texts()[MAIN].decode()
    assert '["crun", "runc", "shim"]\t# not the others' in after
    assert after.startswith("# Managed by Ansible")
    assert after.endswith('\n[engine.runtimes]\n  shim = ["/usr/local/bin/shim"]'), (
        "as before without a last line break"
    )
    assert of.configured().texts() == {MAIN: after.encode()}


@pytest.mark.parametrize(
    ("config", "drop_in"),
    [
        ("", "/etc/containers/99-shim.conf"),
        ("", "/etc/containers/containers.conf.d/99-shim.toml"),
        ("/srv/c.conf", "/srv/c.conf.d/99-shim.conf"),
    ],
)
def test_a_drop_in_that_podman_would_not_read_is_refused(config: str, drop_in: str) -> None:
    with pytest.raises(CdiError) as caught:
        Machine(podman, tree("podman", "debian-12"), config=config, drop_in=drop_in)
    assert [one.id for one in caught.value.findings] == ["DROP_IN_UNUSED"]


def test_without_root_it_goes_into_the_users_own_files() -> None:
    assert machine("rootless").location.drop_in == "/home/alice/.config/containers/containers.conf.d/99-shim.conf"
    xdg = machine("debian-12", user=1000, environment={"XDG_CONFIG_HOME": "/cfg"})
    assert (xdg.location.drop_in, xdg.location.layout) == ("/cfg/containers/containers.conf.d/99-shim.conf", "rootless")


@pytest.mark.parametrize(
    ("version", "text", "cdi", "directories"),
    [
        ((4, 0, 2), "", False, ("/etc/cdi", "/var/run/cdi")),
        ((4, 3, 1), "cdi_spec_dirs = []", True, ("/etc/cdi", "/var/run/cdi")),  # a key that 4.3 does not know
        ((5, 5, 0), "cdi_spec_dirs = []", False, ()),
        ((5, 8, 0), 'cdi_spec_dirs = ["/srv/cdi"]', True, ("/srv/cdi",)),
    ],
)
def test_cdi_of_podman(version: tuple[int, ...], text: str, cdi: bool, directories: tuple[str, ...]) -> None:
    of = machine(files={MAIN: f"[engine]\n{text}\n"}, version=version)
    assert (of.read().cdi, of.read().spec_dirs) == (cdi, directories)
    assert of.ids() == ([] if cdi else ["CDI_OFF"])
    assert (of.configured(NewRuntime("shim", LAUNCHER, cdi=True)).read().cdi) is (version > (4, 1))


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "version"),
    [
        ('[engine]\nruntime = ["crun"]\n', 2, ()),
        ('[engine.runtimes]\nshim = "/usr/local/bin/shim"\n', 2, ()),
        (f'[engine]\n{JSON} = ["crun", {{append = true}}]\n', 2, (4, 3, 1)),
        (f"[engine]\n{JSON} = true\n", 2, (5, 0)),
    ],
)
def test_a_value_of_another_type_is_reported_with_its_line(text: str, line: int, version: tuple[int, ...]) -> None:
    (found,) = machine(files={MAIN: text}, version=version).faults()
    assert (found.id, found.path, found.line) == ("CONFIG_TYPE", MAIN, line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[runtimes]\nshim = ["/x"]\n', 1),
        ('runtime = "shim"\n', 1),
        ('[containers]\nlog_driver = "k8s-file"\n[containers.runtimes]\nshim = ["/x"]\n', 3),
    ],
)
def test_a_key_where_podman_looks_for_none_is_reported(text: str, line: int) -> None:
    (found,) = machine(files={MAIN: text}).faults()
    assert (found.id, found.path, found.line) == ("CONFIG_DEAD_SECTION", MAIN, line)


def test_a_drop_in_with_another_ending_is_of_no_effect() -> None:
    path = "/etc/containers/containers.conf.d/shim.toml"
    (found,) = machine(files={path: '[engine.runtimes]\nshim = ["/usr/local/bin/shim"]\n'}).faults()
    assert (found.id, found.path, found.line) == ("DROP_IN_UNUSED", path, 2)


def test_a_default_runtime_that_is_nowhere_is_reported() -> None:
    (found,) = machine(files={MAIN: '[engine]\nruntime = "crum"\n'}).faults()
    assert found.id == "HANDLER_MISSING"
    assert found.text.endswith("there are crun, runc")


def test_a_default_runtime_may_be_a_path() -> None:
    of = machine(files={MAIN: '[engine]\nruntime = "/usr/sbin/runc"\n'})
    assert (of.ids(), of.read().low_level) == ([], "/usr/sbin/runc")


@pytest.mark.parametrize(
    ("paths", "path"),
    [
        ('["/opt/none", "/usr/sbin/runc"]', "/usr/sbin/runc"),
        ('["/opt/none"]', "/usr/bin/crun"),  # then the name in PATH
    ],
)
def test_of_a_runtimes_paths_the_first_that_exists_counts(paths: str, path: str) -> None:
    assert machine(files={MAIN: f"[engine.runtimes]\ncrun = {paths}\n"}).read().runtimes["crun"].path == path


# --- the precreate hook -----------------------------------------------------------------------------------------------

HOOK = "/etc/containers/oci/hooks.d/shim-precreate.json"


def test_the_hook_is_the_file_of_the_documentation() -> None:
    assert json.loads(machine().texts(steps="hook_edits")[HOOK]) == json.loads(EXAMPLE.read_text())


def test_the_hook_runs_for_the_prefixes_of_the_configuration() -> None:
    """`configure --hook` wrote the default prefix, whatever [cdi] annotation-prefixes was."""
    own = {"/etc/shim/config.toml": '[cdi]\nannotation-prefixes = ["cdi.k8s.io/", "v.example/"]\n'}
    text = machine(files=own).texts(steps="hook_edits")[HOOK]
    assert list(json.loads(text)["when"]["annotations"]) == ["^(cdi[.]k8s[.]io/|v[.]example/)"]
    default = machine().configured(steps="hook_edits").texts(steps="hook_edits")[HOOK]
    assert default == machine().texts(steps="hook_edits")[HOOK]
    changed = machine(
        files={**own, HOOK: default.decode(), MAIN: f'[engine]\nhooks_dir = ["{HOOK.rpartition("/")[0]}"]\n'}
    )
    assert changed.ids() == ["RUNTIME_ANNOTATIONS"]


@pytest.mark.parametrize(
    ("text", "directories"),
    [
        ("", ["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"]),
        ('[engine]\nhooks_dir = ["/opt/hooks"]\n', ["/opt/hooks", "/etc/containers/oci/hooks.d"]),
    ],
)
def test_its_directory_is_named_beside_those_that_were_read(text: str, directories: list[str]) -> None:
    of = machine(files={MAIN: text})
    assert toml_edit.loads(of.texts(steps="hook_edits")[DROP_IN].decode())["engine"] == {"hooks_dir": directories}
    once = of.configured(steps="hook_edits")
    assert once.texts(steps="hook_edits") == {HOOK: once.host.read(HOOK)}


def test_where_its_directory_is_named_already_the_hook_is_enough() -> None:
    named = {MAIN: '[engine]\nhooks_dir = ["/etc/containers/oci/hooks.d"]\n'}
    assert list(machine(files=named).texts(steps="hook_edits")) == [HOOK]


def test_without_root_the_hook_lies_with_the_user() -> None:
    own = "/home/alice/.config/containers"
    assert list(machine("rootless").texts(steps="hook_edits")) == [
        f"{own}/oci/hooks.d/shim-precreate.json",
        f"{own}/containers.conf.d/99-shim.conf",
    ]


def test_hook_and_runtime_at_once_are_reported() -> None:
    hooked = machine().configured(steps="hook_edits")
    assert hooked.ids() == []
    (found,) = hooked.configured().faults()
    assert (found.id, found.path) == ("HOOK_DOUBLE", HOOK)


def test_a_vendors_hook_injects_a_second_time() -> None:
    (found,) = machine("nvidia-hook").faults()
    assert (found.id, found.path) == ("HOOK_DOUBLE", "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json")


def test_a_vendors_hook_in_a_directory_that_is_not_read_is_not_reported() -> None:
    assert machine("nvidia-hook", {MAIN: "[engine]\nhooks_dir = []\n"}).ids() == []


@pytest.fixture
def installed(trusted_path: Path, shim_path: Path) -> Host:
    """A machine with podman and the launcher of this test, whose files may be written."""
    root = trusted_path / "root"
    shutil.copytree(trees.CONFIGS / "podman/rhel-8", root)
    launcher = root / str(shim_path.parent.parent)[1:]
    launcher.parent.mkdir(parents=True)
    launcher.symlink_to(shim_path.parent.parent)
    (root / "usr/bin/python3").touch(0o755)
    return Host(str(root), daemons=[])


def _files(host: Host) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(host.root).rglob("*") if path.is_file()}


def test_configured_as_a_hook_it_is_verified_as_one_and_removed_whole(installed: Host, shim_path: Path) -> None:
    before = _files(installed)
    done = configure.configure(installed, podman, Options(path=str(shim_path), hook=True))
    assert sorted(done.after) == [DROP_IN, HOOK]
    assert "HANDLER_MISSING" not in {one.id for one in done.findings}
    assert removal.remove(installed, podman, Options()).changed
    assert _files(installed) == before


def test_c8_a_dry_run_of_the_hook_finds_what_the_real_call_finds(installed: Host, shim_path: Path) -> None:
    """The dry run looked for the runtime shim, which a hook does not register: HANDLER_MISSING, and status 1."""
    options, before = Options(path=str(shim_path), hook=True), _files(installed)
    would = configure.configure(installed, podman, replace(options, dry_run=True))
    assert _files(installed) == before
    done = configure.configure(installed, podman, options)
    assert _files(installed) != before
    assert would.after == done.after
    assert [str(one) for one in would.findings] == [str(one) for one in done.findings]
    assert {one.id for one in would.findings if one.level == "ERROR"} == set()


def test_c8_verify_shows_the_hook(installed: Host, shim_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RUNTIME and HANDLER are empty with a hook, and nothing else said what was registered."""
    none = registration.report(installed, podman, "shim", ("", ""), "", "")
    assert "hook" not in none["registration"]
    assert "HANDLER_MISSING" in {one["id"] for one in none["findings"]}
    configure.configure(installed, podman, Options(path=str(shim_path), hook=True))
    report = registration.report(installed, podman, "shim", ("", ""), "", "")
    assert report["registration"]["hook"] == HOOK
    assert "HANDLER_MISSING" not in {one["id"] for one in report["findings"]}
    registration.show_report(report)
    assert f"\nHOOK={HOOK}\n" in capsys.readouterr().out


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "for real"])
def test_c8_a_hook_in_the_place_of_a_runtime_is_told(installed: Host, shim_path: Path, dry_run: bool) -> None:
    """The runtime went without a word, and containers that are started with --runtime shim failed."""
    runtime = Options(path=str(shim_path))
    configure.configure(installed, podman, runtime)
    done = configure.configure(installed, podman, replace(runtime, hook=True, dry_run=dry_run))
    (told,) = [one for one in done.findings if one.id == "RUNTIME_REPLACED"]
    assert (told.level, told.path) == ("WARNING", DROP_IN)
    assert told.text == "the runtime shim is no longer registered: the hook takes its place"
    assert "without --hook" in told.remedy
    present = podman.read(installed, podman.locate(installed))
    assert ("shim" in present.runtimes, present.hook) == ((True, "") if dry_run else (False, HOOK))
    if not dry_run:
        again = configure.configure(installed, podman, replace(runtime, hook=True))
        assert "RUNTIME_REPLACED" not in {one.id for one in again.findings}
