"""The hooks as a runtime starts them: state on stdin, one process, nothing of the image obeyed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.native import calls
from unit.native.elves import library, note
from unit.native.trees import CONF, USR, Entry, build, picture
from unit.native.world import PRELOAD

from shim.create import log as create_log
from shim.hooks import core
from shim.host import ldcache

SHIM = Path(sys.executable).parent / "shim"
LIBRARY: dict[str, Entry] = {"etc/ld.so.conf": CONF, "opt/gpu/libg.so.1.1": library("libg.so.1")}


class Container:
    """A bundle, and the call of a hook for it."""

    def __init__(self, path: Path, entries: dict[str, Entry], config: dict[str, Any] | None = None) -> None:
        self.bundle = path / "bundle"
        self.root = build(self.bundle / "rootfs", entries)
        self.config = {"root": {"path": "rootfs"}, "process": {"env": ["LD_PRELOAD=./x.so"]}, **(config or {})}
        self.state: dict[str, Any] = {"ociVersion": "1.0.2", "id": "c", "pid": 1, "bundle": str(self.bundle)}

    def hook(self, *words: str, program: str = "shim", text: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run it with argv as written in a spec, and an environment as bad as an image can make it."""
        (self.bundle / "config.json").write_text(json.dumps(self.config))
        return subprocess.run(
            [program, *words],
            executable=SHIM,
            input=(json.dumps(self.state).encode() if text is None else text).decode("latin1"),
            cwd=self.root,
            env={
                "LD_PRELOAD": PRELOAD,
                "PATH": ".",
                "PYTHONPATH": ".",
                "BASH_ENV": "x",
                "GLIBC_TUNABLES": "glibc.malloc.check=3",  # an invalid one is a warning of each glibc program
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def names(self) -> set[str]:
        """What the container's loader finds by name."""
        return {entry.key for entry in ldcache.decode((self.root / "etc/ld.so.cache").read_bytes()).entries}


def good(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_thread_has_room_for_what_it_reads_whatever_the_libc_gives_it(tmp_path: Path) -> None:
    """The facts of one file take 128 KiB, musl's default for a whole stack: a linker flag alone hid it."""
    libraries: dict[str, Entry] = {f"opt/gpu/lib{i}.so.1.1": library(f"lib{i}.so.1") for i in range(60)}
    container = Container(tmp_path, {"etc/ld.so.conf": CONF, **libraries})
    good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert container.names() == {f"lib{i}.so.1" for i in range(60)}


# --- finding the root ---


@pytest.mark.parametrize("runtime", ["runc", "crun", "crun as config.json says", "an absolute path"])
def test_the_root_is_found_by_the_state(tmp_path: Path, runtime: str) -> None:
    container = Container(tmp_path, LIBRARY)
    if runtime == "crun":
        container.state["root"] = str(container.root)
        container.config["root"] = {"path": "/none"}
    if runtime == "crun as config.json says":
        container.state["root"] = "rootfs"
    if runtime == "an absolute path":
        container.config["root"] = {"readonly": True, "path": str(container.root)}
    good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert container.names() == {"libg.so.1"}


def test_the_state_may_come_from_a_file(tmp_path: Path) -> None:
    container = Container(tmp_path, LIBRARY)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(container.state))
    good(container.hook("hook", "update-ldcache", "--folder=/opt/gpu", f"--container-spec={file}", text=b""))
    assert container.names() == {"libg.so.1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", b""),
        ("no object", b"[]"),
        ("a state without a bundle", b'{"id":"c"}'),
        ("a relative bundle", b'{"bundle":"x"}'),
        ("a bundle that is not text", b'{"bundle":7}'),
        ("a bundle with a NUL", b'{"bundle":"/a\\u0000b"}'),
        ("half a state", b'{"bundle":"/x"'),
        ("two values", b'{"bundle":"/x"} {}'),
        ("a missing comma", b'{"bundle":"/x" "id":"c"}'),
        ("a comma too many", b'{"bundle":"/x",}'),
        ("a control character", b'{"bundle":"/\n"}'),
        ("a depth that nobody needs", b'{"bundle":"/x","a":' + b"[" * 200 + b"]" * 200 + b"}"),
        ("brackets that do not match", b'{"bundle":"/x","a":[}}'),
        ("a bundle that is not there", b'{"bundle":"/none/bundle"}'),
    ],
)
def test_a_state_that_says_nothing_is_an_error(tmp_path: Path, name: str, text: bytes) -> None:
    container = Container(tmp_path, LIBRARY)
    before = picture(container.root)
    done = container.hook("hook", "update-ldcache", text=text)
    assert done.returncode == 1, name
    assert done.stderr.startswith("shim: error: hook update-ldcache: ")
    assert done.stderr.count("\n") == 1
    assert picture(container.root) == before


def test_escapes_in_the_state_are_understood(tmp_path: Path) -> None:
    container = Container(tmp_path / "é😀", LIBRARY)
    container.state["annotations"] = {"deep": [{"x": [1, -2.5e3, True, None, '"\\']}]}
    good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert container.names() == {"libg.so.1"}


@pytest.mark.parametrize("path", ["/", "/etc/.."])
def test_the_host_s_own_root_is_refused(tmp_path: Path, path: str) -> None:
    container = Container(tmp_path, {}, {"root": {"path": path}})
    done = container.hook("hook", "update-ldcache")
    assert done.returncode == 1
    assert "this system's own root" in done.stderr


def test_a_root_that_is_a_link_is_refused(tmp_path: Path) -> None:
    container = Container(tmp_path, {}, {"root": {"path": "link"}})
    (container.bundle / "link").symlink_to(container.root)
    done = container.hook("hook", "update-ldcache")
    assert done.returncode == 1
    assert "cannot open the root" in done.stderr


# --- forms of the command line ---


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("shim", ["hook", "update-ldcache", "--folder", "/opt/gpu"]),
        ("/usr/bin/nvidia-cdi-hook", ["update-ldcache", "--ldconfig-path", "/sbin/ldconfig", "--folder", "/opt/gpu"]),
        ("nvidia-ctk", ["hook", "update-ldcache", "--folder=/opt/gpu", "--debug"]),
        ("nvidia-cdi-hook", ["update-ldcache", "--of-a-newer-spec", "value", "--folder", "/opt/gpu"]),
        ("nvidia-cdi-hook", ["--quiet", "update-ldcache", "-folder", "/opt/gpu"]),
    ],
)
def test_every_form_of_a_spec_is_understood(tmp_path: Path, program: str, words: list[str]) -> None:
    container = Container(tmp_path, LIBRARY)
    good(container.hook(*words, program=program))
    assert container.names() == {"libg.so.1"}


@pytest.mark.parametrize("words", [["hook", "--none", "x"], ["hook", "update-ldcache", "--none"]])
def test_our_own_form_is_strict(tmp_path: Path, words: list[str]) -> None:
    done = Container(tmp_path, LIBRARY).hook(*words)
    assert done.returncode == 2
    assert "unknown option --none" in done.stderr


def test_an_unknown_hook_is_passed_over(tmp_path: Path) -> None:
    container = Container(tmp_path, LIBRARY)
    done = container.hook("hook", "of-tomorrow", "update-ldcache", "--folder", "/opt/gpu")
    assert done.returncode == 0
    assert done.stderr == "shim: warning: hook of-tomorrow: no hook of this name is known; it is passed over\n"
    assert container.names() == {"libg.so.1"}


def test_chmod_is_refused_with_the_reason(tmp_path: Path) -> None:
    container = Container(tmp_path, {"dev/dri/card0": ""})
    before = picture(container.root)
    done = container.hook("chmod", "--mode", "777", "--path", "/dev/dri", program="nvidia-cdi-hook")
    assert done.returncode == 0
    assert "fileMode" in done.stderr
    assert picture(container.root) == before


def test_several_hooks_in_one_process_run_in_the_right_order(tmp_path: Path) -> None:
    """The link is there before the cache is made, whatever the order of the words."""
    container = Container(tmp_path, LIBRARY)
    words = ["update-ldcache", "create-symlinks", "--folder", "/opt/gpu", "--link", "libg.so.1::/opt/gpu/libg.so"]
    good(container.hook("hook", *words))
    assert container.names() == {"libg.so.1", "libg.so"}
    after = picture(container.root)
    for _ in range(4):
        good(container.hook("hook", *words))
    assert picture(container.root) == after


# --- owners and modes ---


@pytest.mark.rootful
def test_what_is_made_belongs_to_the_container_s_root(tmp_path: Path) -> None:
    """A prestart hook runs on the host: the ids come from the mappings, the modes from nobody's umask."""
    mapping = [{"containerID": 1000, "hostID": 5, "size": 1}, {"containerID": 0, "hostID": 100000, "size": 1000}]
    container = Container(tmp_path, LIBRARY, {"linux": {"uidMappings": mapping, "gidMappings": mapping}})
    before = set(picture(container.root))
    before_mask = os.umask(0o077)
    try:
        good(container.hook("hook", "update-ldcache", "create-symlinks", "--folder", "/opt/gpu", "--link", "x::/a/b/y"))
    finally:
        os.umask(before_mask)
    made = {key: value for key, value in picture(container.root).items() if key not in before}
    assert {key: value[:3] for key, value in made.items() if isinstance(value, tuple)} == {
        "a": ("0o40755", 100000, 100000),
        "a/b": ("0o40755", 100000, 100000),
        "a/b/y": ("0o120777", 100000, 100000),
        "etc/ld.so.cache": ("0o100644", 100000, 100000),
        "etc/ld.so.conf.d": ("0o40755", 100000, 100000),
        "etc/ld.so.conf.d/00-cdi-shim.conf": ("0o100644", 100000, 100000),
        "opt/gpu/libg.so.1": ("0o120777", 100000, 100000),
    }


def test_a_read_only_root_is_a_warning(tmp_path: Path) -> None:
    container = Container(tmp_path, LIBRARY)
    (container.bundle / "config.json").write_text(json.dumps(container.config))
    script = f"mount --make-rprivate / && mount --bind {container.root} {container.root} && "
    script += f"mount -o remount,bind,ro {container.root} && exec {SHIM} hook update-ldcache --folder /opt/gpu"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        input=json.dumps(container.state),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr.startswith("shim: warning: hook update-ldcache: cannot write /etc/ld.so.conf.d/00-cdi-shim.conf")


def test_nothing_is_written_into_another_mount(tmp_path: Path) -> None:
    """A volume over a library directory belongs to others: no link is made there, the cache names the file itself."""
    container = Container(tmp_path, LIBRARY)
    volume = build(tmp_path / "volume", {"libv.so.1.1": library("libv.so.1"), "libw.so.1": "-> none"})
    before = picture(volume)
    (container.root / "opt/volume").mkdir()
    (container.bundle / "config.json").write_text(json.dumps(container.config))
    script = f"mount --make-rprivate / && mount --bind {volume} {container.root}/opt/volume && "
    script += f"exec {SHIM} hook update-ldcache --folder /opt/volume"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        input=json.dumps(container.state),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    good(done)
    assert picture(volume) == before
    entries = ldcache.decode((container.root / "etc/ld.so.cache").read_bytes()).entries
    assert {entry.key: entry.value for entry in entries} == {"libv.so.1": "/opt/volume/libv.so.1.1"}


STAYS = f"/{USR}/libcuda.so.1 is not a link, so it stays, and libcuda.so.550.1 is not found by this name"


@pytest.mark.parametrize(
    ("name", "there", "said"),
    [
        ("an empty file gives way to the link", "", ""),
        ("a file with contents stays, and is named", "text", STAYS),
        ("a directory stays, and is named", None, STAYS),
        ("a link is changed", "-> none", ""),
    ],
)
@pytest.mark.parametrize("how", ["a folder of the hook", "a mounted file"])
def test_an_empty_file_of_an_earlier_container_is_not_what_programs_load(
    tmp_path: Path, name: str, there: Entry, said: str, how: str
) -> None:
    """It is the mount point of an earlier container, in an image that was made from that container.

    The cache sent the loader there: "file too short".
    """
    usr = USR
    image: dict[str, Entry] = {"etc/ld.so.conf": "", f"{usr}/libcuda.so.1": there, f"{usr}/libcuda.so.550.1": ""}
    container = Container(tmp_path, image)
    source = tmp_path / "libcuda.so.550.1"
    source.write_bytes(library("libcuda.so.1"))
    words = "hook update-ldcache"
    script = "mount --make-rprivate /\n"
    if how == "a mounted file":
        script += f"mount --bind {source} {container.root}/{usr}/libcuda.so.550.1\n"
    else:
        shutil.copy(source, container.root / usr)
        words += f" --folder /{usr}"
    (container.bundle / "config.json").write_text(json.dumps(container.config))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f"{script}exec {SHIM} {words}"],
        input=json.dumps(container.state),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, f"shim: warning: hook update-ldcache: {said}\n" if said else ""), name
    cache = ldcache.decode((container.root / "etc/ld.so.cache").read_bytes())
    assert [entry.value for entry in cache.entries if entry.key == "libcuda.so.1"] == [f"/{usr}/libcuda.so.1"]
    path = container.root / usr / "libcuda.so.1"
    assert (str(path.readlink()) if path.is_symlink() else "") == ("" if said else "libcuda.so.550.1")


@pytest.mark.parametrize("words", [["--folder", "/opt/gpu"], ["--folder", "/usr/lib", "--root", "ROOT"]])
def test_an_empty_file_stays_where_nothing_was_injected(tmp_path: Path, words: list[str]) -> None:
    """ldconfig does not touch it, and with --root the result is what ldconfig makes."""
    image: dict[str, Entry] = {"usr/lib/liba.so.1": "", "usr/lib/liba.so.1.1": library("liba.so.1")}
    container = Container(tmp_path, {**LIBRARY, **image})
    good(container.hook("hook", "update-ldcache", *(word.replace("ROOT", str(container.root)) for word in words)))
    assert (container.root / "usr/lib/liba.so.1").read_bytes() == b""


# --- before the container is made ---


@pytest.mark.parametrize("stale", [None, "-> libcuda.so.535.1", "-> libcuda.so.550.1", "a file", ""])
@pytest.mark.parametrize("kind", ["files into the image's own directory", "files into a new one", "a directory"])
def test_what_will_be_mounted_counts_as_if_it_were(tmp_path: Path, kind: str, stale: str | None) -> None:
    """The same root twice: the hook with the mounts in place, and the shim before them."""
    names = {"libcuda.so.550.1": "libcuda.so.1", "libml.so.550.1": "libml.so.1", "libraw.so": "", "README": ""}
    driver = tmp_path / "driver"
    driver.mkdir()
    for file, soname in names.items():
        (driver / file).write_bytes(library(*([soname] if soname else [])) if file != "README" else b"text")
    usr = USR
    folder = usr if kind == "files into the image's own directory" else "opt/driver"
    image: dict[str, Entry] = {
        "etc/ld.so.conf": CONF,
        f"{usr}/libcuda.so.535.1": library("libcuda.so.1"),
        f"{usr}/libcuda.so": "-> libcuda.so.1",
        f"{usr}/libalias.so.1": f"-> /{folder}/libml.so.550.1",
    }
    if stale is not None:
        image[f"{usr}/libcuda.so.1"] = stale
    pairs = [(f"/{folder}/{file}", str(driver / file)) for file in names] if kind != "a directory" else []
    pairs = pairs or [(f"/{folder}", str(driver))]
    hooked, folded = Container(tmp_path / "hooked", image), Container(tmp_path / "folded", image)
    (hooked.bundle / "config.json").write_text(json.dumps(hooked.config))
    script = "mount --make-rprivate /\n"
    for path, source in pairs:
        point = str(hooked.root) + path
        script += f"mkdir -p {Path(point).parent}; test -e {point} || "
        script += f"{'mkdir' if kind == 'a directory' else 'install -m 755 /dev/null'} {point}\n"
        script += f"mount --bind {source} {point}\n"
    script += f"exec {SHIM} hook update-ldcache --folder /{folder}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script],
        input=json.dumps(hooked.state),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    remark = STAYS if stale == "a file" and folder == usr else ""
    assert (done.returncode, done.stderr) == (0, f"shim: warning: hook update-ldcache: {remark}\n" if remark else "")
    before = picture(driver)
    report = calls.update_ldcache(
        str(folded.root),
        [f"/{folder}"],
        sources=pairs,
        settle=True,
        replace_empty=True,
        one_mount=True,
        owner=(0, 0),
    )
    assert report.remark == remark
    assert picture(folded.root) == picture(hooked.root)
    assert {"libcuda.so.1", "libml.so.1", "libraw.so"} <= folded.names()
    assert picture(driver) == before


LENT: list[tuple[str, dict[str, Entry], list[tuple[str, str]], list[str]]] = [
    (
        "directories for ISA levels and CPU names come with a directory",
        {},
        [("/opt/driver", "")],
        ["/opt/driver"],
    ),
    (
        "a part of what is mounted is listed",
        {},
        [("/opt/driver", "")],
        ["/opt/driver/lib", "/opt//driver/./lib/deep/.."],
    ),
    (
        "what the mount hides does not count",
        {"opt/driver/lib/libhidden.so.1": library("libhidden.so.1"), "opt/driver/glibc-hwcaps/x86-64-v2/a": ""},
        [("/opt/driver", "")],
        ["/opt/driver", "/opt/driver/lib"],
    ),
    (
        "the directory for ISA levels alone is mounted",
        {"opt/driver/libg.so.1": library("libg.so.1")},
        [("/opt/driver/glibc-hwcaps", "glibc-hwcaps")],
        ["/opt/driver"],
    ),
    (
        "one ISA level is mounted",
        {"opt/driver/libg.so.1": library("libg.so.1"), "opt/driver/glibc-hwcaps/x86-64-v2": None},
        [("/opt/driver/glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v3")],
        ["/opt/driver"],
    ),
    (
        "a link of the image leads into it",
        {
            "usr/lib/libdeep.so.1": "-> ../../opt/driver/lib/libdeep.so.1.1",
            "usr/lib/libt.so.1": "-> /opt/driver/libg.so.1",
        },
        [("/opt/driver", "")],
        ["/opt/driver"],
    ),
]


@pytest.mark.parametrize(("name", "image", "mounts", "folders"), LENT, ids=[case[0] for case in LENT])
def test_directories_below_what_will_be_mounted(
    tmp_path: Path, name: str, image: dict[str, Entry], mounts: list[tuple[str, str]], folders: list[str]
) -> None:
    driver = build(
        tmp_path / "driver",
        {
            "libg.so.1": library("libg.so.1"),
            "lib/libdeep.so.1.1": library("libdeep.so.1"),
            "glibc-hwcaps/x86-64-v3/libg.so.1": library("libg.so.1", isa=7),
            "glibc-hwcaps/x86-64-v2/libg.so.1": library("libg.so.1", isa=3),
            "glibc-hwcaps/README": "",
            "haswell/tls/libg.so.1": library("libg.so.1"),
        },
    )
    hooked, folded = Container(tmp_path / "hooked", image), Container(tmp_path / "folded", image)
    (hooked.bundle / "config.json").write_text(json.dumps(hooked.config))
    script = "mount --make-rprivate /\n"
    for path, part in mounts:
        script += f"mkdir -p {hooked.root}{path}; mount --bind {driver / part} {hooked.root}{path}\n"
    script += f"exec {SHIM} hook update-ldcache " + " ".join(f"--folder {folder}" for folder in folders)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script],
        input=json.dumps(hooked.state),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    good(done)
    sources = [(path, str(driver / part)) for path, part in mounts]
    calls.update_ldcache(str(folded.root), folders, sources=sources, settle=True, one_mount=True, owner=(0, 0))
    assert picture(folded.root) == picture(hooked.root), name
    assert len(folded.names()) > 0


def test_an_image_sees_nothing_beside_what_is_lent(tmp_path: Path) -> None:
    """Its ld.so.conf names paths that lead out of a mount by their text, and by a link of the host's."""
    host = build(
        tmp_path / "host",
        {
            "secret/libsecret.so.1": library("libsecret.so.1"),
            "driver/libg.so.1": library("libg.so.1"),
            "driver/out": "-> ../secret",
            "driver/glibc-hwcaps/x86-64-v3": "-> ../../secret",
        },
    )
    conf = "/opt/driver\n/opt/driver/../secret\n/opt/driver/out\n/opt/driver/out/../../secret\n"
    root = build(tmp_path / "root", {"etc/ld.so.conf": conf})
    calls.update_ldcache(str(root), sources=[("/opt/driver", f"{host}/driver")], one_mount=True)
    keys = [entry.key for entry in ldcache.decode((root / "etc/ld.so.cache").read_bytes()).entries]
    assert keys == ["libg.so.1"]


def test_each_hook_can_be_done_before_the_container_is_made(tmp_path: Path) -> None:
    """The shim's fold: the same trees as those of the hooks, owners included."""
    entries: dict[str, Entry] = {**LIBRARY, "opt/compat/libcuda.so.560.1": library("libcuda.so.1"), "dev/nvidia2": ""}
    hooked, folded = Container(tmp_path / "hooked", entries), Container(tmp_path / "folded", entries)
    mapping = [{"containerID": 0, "hostID": 4000, "size": 10}]
    hooked.config["linux"] = {"uidMappings": mapping, "gidMappings": mapping}
    names = ["create-symlinks", "enable-cuda-compat", "update-ldcache", "update-application-profile"]
    words = ["--folder", "/opt/gpu", "--link", "libg.so.1::/opt/gpu/libg.so", "--host-driver-version", "550.1"]
    good(hooked.hook("hook", *names, *words, "--cuda-compat-container-root", "/opt/compat"))
    call = calls.hook_call(*names, *words, "--cuda-compat-container-root", "/opt/compat")
    for name in names:
        call.run(name, str(folded.root), owner=(4000, 4000))
    assert picture(folded.root) == picture(hooked.root)


def test_an_unknown_hook_is_not_done_before(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no hook of this name"):
        calls.hook_call("of-tomorrow").run("of-tomorrow", str(build(tmp_path / "root", {})))
    assert core.read_hook(["shim", "hook", "create-symlinks", *["--link", "a::/b"] * 512])
    assert core.read_hook(["shim", "hook", "create-symlinks", *["--link", "a::/b"] * 513]) is None


# --- two hooks at once ---


@contextlib.contextmanager
def stopped_before_the_rename(container: Container, trace: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start update-ldcache and stop it (SIGSTOP) when its new cache is written, but not in place yet."""
    (container.bundle / "state").write_text(json.dumps(container.state))
    (container.bundle / "config.json").write_text(json.dumps(container.config))
    with (container.bundle / "state").open("rb") as state:
        started = subprocess.Popen(
            ["strace", "-f", "-o", trace, "-e", "inject=fchmod:signal=SIGSTOP", SHIM, "hook", "update-ldcache"],
            stdin=state,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    try:
        while not trace.exists() or "stopped by SIGSTOP" not in trace.read_text():
            assert started.poll() is None, started.communicate()
            time.sleep(0.01)
        yield started
    finally:
        if started.poll() is None:
            send(trace, signal.SIGKILL)
        started.communicate()


def send(trace: Path, number: signal.Signals) -> None:
    """Send a signal to the hook, which strace is the parent of."""
    os.kill(int(trace.read_text().split()[0]), number)


def test_two_hooks_on_one_root_do_not_rename_each_other_s_files(tmp_path: Path) -> None:
    """The spare names were fixed, and a hook removed what it found there.

    So a second hook removed the file of the first and made its own under the same name, which the first then renamed
    into place, half written.
    """
    container = Container(tmp_path, {"etc/ld.so.conf": "/opt/gpu\n", "opt/gpu/libg.so.1": library("libg.so.1")})
    traces = [tmp_path / "first", tmp_path / "second"]
    spare = container.root / "etc/.cdi-shim~0"
    with stopped_before_the_rename(container, traces[0]) as first:
        inode = spare.stat().st_ino
        with stopped_before_the_rename(container, traces[1]) as second:
            assert spare.stat().st_ino == inode
            for hook, trace in zip((first, second), traces, strict=True):
                send(trace, signal.SIGCONT)
                assert (*hook.communicate(timeout=60), hook.returncode) == (b"", b"", 0)
                assert container.names() == {"libg.so.1"}
    assert sorted(path.name for path in (container.root / "etc").iterdir()) == ["ld.so.cache", "ld.so.conf"]


def test_what_a_killed_hook_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    container = Container(tmp_path, {"etc/ld.so.conf": "/opt/gpu\n", "opt/gpu/libg.so.1": library("libg.so.1")})
    with stopped_before_the_rename(container, tmp_path / "trace"):
        pass  # it is killed there
    assert (container.root / "etc/.cdi-shim~0").exists()
    good(container.hook("hook", "update-ldcache"))
    assert container.names() == {"libg.so.1"}
    assert sorted(path.name for path in (container.root / "etc").iterdir()) == ["ld.so.cache", "ld.so.conf"]


# --- special roots ---


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("the built-in directories come first", None, "/lib\n/usr/local/lib\n/usr/lib\n/opt/gpu\n"),
        ("an existing list is continued", "/lib:/usr/lib", "/lib:/usr/lib\n/opt/gpu\n"),
        ("what is listed stays as it is", "/opt/gpu:/lib\n", "/opt/gpu:/lib\n"),
    ],
)
def test_musl_gets_its_list(tmp_path: Path, name: str, before: str | None, after: str) -> None:
    entries: dict[str, Entry] = {"lib/ld-musl-x86_64.so.1": "", "opt/gpu/libg.so.1.1": library("libg.so.1")}
    if before is not None:
        entries["etc/ld-musl-x86_64.path"] = before
    container = Container(tmp_path, entries)
    for _ in range(2):
        good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert (container.root / "etc/ld-musl-x86_64.path").read_text() == after, name
    assert not (container.root / "etc/ld.so.cache").exists()


def test_a_root_with_both_loaders_gets_both(tmp_path: Path) -> None:
    container = Container(tmp_path, {**LIBRARY, "lib/ld-musl-x86_64.so.1": "", "lib64/ld-linux-x86-64.so.2": ""})
    good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert container.names() == {"libg.so.1"}
    assert (container.root / "etc/ld-musl-x86_64.path").exists()


@pytest.mark.parametrize(("loader", "made"), [("lib64/ld-linux-x86-64.so.2", True), ("bin/static", False)])
def test_a_root_without_etc(tmp_path: Path, loader: str, made: bool) -> None:
    container = Container(tmp_path, {loader: ""})
    (container.root / "etc").rmdir()
    good(container.hook("hook", "update-ldcache"))
    assert (container.root / "etc/ld.so.cache").exists() == made


def test_a_root_without_any_loader_gets_a_cache(tmp_path: Path) -> None:
    container = Container(tmp_path, {"opt/gpu/libg.so.1": library("libg.so.1")})
    good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert container.names() == {"libg.so.1"}


# --- links ---


@pytest.mark.parametrize(
    ("name", "entries", "link", "path", "target"),
    [
        ("parents are made", {}, "libx.so.1::/opt/new/dir/libx.so", "opt/new/dir/libx.so", "libx.so.1"),
        ("a wrong link is turned", {"a": "-> wrong"}, "right::/a", "a", "right"),
        ("a file is replaced", {"a": "file"}, "/abs/target::/a", "a", "/abs/target"),
        (
            "a parent that is a link stays inside",
            {"dev": "-> /real", "real": None},
            "../card0::/dev/x",
            "real/x",
            "../card0",
        ),
        ("the target's text is not looked at", {}, "../../../../etc/passwd::/a", "a", "../../../../etc/passwd"),
    ],
)
def test_links_are_made(
    tmp_path: Path, name: str, entries: dict[str, Entry], link: str, path: str, target: str
) -> None:
    container = Container(tmp_path, entries)
    for _ in range(2):
        good(container.hook("create-symlinks", "--link", link, program="nvidia-cdi-hook"))
    assert str((container.root / path).readlink()) == target, name


def test_a_link_that_is_right_is_not_touched(tmp_path: Path) -> None:
    container = Container(tmp_path, {"a": "-> b"})
    before = (container.root / "a").lstat()
    good(container.hook("hook", "create-symlinks", "--link", "b::/a"))
    assert (container.root / "a").lstat() == before


@pytest.mark.parametrize("place", ["dev", "usr", "usr/lib"])
def test_a_link_never_comes_to_lie_outside(tmp_path: Path, place: str) -> None:
    outside = build(tmp_path / "outside", {})
    before = picture(outside)
    container = Container(tmp_path, {})
    (container.root / place).parent.mkdir(parents=True, exist_ok=True)
    (container.root / place).symlink_to(outside)
    done = container.hook("hook", "create-symlinks", "--link", f"x::/{place}/char/1:2")
    assert done.returncode == 0
    assert picture(outside) == before


@pytest.mark.parametrize("link", ["", "a", "::", "::/a", "a::", "a::b", "a::/", "a::/.."])
def test_a_word_that_is_no_link_is_a_warning(tmp_path: Path, link: str) -> None:
    container = Container(tmp_path, {})
    before = picture(container.root)
    done = container.hook("hook", "create-symlinks", "--link", link, "--link", "x::/good")
    assert done.returncode == 0
    assert done.stderr.startswith("shim: warning: hook create-symlinks: ")
    assert set(picture(container.root)) == {*before, "good"}


# --- forward compatibility ---


@pytest.mark.parametrize(
    ("name", "libraries", "driver", "wanted"),
    [
        ("newer than the driver", ["libcuda.so.560.35.03"], "550.54.14", True),
        ("as old as the driver", ["libcuda.so.550.99"], "550.54.14", False),
        ("older", ["libcuda.so.535.1.2"], "550.54.14", False),
        ("two of them", ["libcuda.so.560.1", "libcuda.so.565.1"], "550.54.14", False),
        ("none", [], "550.54.14", False),
        ("an unknown driver", ["libcuda.so.560.1"], None, False),
        ("the version of WSL and Jetson", ["libcuda.so.550.1"], "1.1", False),
        ("one number", ["libcuda.so.550.1"], "1", False),
        ("zero", ["libcuda.so.550.1"], "0", False),
        ("no number", ["libcuda.so.550.1"], "abc", False),
        ("a number and letters", ["libcuda.so.560.1"], "550-server", False),
        ("a dot at the end", ["libcuda.so.560.1"], "550.", False),
        ("a sign", ["libcuda.so.560.1"], "+550.1", False),
        ("a branch alone", ["libcuda.so.560.1"], "550", True),
    ],
)
def test_the_image_s_own_libcuda_is_put_in_front_when_it_is_newer(
    tmp_path: Path, name: str, libraries: list[str], driver: str | None, wanted: bool
) -> None:
    compat = "usr/local/cuda/compat"
    entries: dict[str, Entry] = {f"{compat}/{file}": library("libcuda.so.1") for file in libraries}
    host: dict[str, Entry] = {"usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14": library("libcuda.so.1")}
    container = Container(tmp_path, {**entries, **host, f"{compat}/libcuda.so.1": "-> x", "etc/ld.so.conf": CONF})
    words = ["enable-cuda-compat", "update-ldcache", "--folder", "/usr/lib/x86_64-linux-gnu"]
    good(container.hook("hook", *words, *(["--host-driver-version", driver] if driver else [])))
    cache = ldcache.decode((container.root / "etc/ld.so.cache").read_bytes())
    first = next(entry.value for entry in cache.entries if entry.key == "libcuda.so.1")
    assert first == ("/usr/local/cuda/compat/libcuda.so.1" if wanted else "/usr/lib/x86_64-linux-gnu/libcuda.so.1"), (
        name
    )


NOTE = ".note.cuda.fwd_compatibility"
OWNER = "NVIDIA Corporation"


def compat_note(drivers: list[int], cuda: str = "", form: int = 1) -> bytes:
    document = {"Format": form, "CUDA Version": cuda, "Driver": drivers, "Device": [1, 2, 7]}
    return note(OWNER, json.dumps(document).encode())


@pytest.mark.parametrize(
    ("name", "contents", "options", "wanted"),
    [
        ("the host's branch is listed", compat_note([535, 550]), ["550.54.14"], True),
        ("it is not", compat_note([535, 555]), ["550.54.14"], False),
        ("listed, and newer by CUDA", compat_note([550], "13.1"), ["550.1", "12.4"], True),
        ("listed, and the same CUDA", compat_note([550], "12.4"), ["550.1", "12.4"], False),
        ("listed, and older by the second number", compat_note([550], "12.9"), ["550.1", "12.10"], False),
        ("not listed, and newer by CUDA", compat_note([535], "13.1"), ["550.1", "12.4"], False),
        ("the library's own branch", compat_note([550, 560]), ["560.1"], False),
        ("an unknown driver, newer by CUDA", compat_note([535], "13.1"), ["", "12.4"], True),
        ("an unknown driver and CUDA", compat_note([535], "13.1"), [], False),
        ("a CUDA version that is none", compat_note([550], "13.1"), ["550.1", "N/A"], False),
        ("a CUDA version of a host without one", compat_note([550], "13.1"), ["550.1", "0.0"], False),
        ("a version that is no driver's, newer by CUDA", compat_note([535], "13.1"), ["1.1", "12.4"], False),
        ("no list, newer by CUDA", compat_note([], "13.1"), ["570.1", "12.4"], True),
        ("another layout: the names decide", compat_note([535], form=2), ["550.1"], True),
        ("somebody else's note", note("GNU", b'{"Format": 1, "Driver": [535]}'), ["550.1"], True),
        ("no JSON", note(OWNER, b"Driver 535"), ["550.1"], True),
        ("half a document", note(OWNER, b'{"Format": 1, "Driver": [535]'), ["550.1"], True),
        ("an empty text", note(OWNER, b""), ["550.1"], True),
        ("a section of four bytes", b"NOTE", ["550.1"], True),
        ("a text of odd padding", note(OWNER, b'{"Format": 1, "Driver": [535]}\0\0', 8), ["550.1"], False),
        ("text after the text", note(OWNER, b'{"Format":1,"Driver":[550]}') + b"more", ["550.1"], True),
    ],
)
@pytest.mark.parametrize("wide", [True, False])
def test_the_library_s_note_decides(
    tmp_path: Path, name: str, contents: bytes, options: list[str], wanted: bool, wide: bool
) -> None:
    libcuda = library("libcuda.so.1", wide=wide, notes={".note.other": b"x" * 40, NOTE: contents})
    container = Container(tmp_path, {"opt/compat/libcuda.so.560.1": libcuda})
    words = ["hook", "enable-cuda-compat", "--cuda-compat-container-root", "/opt/compat"]
    for option, value in zip(("--host-driver-version", "--host-cuda-version"), options, strict=False):
        words += [option, value]
    good(container.hook(*words))
    assert (container.root / "etc/ld.so.conf.d/00-cdi-compat.conf").exists() == wanted, name


def test_a_note_of_a_crafted_library_is_none(tmp_path: Path) -> None:
    """Section headers that lead anywhere: every cut of a library, and every byte of its last headers at its largest."""
    whole = library("libcuda.so.1", notes={NOTE: compat_note([535])})
    container = Container(tmp_path, {"opt/compat/libcuda.so.560.1": b""})
    file = container.root / "opt/compat/libcuda.so.560.1"
    cuts = [whole[:size] for size in range(0, len(whole), 37)]
    odd = [whole[:at] + b"\xff" * 8 + whole[at + 8 :] for at in [40, 58, *range(len(whole) - 3 * 64, len(whole), 8)]]
    words = ["--cuda-compat-container-root", "/opt/compat", "--host-driver-version", "550.1"]
    call = calls.hook_call("enable-cuda-compat", *words)
    for contents in cuts + odd:
        file.write_bytes(contents)
        call.run("enable-cuda-compat", str(container.root))


@pytest.mark.parametrize("kind", ["a link", "a FIFO", "a directory"])
def test_what_is_no_regular_library_is_not_chosen(tmp_path: Path, kind: str) -> None:
    container = Container(tmp_path, {"opt/compat": None, "opt/real": library("libcuda.so.1")})
    path = container.root / "opt/compat/libcuda.so.560.1"
    if kind == "a link":
        path.symlink_to("/opt/real")
    elif kind == "a FIFO":
        os.mkfifo(path)
    else:
        path.mkdir()
    options = ["--cuda-compat-container-root", "/opt/compat", "--host-driver-version", "550.1"]
    good(container.hook("hook", "enable-cuda-compat", *options))
    assert not (container.root / "etc/ld.so.conf.d").exists()


@pytest.mark.parametrize("conf", ["", "/usr/lib\n", "include /etc/ld.so.conf.d/*.conf\r\n", None])
def test_the_choice_reaches_the_cache_when_the_configuration_does_not_include_it(
    tmp_path: Path, conf: str | None
) -> None:
    """enable-cuda-compat wrote a drop-in that nothing read; the hooks ended with status 0 and the host's libcuda."""
    entries: dict[str, Entry] = {
        "opt/compat/libcuda.so.560.1": library("libcuda.so.1"),
        "usr/lib/libcuda.so.550.1": library("libcuda.so.1"),
    }
    container = Container(tmp_path, entries if conf is None else {**entries, "etc/ld.so.conf": conf})
    words = ["--cuda-compat-container-root", "/opt/compat", "--host-driver-version", "550.1"]
    good(container.hook("hook", "enable-cuda-compat", *words))
    good(container.hook("hook", "update-ldcache", "--folder", "/usr/lib"))
    cache = ldcache.decode((container.root / "etc/ld.so.cache").read_bytes())
    found = [entry.value for entry in cache.entries if entry.key == "libcuda.so.1"]
    assert found == ["/opt/compat/libcuda.so.1", "/usr/lib/libcuda.so.1"]


def test_the_choice_is_taken_back_under_a_newer_driver(tmp_path: Path) -> None:
    container = Container(tmp_path, {"opt/compat/libcuda.so.560.1": library("libcuda.so.1")})
    words = ["hook", "enable-cuda-compat", "--cuda-compat-container-root", "/opt/compat", "--host-driver-version"]
    drop_in = container.root / "etc/ld.so.conf.d/00-cdi-compat.conf"
    good(container.hook(*words, "550.1"))
    assert drop_in.read_text() == "/opt/compat\n"
    good(container.hook(*words, "570.1"))
    assert not drop_in.exists()


# --- the profile ---


def test_the_profile_names_the_gpus_that_are_there(tmp_path: Path) -> None:
    nodes: dict[str, Entry] = {
        f"dev/{n}": "" for n in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia99", "null")
    }
    container = Container(tmp_path, nodes)
    good(container.hook("hook", "update-application-profile"))
    file = container.root / "etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"
    assert json.loads(file.read_text())["profiles"][0]["settings"] == ["EGLVisibleDGPUDevices", 9]


def test_without_gpus_there_is_no_profile(tmp_path: Path) -> None:
    container = Container(tmp_path, {"dev/null": ""})
    before = picture(container.root)
    good(container.hook("hook", "update-application-profile"))
    assert picture(container.root) == before


# --- device nodes ---

PARAMS = "Mobile: 4294967295\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n"


def start_with_params(container: Container, params: str, covered: str) -> str:
    """Run the hook on a host with a driver; what the container then sees.

    Arguments:
        params: the host's parameters.
        covered: what lies in the container's /proc in the place of the parameters.
    """
    (container.bundle / "config.json").write_text(json.dumps(container.config))
    (container.bundle / "state").write_text(json.dumps(container.state))
    proc = container.root / "proc"
    proc.mkdir()
    script = f"""
        mount --make-rprivate /
        mount -t tmpfs tmpfs {proc}
        mkdir -p {proc}/driver/nvidia
        echo image > {proc}/driver/nvidia/params
        {covered.format(params=proc / "driver/nvidia/params")}
        mount -t tmpfs tmpfs /proc/driver
        mkdir /proc/driver/nvidia
        printf '{params}' > /proc/driver/nvidia/params
        {SHIM} hook disable-device-node-modification < {container.bundle}/state || exit
        cat {proc}/driver/nvidia/params
        grep {proc}/driver/nvidia/params /proc/self/mountinfo | cut -d ' ' -f 6
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_container_sees_that_nodes_are_not_to_be_made(tmp_path: Path) -> None:
    """A file of the kernel's own procfs stands in for the parameters, which no machine without the driver has."""
    seen = start_with_params(Container(tmp_path, {}), PARAMS, "mount --bind /proc/version {params}")
    assert seen.startswith(PARAMS.replace("Files: 1", "Files: 0"))
    assert seen.splitlines()[-1].startswith("ro,nosuid,nodev,noexec")


def test_nothing_is_covered_when_the_host_s_setting_is_off(tmp_path: Path) -> None:
    off = PARAMS.replace("Files: 1", "Files: 0")
    seen = start_with_params(Container(tmp_path, {}), off, "mount --bind /proc/version {params}")
    assert seen.startswith("Linux version")
    assert len(seen.splitlines()) == 2


@pytest.mark.parametrize("made", ["", "ln -sf /proc/version {params}", "rm {params}; mkdir {params}; set +e"])
def test_a_proc_that_the_image_made_is_left_alone(tmp_path: Path, made: str) -> None:
    seen = start_with_params(Container(tmp_path, {}), PARAMS, made)
    assert "is not the kernel's, so it is not covered" in seen
    assert "ModifyDeviceFiles" not in seen


# --- what a hook may do ---


def test_no_program_is_run_and_no_namespace_entered(tmp_path: Path) -> None:
    """An image with its own ldconfig, shell and loader: none of them is looked at."""
    container = Container(tmp_path, {**LIBRARY, "sbin/ldconfig": "#!/bin/sh\n", "x.so": "", "bin/sh": ""})
    (container.bundle / "config.json").write_text(json.dumps(container.config))
    trace = tmp_path / "trace"
    watched = "execve,chroot,pivot_root,setns,unshare,mount,fork,vfork,socket,connect"
    subprocess.run(
        ["strace", "-f", "-o", trace, "-e", f"trace={watched}", SHIM, "hook", "update-ldcache", "--folder", "/opt/gpu"],
        input=json.dumps(container.state).encode(),
        check=True,
        timeout=60,
    )
    calls = [line for line in trace.read_text().splitlines() if "+++" not in line]
    assert len(calls) == 1
    assert "execve" in calls[0]


# --- the stages on the host ---


def test_a_process_that_has_left_for_its_own_root_leads_nowhere(tmp_path: Path) -> None:
    """Runtimes call hooks before that. Here the image has links of its own where the bundle is on the host."""
    canary = build(tmp_path / "canary", {"etc/ld.so.conf": CONF})
    container = Container(tmp_path, LIBRARY)
    inside = tmp_path / "inside"
    place = inside / str(tmp_path)[1:]
    place.mkdir(parents=True)
    (place / "bundle").mkdir()
    (place / "bundle/rootfs").symlink_to(canary)  # absolute: the host's canary for who follows it
    shutil.copy("/bin/busybox", inside / "busybox")
    before = picture(canary)
    other = subprocess.Popen(
        ["unshare", "-m", f"--root={inside}", "/busybox", "sh", "-c", "echo; exec /busybox sleep 60"],
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        container.state["pid"] = other.pid
        good(container.hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    finally:
        other.kill()
        other.communicate()
    assert container.names() == {"libg.so.1"}
    assert picture(canary) == before


# --- the log --------------------------------------------------------------------------------------------------------

LOG = Path(create_log.SYSTEM_FILE)  # the hook has the path written in


@pytest.fixture
def log() -> Iterator[Path]:
    """The log of creates on the machine of this session, with one line."""
    LOG.write_text("{}\n")
    LOG.chmod(0o640)
    yield LOG
    LOG.unlink()


@pytest.fixture
def failing(tmp_path: Path) -> Container:
    """A container with a directory where a hook must write a file."""
    container = Container(tmp_path, {**LIBRARY, "etc/ld.so.cache/x": b""})
    container.state["id"] = 'c"1'
    return container


def test_f1_a_hook_that_failed_has_a_line_in_the_log_of_creates(failing: Container, log: Path) -> None:
    """crun drops what hooks write, and the container runs without their work: the cause was shown nowhere."""
    failing.hook("hook", "update-ldcache", "--folder", "/opt/gpu")
    _, line = log.read_text().splitlines()
    members = json.loads(line)
    assert (members["verb"], members["id"], members["bundle"]) == ("hook", 'c"1', str(failing.bundle))
    assert (members["outcome"], members["hook"]) == ("failed", "update-ldcache")
    assert "/etc/ld.so.cache" in members["text"]
    assert members["time"].endswith("Z")


def test_f1_a_hook_that_did_its_work_has_none(tmp_path: Path, log: Path) -> None:
    good(Container(tmp_path, LIBRARY).hook("hook", "update-ldcache", "--folder", "/opt/gpu"))
    assert log.read_text() == "{}\n"


def test_f1_a_hook_makes_no_log(failing: Container) -> None:
    LOG.unlink(missing_ok=True)
    failing.hook("hook", "update-ldcache", "--folder", "/opt/gpu")
    assert not LOG.exists()


@pytest.mark.parametrize("harm", ["a link", "writable by others", "another user's", "a FIFO"])
def test_f1_a_file_that_may_be_anybodys_is_not_written(
    failing: Container, log: Path, tmp_path: Path, harm: str
) -> None:
    other = tmp_path / "other"
    other.write_text("")
    if harm == "a link":
        log.unlink()
        log.symlink_to(other)
    elif harm == "a FIFO":
        log.unlink()
        os.mkfifo(log)
    elif harm == "another user's":
        os.chown(log, 4242, 0)
    else:
        log.chmod(0o662)
    before = log.read_text() if log.is_file() else ""
    failing.hook("hook", "update-ldcache", "--folder", "/opt/gpu")
    assert other.read_text() == ""
    assert (log.read_text() if log.is_file() else "") == before
