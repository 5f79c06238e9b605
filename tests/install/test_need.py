"""packaging/need.sh: what the targets of the Makefile need is tested for, and named by its package where it is missing.

The script runs with a directory in place of / and a PATH in which stand the tools that it uses itself and stand-ins for
gcc, Python and apt; each stand-in does only what its case needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from install.machine import TOP

DEBIAN = "ID=debian\nVERSION_ID=12\n"
UBUNTU = "ID=ubuntu\nID_LIKE=debian\n"
FEDORA = "ID=fedora\n"
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'
ARCH = "ID=arch\n"
MANJARO = "ID=manjaro\nID_LIKE=arch\n"
GENTOO = "ID=gentoo\n"

# gcc that has every header and library, or just headers
GCC = "#!/bin/sh\nexit 0\n"
GCC_WITHOUT_STATIC = '#!/bin/sh\ncase "$*" in *-static*) exit 1 ;; esac\ncat >/dev/null\n'
# Says that each package is known; installs by running ROOT/packages/NAME
APT_CACHE = "#!/bin/sh\ntest -e {root}/packages/$2\n"
APT_GET = """#!/bin/sh
echo "$@" >>{root}/apt
for word in "$@"; do
    case $word in
    install | update | -*) ;;
    *) sh {root}/packages/$word || exit 1 ;;
    esac
done
"""


class Machine:
    """A machine on which the script runs.

    Arguments:
        root: an empty directory.
        release: its /etc/os-release.
        user: what `id -u` prints there.
    """

    def __init__(self, root: Path, release: str, user: int = 4242) -> None:
        self.root = root
        self.bin = root / "opt/bin"
        self.bin.mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "etc/os-release").write_text(release)
        for name in ("sh", "awk", "cat", "cp", "dirname", "grep", "head", "mktemp", "rm", "sed", "tr"):
            program = shutil.which(name)
            assert program is not None
            (self.bin / name).symlink_to(program)
        self.program("id", f"#!/bin/sh\necho {user}\n")

    def program(self, name: str, text: str = "#!/bin/sh\n") -> None:
        """Put a program in PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def apt(self, **packages: str) -> None:
        """Have apt know packages: name -> the shell script that installs it; `_` stands for a hyphen."""
        (self.root / "packages").mkdir()
        for name, script in packages.items():
            (self.root / "packages" / name.replace("_", "-")).write_text(script)
        self.program("apt-cache", APT_CACHE.format(root=self.root))
        self.program("apt-get", APT_GET.format(root=self.root))

    def installed(self) -> list[str]:
        """The command lines that apt-get got."""
        log = self.root / "apt"
        return log.read_text().splitlines() if log.exists() else []

    def give_build(self) -> None:
        """All that a build needs."""
        self.program("gcc", GCC)
        self.program("python3")
        self.give_musl()

    def give_musl(self, *, start_files: bool = True) -> None:
        directory = self.root / "musl"
        directory.mkdir()
        if start_files:
            for name in ("rcrt1.o", "crti.o", "crtn.o", "libc.a"):
                (directory / name).touch()
        self.program("musl-gcc", f'#!/bin/sh\necho \' "ld" "{directory}/Scrt1.o" "{directory}/crti.o" "x"\' >&2\n')

    def need(self, target: str) -> subprocess.CompletedProcess[str]:
        """Run the script for a target."""
        return subprocess.run(
            ["sh", TOP / "packaging/need.sh", target],
            env={"PATH": str(self.bin), "ROOT": str(self.root), "PYTHON": "python3"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def test_where_all_is_there_nothing_is_said_whatever_brought_it(tmp_path: Path) -> None:
    """Packages were asked for by their name in Debian 12: a runc of another origin was installed over, or missed."""
    for number, release in enumerate((DEBIAN, FEDORA, ARCH, GENTOO)):
        machine = Machine(tmp_path / str(number), release)
        machine.give_build()
        machine.program("runc")
        machine.program("busybox", "static\n")
        done = machine.need("run")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), release


@pytest.mark.parametrize(
    ("release", "packages", "line"),
    [
        (UBUNTU, ("libcap-dev", "python3-venv", "runc"), "as root: apt-get install -y --no-install-recommends gcc "),
        (FEDORA, ("libcap-devel", "glibc-static", "runc"), "as root: dnf install gcc "),
        (ROCKY, ("libcap-devel", "glibc-static", "runc"), "as root: dnf install gcc "),
        (ARCH, ("libcap", "glibc", "runc"), "as root: pacman -S --needed gcc "),
        (MANJARO, ("libcap", "glibc", "runc"), "as root: pacman -S --needed gcc "),
    ],
    ids=["Ubuntu", "Fedora", "Rocky", "Arch", "Manjaro"],
)
def test_what_is_missing_is_named_by_its_package(
    tmp_path: Path, release: str, packages: tuple[str, ...], line: str
) -> None:
    done = Machine(tmp_path / "root", release).need("run")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    for package in packages:
        assert any(line.endswith(f" (package {package})") for line in lines), package
        assert package in lines[-1].split()
    assert "  the header sys/capability.h (package " in done.stderr
    assert lines[-1].startswith(line)
    assert len(lines[-1].split()) == len(set(lines[-1].split())), "each package once"


def test_on_another_distribution_it_is_named_without_a_package(tmp_path: Path) -> None:
    done = Machine(tmp_path / "root", GENTOO).need("run")
    assert done.returncode == 1
    assert "\n  the program runc\n" in done.stderr
    assert "package" not in done.stderr


def test_root_of_debian_gets_what_is_missing_and_sees_the_line_first(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", DEBIAN, user=0)
    machine.give_build()
    machine.program("busybox", "static\n")
    machine.apt(runc=f"cp {machine.bin}/id {machine.bin}/runc")
    done = machine.need("run")
    assert done.stdout == "apt-get install -y --no-install-recommends runc\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.installed() == ["update -qq", "install -y --no-install-recommends runc -qq"]


def test_nobody_but_root_of_debian_installs(tmp_path: Path) -> None:
    for number, (release, user) in enumerate(((DEBIAN, 4242), (FEDORA, 0), (ARCH, 0), (GENTOO, 0))):
        machine = Machine(tmp_path / str(number), release, user)
        machine.apt()
        assert machine.need("run").returncode == 1
        assert machine.installed() == [], release


def test_what_a_package_did_not_bring_is_still_missing(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", DEBIAN, user=0)
    machine.give_build()
    machine.program("busybox", "static\n")
    machine.apt(runc="true")
    done = machine.need("run")
    assert (done.returncode, "  the program runc (package runc)\n" in done.stderr) == (1, True)


def test_a_package_that_has_another_name_in_a_later_debian_is_taken_by_the_name_that_apt_knows(tmp_path: Path) -> None:
    """Debian 13 has docker's command in docker-cli, Debian 12 in docker.io."""
    for number, (known, name) in enumerate((({"docker_cli": "true"}, "docker-cli"), ({}, "docker.io"))):
        machine = Machine(tmp_path / str(number), DEBIAN)
        machine.apt(**known)
        assert f"  the program docker in /usr (package {name})\n" in machine.need("test").stderr


def test_the_engines_of_the_tests_are_those_of_the_distribution(tmp_path: Path) -> None:
    """The engine tests start /usr/bin/podman: one elsewhere in PATH does not help them."""
    machine = Machine(tmp_path / "root", FEDORA)
    machine.program("podman")
    assert "  the program podman in /usr (package podman)\n" in machine.need("test").stderr
    (machine.root / "usr/bin").mkdir(parents=True)
    (machine.root / "usr/bin/podman").touch()
    assert "podman" not in machine.need("test").stderr


@pytest.mark.parametrize(("release", "status"), [(DEBIAN, 1), (UBUNTU, 1), (FEDORA, 0)])
def test_a_debian_package_is_built_where_dpkg_has_what_every_build_may_use(
    tmp_path: Path, release: str, status: int
) -> None:
    """dpkg-buildpackage refused in an empty Debian, where `make deb` had installed a compiler and all else."""
    machine = Machine(tmp_path / "root", release)
    machine.give_build()
    programs = [f"usr/bin/{name}" for name in ("dpkg-buildpackage", "dh", "lintian", "meson")]
    for path in (*programs, "usr/lib/python3/dist-packages/cffi/__init__.py"):
        (machine.root / path).parent.mkdir(parents=True, exist_ok=True)
        (machine.root / path).touch()
    done = machine.need("deb")
    assert done.returncode == status
    assert (" (package build-essential)\n" in done.stderr) == bool(status)
    (machine.root / "usr/share/build-essential").mkdir(parents=True)
    (machine.root / "usr/share/build-essential/list").touch()
    assert (machine.need("deb").returncode, machine.need("deb").stderr) == (0, "")


@pytest.mark.parametrize(
    ("release", "package"),
    [(DEBIAN, "rpm"), (FEDORA, "rpm-build"), (ARCH, "rpm-tools")],
    ids=["Debian", "Fedora", "Arch"],
)
def test_an_rpm_is_built_by_the_programs_of_the_distribution(tmp_path: Path, release: str, package: str) -> None:
    machine = Machine(tmp_path / "root", release)
    machine.give_build()
    done = machine.need("rpm")
    assert f"  the program rpmbuild in /usr (package {package})\n" in done.stderr
    assert "  the program meson in /usr (package meson)\n" in done.stderr
    for path in ("usr/bin/rpmbuild", "usr/bin/meson", "usr/lib/python3/dist-packages/cffi/__init__.py"):
        (machine.root / path).parent.mkdir(parents=True, exist_ok=True)
        (machine.root / path).touch()
    assert (machine.need("rpm").returncode, machine.need("deb").returncode) == (0, 1)


@pytest.mark.parametrize("start_files", [True, False], ids=["with its start files", "without"])
def test_a_build_can_do_without_musl(tmp_path: Path, start_files: bool) -> None:
    """musl-gcc was taken where its start files were missing or lay elsewhere than in Debian, and the build failed."""
    machine = Machine(tmp_path / "root", FEDORA)
    machine.program("gcc", GCC)
    machine.program("python3")
    machine.give_musl(start_files=start_files)
    done = machine.need("build")
    assert done.returncode == 0
    assert ("note: musl-gcc and its start files would make the launcher start faster" in done.stderr) != start_files


def test_it_needs_one_c_library_for_static_programs(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", FEDORA)
    machine.program("gcc", GCC_WITHOUT_STATIC)
    machine.program("python3")
    assert "  the static C library (package glibc-static)\n" in machine.need("build").stderr
    machine.give_musl()
    assert machine.need("build").returncode == 0


def test_a_busybox_that_needs_libraries_of_the_host_is_none_for_a_container(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", DEBIAN)
    machine.give_build()
    machine.program("runc")
    machine.program("busybox", "\0/lib64/ld-linux-x86-64.so.2\0")
    assert "a busybox that is linked statically (package busybox-static)" in machine.need("run").stderr


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", FEDORA)
    machine.give_build()
    machine.program("python3", '#!/bin/sh\ncase "$*" in *print*) echo 3.9.2 ;; *version_info*) exit 1 ;; esac\n')
    done = machine.need("build")
    text = "Python 3.10 or later is needed, and python3 is 3.9.2: make PYTHON=/path/to/a/newer/python3\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", text), "no package is installed in vain"


def test_where_no_python_is_its_package_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", DEBIAN)
    machine.give_build()
    (machine.bin / "python3").unlink()
    assert "  Python 3.10 or later (python3) (package python3)\n" in machine.need("build").stderr


def test_a_target_that_it_does_not_know_is_refused(tmp_path: Path) -> None:
    assert Machine(tmp_path / "root", DEBIAN).need("coffee").returncode == 2
    assert os.access(TOP / "packaging/need.sh", os.X_OK)
