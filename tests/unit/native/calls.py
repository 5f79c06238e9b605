"""Functions of the C core that only the launcher and the hooks call, for tests.

The installed package has what it needs itself (shim.hooks.core). Arguments are text as Python holds file names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shim.hooks._core import ffi, lib
from shim.hooks.core import HookCall, read_hook


class Call:
    """What a command line says.

    Attributes:
        verb: "create", "state" …, "" without one.
        at: index of the verb in the command line, 0 without one.
        injects: the verb is create, run or restore, and not only a question for help or version.
        bundle: value of --bundle, "" when the working directory is the bundle.
        config: a file other than the bundle's config.json, relative to the working directory, "" without one.
        process: value of exec's --process, "" without one, and when only a question is asked.
        resources: value of update's --resources, likewise.
        id: the container's id, "" when missing.
        root: value of --root, "" when not given.
        log: the file of --log, "" when not given, or when crun's log goes to journald or syslog.
        log_format: value of --log-format, "" when not given.
        unknown: an option in front of the verb that leaves open which word is the verb, else "".
        devices: values of our --device, in order.
        argv: the command line without our --device.
    """

    __slots__ = (
        "argv",
        "at",
        "bundle",
        "config",
        "devices",
        "id",
        "injects",
        "log",
        "log_format",
        "process",
        "resources",
        "root",
        "unknown",
        "verb",
    )

    def __init__(self, read: Any, kept: Any, devices: Any) -> None:
        self.verb = _text(read.verb)
        self.at: int = read.at
        self.injects: bool = read.injects
        self.bundle = _text(read.bundle)
        self.config = _text(read.config)
        self.process = _text(read.process)
        self.resources = _text(read.resources)
        self.id = _text(read.id)
        self.root = _text(read.root)
        self.log = _text(read.log)
        self.log_format = _text(read.log_format)
        self.unknown = _text(read.unknown)
        self.devices = [_text(devices[i]) for i in range(read.devices)]
        self.argv = [_text(kept[i]) for i in range(read.kept)]


def grammar_of(path: str) -> str:
    """Whose command line the low-level runtime at this path reads, "runc" or "crun", told by its name."""
    return "crun" if lib.grammar_of(path.encode("utf-8", "surrogateescape")) == lib.CRUN else "runc"


def parse_call(argv: list[str], runtime: str) -> Call:
    """Read a command line as the low-level runtime will.

    Arguments:
        argv: the command line, argv[0] included.
        runtime: "runc" or "crun".
    """
    words = [ffi.new("char[]", word.encode("utf-8", "surrogateescape")) for word in argv]
    parsed = ffi.new("struct call *")
    kept = ffi.new("char *[]", len(words) + 1)
    devices = ffi.new("char *[]", len(words) + 1)
    grammar = lib.CRUN if runtime == "crun" else lib.RUNC
    lib.parse_call(grammar, len(words), ffi.new("char *[]", [*words, ffi.NULL]), parsed, kept, devices)
    return Call(parsed, kept, devices)


def asks(config: bytes, needles: list[bytes] | None = None) -> bool:
    """Whether a config.json could hold a request, as the launcher judges it: errs only towards True.

    Arguments:
        config: the file's bytes.
        needles: texts of which one stands in every request, none empty; those of a machine without a configuration when
            not given.
    """
    return _scan(lib.asks, config, needles)


def nearly_asks(config: bytes, needles: list[bytes] | None = None) -> bool:
    """Whether a config.json could hold a key that nearly is a request. Arguments: as of `asks`."""
    return _scan(lib.nearly_asks, config, needles)


def _scan(scan: Callable[..., bool], config: bytes, needles: list[bytes] | None) -> bool:
    if needles is None:
        return bool(scan(config, len(config), lib.built_in_needles, 1))
    texts = [ffi.new("char[]", needle) for needle in needles]
    listed = ffi.new("struct needle[]", [(text, len(needle)) for text, needle in zip(texts, needles, strict=True)])
    return bool(scan(config, len(config), listed, len(needles)))


class CacheReport:
    """What update_ldcache did.

    Attributes:
        entries: lines of the cache.
        links_made: soname links that were made or turned.
        links_removed: stale links that were taken away.
        links_refused: soname links that could not be made; the cache names the file itself where the tree is read-only.
        generator: whose ldconfig was imitated, as the cache says.
        remark: what did not stop the work but is not as it should be, "" for nothing: a configuration file on another
            mount, which is not read; a file in the place of a soname link beside injected libraries.
    """

    __slots__ = ("entries", "generator", "links_made", "links_refused", "links_removed", "remark")

    def __init__(self, done: Any) -> None:
        self.entries: int = done.entries
        self.links_made: int = done.links_made
        self.links_removed: int = done.links_removed
        self.links_refused: int = done.links_refused
        self.generator = _text(done.generator)
        self.remark = _text(done.remark.text)


def update_ldcache(
    root: str,
    folders: list[str] | None = None,
    *,
    sources: list[tuple[str, str]] | None = None,
    owner: tuple[int, int] | None = None,
    generator: str = "",
    keep_links: bool = False,
    settle: bool = False,
    replace_empty: bool = False,
    one_mount: bool = False,
    milliseconds: int = 0,
    threads: int = 2,
) -> CacheReport:
    """Write the ld.so.cache and the soname links of a root as the ldconfig of its own libc does.

    Arguments:
        root: the root directory on this host; never this system's own.
        folders: absolute paths in the root, left in a drop-in file of ld.so.conf.d and searched with the rest.
        sources: what will be mounted when the container runs, (path in the root, path on this host): files are read in
            the place of their mount points, which are made if missing, and directories are listed as lent. What a lent
            directory's links say about other directories is not known yet, and nothing is changed in it.
        owner: uid and gid of what is made, None: whoever we are.
        generator: imitate the ldconfig whose caches say this; "": the one of the root's libc.
        keep_links: maintain no soname links, like `ldconfig -X`.
        settle: as if run twice, so that links through new soname links are seen.
        replace_empty: in the folders, and where files of `sources` lie, an empty file gives way to a soname link.
        one_mount: change nothing on other mounts than the root's own.
        milliseconds: give up after that long, 0: never.
        threads: how many look into files.

    Raises:
        OSError: with the whole message as its text; the old cache is untouched then.
    """
    words = [_bytes(folder) for folder in folders or []]
    text = _bytes(generator) if generator else ffi.NULL
    listed = ffi.new("char *[]", words)
    options = ffi.new("struct ld_options *")
    options.folders = ffi.cast("const char *const *", listed)
    options.folder_count = len(words)
    lent, words_of_lent = _sources(sources)
    options.sources, options.source_count = lent, len(lent)
    options.generator = text
    options.keep_links = keep_links
    options.settle = settle
    options.replace_empty = replace_empty
    options.threads = threads
    handle, fault, done = ffi.new("struct root *"), ffi.new("struct fault *"), ffi.new("struct ld_report *")
    if lib.root_open(handle, root.encode("utf-8", "surrogateescape"), fault):
        raise OSError(fault.code, _text(fault.text))
    try:
        handle.one_mount = one_mount
        if owner:
            handle.uid, handle.gid = owner
        if milliseconds:
            lib.root_limit(handle, milliseconds)
        if lib.ld_update(handle, options, done, fault):
            raise OSError(fault.code, _text(fault.text))
    finally:
        lib.root_close(handle)
        del words_of_lent  # alive until here
    return CacheReport(done)


def matches(pattern: str, name: str) -> bool:
    """Whether a file name matches one component of a pattern of ld.so.conf's include lines."""
    return bool(lib.ld_glob(pattern.encode("utf-8", "surrogateescape"), name.encode("utf-8", "surrogateescape")))


def hook_call(*words: str) -> HookCall:
    """A command line of `shim hook`, or "the program refuses it" as an error."""
    call = read_hook(["shim", "hook", *words])
    assert call, "the program refuses it"
    return call


def _sources(pairs: list[tuple[str, str]] | None) -> tuple[Any, list[Any]]:
    """An array of struct ld_source, and the strings that it points to, which must live as long."""
    words = [(_bytes(path), _bytes(source)) for path, source in pairs or []]
    return ffi.new("struct ld_source[]", [{"path": path, "source": source} for path, source in words]), words


def _bytes(text: str) -> Any:
    """A C string, which lives as long as the value that is returned."""
    return ffi.new("char[]", text.encode("utf-8", "surrogateescape"))


def _text(pointer: Any) -> str:
    text: bytes = b"" if pointer == ffi.NULL else ffi.string(pointer)
    return text.decode("utf-8", "surrogateescape")
