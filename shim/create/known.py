"""What is known before a create: the configuration and the devices, from the index or from the files. HOT.

The warm way opens one file. The cold way reads the configuration and every spec, and leaves an index for the next
create, and needles for the launcher.
"""

from __future__ import annotations

from shim.cdi import index
from shim.config import settings
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.cdi.types import Served
    from shim.config.settings import Settings


def load(*, fresh: bool = False) -> tuple[Settings, Served]:
    """The configuration and the devices that go with it.

    Arguments:
        fresh: read the files even where there is an index, and write it anew.
    Raises:
        CdiError: SETTINGS or SETTINGS_UNTRUSTED, see settings.load.
    """
    paths = settings.candidates()
    place = index_path(paths[0])
    found = index.load(place) if place and not fresh else None
    if found:
        try:
            return settings.Settings.from_json(found.settings), found
        except ValueError:  # of another making than ours: as good as no index
            pass
    return _read(paths, place)


def index_path(path: str) -> str:
    """The index that belongs to a configuration; "" where there is no place for one.

    Arguments:
        path: the first of the configuration files that may count, whether or not it exists. Whether one behind it does
            is a matter of the index's inputs, so that two paths of one short name cost time only.
    """
    directory = identity.run_dir()
    if not directory:
        return ""
    return f"{directory}/index" if path == settings.SYSTEM_FILE else f"{directory}/index-{identity.short_name(path)}"


def _read(paths: tuple[str, ...], place: str) -> tuple[Settings, Served]:
    # Late: only where the index is missing or stale; they are what it saves.
    from shim.cdi import directories
    from shim.config import needles
    from shim.host.trust import Trust

    trust = Trust()
    inputs = index.Inputs()
    for path in paths:
        inputs.note(path)
    found = settings.load(trust=trust)
    configured = inputs.settled()
    served = directories.read(found.spec_dirs, trust, inputs)
    if place and index.write(place, inputs, sorted(trust.places), found.to_json(), served) and configured:
        directory, _, name = place.rpartition("/")
        needles.write(f"{directory}/{name.replace('index', 'needles', 1)}", configured, found.needles())
    return found, served
