"""Roots with the files of a driver, as distributions lay them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance import hosts

from shim.discover.model import Wish
from shim.discover.nvidia.driver import driver_edits
from shim.host.host import Host
from shim.host.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from shim.base.findings import Finding
    from shim.discover.edits import Edits

    Entries = list[dict[str, Any]]

VERSION = "570.86.10"
MULTIARCH = "/usr/lib/x86_64-linux-gnu"

# Library of the driver -> DT_SONAME; "" for its whole name
LIBRARIES = {
    "libcuda": "libcuda.so.1",
    "libnvidia-ml": "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler": "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-gpucomp": "",
}


def library(path: str, soname: str = "", bits: int = 64) -> Entries:
    """A library; without a name, DT_SONAME is that of its file."""
    return [{"path": path, "kind": "elf", "soname": soname or path.rpartition("/")[2], "bits": bits}]


def link(path: str, target: str) -> Entries:
    """A symbolic link."""
    return [{"path": path, "kind": "l", "target": target}]


def file(*paths: str, mode: str = "0644", content: str = "x") -> Entries:
    """Files of one content."""
    return [{"path": path, "kind": "f", "mode": mode, "content": content} for path in paths]


def program(*paths: str) -> Entries:
    """Programs."""
    return file(*paths, mode="0755")


def directory(*paths: str) -> Entries:
    """Directories."""
    return [{"path": path, "kind": "d"} for path in paths]


def driver(at: str, version: str = VERSION, *, has_links: bool = True) -> Entries:
    """The libraries of a driver in a directory, with the links that its packages make."""
    entries: Entries = []
    for stem, soname in LIBRARIES.items():
        name = f"{stem}.so.{version}"
        entries += library(f"{at}/{name}", soname)
        if soname and has_links:
            entries += link(f"{at}/{soname}", name)
    return entries + (link(f"{at}/libcuda.so", "libcuda.so.1") if has_links else [])


def below(root: str, entries: Entries) -> Entries:
    """The entries below another root."""
    return [{**entry, "path": root + entry["path"]} for entry in entries]


def cache(*directories: str) -> Entries:
    """An ld.so.cache of these directories."""
    return [{"path": "/etc/ld.so.cache", "kind": "ldcache", "dirs": list(directories)}]


def discover(
    top: Path, entries: Entries, wish: Wish | None = None, version: str = VERSION
) -> tuple[Edits, list[Finding]]:
    """What is discovered of a driver on a machine of these entries."""
    hosts.build(entries, top)
    wish = wish or Wish("/usr/local/bin/shim")
    return driver_edits(Tree(Host(str(top)), wish.driver_root), version, wish, "x86_64")


def sources(edits: Edits) -> dict[str, str]:
    """Path in the container -> path on the host, of all mounts."""
    return {mount.path: mount.host_path for mount in edits.mounts.values()}


def ids(findings: list[Finding], *, without: str = "nvidia-smi") -> list[str]:
    """The ids of findings; those whose text has a word are left out."""
    return [finding.id for finding in findings if without not in finding.text]
