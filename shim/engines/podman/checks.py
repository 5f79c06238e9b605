"""What can be wrong in podman's configuration. A key that podman does not know is passed over without a word.

Source: containers.conf(5); https://github.com/containers/common, pkg/config/config.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.engines import toml_layers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from shim.engines.model import Location, Registry
    from shim.host.host import Host

_RUNTIMES = ("engine", "runtimes")

_LISTS = ("runtime_supports_json", "runtime_supports_nocgroup", "runtime_supports_kvm", "hooks_dir", "cdi_spec_dirs")


def mistyped(found: Iterable[toml_layers.Layer], *, appends: bool) -> Iterator[Finding]:
    """Values of a type at which podman stops.

    Arguments:
        found: the files.
        appends: whether this podman knows {append = true}.
    """
    types: dict[tuple[str, ...], Any] = {
        ("engine",): dict,
        _RUNTIMES: dict,
        (*_RUNTIMES, "*"): toml_layers.LIST,
        ("engine", "runtime"): str,
        ("engine", "cgroup_manager"): str,
        **{("engine", key): toml_layers.APPENDING if appends else toml_layers.LIST for key in _LISTS},
    }
    return toml_layers.mistyped(found, types, "podman")


def dead(found: Iterable[toml_layers.Layer]) -> Iterator[Finding]:
    """Keys about runtimes in places, or in a spelling, in which podman looks for none."""
    for layer in found:
        for key in ("runtime", "runtimes"):
            for keys in toml_layers.tables_with(layer.document, key):
                if keys not in {("engine",), _RUNTIMES}:
                    where = f"[{'.'.join(keys)}]" if keys else "no table"
                    right = "[engine.runtimes]" if key == "runtimes" else "[engine]"
                    text = f"podman passes over {key} in {where}"
                    line = layer.line((*keys, key))
                    yield Finding("CONFIG_DEAD_SECTION", text, f"move it to {right}", path=layer.path, line=line)
        if "runtime_supports_nocgroups" in layer.document.get("engine", {}):
            text = "podman passes over runtime_supports_nocgroups, although its manual has it"
            line = layer.line(("engine", "runtime_supports_nocgroups"))
            yield Finding("RUNTIME_JSON", text, "write runtime_supports_nocgroup", path=layer.path, line=line)


def other_file(host: Host, location: Location, usual: Collection[str]) -> Iterator[Finding]:
    """A main file that podman reads in some environments only."""
    named = host.environment.get("CONTAINERS_CONF", "")
    if location.config not in usual:
        text = "podman reads this file where CONTAINERS_CONF names it, and no other file then"
        yield Finding("ENGINE_CONFIG_OTHER", text, "set CONTAINERS_CONF for all who call podman", path=location.config)
    elif named and named != location.config:
        text = f"CONTAINERS_CONF names {named}, which podman reads here instead of this file"
        yield Finding("ENGINE_CONFIG_OTHER", text, f"unset it, or give --config {named}", path=location.config)


def unused(host: Host, location: Location, registry: Registry, name: str) -> Iterator[Finding]:
    """Files beside those that count which register a runtime to no effect."""
    if not location.drop_in or name in registry.runtimes:
        return
    keys = (*_RUNTIMES, name)
    beside = host.glob(f"{location.drop_in.rpartition('/')[0]}/*")
    for layer in toml_layers.setting(host, [path for path in beside if path not in registry.files], keys, (_RUNTIMES,)):
        text, remedy = "podman does not read this file: names of drop-ins end in .conf", "give it such a name"
        yield Finding("DROP_IN_UNUSED", text, remedy, path=layer.path, line=layer.line(keys))


def missing_default(host: Host, registry: Registry) -> Iterator[Finding]:
    """A default runtime that is nowhere."""
    name = registry.default
    if name and name not in registry.runtimes and not host.find(name):
        text = f"the default runtime {name} is not among the runtimes: podman starts no container"
        yield Finding("HANDLER_MISSING", f"{text}; there are {registry.near(name)}")


def lost_names(
    found: Iterable[toml_layers.Layer], lists: dict[str, tuple[list[str], list[str]]], name: str
) -> Iterator[Finding]:
    """Lists in which names are missing.

    Arguments:
        found: the files.
        lists: by key: the names that should be in it, and those that are.
        name: the runtime's.
    """
    effects = {
        "runtime_supports_json": "podman shows its errors without the reason",
        "runtime_supports_nocgroup": "podman refuses --cgroups=disabled with it",
        "runtime_supports_kvm": "SELinux confines it as an ordinary runtime",
    }
    found = list(found)
    for key, (wanted, there) in lists.items():
        lost = [one for one in wanted if one not in there]
        layer = toml_layers.last(found, ("engine", key))
        path, line = (layer.path, layer.line(("engine", key))) if layer else ("", 0)
        if name in lost:
            yield Finding("RUNTIME_JSON", f"{name} is not in {key}: {effects[key]}", path=path, line=line)
        if others := [one for one in lost if one != name]:
            text = f"{key} has lost {', '.join(others)}, which an earlier file puts there: this list replaces that one"
            yield Finding("RUNTIME_JSON", text, path=path, line=line)


def cdi_off(location: Location, registry: Registry) -> Finding:
    """Why podman gives no CDI devices by itself."""
    if registry.spec_dirs:
        version = ".".join(map(str, location.version))
        return Finding("CDI_OFF", f"podman {version} knows no CDI devices; 4.1 is the first that does")
    return Finding("CDI_OFF", "cdi_spec_dirs is empty, so podman itself finds no CDI device")
