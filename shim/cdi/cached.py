"""The devices of spec directories, from an index if the caller keeps one. Cold; create has shim.create.world."""

from __future__ import annotations

from shim.base.paths import clean
from shim.cdi import directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.cdi.directories import Directories
    from shim.cdi.index_lists import IndexLists
    from shim.host.trust import Trust


def open(
    dirs: Iterable[str] = directories.DEFAULT, *, trust: Trust | None = None, index: str = ""
) -> Directories | IndexLists:
    """The devices that the given directories serve.

    Arguments:
        dirs, trust: as of directories.read.
        index: path of a file that keeps what was read, used and renewed; "" for none. See shim.cdi.index.

    No content of the directories makes it raise: look at `findings`.
    """
    if not index:
        return directories.read(dirs, trust)
    from shim.cdi.index import load  # late, like the next: only for callers with an index
    from shim.cdi.index_writer import Inputs, write

    loaded = load(index)
    known = loaded.whole() if loaded else None
    if known and known.dirs == [clean(directory) for directory in dirs]:
        return known
    inputs = Inputs()
    scanned = directories.read(dirs, trust, inputs)
    write(index, inputs, trust.places if trust else (), {}, scanned)
    return scanned
