"""The evidence behind a report, in one archive for a bug report, without what is personal.

    doctor.json           the report
    host.json             kernel, distribution, versions; modules and major numbers of drivers; the inventory
    engines.json          what each engine's configuration comes to, never its files: they may hold passwords
    nodes.json            the device nodes that specs name: numbers, mode, owner
    settings.json         shim's own configuration
    specs/N-NAME          each spec, and each file that is refused as one
    log.json              the last lines of the log

Personal are paths outside of the system's directories, names of this host and its user, UUIDs, addresses of networks.
So is the value of each variable, but of those that a vendor's library or hook reads: a spec may pass a licence key.
Each is replaced by a word, the same everywhere, so that equal values stay equal (shim.create.redaction).
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import tarfile
from typing import TYPE_CHECKING, Any

from shim import __version__
from shim.base import files, remedies
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.create import redaction
from shim.discover import inventory
from shim.doctor import history
from shim.engines import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.doctor.machine import Machine
    from shim.doctor.model import Report
    from shim.engines.contract import Engine

    Json = dict[str, Any]

_FIRST = "doctor.json"
_MODE = 0o600
_LARGEST = 256 * 1024  # letters of a spec
_LINES = 50  # of the log
_OF_LINES = ("time", "verb", "outcome", "devices", "specs", "findings")  # without id and bundle
_HEXADECIMAL = "[0-9a-fA-F]"
_PERSONAL = re.compile(
    rf"{_HEXADECIMAL}{{8}}(?:-{_HEXADECIMAL}{{4}}){{3}}-{_HEXADECIMAL}{{12}}"  # a UUID
    rf"|(?<![\w:])(?:{_HEXADECIMAL}{{2}}:){{5}}{_HEXADECIMAL}{{2}}(?![\w:])"  # a MAC address
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"  # an IPv4 address
)
# NAME=VALUE, up to the end of the quotes or the line; neither an option of a hook nor one of a mount
_MOUNT_OPTIONS = "mode|size|uid|gid|nr_inodes|nr_blocks|huge|mpol|hidepid|subset"
_VARIABLE = re.compile(rf"""(?<![\w$-])(?!(?:{_MOUNT_OPTIONS})=)([A-Za-z_]\w*)=([^"'\n]+)""")
_KNOWN = re.compile(
    r"(NVIDIA|CUDA|AMD|ROCR|ROCM|HIP|HSA|GPU|ZE|ONEAPI|INTEL|HABANA|GAUDI|CDI|SHIM)_|(PATH|LD_LIBRARY_PATH)$"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|LICEN[CS]E|KEY", re.IGNORECASE)


def write(machine: Machine, report: Report, path: str) -> None:
    """Write the archive, with mode 0600.

    Arguments:
        machine: that was examined.
        report: of it.
        path: the file; an earlier archive is replaced, and nothing else.
    Raises:
        CdiError: CONFIG_WRITE.
    """
    try:
        if files.status(path) and not _is_archive(path):
            raise ValueError("it exists, and is no report of shim; name another file")
        files.write(path, _packed(dict(_members(machine, report))), mode=_MODE, keep=False)
    except OSError as error:
        text = f"it cannot be written: {reason(error)}"
        raise CdiError([Finding("CONFIG_WRITE", text, remedies.to_write(error), path=path)]) from None
    except ValueError as error:
        raise CdiError([Finding("CONFIG_WRITE", str(error), path=path)]) from None


def _is_archive(path: str) -> bool:
    try:
        with tarfile.open(path) as archive:
            return archive.getnames()[:1] == [_FIRST]
    except (OSError, tarfile.TarError):
        return False


def _packed(members: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in members.items():
            data = text.encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), _MODE
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _members(machine: Machine, report: Report) -> Iterator[tuple[str, str]]:
    """Name and text of each member, without what is personal."""
    clean = _Cleaner(machine)
    documents = {
        _FIRST: report.to_json(),
        "host.json": _host(machine),
        "engines.json": {engine.name: _engine(machine, engine) for engine in table.ENGINES.values()},
        "nodes.json": _nodes(machine),
        "settings.json": machine.settings.to_json(),
        "log.json": [{name: line.get(name) for name in _OF_LINES} for line in history.lines(machine)[-_LINES:]],
    }
    for name, document in documents.items():
        yield name, json.dumps(clean.value(document), indent=1) + "\n"
    paths = dict.fromkeys([*(spec.path for spec in machine.served.specs), *machine.served.findings])
    for number, path in enumerate(paths):
        text = machine.host.text(path)[:_LARGEST]
        if text:
            yield f"specs/{number}-{clean.value(path).rpartition('/')[2]}", clean.value(text)


class _Cleaner:
    """Replaces what is personal."""

    def __init__(self, machine: Machine) -> None:
        self._redact = redaction.redactor(machine.launcher)
        environment = machine.host.environment
        names = {
            platform.node(),
            environment.get("USER", ""),
            environment.get("LOGNAME", ""),
            environment.get("SUDO_USER", ""),
        }
        usual = {"", "root", "localhost"}
        words = sorted(map(re.escape, names - usual), key=len, reverse=True)
        self._names = re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])") if words else None

    def value(self, value: Any) -> Any:
        """Any plain value, at any depth, names of members too."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self._text(str(name)): self.value(item) for name, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        text = _VARIABLE.sub(self._variable, text)
        text = self._redact.text(text)
        text = _PERSONAL.sub(lambda match: self._redact.word(match[0]), text)
        return self._names.sub(lambda match: self._redact.word(match[0]), text) if self._names else text

    def _variable(self, match: re.Match[str]) -> str:
        name, value = match.groups()
        known = _KNOWN.match(name) and not _SECRET.search(name)
        return match[0] if known or value.startswith("/") else f"{name}={self._redact.word(value)}"


# --- the evidence -----------------------------------------------------------------------------------------------------


def _host(machine: Machine) -> Json:
    host = machine.host
    system = os.uname()
    release = dict(line.partition("=")[::2] for line in host.text("/etc/os-release").splitlines() if "=" in line)
    try:
        known = inventory.read(host)
    except CdiError:
        known = None
    return {
        "shim": __version__,
        "python": platform.python_version(),
        "kernel": system.release,
        "machine": system.machine,
        "distribution": {key: release.get(key, "").strip('"') for key in ("ID", "VERSION_ID")},
        "rootful": machine.rootful,
        "modules": [line.split(" ")[0] for line in host.text("/proc/modules").splitlines()],
        "majors": host.text("/proc/devices").splitlines(),
        "nvidia": host.text("/proc/driver/nvidia/version").splitlines(),
        "directories": [list(pair) for pair in machine.served.searched],
        "inventory": inventory.to_json(known) if known else None,
    }


def _engine(machine: Machine, engine: Engine) -> Json:
    try:
        location = engine.locate(machine.host)
        registry = engine.read(machine.host, location)
    except CdiError as error:
        return {"findings": [finding.to_json() for finding in error.findings]}
    return {
        "program": location.program,
        "version": list(location.version),
        "layout": location.layout,
        "runs": location.daemon is not None,
        "files": registry.files,
        "runtimes": {
            name: {"path": runtime.path, "type": runtime.type, "systemd_cgroup": runtime.systemd_cgroup}
            for name, runtime in registry.runtimes.items()
        },
        "default": registry.default,
        "low_level": registry.low_level,
        "cdi": registry.cdi,
        "spec_dirs": list(registry.spec_dirs),
        "hook": registry.hook,
    }


def _nodes(machine: Machine) -> Json:
    nodes: Json = {}
    for path in machine.nodes():
        node = machine.world.node(path)
        nodes[path] = list(node) if node else None
    return nodes
