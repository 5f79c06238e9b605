"""containers.conf: which files podman reads, and the items of a list in them.

A list in a later file replaces the list of an earlier file. The attribute {append = true}, with which it is appended,
exists since 4.8, and older programs that read the same file (buildah, for example) refuse it.

Before podman 6 the drop-ins of a main file are read behind it. podman 6 reads one main file and then all drop-ins in
the order of their names, whatever their directories; of several with the same name only that of the most important
directory, and no link. So the name of our drop-in decides whether its lists count.

Source: containers.conf(5), podman(1), https://github.com/containers/common, pkg/config/{config,default,new}.go,
internal/attributedstring; https://github.com/containers/container-libs, storage/pkg/configfile (podman 6)
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.engines import toml_layers
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
_READS_ERRORS_OF_OCIJAIL = (4, 7)
APPENDS = (4, 8)
_READS_ROOTS_OWN = (5, 0)
READS_SPEC_DIRS = (5, 5)
_READS_ONE_MAIN_FILE = (6, 0)

# The lists that hold names of runtimes, with their content when no file has them
_LISTS = {
    "runtime_supports_json": ("crun", "runc", "kata", "runsc", "youki", "krun"),
    "runtime_supports_nocgroup": ("crun", "krun"),
    "runtime_supports_kvm": ("kata", "kata-runtime", "kata-qemu", "kata-fc", "krun"),
}
_DROP_IN = "99-shim.conf"
_MOVED = "z-shim.conf"  # the end of its name where another drop-in is read after that one


def is_at_least(location: Location, version: tuple[int, int]) -> bool:
    """Whether podman is that new. An unknown version counts as one that reads like 4 and 5, and has CDI."""
    return location.version >= version if location.version else version <= HAS_CDI


def built_in_lists(location: Location) -> dict[str, tuple[str, ...]]:
    """The lists that hold names of runtimes, as this podman has them when no file has them."""
    json = _LISTS["runtime_supports_json"]
    if not location.version or location.version >= _READS_ERRORS_OF_OCIJAIL:
        json = (*json, "ocijail")
    return {**_LISTS, "runtime_supports_json": json}


def own(host: Host) -> str:
    """The caller's own containers.conf."""
    home = host.environment.get("HOME") or ("/root" if not host.user else "/")
    return posixpath.join(host.environment.get("XDG_CONFIG_HOME") or f"{home}/.config", "containers/containers.conf")


def files(host: Host, location: Location) -> list[str]:
    """The files that podman decodes, in this order, whether they exist or not."""
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
    return [*paths, override] if override else paths


def files_of_others(host: Host, location: Location) -> list[str]:
    """The files that podman decodes, without those that hold our keys alone."""
    directory = posixpath.dirname(location.drop_in)
    return [path for path in files(host, location) if path != location.drop_in and not _is_ours(path, directory)]


def drop_in(host: Host, location: Location, directory: str) -> str:
    """The file for our keys: the usual path, or a name that sorts after all drop-ins that would override it.

    Arguments:
        host, location: the machine, and where the configuration is.
        directory: for drop-ins.
    """
    path = f"{directory}/{_DROP_IN}"
    by_name = is_at_least(location, _READS_ONE_MAIN_FILE)
    order = files(host.with_files({path: b""}), location)
    later = order[order.index(path) + 1 :] if path in order else order
    others = [
        layer.path
        for layer in toml_layers.setting(host, later, SETTINGS, MAPS)
        if posixpath.dirname(layer.path).endswith(".d") and not _is_ours(layer.path, directory)
        if by_name or posixpath.dirname(layer.path) == directory
    ]
    last = max((posixpath.basename(other).removesuffix(".conf") for other in others), default="")
    return f"{directory}/{last}{_MOVED}" if last else path


def _is_ours(path: str, directory: str) -> bool:
    """Whether a drop-in in the directory for ours is ours, by its name."""
    folder, name = posixpath.split(path)
    return folder == directory and (name == _DROP_IN or name.endswith(_MOVED))


def items(layers: Iterable[Layer], key: str, default: Sequence[str]) -> list[str]:
    """The items of a list of texts of [engine].

    Arguments:
        layers: the files, in order.
        key: the list's name.
        default: its items when no file has it.
    """
    result, appends = list(default), False
    for layer in layers:
        value = table_at(layer.document, SETTINGS).get(key)
        if isinstance(value, list):
            for item in value:
                appends = bool(item.get("append", appends)) if isinstance(item, dict) else appends
            result = [*(result if appends else []), *texts(value)]
    return result


def _drop_ins_by_name(host: Host, own_mains: list[str]) -> list[str]:
    """From podman 6 on: by file name, whatever the directory; of two with the same name that of the later directory."""
    kinds = ["rootless.conf.d", f"rootless.conf.d/{host.user}"] if host.user else ["rootful.conf.d"]
    directories = []
    for main in (VENDOR, ADMIN):
        directories += [f"{main}.d", *(f"{main.removesuffix('conf')}{kind}" for kind in kinds)]
    directories += [f"{main}.d" for main in own_mains]
    paths = [path for directory in directories for path in host.glob(f"{directory}/*.conf")]
    by_name = {posixpath.basename(path): path for path in paths if host.readlink(path) is None}
    return [by_name[name] for name in sorted(by_name)]
