"""Five ways to install, each from an empty root of a distribution: it works there, and its removal leaves nothing.

    deb, rpm, wheel    in a root with the distribution's Python and no compiler
    make, meson        in a root that first gets what README.md and packaging/README.md name, and a clone of the last
                       commit; the packages are built there, too, once for a distribution

Whatever a way may leave is named with it. The dependencies of the wheel come from the package index, as for a user.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from install.emptyroot import LISTING, NAME, differences, equip, listing, size, write
from install.machine import TOP, load
from matrix import roots
from matrix.roots import Machine

import shim

SIZES = load("sizes")

APT = ("apt-get", "-qq", "-y", "--no-install-recommends")
# Caches of apt, its log and that of dpkg, and the files of dpkg's database that are written anew by each use
OF_APT = ("/var/cache/apt*", "/var/lib/apt/*", "/var/log/apt*", "/var/log/dpkg.log", "/var/log/alternatives.log")
OF_DPKG = ("/var/lib/dpkg/lock*", "/var/lib/dpkg/status*", "/var/lib/dpkg/triggers/*", "/var/cache/debconf/*")
OF_RPM = ("/root/.rpmdb*", "/var/lib/rpm*")  # where the rpm of Debian 12, and that of Debian 13, has its database
OF_PIP = ("/root/.cache*",)
LOG = "/var/log/shim.log"  # what the program wrote stays, but for a purge of the Debian package

# The hook, as a command for a tree: the cache of this root's own ldconfig
CACHE = """
set -e
mkdir -p /tmp/a/etc /tmp/a/usr/lib
cp -a /etc/ld.so.conf /etc/ld.so.conf.d /tmp/a/etc
for directory in /usr/lib/*-linux-gnu; do
    mkdir "/tmp/a$directory"
    cp -a "$directory"/*.so* "/tmp/a$directory"
done
ln -s usr/lib /tmp/a/lib
cp -a /tmp/a /tmp/b
ldconfig -r /tmp/a
"$1" hook update-ldcache --root /tmp/b
cmp /tmp/a/etc/ld.so.cache /tmp/b/etc/ld.so.cache
"""


@dataclass(frozen=True)
class Built:
    """What was built for a distribution.

    Arguments:
        machine: where it was built, with a clone in /src.
        packages: a directory with the packages and the wheel.
    """

    machine: Machine
    packages: Path


@dataclass(frozen=True)
class Way:
    """A way to install.

    Arguments:
        install: the commands that do it, of which those with `online` use the network.
        remove: the commands that undo it.
        program: the launcher that is there then.
        share: the directory of manual pages and completion; "" where the way brings none.
        spared: what may differ afterwards.
        source: whether it is in the root with the source.
        prepare: what a user installs first, which stays.
    """

    install: Callable[[Machine], object]
    remove: Callable[[Machine], object]
    program: str
    share: str
    spared: tuple[str, ...] = ()
    source: bool = False
    prepare: tuple[str, ...] = ()


def _shell(text: str, *, online: bool = False, cwd: str = "/") -> Callable[[Machine], object]:
    return lambda machine: machine.ok("sh", "-ec", text, online=online, cwd=cwd)


WAYS = {
    "deb": Way(
        install=_shell(f"{' '.join(APT)} install /given/cdi-shim_*.deb", online=True),
        remove=_shell(f"{' '.join(APT)} purge cdi-shim"),
        program="/usr/bin/shim",
        share="/usr/share",
        spared=(*OF_APT, *OF_DPKG),
    ),
    "rpm": Way(  # its database is empty there: what dpkg installed counts for nothing
        install=_shell("rpm -i --nodeps /given/cdi-shim-*.rpm"),
        remove=_shell("rpm -e --nodeps cdi-shim cdi-shim-modules"),
        program="/usr/bin/shim",
        share="/usr/share",
        spared=(*OF_RPM, LOG),
        prepare=("rpm",),
    ),
    "wheel": Way(
        install=_shell("python3 -m venv /opt/shim && /opt/shim/bin/pip install -q /given/*.whl", online=True),
        remove=_shell("/opt/shim/bin/pip uninstall -q -y cdi-shim && test ! -e /opt/shim/bin/shim && rm -r /opt/shim"),
        program="/opt/shim/bin/shim",
        share="",
        spared=(*OF_PIP, LOG),
    ),
    "make": Way(
        install=_shell("make install", cwd="/src"),
        remove=_shell("make uninstall", cwd="/src"),
        program="/usr/local/bin/shim",
        share="/usr/local/share",
        spared=(LOG,),
        source=True,
    ),
    "meson": Way(
        install=_shell("meson setup --prefix=/usr --sysconfdir=/etc plain && meson install -C plain", cwd="/src"),
        remove=_shell("python3 packaging/install.py uninstall --prefix=/usr", cwd="/src"),
        program="/usr/bin/shim",
        share="/usr/share",
        spared=(LOG,),
        source=True,
        prepare=("python3-click", "python3-rich", "python3-yaml", "python3-cffi", "meson"),
    ),
}
# Pattern of a package -> what unpacks it
UNPACK = {
    "cdi-shim_*.deb": 'dpkg-deb -x "$1" /tmp',
    "cdi-shim-[0-9]*-1.*.rpm": 'rpm2archive - <"$1" | tar -C /tmp -xz',
    "cdi-shim-modules-*-1.*.rpm": 'rpm2archive - <"$1" | tar -C /tmp -xz',
}
# The bytes of all files, and of the launcher if there is one
SUM = """
{unpack}
find /tmp -type f -printf '%s\\n' | awk '{{ sum += $1 }} END {{ print sum }}'
find /tmp -path /tmp/usr/bin/shim -printf '%s\\n'
"""
SHARED = (
    "man/man1/shim.1",
    "man/man1/shim-cdi.1",
    "bash-completion/completions/shim",
    "fish/vendor_completions.d/shim.fish",
)
ZSH = ("zsh/site-functions/_shim", "zsh/vendor-completions/_shim")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def built(request: pytest.FixtureRequest, portable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """A root with the source, where the packages were built by `make deb` and `make rpm`."""
    packages = tmp_path_factory.mktemp(f"packages-{request.param}")
    with Machine(roots.make(request.param)) as machine:
        equip(machine)
        machine.ok(*APT, "install", "make", "git", online=True)
        subprocess.run(["git", "clone", "-q", f"file://{TOP}", machine.upper / "src"], check=True)
        machine.ok("make", "deb", "rpm", "LAYOUT=private", online=True, cwd="/src")
        for path in (machine.upper / "src/dist").iterdir():
            if path.suffix in {".deb", ".rpm"} and not path.name.endswith(".src.rpm"):
                (packages / path.name).write_bytes(path.read_bytes())
        for path in portable.glob("*.whl"):
            (packages / path.name).write_bytes(path.read_bytes())
        yield Built(machine, packages)


@pytest.fixture
def empty(built: Built) -> Iterator[Machine]:
    """An empty root of the same distribution, which sees the packages in /given."""
    with Machine(built.machine.root, {str(built.packages): "/given"}) as machine:
        equip(machine)
        assert machine.run("sh", "-c", "command -v gcc cc clang").stdout == "", "there is a compiler"
        yield machine


def assert_works(machine: Machine, way: Way) -> None:
    """A first container, with the hook, as the documents describe them."""
    program = way.program
    assert machine.ok(program, "version").startswith(f"shim {shim.__version__}\n")
    assert NAME in machine.ok(program, "cdi", "list")
    write(machine, "/bundle/config.json", json.dumps({"process": {"env": ["A=1"]}, "root": {"path": "rootfs"}}))
    created = machine.ok(program, "create", "--device", NAME, "--bundle", "/bundle", "c1")
    assert created == "reached: create --bundle /bundle c1\n"
    config: dict[str, Any] = json.loads((machine.upper / "bundle/config.json").read_bytes())
    assert config["process"]["env"] == ["A=1", "SHIM_TEST=one"]
    machine.ok("sh", "-ec", CACHE, "sh", program)
    cache = machine.upper / "bundle/rootfs/etc/ld.so.cache"
    cache.unlink(missing_ok=True)
    machine.ok("sh", "-c", f"{program} hook update-ldcache --folder /opt/lib </bundle/state.json")
    assert b"libz.so.1\0" in cache.read_bytes()
    doctor = machine.run(program, "doctor", "-o", "json")
    assert doctor.returncode in {0, 1}, doctor.stdout
    assert json.loads(doctor.stdout), "doctor reports nothing"
    assert 0 < size(machine, program) <= SIZES.LIMIT
    if way.share:
        there = machine.upper / way.share.lstrip("/")
        names = {str(path.relative_to(there)).removesuffix(".gz") for path in there.rglob("*") if path.is_file()}
        assert set(SHARED) <= names
        assert names & set(ZSH)


@pytest.mark.engine
@pytest.mark.nightly
@pytest.mark.parametrize("name", WAYS)
def test_it_installs_works_and_leaves_nothing(request: pytest.FixtureRequest, built: Built, name: str) -> None:
    way = WAYS[name]
    machine = built.machine if way.source else request.getfixturevalue("empty")
    if way.prepare:
        machine.ok(*APT, "install", *way.prepare, online=True)
    before = listing(machine)
    assert not any(path.endswith("/bin/shim") for path in before)
    way.install(machine)
    assert_works(machine, way)
    assert len(differences(before, listing(machine), way.spared)) > 100, "nothing was installed"
    way.remove(machine)
    assert differences(before, listing(machine), way.spared) == []


@pytest.mark.engine
@pytest.mark.nightly
def test_the_sizes_of_packages_are_those_of_their_files(built: Built) -> None:
    """By the tools that unpack them."""
    printed = built.machine.ok("python3", "packaging/sizes.py", "build/image", "dist", cwd="/src")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    by_file = {row[1]: row[2:] for row in rows}
    for pattern, unpack in UNPACK.items():
        (package,) = built.packages.glob(pattern)
        sizes = built.machine.ok("sh", "-ec", SUM.format(unpack=unpack), "sh", package.name, cwd="/src/dist").split()
        assert by_file[str(package.stat().st_size)] == [sizes[0], "".join(sizes[1:])]
        assert "modules" in pattern or 0 < int(sizes[1]) <= SIZES.LIMIT


# The packages as the next release
NEXT = """
tar -C /tmp -xf dist/cdi_shim-*.tar.gz
cd /tmp
sed -i 's/^Release: 1$/Release: 2/' cdi_shim-*/packaging/shim.spec
directory=$(echo cdi_shim-*)
tar -czf "$directory.tar.gz" "$directory"
PATH=/usr/sbin:/usr/bin:/sbin:/bin /src/packaging/rpm.sh "$directory.tar.gz" /src/next /src/build/dependencies-*
"""

# Creates by a launcher, with Python each time, until `stop` is there; whatever fails is kept
CREATES = """
cd /bundle
while [ ! -e stop ]; do
    rm -rf /run/shim
    printf '{"process": {"env": ["A=1"]}}' >config.json
    if /usr/bin/shim create --device "$1" --bundle . c1 >out 2>&1 && grep -q SHIM_TEST=one config.json; then
        echo ok >>count
    else
        cat out config.json >>failed
    fi
done &
for release in 2 1 2; do
    rpm -U --oldpackage --nodeps /given/cdi-shim-*-$release.*.rpm /given/cdi-shim-modules-*-$release.*.rpm
done
touch stop
wait
"""


@pytest.mark.engine
@pytest.mark.nightly
def test_no_create_fails_while_the_rpm_packages_are_upgraded(built: Built, empty: Machine) -> None:
    """rpm renames the files of a package in the order of their names: the launcher would come before its modules."""
    built.machine.ok("sh", "-ec", NEXT, cwd="/src")
    for path in (built.machine.upper / "src/next").glob("*-2.*.rpm"):
        if not path.name.endswith(".src.rpm"):
            (built.packages / path.name).write_bytes(path.read_bytes())
    empty.ok(*APT, "install", "rpm", online=True)
    # the launcher first on the command line
    empty.ok("sh", "-ec", "rpm -i --nodeps /given/cdi-shim-*-1.*.rpm /given/cdi-shim-modules-*-1.*.rpm")
    empty.ok("sh", "-ec", CREATES, "sh", NAME)
    bundle = empty.upper / "bundle"
    assert not (bundle / "failed").exists(), (bundle / "failed").read_text()
    assert len((bundle / "count").read_text().splitlines()) > 20
    # a rename is the last change of a file that rpm installs
    launch, launcher = (empty.upper / f"usr/{name}" for name in ("lib/shim/launch", "bin/shim"))
    assert launch.stat().st_ctime_ns < launcher.stat().st_ctime_ns
    assert len(list((empty.upper / "usr/lib/shim").iterdir())) == 2, "launch, and one private directory"


@pytest.mark.parametrize("kind", ["a file", "an empty directory", "a mode", "a content", "a link", "one less"])
def test_a_list_shows_what_was_left(tmp_path: Path, kind: str) -> None:
    """The control of the comparison: each kind of change is a difference, and what is spared is none."""
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/program").write_text("1")
    (root / "link").symlink_to("usr")
    before = _listing(root)
    assert _listing(root) == before
    if kind == "a file":
        (root / "usr/left").touch()
    elif kind == "an empty directory":
        (root / "usr/share").mkdir()
    elif kind == "a mode":
        (root / "usr/bin").chmod(0o700)
    elif kind == "a content":
        (root / "usr/bin/program").write_text("2")
    elif kind == "a link":
        (root / "link").unlink()
        (root / "link").symlink_to("usr/bin")
    else:
        (root / "usr/bin/program").unlink()
    after = _listing(root)
    assert len(differences(before, after)) == 1
    assert differences(before, after, ("/usr/*", "/link")) == []
    assert len(differences(before, after, ("/usr/share/*",))) == 1


def _listing(root: Path) -> dict[str, str]:
    words = [sys.executable, "-I", "-S", "-c", LISTING, str(root), "/proc"]
    found: dict[str, str] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return found
