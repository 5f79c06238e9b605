"""Make a Debian package of an image: what `make install PREFIX=/usr` puts in place, as dpkg wants it.

The archive is written here and not by dpkg-deb because its order counts: dpkg renames files into place in the order of
the archive, so the private directory must come first, then `launch`, then the launcher, and a container that is created
during an upgrade finds the old installation or the new one. Nothing has to run on the machine but two scripts: `prerm`
refuses a removal while the launcher is needed, as `make uninstall` does, and `postrm` removes our state on purge.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import install

from shim.node import placed_files, placement

HERE = Path(__file__).resolve().parent
SCRIPTS = ("prerm", "postrm")
PACKAGE = "cdi-shim"
REVISION = 1
COPYRIGHT = """shim is under the Apache License 2.0, see /usr/share/common-licenses/Apache-2.0.
The libraries in its private directory are under the licenses that lie beside them, in /usr/lib/shim/*/*.dist-info.
"""

CONTROL = """Package: {package}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Section: admin
Priority: optional
Installed-Size: {size}
Depends: {python}, libc6 (>= {libc}), libcap2
Recommends: runc | crun
Description: devices for containers by the Container Device Interface
 Stands in for runc or crun, reads CDI specs, and gives a container the devices
 that it asks for, for every engine and vendor alike.
"""


def rank(path: str) -> tuple[int, str]:
    """Where a path stands in the archive: everything else, then `launch`, then the commands."""
    return (2 if path.startswith("/usr/bin/") else 1 if path == "/usr/lib/shim/launch" else 0, path)


def contents(root: Path) -> list[str]:
    """All paths below root in the archive's order, each directory before what it holds."""
    paths = [f"/{path.relative_to(root)}" for path in root.rglob("*") if path.name != placement.MANIFEST]
    return sorted(paths, key=rank)


def tar(members: list[tuple[str, Path | bytes]]) -> bytes:
    """A compressed tar of files, links and directories, all of root's."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz", preset=1, format=tarfile.GNU_FORMAT) as archive:
        for name, source in members:
            if isinstance(source, bytes):
                entry = tarfile.TarInfo(name)
                entry.size = len(source)
                entry.mode = 0o755 if name.removeprefix("./") in SCRIPTS else 0o644
                archive.addfile(entry, io.BytesIO(source))
                continue
            entry = archive.gettarinfo(str(source), name)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            if entry.isreg():
                with source.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return stream.getvalue()


def ar(members: dict[str, bytes]) -> bytes:
    """The outer archive: before each member a header of fixed columns (man 5 deb, man 5 ar)."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        parts.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode("ascii"))
        parts.append(data + b"\n" * (len(data) % 2))
    return b"".join(parts)


def control(root: Path, paths: list[str], version: str, architecture: str) -> list[tuple[str, Path | bytes]]:
    """The members of control.tar: what dpkg has to know."""
    regular = [path for path in paths if (root / path[1:]).is_file() and not (root / path[1:]).is_symlink()]
    sums = [f"{hashlib.md5((root / path[1:]).read_bytes()).hexdigest()}  {path[1:]}\n" for path in regular]  # noqa: S324 (dpkg's format: against accidents)
    libc = os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.34"
    text = CONTROL.format(
        package=PACKAGE,
        version=version,
        architecture=architecture,
        maintainer=os.environ.get("DEBMAINTAINER", "shim maintainers <root@localhost>"),
        size=sum((root / path[1:]).stat().st_size for path in regular) // 1024,
        python=f"python{sys.version_info[0]}.{sys.version_info[1]}",
        libc=libc.rpartition(" ")[2],
    )
    return [
        ("./control", text.encode()),
        ("./conffiles", b"/etc/logrotate.d/shim\n"),
        ("./md5sums", "".join(sums).encode()),
        *((f"./{name}", (HERE / name).read_bytes()) for name in SCRIPTS),
    ]


def make(image: Path, directory: Path) -> Path:
    """Make the package of an image in a directory; its path."""
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    version = f"{json.loads((image / 'image.json').read_text(encoding='utf-8'))['version']}-{REVISION}"
    with tempfile.TemporaryDirectory(prefix="shim-deb-") as scratch:
        root = Path(scratch)
        placement.install(image, placement.Target("/usr", scratch), install.find_interpreter(image))
        document = root / "usr/share/doc" / PACKAGE / "copyright"
        placed_files.make_directories(document.parent)
        document.write_text(COPYRIGHT, encoding="utf-8")
        document.chmod(0o644)
        paths = contents(root)
        package = ar(
            {
                "debian-binary": b"2.0\n",
                "control.tar.xz": tar(control(root, paths, version, architecture)),
                "data.tar.xz": tar([(f".{path}", root / path[1:]) for path in paths]),
            }
        )
    directory.mkdir(exist_ok=True)
    target = directory / f"{PACKAGE}_{version}_{architecture}.deb"
    target.write_bytes(package)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    print(make(arguments.image.absolute(), arguments.directory))
