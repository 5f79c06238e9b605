"""Hostile images: at each path that a hook reads or writes, and at each directory on the way, all that can be there.

`PLACES` are the paths, `SHAPES` what is put there. A link out leads to a copy of what an honest image has at that
place, so that whoever follows it goes on as if nothing were wrong; beside it lies a library that no image has, by which
a cache tells that something was read that should not have been.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from unit.native.elves import library
from unit.native.trees import CONF, Entry, build

FOREIGN = "libforeign.so.1"

IMAGE: dict[str, Entry] = {
    "etc/ld.so.conf": CONF,
    "etc/ld.so.conf.d/image.conf": "/usr/local/lib\n/lib/x86_64-linux-gnu\n",
    "etc/ld.so.cache": "old",
    "lib/x86_64-linux-gnu/libc.so.6": library("libc.so.6"),
    "lib/ld-musl-x86_64.so.1": "",
    "lib64/ld-linux-x86-64.so.2": library("ld-linux-x86-64.so.2"),
    "usr/lib/liba.so.1.1": library("liba.so.1"),
    "usr/lib/liba.so": "-> liba.so.1",
    "usr/lib/glibc-hwcaps/x86-64-v3/liba.so.1.1": library("liba.so.1", isa=7),
    "usr/local/lib/libl.so.1": library("libl.so.1"),
    "usr/local/cuda/compat/libcuda.so.999.1": library("libcuda.so.1"),
    "opt/gpu/libg.so.1.1": library("libg.so.1"),
    "dev/nvidia0": "",
    "dev/char": None,
    "proc": None,
}

# The hooks that make something, each with words that make it do all it can
WORDS = {
    "create-symlinks": ["--link", "libg.so.1::/opt/gpu/libg.so", "--link", "../nvidia0::/dev/char/195:0"],
    "enable-cuda-compat": ["--host-driver-version", "550.1"],
    "update-ldcache": ["--folder", "/opt/gpu"],
    "update-application-profile": [],
    "disable-device-node-modification": [],
}

# By hook: what it reads or writes below a root
PLACES: dict[str, list[str]] = {
    "create-symlinks": [
        "opt",
        "opt/gpu",
        "opt/gpu/libg.so",
        "opt/gpu/.cdi-shim~0",
        "dev",
        "dev/char",
        "dev/char/195:0",
    ],
    "enable-cuda-compat": [
        "usr",
        "usr/local",
        "usr/local/cuda",
        "usr/local/cuda/compat",
        "usr/local/cuda/compat/libcuda.so.999.1",
        "etc",
        "etc/ld.so.conf.d",
        "etc/ld.so.conf.d/.cdi-shim~0",
        "etc/ld.so.conf.d/00-cdi-compat.conf",
    ],
    "update-ldcache": [
        "etc",
        "etc/ld.so.conf",
        "etc/ld.so.conf.d",
        "etc/ld.so.conf.d/00-cdi-shim.conf",
        "etc/ld.so.conf.d/.cdi-shim~0",
        "etc/ld.so.conf.d/image.conf",
        "etc/ld.so.cache",
        "etc/.cdi-shim~0",
        "etc/ld-musl-x86_64.path",
        "lib",
        "lib/ld-musl-x86_64.so.1",
        "lib/x86_64-linux-gnu",
        "lib/x86_64-linux-gnu/libc.so.6",
        "lib64",
        "lib64/ld-linux-x86-64.so.2",
        "usr",
        "usr/lib",
        "usr/lib/liba.so",
        "usr/lib/liba.so.1",
        "usr/lib/liba.so.1.1",
        "usr/lib/glibc-hwcaps",
        "usr/lib/glibc-hwcaps/x86-64-v3",
        "usr/local/lib",
        "opt/gpu",
        "opt/gpu/libg.so.1",
        "opt/gpu/libg.so.1.1",
        "var/cache/ldconfig/aux-cache",
    ],
    "update-application-profile": [
        "dev",
        "dev/nvidia0",
        "etc",
        "etc/nvidia",
        "etc/nvidia/nvidia-application-profiles-rc.d",
        "etc/nvidia/nvidia-application-profiles-rc.d/.cdi-shim~0",
        "etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf",
    ],
    "disable-device-node-modification": ["proc", "proc/driver", "proc/driver/nvidia", "proc/driver/nvidia/params"],
}


def move_out(path: Path, victim: Path) -> Path:
    """Take what an honest image has at the path to the victim's directory; a file where it has nothing."""
    target = victim / "target"
    if os.path.lexists(path):
        path.rename(target)
    else:
        target.write_text("the victim's")
    if target.is_dir():
        (target / FOREIGN).write_bytes(library(FOREIGN))
        (target / "zz-foreign.conf").write_text("/victim\n")
    return target


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def absolute_link(path: Path, victim: Path) -> None:
    path.symlink_to(move_out(path, victim))


def relative_link(path: Path, victim: Path) -> None:
    target = move_out(path, victim)
    path.symlink_to("../" * 30 + str(target)[1:])


def link_by_proc(path: Path, victim: Path) -> None:
    target = move_out(path, victim)
    path.symlink_to(f"/proc/self/root{target}")


def chain_of_links(path: Path, victim: Path) -> None:
    """Through a directory of the image, a link there, and `..` again."""
    target = move_out(path, victim)
    hops = path.parent / "hops"
    hops.mkdir()
    (hops / "up").symlink_to("/" + "../" * 10)
    path.symlink_to(f"hops/up{target}")


def dangling_link(path: Path, victim: Path) -> None:
    """What is made by following it comes to lie with the victim."""
    clear(path)
    path.symlink_to(victim / "made-by-the-hook")


def loop(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    clear(path)
    names = [path, *(path.with_name(f"loop{i}") for i in range(41))]
    for one, two in zip(names, [*names[1:], path], strict=True):
        one.symlink_to(two.name)


def fifo(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    clear(path)
    os.mkfifo(path)


def unix_socket(path: Path, victim: Path) -> None:
    clear(path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(victim / "s"))  # the name of a socket is short
    (victim / "s").rename(path)


def zero_device(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    clear(path)
    os.mknod(path, 0o20666, os.makedev(1, 5))


def directory(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    clear(path)
    path.mkdir()
    (path / "content").write_text("")


def sparse_file(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    clear(path)
    path.touch()
    os.truncate(path, 10 << 30)


def mode_0(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    if not os.path.lexists(path):
        path.touch()
    if not path.is_symlink():
        path.chmod(0)


def hard_link(path: Path, victim: Path) -> None:
    """To a file of the host on the same file system."""
    clear(path)
    (victim / "file").write_bytes(library("libhard.so.1"))
    path.hardlink_to(victim / "file")


def immutable(path: Path, victim: Path) -> None:  # noqa: ARG001 - as for all shapes
    """FS_IMMUTABLE_FL of ioctl_iflags(2)."""
    if path.is_symlink():
        clear(path)
    if not path.exists():
        path.write_text("")
    fd = os.open(path, os.O_RDONLY)
    try:
        flags = struct.unpack("i", fcntl.ioctl(fd, 0x80086601, struct.pack("i", 0)))[0]
        fcntl.ioctl(fd, 0x40086602, struct.pack("i", flags | 0x10))
    finally:
        os.close(fd)


Shape = Callable[[Path, Path], None]

LINKS_OUT: list[Shape] = [absolute_link, relative_link, link_by_proc, chain_of_links, dangling_link]
SHAPES: list[Shape] = [
    *LINKS_OUT,
    loop,
    fifo,
    unix_socket,
    zero_device,
    directory,
    sparse_file,
    mode_0,
    hard_link,
    immutable,
]


def make(root: Path, victim: Path, place: str, shape: Shape) -> None:
    """Build the image, and spoil one place of it."""
    build(root, IMAGE)
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    shape(path, victim)


def naive(root: Path, place: str) -> None:
    """The reference that must not be: join the root's path and a name, follow what is there, and write."""
    path = root / place
    try:
        if path.is_dir():
            (path / "written").write_text("by a hook")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("by a hook")
    except OSError:
        pass
