"""What can be wrong in docker's configuration, and what people do not expect of it.

dockerd is strict where it reads its file, and says what is wrong in one line of the journal, as the machine boots: a
value of another type, an unknown key, a key that is on its command line as well. It is quiet about the rest.

Sources: moby, daemon/config/config.go, daemon/runtime_unix.go; https://docs.docker.com/reference/cli/dockerd/;
https://docs.docker.com/build/buildkit/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.engines.texts import json_edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shim.engines.docker.flags import Flag
    from shim.engines.model import Keys, Location, Registry

_SHIM = "io.containerd.runc.v2"
_TAKES_EMPTY = (23,)  # first versions
CDI_EXISTS = (25,)
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
    """A file without anything in it, which dockerd 20.10 does not take for {}."""
    if data is not None and not data.strip() and location.version and location.version < _TAKES_EMPTY:
        text = f"it is empty, and docker {version(location)} does not start with an empty file (it says: EOF)"
        yield Finding("ENGINE_CONFIG_SYNTAX", text, "write {} into it, or remove it", path=location.config)


def other_file(location: Location, read: str) -> Iterator[Finding]:
    """A file that the dockerd that runs does not read."""
    if location.daemon and location.config != read:
        text = f"the dockerd that runs (process {location.daemon.pid}) reads {read} instead of this file"
        yield Finding("ENGINE_CONFIG_OTHER", text, f"name {read} with --config", path=location.config)


def types(document: dict[str, Any], text: str, location: Location) -> Iterator[Finding]:
    """Values of another type than dockerd reads, for which it does not start."""
    features, entries = document.get("features"), document.get("runtimes")
    wanted: list[tuple[Keys, str]] = [((key,), kind) for key, kind in _KEYS.items()]
    wanted += [(("features", key), "true or false") for key in features or () if isinstance(features, dict)]
    for name, table in entries.items() if isinstance(entries, dict) else ():
        wanted.append((("runtimes", name), "an object"))
        names = {key.lower(): key for key in table} if isinstance(table, dict) else {}
        wanted += [
            (("runtimes", name, names[field.lower()]), kind)
            for field, kind in _FIELDS.items()
            if field.lower() in names
        ]
    for keys, kind in wanted:
        value = json_edit.get(document, keys)
        if value is not None and not _is(value, kind):
            said = f"{'.'.join(keys)} must be {kind}, and is {_named(value)}; dockerd does not start with it"
            yield Finding("CONFIG_TYPE", said, path=location.config, line=json_edit.line_of(text, keys))


def _is(value: Any, kind: str) -> bool:
    if kind == _LIST:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, {"an object": dict, "a text": str, "true or false": bool}[kind])


def _named(value: Any) -> str:
    if isinstance(value, list):
        return "a list with something else in it" if any(not isinstance(one, str) for one in value) else "a list"
    return {dict: "an object", str: "a text", bool: "true or false"}.get(type(value), "a number")


def spelling(registry: Registry, location: Location, text: str) -> Iterator[Finding]:
    """Keys whose letters are large where they should be small: Go would not mind, but dockerd looks closer."""
    for key in registry.document:
        if key.lower() in _KEYS and key not in _KEYS:
            said = f"dockerd knows no key {key}, and does not start with it: it is written {key.lower()}"
            line = json_edit.line_of(text, (key,))
            yield Finding("CONFIG_DEAD_SECTION", said, f"write {key.lower()}", path=location.config, line=line)


def flags(given: Sequence[Flag], registry: Registry, location: Location, text: str) -> Iterator[Finding]:
    """Keys that stand in the file and on dockerd's command line."""
    for key in dict.fromkeys(flag.key for flag in given):
        if key in registry.document and key != "runtimes":
            flag = next(one for one in given if one.key == key)
            yield on_both(flag, location, json_edit.line_of(text, (key,)))


def on_both(flag: Flag, location: Location, line: int = 0) -> Finding:
    """A key that stands, or would stand, in the file and on the command line."""
    where = f"in {flag.file}, line {flag.line}" if flag.file else "on the command line of the dockerd that runs"
    text = f"{flag.key} is here and, as --{flag.name}, {where}: dockerd does not start when it is told in two places"
    if not line:
        text = f"{flag.key} is given as --{flag.name} {where}: with it in the file as well dockerd would not start"
    return Finding("CONFIG_FLAG", text, f"move it from there into {location.config}", path=location.config, line=line)


# --- the runtime ------------------------------------------------------------------------------------------------------


def default(registry: Registry, location: Location, text: str) -> Iterator[Finding]:
    """A default runtime that nobody registered. A name with dots stands for a shim of containerd's."""
    if registry.default not in registry.runtimes and "." not in registry.default:
        there = ", ".join(sorted(registry.runtimes))
        said = (
            f"default-runtime is {registry.default}, so that dockerd does not start: it is not there; there are {there}"
        )
        line = json_edit.line_of(text, ("default-runtime",))
        yield Finding(
            "HANDLER_MISSING", said, "register it, or take default-runtime out", path=location.config, line=line
        )


def entry(registry: Registry, name: str, location: Location) -> Iterator[Finding]:
    """Fields of a runtime's entry that docker refuses, or passes over."""
    runtime = registry.runtimes.get(name)
    if runtime is None or runtime.file != location.config:
        return
    names = {key.lower() for key, value in runtime.table.items() if value}
    found: list[tuple[str, str, str]] = []
    if not names & {"path", "runtimetype"}:
        said = f"runtimes.{name} has neither path nor runtimeType"
        found.append(("RUNTIME_TYPE_MISSING", said, "give it a path; `shim runtime configure` does"))
    if names >= {"path", "runtimetype"}:
        said = f"runtimes.{name} has a path and a runtimeType, and docker 24 and later do not start with both"
        found.append(("CONFIG_TYPE", said, "keep path, and remove runtimeType and options"))
    if "args" in names:
        said = f"docker passes over args of runtimes.{name}: the key is runtimeArgs"
        found.append(("CONFIG_DEAD_SECTION", said, "rename it to runtimeArgs"))
    if runtime.type == _SHIM and registry.runtimes["runc"].systemd_cgroup and not runtime.systemd_cgroup:
        said = f"docker uses systemd's cgroups, and runtimes.{name}, as it has a runtimeType, does not hear of that"
        found.append(("RUNTIME_CGROUPS", said, "add SystemdCgroup: true to its options, or use path instead"))
    for id, said, remedy in found:
        yield Finding(id, said, remedy, path=location.config, line=runtime.line)


def without_annotations(registry: Registry, name: str, location: Location) -> Iterator[Finding]:
    """An older docker, in which nothing of `docker run` reaches config.json as an annotation."""
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
        said = (
            f"{name} is the default runtime, but not of `docker build`: BuildKit runs `RUN` lines with runc, whatever "
            "default-runtime says, and passes no device"
        )
        line = json_edit.line_of(text, ("default-runtime",))
        yield Finding("BUILDKIT_RUNTIME", said, path=location.config, line=line)


def confined(registry: Registry, name: str, location: Location) -> Iterator[Finding]:
    """A launcher that docker's snap cannot see."""
    runtime = registry.runtimes.get(name)
    seen = ("/var/snap/docker/", "/snap/docker/", "/var/lib/snapd/hostfs/")
    if location.layout == "snap" and runtime and runtime.path.startswith("/") and not runtime.path.startswith(seen):
        said = (
            f"docker's snap is confined, and sees a /usr of its own: {runtime.path} of this machine is not there for it"
        )
        remedy = (
            "install docker from packages (https://docs.docker.com/engine/install/), or use the snap's own CDI support"
        )
        yield Finding("SNAP_CONFINED", said, remedy, path=location.config, line=runtime.line)


# --- CDI, and the daemon that runs ------------------------------------------------------------------------------------


def version(location: Location) -> str:
    """The version of dockerd as people write it."""
    return ".".join(map(str, location.version))


def cdi_off(registry: Registry, location: Location) -> Iterator[Finding]:
    """Why `docker run --device VENDOR/CLASS=NAME` does not work, and how to switch it on."""
    if registry.cdi is not False:
        return
    features = registry.document.get("features")
    said = features.get("cdi") if isinstance(features, dict) else None
    if location.version and location.version < CDI_EXISTS:
        text = f"docker {version(location)} has no CDI support of its own; 25 is the first that has"
        remedy = "the runtime shim needs none; for docker's own install 25 or later"
        if said:
            yield Finding("CDI_UNSUPPORTED", f"features.cdi does nothing: {text}", remedy, path=location.config)
        else:
            yield Finding("CDI_OFF", text, remedy, path=location.config)
        return
    if registry.document.get("cdi-spec-dirs") == [""]:
        why, how = "cdi-spec-dirs names no directory", "take cdi-spec-dirs out, or name /etc/cdi and /var/run/cdi"
    elif said is False:
        why, how = "features.cdi is false", "set features.cdi to true"
    else:
        why, how = f"docker {version(location)} has it off until features.cdi is true", "set features.cdi to true"
    text = f"docker's own CDI support is off: {why}"
    remedy = f"{how} (`shim runtime configure --enable-cdi`), then restart docker; the runtime shim does not need it"
    yield Finding("CDI_OFF", text, remedy, path=location.config)


def unknown(
    said: dict[str, Any], registry: Registry, location: Location, given: Iterable[Flag], restart: str
) -> Iterator[Finding]:
    """What stands in the file, but not in the dockerd that runs.

    Arguments:
        said: its answer to GET /info.
        registry: what the file says.
        location: where it lies.
        given: its options: those of --add-runtime are lost when it reloads its file, so that it has to be restarted.
        restart: the command that does it.
    """
    known, pid = said["Runtimes"], location.daemon.pid if location.daemon else 0
    of_file = [name for name, runtime in registry.runtimes.items() if runtime.file == location.config]
    missing = [name for name in of_file if _program(known.get(name)) != registry.runtimes[name].path]
    what = f"the dockerd that runs (process {pid})"
    if "CDISpecDirs" in said and registry.cdi is not None and bool(said["CDISpecDirs"]) != registry.cdi:
        text = f"the file says that docker's own CDI is {'on' if registry.cdi else 'off'}; {what} has it otherwise"
        yield Finding("RESTART_NEEDED", text, restart, path=location.config)
    reload = restart if any(one.name == "add-runtime" for one in given) else _reload(location, pid, restart)
    if missing:
        text = f"{what} does not know the runtime {', '.join(missing)} as the file has it"
        yield Finding("RESTART_NEEDED", text, reload, path=location.config)
    elif said.get("DefaultRuntime", registry.default) != registry.default:
        text = f"the file's default runtime is {registry.default}; that of {what} is {said['DefaultRuntime']}"
        yield Finding("RESTART_NEEDED", text, reload, path=location.config)


def _program(runtime: Any) -> str:
    """The program of a runtime as /info tells it: `path`, or the shim's BinaryName."""
    table = runtime if isinstance(runtime, dict) else {}
    options = table.get("options")
    binary = options.get("BinaryName") if isinstance(options, dict) else ""
    return str(table.get("path") or binary or "")


def _reload(location: Location, pid: int, restart: str) -> str:
    if location.layout == "snap":
        return f"kill -HUP {pid}: docker reads runtimes anew, and containers that run are not affected"
    how = restart.replace(" restart ", " reload ")
    return f"{how}: it reads runtimes anew, and containers that run are not affected"
