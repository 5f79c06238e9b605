"""`make uninstall`: it takes out exactly what was put in, and not while an engine needs it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from install.machine import TOP, Machine

pytestmark = pytest.mark.engine

WHERE = ("/usr/local", "/etc")

# file -> a configuration that names the launcher, and the line in which it does
NAMING = {
    "/etc/containerd/config.toml": (
        'version = 2\n# BinaryName = "/usr/local/bin/shim"\nBinaryName = "/usr/local/bin/shim"\n',
        3,
    ),
    "/etc/containerd/conf.d/shim.toml": ("version = 2\nBinaryName = '/usr/local/bin/shim-runc'\n", 2),
    "/etc/crio/crio.conf": ('[crio.runtime.runtimes.shim]\nruntime_path="/usr/local/bin/shim"\n', 2),
    "/etc/crio/crio.conf.d/50-shim.conf": ('runtime_path = "/usr/local//bin/../bin/shim-crun"\n', 1),
    "/etc/docker/daemon.json": (json.dumps({"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}), 1),
    "/etc/containers/containers.conf": ('[engine.runtimes]\nshim = ["/usr/bin/other", "/usr/local/bin/shim"]\n', 2),
    "/etc/containers/oci/hooks.d/shim.json": ('{"hook": {\n"path": "/usr/local/bin/shim"}}', 2),
    "/etc/containers/containers.conf.d/a.conf": ('shim = ["/opt/link"]\n', 1),
}
NOT_NAMING = {
    "/etc/containerd/config.toml": '#BinaryName = "/usr/local/bin/shim"\nBinaryName = "/usr/local/bin/shim-other"\n',
    "/etc/docker/daemon.json": '{"runtimes": {"shim": {"path": "/opt/other/bin/shim"}}}',
    "/etc/crio/crio.conf": 'runtime_path = "/usr/local/bin/shim.old"\n',
}


@pytest.fixture
def installed(machine: Machine) -> Iterator[Machine]:
    machine.place("install").ok()
    yield machine
    machine.place("uninstall", "--force")


def _write(machine: Machine, path: str, text: str) -> None:
    machine.run("mkdir", "-p", path.rpartition("/")[0]).ok()
    machine.run("tee", path, stdin=text).ok()


def test_it_refuses_while_a_file_elsewhere_is_what_configure_made_it(installed: Machine) -> None:
    text = '{"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}\n'
    _write(installed, "/opt/docker/daemon.json", text)
    _write(installed, "/var/lib/shim/engines/docker-shim-0.json", '{"files": [{"path": "/opt/docker/daemon.json"}]}')
    _write(installed, "/var/lib/shim/engines/damaged.json", "{")
    try:
        refused = installed.place("uninstall")
        assert refused.status == 1
        assert "shim runtime remove" in refused.err
        assert "\n  /opt/docker/daemon.json:1: " in refused.err
    finally:
        installed.run("rm", "-r", "/var/lib/shim", "/opt/docker").ok()
    installed.place("uninstall").ok()


@pytest.mark.parametrize("path", NAMING)
def test_it_refuses_while_an_engine_is_configured_to_start_it(installed: Machine, path: str) -> None:
    text, line = NAMING[path]
    before = installed.run("cat", path)
    installed.run("ln", "-sf", "/usr/local/bin/shim", "/opt/link").ok()
    try:
        _write(installed, path, text)
        refused = installed.place("uninstall")
        assert refused.status == 1
        assert f"\n  {path}:{line}: " in refused.err
        assert refused.err.count("\n  /") == 1
        assert "FORCE=1" in refused.err
        assert installed.run("/usr/local/bin/shim", "version").ok()
        installed.place("uninstall", "--force").ok()
        assert installed.run("test", "-e", "/usr/local/bin/shim").status == 1
    finally:
        installed.run("rm", path, "/opt/link").ok()
        if before.status == 0:
            _write(installed, path, before.out)


@pytest.mark.parametrize("path", ["/etc/cdi/gpu.yaml", "/var/run/cdi/shim-acme.example-gpu.json", "/opt/specs/x.yaml"])
def test_it_refuses_while_a_spec_names_it_as_a_hook(installed: Machine, path: str) -> None:
    """Without the launcher every engine's own CDI would fail to start the containers of that spec."""
    hook = '{"hookName": "createContainer", "path": "/usr/local/bin/shim"}'
    _write(installed, path, f'{{"containerEdits": {{"hooks": [\n{hook}\n]}}}}\n')
    _write(installed, "/opt/specs/unrelated.yaml", "path: /usr/local/bin/shim-other\n")
    _write(installed, "/etc/shim/config.toml", '[cdi]\nspec-dirs = ["/opt/specs"]\n')
    try:
        report = json.loads(installed.run("/usr/local/bin/shim", "runtime", "in-use", "-o", "json").out)
        assert report["specs"] == [{"path": path, "line": 2, "text": hook}]
        assert f"spec  {path}:2 " in " ".join(installed.run("/usr/local/bin/shim", "runtime", "in-use").out.split(" "))
        refused = installed.place("uninstall")
        assert refused.status == 1
        assert f"\n  {path}:2: " in refused.err
    finally:
        installed.run("rm", "-r", path, "/opt/specs", "/etc/shim/config.toml").ok()
    installed.place("uninstall").ok()


def test_a_comment_or_another_program_does_not_hold_it_back(installed: Machine) -> None:
    before = {path: installed.run("cat", path) for path in NOT_NAMING}
    try:
        for path, text in NOT_NAMING.items():
            _write(installed, path, text)
        installed.place("uninstall").ok()
    finally:
        for path, found in before.items():
            installed.run("rm", path).ok()
            if found.status == 0:
                _write(installed, path, found.out)


def test_everything_goes_and_nothing_else(machine: Machine) -> None:
    """Installed twice, with files of others in the directories: the machine is as it was before."""
    _write(machine, "/usr/local/lib/shim/shimx64.efi", "the boot loader of the same name, in Debian's directory for it")
    _write(machine, "/usr/local/bin/shim-mine", "a program of the administrator")
    before = machine.files(*WHERE)
    for _ in range(2):
        machine.place("install").ok()
    assert len(machine.files(*WHERE)) > len(before) + 500
    said = machine.place("uninstall").ok()
    assert machine.files(*WHERE) == before
    assert "/usr/local/lib/shim stays" in said
    machine.run("rm", "-r", "/usr/local/lib/shim", "/usr/local/bin/shim-mine").ok()


def test_it_refuses_while_a_file_of_another_generator_is_moved_aside(installed: Machine) -> None:
    """Only shim knows where it is, and how its units were."""
    record = {"format": 1, "path": "/etc/cdi/other.yaml", "kind": "a.b/c", "target": "/x", "is_new": True}
    _write(installed, "/var/lib/shim/takeover/other.yaml-0.json", json.dumps({**record, "kept": "/kept", "units": []}))
    try:
        report = json.loads(installed.run("/usr/local/bin/shim", "runtime", "in-use", "-o", "json").out)
        assert report["movedAside"] == [{"path": "/etc/cdi/other.yaml", "kept": "/kept"}]
        refused = installed.place("uninstall")
        assert refused.status == 1
        assert "shim device setup --undo" in refused.err
        assert "\n  /etc/cdi/other.yaml was moved aside, to /kept" in refused.err
    finally:
        installed.run("rm", "-r", "/var/lib/shim").ok()
    installed.place("uninstall").ok()


def test_units_that_were_enabled_are_disabled(installed: Machine) -> None:
    links = "/etc/systemd/system/multi-user.target.wants"
    installed.run("systemctl", "enable", "shim-cdi-refresh.service", "shim-cdi-refresh.path").ok()
    assert "shim-cdi-refresh.path" in installed.run("ls", links).ok()
    installed.place("uninstall").ok()
    assert "shim" not in installed.run("ls", links).out


def test_a_file_that_was_replaced_since_stays_and_is_named(installed: Machine) -> None:
    installed.run("rm", "/usr/local/bin/shim-crun").ok()
    _write(installed, "/usr/local/bin/shim-crun", "another program")
    installed.run("ln", "-sf", "/bin/true", "/usr/local/bin/shim-runc").ok()
    said = installed.place("uninstall").ok()
    for name in ("shim-crun", "shim-runc"):
        assert f"/usr/local/bin/{name} was changed since it was installed and stays" in said
        installed.run("rm", f"/usr/local/bin/{name}").ok()
    assert installed.run("test", "-e", "/usr/local/bin/shim").status == 1


def test_where_nothing_was_installed_it_says_so(machine: Machine) -> None:
    done = machine.place("uninstall")
    assert (done.status, "nothing in /usr/local/lib/shim was put there" in done.err) == (1, True)


def test_make_installs_and_uninstalls_on_the_machine(machine: Machine) -> None:
    """The same by the Makefile, which has nothing to build."""
    before = machine.files(*WHERE)
    assert "installed /usr/local/bin/shim" in machine.run("make", "-s", "-C", TOP, "install").ok()
    machine.run("make", "-s", "-C", TOP, "uninstall").ok()
    assert machine.files(*WHERE) == before


def test_an_interpreter_that_users_cannot_reach_is_refused(machine: Machine) -> None:
    """Root's own Python, below a private home: root could start it, and only root."""
    machine.run("mkdir", "-p", "/opt/private").ok()
    machine.run("cp", "/usr/bin/python3", "/opt/private/python3").ok()
    machine.run("chmod", "700", "/opt/private").ok()
    words = ("-I", "-S", "-B", TOP / "packaging/install.py", "install", "--image", TOP / "build/image")
    done = machine.run("/opt/private/python3", *words)
    machine.run("rm", "-r", "/opt/private").ok()
    assert done.status == 1
    assert "/opt/private/python3 cannot be started by every user, because of /opt/private:" in done.err
