"""The configuration file of NVIDIA's device plugin and GPU feature discovery, for a node that moves to shim.

    version: v1
    flags:
      migStrategy: none | single | mixed
      failOnInitError: true
      deviceDiscoveryStrategy: auto | nvml | tegra | vfio
      gfd: {oneshot, noTimestamp, sleepInterval, outputFile, machineTypeFile}
    sharing:
      timeSlicing | mps:
        renameByDefault: false
        resources: [{name, replicas, devices, rename}]

Keys that are not known are let through, as there. `rename` and a selection by `devices` are checked and have no effect,
as there; both are reported. MPS goes before time slicing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.cdi.yamltext import Document
from shim.node.labels.sharing import MPS, NONE, TIME_SLICING, Sharing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from shim.host.host import Host

    Key = tuple[str | int, ...]

_VERSION = "v1"
_PREFIX = "nvidia.com/"
_LEAST = 2  # replicas
_LONGEST = 63
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_REFERENCE = re.compile(r"\d+(:\d+)?|(GPU|MIG)-\S+")  # index, GPU and MIG index, UUID
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class VendorConfig:
    """What the file asks for; None where it is silent.

    Attributes:
        sharing: of resources; None where it has none.
        mig_strategy, source, machine_file, output: texts.
        fail_on_init_error, no_timestamp: switches.
        interval: seconds between two looks.
        findings: parts that have no effect.
    """

    sharing: Sharing | None = None
    mig_strategy: str | None = None
    source: str | None = None
    machine_file: str | None = None
    output: str | None = None
    fail_on_init_error: bool | None = None
    no_timestamp: bool | None = None
    interval: float | None = None
    findings: tuple[Finding, ...] = ()


def read(host: Host, path: str) -> VendorConfig:
    """Read a file.

    Arguments:
        host: the machine that has it.
        path: of the file.
    Raises:
        CdiError: VENDOR_CONFIG with every fault that was noticed.
    """
    try:
        data = files.read(host.real(path))
    except (OSError, ValueError) as error:
        text = f"it cannot be read: {reason(error)}"
        raise CdiError([Finding("VENDOR_CONFIG", text, remedies.to_read(error), path=path)]) from None
    return parse(data, path)


def parse(data: bytes, path: str) -> VendorConfig:
    """The configuration of a text. Arguments and errors as of `read`."""
    document = Document(data)
    if document.faults:
        faults = document.faults
        raise CdiError(
            [Finding("VENDOR_CONFIG", fault.text, path=path, line=fault.line, rule=fault.rule) for fault in faults]
        )
    return _Reader(document, path).config()


class _Reader:
    """Reads the values of a document; each fault names its key and line."""

    def __init__(self, document: Document, path: str) -> None:
        self._document = document
        self._path = path
        self._findings: list[Finding] = []

    def config(self) -> VendorConfig:
        top = self._mapping(self._document.value, ())
        version = self._get(top, "version", str, ())
        if version not in (None, "", _VERSION):
            self._fail(("version",), f"the version {version!r} is not known (there is: {_VERSION})")
        flags = self._mapping(_member(top, "flags"), ("flags",))
        own = self._mapping(_member(flags, "gfd"), ("flags", "gfd"))
        self._get(own, "oneshot", bool, ("flags", "gfd"))  # an option decides
        sharing = self._sharing(self._mapping(_member(top, "sharing"), ("sharing",)))
        return VendorConfig(
            sharing,
            self._get(flags, "migStrategy", str, ("flags",)),
            self._get(flags, "deviceDiscoveryStrategy", str, ("flags",)),
            self._get(own, "machineTypeFile", str, ("flags", "gfd")),
            self._get(own, "outputFile", str, ("flags", "gfd")),
            self._get(flags, "failOnInitError", bool, ("flags",)),
            self._get(own, "noTimestamp", bool, ("flags", "gfd")),
            self._interval(_member(own, "sleepInterval")),
            tuple(self._findings),
        )

    def _sharing(self, sharing: Mapping[str, Any]) -> Sharing | None:
        every = {}
        for key, strategy in (("mps", MPS), ("timeSlicing", TIME_SLICING)):
            section = _member(sharing, key)
            if section is not None or (key == "timeSlicing" and key in sharing):
                every[strategy] = self._section(section, ("sharing", key), strategy)
        return next(iter(every.values()), None)

    def _section(self, value: Any, key: Key, strategy: str) -> Sharing:
        section = self._mapping(value, key)
        renames = self._get(section, "renameByDefault", bool, key, exact=True)
        self._get(section, "failRequestsGreaterThanOne", bool, key, exact=True)
        resources: Any = section.get("resources")
        if resources is not None and not isinstance(resources, list):
            self._fail((*key, "resources"), "it is no list")
        if not resources:
            self._fail(key, "no resources are named")
        replicas: dict[str, int] = {}
        for number, item in enumerate(resources):
            name, count = self._resource(item, (*key, "resources", number))
            replicas.setdefault(name, count)
        return Sharing(strategy if replicas else NONE, replicas, frozenset(replicas) if renames else frozenset())

    def _resource(self, value: Any, key: Key) -> tuple[str, int]:
        resource = self._mapping(value, key)
        for name in ("name", "replicas"):
            if name not in resource:
                self._fail(key, f"`{name}` is missing")
        name = self._name(resource["name"], (*key, "name"))
        count = resource["replicas"]
        if isinstance(count, float) and count.is_integer():
            count = int(count)
        if not isinstance(count, int) or isinstance(count, bool):
            self._fail((*key, "replicas"), f"{count!r} is no whole number")
        if count < _LEAST:
            self._fail((*key, "replicas"), f"{count} is too few: there are at least {_LEAST}")
        if "devices" in resource:
            self._devices(resource["devices"], (*key, "devices"))
        if resource.get("rename") is not None:
            self._name(resource["rename"], (*key, "rename"))
            self._ignored((*key, "rename"), "a resource cannot be given a name of its own")
        return name, count

    def _name(self, value: Any, key: Key) -> str:
        if not isinstance(value, str):
            self._fail(key, f"{value!r} is no text")
        name = value if value.startswith(_PREFIX) else f"{_PREFIX}{value}"
        own = name.removeprefix(_PREFIX)
        if not _NAME.fullmatch(own) or len(own) > _LONGEST:
            self._fail(key, f"{value!r} is no name of a resource, such as nvidia.com/gpu")
        return name

    def _devices(self, value: Any, key: Key) -> None:
        if value == "all":
            return
        if isinstance(value, bool) or not isinstance(value, (int, list)):
            self._fail(key, f"{value!r} is neither `all`, nor a count, nor a list of indices and UUIDs")
        if isinstance(value, int) and value < 1:
            self._fail(key, f"{value} is too few devices")
        for number, item in enumerate(value if isinstance(value, list) else ()):
            is_index = isinstance(item, int) and not isinstance(item, bool) and item >= 0
            if not is_index and not (isinstance(item, str) and _REFERENCE.fullmatch(item)):
                self._fail((*key, number), f"{item!r} is no index and no UUID of a device")
        self._ignored(key, "all devices of a resource are shared")

    def _interval(self, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value * _UNITS["ns"]
        parts = _DURATION.findall(value) if isinstance(value, str) else []
        if not parts or "".join(map("".join, parts)) != value:
            self._fail(("flags", "gfd", "sleepInterval"), f"{value!r} is no duration, such as 60s")
        return sum(float(number) * _UNITS[unit] for number, unit in parts)

    def _get(self, mapping: Mapping[str, Any], name: str, kind: type, key: Key, *, exact: bool = False) -> Any:
        value = mapping.get(name) if exact else _member(mapping, name)
        if value is not None and not isinstance(value, kind):
            self._fail((*key, name), f"{value!r} is no {'text' if kind is str else 'switch (true or false)'}")
        return value

    def _mapping(self, value: Any, key: Key) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._fail(key, "it is no mapping")
        mapping: Mapping[str, Any] = value
        return mapping

    def _ignored(self, key: Key, text: str) -> None:
        self._findings.append(self._finding(key, f"it has no effect: {text}").as_warning())

    def _fail(self, key: Key, text: str) -> None:
        raise CdiError([self._finding(key, text)])

    def _finding(self, key: Key, text: str) -> Finding:
        where = ".".join(map(str, key))
        line = self._document.locate(key)
        return Finding("VENDOR_CONFIG", f"{where}: {text}" if where else text, path=self._path, line=line)


def _member(mapping: Mapping[str, Any], name: str) -> Any:
    """The value of a key, whose letters may be small or capital as in the reference."""
    if name in mapping:
        return mapping[name]
    return next((value for key, value in mapping.items() if key.casefold() == name.casefold()), None)
