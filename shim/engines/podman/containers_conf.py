"""containers.conf: which files podman reads, and the items of a list in them.

A list in a later file replaces the list of an earlier one. The attribute {append = true}, with which it is added,
exists since 4.8, and older programs that read the same file (buildah, for one) refuse it.

Source: containers.conf(5), podman(1), https://github.com/containers/common, pkg/config/{config,default,new}.go,
internal/attributedstring; https://github.com/containers/container-libs, storage/pkg/configfile (podman 6)
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.engines.texts.values import table_at, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.engines.model import Location
    from shim.engines.toml_layers import Layer
    from shim.host.host import Host

VENDOR, ADMIN = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
SETTINGS = ("engine",)
RUNTIMES = ("engine", "runtimes")
MAPS = (RUNTIMES,)

# First versions that …
READS_DROP_INS = (3, 3)
HAS_CDI = (4, 1)
_READS_OVERRIDE = (4, 5)
APPENDS = (4, 8)
_READS_ROOTS_OWN = (5, 0)
READS_SPEC_DIRS = (5, 5)
_READS_ONE_MAIN_FILE = (6, 0)

# The lists that hold names of runtimes, with their content when no file has them
LISTS = {
    "runtime_supports_json": ("crun", "runc", "kata", "runsc", "youki", "krun"),
    "runtime_supports_nocgroup": ("crun", "krun"),
    "runtime_supports_kvm": ("kata", "kata-runtime", "kata-qemu", "kata-fc", "krun"),
}


def is_at_least(location: Location, version: tuple[int, int]) -> bool:
    """Whether podman is that new. One of unknown version is taken for one that reads as 4 and 5 do, and has CDI."""
    return location.version >= version if location.version else version <= HAS_CDI


def own(host: Host) -> str:
    """The caller's own containers.conf."""
    home = host.environment.get("HOME") or ("/root" if not host.user else "/")
    return posixpath.join(host.environment.get("XDG_CONFIG_HOME") or f"{home}/.config", "containers/containers.conf")


def files(host: Host, location: Location, without: str = "") -> list[str]:
    """The files that podman decodes, in this order, whether they exist or not.

    Arguments:
        host: the machine.
        location: where the configuration is.
        without: a file to leave out.
    """
    mains = [VENDOR, ADMIN]
    if host.user or is_at_least(location, _READS_ROOTS_OWN):
        mains.append(own(host))
    if location.config not in mains:
        paths = [location.config]
    elif is_at_least(location, _READS_ONE_MAIN_FILE):
        paths = [*[path for path in mains if host.exists(path)][-1:], *_drop_ins_by_name(host, mains[2:])]
    else:
        paths = [VENDOR]
        for main in mains[1:]:
            paths += [main, *host.glob(f"{main}.d/*.conf")]
    override = host.environment.get("CONTAINERS_CONF_OVERRIDE") if is_at_least(location, _READS_OVERRIDE) else ""
    return [path for path in [*paths, *([override] if override else [])] if path != without]


def items(layers: Iterable[Layer], key: str, default: Sequence[str] | None = None) -> list[str]:
    """The items of a list of texts of [engine].

    Arguments:
        layers: the files, in order.
        key: the list's name.
        default: its items when no file has it; those of LISTS when not given.
    """
    result, appends = list(LISTS[key] if default is None else default), False
    for layer in layers:
        value = table_at(layer.document, SETTINGS).get(key)
        if isinstance(value, list):
            for item in value:
                appends = bool(item.get("append", appends)) if isinstance(item, dict) else appends
            result = [*(result if appends else []), *texts(value)]
    return result


def _drop_ins_by_name(host: Host, own_mains: list[str]) -> list[str]:
    """From podman 6 on: by file name, whatever the directory; of two with one name the later directory's counts."""
    kinds = [f"rootless.conf.d/{host.user}", "rootless.conf.d"] if host.user else ["rootful.conf.d"]
    directories = []
    for main in (VENDOR, ADMIN):
        directories += [*(f"{main.removesuffix('conf')}{kind}" for kind in kinds), f"{main}.d"]
    directories += [f"{main}.d" for main in own_mains]
    by_name = {posixpath.basename(path): path for directory in directories for path in host.glob(f"{directory}/*.conf")}
    return [by_name[name] for name in sorted(by_name)]
