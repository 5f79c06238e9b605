"""Runtimes in containerd's configuration: what a table says, and the table of a new one.

A new runtime does whatever the engine's present one does, so it gets the options of that: the default runtime, else
runc, else crun. Left out are the program and the two lists of annotations. `container_annotations` lets through what
asks for devices; `pod_annotations` would carry the requests of a pod into its sandbox and into every container.

Options belong to a runtime type. What is started here is a low-level runtime, so the type is always that of runc, also
where the present one is of containerd's first kind (io.containerd.runtime.v1.linux), which had its settings elsewhere:
`systemd_cgroup` of the CRI plugin, `runtime_engine`, and a plugin of its own.

Sources: containerd, docs/cri/config.md; internal/cri/config/config.go (1.x: pkg/cri/config/config.go);
api/types/runc/options/oci.proto; runtime/linux/runctypes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.engines.containerd import config_files
from shim.engines.model import Registry, Runtime
from shim.engines.texts import toml_edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.containerd.config_files import Merged
    from shim.engines.model import Location, Wanted
    from shim.host.host import Host

TYPE = "io.containerd.runc.v2"
_TYPES = {TYPE, "io.containerd.runc.v1"}
_FIRST = "io.containerd.runtime.v1.linux"
DIRECTORIES = ("/etc/cdi", "/var/run/cdi")

# Not copied: our own, those of a pod, and those that no runtime type of runc has
_OWN = {"runtime_type", "options", "pod_annotations", "container_annotations", "runtime_engine", "runtime_root"}
_PROGRAM = {"BinaryName", "Runtime", "RuntimeRoot"}
_EMPTY: tuple[Any, ...] = ("", 0, [], {})  # false counts as 0: what a key is that nobody sets


def runtimes(merged: Merged) -> dict[str, Runtime]:
    """The runtimes of a configuration, the built-in runc included, each with the place where it was registered last."""
    plugin = config_files.table(merged.document, ("plugins", merged.cri))
    engine = config_files.table(plugin, ("containerd",))
    tables = {name: one for name, one in config_files.table(engine, ("runtimes",)).items() if isinstance(one, dict)}
    if merged.modern or not tables:
        tables["runc"] = {"runtime_type": TYPE, **tables.get("runc", {})}
    older = {"default": "default_runtime", "untrusted": "untrusted_workload_runtime"}
    for name, key in older.items():
        if not merged.modern and config_files.table(engine, (key,)).get("runtime_type"):
            tables[name] = engine[key]
    legacy = {
        **config_files.table(merged.document, ("plugins", "linux")),
        **config_files.table(merged.document, ("plugins", _FIRST)),
    }
    return {
        name: _runtime(merged, name, older.get(name, ""), one, plugin, legacy) for name, one in sorted(tables.items())
    }


def default(merged: Merged) -> str:
    """The name of the default runtime."""
    engine = config_files.table(merged.document, ("plugins", merged.cri, "containerd"))
    if not merged.modern and config_files.table(engine, ("default_runtime",)).get("runtime_type"):
        return "default"
    name = engine.get("default_runtime_name")
    return name if isinstance(name, str) and name else "runc"


def registry(host: Host, location: Location, merged: Merged) -> Registry:
    """What a configuration says about runtimes."""
    found = Registry(merged.version, runtimes(merged), default(merged), document=merged.document)
    found.files = [file.path for file in merged.files]
    if location.layout == "snap" and "$" in found.default:
        found.default = "runc"  # a variable, for which microk8s finds the value
    plugin = config_files.table(merged.document, ("plugins", merged.cri))
    found.low_level = _low_level(host, location, found)
    found.cdi = _cdi(location, merged, _boolean(plugin.get("enable_cdi")))
    said = plugin.get("cdi_spec_dirs")
    if found.cdi is not None and not () < location.version < (1, 7):
        found.spec_dirs = tuple(said) if isinstance(said, list) and said else DIRECTORIES
    return found


def source(present: Registry) -> Runtime | None:
    """The runtime whose options a new one gets; itself, where it is the default already."""
    wanted = (present.default, "runc", "crun")
    found = (present.runtimes[one] for one in wanted if one in present.runtimes)
    return next((one for one in found if one.type in {*_TYPES, _FIRST, ""}), None)


def new_table(present: Registry, wanted: Wanted, passed_on: list[str]) -> dict[str, Any]:
    """The table of a new runtime, with the values that differ from containerd's own defaults.

    Arguments:
        present: what the configuration says.
        wanted: what configure was asked for.
        passed_on: patterns of the container's annotations that ask for devices.
    """
    old = source(present)
    options: dict[str, Any] = {"BinaryName": wanted.path}
    result: dict[str, Any] = {"runtime_type": TYPE, "container_annotations": passed_on}
    if old:
        kept = {key: value for key, value in old.table.items() if key not in _OWN and value not in _EMPTY}
        result.update(kept)
        options.update(_options(old))
    return {**result, "options": options}


def _low_level(host: Host, location: Location, found: Registry) -> str:
    runtime = found.runtimes.get(found.default)
    if not runtime or runtime.type not in {*_TYPES, _FIRST, ""}:
        runtime = source(found)
    path = location.daemon.path if location.daemon else ""
    return host.find(runtime.path if runtime and runtime.path else "runc", path=path)


def _cdi(location: Location, merged: Merged, said: bool | None) -> bool | None:
    """Whether containerd injects devices: never before 1.7, when told to in 1.7, unless told not to from 2.0 on."""
    if merged.modern:
        return said is not False
    if not location.version:
        return said
    return location.version >= (1, 7) and bool(said)


def set_keys(runtime: Runtime) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What the table of a runtime says besides containerd's own defaults: keys, from the table on, and values."""
    for key, value in runtime.table.items():
        if isinstance(value, dict):
            yield from (((key, inner), one) for inner, one in value.items() if one not in _EMPTY)
        elif value not in _EMPTY:
            yield (key,), value


def _options(old: Runtime) -> dict[str, Any]:
    said = config_files.table(old.table, ("options",)) if old.type != _FIRST else {}
    kept = {key: value for key, value in said.items() if key not in _PROGRAM and value not in _EMPTY}
    if old.type == _FIRST and old.table.get("runtime_root"):
        kept["Root"] = old.table["runtime_root"]
    if old.systemd_cgroup is not None:
        kept["SystemdCgroup"] = old.systemd_cgroup
    return kept


def _runtime(
    merged: Merged, name: str, older: str, table: dict[str, Any], plugin: dict[str, Any], legacy: dict[str, Any]
) -> Runtime:
    options = config_files.table(table, ("options",))
    kind = _text(table.get("runtime_type"))
    path = _text(options.get("BinaryName"))
    cgroup = _boolean(options.get("SystemdCgroup"))
    if kind == _FIRST:
        path = _text(options.get("Runtime")) or _text(table.get("runtime_engine")) or _text(legacy.get("runtime"))
        cgroup = cgroup if cgroup is not None else _boolean(plugin.get("systemd_cgroup"))
    keys = ("containerd", older) if older else ("containerd", "runtimes", name)
    file, line = place_of(merged, keys)
    return Runtime(name, path, kind, cgroup, table, file, line)


def place_of(merged: Merged, keys: tuple[str, ...]) -> tuple[str, int]:
    """File and line where a key of the CRI plugin is set last; "" and 0 when it is not set."""
    names = {merged.cri, *config_files.CRI.values()} if merged.modern else {merged.cri}
    for file in reversed(merged.files):
        line = max(toml_edit.line_of(file.text, ("plugins", name, *keys)) for name in names)
        if line:
            return file.path, line
    return "", 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _boolean(value: Any) -> bool | None:
    """A boolean, also one that somebody put into quotes."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None
