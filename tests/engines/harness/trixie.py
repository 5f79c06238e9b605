"""Engines of Debian 13 for the nightly run: its packages unpacked into build/trixie; the system's apt stays as it is.

In a sandbox their /usr lies over the machine's (Debian 12): what the packages have, libc among it, is theirs, and all
else, Python 3.11 for example, is as it was.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from .sandbox import Sandbox

TOP = Path(__file__).parent.parent.parent.parent / "build/trixie"
PACKAGES = ("docker.io", "docker-cli", "podman", "crun", "runc", "conmon", "netavark")
SOURCES = ("/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").glob("*")))
ARCHIVE = re.compile(r"https?://[^\s\]]*/debian/?(?=\s)")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

CONFIG = """\
Dir "{0}/apt"; Dir::Etc "{0}/apt/etc"; Dir::State "{0}/apt/state"; Dir::Cache "{0}/apt/cache";
Dir::State::status "{0}/apt/state/status";
APT::Sandbox::User "root"; APT::Install-Recommends "false"; Acquire::Languages "none";
"""


def root() -> Path:
    """The directory with the unpacked packages, made by the first call; without an archive CalledProcessError."""
    made = TOP / "root"
    if made.is_dir():
        return made
    for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
        (TOP / "apt" / name).mkdir(parents=True, exist_ok=True)
    (TOP / "apt/state/status").touch()
    texts = [Path(file).read_text(encoding="utf-8") for file in SOURCES if Path(file).is_file()]
    archive = ARCHIVE.findall("\n".join(texts))[0]
    (TOP / "apt/etc/sources.list").write_text(f"deb [signed-by={KEYS}] {archive} trixie main\n", encoding="ascii")
    (TOP / "apt.conf").write_text(CONFIG.format(TOP), encoding="ascii")
    environment = {**os.environ, "APT_CONFIG": str(TOP / "apt.conf")}
    for words in (["update"], ["-y", "--download-only", "install", *PACKAGES]):
        subprocess.run(["apt-get", "-qq", *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    fresh = TOP / "root.new"
    for name in ("bin", "sbin", "lib", "lib64"):  # merged, as on every Debian 12: packages have the old names, too
        (fresh / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (fresh / name).is_symlink():
            (fresh / name).symlink_to(f"usr/{name}")
    for package in sorted((TOP / "apt/cache/archives").glob("*.deb")):
        contents = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
        command = ["tar", "-x", "-C", str(fresh), "--keep-directory-symlink"]
        subprocess.run(command, input=contents, check=True)
    return fresh.rename(made)


def cover(sandbox: Sandbox, upper: str) -> None:
    """Put the packages' /usr over that of a sandbox.

    Arguments:
        upper: the directory of the sandbox's own changes to /usr, which is an overlay.
    """
    work = f"{upper}-work"
    sandbox.run("mkdir", work).ok()
    sandbox.run("umount", "--lazy", "/usr").ok()
    options = f"lowerdir={root()}/usr:/usr,upperdir={upper},workdir={work}"
    sandbox.run("mount", "-t", "overlay", "-o", options, "overlay", "/usr").ok()
