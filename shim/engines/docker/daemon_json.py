"""The meaning of daemon.json, together with dockerd's command line.

The program of an entry of `runtimes` with `path` is started like runc, and its `runtimeArgs` come before the other
arguments. An entry with `runtimeType` (docker 24) has its program in options.BinaryName.

Docker's own CDI support needs `features.cdi` from 25.0 to 28.1, is on from 28.2 on, and needs `experimental` in no
release. `cdi-spec-dirs` is known since 25, and an older dockerd refuses a file that has it.

Sources: moby, daemon/config/config.go, daemon/runtime_unix.go, pull requests 47087 and 49963
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.cdi import DEFAULT_DIRS
from shim.engines.model import Runtime
from shim.engines.texts import json_edit
from shim.engines.texts.values import table_at, texts

if TYPE_CHECKING:
    from shim.engines.docker.command_line import Flag
    from shim.engines.model import Location
    from shim.engines.texts.values import Table, Value

SHIM = "io.containerd.runc.v2"  # containerd's shim for runc, crun and the launcher
BUILT_IN = ("runc", SHIM)
CDI_EXISTS = (25,)
_CDI_IS_ON = (28, 2)


def default(document: Table, flags: list[Flag]) -> str:
    """The name of the default runtime."""
    options = [flag.value for flag in flags if flag.name == "default-runtime"]
    return text_of(document.get("default-runtime")) or next(reversed(options), "") or "runc"


def runtimes(document: Table, text: str, flags: list[Flag], location: Location) -> dict[str, Runtime]:
    """The runtimes: built in, of the command line, and of the file, whose entries replace the others.

    Arguments:
        document: the meaning of daemon.json.
        text: its text, for the lines.
        flags: the options of dockerd.
        location: where the file is.
    """
    systemd = _systemd_cgroup(document, flags)
    result = {name: Runtime(name, "", SHIM, systemd) for name in BUILT_IN}
    for flag in flags:
        if flag.name == "add-runtime":
            name, _, path = flag.value.partition("=")
            option = "" if flag.file else "--add-runtime"
            result[name] = Runtime(name, path, "", systemd, {"path": path}, flag.file, flag.line, option)
    for name, entry in table_at(document, ("runtimes",)).items():
        if isinstance(entry, dict):
            line = json_edit.line_of(text, ("runtimes", name))
            result[name] = _runtime(name, entry, systemd, location.config, line)
    return result


def cdi(document: Table, flags: list[Flag], location: Location) -> bool | None:
    """Whether docker injects CDI devices by itself; None where its version is unknown and nothing sets it."""
    if location.version and location.version < CDI_EXISTS:
        return False
    enabled = table_at(document, ("features",)).get("cdi")
    for flag in flags:
        name, _, value = flag.value.partition("=")
        if flag.name == "feature" and name == "cdi":
            enabled = value in {"", "true", "1"}
    if document.get("cdi-spec-dirs") == [""] or enabled is False:
        return False
    if isinstance(enabled, bool):
        return enabled
    return location.version >= _CDI_IS_ON if location.version else None


def spec_dirs(document: Table, flags: list[Flag], location: Location) -> tuple[str, ...]:
    """The spec directories of docker's own CDI support."""
    if location.version and location.version < CDI_EXISTS:
        return ()
    options = [flag.value for flag in flags if flag.name == "cdi-spec-dir"]
    named = texts(document.get("cdi-spec-dirs")) or options or DEFAULT_DIRS
    return tuple(path for path in named if path)


def field(entry: Table, name: str) -> Value:
    """A field of a runtime's entry. Go takes its name in any letters, and of several the last."""
    return next((value for key, value in reversed(entry.items()) if key.lower() == name.lower()), None)


def entry_with(document: Table, name: str, path: str) -> Table:
    """The entry of a runtime with another program; what else it has stays, unless it is of another kind.

    Arguments:
        document: the meaning of daemon.json.
        name: the runtime.
        path: its new program.
    """
    entry = table_at(document, ("runtimes", name))
    options = field(entry, "options")
    if field(entry, "runtimeType") == SHIM and not field(entry, "path") and isinstance(options, dict):
        return {**entry, "options": {**options, "BinaryName": path}}
    kept = {key: value for key, value in entry.items() if key.lower() not in {"runtimetype", "options"}}
    if "path" in kept:
        return {**kept, "path": path}
    return {"path": path, **{key: value for key, value in kept.items() if key.lower() != "path"}}


def text_of(value: Value) -> str:
    """A text, "" for another value."""
    return value if isinstance(value, str) else ""


def _runtime(name: str, entry: Table, systemd: bool | None, file: str, line: int) -> Runtime:
    kind = text_of(field(entry, "runtimeType"))
    if not kind:
        return Runtime(name, text_of(field(entry, "path")), "", systemd, entry, file, line)
    options = field(entry, "options")
    options = options if isinstance(options, dict) else {}
    # of such a runtime dockerd passes on these options, and not its own choice of cgroups
    own = options.get("SystemdCgroup") is True
    return Runtime(name, text_of(options.get("BinaryName")), kind, own, entry, file, line)


def _systemd_cgroup(document: Table, flags: list[Flag]) -> bool | None:
    options = [*texts(document.get("exec-opts")), *(flag.value for flag in flags if flag.key == "exec-opts")]
    drivers = [option.partition("=")[2].strip() for option in options if option.startswith("native.cgroupdriver=")]
    return drivers[-1] == "systemd" if drivers else None
