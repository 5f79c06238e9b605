"""Faults in docker's configuration, and effects of it that people do not expect.

dockerd is strict where it reads its file, and writes the cause into one line of the journal, as the machine boots: a
value of another type, an unknown key, a key that is on its command line as well. The rest it does not report.

Sources: moby, daemon/config/config.go, daemon/runtime_unix.go; https://docs.docker.com/reference/cli/dockerd/;
https://docs.docker.com/build/buildkit/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.engines.docker.daemon_json import CDI_EXISTS, SHIM
from shim.engines.model import STOPS_ENGINE
from shim.engines.texts import json_edit
from shim.engines.texts.values import get, table_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from shim.engines.docker.command_line import Flag
    from shim.engines.model import Location, Registry
    from shim.engines.texts.values import Keys, Table, Value

# First versions
_TAKES_EMPTY = (23,)
HAS_ANNOTATIONS = (24,)  # Engine API 1.43: HostConfig.Annotations; docker/cli pull request 4156
_LIST = "a list of texts"
_KEYS = dict.fromkeys(("exec-opts", "cdi-spec-dirs", "hosts"), _LIST)
_KEYS |= {"runtimes": "an object", "features": "an object", "default-runtime": "a text"}
_FIELDS = {"path": "a text", "runtimeArgs": _LIST, "runtimeType": "a text", "options": "an object"}


# --- the file ---------------------------------------------------------------------------------------------------------


def desktop(path: str) -> Finding:
    """Docker Desktop, which is another machine."""
    text = (
        "Docker Desktop runs dockerd in a virtual machine of its own, where this machine's programs and devices are not"
    )
    remedy = "install Docker Engine on this machine: https://docs.docker.com/engine/install/"
    return Finding("ENGINE_CONFIG_OWNED", text, remedy, path=path)


def empty(data: bytes | None, location: Location) -> Iterator[Finding]:
    """An empty file, which dockerd 20.10 does not take for {}."""
    if data is not None and not data.strip() and location.version and location.version < _TAKES_EMPTY:
        text = f"it is empty, and docker {version(location)} does not start with an empty file (its error is: EOF)"
        yield Finding("ENGINE_CONFIG_SYNTAX", text, "write {} into it, or remove it", path=location.config)


def other_file(location: Location, read: str) -> Iterator[Finding]:
    """A file that the running dockerd does not read."""
    if location.daemon and location.config != read:
        text = f"the running dockerd (process {location.daemon.pid}) reads {read} instead of this file"
        yield Finding("ENGINE_CONFIG_OTHER", text, f"name {read} with --config", path=location.config)


def types(document: Table, text: str, location: Location) -> Iterator[Finding]:
    """Values of another type than dockerd reads, with which it does not start."""
    expected: list[tuple[Keys, str]] = [((key,), kind) for key, kind in _KEYS.items()]
    expected += [(("features", key), "true or false") for key in table_at(document, ("features",))]
    for name, entry in table_at(document, ("runtimes",)).items():
        expected.append((("runtimes", name), "an object"))
        names = {key.lower(): key for key in entry} if isinstance(entry, dict) else {}
        expected += [
            (("runtimes", name, names[field.lower()]), kind)
            for field, kind in _FIELDS.items()
            if field.lower() in names
        ]
    for keys, kind in expected:
        value = get(document, keys)
        if value is not None and not _is(value, kind):
            cause = f"{'.'.join(keys)} must be {kind}, and is {_described(value)}; dockerd does not start with it"
            line = json_edit.line_of(text, keys)
            yield Finding("CONFIG_TYPE", cause, path=location.config, line=line, rule=STOPS_ENGINE)


def _is(value: Value, kind: str) -> bool:
    if kind == _LIST:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    types: dict[str, type] = {"an object": dict, "a text": str, "true or false": bool}
    return isinstance(value, types[kind])


def _described(value: Value) -> str:
    if isinstance(value, list):
        return "a list with something else in it" if any(not isinstance(item, str) for item in value) else "a list"
    types: dict[type, str] = {dict: "an object", str: "a text", bool: "true or false"}
    return types.get(type(value), "a number")


def spelling(registry: Registry, location: Location, text: str) -> Iterator[Finding]:
    """Keys in capitals that should be in small letters: Go's decoder takes both, and dockerd checks the names again."""
    for key in registry.document:
        if key.lower() in _KEYS and key not in _KEYS:
            cause = f"dockerd knows no key {key}, and does not start with it: it is written {key.lower()}"
            line = json_edit.line_of(text, (key,))
            remedy = f"write {key.lower()}"
            yield Finding("CONFIG_DEAD_SECTION", cause, remedy, path=location.config, line=line, rule=STOPS_ENGINE)


def flags(given: Sequence[Flag], registry: Registry, location: Location, text: str) -> Iterator[Finding]:
    """Keys that are in the file and on dockerd's command line."""
    first: dict[str, Flag] = {}
    for flag in given:
        first.setdefault(flag.key, flag)
    for key, flag in first.items():
        if key in registry.document and key != "runtimes":
            yield on_both(flag, location, json_edit.line_of(text, (key,)))


def on_both(flag: Flag, location: Location, line: int = 0) -> Finding:
    """A key that is, or would be, in the file and on the command line."""
    where = f"in {flag.file}, line {flag.line}" if flag.file else "on the command line of the running dockerd"
    text = f"{flag.key} is here and, as --{flag.name}, {where}: dockerd does not start with a key in both"
    if not line:
        text = f"{flag.key} is given as --{flag.name} {where}: with it in the file as well dockerd would not start"
    return Finding("CONFIG_FLAG", text, f"move it from there into {location.config}", path=location.config, line=line)


# --- the runtime ------------------------------------------------------------------------------------------------------


def default(registry: Registry, location: Location, text: str) -> Iterator[Finding]:
    """A default runtime that is not registered. A name with dots stands for a shim of containerd."""
    if registry.default not in registry.runtimes and "." not in registry.default:
        names = ", ".join(sorted(registry.runtimes))
        cause = f"default-runtime is {registry.default}, and dockerd does not start without it; there are {names}"
        remedy, line = "register it, or take default-runtime out", json_edit.line_of(text, ("default-runtime",))
        yield Finding("HANDLER_MISSING", cause, remedy, path=location.config, line=line)


def entry(registry: Registry, name: str, location: Location) -> Iterator[Finding]:
    """Fields of a runtime's entry that docker refuses, or passes over."""
    runtime = registry.runtimes.get(name)
    if runtime is None or runtime.file != location.config:
        return
    names = {key.lower() for key, value in runtime.table.items() if value}
    faults: list[tuple[str, str, str]] = []
    if not names & {"path", "runtimetype"}:
        cause = f"runtimes.{name} has neither path nor runtimeType"
        faults.append(("RUNTIME_TYPE_MISSING", cause, "give it a path; `shim runtime configure` does"))
    if names >= {"path", "runtimetype"}:
        cause = f"runtimes.{name} has a path and a runtimeType, and docker 24 and later do not start with both"
        faults.append(("CONFIG_TYPE", cause, "keep path, and remove runtimeType and options"))
    if "args" in names:
        cause = f"docker passes over args of runtimes.{name}: the key is runtimeArgs"
        faults.append(("CONFIG_DEAD_SECTION", cause, "rename it to runtimeArgs"))
    if runtime.type == SHIM and registry.runtimes["runc"].systemd_cgroup and not runtime.systemd_cgroup:
        cause = f"docker uses systemd's cgroups, and does not pass that on to runtimes.{name}, as it has a runtimeType"
        faults.append(("RUNTIME_CGROUPS", cause, "add SystemdCgroup: true to its options, or use path instead"))
    for id, cause, remedy in faults:
        yield Finding(id, cause, remedy, path=location.config, line=runtime.line)


def without_annotations(registry: Registry, name: str, location: Location) -> Iterator[Finding]:
    """An older docker, in which no option of `docker run` becomes an annotation of config.json."""
    if name in registry.runtimes and location.version and location.version < HAS_ANNOTATIONS:
        text = (
            f"docker {version(location)} has no --annotation; 24 is the first that has it. So no option of "
            "`docker run` asks for a device"
        )
        yield Finding("ANNOTATION_UNSUPPORTED", text, runtime_for_a_device(registry, name), path=location.config)


def runtime_for_a_device(registry: Registry, name: str) -> str:
    """How to ask for devices without annotations: an entry of daemon.json for each set of devices."""
    path = registry.runtimes[name].path if name in registry.runtimes else "/usr/local/bin/shim"
    entry = f'"{name}-gpu0": {{"path": "{path}", "runtimeArgs": ["--device=KIND=NAME"]}}'
    return f"register a runtime that asks, {entry} in `runtimes`, and choose it by `docker run --runtime {name}-gpu0 …`"


def builds(registry: Registry, name: str, location: Location, text: str) -> Iterator[Finding]:
    """BuildKit, which has a runc of its own."""
    if registry.default == name and name in registry.runtimes:
        cause = (
            f"{name} is the default runtime, but not of `docker build`: BuildKit runs `RUN` lines with runc, whatever "
            "the default runtime is, and passes no device"
        )
        line = json_edit.line_of(text, ("default-runtime",))
        yield Finding("BUILDKIT_RUNTIME", cause, path=location.config, line=line)


def confined(registry: Registry, name: str, location: Location) -> Iterator[Finding]:
    """A launcher that docker's snap cannot start."""
    runtime = registry.runtimes.get(name)
    visible = ("/var/snap/docker/", "/snap/docker/", "/var/lib/snapd/hostfs/")
    if location.layout == "snap" and runtime and runtime.path.startswith("/") and not runtime.path.startswith(visible):
        cause = f"docker's snap is confined, and has a /usr of its own: {runtime.path} of this machine is not in it"
        remedy = (
            "install docker from packages (https://docs.docker.com/engine/install/), or use the snap's own CDI support"
        )
        yield Finding("SNAP_CONFINED", cause, remedy, path=location.config, line=runtime.line)


# --- CDI, and the running daemon --------------------------------------------------------------------------------------


def version(location: Location) -> str:
    """The version of dockerd as people write it."""
    return ".".join(map(str, location.version))


def cdi_off(registry: Registry, location: Location) -> Iterator[Finding]:
    """Why `docker run --device VENDOR/CLASS=NAME` does not work, and how to switch it on."""
    if registry.cdi is not False:
        return
    feature = table_at(registry.document, ("features",)).get("cdi")
    if location.version and location.version < CDI_EXISTS:
        text = f"docker {version(location)} has no CDI support of its own; 25 is the first that has it"
        remedy = "the runtime shim needs none; for docker's own install 25 or later"
        if feature:
            yield Finding("CDI_UNSUPPORTED", f"features.cdi has no effect: {text}", remedy, path=location.config)
        else:
            yield Finding("CDI_OFF", text, remedy, path=location.config)
        return
    if registry.document.get("cdi-spec-dirs") == [""]:
        why, how = "cdi-spec-dirs names no directory", "take cdi-spec-dirs out, or name /etc/cdi and /var/run/cdi"
    elif feature is False:
        why, how = "features.cdi is false", "set features.cdi to true"
    else:
        why, how = f"docker {version(location)} has it off until features.cdi is true", "set features.cdi to true"
    text = f"docker's own CDI support is off: {why}"
    remedy = f"{how} (`shim runtime configure --enable-cdi`), then restart docker; the runtime shim does not need it"
    yield Finding("CDI_OFF", text, remedy, path=location.config)


def unknown(
    info: Table,
    registry: Registry,
    location: Location,
    given: Iterable[Flag],
    restart: str,
    is_launcher: Callable[[str], bool],
) -> Iterator[Finding]:
    """What is in the file, but not in the running dockerd.

    Arguments:
        info: its answer to GET /info.
        registry: what the file comes to.
        location: where it is.
        given: its options: those of --add-runtime are lost when it reloads its file, so that it has to be restarted.
        restart: the command that does it.
        is_launcher: whether a program is a launcher of ours.
    """
    known, pid = table_at(info, ("Runtimes",)), location.daemon.pid if location.daemon else 0
    of_file = [name for name, runtime in registry.runtimes.items() if runtime.file == location.config]
    missing = [name for name in of_file if _program(table_at(known, (name,))) != registry.runtimes[name].path]
    dockerd = f"the running dockerd (process {pid})"
    if "CDISpecDirs" in info and registry.cdi is not None and bool(info["CDISpecDirs"]) != registry.cdi:
        text = f"docker's own CDI is {'on' if registry.cdi else 'off'} in the file, and not so in {dockerd}"
        yield Finding("RESTART_NEEDED", text, restart, path=location.config)
    reload = restart if any(flag.name == "add-runtime" for flag in given) else _reload(location, pid, restart)
    if missing:
        text = f"{dockerd} does not know the runtime {', '.join(missing)} as the file has it"
        yield Finding("RESTART_NEEDED", text, reload, path=location.config)
    if gone := [name for name in known if name not in registry.runtimes and is_launcher(_program(known[name]))]:
        text = f"{dockerd} still knows the runtime {', '.join(gone)}, which no file has"
        yield Finding("RESTART_NEEDED", text, reload, path=location.config)
    elif not missing and info.get("DefaultRuntime", registry.default) != registry.default:
        text = f"the file's default runtime is {registry.default}; that of {dockerd} is {info['DefaultRuntime']}"
        yield Finding("RESTART_NEEDED", text, reload, path=location.config)


def _program(entry: Value) -> str:
    """The program of a runtime in the answer to /info: `path`, or BinaryName of a runtime of containerd's shim."""
    runtime = table_at({"": entry}, ("",))
    return str(runtime.get("path") or table_at(runtime, ("options",)).get("BinaryName") or "")


def _reload(location: Location, pid: int, restart: str) -> str:
    if location.layout == "snap":
        return f"kill -HUP {pid}: docker reads runtimes again, and running containers are not affected"
    how = restart.replace(" restart ", " reload ")
    return f"{how}: it reads runtimes again, and running containers are not affected"
