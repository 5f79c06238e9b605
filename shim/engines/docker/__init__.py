"""docker: one file, daemon.json, of which single keys change.

dockerd reads one file and has no drop-ins. Which file it is depends on how it was installed: the system's, the snap's,
that of a user (rootless), or another file that its command line names. Annotations reach config.json unchanged, from
`docker run --annotation` and from compose's `annotations` (docker 24). Labels never reach it.

Sources: https://docs.docker.com/reference/cli/dockerd/ (daemon configuration file, configuration reload); moby,
cmd/dockerd/daemon.go; and those of the modules of this package
"""

from __future__ import annotations

import json
import posixpath
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import in_use, launcher, running, runtime_programs, spec_dirs
from shim.engines.contract import Engine
from shim.engines.docker import api, checks, command_line, daemon_json, stored
from shim.engines.model import Edit, KnownContainer, Location, Put, Registry
from shim.engines.texts import json_edit
from shim.engines.texts.editing import decoded
from shim.engines.texts.values import texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shim.engines.model import NewRuntime, Runtime
    from shim.engines.running import Container
    from shim.engines.texts.values import Keys
    from shim.host.host import Daemon, Host

_CONFIG = "/etc/docker/daemon.json"
_SNAP = "/var/snap/docker/current/config/daemon.json"
_REVISION = re.compile(r"/var/snap/docker/(?:\d+|x\d+)/")
_DESKTOP = "/opt/docker-desktop"
_VALIDATES = (23,)  # first version


class Docker(Engine):
    """docker, by its daemon.json."""

    name = "docker"
    program = "dockerd"
    end_containers = "`docker stop` each"
    usual_files = (_CONFIG, _SNAP)
    shim_namespaces = ("moby", "plugins.moby")
    form = "json"

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find the daemon.json of the running dockerd, of the unit that would start it, or the usual file.

        Arguments: as of `Engine.locate`; docker has no drop-ins.
        Raises:
            CdiError: DROP_IN_UNUSED when a drop-in is named, ENGINE_CONFIG_OWNED for Docker Desktop.
        """
        if drop_in:
            text, remedy = "docker has no drop-ins: dockerd reads one file alone", "leave --drop-in out"
            raise CdiError([Finding("DROP_IN_UNUSED", text, remedy, path=drop_in)])
        daemons = host.daemons("dockerd")
        daemon = next((daemon for daemon in daemons if config and _config_of(host, daemon) == config), None)
        daemon = daemon or next((daemon for daemon in daemons if daemon.user == host.user), None)
        program = _program(host, daemon)
        if not config and not daemon and _is_desktop(host, program):
            raise CdiError([checks.desktop(_DESKTOP)])
        path = config or (_config_of(host, daemon) if daemon else _default_config(host, program))
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
        registry.default = daemon_json.default(document, flags)
        registry.runtimes = daemon_json.runtimes(document, text, flags, location)
        registry.low_level = _low_level(host, location, registry.runtimes.get(registry.default))
        registry.cdi = daemon_json.cdi(document, flags, location)
        registry.spec_dirs = daemon_json.spec_dirs(document, flags, location)
        registry.findings = [*checks.types(document, text, location), *checks.empty(data, location)]
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """The keys of daemon.json that register a runtime; the default and CDI where that is wanted.

        Raises:
            CdiError: ENGINE_CONFIG_SHAPE for a name that is docker's own; CONFIG_FLAG when a key would come into the
                file that is on dockerd's command line already.
        """
        if new.name in daemon_json.BUILT_IN:
            text, remedy = f"docker keeps the name {new.name} for itself", "choose another one with --name"
            raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, remedy, path=location.config)])
        steps = [Put(("runtimes", new.name), daemon_json.entry_with(registry.document, new.name, new.path))]
        if new.default:
            steps.append(Put(("default-runtime",), new.name))
        if new.cdi:
            steps += _cdi_on(host, location, registry)
        on_both = [
            checks.on_both(flag, location)
            for flag in command_line.given(host, location)
            if flag.key != "runtimes" and any(step.keys[0] == flag.key for step in steps)
        ]
        if on_both:
            raise CdiError(on_both)
        return [Edit(location.config, "json", tuple(steps))]

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What keeps dockerd from starting with this file, and what is wrong with a runtime in it. See `Engine`."""
        text = decoded(host.read(location.config), location.config)
        return [
            *checks.other_file(location, _config_of(host, location.daemon) if location.daemon else location.config),
            *checks.flags(command_line.given(host, location), registry, location, text),
            *checks.spelling(registry, location, text),
            *checks.default(registry, location, text),
            *checks.entry(registry, name, location),
            *checks.without_annotations(registry, name, location),
            *checks.builds(registry, name, location, text),
            *checks.confined(registry, name, location),
            *checks.cdi_off(registry, location),
        ]

    def program_fault(self, host: Host, location: Location, registry: Registry, runtime: Runtime) -> str:
        """Of an entry for containerd's shim that names no program, and of the built-in, it is runc. See `Engine`."""
        is_used = bool(runtime.file) or runtime.name == registry.default
        named = runtime.path or ("runc" if runtime.type == daemon_json.SHIM and is_used else "")
        return runtime_programs.fault(host, location, named)

    def runtime_keys(self, location: Location, name: str) -> Sequence[Keys]:
        """One key of daemon.json. See `Engine`."""
        return [("runtimes", name)]

    def preview(self, host: Host, location: Location, changes: Mapping[str, bytes | None]) -> Registry | None:
        """What a changed file comes to, if dockerd takes it: `dockerd --validate`, since docker 23. See `Engine`.

        Raises:
            CdiError: ENGINE_CONFIG_SYNTAX with dockerd's own words, when it refuses the changed file alone.
        """
        candidate = changes.get(location.config)
        if candidate is None or host.root != "/" or not location.program or location.version < _VALIDATES:
            return None
        refusal = _refusal(host, location, candidate)
        if refusal and not _refusal(host, location, host.read(location.config) or b"{}"):
            text = f"dockerd refuses the changed file: {refusal}"
            raise CdiError([Finding("ENGINE_CONFIG_SYNTAX", text, "nothing was written", path=location.config)])
        return self.read(host.with_files(changes), location)

    def ask_daemon(self, host: Host, location: Location, registry: Registry) -> list[Finding] | None:
        """What GET /info of the running dockerd lacks, if it reads this file. See `Engine`."""
        if host.root != "/" or not location.daemon:
            return None
        if _config_of(host, location.daemon) != location.config:
            return []
        info = api.info(_sockets(host, location, registry))
        if info is None or not isinstance(info.get("Runtimes"), dict):
            return None
        flags = command_line.given(host, location)
        restart = self.restart_command(location)
        is_ours = partial(launcher.is_launcher, host)
        return list(checks.unknown(info, registry, location, flags, restart, is_ours))

    def restart_command(self, location: Location) -> str:
        """The command that restarts dockerd: the system's, the user's own, or that of the snap."""
        user = "--user " * (location.layout == "rootless")
        return "snap restart docker" if location.layout == "snap" else f"systemctl {user}restart docker"

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """By annotation where this docker has them, else by arguments of a runtime. See `Engine`."""
        if not location.version or location.version >= checks.HAS_ANNOTATIONS:
            return f"ask by `docker run --runtime {name} --annotation cdi.k8s.io/x=KIND=NAME …`"
        return checks.runtime_for_a_device(registry, name)

    def spec_dirs_line(self, location: Location, registry: Registry, directories: Sequence[str]) -> str:
        """A key of daemon.json. See `Engine`."""
        return f'"cdi-spec-dirs": {json.dumps([*directories])} into {location.config}'

    def containers(self, host: Host) -> list[Container]:
        """The containers whose shims are in docker's namespace of containerd."""
        return running.of_shims(host, lambda namespace: namespace == "moby")

    def stored_containers(self, host: Host) -> Iterator[KnownContainer]:
        """Those below the data root. See `Engine`."""
        root = ""
        try:
            location = self.locate(host)
            option = location.daemon.option("--data-root") if location.daemon else ""
            root = option or str(self.read(host, location).document.get("data-root") or "")
        except CdiError:  # verify reports it
            pass
        return stored.containers(host, self.name, root or stored.ROOT)

    def under_launchers(self, host: Host) -> Iterator[in_use.Container]:
        """Those in docker's namespaces of containerd. See `Engine`."""
        return in_use.of_shims(
            host, self.name, self.end_containers, lambda namespace: namespace in {"moby", "plugins.moby"}
        )


def _program(host: Host, daemon: Daemon | None) -> str:
    started = daemon.argv[0] if daemon and daemon.argv[0].startswith("/") else "dockerd"
    return host.find(started, "dockerd", "/snap/docker/current/bin/dockerd", path=daemon.path if daemon else "")


def _is_desktop(host: Host, program: str) -> bool:
    return not program and (host.exists(_DESKTOP) or bool(host.daemons("com.docker.backend")))


def _default_config(host: Host, program: str) -> str:
    """The file that dockerd would read if it were started."""
    options = [flag.value for flag in command_line.of_units(host, is_own=bool(host.user)) if flag.name == "config-file"]
    if options and options[-1].startswith("/"):
        return options[-1]
    if "/snap/" in program or (not program and host.exists(posixpath.dirname(_SNAP))):
        return _SNAP
    return command_line.usual_file(host)


def _config_of(host: Host, daemon: Daemon) -> str:
    """The file that a dockerd reads. A snap's is below a revision, for which `current` is the link."""
    option = daemon.option("--config-file")
    if not option:
        return command_line.usual_file(host) if daemon.user == host.user else _CONFIG
    path = posixpath.normpath(posixpath.join(daemon.cwd, option))
    current = _REVISION.sub("/var/snap/docker/current/", path)
    return current if host.exists(posixpath.dirname(current)) else path


def _sockets(host: Host, location: Location, registry: Registry) -> list[str]:
    """The Unix sockets on which dockerd may listen; fd:// is the socket that systemd opened for it."""
    hosts = texts(registry.document.get("hosts"))
    hosts += [flag.value for flag in command_line.given(host, location) if flag.key == "hosts"]
    paths = [address.removeprefix("unix://") for address in hosts if address.startswith("unix://")]
    if location.daemon and location.daemon.user:
        return [*paths, f"/run/user/{location.daemon.user}/docker.sock"]
    return [*paths, "/run/docker.sock"]


def _low_level(host: Host, location: Location, runtime: Runtime | None) -> str:
    if runtime is None or (runtime.type not in {"", daemon_json.SHIM} and not runtime.path):
        return ""  # a shim of its own, which starts no runc
    return host.find(runtime.path or "runc", path=location.daemon.path if location.daemon else "")


def _cdi_on(host: Host, location: Location, registry: Registry) -> list[Put]:
    steps = [] if registry.cdi else [Put(("features", "cdi"), True)]
    missing = spec_dirs.missing(host, registry.spec_dirs)
    # an older dockerd does not know the key, and does not start with it
    if missing and (location.version >= daemon_json.CDI_EXISTS or "cdi-spec-dirs" in registry.document):
        steps.append(Put(("cdi-spec-dirs",), [*registry.spec_dirs, *missing]))
    return steps


def _refusal(host: Host, location: Location, data: bytes) -> str:
    """The error of dockerd for a file, "" for none. The file is in a directory that we alone can read."""
    with tempfile.TemporaryDirectory(prefix="shim-docker-") as directory:
        file = Path(directory, "daemon.json")
        file.write_bytes(data)
        flags = command_line.given(host, location)
        options = [f"--{flag.name}={flag.value}" for flag in flags if flag.name == "add-runtime"]
        error = host.refusal(location.program, "--validate", "--config-file", str(file), *options)
        return error.replace(str(file), location.config)


ENGINE = Docker()
