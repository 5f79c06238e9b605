"""The C core for Python: the only module that calls C.

The grammar of runc and crun and the request scan exist once, in C, because the launcher needs them before there is a
Python. `shim explain` and the tests reach the same functions here. Arguments are text as Python holds file names
(surrogate escapes for bytes that are not UTF-8), since that is what a command line is made of.
"""

from __future__ import annotations

from shim.hooks._core import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Call:
    """What a command line says.

    Attributes:
        verb: "create", "state" …, "" without one.
        at: index of the verb in the command line, 0 without one.
        injects: the verb is create or run, and not only a question for help or version.
        bundle: value of --bundle, "" when the working directory is the bundle.
        config: a file other than the bundle's config.json, relative to the working directory, "" without one.
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


def asks(config: bytes) -> bool:
    """Whether a config.json could hold a request, as the launcher judges it: errs only towards True.

    Arguments:
        config: the file's bytes.
    """
    return bool(lib.asks(config, len(config)))


def _text(pointer: Any) -> str:
    text: bytes = b"" if pointer == ffi.NULL else ffi.string(pointer)
    return text.decode("utf-8", "surrogateescape")
