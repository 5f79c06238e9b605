"""The Debian package in the layout of each suite: built there, clean by its lintian, installed by apt in an empty root.

Roots are made once (matrix.roots). The libraries come from this machine's directory of them, as `make deb` passes it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from install.emptyroot import NAME, equip, write
from install.machine import TOP, load, make
from matrix import roots
from matrix.roots import Machine

import shim

LAYOUTS = TOP / "debian/layouts"
# What dpkg-buildpackage asks for in either layout, and lintian
BUILD = (
    *("build-essential", "debhelper", "libcap-dev", "lintian", "meson", "musl-tools", "python3-cffi", "python3-click"),
    *("python3-dev", "python3-prctl", "python3-rich", "python3-yaml"),
)
CODENAMES = {"sid": "forky"}
SUITES = {"Debian 12": "bookworm", "Debian 13": "trixie", "Debian sid": "sid"}
DIST_PACKAGES = "/usr/lib/python3/dist-packages"
YAML = "kind: example.com/yaml\ncdiVersion: 0.6.0\ndevices: [{name: one, containerEdits: {env: [SHIM_TEST=one]}}]\n"
IN_YAML = "example.com/yaml=one"
IMPORTS = """
import sys
from shim import start
sys.path += start.LIBRARIES
import shim.hooks.interfaces, click, prctl, pynvml, pyroute2, rich, yaml
for module in (pyroute2, pynvml, click, yaml, prctl):
    print(module.__name__, module.__file__)
"""


class Built(NamedTuple):
    """The package of a suite, what its build printed, and what lintian of that suite did."""

    suite: str
    package: Path
    printed: str
    lintian: subprocess.CompletedProcess[str]


def listed() -> dict[str, tuple[str, ...]]:
    """Codename -> its layout, and what is bundled for it."""
    lines = (line.split() for line in LAYOUTS.read_text().splitlines() if not line.startswith("#"))
    return {suite: tuple(words) for suite, *words in lines}


def test_the_table_for_distributors_is_the_one_that_packages_are_built_by() -> None:
    rows = re.findall(
        r"^\| (Debian \w+) \| [\d.]+ \| (private|distribution)(?:, with (.*?) bundled)? \|", _readme(), re.MULTILINE
    )
    shown = {
        CODENAMES.get(SUITES[name], SUITES[name]): (layout, *bundled.split(" and ")) for name, layout, bundled in rows
    }
    assert {suite: tuple(filter(None, words)) for suite, words in shown.items()} == listed()


def _readme() -> str:
    return (TOP / "packaging/README.md").read_text(encoding="utf-8")


def test_libraries_that_are_bundled_are_locked() -> None:
    names = {line.partition("==")[0] for line in (TOP / "packaging/lock.txt").read_text().splitlines() if "==" in line}
    assert {name for _, *bundled in listed().values() for name in bundled} <= names


@pytest.mark.parametrize("path", ["pyroute2/__init__.py", "pynvml.py", "_cffi_backend.cpython-313-x86_64-linux-gnu.so"])
def test_what_a_bundle_lacks_is_searched_where_this_python_has_it(tmp_path: Path, path: str) -> None:
    """Any bundle counted as one of everything, so the layout of the distribution found no library."""
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).touch()
    meson_install = load("meson_install")
    assert Path(click.__file__).parent.parent in map(Path, meson_install.libraries(tmp_path))
    for name in (*meson_install.NEEDED, *meson_install.NEEDED_BELOW_3_11, *meson_install.WISHED):
        (tmp_path / f"{name}.py").touch()
    assert meson_install.libraries(tmp_path) == []


# --- built and installed in each suite ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources() -> tuple[Path, Path]:
    """The source archive of this tree, and the directory with all libraries."""
    make("build/deb")
    (archive,) = (TOP / "build/source").glob("*.tar.gz")
    (dependencies,) = (path for path in (TOP / "build").glob("dependencies-*") if path.suffix != ".new")
    return archive, dependencies


@pytest.fixture(scope="module", params=list(SUITES.values()))
def built(
    request: pytest.FixtureRequest, sources: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Built:
    """The package of a suite, by `packaging/deb.sh` there."""
    suite: str = request.param
    archive, dependencies = sources
    with Machine(roots.make(suite, "deb", BUILD)) as machine:
        machine.copy(archive, f"/{archive.name}")
        machine.ok("tar", "-xf", f"/{archive.name}", "-C", "/mnt")
        shutil.copytree(dependencies, machine.upper / "dependencies")
        script = f"/mnt/cdi_shim-{shim.__version__}/packaging/deb.sh"
        printed = machine.ok(script, f"/{archive.name}", "/out", "/dependencies")
        (changes,) = (machine.upper / "out").glob("*.changes")
        lintian = machine.run("lintian", "--allow-root", "--fail-on", "error,warning", f"/out/{changes.name}")
        (package,) = (machine.upper / "out").glob("*.deb")
        kept = shutil.copy(package, tmp_path_factory.mktemp(suite))
    return Built(suite, Path(kept), printed, lintian)


@pytest.mark.engine
@pytest.mark.nightly
def test_a_suite_gets_its_layout(built: Built) -> None:
    layout, *bundled = listed()[CODENAMES.get(built.suite, built.suite)]
    expected = f"layout: {layout}" + (f", with {' '.join(bundled)} bundled" if bundled else "")
    assert built.printed.splitlines()[0] == expected


@pytest.mark.engine
@pytest.mark.nightly
def test_lintian_of_the_suite_has_no_objection(built: Built) -> None:
    assert built.lintian.returncode == 0, built.lintian.stdout


@pytest.fixture(scope="module")
def installed(built: Built) -> Iterator[Machine]:
    """An empty root of the suite in which apt has installed the package with all that it depends on."""
    with Machine(roots.make(built.suite)) as machine:
        machine.copy(built.package, "/cdi-shim.deb")
        machine.ok("apt-get", "install", "-y", "-qq", "--no-install-recommends", "/cdi-shim.deb", online=True)
        equip(machine)
        write(machine, "/etc/cdi/yaml.yaml", YAML)
        yield machine


def _create(machine: Machine, name: str) -> str:
    """What a create prints; the container has asked for a device by this name."""
    write(machine, "/bundle/config.json", json.dumps({"process": {"env": ["A=1"]}}))
    words = ("/usr/bin/shim", "create", "--device", name, "--bundle", "/bundle", "c1")
    return machine.run(*words).stdout


@pytest.mark.engine
@pytest.mark.nightly
def test_the_command_runs_with_the_libraries_of_the_suite(installed: Machine) -> None:
    assert installed.ok("shim", "version").startswith(f"shim {shim.__version__}")
    assert NAME in installed.ok("shim", "cdi", "list")
    assert IN_YAML in installed.ok("shim", "cdi", "list")
    assert installed.run("shim", "doctor").returncode in (0, 1)
    assert "INTERNAL" not in installed.run("shim", "doctor").stdout


@pytest.mark.engine
@pytest.mark.nightly
def test_libraries_come_from_where_the_layout_has_them(installed: Machine, built: Built) -> None:
    layout, *_ = listed()[CODENAMES.get(built.suite, built.suite)]
    (tree,) = (path for path in (installed.upper / "usr/lib/shim").iterdir() if path.is_dir())
    private = f"/usr/lib/shim/{tree.name}"
    script = f"import sys\nsys.path.insert(0, {private!r})\n{IMPORTS}"
    printed = installed.ok("/usr/bin/python3", "-I", "-S", "-B", "-c", script)
    where = dict(line.split() for line in printed.splitlines())
    ours = {name for name, path in where.items() if path.startswith(f"{private}/")}
    assert ours == ({"pyroute2", "pynvml"} if layout == "distribution" else set(where))
    assert {
        path for name, path in where.items() if name not in ours if not path.startswith(f"{DIST_PACKAGES}/")
    } == set()


@pytest.mark.engine
@pytest.mark.nightly
def test_a_create_needs_nothing_of_the_distribution_but_for_yaml(installed: Machine, built: Built) -> None:
    layout, *_ = listed()[CODENAMES.get(built.suite, built.suite)]
    installed.ok("mv", DIST_PACKAGES, f"{DIST_PACKAGES}.away")
    installed.ok("rm", "/etc/cdi/yaml.yaml")
    assert _create(installed, NAME) == "reached: create --bundle /bundle c1\n"
    write(installed, "/etc/cdi/yaml.yaml", YAML)
    reached = "reached: create --bundle /bundle c1\n"
    assert (_create(installed, IN_YAML) == reached) is (layout == "private"), "the control: a YAML spec needs PyYAML"
    installed.ok("mv", f"{DIST_PACKAGES}.away", DIST_PACKAGES)
    assert _create(installed, IN_YAML) == reached
    assert "SHIM_TEST=one" in (installed.upper / "bundle/config.json").read_text()


@pytest.mark.engine
@pytest.mark.nightly
def test_its_hook_writes_the_cache(installed: Machine) -> None:
    installed.ok("mkdir", "-p", "/tree/etc", "/tree/usr/lib")
    installed.ok("sh", "-c", "cp -L /lib/*-linux-gnu/libc.so.6 /tree/usr/lib/")
    installed.ok("shim", "hook", "update-ldcache", "--root", "/tree")
    assert (installed.upper / "tree/etc/ld.so.cache").stat().st_size > 0


@pytest.mark.engine
@pytest.mark.nightly
def test_nothing_is_left_when_it_is_purged(installed: Machine) -> None:
    """The last of the tests of a suite."""
    there = (
        "sh",
        "-c",
        "find /usr /var /run /etc -path /usr/local -prune -o -iname '*shim*' -print | grep -v -e dpkg/info -e /cffi/",
    )
    assert installed.run(*there).stdout != ""
    installed.ok("apt-get", "purge", "-y", "-qq", "cdi-shim")
    installed.ok("rm", "-rf", "/var/cache/apt/archives")
    assert installed.run(*there).stdout == ""
