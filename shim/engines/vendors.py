"""Runtimes of vendors in front of runc: their programs, and the requests that their configuration allows.

They give devices to containers that ask in the vendor's way, and then execute a low-level runtime. shim replaces such a
program and executes the same low-level runtime; so a container that asked the vendor's program has to ask shim.

NVIDIA's configuration is /etc/nvidia-container-runtime/config.toml, or a file beside the program where NVIDIA's
operator installed both. AMD's program has none that concerns requests.

Sources: https://github.com/NVIDIA/nvidia-container-toolkit, api/config/v1/config.go (GetDefault), internal/config/image
(VisibleDevices), cmd/nvidia-ctk-installer/toolkit; https://github.com/ROCm/container-toolkit, internal/oci/oci.go
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import CdiError
from shim.base.paths import parent
from shim.cdi.annotations import PREFIX
from shim.config.location import VENDOR_FILE
from shim.config.settings import ANY, OFF, PRIVILEGED
from shim.engines.texts import editing, toml_edit
from shim.engines.texts.values import get, texts

if TYPE_CHECKING:
    from shim.engines.model import Registry
    from shim.engines.texts.values import Table
    from shim.host.host import Host

_NVIDIA = "nvidia-container-runtime"
_PROGRAMS = {
    **dict.fromkeys((_NVIDIA, *(f"{_NVIDIA}.{mode}" for mode in ("cdi", "legacy", "experimental"))), "NVIDIA"),
    "amd-container-runtime": "AMD",
}
_LOW_LEVEL = ["runc", "crun"]  # what these programs execute when their configuration names nothing
_ENVIRONMENT = "accept-nvidia-visible-devices-envvar-when-unprivileged"
_MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"


@dataclass(frozen=True)
class Policy:
    """Which requests a vendor's program takes.

    Attributes:
        variables: names of the variables that ask.
        preferred: variables that ask instead of those, if a container has any of them.
        environment: OFF, PRIVILEGED or ANY: the containers whose variables count.
        mounts: the same for the mounts below shim.config.settings.MOUNTS_BELOW.
        prefixes: annotation keys that begin with any of these are requests.
        takes_old_images: whether images with CUDA_VERSION, but neither of the variables that came later, ask for all.
        file: its configuration, "" when it has none.
        lines: member of this class -> the line of `file` that sets it, from 1; those that are set.
    """

    variables: tuple[str, ...]
    preferred: tuple[str, ...] = ()
    environment: str = ANY
    mounts: str = OFF
    prefixes: tuple[str, ...] = ()
    takes_old_images: bool = False
    file: str = ""
    lines: dict[str, int] = field(default_factory=dict)


def is_program(path: str) -> bool:
    """Whether a program is a vendor's runtime, by its name."""
    return _name(path) in _PROGRAMS


def maker(path: str) -> str:
    """Whose runtime a program is, by its name: NVIDIA or AMD; "" for another program."""
    return _PROGRAMS.get(_name(path), "")


def program(registry: Registry) -> str:
    """The vendor's program that is the engine's default runtime, "" when the default is something else."""
    default = registry.runtimes.get(registry.default)
    path = registry.low_level or (default.path if default else "")
    return path if is_program(path) else ""


def low_level_names(host: Host, path: str) -> list[str]:
    """The low-level runtimes that a vendor's program executes, by name or path, the first choice first."""
    configured = get(_configuration(host, path)[1], ("nvidia-container-runtime", "runtimes"))
    return [name for name in texts(configured) if name] or _LOW_LEVEL


def policy(host: Host, path: str) -> Policy:
    """The requests that a vendor's program takes, by its configuration and its defaults.

    Arguments:
        host: the machine.
        path: of the program.
    """
    if _PROGRAMS[_name(path)] == "AMD":
        return Policy(("AMD_VISIBLE_DEVICES",))
    file, document, text = _configuration(host, path)
    cdi = ("nvidia-container-runtime", "modes", "cdi", "annotation-prefixes")
    prefixes = get(document, cdi)
    preferred = document.get("swarm-resource")
    keys = {"environment": (_ENVIRONMENT,), "mounts": (_MOUNTS,), "prefixes": cdi}
    return Policy(
        variables=("NVIDIA_VISIBLE_DEVICES",),
        preferred=tuple(name.strip() for name in preferred.split(","))
        if isinstance(preferred, str) and preferred
        else (),
        environment=PRIVILEGED if document.get(_ENVIRONMENT) is False else ANY,
        mounts=ANY if document.get(_MOUNTS) is True else OFF,
        prefixes=tuple(texts(prefixes)) if isinstance(prefixes, list) else (PREFIX,),
        takes_old_images=True,
        file=file,
        lines={member: line for member, path in keys.items() if (line := toml_edit.line_of(text, path))},
    )


def _configuration(host: Host, path: str) -> tuple[str, Table, str]:
    """The configuration of NVIDIA's program: its path, its meaning, its text; "", {} and "" when it has none."""
    for file in (f"{parent(path)}/.config/nvidia-container-runtime/config.toml", VENDOR_FILE):
        try:
            data = host.read(file)
            if data is not None:
                text = editing.decoded(data, file)
                return file, toml_edit.loads(text, file), text
        except CdiError:
            break  # the program itself does not start with it
    return "", {}, ""


def _name(path: str) -> str:
    return path.rpartition("/")[2]
