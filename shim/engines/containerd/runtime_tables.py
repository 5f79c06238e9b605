"""Runtimes in containerd's configuration: the meaning of their tables, and the table of a new runtime.

A new runtime must behave as the engine's present runtime, so it gets its options: of the default runtime, else of runc,
else of crun. Not copied are the program and the two lists of annotations: `container_annotations` passes on requests
for devices, `pod_annotations` would pass on annotations of a Pod's author (annotation_lists).

Options belong to a runtime type. shim executes a low-level runtime, so its type is always that of runc, also where the
present runtime is of containerd's first type (io.containerd.runtime.v1.linux), which had its settings elsewhere:
`systemd_cgroup` of the CRI plugin, `runtime_engine`, and a plugin of its own.

Sources: containerd, docs/cri/config.md; internal/cri/config/config.go (1.x: pkg/cri/config/config.go);
api/types/runc/options/oci.proto; runtime/linux/runctypes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.engines.containerd.config_files import CRI
from shim.engines.model import Registry, Runtime
from shim.engines.texts import toml_edit
from shim.engines.texts.values import table_at, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shim.engines.containerd.config_files import Merged
    from shim.engines.model import Location, NewRuntime
    from shim.engines.texts.values import Keys, Table, Value
    from shim.host.host import Host

TYPE = "io.containerd.runc.v2"
TYPES = {TYPE, "io.containerd.runc.v1"}
_FIRST_TYPE = "io.containerd.runtime.v1.linux"
DIRECTORIES = ("/etc/cdi", "/var/run/cdi")

# Not copied: our own keys, those about Pods, and those that no runtime type of runc has
_OWN = {"runtime_type", "options", "pod_annotations", "container_annotations", "runtime_engine", "runtime_root"}
_PROGRAM = {"BinaryName", "Runtime", "RuntimeRoot"}
_EMPTY: tuple[Value, ...] = ("", 0, [], {})  # the values of keys that are not set; false equals 0


def runtimes(merged: Merged) -> dict[str, Runtime]:
    """The runtimes of a configuration, the built-in runc included, each with the file and line that set it last."""
    plugin = table_at(merged.document, ("plugins", merged.cri))
    engine = table_at(plugin, ("containerd",))
    tables = {name: table for name, table in table_at(engine, ("runtimes",)).items() if isinstance(table, dict)}
    if merged.modern or not tables:
        tables["runc"] = {"runtime_type": TYPE, **tables.get("runc", {})}
    older = {"default": "default_runtime", "untrusted": "untrusted_workload_runtime"}
    for name, key in older.items():
        if not merged.modern and table_at(engine, (key,)).get("runtime_type"):
            tables[name] = table_at(engine, (key,))
    plugins = table_at(merged.document, ("plugins",))
    linux = {**table_at(plugins, ("linux",)), **table_at(plugins, (_FIRST_TYPE,))}
    return {
        name: _runtime(merged, name, older.get(name, ""), table, plugin, linux)
        for name, table in sorted(tables.items())
    }


def default(merged: Merged) -> str:
    """The name of the default runtime."""
    engine = table_at(merged.document, ("plugins", merged.cri, "containerd"))
    if not merged.modern and table_at(engine, ("default_runtime",)).get("runtime_type"):
        return "default"
    return _text(engine.get("default_runtime_name")) or "runc"


def registry(host: Host, location: Location, merged: Merged) -> Registry:
    """The runtimes of a configuration, and what else of it concerns them."""
    result = Registry(merged.version, runtimes(merged), default(merged), document=merged.document)
    result.files = [file.path for file in merged.files]
    if location.layout == "snap" and "$" in result.default:
        result.default = "runc"  # a variable, whose value microk8s sets when it writes the file
    plugin = table_at(merged.document, ("plugins", merged.cri))
    result.low_level = _low_level(host, location, result)
    result.cdi = _cdi(location, merged, _boolean(plugin.get("enable_cdi")))
    if result.cdi is not None and has_cdi(location):
        named = plugin.get("cdi_spec_dirs")
        result.spec_dirs = tuple(texts(named)) if isinstance(named, list) else DIRECTORIES
    return result


def has_cdi(location: Location) -> bool:
    """Whether this containerd has CDI support of its own, on or off; True for an unknown version."""
    return not () < location.version < (1, 7)


def source(present: Registry) -> Runtime | None:
    """The runtime whose options a new runtime gets; itself, where it is the default already."""
    names = (present.default, "runc", "crun")
    candidates = (present.runtimes[name] for name in names if name in present.runtimes)
    return next((runtime for runtime in candidates if runtime.type in {*TYPES, _FIRST_TYPE, ""}), None)


def new_table(present: Registry, new: NewRuntime, passed_on: Sequence[str]) -> Table:
    """The table of a new runtime, with the values that differ from containerd's own defaults.

    Arguments:
        present: the present configuration.
        new: the runtime.
        passed_on: patterns of the container's annotations that ask for devices.
    """
    old = source(present)
    options: Table = {"BinaryName": new.path}
    result: Table = {"runtime_type": TYPE, "container_annotations": [*passed_on]}
    if old:
        kept = {key: value for key, value in old.table.items() if key not in _OWN and value not in _EMPTY}
        result.update(kept)
        options.update(_options(old))
    return {**result, "options": options}


def set_keys(runtime: Runtime) -> Iterator[tuple[Keys, Value]]:
    """Keys of a runtime's table, relative to it, whose values differ from containerd's defaults; and these values."""
    for key, value in runtime.table.items():
        if isinstance(value, dict):
            yield from (((key, inner), item) for inner, item in value.items() if item not in _EMPTY)
        elif value not in _EMPTY:
            yield (key,), value


def position(merged: Merged, keys: Keys) -> tuple[str, int]:
    """File and line where a key of the CRI plugin is set last; "" and 0 when it is not set."""
    names = {merged.cri, *CRI.values()} if merged.modern else {merged.cri}
    for file in reversed(merged.files):
        line = max(toml_edit.line_of(file.text, ("plugins", name, *keys)) for name in names)
        if line:
            return file.path, line
    return "", 0


def _low_level(host: Host, location: Location, present: Registry) -> str:
    runtime = present.runtimes.get(present.default)
    if not runtime or runtime.type not in {*TYPES, _FIRST_TYPE, ""}:
        runtime = source(present)
    path = location.daemon.path if location.daemon else ""
    return host.find(runtime.path if runtime and runtime.path else "runc", path=path)


def _cdi(location: Location, merged: Merged, enabled: bool | None) -> bool | None:
    """Whether containerd injects devices: never before 1.7, if enabled in 1.7, unless disabled from 2.0 on."""
    if merged.modern:
        return enabled is not False
    if not location.version:
        return enabled
    return location.version >= (1, 7) and bool(enabled)


def _options(old: Runtime) -> Table:
    options = table_at(old.table, ("options",)) if old.type != _FIRST_TYPE else {}
    kept = {key: value for key, value in options.items() if key not in _PROGRAM and value not in _EMPTY}
    if old.type == _FIRST_TYPE and old.table.get("runtime_root"):
        kept["Root"] = old.table["runtime_root"]
    if old.systemd_cgroup is not None:
        kept["SystemdCgroup"] = old.systemd_cgroup
    return kept


def _runtime(merged: Merged, name: str, older: str, table: Table, plugin: Table, linux: Table) -> Runtime:
    """A runtime from its table.

    Arguments:
        merged: the configuration.
        name: the runtime's.
        older: the key of its table where that is not in `runtimes`, "" else.
        table: the table.
        plugin: the table of the CRI plugin.
        linux: the table of the plugin that containerd's first runtime type has.
    """
    options = table_at(table, ("options",))
    kind = _text(table.get("runtime_type"))
    path = _text(options.get("BinaryName"))
    cgroup = _boolean(options.get("SystemdCgroup"))
    if kind == _FIRST_TYPE:
        path = _text(options.get("Runtime")) or _text(table.get("runtime_engine")) or _text(linux.get("runtime"))
        cgroup = cgroup if cgroup is not None else _boolean(plugin.get("systemd_cgroup"))
    file, line = position(merged, ("containerd", older) if older else ("containerd", "runtimes", name))
    return Runtime(name, path, kind, cgroup, table, file, line)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _boolean(value: Value) -> bool | None:
    """A boolean, also in quotes."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None
