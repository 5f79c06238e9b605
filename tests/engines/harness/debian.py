"""Engines of newer Debians for the nightly run: packages unpacked into build/; the system's apt stays as it is.

In a sandbox their /usr lies over the machine's (Debian 12): what the packages have, libc among it, is theirs, and all
else, Python 3.11 for example, is as it was.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Literal

from .sandbox import Sandbox

# sid has the newest Docker that Debian has
Release = Literal["trixie", "sid"]

BUILD = Path(__file__).parent.parent.parent.parent / "build"
_DOCKER = ("docker.io", "docker-cli", "docker-buildx", "docker-compose", "runc")
PACKAGES: dict[Release, tuple[str, ...]] = {
    "trixie": (*_DOCKER, "podman", "crun", "conmon", "netavark"),
    "sid": _DOCKER,
}
SOURCES = ("/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").glob("*")))
ARCHIVE = re.compile(r"https?://[^\s\]]*/debian/?(?=\s)")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Of sid an archive may have an older state, whose signature is good but whose date has passed
CONFIG = """\
Dir "{0}/apt"; Dir::Etc "{0}/apt/etc"; Dir::State "{0}/apt/state"; Dir::Cache "{0}/apt/cache";
Dir::State::status "{0}/apt/state/status";
APT::Sandbox::User "root"; APT::Install-Recommends "false"; Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
"""


def root(release: Release) -> Path:
    """The directory with the unpacked packages, made by the first call; without an archive CalledProcessError."""
    top = BUILD / release
    made = top / "root"
    if made.is_dir():
        return made
    for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
        (top / "apt" / name).mkdir(parents=True, exist_ok=True)
    (top / "apt/state/status").touch()
    texts = [Path(file).read_text(encoding="utf-8") for file in SOURCES if Path(file).is_file()]
    archive = ARCHIVE.findall("\n".join(texts))[0]
    (top / "apt/etc/sources.list").write_text(f"deb [signed-by={KEYS}] {archive} {release} main\n", encoding="ascii")
    (top / "apt.conf").write_text(CONFIG.format(top), encoding="ascii")
    environment = {**os.environ, "APT_CONFIG": str(top / "apt.conf")}
    for words in (["update"], ["-y", "--download-only", "install", *PACKAGES[release]]):
        subprocess.run(["apt-get", "-qq", *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    fresh = top / "root.new"
    for name in ("bin", "sbin", "lib", "lib64"):  # merged, as on every Debian 12: packages have the old names, too
        (fresh / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (fresh / name).is_symlink():
            (fresh / name).symlink_to(f"usr/{name}")
    for package in sorted((top / "apt/cache/archives").glob("*.deb")):
        contents = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
        command = ["tar", "-x", "-C", str(fresh), "--keep-directory-symlink"]
        subprocess.run(command, input=contents, check=True)
    return fresh.rename(made)


def cover(sandbox: Sandbox, upper: str, release: Release = "trixie") -> None:
    """Put the packages' /usr over that of a sandbox.

    Arguments:
        upper: the directory of the sandbox's own changes to /usr, which is an overlay.
        release: whose packages.
    """
    work = f"{upper}-work"
    sandbox.run("mkdir", work).ok()
    sandbox.run("umount", "--lazy", "/usr").ok()
    options = f"lowerdir={root(release)}/usr:/usr,upperdir={upper},workdir={work}"
    sandbox.run("mount", "-t", "overlay", "-o", options, "overlay", "/usr").ok()
