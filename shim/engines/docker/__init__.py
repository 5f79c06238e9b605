"""docker: one file, daemon.json, of which single keys change.

dockerd reads one file and knows no drop-ins. Which one it is depends on who installed it: the machine's, the snap's,
that of a user (rootless), or whatever its command line says. A runtime is an entry of `runtimes`; an entry with `path`
is started as a runc, and its `runtimeArgs` stay as they are. One with `runtimeType` (docker 24) names its program in
options.BinaryName. Annotations reach config.json without further ado, from `docker run --annotation`
and from compose's `annotations` (docker 24). Labels never reach it.

Docker's own CDI support needs `features.cdi` from 25.0 to 28.1, is on from 28.2 on, and needs `experimental` in no
release. `cdi-spec-dirs` is known since 25, and an older dockerd refuses a file that has it.

Sources: https://docs.docker.com/reference/cli/dockerd/ (daemon configuration file, configuration reload, CDI devices);
moby, daemon/config/config.go, daemon/runtime_unix.go, cmd/dockerd/daemon.go, pull requests 47087 and 49963
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.cdi import DEFAULT_DIRS
from shim.engines import running, sources
from shim.engines.contract import Engine
from shim.engines.docker import api, checks
from shim.engines.docker import flags as command_line
from shim.engines.model import Edit, Location, Put, Registry, Runtime
from shim.engines.texts import json_edit
from shim.engines.texts.editing import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shim.engines.docker.flags import Flag
    from shim.engines.model import Wanted
    from shim.engines.running import Container
    from shim.host.host import Daemon, Host

_CONFIG = "/etc/docker/daemon.json"
_SNAP = "/var/snap/docker/current/config/daemon.json"
_REVISION = re.compile(r"/var/snap/docker/(?:\d+|x\d+)/")
_DESKTOP = "/opt/docker-desktop"
_VALIDATES = (23,)  # first versions
_CDI_IS_ON = (28, 2)
_SHIM = "io.containerd.runc.v2"  # containerd's shim for runc, crun and us
_BUILT_IN = ("runc", _SHIM)


class Docker(Engine):
    """docker, by its daemon.json."""

    name = "docker"
    program = "dockerd"

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find the daemon.json of the dockerd that runs, of the unit that would start it, or the usual one.

        Arguments: as of `model.Engine.locate`; docker has no drop-ins.
        Raises:
            CdiError: DROP_IN_UNUSED when a drop-in is named, ENGINE_CONFIG_OWNED for Docker Desktop.
        """
        if drop_in:
            text, remedy = "docker has no drop-ins: dockerd reads one file alone", "leave --drop-in out"
            raise CdiError([Finding("DROP_IN_UNUSED", text, remedy, path=drop_in)])
        every = host.daemons("dockerd")
        daemon = next((one for one in every if config and _file_of(host, one) == config), None)
        daemon = daemon or next((one for one in every if one.user == host.user), None)
        program = _program(host, daemon)
        if not config and not daemon and _is_desktop(host, program):
            raise CdiError([checks.desktop(_DESKTOP)])
        path = config or _found(host, daemon, program)
        layout = "snap" if path.startswith("/var/snap/") or "/snap/" in program else ""
        if not layout and (daemon.user if daemon else host.user):
            layout = "rootless"
        return Location(self.name, path, "", program, host.version(program), daemon, layout)

    def read(self, host: Host, location: Location) -> Registry:
        """Read the configuration as dockerd does, the options on its command line included.

        Raises:
            CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX.
        """
        data = host.read(location.config)
        text = decoded(data, location.config)
        document = json_edit.loads(text, location.config)
        flags = command_line.given(host, location)
        registry = Registry(document=document, files=[location.config] if data is not None else [])
        registry.default = _text(document.get("default-runtime")) or _last(flags, "default-runtime") or "runc"
        registry.runtimes = _runtimes(document, text, flags, location)
        registry.low_level = _low_level(host, location, registry.runtimes.get(registry.default))
        registry.cdi = _cdi(document, flags, location)
        registry.spec_dirs = _spec_dirs(document, flags, location)
        registry.findings = [*checks.types(document, text, location), *checks.empty(data, location)]
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, wanted: Wanted) -> list[Edit]:
        """The keys of daemon.json that register a runtime; the default and CDI where that was asked for.

        Raises:
            CdiError: ENGINE_CONFIG_SHAPE for a name that is docker's own; CONFIG_FLAG when a key would come into the
            file
                that stands on dockerd's command line already.
        """
        if wanted.name in _BUILT_IN:
            text, remedy = f"docker keeps the name {wanted.name} for itself", "choose another one with --name"
            raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, remedy, path=location.config)])
        steps = _registered(registry, wanted)
        if wanted.default:
            steps.append(Put(("default-runtime",), wanted.name))
        if wanted.cdi:
            steps += _cdi_on(host, location, registry)
        taken = [
            checks.on_both(flag, location)
            for flag in command_line.given(host, location)
            if flag.key != "runtimes" and any(step.keys[0] == flag.key for step in steps)
        ]
        if taken:
            raise CdiError(taken)
        return [Edit(location.config, "json", tuple(steps))]

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What keeps dockerd from starting with this file, and what is wrong or will surprise with a runtime in it."""
        text = decoded(host.read(location.config), location.config)
        return [
            *checks.other_file(location, _file_of(host, location.daemon) if location.daemon else location.config),
            *checks.flags(command_line.given(host, location), registry, location, text),
            *checks.spelling(registry, location, text),
            *checks.default(registry, location, text),
            *checks.entry(registry, name, location),
            *checks.without_annotations(registry, name, location),
            *checks.builds(registry, name, location, text),
            *checks.confined(registry, name, location),
            *checks.cdi_off(registry, location),
        ]

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """By annotation where this docker has them, else by arguments of a runtime. See `Engine`."""
        if not location.version or location.version >= checks.HAS_ANNOTATIONS:
            return f"ask by `docker run --runtime {name} --annotation cdi.k8s.io/x=KIND=NAME …`"
        return checks.runtime_for_a_device(registry, name)

    def preview(self, host: Host, location: Location, changes: Mapping[str, bytes | None]) -> Registry | None:
        """Ask dockerd whether it would take a changed file: `dockerd --validate`, known since docker 23.

        Arguments:
            host: the machine.
            location: where the configuration lies.
            changes: path -> content.
        Returns:
            what the file comes to; None when nothing changes or nobody can be asked.
        Raises:
            CdiError: ENGINE_CONFIG_SYNTAX with dockerd's own words, when it refuses what it took before.
        """
        candidate = changes.get(location.config)
        if candidate is None or host.root != "/" or not location.program or location.version < _VALIDATES:
            return None
        said = _refusal(host, location, candidate)
        if said and not _refusal(host, location, host.read(location.config) or b"{}"):
            text = f"dockerd refuses the changed file: {said}"
            raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", text, "nothing was written", path=location.config)])
        return self.read(host.with_files(changes), location)

    def ask_daemon(self, host: Host, location: Location, registry: Registry) -> list[Finding] | None:
        """What the dockerd that runs does not know yet, as it says itself; None when it cannot be asked.

        Arguments: as of `model.Engine.faults`. To a file that this dockerd does not read it has nothing to say.
        """
        if host.root != "/" or not location.daemon:
            return None
        if _file_of(host, location.daemon) != location.config:
            return []
        said = api.info(_sockets(host, location, registry))
        if said is None or not isinstance(said.get("Runtimes"), dict):
            return None
        restart = self.restart_command(location)
        return list(checks.unknown(said, registry, location, command_line.given(host, location), restart))

    def restart_command(self, location: Location) -> str:
        """The command that restarts dockerd: the machine's, the user's own, or that of the snap."""
        user = "--user " * (location.layout == "rootless")
        return "snap restart docker" if location.layout == "snap" else f"systemctl {user}restart docker"

    def containers(self, host: Host) -> list[Container]:
        """The containers whose shims are in docker's namespace of containerd."""
        return running.of_shims(host, lambda namespace: namespace == "moby")


# --- where ------------------------------------------------------------------------------------------------------------


def _program(host: Host, daemon: Daemon | None) -> str:
    named = daemon.argv[0] if daemon and daemon.argv[0].startswith("/") else "dockerd"
    return host.find(named, "dockerd", "/snap/docker/current/bin/dockerd", path=daemon.path if daemon else "")


def _is_desktop(host: Host, program: str) -> bool:
    return not program and (host.exists(_DESKTOP) or bool(host.daemons("com.docker.backend")))


def _found(host: Host, daemon: Daemon | None, program: str) -> str:
    if daemon:
        return _file_of(host, daemon)
    units = command_line.of_units(host, is_own=bool(host.user))
    named = _last(units, "config-file")
    if named.startswith("/"):
        return named
    if "/snap/" in program or (not program and host.exists(posixpath.dirname(_SNAP))):
        return _SNAP
    return command_line.usual_file(host)


def _file_of(host: Host, daemon: Daemon) -> str:
    """The file that a dockerd reads. A snap's lies below a revision, of which `current` is the one that counts."""
    named = daemon.option("--config-file")
    if not named:
        return command_line.usual_file(host) if daemon.user == host.user else _CONFIG
    path = posixpath.normpath(posixpath.join(daemon.cwd, named))
    current = _REVISION.sub("/var/snap/docker/current/", path)
    return current if host.exists(posixpath.dirname(current)) else path


def _sockets(host: Host, location: Location, registry: Registry) -> list[str]:
    """Where dockerd listens, if that is on a Unix socket; fd:// is the socket that systemd opened for it."""
    hosts = registry.document.get("hosts")
    named = [one for one in hosts if isinstance(one, str)] if isinstance(hosts, list) else []
    named += [flag.value for flag in command_line.given(host, location) if flag.key == "hosts"]
    paths = [one.removeprefix("unix://") for one in named if one.startswith("unix://")]
    if location.daemon and location.daemon.user:
        return [*paths, f"/run/user/{location.daemon.user}/docker.sock"]
    return [*paths, "/run/docker.sock"]


# --- what it says -----------------------------------------------------------------------------------------------------


def _runtimes(document: dict[str, Any], text: str, flags: list[Flag], location: Location) -> dict[str, Runtime]:
    systemd = _systemd(document, flags)
    found = {name: Runtime(name, "", _SHIM, systemd) for name in _BUILT_IN}
    for flag in flags:
        if flag.name == "add-runtime":
            name, _, path = flag.value.partition("=")
            found[name] = Runtime(name, path, "", systemd, {"path": path}, flag.file, flag.line)
    entries = document.get("runtimes")
    for name, table in entries.items() if isinstance(entries, dict) else ():
        if isinstance(table, dict):
            line = json_edit.line_of(text, ("runtimes", name))
            found[name] = _runtime(name, table, systemd, location.config, line)
    return found


def _runtime(name: str, table: dict[str, Any], systemd: bool | None, file: str, line: int) -> Runtime:
    kind = _text(field(table, "runtimeType"))
    if not kind:
        return Runtime(name, _text(field(table, "path")), "", systemd, table, file, line)
    options = field(table, "options")
    options = options if isinstance(options, dict) else {}
    said = options.get("SystemdCgroup", False)  # this way dockerd hands on what is written here, and no more
    return Runtime(name, _text(options.get("BinaryName")), kind, said if said is True else False, table, file, line)


def field(table: dict[str, Any], name: str) -> Any:
    """A field of an entry. Go does not mind how its letters are written, and of several takes the last."""
    return next((value for key, value in reversed(table.items()) if key.lower() == name.lower()), None)


def _systemd(document: dict[str, Any], flags: list[Flag]) -> bool | None:
    options = document.get("exec-opts")
    said = [*(options if isinstance(options, list) else []), *(one.value for one in flags if one.key == "exec-opts")]
    drivers = [str(one).partition("=")[2].strip() for one in said if str(one).startswith("native.cgroupdriver=")]
    return drivers[-1] == "systemd" if drivers else None


def _low_level(host: Host, location: Location, runtime: Runtime | None) -> str:
    if runtime is None or (runtime.type not in {"", _SHIM} and not runtime.path):
        return ""  # a shim of its own, which starts no runc
    return host.find(runtime.path or "runc", path=location.daemon.path if location.daemon else "")


def _cdi(document: dict[str, Any], flags: list[Flag], location: Location) -> bool | None:
    if location.version and location.version < checks.CDI_EXISTS:
        return False
    features = document.get("features")
    said = features.get("cdi") if isinstance(features, dict) else None
    for flag in flags:
        name, _, value = flag.value.partition("=")
        if flag.name == "feature" and name == "cdi":
            said = value in {"", "true", "1"}
    if document.get("cdi-spec-dirs") == [""] or said is False:
        return False
    return said if isinstance(said, bool) else location.version >= _CDI_IS_ON if location.version else None


def _spec_dirs(document: dict[str, Any], flags: list[Flag], location: Location) -> tuple[str, ...]:
    if location.version and location.version < checks.CDI_EXISTS:
        return ()
    said = document.get("cdi-spec-dirs")
    given = [flag.value for flag in flags if flag.name == "cdi-spec-dir"]
    named = said if isinstance(said, list) and said else given or DEFAULT_DIRS
    return tuple(one for one in named if one)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _last(flags: list[Flag], name: str) -> str:
    return next((flag.value for flag in reversed(flags) if flag.name == name), "")


# --- what shall be different ------------------------------------------------------------------------------------------


def _registered(registry: Registry, wanted: Wanted) -> list[Put]:
    """The entry of a runtime: the one that is there, with our path in it; one of another kind is replaced."""
    there = registry.document.get("runtimes")
    table = there.get(wanted.name) if isinstance(there, dict) else None
    table = table if isinstance(table, dict) else {}
    options = field(table, "options")
    if field(table, "runtimeType") == _SHIM and not field(table, "path") and isinstance(options, dict):
        value = {**table, "options": {**options, "BinaryName": wanted.path}}
    else:
        kept = {key: one for key, one in table.items() if key.lower() not in {"runtimetype", "options"}}
        others = {key: one for key, one in kept.items() if key.lower() != "path"}
        value = {**kept, "path": wanted.path} if "path" in kept else {"path": wanted.path, **others}
    return [Put(("runtimes", wanted.name), value)]


def _cdi_on(host: Host, location: Location, registry: Registry) -> list[Put]:
    steps = [] if registry.cdi else [Put(("features", "cdi"), True)]
    ours = sources.settings_of(host).spec_dirs
    missing = [one for one in ours if one not in registry.spec_dirs]
    # an older one does not know the key, and does not start with it
    if missing and (location.version >= checks.CDI_EXISTS or "cdi-spec-dirs" in registry.document):
        steps.append(Put(("cdi-spec-dirs",), [*registry.spec_dirs, *missing]))
    return steps


def _refusal(host: Host, location: Location, data: bytes) -> str:
    """What dockerd has against a file, which lies where only we can read it."""
    with tempfile.TemporaryDirectory(prefix="shim-docker-") as directory:
        file = Path(directory, "daemon.json")
        file.write_bytes(data)
        options = [
            f"--{one.name}={one.value}" for one in command_line.given(host, location) if one.name == "add-runtime"
        ]
        said = host.refusal(location.program, "--validate", "--config-file", str(file), *options)
        return said.replace(str(file), location.config)


ENGINE = Docker()
