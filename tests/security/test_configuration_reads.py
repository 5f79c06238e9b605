"""S35: what a hook reads as configuration lies on the image's own mount, and never becomes readable for more users.

An image had `/lib/ld-musl-x86_64.so.1` and a link `/etc/ld-musl-x86_64.path` to a file that only root may read: of a
volume, of /proc. update-ldcache read it as root and wrote what it had read to a new file of the image, mode 0644.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from engines.harness import programs
from engines.harness.runtimes import CGROUP_MODE, Bundle, Runtime, RuntimeName
from engines.harness.sandbox import Sandbox
from security.stage import SHIM
from unit.native import calls
from unit.native.elves import library
from unit.native.trees import CONF, Entry, build, picture

from shim.host import ldcache

TEXT = "/secret-of-the-volume"  # a line that each of the readers would take
MUSL: dict[str, Entry] = {"lib/ld-musl-x86_64.so.1": "", "opt/gpu/libg.so.1": library("libg.so.1")}
PATH_FILE = "etc/ld-musl-x86_64.path"


class Mounted:
    """A container's root with a volume at /volume, procfs at /proc and sysfs at /sys; a hook runs when they are there.

    Arguments:
        entries: the image.
        volume: the volume, in a directory of mode 0700.
    """

    def __init__(self, path: Path, entries: dict[str, Entry], volume: dict[str, Entry]) -> None:
        self.root = build(path / "root", {"volume": None, "proc": None, "sys": None, **entries})
        self.volume = build(path / "volume", {"etc": None, **volume})
        for file in self.volume.rglob("*"):
            if file.is_file() and not file.is_symlink():
                file.chmod(0o400)
        self.volume.chmod(0o700)
        self.bundle = path / "bundle"
        self.bundle.mkdir()
        (self.bundle / "config.json").write_text(json.dumps({"root": {"path": str(self.root)}}))
        self.before = picture(self.volume)

    def run(self, *words: str, more: str = "", command: str = "") -> subprocess.CompletedProcess[str]:
        """Run a hook, or a shell command in its place.

        Arguments:
            words: of the hook.
            more: further mounts.
        """
        script = f"""
            mount --make-rprivate /
            mount --bind {self.root} {self.root}
            mount --bind {self.volume} {self.root}/volume
            mount -t proc proc {self.root}/proc
            mount -t sysfs sysfs {self.root}/sys
            {more.replace("ROOT", str(self.root)).replace("VOLUME", str(self.volume))}
            {command or f"exec {SHIM} hook {' '.join(words)}"}
        """
        state = {"ociVersion": "1.0.2", "id": "c", "pid": 1, "bundle": str(self.bundle)}
        done = subprocess.run(
            ["unshare", "-m", "sh", "-ec", script],
            input=json.dumps(state),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert picture(self.volume) == self.before
        return done

    def texts(self) -> str:
        """Everything that lies in the image's files."""
        files = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return "\n".join(path.read_bytes().decode("latin1") for path in files)

    def cache(self) -> ldcache.Cache:
        return ldcache.decode((self.root / "etc/ld.so.cache").read_bytes())


# --- what is copied out: musl's list ---

WAYS: list[tuple[str, dict[str, Entry], str, str]] = [
    ("a link to a file of the volume", {PATH_FILE: "-> /volume/key"}, "", TEXT),
    ("a relative link", {PATH_FILE: "-> ../volume/key"}, "", TEXT),
    ("a chain of links", {PATH_FILE: "-> /a/b", "a": "-> c", "c/b": "-> ../volume/key"}, "", TEXT),
    ("a link by way of /proc and back", {PATH_FILE: "-> /proc/../volume/key"}, "", TEXT),
    ("a file of the volume mounted there", {PATH_FILE: ""}, f"mount --bind VOLUME/key ROOT/{PATH_FILE}", TEXT),
    ("a link to a file of procfs", {PATH_FILE: "-> /proc/version"}, "", "Linux version"),
    ("a link to a process's file", {PATH_FILE: "-> /proc/self/mountinfo"}, "", "rw,"),
    (
        "a file of procfs mounted there",
        {PATH_FILE: ""},
        f"mount --bind /proc/version ROOT/{PATH_FILE}",
        "Linux version",
    ),
    ("a link to a file of sysfs", {PATH_FILE: "-> /sys/devices/virtual/net/lo/address"}, "", "00:00:00"),
    ("the directory is a link into the volume", {"etc": "-> /volume/etc"}, "", TEXT),
]


@pytest.mark.parametrize(("name", "image", "more", "secret"), WAYS, ids=[case[0] for case in WAYS])
@pytest.mark.parametrize("reader", ["the hook", "a program that follows links"])
def test_musl_s_list_is_not_copied_from_elsewhere(
    tmp_path: Path, name: str, image: dict[str, Entry], more: str, secret: str, reader: str
) -> None:
    """The control is `cat` with the container's root as its own: it reads the secret in each of these ways."""
    volume: dict[str, Entry] = {"key": f"{TEXT}\n", PATH_FILE: f"{TEXT}\n"}
    container = Mounted(tmp_path, {**MUSL, **image}, volume)
    if reader == "the hook":
        done = container.run("update-ldcache", "--folder", "/opt/gpu", more=more)
        assert done.returncode == 0
        assert f"/{PATH_FILE}" in done.stderr
        assert secret not in container.texts(), name
    else:
        shutil.copy("/bin/busybox", container.root / "busybox")
        done = container.run(command=f"chroot {container.root} /busybox cat /{PATH_FILE}", more=more)
        assert secret in done.stdout, done.stderr


@pytest.mark.parametrize(("mode", "uid", "gid"), [(0o644, 0, 0), (0o600, 0, 0), (0o440, 12345, 54321)])
def test_musl_s_list_keeps_owner_and_mode(tmp_path: Path, mode: int, uid: int, gid: int) -> None:
    """The control of the ways above: a file of the image itself is read and continued. It became 0644 of root."""
    container = Mounted(tmp_path, {**MUSL, PATH_FILE: f"{TEXT}\n"}, {})
    path = container.root / PATH_FILE
    path.chmod(mode)
    os.chown(path, uid, gid)
    done = container.run("update-ldcache", "--folder", "/opt/gpu")
    assert (done.returncode, done.stderr) == (0, "")
    status = path.stat()
    assert path.read_text() == f"{TEXT}\n/opt/gpu\n"
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (mode, uid, gid)


def test_a_list_that_is_a_link_within_the_image_stays_a_link(tmp_path: Path) -> None:
    """What lies behind it may be readable for fewer users than a file in /etc."""
    container = Mounted(tmp_path, {**MUSL, PATH_FILE: "-> /opt/list", "opt/list": "/lib\n"}, {})
    done = container.run("update-ldcache", "--folder", "/opt/gpu")
    assert done.stderr == (
        f"shim: warning: hook update-ldcache: /{PATH_FILE} is a link, which is neither followed nor replaced:"
        " the image needs a file there\n"
    )
    assert str((container.root / PATH_FILE).readlink()) == "/opt/list"
    assert (container.root / "opt/list").read_text() == "/lib\n"


@pytest.mark.parametrize("is_volume", [False, True])
def test_a_volume_does_not_choose_which_list_is_written(tmp_path: Path, is_volume: bool) -> None:
    """The names in /lib say which loaders there are; in a directory of a volume its owner chooses them."""
    loader: dict[str, Entry] = {"ld-musl-theirs.so.1": ""}
    image: dict[str, Entry] = {"lib": "-> /volume" if is_volume else "-> /usr/lib", "usr/lib/ld-musl-theirs.so.1": ""}
    container = Mounted(tmp_path, {**image, "opt/gpu/libg.so.1": library("libg.so.1")}, loader)
    done = container.run("update-ldcache", "--folder", "/opt/gpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert (container.root / "etc/ld-musl-theirs.path").exists() != is_volume


# --- what is obeyed: ld.so.conf, what it includes, the cache that is there ---

LINES = "/opt/named\n"
OBEYED: list[tuple[str, dict[str, Entry], str]] = [
    ("ld.so.conf", {"etc/ld.so.conf": "-> /volume/conf"}, ""),
    ("ld.so.conf, mounted", {"etc/ld.so.conf": ""}, "mount --bind VOLUME/conf ROOT/etc/ld.so.conf"),
    ("an included file", {"etc/ld.so.conf": "include /volume/conf\n"}, ""),
    ("included files by a pattern", {"etc/ld.so.conf": "include /volume/c*f\n"}, ""),
    ("a pattern in the middle", {"etc/ld.so.conf": "include /vol*/conf\n"}, ""),
    ("a link among the drop-ins", {"etc/ld.so.conf": CONF, "etc/ld.so.conf.d/a.conf": "-> /volume/conf"}, ""),
    (
        "a drop-in, mounted",
        {"etc/ld.so.conf": CONF, "etc/ld.so.conf.d/a.conf": ""},
        "mount --bind VOLUME/conf ROOT/etc/ld.so.conf.d/a.conf",
    ),
    ("the drop-ins' directory", {"etc/ld.so.conf": CONF, "etc/ld.so.conf.d": "-> /volume/d"}, ""),
    (
        "the drop-ins' directory, mounted",
        {"etc/ld.so.conf": CONF, "etc/ld.so.conf.d": None},
        "mount --bind VOLUME/d ROOT/etc/ld.so.conf.d",
    ),
]


@pytest.mark.parametrize(("name", "image", "more"), OBEYED, ids=[case[0] for case in OBEYED])
@pytest.mark.parametrize("place", ["a volume", "the image"])
def test_a_configuration_is_obeyed_on_the_image_s_own_mount_only(
    tmp_path: Path, name: str, image: dict[str, Entry], more: str, place: str
) -> None:
    """The control: the same files in the same places are obeyed when the volume is a directory of the image."""
    files: dict[str, Entry] = {"conf": LINES, "d/a.conf": LINES}
    entries: dict[str, Entry] = {**image, "opt/named/liba.so.1": library("liba.so.1")}
    entries["usr/lib/libu.so.1"] = library("libu.so.1")
    if place == "the image":
        entries |= {f"volume/{path}": contents for path, contents in files.items()}
        more = more.replace("mount --bind VOLUME", "cp -rT ROOT/volume") if more else ""
    container = Mounted(tmp_path, entries, files if place == "a volume" else {})
    unmount = f"umount {container.root}/volume\n" if place == "the image" else ""
    done = container.run("update-ldcache", more=unmount + more)
    names = {entry.key for entry in container.cache().entries}
    assert done.returncode == 0
    if place == "the image":
        assert (names, done.stderr) == ({"liba.so.1", "libu.so.1"}, "")
    else:
        assert names == {"libu.so.1"}, name
        assert done.stderr.endswith(" is not read: another file system is mounted there\n")


@pytest.mark.parametrize("place", ["a volume", "the image"])
def test_a_cache_is_read_on_the_image_s_own_mount_only(tmp_path: Path, place: str) -> None:
    """Its last text, which says whose ldconfig made it, is copied into the new one."""
    old = build(tmp_path / "old", {})
    text = "ldconfig (TEXT) stable release version 2.41"
    calls.update_ldcache(str(old), generator=text)
    cache = (old / "etc/ld.so.cache").read_bytes()
    link = "-> /volume/cache" if place == "a volume" else "-> /opt/cache"
    container = Mounted(tmp_path / "x", {"etc/ld.so.cache": link, "opt/cache": cache}, {"cache": cache})
    done = container.run("update-ldcache")
    assert (done.returncode, done.stderr) == (0, "")
    generator = container.cache().generator
    assert (generator == text) == (place == "the image")


# --- libraries may lie anywhere, but not where the kernel shows its state ---


def test_libraries_of_other_mounts_are_found(tmp_path: Path) -> None:
    """A driver's libraries are mounted into the container: as files, as a directory, behind links of the image."""
    volume: dict[str, Entry] = {name: library(name) for name in ("libfile.so.1", "libdirectory.so.1", "liblink.so.1")}
    image: dict[str, Entry] = {
        "etc/ld.so.conf": "/volume\n",
        "usr/lib/libfile.so.1": "",
        "usr/lib/libmine.so.1": "-> /volume/liblink.so.1",
    }
    container = Mounted(tmp_path, image, volume)
    done = container.run("update-ldcache", more="mount --bind VOLUME/libfile.so.1 ROOT/usr/lib/libfile.so.1")
    assert (done.returncode, done.stderr) == (0, "")
    found = {entry.value for entry in container.cache().entries}
    assert {"/usr/lib/libfile.so.1", "/volume/libdirectory.so.1", "/volume/liblink.so.1"} <= found


@pytest.mark.parametrize("shown", ["/proc/version", "/sys/devices/virtual/net/lo/address", "/opt/file"])
def test_the_kernel_s_files_are_not_read_as_libraries(tmp_path: Path, shown: str) -> None:
    """Reading some of them has an effect, and some show what only root may see. The control is a file of the image."""
    names = ["lib/libc.so.6", "usr/lib/libl.so.1", "usr/lib/libm.so.1"]
    image: dict[str, Entry] = {names[0]: f"-> {shown}", names[1]: f"-> {shown}", names[2]: "", "opt/file": "text"}
    container = Mounted(tmp_path, image, {})
    trace = tmp_path / "trace"
    source = shown if shown != "/opt/file" else f"{container.root}/opt/file"
    strace = f"exec strace -f -y -o {trace} -e trace=openat,openat2,read,pread64 {SHIM} hook update-ldcache"
    done = container.run(command=strace, more=f"mount --bind {source} ROOT/{names[2]}")
    assert done.returncode == 0
    read = [line for line in trace.read_text().splitlines() if "read" in line and shown.rpartition("/")[2] in line]
    assert bool(read) == (shown == "/opt/file")


# --- real containers ---


@pytest.fixture(scope="module", params=get_args(RuntimeName))
def runtime(request: pytest.FixtureRequest) -> Iterator[tuple[Sandbox, Runtime]]:
    name: RuntimeName = request.param
    with Sandbox(CGROUP_MODE[name]) as sandbox:
        yield sandbox, Runtime(sandbox, programs.find(name)[0], name)


USERNS = 300_000  # host id of the container's root
NUMBERS = itertools.count()


def start(
    sandbox: Sandbox, runtime: Runtime, target: str | None, stage: str, command: list[str], *, userns: bool
) -> dict[str, str]:
    """Start a container whose image has a link from musl's list to TARGET, with a hook; its files' texts afterwards.

    Arguments:
        target: of the link, None for a file of the image's own.
        stage: createRuntime or createContainer.
        command: path and arguments of the hook.
        userns: the container has a user namespace.
    """
    bundle = Bundle(sandbox, f"reads-{next(NUMBERS)}", "echo started")
    root = bundle.directory / "rootfs"
    volume = bundle.directory / "volume"
    build(volume, {"inner/key": f"{TEXT}\n"})
    (volume / "inner/key").chmod(0o400)
    (volume / "inner").chmod(0o700)
    (root / "lib/ld-musl-x86_64.so.1").touch()
    (root / "volume").mkdir()
    if target:
        (root / PATH_FILE).symlink_to(target)
    else:
        (root / PATH_FILE).write_text("/lib\n")
    config = bundle.config()
    config["root"]["readonly"] = False  # crun mounts the root read-only before it starts hooks
    config["mounts"].append(
        {"destination": "/volume", "source": str(volume), "type": "bind", "options": ["rbind", "ro"]}
    )
    env = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"ROOT={root}", f"STAGE={stage}"]
    config["hooks"] = {stage: [{"path": command[0], "args": command[1:], "env": env}]}
    if userns:
        mapping = [{"containerID": 0, "hostID": USERNS, "size": 65536}]
        config["linux"].update(uidMappings=mapping, gidMappings=mapping)
        config["linux"]["namespaces"].append({"type": "user"})
        # in createContainer the hook has the rights of the container's root, in createRuntime those of the host's
        for path in [root, *root.rglob("*"), *(volume.rglob("*") if stage == "createContainer" else ())]:
            os.chown(path, USERNS, USERNS, follow_symlinks=False)
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    assert runtime("run", "--bundle", bundle.directory, bundle.id).ok() == "started\n"
    files = (
        path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size < 99999
    )
    return {str(path.relative_to(root)): path.read_bytes().decode("latin1") for path in files}


# what the hook did: it read with a hook's rights in the container's tree, by the image's link, and wrote a new file
CARELESS = f"""
    pid=$(sed 's/.*"pid": *\\([0-9]*\\).*/\\1/')
    test "$STAGE" = createContainer || ROOT=/proc/$pid/root$ROOT
    exec chroot "$ROOT" /bin/sh -c 'cat /{PATH_FILE} > /etc/copy'
"""


@pytest.mark.engine
@pytest.mark.parametrize("userns", [False, True])
@pytest.mark.parametrize("stage", ["createRuntime", "createContainer"])
@pytest.mark.parametrize("target", ["/volume/inner/key", "/proc/version", None])
def test_a_container_s_start_copies_nothing_that_is_not_the_image_s(
    runtime: tuple[Sandbox, Runtime], target: str | None, stage: str, userns: bool
) -> None:
    sandbox, plain = runtime
    ours = [str(sandbox.venv / "bin/shim"), "shim", "hook", "update-ldcache", "--folder", "/opt"]
    files = start(sandbox, plain, target, stage, ours, userns=userns)
    copied = start(sandbox, plain, target, stage, ["/bin/sh", "sh", "-c", CARELESS], userns=userns)["etc/copy"]
    if target:
        assert copied[:10] not in "".join(files.values())
        assert copied.startswith((TEXT, "Linux version"))
    else:
        assert (files[PATH_FILE], copied) == ("/lib\n/opt\n", "/lib\n")
