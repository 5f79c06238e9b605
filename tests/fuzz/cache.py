"""`make fuzz FUZZ=cache`: damaged caches for their reader, shim.host.ldcache.

It begins with the caches of corpus/cache, which our writer and glibc's made, and damages one after the other: bytes as
they come and, since the format is known here, counts and offsets, and whole files that say the same a hundred thousand
times. An input with an outcome that was not seen before is one to begin with from then on. One seed gives one sequence
of inputs.

The reader may answer or raise NotACacheError, within TIME and MEMORY; what it answers must stand in the file. An input
with which it does anything else is written as crash-cache-DIGEST, and

    cd tests && python3 -m fuzz.cache FILE...

reads such files once more.
"""

from __future__ import annotations

import collections
import contextlib
import random
import re
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from fuzz import command
from shim.host import ldcache
from shim.host.ldcache import ENTRY, EXTENSION, HEADER, LIMIT, NEW, SECTION

TIME = 10.0  # seconds of processor time for one input, which may be 16 MiB
MEMORY = 768 << 20  # bytes more than at the start
SMALL = 1 << 16  # bytes up to which an input is damaged further
NAMES_LOOKED_FOR = 64  # of each answer

Random = random.Random


# --- the contract ---


def outcome(data: bytes) -> str:
    """What the reader makes of an input, in a few words that are the same for inputs of a kind.

    Raises:
        Exception: the reader did what it must not: another exception, an answer that is not in the file.
    """
    try:
        cache = ldcache.decode(data)
    except ldcache.NotACacheError as error:
        return re.sub(r"\d+", "N", str(error))
    names = {name for entry in cache.entries for name in (entry.key, entry.value, entry.hwcaps)}
    for name in sorted(names)[:NAMES_LOOKED_FOR]:
        assert not name or name.encode("utf-8", "surrogateescape") + b"\0" in data, f"{name!r} is not in the file"
    assert len(cache.entries) * ENTRY.size <= len(data)
    assert len(cache.generator) <= len(data)
    size = len(cache.entries).bit_length()
    directories = len({entry.hwcaps for entry in cache.entries} - {""}).bit_length()
    return f"a cache: 2^{size} entries, 2^{directories} directories, generator {bool(cache.generator)}"


def _too_late(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError("it does not end")


@contextlib.contextmanager
def bounds(seconds: float, memory: int) -> Iterator[None]:
    """Raises TimeoutError after so much processor time, MemoryError where more bytes are taken than there are now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGVTALRM, _too_late)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, limits[1]))
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # a loop is interrupted
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGVTALRM, handler)
    if time.process_time() - start > seconds:  # one call of C that is only slow is not
        raise TimeoutError("it took too long")


# --- damage to bytes ---


def _flip(source: Random, data: bytes, _other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 8))):
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    return bytes(changed)


def _write(source: Random, data: bytes, _other: bytes) -> bytes:
    at, size = source.randrange(len(data)), source.choice((1, 2, 4, 8))
    return data[:at] + source.choice((b"\0", b"\xff", b"\x80", source.randbytes(1))) * size + data[at + size :]


def _insert(source: Random, data: bytes, _other: bytes) -> bytes:
    at = source.randrange(len(data) + 1)
    return data[:at] + source.randbytes(source.choice((1, 4, 16, 24, 100))) + data[at:]


def _erase(source: Random, data: bytes, _other: bytes) -> bytes:
    at = source.randrange(len(data))
    return data[:at] + data[at + source.choice((1, 4, 16, 24, 100)) :]


def _cut(source: Random, data: bytes, _other: bytes) -> bytes:
    return data[: source.randrange(len(data) + 1)]


def _repeat(source: Random, data: bytes, _other: bytes) -> bytes:
    at = source.randrange(len(data))
    part = data[at : at + source.choice((4, 16, 24, 256))]
    return data[:at] + part * source.choice((2, 3, 100)) + data[at:]


def _splice(source: Random, data: bytes, other: bytes) -> bytes:
    return data[: source.randrange(len(data) + 1)] + other[source.randrange(len(other) + 1) :]


# --- damage to numbers ---


def _numbers(data: bytes) -> list[int]:
    """Where the format has its numbers of four bytes, as far as the file goes."""
    start = max(data.find(NEW), 0)
    places = [12, start + 20, start + 24, start + 32]
    if len(data) < start + HEADER.size:
        return [place for place in places if place + 4 <= len(data)]
    _magic, count, _strings, _flags, extension = HEADER.unpack_from(data, start)
    entries = start + HEADER.size
    places += range(entries, entries + min(count, 64) * ENTRY.size, 4)
    places += range(start + extension, start + extension + 8 + 3 * SECTION.size, 4)
    return [place for place in places if place + 4 <= len(data)]


def _number(source: Random, data: bytes, _other: bytes) -> bytes:
    """Another value for some of them: an end of the range, an end of the file, a neighbour, where another one is."""
    changed = bytearray(data)
    places = _numbers(data)
    for _ in range(source.choice((1, 1, 1, 2, 3)) if places else 0):
        place, size = source.choice(places), len(data)
        old = struct.unpack_from("=I", changed, place)[0]
        ends = (
            0,
            1,
            2,
            3,
            1 << 30,
            (1 << 31) - 1,
            1 << 31,
            (1 << 32) - 1,
            size,
            size - 1,
            size + 1,
            size - 4,
            size // 4,
        )
        near = (old + 1, old - 1, old + 4, old - 4, old * 2, old // 2, old ^ 1 << source.randrange(32))
        new = source.choice((source.choice(ends), source.choice(near), source.choice(places), source.getrandbits(32)))
        struct.pack_into("=I", changed, place, new & 0xFFFFFFFF)
    return bytes(changed)


def giant(*, entries: int, step: int, hwcap: int, text: bytes, room: int, sections: int, kinds: int) -> bytes:
    """A whole file of megabytes that are the names of each of its entries, and lie in each of its sections.

    Arguments:
        entries: how many.
        step: bytes from one entry's names to the next one's.
        hwcap: that of each entry.
        text: what the names repeat, up to the NUL at the end of them all.
        room: bytes of all names.
        sections: how many the extension block has; each lies over the whole file.
        kinds: they take turns at being of so many kinds.
    """
    names = HEADER.size + entries * ENTRY.size
    places = [names + i * step % room for i in range(entries)]
    size = names + room + 8 + sections * SECTION.size
    return b"".join(
        (
            HEADER.pack(NEW, entries, room, 2, names + room),
            *(ENTRY.pack(0x303, place, place, 0, hwcap) for place in places),
            (text * (room // len(text) + 1))[: room - 1] + b"\0",
            struct.pack("=II", EXTENSION, sections),
            *(SECTION.pack(i % kinds, 0, 0, size) for i in range(sections)),
        )
    )


def _giant(source: Random) -> bytes:
    entries, sections = source.choice((1, 1000, 100_000, 300_000)), source.choice((1, 2, 1000, 200_000))
    rest = LIMIT - HEADER.size - entries * ENTRY.size - 8 - sections * SECTION.size
    return giant(
        entries=entries,
        step=source.choice((0, 1, 2)),
        hwcap=source.choice((0, 1 << 62)),
        text=source.choice((b"a", b"\xff", b"\0", "é".encode(), b"a" * 4000 + b"\0")),
        room=source.choice((100, 65536, 1 << 20, rest)),
        sections=sections,
        kinds=source.choice((1, 2, 3)),
    )


DAMAGES: list[Callable[[Random, bytes, bytes], bytes]] = [
    _flip,
    _write,
    _insert,
    _erase,
    _cut,
    _repeat,
    _splice,
    *[_number] * 7,  # as often as all others together
]


def inputs(seed: int, pool: list[bytes]) -> Iterator[bytes]:
    """Damaged inputs without end; who takes them may add to the pool between two of them."""
    source = Random(seed)
    while True:
        if source.random() < 1 / 4000:
            yield _giant(source)
            continue
        data = source.choice(pool)
        for _ in range(source.choice((1, 1, 2, 4))):
            data = source.choice(DAMAGES)(source, data, source.choice(pool)) or b"\0"
        yield data


# --- the run ---


class Tally:
    """What a run has met: how often each outcome came, and the longest time for one input."""

    def __init__(self) -> None:
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.slowest = 0.0

    def fresh(self, data: bytes) -> bool:
        """Read one input; whether nothing ended like this before."""
        start = time.process_time()
        with bounds(TIME, MEMORY):
            found = outcome(data)
        self.outcomes[found] += 1
        self.slowest = max(self.slowest, time.process_time() - start)
        return self.outcomes[found] == 1

    def lines(self) -> list[str]:
        """For people: the outcomes by number, then one line for the run."""
        counts = [f"{count:10} {text}" for text, count in self.outcomes.most_common()]
        return [*counts, f"{sum(self.outcomes.values())} inputs, slowest {self.slowest * 1000:.0f} ms"]


def run(seed: int, pool: list[bytes], go_on: Callable[[], bool], crashes: Path) -> Tally:
    """Read damaged inputs as long as `go_on` says.

    Raises:
        Exception: the reader did what it must not; the input lies in `crashes`.
    """
    tally, pool = Tally(), [*pool]
    for data in pool:
        tally.fresh(data)
    for data in inputs(seed, pool):
        if not go_on():
            return tally
        with command.kept("cache", data, crashes):
            if tally.fresh(data) and len(data) <= SMALL:
                pool.append(data)
    raise AssertionError("inputs never end")


def main() -> int:
    """Replay files, or fuzz with the files of a directory to begin with."""
    return command.main("cache", "Damaged caches for their reader.", lambda *given: run(*given).lines())


if __name__ == "__main__":
    sys.exit(main())
