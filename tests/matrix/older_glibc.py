"""The cache that the hook writes for a container of Debian 11, as glibc 2.31 reads it.

With some entries its `ldconfig` writes the oldest kernel for a library, and it knows no extension block; the hook
writes no kernel and the block, as newer versions do. So the files differ, and what is compared is what glibc 2.31 reads
in them: its loader starts a program whose library lies where only the cache leads to, which it cannot start without a
cache, and its `ldconfig -p` lists the same entries in the same order, kernels aside.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from matrix import roots
from matrix.roots import Machine

_KERNEL = re.compile(r", OS ABI: Linux [\d.]+")

# The container is a whole Debian 11, and `ls` needs a library that lies apart
_SCRIPT = """
set -eu
mkdir /tmp/upper /tmp/work /container /results
mount -t overlay overlay -o lowerdir=/lower,upperdir=/tmp/upper,workdir=/tmp/work /container
cd /container
mkdir opt/apart
mv usr/lib/x86_64-linux-gnu/libselinux.so.1 opt/apart 2>/dev/null || mv lib/x86_64-linux-gnu/libselinux.so.1 opt/apart
echo /opt/apart >etc/ld.so.conf.d/apart.conf
rm -f etc/ld.so.cache
! chroot . ls -d /opt/apart >/results/without 2>&1
/shim hook update-ldcache --root /container
chroot . ls -d /opt/apart >/results/with
chroot . ldconfig -p >/results/hook.list
cp etc/ld.so.cache /results/hook.cache
chroot . ldconfig
chroot . ldconfig -p >/results/ldconfig.list
cp etc/ld.so.cache /results/ldconfig.cache
"""


def launcher(wheel: Path) -> bytes:
    """The launcher in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".data/scripts/shim"))
        return archive.read(name)


def entries(listing: str) -> list[str]:
    """What `ldconfig -p` lists, without the kernel versions."""
    return [_KERNEL.sub("", line.strip()) for line in listing.splitlines()[1:]]


def judged(results: dict[str, bytes]) -> str:
    """What was measured, in words for the table; "failed" is among them where the cache is not read as it should be.

    Arguments:
        results: of the script, by file name.
    """
    texts = {name: data.decode() for name, data in results.items() if not name.endswith(".cache")}
    if "libselinux.so.1: cannot open shared object file" not in texts["without"]:
        return "failed: the library is loaded without a cache"
    if texts["with"] != "/opt/apart\n":
        return "failed: the loader does not read the cache"
    ours, reference = entries(texts["hook.list"]), entries(texts["ldconfig.list"])
    if ours != reference or not any("/opt/apart/libselinux.so.1" in line for line in ours):
        return f"failed: {len(set(ours) ^ set(reference))} entries differ"
    if results["hook.cache"] == results["ldconfig.cache"]:
        return f"the same {len(ours)} entries, byte for byte"
    return f"its loader and `ldconfig -p` read the same {len(ours)} entries; as files they differ"


def measured(suite: str, wheel: Path) -> str:
    """The cell of the table for a suite with an older glibc."""
    root = roots.make(suite)
    with Machine(root, {str(root): "/lower"}) as machine:
        program = machine.upper / "shim"
        program.write_bytes(launcher(wheel))
        program.chmod(0o755)
        machine.ok("sh", "-c", _SCRIPT)
        return judged({path.name: path.read_bytes() for path in (machine.upper / "results").iterdir()})
