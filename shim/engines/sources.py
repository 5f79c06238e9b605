"""The sources of requests, as shim's own configuration has them: which annotations, variables and mounts count.

Who could have written a request decides whether it counts (docs/create.md). Which annotations, variables and mounts are
requests is in shim's configuration; which of them an engine passes on, and how its users can ask, is the engine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.config import location, reader
from shim.config.location import SYSTEM_FILE, VENDOR_FILE
from shim.config.settings import ANY, MOUNTS_BELOW, OFF, Settings
from shim.engines.texts.editing import decoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.host.host import Host


def settings_of(host: Host) -> Settings:
    """The configuration of shim on a machine; the defaults where it has none.

    Arguments:
        host: the machine. Below another root than "/" the files of that tree count, whoever owns them.
    Raises:
        CdiError: SETTINGS, SETTINGS_UNTRUSTED, ENGINE_CONFIG_UNREADABLE.
    """
    if host.root == "/":
        return location.load()
    for path in (SYSTEM_FILE, VENDOR_FILE):
        data = host.read(path)
        if data is not None:
            return reader.parse(path, decoded(data, path)).settings
    return Settings()


def settings_or_defaults(host: Host) -> Settings:
    """The configuration of shim on a machine; the defaults where it is missing or broken (verify reports that)."""
    try:
        return settings_of(host)
    except CdiError:
        return Settings()


def prefixes(host: Host) -> tuple[str, ...]:
    """The prefixes of annotation keys that are requests."""
    return settings_or_defaults(host).annotation_prefixes


def open_to(key: str, writer: str, what: str, ways: str, path: str) -> Finding:
    """SOURCE_ANY, for a source that is "any".

    Arguments:
        key: of [sources].
        writer: whose requests count by it: "image" or "Pod".
        what: by which it asks.
        ways: how people ask for devices instead, a clause.
        path: the configuration file.
    """
    text = f'sources.{key} is "any": every {writer} gets the devices that it names, by {what}'
    return Finding("SOURCE_ANY", text, f"{ways}; then take sources.{key} out, or set it to a stricter value", path=path)


def findings(host: Host, ways: str) -> Iterator[Finding]:
    """SOURCE_OFF and SOURCE_ANY, for the sources that an image can write to; faults of shim's own configuration.

    Arguments:
        host: the machine.
        ways: how people ask for devices with the engine in question, in this version of it; a clause.
    """
    try:
        settings = settings_of(host)
    except CdiError as error:  # every create that asks for a device will be refused
        yield from error.findings
        return
    yield from _off(settings, ways)
    for key, what in _written_by_images(settings).items():
        if getattr(settings, key) == ANY:
            yield open_to(key, "image", what, ways, settings.path)


def _written_by_images(settings: Settings) -> dict[str, str]:
    """The sources that an image can write to: member of Settings -> what the source reads."""
    mounts = {"mounts": f"mounts below {MOUNTS_BELOW}"}
    variable = next(iter(settings.variables), "")
    return {"environment": f"variables of an image or of `-e`, such as {variable}", **mounts} if variable else mounts


def _off(settings: Settings, ways: str) -> Iterator[Finding]:
    off = {key: text for key, text in _written_by_images(settings).items() if getattr(settings, key) == OFF}
    if off:
        keys = " and ".join(f"sources.{key}" for key in off)
        text = f"{', and '.join(off.values())}, ask for nothing here: {keys} {'is' if len(off) == 1 else 'are'} off"
        lines = " and ".join(f'{key} = "privileged" or "any"' for key in off)
        remedy = (
            f"{ways}. Or switch it on: {lines} below [sources] in {SYSTEM_FILE}; with "
            '"privileged" containers with CAP_SYS_ADMIN get what they name, with "any" every image does'
        )
        yield Finding("SOURCE_OFF", text, remedy, path=settings.path)
