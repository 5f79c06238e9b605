"""Faults in podman's configuration. podman ignores unknown keys without an error.

Source: containers.conf(5); https://github.com/containers/common, pkg/config/config.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.engines import toml_layers
from shim.engines.podman.containers_conf import RUNTIMES
from shim.engines.texts.values import table_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from shim.engines.model import Location, Registry
    from shim.engines.texts.values import Keys
    from shim.host.host import Host

_LISTS = ("runtime_supports_json", "runtime_supports_nocgroup", "runtime_supports_kvm", "hooks_dir", "cdi_spec_dirs")


def mistyped(layers: Iterable[toml_layers.Layer], *, appends: bool) -> Iterator[Finding]:
    """Values of a type at which podman stops.

    Arguments:
        layers: the files.
        appends: whether this podman knows {append = true}.
    """
    types: dict[Keys, Any] = {
        ("engine",): dict,
        RUNTIMES: dict,
        (*RUNTIMES, "*"): toml_layers.LIST,
        ("engine", "runtime"): str,
        ("engine", "cgroup_manager"): str,
        **{("engine", key): toml_layers.APPENDING if appends else toml_layers.LIST for key in _LISTS},
    }
    return toml_layers.mistyped(layers, types, "podman")


def dead(layers: Iterable[toml_layers.Layer]) -> Iterator[Finding]:
    """Keys about runtimes in tables, or in a spelling, in which podman reads none."""
    for layer in layers:
        for key in ("runtime", "runtimes"):
            for keys in toml_layers.tables_with(layer.document, key):
                if keys not in {("engine",), RUNTIMES}:
                    where = f"[{'.'.join(keys)}]" if keys else "no table"
                    right = "[engine.runtimes]" if key == "runtimes" else "[engine]"
                    text = f"podman passes over {key} in {where}"
                    line = layer.line((*keys, key))
                    yield Finding("CONFIG_DEAD_SECTION", text, f"move it to {right}", path=layer.path, line=line)
        if "runtime_supports_nocgroups" in table_at(layer.document, ("engine",)):
            text = "podman passes over runtime_supports_nocgroups, although its manual has it"
            line = layer.line(("engine", "runtime_supports_nocgroups"))
            yield Finding("RUNTIME_JSON", text, "write runtime_supports_nocgroup", path=layer.path, line=line)


def other_file(host: Host, location: Location, usual: Collection[str]) -> Iterator[Finding]:
    """A main file that podman reads in some environments only."""
    named = host.environment.get("CONTAINERS_CONF", "")
    if location.config not in usual:
        text = "podman reads this file where CONTAINERS_CONF names it, and no other file then"
        remedy = "set CONTAINERS_CONF for every user of podman"
        yield Finding("ENGINE_CONFIG_OTHER", text, remedy, path=location.config)
    elif named and named != location.config:
        text = f"CONTAINERS_CONF names {named}, which podman reads here instead of this file"
        yield Finding("ENGINE_CONFIG_OTHER", text, f"unset it, or give --config {named}", path=location.config)


def unused(host: Host, location: Location, registry: Registry, name: str) -> Iterator[Finding]:
    """Files beside those that podman reads which register a runtime without effect."""
    if not location.drop_in or name in registry.runtimes:
        return
    keys = (*RUNTIMES, name)
    beside = host.glob(f"{location.drop_in.rpartition('/')[0]}/*")
    for layer in toml_layers.setting(host, [path for path in beside if path not in registry.files], keys, (RUNTIMES,)):
        text, remedy = "podman does not read this file: names of drop-ins end in .conf", "rename it"
        yield Finding("DROP_IN_UNUSED", text, remedy, path=layer.path, line=layer.line(keys))


def missing_default(host: Host, registry: Registry) -> Iterator[Finding]:
    """A default runtime that is not registered."""
    name = registry.default
    if name and name not in registry.runtimes and not host.find(name):
        text = f"the default runtime {name} is not among the runtimes: podman starts no container"
        yield Finding("HANDLER_MISSING", f"{text}; there are {registry.near(name)}")


def lost_names(
    layers: Iterable[toml_layers.Layer], lists: dict[str, tuple[list[str], list[str]]], name: str
) -> Iterator[Finding]:
    """Lists in which names are missing.

    Arguments:
        layers: the files.
        lists: by key: the names that should be in it, and those that are.
        name: the runtime's.
    """
    effects = {
        "runtime_supports_json": "podman shows its errors without the reason",
        "runtime_supports_nocgroup": "podman refuses --cgroups=disabled with it",
        "runtime_supports_kvm": "SELinux confines it as an ordinary runtime",
    }
    layers = list(layers)
    for key, (expected, present) in lists.items():
        lost = [item for item in expected if item not in present]
        layer = toml_layers.last(layers, ("engine", key))
        path, line = (layer.path, layer.line(("engine", key))) if layer else ("", 0)
        if name in lost:
            yield Finding("RUNTIME_JSON", f"{name} is not in {key}: {effects[key]}", path=path, line=line)
        if others := [item for item in lost if item != name]:
            text = f"{key} has lost {', '.join(others)} of an earlier file, whose list this one replaces"
            yield Finding("RUNTIME_JSON", text, path=path, line=line)


def cdi_off(location: Location, registry: Registry) -> Finding:
    """Why podman gives no CDI devices by itself."""
    if registry.spec_dirs:
        version = ".".join(map(str, location.version))
        return Finding("CDI_OFF", f"podman {version} has no CDI support; 4.1 is the first that has it")
    return Finding("CDI_OFF", "cdi_spec_dirs is empty, so podman itself finds no CDI device")
