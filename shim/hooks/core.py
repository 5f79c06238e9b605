"""The C core for Python: the only module that calls C.

The grammar of runc and crun and the request scan exist once, in C, because the launcher needs them before there is a
Python. `shim explain` and the tests reach the same functions here. Arguments are text as Python holds file names
(surrogate escapes for bytes that are not UTF-8), since that is what a command line is made of.
"""

from __future__ import annotations

import errno

from shim.hooks._core import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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

    def __init__(self, found: Any, kept: Any, devices: Any) -> None:
        self.verb = _text(found.verb)
        self.at: int = found.at
        self.injects: bool = found.injects
        self.bundle = _text(found.bundle)
        self.config = _text(found.config)
        self.process = _text(found.process)
        self.resources = _text(found.resources)
        self.id = _text(found.id)
        self.root = _text(found.root)
        self.log = _text(found.log)
        self.log_format = _text(found.log_format)
        self.unknown = _text(found.unknown)
        self.devices = [_text(devices[i]) for i in range(found.devices)]
        self.argv = [_text(kept[i]) for i in range(found.kept)]


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
    found = ffi.new("struct call *")
    kept = ffi.new("char *[]", len(words) + 1)
    devices = ffi.new("char *[]", len(words) + 1)
    grammar = lib.CRUN if runtime == "crun" else lib.RUNC
    lib.parse_call(grammar, len(words), ffi.new("char *[]", [*words, ffi.NULL]), found, kept, devices)
    return Call(found, kept, devices)


LOW_LEVEL_LINKS: str = ffi.string(lib.low_level_links).decode()  # a directory
PROGRAM_DIRECTORIES: tuple[str, ...] = tuple(ffi.string(one).decode() for one in lib.program_directories)


def low_level(launcher: str, name: str = "", *, path: str = "") -> str:
    """The low-level runtime that a launcher becomes, as it finds it itself.

    Arguments:
        launcher: path of the launcher.
        name: what it is called as, the last part of its path when not given.
        path: PATH of the caller.
    Returns:
        its path, which may lead nowhere; "" where there is none, or the link is wrong.
    """
    low, words = ffi.new("struct low_level *"), [_bytes(""), _bytes(name or launcher.rpartition("/")[2])]
    lib.low_level_begin(low, *words, _bytes(launcher))
    answer = lib.low_level_by_link(low)
    if answer == lib.LOW_LEVEL_MISSING:
        answer = lib.low_level_by_search(low, _bytes(path))
    return _text(low.path) if answer == lib.LOW_LEVEL_FOUND else ""


def search_low_level(launcher: str, name: str, *, path: str, root: str = "") -> str:
    """The runtime that a launcher finds where no link names one; never itself.

    Arguments:
        launcher: path of the launcher, with the root.
        name: what it is called as: shim searches runc, then crun; shim-X and X search X.
        path: PATH, which is searched last.
        root: the directory before each path, "" for the files of this machine.
    Returns:
        its path, without the root; "" where there is none.
    """
    low, words = ffi.new("struct low_level *"), [_bytes(root), _bytes(name)]
    lib.low_level_begin(low, *words, _bytes(launcher))
    answer = lib.low_level_by_search(low, _bytes(path))
    return _text(low.path) if answer == lib.LOW_LEVEL_FOUND else ""


def asks(config: bytes, needles: list[bytes] | None = None) -> bool:
    """Whether a config.json could hold a request, as the launcher judges it: errs only towards True.

    Arguments:
        config: the file's bytes.
        needles: texts of which one stands in every request, none empty; those of a machine without a configuration when
            not given.
    """
    if needles is None:
        return bool(lib.asks(config, len(config), lib.built_in_needles, 1))
    texts = [ffi.new("char[]", needle) for needle in needles]
    listed = ffi.new("struct needle[]", [(text, len(needle)) for text, needle in zip(texts, needles, strict=True)])
    return bool(lib.asks(config, len(config), listed, len(needles)))


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


class HookCall:
    """The command line of a hook program, ours or the vendor's.

    Attributes:
        names: place in argv -> name of a hook.
        folders: of --folder.
        links: of --link.
        compat: of --cuda-compat-container-root, "" without.
        driver: of --host-driver-version, "" without.
        cuda: of --host-cuda-version, "" without.
        is_plain: it says nothing else: no other tree or state, no other way to make the cache, no unknown option.
    """

    __slots__ = ("compat", "cuda", "driver", "folders", "is_plain", "links", "names")

    def __init__(self, found: Any, words: list[Any]) -> None:
        named = [found.names[i] for i in range(found.name_count)]
        self.names = {place: _text(word) for place, word in enumerate(words) if word in named}
        self.folders = [_text(found.folders[i]) for i in range(found.folder_count)]
        self.links = [_text(found.links[i]) for i in range(found.link_count)]
        self.compat = _text(found.compat)
        self.driver = _text(found.driver)
        self.cuda = _text(found.cuda)
        elsewhere = any(member != ffi.NULL for member in (found.root, found.state, found.generator))
        self.is_plain = not (elsewhere or found.keep_links or found.passed_over)


def read_hook(argv: list[str]) -> HookCall | None:
    """Read a command line as `shim hook`, nvidia-cdi-hook and nvidia-ctk do.

    Arguments:
        argv: the command line; its first word says which program it is.
    Returns:
        None for another program, and for what the program would refuse.
    """
    words = [_bytes(word) for word in argv]
    array = ffi.new("char *[]", [*words, ffi.NULL])
    first, vendor = ffi.new("int *"), ffi.new("bool *")
    found = ffi.new("struct hook_call *")
    if not lib.is_hook_call(len(words), array, first, vendor):
        return None
    found.vendor = vendor[0]
    if lib.hook_parse(len(words), array, first[0], found, ffi.NULL):
        return None
    return HookCall(found, [array[i] for i in range(len(words))])


def run_hook(
    name: str,
    root: str,
    *,
    folders: list[str] | None = None,
    links: list[str] | None = None,
    sources: list[tuple[str, str]] | None = None,
    covers: list[tuple[str, str, bool]] | None = None,
    compat: str = "",
    driver: str = "",
    cuda: str = "",
    owner: tuple[int, int] | None = None,
    elsewhere: int = 0,
    milliseconds: int = 2000,
) -> None:
    """Do a hook's work on a container's root before the container is made, with the result that the hook would have.

    Arguments:
        name: the hook, for example "create-symlinks".
        root: the root directory on this host.
        folders: of --folder, at most 512.
        links: of --link, "TARGET::LINK", at most 512.
        sources: what will be mounted, as in update_ldcache; and for update-application-profile the nodes in /dev.
        covers: (path in the root, what is mounted there, is it a directory of `sources`) of all mounts but the files of
            `sources`, in the order in which they are made: what lies below is not what the container will see. What is
            mounted is a path on this host, or "" for a file system that has no links when it is mounted.
        compat: of --cuda-compat-container-root.
        driver: of --host-driver-version.
        cuda: of --host-cuda-version.
        owner: uid and gid of what is made, None: whoever we are.
        elsewhere: a descriptor above 0 that takes the cache of update-ldcache: nothing is written to the root then.
        milliseconds: give up after that long.

    Raises:
        OSError: with the whole message as its text; errno.ENOSYS for a hook of an unknown name, EXDEV when the work
            reaches below a cover, EROFS for a root that cannot be written, ENOENT also for one that is empty.
        ValueError: more than 512 folders or links.
    """
    call, kept = ffi.new("struct hook_call *"), []
    for words, into in ((folders or [], call.folders), (links or [], call.links)):
        if len(words) > len(into):
            raise ValueError(f"{len(words)} words are more than a hook takes")
        for i, word in enumerate(words):
            kept.append(_bytes(word))
            into[i] = kept[-1]
    call.folder_count, call.link_count = len(folders or []), len(links or [])
    lent, words_of_lent = _sources(sources)
    call.sources, call.source_count = lent, len(lent)
    call.elsewhere = elsewhere
    for member, text in (("compat", compat), ("driver", driver), ("cuda", cuda)):
        if text:
            kept.append(_bytes(text))
            setattr(call, member, kept[-1])
    handle, fault = ffi.new("struct root *"), ffi.new("struct fault *")
    over, words_of_over = _covers(covers)
    if lib.root_open(handle, _bytes(root), fault):
        raise OSError(fault.code, _text(fault.text))
    try:
        if lib.root_empty(handle):
            raise OSError(errno.ENOENT, f"the root {root} is empty")
        if covers and lib.root_cover(handle, over, fault):
            raise OSError(fault.code, _text(fault.text))
        handle.one_mount = True
        if owner:
            handle.uid, handle.gid = owner
        lib.root_limit(handle, milliseconds)
        if lib.run_hook(_bytes(name), handle, call, fault):
            raise OSError(fault.code, _text(fault.text))
    finally:
        lib.root_close(handle)
        del kept, words_of_lent, words_of_over  # alive until here


def matches(pattern: str, name: str) -> bool:
    """Whether a file name matches one component of a pattern of ld.so.conf's include lines."""
    return bool(lib.ld_glob(pattern.encode("utf-8", "surrogateescape"), name.encode("utf-8", "surrogateescape")))


def _sources(pairs: list[tuple[str, str]] | None) -> tuple[Any, list[Any]]:
    """An array of struct ld_source, and the strings that it points to, which must live as long."""
    words = [(_bytes(path), _bytes(source)) for path, source in pairs or []]
    array = ffi.new("struct ld_source[]", len(words))
    for place, (path, source) in zip(array, words, strict=True):
        place.path, place.source = path, source
    return array, words


def _covers(mounts: list[tuple[str, str, bool]] | None) -> tuple[Any, list[Any]]:
    """A struct covers, and what it points to."""
    words = [(_bytes(path), _bytes(source) if source else ffi.NULL) for path, source, _ in mounts or []]
    items = ffi.new("struct cover[]", len(words))
    for item, (path, source), (_, _, lent) in zip(items, words, mounts or [], strict=True):
        item.path, item.source, item.lent = path, source, lent
    covers = ffi.new("struct covers *")
    covers.items, covers.count = items, len(words)
    return covers, [*words, items]


def _bytes(text: str) -> Any:
    """A C string, which lives as long as the value that is returned."""
    return ffi.new("char[]", text.encode("utf-8", "surrogateescape"))


def _text(pointer: Any) -> str:
    text: bytes = b"" if pointer == ffi.NULL else ffi.string(pointer)
    return text.decode("utf-8", "surrogateescape")
