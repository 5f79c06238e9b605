"""Sizes of what is shipped: `sizes.py IMAGE DIRECTORY`, by `make sizes`, which builds all of it first.

    IMAGE       what `make install` installs, by image.py
    DIRECTORY   with the packages, the wheel, and the image for nodes of Kubernetes

A line for each: the bytes of the file, of all files that it installs, and of the launcher. Standard library only, with
`dpkg-deb` and `rpm` for their packages. The status is 1 where a launcher is larger than LIMIT: it is read at every
start of a container.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

LIMIT = 600_000

Files = dict[str, int]  # path -> bytes


def directory(path: Path) -> Files:
    """The files below a directory."""
    return {str(file.relative_to(path)): file.lstat().st_size for file in path.rglob("*") if file.is_file()}


def archive(file: io.BytesIO) -> Files:
    """The files of a tar."""
    with tarfile.open(fileobj=file) as opened:
        return {entry.name: entry.size for entry in opened if entry.isreg()}


def deb(path: Path) -> Files:
    """The files of a Debian package."""
    words = ["dpkg-deb", "--fsys-tarfile", str(path)]
    return archive(io.BytesIO(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout))


def rpm(path: Path) -> Files:
    """The files of an RPM package: links and directories have a size there, too."""
    query = r"[%{FILEMODES:perms} %{FILESIZES} %{FILENAMES}\n]"
    words = ["rpm", "-qp", "--nosignature", "--qf", query, str(path)]
    lines = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {line.split(" ", 2)[2]: int(line.split()[1]) for line in lines if line.startswith("-")}


def wheel(path: Path) -> Files:
    """The files of a wheel."""
    with zipfile.ZipFile(path) as opened:
        return {entry.filename: entry.file_size for entry in opened.infolist()}


def oci(path: Path) -> Files:
    """The files of an image, of the layer that has it last."""
    files: Files = {}
    with tarfile.open(path) as opened:

        def content(name: str) -> bytes:
            member = opened.extractfile(name)
            return member.read() if member else b""

        def blob(digest: str) -> bytes:
            return content(f"blobs/{digest.replace(':', '/')}")

        manifest = json.loads(blob(json.loads(content("index.json"))["manifests"][0]["digest"]))
        for layer in manifest["layers"]:
            files |= archive(io.BytesIO(blob(layer["digest"])))
    return files


# What it is -> pattern of the name in DIRECTORY, and its reader
SHIPPED = {
    "Debian package": ("cdi-shim_*.deb", deb),
    "RPM, the launcher and texts": (f"cdi-shim-[0-9]*.{platform.machine()}.rpm", rpm),
    "RPM, the modules": (f"cdi-shim-modules-*.{platform.machine()}.rpm", rpm),
    "wheel, without its dependencies": ("cdi_shim-*-abi3-*.whl", wheel),
    "image for nodes, with a Python and gRPC": ("cdi-shim_*.oci.tar", oci),
}


def launcher(files: Files) -> int:
    """The bytes of the launcher, 0 where there is none."""
    names = ("usr/bin/shim", "bin/shim", "scripts/shim")
    return next((size for path, size in files.items() if f"/{path}".endswith(tuple(f"/{name}" for name in names))), 0)


def main() -> int:
    """Print the table; 1 where a launcher is too large."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", type=Path)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    lines = [("`make install`", 0, directory(options.image))]
    for name, (pattern, read) in SHIPPED.items():
        for path in sorted(options.directory.glob(pattern)):
            lines.append((name, path.stat().st_size, read(path)))
    print("| | bytes of the file | installed | launcher |\n|---|---|---|---|")
    for name, size, files in lines:
        cells = (name, size or "", sum(files.values()), launcher(files) or "")
        print("| " + " | ".join(map(str, cells)) + " |")
    if any(launcher(files) > LIMIT for _, _, files in lines):
        print(f"a launcher is larger than {LIMIT} bytes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
