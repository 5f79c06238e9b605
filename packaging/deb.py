"""Put the members of a Debian package into the order in which dpkg is to rename them: `deb.py FILE`, by debian/rules.

dpkg-deb sorts by name: the launcher would come first. Containers are created during an upgrade: the private directory
must come first, then `launch`, then the launcher, so that a create has the old installation or the new one, and a
launcher never meets modules that are older than it is. dpkg renames in the order of the archive.

Standard library only: the build of a distributor runs it. Sizes are printed.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

MAGIC = b"!<arch>\n"


def rank(path: str) -> tuple[int, str]:
    """Where a path stands in the archive: everything else, then `launch`, then the commands."""
    return (2 if path.startswith("./usr/bin/") else 1 if path == "./usr/lib/shim/launch" else 0, path)


def members(package: bytes) -> dict[str, bytes]:
    """The members of the outer archive, each behind a header of fixed columns (man 5 deb, man 5 ar)."""
    found, position = {}, len(MAGIC)
    while position < len(package):
        header = package[position : position + 60]
        size = int(header[48:58])
        found[header[:16].decode("ascii").rstrip(" /")] = package[position + 60 : position + 60 + size]
        position += 60 + size + size % 2
    return found


def ar(parts: dict[str, bytes], epoch: int) -> bytes:
    """The outer archive of members."""
    written = [MAGIC]
    for name, data in parts.items():
        written.append(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode("ascii"))
        written.append(data + b"\n" * (len(data) % 2))
    return b"".join(written)


def ordered(data: bytes) -> tuple[bytes, int, int]:
    """A data.tar.xz in our order; with it the bytes of all files, and of the launcher."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data), mode="r:xz") as before,
        tarfile.open(fileobj=written, mode="w:xz", format=tarfile.GNU_FORMAT) as after,
    ):
        entries = sorted(before.getmembers(), key=lambda entry: rank(entry.name))
        for entry in entries:
            after.addfile(entry, before.extractfile(entry) if entry.isreg() else None)
        launcher = next(entry.size for entry in entries if entry.name == "./usr/bin/shim")
    return written.getvalue(), sum(entry.size for entry in entries), launcher


def main() -> None:
    """Rewrite the package in its directory, at once or not at all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", type=Path)
    package: Path = parser.parse_args().package
    parts = members(package.read_bytes())
    parts["data.tar.xz"], size, launcher = ordered(parts["data.tar.xz"])
    with tempfile.NamedTemporaryFile(dir=package.parent, delete=False) as fresh:
        fresh.write(ar(parts, int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    Path(fresh.name).chmod(0o644)
    Path(fresh.name).rename(package)
    subprocess.run(["dpkg-deb", "--info", package], check=True, stdout=subprocess.DEVNULL)
    print(f"{package.name}: {package.stat().st_size} bytes, installed {size}, the launcher {launcher}")


if __name__ == "__main__":
    main()
