"""Debian packages for the image: fetched by the machine's apt, unpacked without their scripts, nothing installed.

apt gets directories of its own with an empty list of installed packages, so it fetches a package with all that it
depends on, and the machine's apt stays as it is. The archive and the suite are those of the machine, with the suite's
security updates, since the modules of shim are compiled for the Python of this suite.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = ("/etc/apt/sources.list", *map(str, sorted(Path("/etc/apt/sources.list.d").glob("*"))))
ARCHIVE = re.compile(r"https?://[^\s\]]*/debian(?:-security)?/?(?=\s)")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
MERGED = ("bin", "sbin", "lib", "lib64")  # links into /usr, where packages have the old names, too

_CONFIG = """\
Dir "{0}"; Dir::Etc "{0}/etc"; Dir::State "{0}/state"; Dir::Cache "{0}/cache"; Dir::State::status "{0}/state/status";
APT::Sandbox::User "root"; APT::Install-Recommends "false"; Acquire::Languages "none";
"""


def suite() -> str:
    """The code name of this machine's Debian; ends with a message on another distribution."""
    try:
        words = dict(
            line.split("=", 1) for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if line
        )
    except (OSError, ValueError):
        words = {}
    if words.get("ID", "").strip('"') != "debian" or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        sys.exit(
            "the image is made of Debian's packages by apt: run `make oci-image` on Debian, or in a container of it"
        )
    return words["VERSION_CODENAME"].strip('"')


def unpacked(names: list[str], directory: Path) -> tuple[Path, dict[str, str]]:
    """Fetch packages and unpack them.

    Arguments:
        names: of the packages; what they depend on comes, too.
        directory: a directory for apt and the result; what is there is used again, as far as it is still current.
    Returns:
        the root with their files, and name -> control file of every package.
    """
    apt = directory / "apt"
    for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "state/status").touch()
    (apt / "etc/sources.list").write_text(_sources(suite()), encoding="ascii")
    (apt / "apt.conf").write_text(_CONFIG.format(apt.absolute()), encoding="utf-8")
    environment = {**os.environ, "APT_CONFIG": str((apt / "apt.conf").absolute()), "LC_ALL": "C"}
    subprocess.run(["apt-get", "-qq", "update"], env=environment, stdout=subprocess.DEVNULL, check=True)
    words = ["apt-get", "-qq", "-y", "--download-only", "install", *names]
    archives = apt / "cache/archives"
    shutil.rmtree(archives / "partial", ignore_errors=True)
    (archives / "partial").mkdir()
    subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    listed = subprocess.run(
        [
            "apt-get",
            "-qq",
            "--print-uris",
            "--reinstall",
            "-o",
            "Dir::Cache::archives=/nonexistent/",
            "install",
            *names,
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    wanted = re.findall(r"^'[^']+' (\S+\.deb) ", listed, re.MULTILINE)
    root = directory / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    controls: dict[str, str] = {}
    for file in sorted(wanted):
        package = archives / file
        contents = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(root), "--keep-directory-symlink"], input=contents, check=True)
        control = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
        controls[control.partition("\n")[0].removeprefix("Package: ")] = control
    return root, controls


def _sources(name: str) -> str:
    """The lines of sources.list: the archive of this machine's own, and the security updates where it has them."""
    text = "\n".join(Path(file).read_text(encoding="utf-8") for file in SOURCES if Path(file).is_file())
    archives = dict.fromkeys(ARCHIVE.findall(text))
    lines = []
    for archive in archives:
        is_security = archive.rstrip("/").endswith("-security")
        lines.append(f"deb [signed-by={KEYS}] {archive} {name}{'-security' * is_security} main\n")
    if not lines:
        sys.exit(f"no archive of Debian is in {' or '.join(SOURCES)}")
    return "".join(lines)
