"""Which units of systemd write a spec: those whose files name it, or the vendor's generator.

Sources: systemd.unit(5), "Unit File Load Path"; the packages of NVIDIA's and AMD's toolkits for their units.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError

if TYPE_CHECKING:
    from shim.host.host import Host

# The higher first: a file there hides those of its name below
UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
# vendor of a kind -> programs that write its specs
_PROGRAMS = {
    "nvidia.com": ("nvidia-ctk", "nvidia-cdi-refresh", "nvidia-container-toolkit"),
    "amd.com": ("amd-ctk", "amd-container-toolkit"),
    "intel.com": ("intel-cdi-specs-generator",),
    "habana.ai": ("habana-container-cdi",),
}
_TRIGGERS = (".path", ".timer", ".socket")
_COMMAND = re.compile(r"^(?:ExecStart(?:Pre|Post)?|ExecReload)\s*=(.*)$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^EnvironmentFile\s*=\s*-?(\S+)", re.MULTILINE)


def units_of(host: Host, path: str, kind: str) -> list[str]:
    """The units that write a spec, each service before what triggers it.

    Arguments:
        host: the machine.
        path: of the spec.
        kind: of the spec: its vendor tells the program that would write it.
    """
    texts = unit_texts(host)
    programs = _PROGRAMS.get(kind.partition("/")[0], ())
    named = [unit for unit, text in texts.items() if unit.endswith(".service") and _names(host, text, path)]
    services = named or [
        unit for unit, text in texts.items() if unit.endswith(".service") and _generates(text, programs)
    ]
    return [unit for service in services for unit in (service, *_triggers(service, texts))]


def unit_texts(host: Host) -> dict[str, str]:
    """Unit -> its text, that of its drop-in files behind it. A unit that is masked is not there."""
    texts: dict[str, str] = {}
    hidden: set[str] = set()
    for directory in UNIT_DIRECTORIES:
        for path in host.glob(f"{directory}/*"):
            unit = path.rpartition("/")[2]
            if unit not in texts and unit not in hidden:
                texts[unit] = _text(host, path)
        hidden |= _masked(host, directory)
    for directory in UNIT_DIRECTORIES:
        for path in host.glob(f"{directory}/*.d/*.conf"):
            unit = path.split("/")[-2].removesuffix(".d")
            if unit in texts:
                texts[unit] += "\n" + _text(host, path)
    return texts


def _masked(host: Host, directory: str) -> set[str]:
    """The units of a directory that are links to /dev/null."""
    try:
        entries = list(host.real(directory).iterdir())
    except OSError:
        return set()
    return {entry.name for entry in entries if host.readlink(f"{directory}/{entry.name}") == "/dev/null"}


def _text(host: Host, path: str) -> str:
    try:
        return (host.read(path) or b"").decode("utf-8", "replace").replace("\\\n", " ")
    except CdiError:
        return ""  # unreadable: the unit is of no use to systemd either


def _names(host: Host, text: str, path: str) -> bool:
    """Whether a unit, or a file with its environment, names a spec; /run and /var/run are one directory."""
    spellings = {path, path.replace("/var/run/", "/run/", 1) if path.startswith("/var/run/") else path}
    if path.startswith("/run/"):
        spellings.add(f"/var{path}")
    texts = [text, *(_text(host, name) for name in _ENVIRONMENT.findall(text))]
    return any(re.search(rf"{re.escape(word)}(?![\w.-])", each) for word in spellings for each in texts)


def _generates(text: str, programs: tuple[str, ...]) -> bool:
    """Whether a command of a unit is one of the programs, and is about CDI."""
    return any(
        "cdi" in command and any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w])", command) for name in programs)
        for command in _COMMAND.findall(text)
    )


def _triggers(service: str, texts: dict[str, str]) -> list[str]:
    stem = service.removesuffix(".service")
    return [
        unit
        for unit, text in texts.items()
        if unit.endswith(_TRIGGERS)
        and (unit.rpartition(".")[0] == stem or re.search(rf"^Unit\s*=\s*{re.escape(service)}\s*$", text, re.MULTILINE))
    ]
