"""The head of an HTTP/1.1 request, parsed so that no two parsers can read it differently.

Refused are, among others: bare line feeds, folded lines, blanks in front of a colon, two lengths, a length beside
chunks, and any coding but `chunked`. The daemon accepts most of them, which is why none may reach it.

Source: RFC 9112 sections 2.2, 3, 5 and 6; RFC 9110 section 5.5.
"""

from __future__ import annotations

import re

from shim.gate.judge.messages import Denied
from shim.gate.judge.model import Request

MAX_HEAD = 65536
END = b"\r\n\r\n"

_LINE = re.compile(rb"([A-Z]{1,16}) ([^ ]+) HTTP/1\.1")
_OTHER_VERSION = re.compile(rb"[A-Z]{1,16} [^ ]+ HTTP/[0-9](?:\.[0-9])?")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_BARE_FEED = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(r"[0-9]{1,18}")


def check_partial(received: bytes) -> None:
    """Refuse the beginning of a head that no further bytes can mend.

    Arguments:
        received: everything so far; the end of the head is not in it.

    Raises Denied: http-version (HTTP/2), http-malformed (a bare line feed) or http-head (too long).
    """
    if received.startswith(b"PRI"):
        raise Denied("http-version")
    if _BARE_FEED.search(received):
        raise Denied("http-malformed", what="a line of its head ends without a carriage return")
    if len(received) > MAX_HEAD:
        raise Denied("http-head", limit=MAX_HEAD)


def parse(head: bytes) -> Request:
    """The request of a head.

    Arguments:
        head: up to the empty line, without the two line ends that close it.

    Raises Denied: http-version, http-malformed, http-framing or http-head.
    """
    check_partial(head)
    line, *fields = head.split(b"\r\n")
    match = _LINE.fullmatch(line)
    if match is None:
        if _OTHER_VERSION.fullmatch(line):
            raise Denied("http-version")
        raise Denied("http-malformed", what="its first line is not METHOD TARGET HTTP/1.1")
    headers = tuple(_field(field) for field in fields)
    names = [name for name, _ in headers]
    if names.count("host") != 1:
        raise Denied("http-malformed", what="it has no Host, or several")
    if any(value.lower() != "100-continue" for name, value in headers if name == "expect"):
        raise Denied("http-malformed", what="it expects something other than 100-continue")
    length, is_chunked = _framing(headers)
    method, target = match[1].decode("ascii"), match[2].decode("latin-1")
    return Request(method, target, headers, None, length, is_chunked)


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise Denied("http-malformed", what="a line of its head is not NAME: VALUE")
    return name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")


def _framing(headers: tuple[tuple[str, str], ...]) -> tuple[int | None, bool]:
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value for name, value in headers if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise Denied("http-framing", what="it has more than one of Content-Length and Transfer-Encoding")
    if codings and codings != ["chunked"]:
        raise Denied("http-framing", what="its Transfer-Encoding is not chunked")
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise Denied("http-framing", what="its Content-Length is not a number")
    return int(lengths[0]) if lengths else None, bool(codings)
