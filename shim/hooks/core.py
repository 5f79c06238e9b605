"""The C core for Python: the only module that calls C.

The parts of the launcher and the hooks that run without Python exist in C only. Through this module create does the
work of hooks, and explain and engines search the low-level runtime. The functions are declared in the headers of
native/ and hooks/. Arguments are text as Python holds file names (surrogate escapes for bytes that are not UTF-8).
"""

from __future__ import annotations

import errno

from shim.hooks._core import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def _bytes(text: str) -> Any:
    """A C string; the returned value owns its memory."""
    return ffi.new("char[]", text.encode("utf-8", "surrogateescape"))


def _text(pointer: Any) -> str:
    text: bytes = b"" if pointer == ffi.NULL else ffi.string(pointer)
    return text.decode("utf-8", "surrogateescape")


LOW_LEVEL_LINKS: str = ffi.string(lib.low_level_links).decode()  # a directory


def low_level(launcher: str, name: str = "", *, path: str = "") -> str:
    """The low-level runtime that a launcher executes, found by the launcher's own functions.

    Arguments:
        launcher: path of the launcher.
        name: by which it is called, the last part of its path when not given.
        path: PATH of the caller.
    Returns:
        its path, which may lead nowhere; "" if none is found, or the link is wrong.
    """
    low, words = ffi.new("struct low_level *"), [_bytes(""), _bytes(name or launcher.rpartition("/")[2])]
    lib.low_level_begin(low, *words, _bytes(launcher))
    answer = lib.low_level_by_link(low)
    if answer == lib.LOW_LEVEL_MISSING:
        answer = lib.low_level_by_search(low, _bytes(path))
    return _text(low.path) if answer == lib.LOW_LEVEL_FOUND else ""


def search_low_level(launcher: str, name: str, *, path: str, root: str = "") -> str:
    """The runtime that a launcher without a link finds; never the launcher itself.

    Arguments:
        launcher: path of the launcher, with the root.
        name: by which it is called: shim searches runc, then crun; shim-X and X search X.
        path: PATH, which is searched last.
        root: the directory before each path, "" for the files of this machine.
    Returns:
        its path, without the root; "" if none is found.
    """
    low, words = ffi.new("struct low_level *"), [_bytes(root), _bytes(name)]
    lib.low_level_begin(low, *words, _bytes(launcher))
    answer = lib.low_level_by_search(low, _bytes(path))
    return _text(low.path) if answer == lib.LOW_LEVEL_FOUND else ""


def can_map_ids(path: str, *, recursive: bool) -> bool:
    """Whether ids can be mapped on a bind mount of a path (option idmap of OCI); True where that cannot be tried.

    Arguments:
        path: of the host.
        recursive: also on the mounts below it (option ridmap).
    """
    return bool(lib.can_map_ids(_bytes(path), recursive) != 0)


# --- hooks ----------------------------------------------------------------------------------------------------------

# What is needed to do a hook's work before the container is created: enum hook_before of hooks/hook.h.
LATER: int = lib.HOOK_LATER
TREE: int = lib.HOOK_TREE
LIBRARIES: int = lib.HOOK_LIBRARIES
NODES: int = lib.HOOK_NODES


class Hook:
    """A row of the table of hooks (hooks/hook.c).

    Attributes:
        name: for example "create-symlinks".
        before: LATER, TREE, LIBRARIES or NODES.
        makes_libraries: it may add files, or directories, that a hook with LIBRARIES must read.
    """

    __slots__ = ("before", "makes_libraries", "name")

    def __init__(self, row: Any) -> None:
        self.name = _text(row.name)
        self.before: int = row.before
        self.makes_libraries: bool = row.makes_libraries


def _rows(table: Any) -> Iterator[Any]:
    """The rows of a table, which ends in a row without a name."""
    number = 0
    while table[number].name != ffi.NULL:
        yield table[number]
        number += 1


# In the order in which a process runs them.
HOOKS = tuple(Hook(row) for row in _rows(lib.hook_table))


class HookCall:
    """The command line of a hook program, ours or the vendor's.

    Attributes:
        names: index in argv -> name of a hook.
        is_usual: it has only options for the start of a container: none for another tree or state or another form of
            the cache, and no unknown option.
    """

    __slots__ = ("_call", "_words", "is_usual", "names")

    def __init__(self, call: Any, argv: list[Any], words: list[Any]) -> None:
        """Take a struct hook_call.

        Arguments:
            argv: the command line that it points into.
            words: the owners of its memory.
        """
        self._call, self._words = call, words
        named = [call.names[i] for i in range(call.name_count)]
        self.names = {index: _text(word) for index, word in enumerate(argv) if word in named}
        self.is_usual = not call.unusual

    def run(
        self,
        name: str,
        root: str,
        *,
        sources: list[tuple[str, str]] | None = None,
        covers: list[tuple[str, str, bool]] | None = None,
        owner: tuple[int, int] | None = None,
        elsewhere: int = 0,
        milliseconds: int = 2000,
    ) -> None:
        """Do the work of a hook on a container's root before the container is created, with the result of the hook.

        Arguments:
            name: the hook, in `names` or not.
            root: the root directory on this host; never this system's own.
            sources: for a hook with LIBRARIES future mounts, (path in the root, path on this host): files are read
                instead of their mount points, which are created if missing, and directories are listed as lent.
                For a hook with NODES the nodes in /dev, each path twice.
            covers: (path in the root, source: a path on this host, or "" for a file system without links, whether it is
                a directory of `sources`) of all mounts but the files of `sources`, in their order. The container will
                not see the contents of the tree below these.
            owner: uid and gid of new files, None: this process's own.
            elsewhere: a descriptor above 0 for the result of a hook with LIBRARIES, when the root cannot be written:
                then nothing is written to the root.
            milliseconds: give up after that long.

        Raises:
            OSError: with the whole message as its text; errno.ENOSYS for a hook of an unknown name, EXDEV for a path
                below a cover, EROFS for a root that cannot be written, ENOENT also for an empty root.
        """
        call = self._call
        lent, words_of_lent = _sources(sources)
        call.sources, call.source_count, call.elsewhere = lent, len(lent), elsewhere
        over, words_of_over = _covers(covers)
        handle, fault = ffi.new("struct root *"), ffi.new("struct fault *")
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
            call.sources, call.source_count, call.elsewhere = ffi.NULL, 0, 0
            del words_of_lent, words_of_over  # alive until here


def read_hook(argv: list[str]) -> HookCall | None:
    """Read a command line as `shim hook`, nvidia-cdi-hook and nvidia-ctk do.

    Arguments:
        argv: the command line; its first word is the program.
    Returns:
        None for another program, and for a command line that the program would refuse.
    """
    words = [_bytes(word) for word in argv]
    array = ffi.new("char *[]", [*words, ffi.NULL])
    first, vendor = ffi.new("int *"), ffi.new("bool *")
    call = ffi.new("struct hook_call *")
    if not lib.is_hook_call(len(words), array, first, vendor):
        return None
    call.vendor = vendor[0]
    if lib.hook_parse(len(words), array, first[0], call, ffi.NULL):
        return None
    return HookCall(call, [array[i] for i in range(len(words))], words)


def _sources(pairs: list[tuple[str, str]] | None) -> tuple[Any, list[Any]]:
    """An array of struct ld_source, and the strings that it points to, which must exist as long as the array."""
    words = [(_bytes(path), _bytes(source)) for path, source in pairs or []]
    array = ffi.new("struct ld_source[]", len(words))
    for entry, (path, source) in zip(array, words, strict=True):
        entry.path, entry.source = path, source
    return array, words


def _covers(mounts: list[tuple[str, str, bool]] | None) -> tuple[Any, list[Any]]:
    """A struct covers, and the memory that it points to."""
    words = [(_bytes(path), _bytes(source) if source else ffi.NULL) for path, source, _ in mounts or []]
    items = ffi.new("struct cover[]", len(words))
    for item, (path, source), (_, _, lent) in zip(items, words, mounts or [], strict=True):
        item.path, item.source, item.lent = path, source, lent
    covers = ffi.new("struct covers *")
    covers.items, covers.count = items, len(words)
    return covers, [*words, items]
