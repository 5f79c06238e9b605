"""The ld.so.cache of a root is, byte for byte, what glibc's ldconfig makes of the same tree, soname links included."""

from __future__ import annotations

import fnmatch
import json
import os
import string
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from unit.native import calls
from unit.native.elves import AARCH64, I386, OWN, X86_64, library
from unit.native.trees import CONF, USR, Entry, build, picture

from shim.host import ldcache

LDCONFIG = "/sbin/ldconfig"
DEBIAN_236 = "ldconfig (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36"
GNU_241 = "ldconfig (GNU libc) stable release version 2.41"
BANNER = b"\nGNU C Library (%s) stable release version %s.\nCopyright\n"


def ldconfig(root: Path, *options: str) -> None:
    """The reference. -i: its own memory of earlier runs is not asked."""
    done = subprocess.run([LDCONFIG, "-i", *options, "-r", root], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def cache(root: Path) -> ldcache.Cache:
    return ldcache.decode((root / "etc/ld.so.cache").read_bytes())


def lookups(root: Path) -> dict[str, str]:
    """The first file for each name, which is what a loader takes."""
    found: dict[str, str] = {}
    for entry in cache(root).entries:
        found.setdefault(entry.key, entry.value)
    return found


LONG = "123456789012"
TREES: list[tuple[str, dict[str, Entry]]] = [
    ("an empty root has an empty cache", {}),
    ("a library gets its soname link", {f"{USR}/liba.so.1.2": library("liba.so.1")}),
    ("a library without a soname is known by its file's name", {f"{USR}/liba.so.1.2": library()}),
    (
        "of several versions the newest by number wins",
        {f"{USR}/liba.so.1.{v}": library("liba.so.1") for v in ("9", "10", "2")},
    ),
    (
        "1 and 01 are equal, so the first one met stays",
        {f"{USR}/liba.so.1.{v}": library("liba.so.1") for v in ("1", "01", "001")},
    ),
    (
        "numbers of more than nine digits wrap",
        {f"{USR}/liba.so.{v}": library(f"liba.so.{v}") for v in (LONG, "4294967297", "2147483648", "5", "999999999")},
    ),
    (
        "the linker's own link is an entry as well",
        {f"{USR}/liba.so.1": library("liba.so.1"), f"{USR}/liba.so": "-> liba.so.1"},
    ),
    (
        "a link to the wrong version is turned",
        {
            f"{USR}/liba.so.1": "-> liba.so.1.1",
            f"{USR}/liba.so.1.1": library("liba.so.1"),
            f"{USR}/liba.so.1.2": library("liba.so.1"),
        },
    ),
    ("a stale link is taken away", {f"{USR}/liba.so.1": "-> liba.so.1.1", f"{USR}/libb.so": "-> none"}),
    ("a loop of links is stale", {f"{USR}/liba.so.1": "-> liba.so.2", f"{USR}/liba.so.2": "-> liba.so.1"}),
    (
        "a file in the place of the link stays",
        {f"{USR}/liba.so.1": library("libz.so.1"), f"{USR}/liba.so.1.2": library("liba.so.1")},
    ),
    (
        "a directory in the place of the link stays",
        {f"{USR}/liba.so.1": None, f"{USR}/liba.so.1.2": library("liba.so.1")},
    ),
    (
        "links into other directories are followed",
        {f"{USR}/real/libb.so.1.1": library("libb.so.1"), f"{USR}/libb.so.1": f"-> /{USR}/real/libb.so.1.1"},
    ),
    (
        "a link out of the root is stale",
        {f"{USR}/libx.so.1": "-> " + "../" * 20 + "usr/lib/os-release", f"{USR}/liby.so.1": "-> /proc/self/exe"},
    ),
    (
        "what is no library is passed over",
        {
            f"{USR}/libc.so": "/* GNU ld script */ GROUP ( /lib/libc.so.6 )" + " " * 80,
            f"{USR}/liba.so.1-gdb.py": "import gdb\n" * 20,
            f"{USR}/libb.so.1": b"",
            f"{USR}/libc.so.1": b"\x7fELF",
            f"{USR}/libd.so.1": library("libd.so.1", kind=2),
            f"{USR}/libe.so.1": library("libe.so.1")[:200],
        },
    ),
    (
        "leftovers of package managers are passed over, or not, as this version does",
        {
            f"{USR}/{name}": library("liba.so.1")
            for name in ("liba.so.1.#prelink#", "liba.so.1.dpkg-new", "liba.so.1;5f3a", "libb.so.#prelink#.AbCdEf")
        },
    ),
    (
        "libraries of other architectures",
        {
            f"{USR}/liba.so.1": library("liba.so.1", machine=I386, wide=False),
            f"{USR}/libb.so.1": library("libb.so.1", machine=I386, wide=False, needed=("libc.so.6",)),
            f"{USR}/libc32.so.1": library("libc32.so.1", machine=X86_64, wide=False),
            f"{USR}/libd.so.1": library("libd.so.1", machine=AARCH64),
        },
    ),
    (
        "of two sonames the one counts that this version takes",
        {
            f"{USR}/liba.so.1": library("liba.so.1", "liba.so.2"),
            f"{USR}/libb.so.1": library("libb.so.1", "libb.so.2", needed=("libc.so.6",)),
        },
    ),
    (
        "dynamic entries far behind the headers",
        {f"{USR}/liba.so.1.1": library("liba.so.1", padding=70000, needed=("libm.so.6", "libz.so.1"))},
    ),
    (
        "directories for ISA levels",
        {
            f"{USR}/liba.so.1.1": library("liba.so.1"),
            f"{USR}/glibc-hwcaps/x86-64-v3/liba.so.1.1": library("liba.so.1", isa=7),
            f"{USR}/glibc-hwcaps/x86-64-v3/any-name": "-> liba.so.1.1",
            f"{USR}/glibc-hwcaps/x86-64-v2/liba.so.1.1": library("liba.so.1", isa=3),
            f"{USR}/glibc-hwcaps/empty/README": "a name that no entry uses is a string all the same",
        },
    ),
    (
        "directories for CPU names",
        {
            "usr/lib/haswell/x86_64/liba.so.1": library("liba.so.1"),
            "usr/lib/tls/tls/libb.so.1": library("libb.so.1"),
            "usr/lib/haswell/libc.so.1": library("libc.so.1"),
            "usr/lib/libc.so.1": library("libc.so.1"),
        },
    ),
    (
        "a soname with a slash makes its link elsewhere, and later directories see it",
        {
            "etc/ld.so.conf": "/a\n/b\n",
            "a/liba.so.1.1": library("../b/liba.so.1"),
            "b/libb.so.1.1": library("libb.so.1"),
        },
    ),
    ("a soname of nothing", {f"{USR}/liba.so.1": library("")}),
    (
        "the configuration's order, comments, blanks and spellings",
        {
            "etc/ld.so.conf": "# comment\n \t/opt/b/ # why\ninclude ld.so.conf.d/*.conf\n/opt//a\n/opt/../opt/c\n"
            "/none\nhwcap 1 x\ninclude/x\n",
            "etc/ld.so.conf.d/2.conf": "/opt/d\n",
            "etc/ld.so.conf.d/10.conf": "/opt/c\r\n/opt/c\n",
            "etc/ld.so.conf.d/.hidden.conf": "/opt/e\n",
            **{f"opt/{d}/libx.so.1": library("libx.so.1") for d in "abcde"},
        },
    ),
    (
        "one directory under two names counts once, by the first",
        {
            "etc/ld.so.conf": "/opt/alias\n/opt/real\n",
            "opt/real/liba.so.1": library("liba.so.1"),
            "opt/alias": "-> real",
        },
    ),
    (
        "a type on a configuration line, overridden by a repetition",
        {
            "etc/ld.so.conf": "/opt/a=libc6\n/opt/b=libc5\n/opt/b\n/opt/c=nonsense\n",
            **{f"opt/{d}/libx.so.1": library("libx.so.1", machine=I386, wide=False) for d in "abc"},
        },
    ),
    ("a configuration that is a directory", {"etc/ld.so.conf/x": "", "usr/lib/liba.so.1": library("liba.so.1")}),
    ("a cache of rubbish is replaced", {"etc/ld.so.cache": "rubbish"}),
    ("a cache that is a link is replaced, not followed", {"etc/ld.so.cache": "-> passwd", "etc/passwd": "root"}),
    ("/etc may be a link", {"data/etc/ld.so.conf": "/opt/a\n", "opt/a/liba.so.1": library("liba.so.1")}),
]


@pytest.mark.parametrize(("name", "entries"), TREES, ids=[name for name, _ in TREES])
@pytest.mark.parametrize("threads", [1, 2])
def test_tree_is_as_after_ldconfig(tmp_path: Path, name: str, entries: dict[str, Entry], threads: int) -> None:
    entries = {"etc/ld.so.conf": CONF, **entries}
    if name == "a configuration that is a directory":
        del entries["etc/ld.so.conf"]
    roots = [build(tmp_path / kind, entries) for kind in ("reference", "ours")]
    if name == "/etc may be a link":
        for root in roots:
            (root / "etc/ld.so.conf").unlink()
            (root / "etc").rmdir()
            (root / "etc").symlink_to("/data/etc")
    ldconfig(roots[0])
    calls.update_ldcache(str(roots[1]), threads=threads)
    etc = "data/etc" if name == "/etc may be a link" else "etc"
    assert (roots[1] / etc / "ld.so.cache").read_bytes() == (roots[0] / etc / "ld.so.cache").read_bytes()
    assert picture(roots[1], ("var",)) == picture(roots[0], ("var",))


@pytest.mark.parametrize("threads", [0, 1, 2, 8])
def test_many_libraries_are_as_after_ldconfig(tmp_path: Path, threads: int) -> None:
    """Enough for several threads to share, with links of every kind between them. 0: by the number of processors."""
    entries: dict[str, Entry] = {"etc/ld.so.conf": CONF}
    for i in range(500):
        entries[f"{USR}/libn{i % 97}.so.{i % 3}.{i}"] = library(f"libn{i % 97}.so.{i % 3}", padding=i * 40)
        if i % 5 == 0:
            entries[f"{USR}/libn{i}.so"] = f"-> libn{i % 97}.so.{i % 3}"
    reference, ours = (build(tmp_path / kind, entries) for kind in ("reference", "ours"))
    ldconfig(reference)
    report = calls.update_ldcache(str(ours), threads=threads)
    assert picture(ours, ("var",)) == picture(reference, ("var",))
    assert report.entries == len(cache(ours).entries) > 150
    assert report.links_made > 150


def test_links_can_be_left_alone(tmp_path: Path) -> None:
    entries: dict[str, Entry] = {f"{USR}/liba.so.1.2": library("liba.so.1"), f"{USR}/libb.so.1": "-> none"}
    reference, ours = (build(tmp_path / kind, entries) for kind in ("reference", "ours"))
    ldconfig(reference, "-X")
    calls.update_ldcache(str(ours), keep_links=True)
    assert picture(ours, ("var",)) == picture(reference, ("var",))


def test_settled_is_as_after_two_runs(tmp_path: Path) -> None:
    """The driver's usual case: libcuda.so leads to a soname link that the first run only makes."""
    entries: dict[str, Entry] = {
        f"{USR}/libcuda.so": "-> libcuda.so.1",
        f"{USR}/libcuda.so.550.1": library("libcuda.so.1"),
    }
    once, twice, ours = (build(tmp_path / kind, entries) for kind in ("once", "twice", "ours"))
    for root in (once, twice, twice):
        ldconfig(root)
    calls.update_ldcache(str(ours), settle=True)
    assert picture(ours, ("var",)) == picture(twice, ("var",))
    assert "libcuda.so" in lookups(ours)
    assert "libcuda.so" not in lookups(once)


# --- folders that are injected ---


def test_a_folder_is_found_and_leaves_one_drop_in(tmp_path: Path) -> None:
    root = build(tmp_path / "root", {"etc/ld.so.conf": CONF, "opt/gpu/libg.so.1.1": library("libg.so.1")})
    calls.update_ldcache(str(root), ["/opt/gpu"])
    assert lookups(root) == {"libg.so.1": "/opt/gpu/libg.so.1"}
    assert (root / "etc/ld.so.conf.d/00-cdi-shim.conf").read_text() == "/opt/gpu\n"


def test_five_runs_leave_what_one_leaves(tmp_path: Path) -> None:
    root = build(tmp_path / "root", {"opt/gpu/libg.so.1.1": library("libg.so.1"), "opt/gpu/libg.so": "-> libg.so.1"})
    calls.update_ldcache(str(root), ["/opt/gpu"], settle=True)
    after_one = picture(root)
    for _ in range(4):
        calls.update_ldcache(str(root), ["/opt/gpu"], settle=True)
    assert picture(root) == after_one
    assert (root / "etc/ld.so.conf").read_text() == CONF


CONFIGURATIONS_WITHOUT_THE_DROP_IN = [
    ("an empty file", ""),
    ("directories only", "/opt/old\n/usr/local/lib\n"),
    ("includes of single files", "include /etc/ld.so.conf.d/image.conf\n"),
    ("an include that ends in a carriage return", "include /etc/ld.so.conf.d/*.conf\r\n"),
    ("an include of another directory", "include /etc/other/*.conf\n/opt/old\n"),
]


@pytest.mark.parametrize(
    ("name", "conf"), CONFIGURATIONS_WITHOUT_THE_DROP_IN, ids=[case[0] for case in CONFIGURATIONS_WITHOUT_THE_DROP_IN]
)
def test_a_folder_is_in_the_cache_when_the_configuration_does_not_include_the_drop_in(
    tmp_path: Path, name: str, conf: str
) -> None:
    """`--folder DIR` wrote a drop-in that nothing read, with status 0. The cache is that of `ldconfig -r ROOT DIR`."""
    entries: dict[str, Entry] = {
        "etc/ld.so.conf": conf,
        "etc/ld.so.conf.d/image.conf": "/opt/old\n",
        "opt/gpu/libg.so.1.1": library("libg.so.1"),
        "opt/old/libg.so.1.2": library("libg.so.1"),
        "usr/lib/libg.so.1.3": library("libg.so.1"),
    }
    reference, ours = (build(tmp_path / kind, entries) for kind in ("reference", "ours"))
    ldconfig(reference, "/opt/gpu")
    calls.update_ldcache(str(ours), ["/opt/gpu"])
    assert (ours / "etc/ld.so.cache").read_bytes() == (reference / "etc/ld.so.cache").read_bytes(), name
    assert lookups(ours)["libg.so.1"] == "/opt/gpu/libg.so.1"


def test_a_directory_of_drop_ins_that_cannot_be_had_hides_no_folder(tmp_path: Path) -> None:
    """The image has a file there. The hook gave up, and the container had no cache at all."""
    root = build(
        tmp_path / "root",
        {"etc/ld.so.conf": "/usr/lib\n", "etc/ld.so.conf.d": "a file", "opt/gpu/libg.so.1": library("libg.so.1")},
    )
    done = calls.update_ldcache(str(root), ["/opt/gpu"])
    assert lookups(root) == {"libg.so.1": "/opt/gpu/libg.so.1"}
    assert done.remark.startswith("cannot write /etc/ld.so.conf.d/00-cdi-shim.conf: ")


def test_an_injected_folder_wins_over_the_image(tmp_path: Path) -> None:
    root = build(
        tmp_path / "root",
        {
            "etc/ld.so.conf": CONF,
            "etc/ld.so.conf.d/a.conf": "/opt/old\n",
            "opt/old/libg.so.1": library("libg.so.1"),
            "opt/gpu/libg.so.1": library("libg.so.1"),
        },
    )
    calls.update_ldcache(str(root), ["/opt/gpu"])
    assert lookups(root) == {"libg.so.1": "/opt/gpu/libg.so.1"}


@pytest.mark.parametrize("folder", ["relative", "/two\nlines", "/a#b", ""])
def test_a_folder_that_is_no_line_of_a_configuration_is_refused(tmp_path: Path, folder: str) -> None:
    root = build(tmp_path / "root", {})
    before = picture(root)
    with pytest.raises(OSError, match="folders for"):
        calls.update_ldcache(str(root), [folder])
    assert picture(root) == before


# --- whose ldconfig ---


def root_with_libc(path: Path, banner: bytes, folder: str, machine: int = X86_64) -> Path:
    return build(
        path,
        {
            f"{folder}/libc.so.6": library("libc.so.6", machine=machine, text=banner),
            "usr/lib/haswell/liba.so.1": library("liba.so.1", machine=machine),
            "usr/lib64/libb.so.1": library("libb.so.1", machine=machine),
            "usr/lib/libb.so.1": library("libb.so.1", machine=machine),
        },
    )


@pytest.mark.parametrize(
    ("name", "banner", "folder", "machine", "generator", "found"),
    [
        (
            "Debian 12: CPU names count, /usr/lib64 does not",
            BANNER % (b"Debian GLIBC 2.36-9", b"2.36"),
            "lib/x86_64-linux-gnu",
            X86_64,
            "ldconfig (Debian GLIBC 2.36-9) stable release version 2.36",
            {"liba.so.1": "/usr/lib/haswell/liba.so.1", "libb.so.1": "/usr/lib/libb.so.1"},
        ),
        (
            "a newer Fedora: the other way round",
            BANNER % (b"GNU libc", b"2.41"),
            "lib64",
            X86_64,
            "ldconfig (GNU libc) stable release version 2.41",
            {"libb.so.1": "/usr/lib/libb.so.1"},
        ),
        (
            "another machine's root is read by its own rules",
            BANNER % (b"Ubuntu GLIBC 2.39-0ubuntu8", b"2.39"),
            "lib/aarch64-linux-gnu",
            AARCH64,
            "ldconfig (Ubuntu GLIBC 2.39-0ubuntu8) stable release version 2.39",
            {"libb.so.1": "/usr/lib/libb.so.1"},
        ),
    ],
)
def test_the_root_s_libc_decides(
    tmp_path: Path, name: str, banner: bytes, folder: str, machine: int, generator: str, found: dict[str, str]
) -> None:
    root = root_with_libc(tmp_path / "root", banner, folder, machine)
    assert calls.update_ldcache(str(root)).generator == generator, name
    decoded = cache(root)
    assert decoded.generator == generator
    names = {key: value for key, value in lookups(root).items() if not key.startswith("libc.")}
    assert names == found
    assert {entry.flags for entry in decoded.entries} == {0x0A03 if machine == AARCH64 else 0x0303}


def test_without_a_libc_the_root_s_own_cache_decides(tmp_path: Path) -> None:
    root = build(tmp_path / "root", {})
    calls.update_ldcache(str(root), generator=GNU_241)
    assert calls.update_ldcache(str(root)).generator == GNU_241


def test_a_text_that_no_ldconfig_writes_is_refused(tmp_path: Path) -> None:
    root = build(tmp_path / "root", {})
    with pytest.raises(OSError, match="no generator"):
        calls.update_ldcache(str(root), generator="ldconfig of yesterday")


# --- what an image may hold against us ---


def make_fifo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "place",
    ["etc/ld.so.conf", "etc/ld.so.conf.d/x.conf", f"{USR}/libf.so.1", "etc/.cdi-shim~0", "usr/lib/glibc-hwcaps"],
)
def test_a_fifo_holds_nobody_up(tmp_path: Path, place: str) -> None:
    root = build(tmp_path / "root", {f"{USR}/liba.so.1": library("liba.so.1"), f"{USR}/libl.so.1": "-> /pipe"})
    if place != "etc/ld.so.conf":
        (root / "etc/ld.so.conf").write_text(CONF)
    make_fifo(root / "pipe")
    make_fifo(root / place)
    calls.update_ldcache(str(root), milliseconds=5000)
    assert lookups(root) == {"liba.so.1": f"/{USR}/liba.so.1"}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a file that includes itself", {"a": "include a.conf\n/usr/lib\n"}),
        ("twice", {"a": "include a.conf\ninclude a.conf\n/usr/lib\n"}),
        ("files that include each other", dict.fromkeys("abc", "include *.conf\n/usr/lib\n")),
    ],
)
def test_a_circle_of_includes_ends(tmp_path: Path, name: str, lines: dict[str, str]) -> None:
    entries: dict[str, Entry] = {f"etc/ld.so.conf.d/{stem}.conf": text for stem, text in lines.items()}
    root = build(tmp_path / "root", {"etc/ld.so.conf": CONF, **entries, "usr/lib/liba.so.1": library("liba.so.1")})
    calls.update_ldcache(str(root), milliseconds=5000)
    assert lookups(root) == {"liba.so.1": "/usr/lib/liba.so.1"}, name


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("more files than anybody has", {f"etc/ld.so.conf.d/{i}.conf": "/usr/lib\n" for i in range(600)}),
        ("a deep chain of includes", {f"etc/ld.so.conf.d/{i}.conf": f"include {i + 1}.conf\n" for i in range(40)}),
        ("a long file", {"etc/ld.so.conf.d/0.conf": "#" * (1 << 21)}),
    ],
)
def test_over_a_bound_the_old_cache_stays(tmp_path: Path, name: str, entries: dict[str, Entry]) -> None:
    root = build(tmp_path / "root", {"etc/ld.so.conf": CONF, **entries, "etc/ld.so.cache": "old"})
    with pytest.raises(OSError, match="exceeds the limit for files of an image"):
        calls.update_ldcache(str(root))
    assert (root / "etc/ld.so.cache").read_text() == "old", name


def test_an_include_of_a_thousand_directories_is_no_crash(tmp_path: Path) -> None:
    """A component was a stack frame of four kilobytes, and the image says how many there are: the hook crashed."""
    lines = f"include {'/a' * 200_000}/*.conf\ninclude /{'[a]/' * 900}x\n/usr/lib\n"
    root = build(tmp_path / "root", {"etc/ld.so.conf": lines, "usr/lib/liba.so.1": library("liba.so.1")})
    hook = Path(sys.executable).parent / "shim"
    done = subprocess.run(
        [hook, "hook", "update-ldcache", "--root", root], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert lookups(root) == {"liba.so.1": "/usr/lib/liba.so.1"}


def test_more_wildcards_than_directories_anybody_has_are_refused(tmp_path: Path) -> None:
    deep = "/".join("d" * 40)
    root = build(tmp_path / "root", {"etc/ld.so.conf": f"include {'/*' * 40}\n", deep: None})
    with pytest.raises(OSError, match="exceeds the limit for files of an image"):
        calls.update_ldcache(str(root))


@pytest.mark.parametrize("path", ["/etc/x.conf/", "/etc/x.conf//", "/etc/*.conf/", "/", ""])
def test_slashes_at_the_end_of_an_include(tmp_path: Path, path: str) -> None:
    entries: dict[str, Entry] = {"etc/ld.so.conf": f"include {path}\n", "etc/x.conf": "/opt\n"}
    entries["opt/liba.so.1"] = library("liba.so.1")
    reference, ours = (build(tmp_path / kind, entries) for kind in ("reference", "ours"))
    ldconfig(reference)
    calls.update_ldcache(str(ours))
    assert picture(ours, ("var",)) == picture(reference, ("var",))


def test_the_order_of_long_numbers_ends_in_time(tmp_path: Path) -> None:
    """Their order is none, so that glibc's insertion is repeated: forty seconds for names that one file can have."""
    root = build(tmp_path / "root", {"usr/lib/lib0.so.1": library(), "etc/ld.so.cache": "old"})
    for i in range(60_000):
        os.link(root / "usr/lib/lib0.so.1", root / f"usr/lib/lib12345678901-{i:06}.so")
    config, state = tmp_path / "config.json", tmp_path / "state"
    config.write_text(json.dumps({"root": {"path": str(root)}}))
    state.write_text(json.dumps({"bundle": str(tmp_path)}))
    hook = Path(sys.executable).parent / "shim"
    command: list[str | Path] = [hook, "hook", "update-ldcache", "--container-spec", state]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0
    assert "it took too long" in done.stderr
    assert (root / "etc/ld.so.cache").read_text() == "old"


OUTSIDE = [
    ("the cache", "etc/ld.so.cache", "victim"),
    ("our own spare name", "etc/.cdi-shim~0", "victim"),
    ("the configuration", "etc/ld.so.conf", "victim"),
    ("the drop-in", "etc/ld.so.conf.d/00-cdi-shim.conf", "victim"),
    ("the drop-in's directory", "etc/ld.so.conf.d", "folder"),
    ("/etc itself", "etc", "folder"),
    ("a library directory", "usr/lib", "folder"),
    ("a soname link", "usr/lib/liba.so.1", "victim"),
    ("a directory for ISA levels", "usr/lib/glibc-hwcaps", "folder"),
]


def naive_update(root: Path, folder: str) -> None:
    """What the hook would be without a root handle: join, and follow whatever is there."""
    for name, text in (
        ("etc/ld.so.conf", CONF),
        ("etc/ld.so.conf.d/00-cdi-shim.conf", folder),
        ("etc/ld.so.cache", ""),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for spare in ("etc/.cdi-shim~0", "usr/lib/liba.so.1", "usr/lib/glibc-hwcaps/x", "usr/lib/liba.so.2"):
        (root / spare).parent.mkdir(parents=True, exist_ok=True)
        (root / spare).write_text("")


@pytest.mark.parametrize("style", ["absolute", "relative", "by way of /proc"])
@pytest.mark.parametrize("update", [calls.update_ldcache, naive_update])
@pytest.mark.parametrize(("place", "target"), [case[1:] for case in OUTSIDE], ids=[case[0] for case in OUTSIDE])
def test_a_link_out_of_the_root_changes_nothing_outside(
    tmp_path: Path, place: str, target: str, update: object, style: str
) -> None:
    outside = build(tmp_path / "outside", {"victim": "do not touch", "folder/liba.so.1.2": library("liba.so.1")})
    root = build(tmp_path / "root", {"usr/lib/liba.so.1.1": library("liba.so.1")})
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rename(path.with_name("moved"))
    to = outside / target
    path.symlink_to(
        {"absolute": to, "relative": Path("../" * 20 + str(to)[1:]), "by way of /proc": Path(f"/proc/self/root{to}")}[
            style
        ]
    )
    before = picture(outside)
    try:
        if update is naive_update:
            naive_update(root, "/usr/lib")
        else:
            calls.update_ldcache(str(root), ["/usr/lib"])
    except OSError:
        pass  # refusing is a good answer too
    assert (picture(outside) != before) == (update is naive_update)


def test_the_system_s_own_root_is_refused_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    for path in ("/", "//", "/etc/..", f"{tmp_path}/link/."):
        with pytest.raises(OSError, match="this system's own root"):
            calls.update_ldcache(path)
    with pytest.raises(OSError, match="cannot open the root"):
        calls.update_ldcache(f"{tmp_path}/link")


def test_a_huge_sparse_library_costs_nothing(tmp_path: Path) -> None:
    root = build(tmp_path / "root", {"usr/lib/liba.so.1": library("liba.so.1"), "usr/lib/libb.so.1": b""})
    os.truncate(root / "usr/lib/liba.so.1", 10 << 30)
    os.truncate(root / "usr/lib/libb.so.1", 10 << 30)
    calls.update_ldcache(str(root), milliseconds=5000)
    assert lookups(root) == {"liba.so.1": "/usr/lib/liba.so.1"}


# --- patterns ---


@given(st.text("ab.*?", max_size=8), st.text("ab.", min_size=1, max_size=8))
@example("*a*b", "aab")
@example("?*", ".a")
@settings(max_examples=500)
def test_patterns_match_like_the_shell_s(pattern: str, name: str) -> None:
    hidden = name.startswith(".") and not pattern.startswith(".")
    assert calls.matches(pattern, name) == (fnmatch.fnmatchcase(name, pattern) and not hidden)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("[a-c]*.conf", "b.conf", "d.conf"),
        ("[!a]*", "b", "a"),
        ("[^a]*", "b", "a"),
        ("[]x]", "]", "y"),
        ("[[:digit:]]", "7", "d"),
        ("[a", "[a", "a"),
        ("\\*", "*", "a"),
        ("[\\]]", "]", "\\"),
        ("a[", "a[", "a"),
        ("[[:no", "[[:no", "n"),
        ("[[: x:]b", "xb", "yb"),
    ],
)
def test_brackets_and_escapes(pattern: str, good: str, bad: str) -> None:
    assert calls.matches(pattern, good)
    assert not calls.matches(pattern, bad)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("*a" * 60 + "b", "a" * 200), ("*" + "[[:" * 1360, "[" * 254 + "x"), ("*" + "[" * 4090, "[" * 255)],
)
def test_a_pattern_of_many_wildcards_is_quick(pattern: str, name: str) -> None:
    assert not calls.matches(pattern, name)


# --- the reader ---


def test_the_reader_says_what_the_writer_wrote(tmp_path: Path) -> None:
    root = build(
        tmp_path / "root",
        {
            "usr/lib/liba.so.1": library("liba.so.1"),
            "usr/lib/glibc-hwcaps/x86-64-v3/liba.so.1": library("liba.so.1", isa=4),
        },
    )
    calls.update_ldcache(str(root), generator=DEBIAN_236)
    decoded = cache(root)
    assert decoded.generator == DEBIAN_236
    assert [(entry.value, entry.hwcaps, entry.hwcap >> 32 & 0x3FF) for entry in decoded.entries] == [
        ("/usr/lib/glibc-hwcaps/x86-64-v3/liba.so.1", "x86-64-v3", 2 if OWN == X86_64 else 0),  # levels are of x86
        ("/usr/lib/liba.so.1", "", 0),
    ]


def test_no_cut_of_a_cache_is_read_beyond_its_end(tmp_path: Path) -> None:
    root = build(tmp_path / "root", {f"usr/lib/lib{c}.so.1": library(f"lib{c}.so.1") for c in string.ascii_lowercase})
    calls.update_ldcache(str(root))
    whole = (root / "etc/ld.so.cache").read_bytes()
    assert len(ldcache.decode(whole).entries) == 26
    for size in range(len(whole)):
        with pytest.raises(ldcache.NotACacheError):
            ldcache.decode(whole[:size])


def test_a_file_of_both_formats_is_read_like_one_of_the_new(tmp_path: Path) -> None:
    """Its extension block is counted from the file's beginning, its names are not: a good file was called broken."""
    entries: dict[str, Entry] = {
        f"{USR}/liba.so.1": library("liba.so.1"),
        f"{USR}/glibc-hwcaps/x86-64-v3/liba.so.1": library("liba.so.1", isa=4),
    }
    new, both = build(tmp_path / "new", entries), build(tmp_path / "both", entries)
    ldconfig(new)
    ldconfig(both, "-c", "compat")
    assert (both / "etc/ld.so.cache").read_bytes().startswith(ldcache.OLD)
    read = [
        [(entry.key, entry.value, entry.flags, entry.hwcaps) for entry in cache(root).entries] for root in (new, both)
    ]
    assert read[0] == read[1]
    assert {hwcaps for *_, hwcaps in read[1]} == {"", "x86-64-v3"}
    assert cache(both).generator == cache(new).generator != ""


def _cache_file(hwcap: int, sections: list[tuple[int, bytes]], names: bytes = b"liba.so\0x86-64-v3\0") -> bytes:
    """A file with one entry, whose name and path are the first of the names, and these sections."""
    entry = ldcache.HEADER.size + ldcache.ENTRY.size
    block, where = b"", entry + len(names) + 8 + len(sections) * ldcache.SECTION.size
    for kind, text in sections:
        block += ldcache.SECTION.pack(kind, 0, where, len(text))
        where += len(text)
    return (
        ldcache.HEADER.pack(ldcache.NEW, 1, len(names), 2, entry + len(names))
        + ldcache.ENTRY.pack(0x303, entry, entry, 0, hwcap)
        + names
        + struct.pack("=II", ldcache.EXTENSION, len(sections))
        + block
        + b"".join(text for _, text in sections)
    )


DIRECTORY = struct.pack("=I", 48 + 24 + 8)  # where its name is in such a file


@pytest.mark.parametrize(
    ("name", "hwcap", "expected"),
    [
        ("an ordinary entry", 0, ""),
        ("one for a directory", 1 << 62, "x86-64-v3"),
        ("one with an ISA level", 1 << 62 | 3 << 32, "x86-64-v3"),
        ("one with a legacy capability as well is for no directory", 1 << 62 | 1 << 48, ""),
        ("legacy capabilities alone", 1 << 63 | 1 << 48, ""),
    ],
)
def test_which_entries_are_for_a_directory(name: str, hwcap: int, expected: str) -> None:
    (entry,) = ldcache.decode(_cache_file(hwcap, [(0, b"us"), (1, DIRECTORY)])).entries
    assert entry.hwcaps == expected, name


def test_of_two_sections_of_a_kind_the_last_counts_and_unknown_kinds_do_not() -> None:
    whole = _cache_file(1 << 62, [(0, b"first"), (1, bytes(4)), (7, b"?"), (1, DIRECTORY), (0, b"last"), (7, b"?")])
    decoded = ldcache.decode(whole)
    assert decoded.generator == "last"
    assert decoded.entries[0].hwcaps == "x86-64-v3"


@pytest.mark.parametrize("index", [1, 2, 0xFFFFFFFF])
def test_an_entry_for_a_directory_without_a_name_is_not_an_ordinary_one(index: int) -> None:
    """It was called one, which a loader finds; this one it never takes."""
    with pytest.raises(ldcache.NotACacheError, match=f"glibc-hwcaps directory {index}, and it names 1"):
        ldcache.decode(_cache_file(1 << 62 | index, [(1, DIRECTORY + b"xyz")]))


def test_names_that_lie_over_each_other_are_bounded() -> None:
    """Tails are shared in every cache. Here each entry has a name of megabytes, and all are different."""
    count = 64
    start = ldcache.HEADER.size + count * ldcache.ENTRY.size
    entries = [ldcache.ENTRY.pack(0x303, start + i, start + i, 0, 0) for i in range(count)]
    head = ldcache.HEADER.pack(ldcache.NEW, count, ldcache.LIMIT // 32, 2, 0)
    whole = head + b"".join(entries) + b"a" * (ldcache.LIMIT // 32 - 1) + b"\0"
    with pytest.raises(ldcache.NotACacheError, match="lie over each other"):
        ldcache.decode(whole)
    few = head.replace(struct.pack("=I", count), struct.pack("=I", 8), 1)
    assert len(ldcache.decode(few + whole[len(head) :]).entries) == 8
