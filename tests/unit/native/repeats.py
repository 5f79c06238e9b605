"""The C parts of a repeated create, for tests: what the launcher does with a question and an answer."""

from __future__ import annotations

from typing import Any

from shim import __version__
from shim.hooks._core import ffi, lib

_tree = ffi.new("struct json_tree *")
_question = ffi.new("struct question *")
_answer = ffi.new("struct answer *")
_inserts = ffi.new("struct inserts *")


def read_tree(text: bytes) -> int:
    """0 for a text that is JSON as the launcher takes it, else a negative errno value."""
    status: int = lib.json_tree_read(_tree, ffi.from_buffer(_ended(text)), len(text))
    return status


def read_question(config: bytes, argv: list[str], name: str = "shim") -> str | None:
    """The text of a question, without the programs that answer it; None where the launcher leaves it to Python.

    Arguments:
        config: config.json.
        argv: the command line of the runtime, its name included.
        name: last part of the launcher's argv[0].
    """
    text = ffi.from_buffer(_ended(config))
    if lib.json_tree_read(_tree, text, len(config)) != 0:
        return None
    words = [ffi.new("char[]", word.encode()) for word in argv]
    call, kept, devices = ffi.new("struct call *"), ffi.new("char *[]", len(argv) + 1), ffi.new("char *[]", len(argv))
    lib.parse_call(lib.RUNC, len(argv), ffi.new("char *[]", words), call, kept, devices)
    given = ffi.new("char[]", name.encode())
    if lib.question_read(_question, _tree, call, devices, given) != 0:
        return None
    question: bytes = ffi.string(_question.text)
    return question.decode()


def edit(config: bytes, answer: bytes) -> bytes | None:
    """config.json with the edits of an answer; None where the launcher leaves it to Python.

    Raises:
        ValueError: the answer is none.
    """
    text, given = ffi.from_buffer(_ended(config)), ffi.from_buffer(_ended(answer))
    if lib.answer_read(_answer, given, len(answer)) != 0:
        raise ValueError("no answer")
    if lib.json_tree_read(_tree, text, len(config)) != 0 or lib.insert_edits(_inserts, _tree, _answer) < 0:
        return None
    parts = ffi.new("struct span[]", lib.MAX_PARTS)
    count = lib.insert_parts(_inserts, _tree, len(config), parts)
    return b"".join(bytes(ffi.buffer(part.text, part.size)) for part in parts[0:count])


def is_current(answer: bytes) -> bool:
    """Whether the host is as an answer says. Raises ValueError as `edit`."""
    given = ffi.from_buffer(_ended(answer))
    if lib.answer_read(_answer, given, len(answer)) != 0:
        raise ValueError("no answer")
    return bool(lib.answer_is_current(_answer))


def members() -> list[str]:
    """The names of config.json that the launcher knows."""
    names: list[str] = []
    while lib.question_members[len(names)] != ffi.NULL:
        names.append(_text(lib.question_members[len(names)]))
    return names


def _text(pointer: Any) -> str:
    text: bytes = ffi.string(pointer)
    return text.decode()


def _ended(text: bytes) -> bytearray:
    return bytearray(text + b"\0")


# --- the form of an answer, by hand -----------------------------------------------------------------------------------


def fields(data: bytes) -> list[bytes]:
    """The fields that bytes hold."""
    parts = []
    while data:
        size, _, data = data.partition(b":")
        parts.append(data[: int(size)])
        data = data[int(size) :]
    return parts


def join(parts: list[bytes]) -> bytes:
    """The bytes that hold these fields."""
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)


def split(answer: bytes) -> list[bytes]:
    """The fields of an answer."""
    return fields(answer.partition(b"\n")[2])


def seal(parts: list[bytes]) -> bytes:
    """An answer of these fields, with its first line."""
    data = join(parts)
    words = [b"shim-answer", b"1", __version__.encode()]
    return b" ".join([*words, b"%016x" % (int.from_bytes(data, "little") % (2**60 - 93)), b"%08d\n" % len(data)]) + data
