"""Sources of requests: those that a vendor's runtime takes, and the lines by which shim takes them, too.

Two reasons make a line needed. The vendor's configuration allows a source explicitly: shim reads that file where there
is none of ours, so such a line counts until the file goes or ours comes. And a container that runs now under the
vendor's runtime asks in a way that shim does not take. What the vendor's runtime takes by default and nothing uses is
reported, and needs no line: any image could ask by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.config import reader
from shim.config.keys import KEYS
from shim.config.location import SYSTEM_FILE, VENDOR_FILE
from shim.config.settings import ANY, OFF, PRIVILEGED, Settings
from shim.engines import lost_requests, sources, vendors
from shim.engines.model import Edit, Put
from shim.engines.texts import editing, toml_edit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.host.host import Host
    from shim.migrate.registrations import Use

_HEAD = "# The configuration of shim: docs/configuration.md has every key. Written by `shim runtime migrate`.\n"
_ORDER = (OFF, PRIVILEGED, ANY)
_IMPLIED = {"sources.variables", "sources.swarm-variables", "sources.merge"}  # of no effect while both sources are off
_MODES = ("nvidia-container-runtime", "modes", "cdi")
_THEIRS = {
    "cdi.spec-dirs": (*_MODES, "spec-dirs"),
    "cdi.annotation-prefixes": (*_MODES, "annotation-prefixes"),
    "cdi.default-kind": (*_MODES, "default-kind"),
    "sources.environment": ("accept-nvidia-visible-devices-envvar-when-unprivileged",),
    "sources.mounts": ("accept-nvidia-visible-devices-as-volume-mounts",),
    "sources.swarm-variables": ("swarm-resource",),
}


@dataclass
class Source:
    """A line that shim's configuration needs.

    Attributes:
        key: its key, such as sources.environment.
        value: its value.
        containers: ids of the containers that need it.
        path, line: where the vendor's configuration has it; "" and 0 where that has no such line.
    """

    key: str
    value: Any
    containers: list[str] = field(default_factory=list)
    path: str = ""
    line: int = 0


def explicit(host: Host) -> list[Source]:
    """The lines of NVIDIA's configuration that count, and would not once there is a file of ours.

    Raises CdiError: SETTINGS, ENGINE_CONFIG_SYNTAX.
    """
    data = host.read(VENDOR_FILE)
    if data is None or host.read(SYSTEM_FILE) is not None:
        return []
    text = editing.decoded(data, VENDOR_FILE)
    configuration, usual = reader.parse(VENDOR_FILE, text), Settings()
    settings = configuration.settings
    is_on = OFF not in {settings.environment} or settings.mounts != OFF
    result = []
    for key in KEYS:
        value = getattr(settings, key.attribute)
        if value != getattr(usual, key.attribute) and (is_on or key.name not in _IMPLIED):
            line = toml_edit.line_of(text, _THEIRS.get(key.name, ()))
            plain = list(value) if isinstance(value, tuple) else value
            result.append(Source(key.name, plain, path=VENDOR_FILE, line=line))
    return result


def used(host: Host, uses: Iterable[Use]) -> tuple[list[Source], list[Finding]]:
    """The lines without which containers that run now would not get their devices.

    Arguments:
        host: the machine.
        uses: the engines that have the vendor's runtime.
    Returns:
        the lines; and VENDOR_REQUESTS for each way to ask that shim does not take.
    """
    needed: dict[str, Source] = {}
    findings: dict[tuple[str, str], Finding] = {}
    settings = sources.settings_or_defaults(host)
    for use in uses:
        for program in use.programs:
            containers = {container.id: container for container in use.containers}
            ways = use.engine.ways_to_ask(use.location, use.registry, use.name)
            for lost in lost_requests.compare(host, use.containers, use.registry, ways, program):
                finding = lost.finding(program)
                findings.setdefault((finding.id, finding.text), finding)
                if not lost.containers and not lost.line:
                    continue
                privileged = all(containers[id].is_privileged for id in lost.containers)
                level = PRIVILEGED if privileged and not lost.line else lost.taken_from
                prefixes = vendors.policy(host, program).prefixes
                source = _line(lost.source, level, settings, prefixes)
                if source:
                    source.containers, source.path, source.line = lost.containers, lost.path, lost.line
                    _merge(needed, source)
    return list(needed.values()), list(findings.values())


def _line(source: str, level: str, settings: Settings, prefixes: tuple[str, ...]) -> Source | None:
    """The line for requests of a kind of shim.engines.lost_requests; None where there is no such line."""
    if source in {"environment", "mounts"}:
        return Source(f"sources.{source}", level)
    if source == "annotations":
        return Source("cdi.annotation-prefixes", [*dict.fromkeys((*settings.annotation_prefixes, *prefixes))])
    return None


def _merge(needed: dict[str, Source], source: Source) -> None:
    before = needed.setdefault(source.key, source)
    if before is source:
        return
    before.containers = [*dict.fromkeys((*before.containers, *source.containers))]
    if isinstance(source.value, list):
        before.value = [*dict.fromkeys((*before.value, *source.value))]
    elif _ORDER.index(source.value) > _ORDER.index(before.value):
        before.value = source.value


def merged(sources_of_file: Iterable[Source], sources_of_containers: Iterable[Source]) -> list[Source]:
    """The lines of both reasons, each key once."""
    needed: dict[str, Source] = {}
    for source in (*sources_of_file, *sources_of_containers):
        _merge(needed, source)
    return list(needed.values())


def edit(needed: Iterable[Source]) -> Edit:
    """What writes the lines into shim's configuration."""
    steps = tuple(Put(tuple(source.key.split(".", 1)), source.value) for source in needed)
    return Edit(SYSTEM_FILE, "toml", steps, _HEAD)


def applied(host: Host, change: Edit) -> bytes:
    """The configuration with the lines.

    Raises:
        CdiError: SETTINGS for a file of ours that has faults; ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_SHAPE.
    """
    before = host.read(change.path)
    after = editing.apply([change], {change.path: before})[change.path]
    reader.parse(change.path, editing.decoded(after, change.path))
    return after
