"""docker: which daemon.json counts, what registers the shim in it, what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import socketserver
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from unit.engines import trees
from unit.engines.trees import LAUNCHER, Machine, tree

from shim.base.findings import CdiError, Finding
from shim.engines.docker import command_line
from shim.engines.model import NewRuntime
from shim.engines.table import ENGINES
from shim.host.host import Daemon, Host

docker = ENGINES["docker"]

CONFIG = "/etc/docker/daemon.json"
SNAP = "/var/snap/docker/current/config/daemon.json"
ROBIN = "/home/robin/.config/docker/daemon.json"
ROBINS: dict[str, Any] = {"user": 1000, "environment": {"HOME": "/home/robin"}}
DEFAULT, CDI = NewRuntime("shim", LAUNCHER, default=True), NewRuntime("shim", LAUNCHER, cdi=True)


def machine(
    name: str = "none", text: str | None = None, version: tuple[int, ...] = (), daemon: tuple[str, ...] = ()
) -> Machine:
    """A tree, or the tree with another daemon.json."""
    return Machine(docker, tree("docker", name, {} if text is None else {CONFIG: text}, daemon), version)


def configured(text: str, wanted: NewRuntime = trees.WANTED, version: tuple[int, ...] = ()) -> str:
    """What becomes of a daemon.json."""
    return machine(text=text, version=version).texts(wanted)[CONFIG].decode()


def only(of: Machine, id: str, name: str = "shim") -> Finding:
    """The one finding of this id."""
    (found,) = (one for one in of.faults(name) if one.id == id)
    return found


# --- where ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "config", "layout"),
    [
        (tree("docker", "none"), CONFIG, ""),
        (tree("docker", "none", daemon=("/usr/bin/dockerd", "-H", "fd://")), CONFIG, ""),
        (tree("docker", "none", daemon=("dockerd", "--config-file=/srv/d.json")), "/srv/d.json", ""),
        (tree("docker", "none", daemon=("dockerd", "--config-file", "srv/../d.json")), "/d.json", ""),
        (
            tree("docker", "none", {
                "/etc/systemd/system/docker.service.d/a.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd "
                "--config-file /etc/dockerd.json\n"
            }),
            "/etc/dockerd.json",
            "",
        ),
        (tree("docker", "snap"), SNAP, "snap"),
        (
            tree("docker", "snap", daemon=("dockerd", "--config-file=/var/snap/docker/2915/config/daemon.json")),
            SNAP,
            "snap",
        ),
        (tree("docker", "rootless"), CONFIG, ""),
        (tree("docker", "rootless", **ROBINS), ROBIN, "rootless"),
        (
            tree("docker", "rootless", user=1000, environment={"XDG_CONFIG_HOME": "/x"}),
            "/x/docker/daemon.json",
            "rootless",
        ),
    ],
    ids=[
        "the usual file",
        "a daemon that says nothing reads the usual file",
        "the file on the command line",
        "a path on the command line is relative to the daemon's directory",
        "the file in the unit that will start the daemon",
        "the snap's file",
        "the snap's file in a revision is the current one",
        "root's, although there is a user's",
        "a user's",
        "a user's, where $XDG_CONFIG_HOME says",
    ],
)  # fmt: skip
def test_the_file_that_dockerd_reads_is_found(host: Host, config: str, layout: str) -> None:
    location = docker.locate(host)
    assert (location.config, location.layout, location.drop_in) == (config, layout, "")


def test_root_finds_the_daemon_of_a_user_by_its_file_alone() -> None:
    theirs = Daemon(8, ("dockerd", "--config-file", ROBIN), 0.0, user=1000)
    host = Host(str(trees.CONFIGS / "docker/rootless"), daemons=[theirs])
    assert docker.locate(host).daemon is None
    location = docker.locate(host, ROBIN)
    assert (location.daemon, location.layout) == (theirs, "rootless")


def test_docker_has_no_drop_ins() -> None:
    with pytest.raises(CdiError) as caught:
        docker.locate(tree("docker", "none"), drop_in="/etc/docker/daemon.d/shim.json")
    assert caught.value.findings[0].id == "DROP_IN_UNUSED"
    assert "docker has no drop-ins" in str(caught.value)


def test_docker_desktop_is_another_machine_unless_dockerd_is_here_too() -> None:
    with pytest.raises(CdiError) as caught:
        docker.locate(tree("docker-refused", "desktop"))
    assert caught.value.findings[0].id == "ENGINE_CONFIG_OWNED"
    beside = tree("docker", "none", {"/opt/docker-desktop": ""})
    assert docker.locate(beside).config == CONFIG


# --- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "default", "low_level", "systemd"),
    [
        ("braces", "runc", "/usr/bin/runc", None),
        ("debian-12", "runc", "/usr/sbin/runc", None),
        ("empty", "runc", "/usr/bin/runc", None),
        ("gpu-host", "runc", "/usr/bin/runc", None),
        ("kata", "runc", "/usr/bin/runc", None),
        ("kubernetes", "runc", "/usr/bin/runc", True),
        ("none", "runc", "/usr/bin/runc", None),
        ("nvidia-toolkit", "nvidia", "/usr/bin/nvidia-container-runtime", None),
        ("one-line", "crun", "/usr/bin/crun", None),
        ("rootless", "runc", "/usr/bin/runc", None),
        ("shim-by-hand", "runc", "/usr/bin/runc", None),
        ("snap", "runc", "", None),
        ("unit-flags", "crun", "/usr/bin/crun", True),
        ("windows-lines", "runc", "/usr/bin/runc", None),
    ],
)
def test_the_default_runtime_and_its_program_are_found(
    name: str, default: str, low_level: str, systemd: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    registry = machine(name).read()
    assert (registry.default, registry.low_level) == (default, low_level)
    assert registry.runtimes[default].systemd_cgroup is systemd


def test_every_tree_is_in_the_table_above() -> None:
    rows = test_the_default_runtime_and_its_program_are_found.pytestmark[0].args[1]  # type: ignore[attr-defined]  # marks
    assert [row[0] for row in rows] == trees.names("docker")


def test_runtimes_come_from_docker_itself_the_file_and_the_command_line() -> None:
    of = machine("unit-flags", '{"runtimes": {"k": {"runtimeType": "io.containerd.kata.v2"},\n"s": {"Path": "/x"}}}')
    runtimes = of.read().runtimes
    assert set(runtimes) == {"runc", "io.containerd.runc.v2", "crun", "k", "s"}
    assert (runtimes["crun"].path, runtimes["crun"].line) == ("/usr/bin/crun", 5)
    assert runtimes["crun"].file == "/etc/systemd/system/docker.service.d/10-options.conf"
    assert (runtimes["k"].type, runtimes["k"].path) == ("io.containerd.kata.v2", "")
    assert (runtimes["s"].path, runtimes["s"].file, runtimes["s"].line) == ("/x", CONFIG, 2)


def test_c17_a_runtime_of_the_running_daemons_command_line_is_not_built_in() -> None:
    of = machine(text="{}", daemon=("dockerd", "--add-runtime", "crun=/usr/bin/crun"))
    runtimes = of.read().runtimes
    assert (runtimes["crun"].path, runtimes["crun"].file, runtimes["crun"].option) == (
        "/usr/bin/crun",
        "",
        "--add-runtime",
    )
    assert runtimes["runc"].option == ""
    assert machine("unit-flags").read().runtimes["crun"].option == "", "a unit's file says where it stands"


def test_a_runtime_that_is_in_the_file_as_well_counts_as_the_file_says() -> None:
    of = machine("unit-flags", '{"runtimes": {"crun": {"path": "/opt/crun"}}}')
    assert of.read().runtimes["crun"].path == "/opt/crun"


def test_a_shim_of_its_own_comes_to_no_low_level_runtime() -> None:
    text = '{"default-runtime": "k", "runtimes": {"k": {"runtimeType": "io.containerd.kata.v2"}}}'
    assert machine(text=text).read().low_level == ""
    text = text.replace("kata", "runc")
    assert machine(text=text).read().low_level == "/usr/bin/runc"


def test_options_of_a_shim_say_whose_cgroups_it_uses() -> None:
    text = '{"exec-opts": ["native.cgroupdriver=systemd"], "runtimes": {"a": {"path": "x"}, "b": %s, "c": %s}}'
    kind = '{"runtimeType": "io.containerd.runc.v2", "options": {"SystemdCgroup": %s}}'
    runtimes = machine(text=text % (kind % "true", kind % "false")).read().runtimes
    assert [runtimes[name].systemd_cgroup for name in ("runc", "a", "b", "c")] == [True, True, True, False]


@pytest.mark.parametrize(
    ("version", "text", "cdi"),
    [
        ((20, 10, 24), "{}", False),
        ((24, 0), '{"features": {"cdi": true}}', False),
        ((25, 0, 1), "{}", False),
        ((25, 0, 1), '{"experimental": true}', False),
        ((25, 0, 1), '{"features": {"cdi": true}}', True),
        ((28, 1, 1), "{}", False),
        ((28, 2), "{}", True),
        ((29, 0), '{"features": {"cdi": false}}', False),
        ((29, 0), '{"cdi-spec-dirs": [""]}', False),
        ((29, 0), '{"features": {"buildkit": true}}', True),
        ((), "{}", None),
        ((), '{"features": {"cdi": true}}', True),
    ],
)
def test_whether_docker_injects_cdi_devices_itself(version: tuple[int, ...], text: str, cdi: bool | None) -> None:
    assert machine(text=text, version=version).read().cdi is cdi


def test_a_feature_on_the_command_line_counts() -> None:
    of = machine(version=(27, 0), daemon=("dockerd", "--feature", "cdi=true", "--cdi-spec-dir=/srv/cdi"))
    assert (of.read().cdi, of.read().spec_dirs) == (True, ("/srv/cdi",))


def test_where_dockers_own_cdi_looks_for_specs() -> None:
    assert machine(version=(20, 10)).read().spec_dirs == ()
    assert machine(version=(28, 2)).read().spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert machine(text='{"cdi-spec-dirs": ["/srv"]}', version=(28, 2)).read().spec_dirs == ("/srv",)


# --- what configure writes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", trees.names("docker"))
def test_configured_every_former_runtime_is_there_and_ours_besides(name: str) -> None:
    before, after = machine(name).read(), machine(name).configured().read()
    assert after.runtimes.keys() == before.runtimes.keys() | {"shim"}
    assert after.runtimes["shim"].path == LAUNCHER
    assert after.default == before.default
    assert after.low_level == before.low_level
    ours = before.runtimes.keys() - {"shim"}
    assert {one: after.runtimes[one].table for one in ours} == {one: before.runtimes[one].table for one in ours}
    rest = {key: value for key, value in after.document.items() if key != "runtimes"}
    assert rest == {key: value for key, value in before.document.items() if key != "runtimes"}


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("{}", trees.WANTED, '{"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}'),
        (
            '{"runtimes": {"shim": {"runtimeArgs": ["--debug"], "path": "/old"}}}',
            trees.WANTED,
            '{"runtimes": {"shim": {"runtimeArgs": ["--debug"], "path": "/usr/local/bin/shim"}}}',
        ),
        (
            '{"runtimes": {"shim": {"PATH": "/old", "runtimeArgs": []}}}',
            trees.WANTED,
            '{"runtimes": {"shim": {"path": "/usr/local/bin/shim", "runtimeArgs": []}}}',
        ),
        (
            '{"runtimes": {"shim": {"runtimeType": "io.containerd.runc.v2", "options": {"Root": "/r"}}}}',
            trees.WANTED,
            '{"runtimes": {"shim": {"runtimeType": "io.containerd.runc.v2", "options": {"Root": "/r", '
            '"BinaryName": "/usr/local/bin/shim"}}}}',
        ),
        (
            '{"runtimes": {"shim": {"runtimeType": "io.containerd.kata.v2", "options": {"x": 1}}}}',
            trees.WANTED,
            '{"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}',
        ),
        (
            '{"debug": true}',
            DEFAULT,
            '{"debug": true, "runtimes": {"shim": {"path": "/usr/local/bin/shim"}}, "default-runtime": "shim"}',
        ),
        (
            '{"features": {"buildkit": true}, "runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}',
            CDI,
            '{"features": {"buildkit": true, "cdi": true}, "runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}',
        ),
    ],
    ids=[
        "an entry with our path",
        "arguments stay",
        "a key in other letters is not kept beside ours",
        "an entry by type keeps its options",
        "a runtime of another kind is replaced",
        "the default, only when wanted",
        "a feature beside the others",
    ],
)
def test_single_keys_change(before: str, wanted: NewRuntime, after: str) -> None:
    assert configured(before, wanted) == after


@pytest.mark.parametrize(
    ("version", "before", "changed"),
    [
        ((25, 0), "{}", {"features": {"cdi": True}}),
        ((28, 1), '{"features": {"cdi": false}}', {"features": {"cdi": True}}),
        ((28, 2), "{}", {}),
        ((29, 0), '{"features": {"cdi": false}}', {"features": {"cdi": True}}),
        ((29, 0), '{"cdi-spec-dirs": ["/srv/cdi"]}', {"cdi-spec-dirs": ["/srv/cdi", "/etc/cdi", "/var/run/cdi"]}),
        ((), "{}", {"features": {"cdi": True}}),
    ],
)
def test_enable_cdi_writes_what_that_version_needs(
    version: tuple[int, ...], before: str, changed: dict[str, Any]
) -> None:
    after = json.loads(configured(before, CDI, version))
    del after["runtimes"]
    assert after == {**json.loads(before), **changed}


def test_features_are_kept_and_a_docker_that_knows_no_cdi_is_named() -> None:
    of = machine(text='{"features": {"buildkit": true}}', version=(20, 10, 24)).configured(CDI)
    assert of.read().document["features"] == {"buildkit": True, "cdi": True}
    assert "docker 20.10.24 has no CDI support" in str(only(of, "CDI_UNSUPPORTED"))


def test_directories_are_added_where_dockers_own_cdi_looks_for_none() -> None:
    after = machine(text='{"cdi-spec-dirs": [""]}', version=(29, 0)).configured(CDI).read()
    assert (after.cdi, after.spec_dirs) == (True, ("/etc/cdi", "/var/run/cdi"))


@pytest.mark.parametrize(
    ("of", "wanted", "id", "said"),
    [
        (machine(), NewRuntime("runc", LAUNCHER), "ENGINE_CONFIG_SHAPE", "docker keeps the name runc for itself"),
        (
            machine("unit-flags"),
            DEFAULT,
            "CONFIG_FLAG",
            "default-runtime is given as --default-runtime in "
            "/etc/systemd/system/docker.service.d/10-options.conf, line 5",
        ),
        (
            machine(daemon=("dockerd", "--feature=buildkit=false"), version=(27, 1)),
            CDI,
            "CONFIG_FLAG",
            "features is given as --feature on the command line of the running dockerd",
        ),
    ],
)
def test_what_would_keep_dockerd_from_starting_is_not_written(
    of: Machine, wanted: NewRuntime, id: str, said: str
) -> None:
    with pytest.raises(CdiError) as caught:
        of.texts(wanted)
    assert [finding.id for finding in caught.value.findings] == [id]
    assert said in str(caught.value)


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", trees.names("docker"))
def test_a_machine_that_was_configured_has_no_new_fault(name: str) -> None:
    before = {one for one in machine(name).ids() if one != "SNAP_CONFINED"}
    assert set(machine(name).configured().ids()) - {"SNAP_CONFINED"} <= before


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{\n"features": {"cdi": "true"}}', 2, "features.cdi must be true or false, and is a text"),
        ('{\n"features": ["cdi"]}', 2, "features must be an object, and is a list"),
        ('{\n"runtimes": {\n"a": "/x"}}', 3, "runtimes.a must be an object, and is a text"),
        ('{\n"runtimes": {"a": {\n"Path": ["/x"]}}}', 3, "runtimes.a.Path must be a text, and is a list"),
        ('{"runtimes": {"a": {"runtimeArgs": ""}}}',
         1, "runtimes.a.runtimeArgs must be a list of texts, and is a text"),
        ('{"default-runtime": 1}', 1, "default-runtime must be a text, and is a number"),
        ('{"exec-opts": "native.cgroupdriver=systemd"}', 1, "exec-opts must be a list of texts, and is a text"),
        ('{"cdi-spec-dirs": [1]}', 1, "cdi-spec-dirs must be a list of texts, and is a list with something else in it"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_found(text: str, line: int, said: str) -> None:
    finding = only(machine(text=text), "CONFIG_TYPE")
    assert str(finding) == f"{CONFIG}:{line}: {said}; dockerd does not start with it"


def test_a_key_in_the_file_and_in_the_unit_is_found() -> None:
    of = machine(text='{\n"hosts": ["unix:///run/docker.sock"]}')
    assert str(only(of, "CONFIG_FLAG")) == (
        f"{CONFIG}:2: hosts is here and, as --host, in /lib/systemd/system/docker.service, line 9: "
        "dockerd does not start with a key in both"
    )


def test_a_key_in_the_file_and_on_the_command_line_is_found_and_runtimes_are_none() -> None:
    of = machine(
        "snap",
        daemon=("dockerd", "--config-file", "/d.json", "--add-runtime", "a=/b", "--default-runtime=a", "-D"),
    )
    of.host = of.host.with_files({"/d.json": b'{"runtimes": {}, "default-runtime": "runc", "debug": true}'})
    found = [str(one) for one in of.faults() if one.id == "CONFIG_FLAG"]
    assert [one.partition(" is here")[0] for one in found] == ["/d.json:1: default-runtime", "/d.json:1: debug"]


@pytest.mark.parametrize(
    ("text", "id", "said"),
    [
        ('{"Runtimes": {}}', "CONFIG_DEAD_SECTION", "dockerd knows no key Runtimes, and does not start with it"),
        (
            '{"default-runtime": "gone"}',
            "HANDLER_MISSING",
            "default-runtime is gone, and dockerd does not start without it",
        ),
        ('{"runtimes": {"shim": {}}}', "RUNTIME_TYPE_MISSING", "runtimes.shim has neither path nor runtimeType"),
        ('{"runtimes": {"shim": {"path": "x", "args": ["-d"]}}}', "CONFIG_DEAD_SECTION", "docker passes over args"),
        ('{"runtimes": {"shim": {"path": "x", "runtimeType": "y"}}}', "CONFIG_TYPE", "runtimes.shim has a path and a"),
        (
            '{"exec-opts": ["native.cgroupdriver=systemd"], '
            '"runtimes": {"shim": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "x"}}}}',
            "RUNTIME_CGROUPS",
            "docker uses systemd's cgroups, and does not pass that on to runtimes.shim, as it has a runtimeType",
        ),
        (
            '{"default-runtime": "shim", "runtimes": {"shim": {"path": "x"}}}',
            "BUILDKIT_RUNTIME",
            "shim is the default runtime, but not of `docker build`",
        ),
    ],
)
def test_what_docker_refuses_or_passes_over_is_found(text: str, id: str, said: str) -> None:
    assert said in str(only(machine(text=text), id))


def test_buildkit_is_no_matter_while_another_runtime_is_the_default() -> None:
    assert "BUILDKIT_RUNTIME" not in machine().configured().ids()
    assert "BUILDKIT_RUNTIME" in machine().configured(DEFAULT).ids()


def test_an_empty_file_is_a_fault_for_an_old_docker_alone() -> None:
    assert "it is empty, and docker 20.10.24 does not start" in str(
        only(machine("empty", version=(20, 10, 24)), "ENGINE_CONFIG_SYNTAX")
    )
    assert "ENGINE_CONFIG_SYNTAX" not in machine("empty", version=(23, 0)).ids()


@pytest.mark.parametrize(
    ("version", "text", "said"),
    [
        ((20, 10, 24), "{}", "docker 20.10.24 has no CDI support of its own"),
        ((26, 1, 5), "{}", "docker's own CDI support is off: docker 26.1.5 has it off until features.cdi is true"),
        ((29, 0), '{"features": {"cdi": false}}', "docker's own CDI support is off: features.cdi is false"),
        ((29, 0), '{"cdi-spec-dirs": [""]}', "docker's own CDI support is off: cdi-spec-dirs names no directory"),
    ],
)
def test_why_dockers_own_cdi_is_off(version: tuple[int, ...], text: str, said: str) -> None:
    assert said in str(only(machine(text=text, version=version), "CDI_OFF"))
    assert "CDI_OFF" not in machine(version=(29, 0)).ids()


def test_another_file_than_the_one_that_the_daemon_reads_is_told() -> None:
    host = tree("docker", "none", daemon=("dockerd", "--config-file", "/srv/d.json"))
    of = Machine(docker, host, config=CONFIG)
    assert "reads /srv/d.json instead of this file" in str(only(of, "ENGINE_CONFIG_OTHER"))
    assert "ENGINE_CONFIG_OTHER" not in Machine(docker, host).ids()


def test_a_launcher_that_the_snap_cannot_see_is_told() -> None:
    of = machine("snap").configured()
    assert "docker's snap is confined, and has a /usr of its own" in str(only(of, "SNAP_CONFINED"))
    inside = NewRuntime("shim", "/var/snap/docker/common/shim/bin/shim")
    assert "SNAP_CONFINED" not in machine("snap").configured(inside).ids()


# --- the command line of dockerd --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("-H fd:// --containerd=/c.sock", [("host", "fd://"), ("containerd", "/c.sock")]),
        ("-Hunix:///x -D --default-runtime runc", [("host", "unix:///x"), ("debug", ""), ("default-runtime", "runc")]),
        ("--live-restore --add-runtime a=/b", [("live-restore", ""), ("add-runtime", "a=/b")]),
    ],
)
def test_options_are_read_from_words(words: str, flags: list[tuple[str, str]]) -> None:
    assert [(flag.name, flag.value) for flag in command_line.of_words(words.split())] == flags


def test_units_are_read_as_systemd_does() -> None:
    files = {
        "/etc/systemd/system/docker.service.d/20.conf": "[Service]\nEnvironmentFile=-/etc/sysconfig/docker\n"
        "# ExecStart=none\nExecStart=\nExecStart=/usr/bin/dockerd $OPTIONS '--label=a b' \\\n  --data-root=${ROOT}/d\n",
        "/lib/systemd/system/docker.service.d/20.conf": "[Service]\nExecStart=/usr/bin/dockerd --never\n",
        "/etc/sysconfig/docker": "OPTIONS='--selinux-enabled --log-driver=journald'\nexport ROOT=\"/srv\"\n",
    }
    flags = command_line.of_units(tree("docker", "none", files))
    assert [(flag.name, flag.value) for flag in flags] == [
        ("selinux-enabled", ""),
        ("log-driver", "journald"),
        ("label", "a b"),
        ("data-root", "/srv/d"),
    ]
    assert {(flag.file, flag.line) for flag in flags} == {("/etc/systemd/system/docker.service.d/20.conf", 5)}


def test_a_users_unit_counts_for_that_user() -> None:
    host = tree("docker", "rootless", **ROBINS)
    assert [flag.name for flag in command_line.of_units(host, is_own=True)] == ["log-level"]


# --- dockerd itself ---------------------------------------------------------------------------------------------------


class Api(socketserver.ThreadingUnixStreamServer):
    """A dockerd that answers GET /info."""

    answer = b"{}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = self.server.answer if self.path == "/info" else b"404"  # type: ignore[attr-defined]  # an Api
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(str(tmp_path / "s"), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _asked(tmp_path: Path, document: dict[str, Any], *words: str) -> Sequence[Finding] | None:
    file = tmp_path / "daemon.json"
    file.write_text(json.dumps({"hosts": [f"unix://{tmp_path}/s"], **document}))
    host = Host(daemons=[Daemon(7, ("dockerd", "--config-file", str(file), *words), 0.0)])
    location = dataclasses.replace(docker.locate(host), version=(28, 2))  # whatever this machine has
    return docker.ask_daemon(host, location, docker.read(host, location))


RUNTIMES = {"runtimes": {"shim": {"path": "/x"}, "t": {"runtimeType": "y", "options": {"BinaryName": "/z"}}}}
KNOWN = {"runc": {"path": "runc"}, "shim": {"path": "/x"}, "t": {"runtimeType": "y", "options": {"BinaryName": "/z"}}}


@pytest.mark.parametrize(
    ("said", "words", "texts"),
    [
        ({"Runtimes": KNOWN, "DefaultRuntime": "runc", "CDISpecDirs": ["/etc/cdi"]}, (), []),
        (
            {"Runtimes": {**KNOWN, "shim": {"path": "/old"}}, "DefaultRuntime": "runc"},
            (),
            [("does not know the runtime shim as the file has it", "systemctl reload docker")],
        ),
        (
            {"Runtimes": {"runc": {}}},
            ("--add-runtime", "a=/b"),
            [("does not know the runtime shim, t as the file has it", "systemctl restart docker")],
        ),
        (
            {"Runtimes": KNOWN, "DefaultRuntime": "crun"},
            (),
            [("the file's default runtime is runc; that of the running dockerd", "systemctl reload docker")],
        ),
        (
            {"Runtimes": KNOWN, "DefaultRuntime": "runc", "CDISpecDirs": []},
            (),
            [("docker's own CDI is on in the file", "systemctl restart docker")],
        ),
    ],
)
def test_the_daemon_that_runs_is_asked_what_it_knows(
    tmp_path: Path, api: Api, said: dict[str, Any], words: tuple[str, ...], texts: list[tuple[str, str]]
) -> None:
    api.answer = json.dumps(said).encode()
    found = _asked(tmp_path, RUNTIMES, *words)
    assert found is not None
    assert [one.id for one in found] == ["RESTART_NEEDED"] * len(texts)
    for finding, (text, remedy) in zip(found, texts, strict=True):
        assert text in str(finding)
        assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"path": "LAUNCHER"}, id="a path"),
        pytest.param({"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "LAUNCHER"}}, id="options"),
    ],
)
def test_c14_verify_tells_of_a_dockerd_that_still_knows_a_removed_runtime(
    tmp_path: Path, shim_path: Path, api: Api, entry: dict[str, Any]
) -> None:
    """After remove dockerd goes on knowing the runtime until it reads its file again, and verify was silent on that."""

    def asked(known: dict[str, Any], document: dict[str, Any]) -> list[Finding]:
        api.answer = json.dumps({"Runtimes": {"runc": {"path": "runc"}, **known}, "DefaultRuntime": "runc"}).encode()
        return list(_asked(tmp_path, document) or ())

    removed = json.loads(json.dumps(entry).replace("LAUNCHER", str(shim_path)))
    (found,) = asked({"shim": removed}, {})
    assert (found.id, found.path) == ("RESTART_NEEDED", str(tmp_path / "daemon.json"))
    assert found.text == "the running dockerd (process 7) still knows the runtime shim, which no file has"
    assert found.remedy.startswith("systemctl reload docker")
    assert asked({"shim": removed}, {"runtimes": {"shim": removed}}) == [], "the file has it"
    assert asked({"other": json.loads(json.dumps(entry).replace("LAUNCHER", "/usr/bin/true"))}, {}) == [], "not ours"


@pytest.mark.parametrize("answer", [b"no JSON", b"[]", b"{}", b'{"Runtimes": []}'])
def test_an_odd_answer_is_none(tmp_path: Path, api: Api, answer: bytes) -> None:
    api.answer = answer
    assert _asked(tmp_path, RUNTIMES) is None


def test_a_daemon_has_nothing_to_say_about_a_file_that_it_does_not_read(tmp_path: Path, api: Api) -> None:
    api.answer = json.dumps({"Runtimes": {}}).encode()
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    for one in (file, other):
        one.write_text(json.dumps({"hosts": [f"unix://{tmp_path}/s"], **RUNTIMES}))
    host = Host(daemons=[Daemon(7, ("dockerd", "--config-file", str(file)), 0.0)])
    places = [docker.locate(host, str(one)) for one in (file, other)]
    stale = [docker.ask_daemon(host, location, docker.read(host, location)) for location in places]
    assert [len(found or ()) for found in stale] == [1, 0]


def test_a_daemon_that_does_not_answer_is_not_asked(tmp_path: Path) -> None:
    assert _asked(tmp_path, {**RUNTIMES, "hosts": [f"unix://{tmp_path}/gone"]}) is None
    assert docker.ask_daemon(tree("docker", "none"), docker.locate(tree("docker", "none")), machine().read()) is None


VALIDATING = """#!/bin/sh
case "$*" in --version) echo "Docker version 27.0.1, build 0"; exit;; esac
[ "$1 $2" = "--validate --config-file" ] || exit 99
[ "$(stat -c %a "${3%/*}")" = 700 ] || exit 98
grep -q '"refused"' "$3" || exit 0
echo "unable to configure the Docker daemon with file $3: no such thing" >&2
exit 1
"""


def _validated(tmp_path: Path, before: str, after: str) -> Any:
    program, file = tmp_path / "dockerd", tmp_path / "daemon.json"
    program.write_text(VALIDATING)
    program.chmod(0o755)
    file.write_text(before)
    host = Host(daemons=[Daemon(7, (str(program), "--config-file", str(file)), 0.0)])
    location = docker.locate(host)
    assert location.version == (27, 0, 1)
    return docker.preview(host, location, {location.config: after.encode()})


def test_dockerd_is_asked_whether_it_would_take_the_file(tmp_path: Path) -> None:
    assert "a" in _validated(tmp_path, "{}", '{"runtimes": {"a": {"path": "/b"}}}').runtimes
    with pytest.raises(CdiError) as caught:
        _validated(tmp_path, "{}", '{"default-runtime": "refused"}')
    assert caught.value.findings[0].id == "ENGINE_CONFIG_SYNTAX"
    assert f"unable to configure the Docker daemon with file {tmp_path}/daemon.json: no such thing" in str(caught.value)


def test_a_file_that_dockerd_refused_before_is_not_held_against_the_change(tmp_path: Path) -> None:
    assert _validated(tmp_path, '{"a": "refused"}', '{"a": "refused", "runtimes": {}}') is not None


def test_an_old_dockerd_is_not_asked() -> None:
    assert docker.preview(tree("docker", "none"), docker.locate(tree("docker", "none")), {CONFIG: b"{}"}) is None


# --- how to ask -------------------------------------------------------------------------------------------------------

WAYS = {
    (20, 10, 24): "--runtime shim-gpu0 …",
    (23, 0, 6): "--runtime shim-gpu0 …",
    (24, 0, 0): "--runtime shim --annotation cdi.k8s.io/x=KIND=NAME …",
    (29, 7, 2): "--runtime shim --annotation cdi.k8s.io/x=KIND=NAME …",
    (): "--runtime shim --annotation cdi.k8s.io/x=KIND=NAME …",
}


@pytest.mark.parametrize(("version", "way"), WAYS.items(), ids=lambda value: ".".join(map(str, value)))
def test_the_way_to_ask_is_one_that_this_docker_has(version: tuple[int, ...], way: str) -> None:
    """Debian 12 has docker 20.10: the remedies named --annotation, which it has not, and --device, which is a path."""
    of = machine(version=version).configured()
    assert way in docker.ways_to_ask(of.location, of.read(), "shim")
    assert ("ANNOTATION_UNSUPPORTED" in of.ids()) == (() < version < (24,))


def test_the_entry_that_it_names_registers_a_runtime() -> None:
    of = machine(version=(20, 10, 24)).configured()
    remedy = only(of, "ANNOTATION_UNSUPPORTED").remedy
    document = json.loads((of.host.read(CONFIG) or b"").decode())
    begin = remedy.index('"shim-gpu0"')
    entry = json.loads("{" + remedy[begin : remedy.index("}", begin) + 1] + "}")
    document["runtimes"].update(entry)
    other = machine(text=json.dumps(document), version=(20, 10, 24))
    assert other.read().runtimes["shim-gpu0"].path == LAUNCHER
    assert other.read().runtimes["shim-gpu0"].table["runtimeArgs"] == ["--device=KIND=NAME"]
    assert other.ids("shim-gpu0") == of.ids(), "nothing is wrong with it"
