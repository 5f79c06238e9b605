"""What `make dist` and `make deb` build, installed as users install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness.device import NAME
from engines.harness.sandbox import USER
from install.machine import TOP, Machine, make

import shim

pytestmark = pytest.mark.engine

ROOT_AND_SOMEBODY = pytest.mark.parametrize("user", [None, USER], ids=["root", "somebody"])


# --- wheel and source archive ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds in a clean clone of the last commit, with the tools of this environment."""
    clone = tmp_path_factory.mktemp("dist") / "clone"
    subprocess.run(["git", "clone", "-q", f"file://{TOP}", clone], check=True)
    tools = Path(sys.prefix)
    make("dist", f"VENV={tools}", "-o", f"{tools}/builder", cwd=clone)
    return clone / "dist"


@pytest.fixture(scope="module")
def linked(dist: Path, image: Path, machine: Machine) -> Machine:
    """The wheel in another virtual environment, which users know by a link in /usr/local/bin only."""
    venv = machine.sandbox.scratch / "other/venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    (wheel,) = dist.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python3"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--root-user-action=ignore", wheel], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    for path in (image / "modules").iterdir():  # what pip would download now
        if path.name != "shim" and not path.name.startswith("cdi_shim"):
            shutil.copytree(path, packages / path.name) if path.is_dir() else shutil.copy(path, packages)
    machine.run("ln", "-s", venv / "bin/shim", "/usr/local/bin/shim").ok()
    return machine


@ROOT_AND_SOMEBODY
def test_the_wheel_of_a_clean_clone_runs_from_another_environment_through_a_link(
    linked: Machine, user: str | None
) -> None:
    linked.assert_works("/usr/local/bin/shim", user)
    where = linked.run("/usr/local/bin/shim", "version", user=user).ok()
    assert f"modules in {linked.sandbox.scratch}/other/venv/lib/" in where


def test_the_source_archive_holds_all_that_is_committed(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    listed = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True, check=True).stdout.split()
    top = f"cdi_shim-{shim.__version__}/"
    committed = subprocess.run(
        ["git", "-C", TOP, "ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name for name in listed if not name.endswith("/")} == {top + name for name in [*committed, "PKG-INFO"]}


# --- Debian package -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deb() -> Path:
    """The package of the working tree, by debian/."""
    make("build/deb")
    (package,) = (TOP / "build/deb").glob("*.deb")
    return package


def test_the_packages_have_the_version_of_the_program() -> None:
    changes = (TOP / "debian/changelog").read_text().splitlines()
    assert changes[0].startswith(f"cdi-shim ({shim.__version__}-")
    assert f"\nVersion: {shim.__version__}\n" in (TOP / "packaging/shim.spec").read_text()


def _field(deb: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True).stdout.strip()


def test_the_package_says_what_it_is_and_needs(deb: Path) -> None:
    assert _field(deb, "Package") == "cdi-shim"
    assert _field(deb, "Version") == f"{shim.__version__}-1"
    assert deb.name == f"cdi-shim_{shim.__version__}-1_{_field(deb, 'Architecture')}.deb"
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}" in _field(deb, "Depends").split(", ")


def test_the_package_unpacks_the_modules_then_launch_then_the_launcher_all_of_root(deb: Path) -> None:
    """dpkg renames files into place in the archive's order, and containers are created meanwhile."""
    listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split()[1] for line in listed} == {"root/root"}
    paths = [line.split(None, 5)[5].removeprefix(".").partition(" -> ")[0] for line in listed]
    last = ["/usr/lib/shim/launch", "/usr/bin/shim", "/usr/bin/shim-crun", "/usr/bin/shim-runc"]
    assert paths[-4:] == last
    assert not any(path.startswith("/usr/lib/shim/") for path in paths[-3:])


def test_the_package_installs_runs_and_is_removed_without_a_trace(machine: Machine, deb: Path) -> None:
    machine.forget()  # the link of the wheel would be another installation, whose state a purge keeps
    where = ("/usr", "/etc")
    before = machine.files(*where)
    dpkg = ("dpkg", "--no-triggers")  # the index of the manual takes longer than all of this
    copy = machine.sandbox.scratch / "package.deb"
    shutil.copy(deb, copy)
    machine.run(*dpkg, "-i", copy).ok()
    for user in (None, USER):
        machine.assert_works("/usr/bin/shim", user)
    assert machine.run("dpkg", "-V", "cdi-shim").ok() == ""
    assert machine.run("dpkg", "-S", "/usr/bin/shim-runc").ok() == "cdi-shim: /usr/bin/shim-runc\n"
    machine.run(*dpkg, "-i", copy).ok()  # once more, as an upgrade
    machine.assert_works("/usr/bin/shim", USER)
    machine.run("sh", "-c", "echo '# mine' >> /etc/logrotate.d/shim").ok()
    machine.run(*dpkg, "-r", "cdi-shim").ok()
    assert machine.run("cat", "/etc/logrotate.d/shim").ok().endswith("# mine\n")
    machine.run(*dpkg, "-P", "cdi-shim").ok()
    assert machine.files(*where) == [line for line in before if "/etc/shim/low-level" not in line]  # ours, too


CONFIGURED = '{"runtimes": {"shim": {"path": "/usr/bin/shim"}}}'


@pytest.fixture
def packaged(machine: Machine, deb: Path) -> Iterator[Machine]:
    """A machine with the package, and with state that the program wrote."""
    machine.forget()
    copy = machine.sandbox.scratch / "package.deb"
    shutil.copy(deb, copy)
    machine.run("dpkg", "--no-triggers", "-i", copy).ok()
    machine.run("mkdir", "-p", "/var/lib/shim/engines", "/run/shim/c", "/etc/docker", "/etc/shim/low-level").ok()
    for file in ("/var/lib/shim/abilities", "/var/log/shim.log", "/var/log/shim.log.1", "/etc/shim/config.toml"):
        machine.run("tee", file).ok()
    yield machine
    machine.run("rm", "-rf", "/etc/docker", "/var/lib/shim", "/etc/shim/config.toml").ok()
    machine.forget()


def test_c15_the_package_stays_while_an_engine_is_configured_to_start_it(packaged: Machine) -> None:
    """apt-get remove took the program away under the engine."""
    packaged.run("tee", "/etc/docker/daemon.json", stdin=CONFIGURED).ok()
    dpkg = ("dpkg", "--no-triggers")
    refused = packaged.run(*dpkg, "-r", "cdi-shim")
    assert refused.status != 0
    assert "/etc/docker/daemon.json:1" in refused.err
    assert "SHIM_FORCE=1" in refused.err
    assert packaged.run("dpkg-query", "-W", "-f=${db:Status-Status}", "cdi-shim").ok() == "installed"
    assert packaged.run("/usr/bin/shim", "version").ok()
    packaged.run(*dpkg, "-i", packaged.sandbox.scratch / "package.deb").ok()  # an upgrade passes
    packaged.run(*dpkg, "-r", "cdi-shim", env={"SHIM_FORCE": "1"}).ok()
    assert packaged.run("test", "-e", "/usr/bin/shim").status == 1


def test_c15_purge_removes_our_state_and_log(packaged: Machine) -> None:
    there = (
        "ls",
        "-d",
        "/var/lib/shim",
        "/run/shim",
        "/etc/shim/low-level",
        "/var/log/shim.log",
        "/var/log/shim.log.1",
    )
    packaged.run("dpkg", "--no-triggers", "-r", "cdi-shim").ok()
    packaged.run(*there).ok()
    packaged.run("dpkg", "--no-triggers", "-P", "cdi-shim").ok()
    assert packaged.run(*there).out == ""
    assert packaged.run("ls", "/etc/shim/config.toml").ok(), "it is the administrator's"


def test_c15_purge_keeps_the_state_of_another_installation(packaged: Machine) -> None:
    packaged.place("install").ok()
    packaged.run("dpkg", "--no-triggers", "-P", "cdi-shim").ok()
    packaged.run("ls", "/var/lib/shim/abilities", "/var/log/shim.log").ok()


def test_a_machine_with_a_shim_is_as_one_without(machine: Machine, deb: Path) -> None:
    """On a developer's machine with a shim the tests of installations failed: they began with what was there."""
    where = ("/usr", "/etc", "/var/lib/dpkg/info")
    machine.forget()  # what the tests above have left
    before = machine.files(*where)
    copy = machine.sandbox.scratch / "package.deb"
    shutil.copy(deb, copy)
    machine.run("dpkg", "--no-triggers", "-i", copy).ok()
    machine.place("install").ok()
    machine.run("mkdir", "-p", "/var/lib/shim/engines").ok()
    configuration = '{"runtimes": {"shim": {"path": "/usr/local/bin/shim"}}}'
    for file in ("/etc/containers/shim.json", "/var/lib/shim/engines/docker-shim-0.json"):
        machine.run("tee", file, stdin=configuration).ok()
    assert machine.files(*where) != before
    machine.forget()
    assert machine.run("find", "/var/lib/shim", "-type", "f").ok() == ""
    assert machine.files(*where) == before


# --- an upgrade while containers are created ------------------------------------------------------------------------

# Two loops of creates, one of them always through Python; whatever fails is counted
CREATES = """
cd "$1"
printf '{"process": {"env": ["A=1"]}}' >asked
for loop in warm cold; do
    mkdir -p "$loop"
    while [ ! -e stop ]; do
        test "$loop" = warm || rm -rf /run/shim
        cp asked "$loop/config.json"
        if /usr/bin/shim create --device "$2" --bundle "$loop" "$loop" >"$loop.out" 2>&1; then
            grep -q SHIM_TEST=one "$loop/config.json" && echo ok >>count || echo "no device" >>failed
        else
            cat "$loop.out" >>failed
        fi
    done &
done
sleep 1
status=0
for package in new old new old; do
    dpkg --no-triggers -i "$1/$package.deb" >>dpkg.out 2>&1 || status=$?
    grep -q kept /usr/lib/shim/launch && echo "launch names what was kept" >>failed
done
touch stop
wait
cat failed dpkg.out 2>/dev/null
exit $status
"""


# A create that is stopped where it opens its spec, behind which it loads the reader of YAML from the private directory
STOPPED = """
cd "$1"
rm -rf /run/shim
mkdir late
echo '{"process": {"env": ["A=1"]}}' >late/config.json
strace -f -o trace -P /etc/cdi/late.yaml -e trace=openat -e inject=openat:signal=SIGSTOP:when=1 \\
    /usr/bin/shim create --device late.example/a=b --bundle late late >late.out 2>&1 &
create=$!
until grep -q 'stopped by SIGSTOP' trace 2>/dev/null; do
    kill -0 $create || exit 100
    sleep 0.02
done
stopped=$(sed -n 's/^\\([0-9]*\\) .*stopped by SIGSTOP.*/\\1/p' trace)
dpkg --no-triggers -i new.deb >dpkg.out 2>&1 &
dpkg=$!
until test "$2" = awaited && grep -q kept /usr/lib/shim/launch; do
    kill -0 $dpkg 2>/dev/null || break
    sleep 0.02
done
kill -CONT $stopped
wait $create
status=$?
wait $dpkg || exit 101
cat late.out
exit $status
"""


def _with_revision(deb: Path, revision: str, target: Path, *, waits: bool = True) -> None:
    """The package as another release of the same: with a private directory of another name.

    Arguments:
        deb: the package.
        revision: of the other one.
        target: its file.
        waits: whether it has the script that keeps the old modules for the creates that began with them.
    """
    scratch = target.with_suffix(".d")
    subprocess.run(["dpkg-deb", "-R", deb, scratch], check=True)
    (tree,) = (path for path in (scratch / "usr/lib/shim").iterdir() if path.is_dir())
    old, new = f"{shim.__version__}-1", f"{shim.__version__}-{revision}"
    tree.rename(tree.with_name(tree.name.replace(old, new)))
    for path in (scratch / "usr/lib/shim/launch", *(scratch / "DEBIAN").iterdir()):
        path.write_text(path.read_text().replace(old, new))
    if not waits:
        (scratch / "DEBIAN/preinst").unlink()
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "-b", scratch, target], check=True)
    subprocess.run([sys.executable, "-B", TOP / "packaging/deb.py", target], check=True)


EARLIER = "33b1041"  # with debian/, and with other modules and another launcher than this tree


@pytest.fixture(scope="module")
def earlier(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that an earlier commit builds, as an earlier revision."""
    clone = tmp_path_factory.mktemp("earlier") / "clone"
    subprocess.run(["git", "clone", "-q", f"file://{TOP}", clone], check=True)
    subprocess.run(["git", "-C", clone, "checkout", "-q", EARLIER], check=True)
    changelog = clone / "debian/changelog"
    changelog.write_text(changelog.read_text().replace("-1)", "-0.1)", 1))
    (clone / "build").mkdir()
    for dependencies in deb.parent.parent.glob("dependencies-*"):  # the same lock: nothing is downloaded
        shutil.copytree(dependencies, clone / "build" / dependencies.name)
    tools = Path(sys.prefix)
    make("build/deb", f"VENV={tools}", "-o", f"{tools}/builder", cwd=clone)
    (package,) = (clone / "build/deb").glob("*.deb")
    return package


@pytest.fixture
def upgraded(machine: Machine, deb: Path) -> Iterator[Path]:
    """A directory of the machine, on which the package is installed as `old.deb`."""
    machine.forget()
    work = machine.sandbox.scratch / "upgrade"
    work.mkdir()
    shutil.copy(deb, work / "old.deb")
    machine.run("dpkg", "--no-triggers", "-i", work / "old.deb").ok()
    for name in ("shim", "shim-runc", "shim-crun"):
        machine.sandbox.link_low_level(name, f"{machine.sandbox.host}/runtime")
    yield work
    machine.forget()
    shutil.rmtree(work)


@pytest.mark.parametrize("waits", [True, False], ids=["our package", "the same without preinst"])
def test_a_create_that_began_before_an_upgrade_ends_with_its_own_modules(
    machine: Machine, deb: Path, upgraded: Path, waits: bool
) -> None:
    """It has loaded some, and dpkg removes the others: `preinst` waits for it. Without that script it fails."""
    _with_revision(deb, "2", upgraded / "new.deb", waits=waits)
    spec = "cdiVersion: 0.6.0\nkind: late.example/a\ndevices: [{name: b, containerEdits: {env: [LATE=one]}}]\n"
    machine.run("tee", "/etc/cdi/late.yaml", stdin=spec).ok()
    done = machine.run("sh", "-c", STOPPED, "stopped", upgraded, "awaited" if waits else "at once")
    assert ("LATE=one" in (upgraded / "late/config.json").read_text()) is waits, done.out
    assert done.status == (0 if waits else 1), done.out
    machine.run("rm", "/etc/cdi/late.yaml").ok()


def _upgrade(machine: Machine, work: Path, former: Path, later: Path) -> None:
    """Upgrade and downgrade under creates, none of which may fail."""
    shutil.copy(former, work / "old.deb")
    shutil.copy(later, work / "new.deb")
    machine.run("dpkg", "--no-triggers", "-i", work / "old.deb").ok()
    done = machine.run("sh", "-c", CREATES, "creates", work, NAME)
    assert done.status == 0, done.out
    assert not (work / "failed").exists(), done.out
    assert len((work / "count").read_text().splitlines()) > 20
    left = machine.run("ls", "/usr/lib/shim").ok().split()
    assert len(left) == 2, left  # launch, and one private directory


def test_no_create_fails_while_the_package_is_upgraded(
    machine: Machine, deb: Path, upgraded: Path, tmp_path: Path
) -> None:
    """dpkg removes the old modules while processes that began with them still load some."""
    _with_revision(deb, "2", tmp_path / "new.deb")
    _upgrade(machine, upgraded, deb, tmp_path / "new.deb")


@pytest.mark.nightly
def test_no_create_fails_while_the_package_of_an_earlier_commit_is_upgraded(
    machine: Machine, deb: Path, upgraded: Path, earlier: Path
) -> None:
    """Modules and launcher of two versions differ, so that a mixture of both would fail."""
    _upgrade(machine, upgraded, earlier, deb)
