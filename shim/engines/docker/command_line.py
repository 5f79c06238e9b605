"""The options of dockerd: of the running process, and of the unit that will start it next.

A key that is in daemon.json and on the command line keeps dockerd from starting, whatever the values are; only
`runtimes` and --add-runtime are merged, and then the file's entry takes precedence.

Sources: https://docs.docker.com/reference/cli/dockerd/; moby, daemon/config/config.go (findConfigurationConflicts,
skipDuplicates); systemd.unit(5), systemd.service(5), systemd.exec(5)
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shim.engines.model import Location
    from shim.host.host import Host

# Options that may be given more than once; their key in daemon.json is the plural
_SEVERAL = {
    *("authorization-plugin", "cdi-spec-dir", "default-address-pool", "default-network-opt", "default-ulimit"),
    *("dns-opt", "exec-opt", "feature", "host", "host-gateway-ip", "insecure-registry", "label", "log-opt"),
    *("node-generic-resource", "registry-mirror", "storage-opt"),
}
_SHORT = {"H": "host", "D": "debug", "l": "log-level", "G": "group", "b": "bridge", "s": "storage-driver"}
_UNIT = "docker.service"
_SYSTEM = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")  # the earlier wins
_ASSIGNED = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Flag:
    """An option of dockerd.

    Attributes:
        name: without its dashes, the long form.
        value: "" when none is given.
        file: where it is written, "" for the running process.
        line: in that file, from 1; 0 when unknown.
    """

    name: str
    value: str
    file: str = ""
    line: int = 0

    @property
    def key(self) -> str:
        """The key of daemon.json that means the same."""
        if self.name == "add-runtime":
            return "runtimes"
        if self.name in _SEVERAL:
            return f"{self.name[:-1]}ies" if self.name.endswith("y") else f"{self.name}s"
        return self.name


def of_words(words: Iterable[str], file: str = "", line: int = 0) -> Iterator[Flag]:
    """The options among the words of a command line, the program's own name left out."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            name, value = _SHORT.get(name[:1], name), value or name[1:]
        if not equals and not value and rest and not rest[0].startswith("-"):
            value = rest[0]  # for an option without a value it is the next word, which has no effect here
        yield Flag(name, value, file, line)


def given(host: Host, location: Location) -> list[Flag]:
    """The options that dockerd has now or will have when it is started again, each once.

    Arguments:
        host: the machine.
        location: where the configuration is. A unit counts when its dockerd reads that file; a snap has units of its
            own, which are not read.
    """
    flags = [] if location.layout == "snap" else of_units(host, is_own=location.layout == "rootless")
    named = [flag.value for flag in flags if flag.name == "config-file"]
    if location.config != (named[-1] if named else usual_file(host)):
        flags = []
    known = {(flag.name, flag.value) for flag in flags}
    running = of_words(location.daemon.argv[1:]) if location.daemon else ()
    return [*flags, *(flag for flag in running if (flag.name, flag.value) not in known)]


def usual_file(host: Host) -> str:
    """The file that a dockerd of the calling user reads when its command line names none."""
    return f"{config_home(host)}/docker/daemon.json" if host.user else "/etc/docker/daemon.json"


def of_units(host: Host, *, is_own: bool = False) -> list[Flag]:
    """The options in the unit docker.service and its drop-ins.

    Arguments:
        host: the machine.
        is_own: the unit of the calling user (rootless docker), not that of the machine.
    """
    starts: list[tuple[str, str, int]] = []
    variables: dict[str, str] = {}
    for path in _unit_files(host, is_own=is_own):
        for key, value, line in _settings(host, path):
            if key == "ExecStart":
                starts = [*starts, (value, path, line)] if value else []
            elif key == "Environment":
                variables.update(_pairs(_split(value)))
            elif key == "EnvironmentFile":
                variables.update(_pairs(_text(host, value.lstrip("-")).splitlines()))
    return [
        flag
        for value, path, line in starts
        for flag in of_words([w for word in _split(value)[1:] for w in _expanded(word, variables)], path, line)
    ]


def _unit_files(host: Host, *, is_own: bool) -> list[str]:
    """The unit, then its drop-ins by name; of two with the same name that of the more important directory."""
    directories = [f"{top}/systemd/system" for top in _SYSTEM]
    if is_own:
        directories = [f"{config_home(host)}/systemd/user", *(f"{top}/systemd/user" for top in _SYSTEM)]
    unit = next((path for path in (f"{directory}/{_UNIT}" for directory in directories) if host.exists(path)), "")
    drop_ins = {
        posixpath.basename(path): path
        for directory in reversed(directories)
        for path in host.glob(f"{directory}/{_UNIT}.d/*.conf")
    }
    return [*([unit] if unit else []), *(drop_ins[name] for name in sorted(drop_ins))]


def config_home(host: Host) -> str:
    """$XDG_CONFIG_HOME of the calling user, or its default."""
    return host.environment.get("XDG_CONFIG_HOME") or f"{host.environment.get('HOME') or '/root'}/.config"


def _settings(host: Host, path: str) -> Iterator[tuple[str, str, int]]:
    """Keys and values of [Service], each with the line on which it begins."""
    section, joined, first = "", "", 0  # joined: the line so far, of several that end in a backslash
    for number, line in enumerate(_text(host, path).splitlines(), 1):
        text = line.strip()
        if text.startswith(("#", ";")) or (not text and not joined):
            continue
        joined, first = (joined + text, first) if joined else (text, number)
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        if joined.startswith("["):
            section = joined
        elif section == "[Service]":
            key, _, value = joined.partition("=")
            yield key.strip(), value.strip(), first
        joined = ""


def _text(host: Host, path: str) -> str:
    try:
        return (host.read(path) or b"").decode("utf-8", "replace")
    except CdiError:
        return ""  # a file that cannot be read has no option that can be named here


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        assigned = _ASSIGNED.fullmatch(line)
        if assigned:
            yield assigned[1], assigned[2].strip().strip("\"'")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _expanded(word: str, variables: dict[str, str]) -> list[str]:
    """A word with its variables; $NAME alone may stand for several words."""
    variable = _VARIABLE.fullmatch(word)
    if variable and variable[2]:
        return _split(variables.get(variable[2], ""))
    return [_VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), word)]
