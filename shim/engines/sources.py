"""The sources of requests, as shim's own configuration has them: which annotations, variables and mounts count.

Who could have written a request decides whether it counts (docs/create.md). Which annotations, variables and mounts are
requests is in shim's configuration; which of them an engine passes on, and how its users can ask, is the engine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError
from shim.config import reader, settings
from shim.config.settings import SYSTEM_FILE, VENDOR_FILE, Settings
from shim.engines.texts.edits import decoded

if TYPE_CHECKING:
    from shim.host.host import Host


def settings_of(host: Host) -> Settings:
    """What shim's configuration on a machine says; the defaults where it has none.

    Arguments:
        host: the machine. Below another root than "/" the files of that tree count, whoever owns them.
    Raises:
        CdiError: SETTINGS, SETTINGS_UNTRUSTED, ENGINE_CONFIG_UNREADABLE.
    """
    if host.root == "/":
        return settings.load()
    for path in (SYSTEM_FILE, VENDOR_FILE):
        data = host.read(path)
        if data is not None:
            return reader.parse(path, decoded(data, path)).settings
    return Settings()


def prefixes(host: Host) -> tuple[str, ...]:
    """The beginnings of annotation keys that are requests; those of the defaults where the configuration is broken."""
    try:
        return settings_of(host).annotation_prefixes
    except CdiError:
        return Settings().annotation_prefixes
