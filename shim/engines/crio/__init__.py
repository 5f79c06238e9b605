"""CRI-O: a drop-in with one table, and how CRI-O merges its files.

Files are decoded in this order: crio.conf, then everything below crio.conf.d, whatever its name ends in, in the order
of a walk. The table of a runtime that comes again replaces the former one whole, so our drop-in holds a complete one.
What it needs besides our path is copied from the runtime that is the default without us:

    runtime_root  where runc or crun keep the state of containers: `runc --root … list` shows ours beside the others. A
                  root of our own gains nothing, since ids are unique, and /run/shim is used by shim's index.
    monitor_*     conmon, its cgroup and environment: without these the monitor may get into another cgroup.
    allowed_annotations, and the rest of _COPIED: what Pods may ask for stays the same.

Never copied are platform_runtime_paths and inherit_default_runtime, which replace runtime_path by another program, and
runtime_config_path, which is for virtual machines: CRI-O drops any other runtime that has it.

No key lets `cdi.k8s.io/*` through, and none is needed: CRI-O removes only those annotations that it knows as
experimental and that allowed_annotations does not name, and copies the rest, of the Pod and of the container, into each
container's config.json. An annotation in allowed_annotations that CRI-O does not know makes it drop the runtime. What
the Pod's author wrote is no request: beside it CRI-O writes the container's own annotations as JSON, which a create
compares (docs/create.md).

Source: https://github.com/cri-o/cri-o, pkg/config/config.go (UpdateFromPath, ValidateRuntimes), docs/crio.8.md,
docs/crio.conf.5.md, docs/crio.conf.d.5.md, internal/factory/container/container.go (SpecAddAnnotations)
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.config.settings import ANY
from shim.engines import in_use, oci_hooks, running, runtime_programs, sources, spec_dirs, toml_layers
from shim.engines.contract import Engine
from shim.engines.crio import checks
from shim.engines.model import Edit, Location, Put, Registry, Runtime
from shim.engines.texts.editing import apply
from shim.engines.texts.values import table_at, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shim.engines.model import NewRuntime
    from shim.engines.running import Container
    from shim.engines.texts.values import Keys, Table, Value
    from shim.engines.toml_layers import Layer
    from shim.host.host import Daemon, Host

_CONFIG = "/etc/crio/crio.conf"
_DIRECTORY = "/etc/crio/crio.conf.d"
_DROP_IN = "99-shim.conf"
_RUNTIMES = ("crio", "runtime", "runtimes")
_MAPS = (_RUNTIMES, ("crio", "runtime", "workloads"))
_SETTINGS = ("crio", "runtime")
_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_HOOKS = ("/usr/share/containers/oci/hooks.d",)
_CRUN_IS_DEFAULT = (1, 31)  # runc before
_HAS_CDI = (1, 24)
_COPIED = (
    *("runtime_root", "monitor_path", "monitor_cgroup", "monitor_env", "monitor_exec_cgroup"),
    *("allowed_annotations", "default_annotations", "privileged_without_host_devices", "container_min_memory"),
    *("container_create_timeout", "no_sync_log", "exec_cpu_affinity", "seccomp_profile"),
)
_HEAD = "# CRI-O's runtime that gives containers the CDI devices they ask for. Written by `shim runtime configure`.\n"


class Crio(Engine):
    """CRI-O, by a drop-in."""

    name = "crio"
    program = "crio"
    finds_runtimes_by_name = True
    end_containers = "kubectl drain this node"
    manager = "cri-o"
    usual_files = (_CONFIG, f"{_DIRECTORY}/*", f"{_DIRECTORY}/*/*")

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find CRI-O's files: those of the running daemon, or the usual ones.

        Arguments: as of `Engine.locate`.
        Raises:
            CdiError: DROP_IN_UNUSED when CRI-O would not read a drop-in that was named.
        """
        daemon = next(iter(host.daemons("crio")), None)
        program = host.find("crio", path=daemon.path if daemon else "")
        main = config or _option(daemon, "--config", "-c") or _CONFIG
        directory = _option(daemon, "--config-dir", "-d")
        if config and not daemon:  # most likely of another tree, which has its drop-ins beside it
            directory = posixpath.dirname(drop_in) or f"{posixpath.dirname(main)}/crio.conf.d"
        directory = directory or _DIRECTORY
        if drop_in and posixpath.dirname(drop_in) != directory:
            text, remedy = f"CRI-O looks for drop-ins in {directory}", f"name {directory}/{_DROP_IN}"
            raise CdiError([Finding("DROP_IN_UNUSED", text, remedy, path=drop_in)])
        return Location(self.name, main, drop_in or f"{directory}/{_DROP_IN}", program, host.version(program), daemon)

    def read(self, host: Host, location: Location) -> Registry:
        """Read the configuration as CRI-O does; options on the command line of the running daemon take precedence.

        Raises:
            CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX.
        """
        layers = toml_layers.read(host, _files(host, location), _MAPS)
        document = toml_layers.merge(layers, _MAPS)
        settings = table_at(document, _SETTINGS)
        built_in = "crun" if not location.version or location.version >= _CRUN_IS_DEFAULT else "runc"
        default = _option(location.daemon, "--default-runtime") or _text(settings.get("default_runtime")) or built_in
        option = _option(location.daemon, "--cdi-spec-dirs")
        directories = tuple(option.split(",")) if option else _list(settings, "cdi_spec_dirs", _SPEC_DIRS)
        registry = Registry(
            runtimes=_runtimes(host, location, layers, settings, built_in),
            default=default,
            cdi=bool(directories) and (not location.version or location.version >= _HAS_CDI),
            spec_dirs=directories,
            document=document,
            files=[layer.path for layer in layers],
        )
        registry.low_level = _program(host, location, registry.runtimes.get(registry.default), registry.default)
        registry.findings = [*toml_layers.mistyped(layers, checks.TYPES, "CRI-O"), *checks.dead_tables(layers)]
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """The drop-in with the table of a runtime; the default and CDI's directories where that is wanted.

        Raises:
            CdiError: DROP_IN_UNUSED when a later file, or the command line of the daemon, sets one of the two as well.
        """
        source = _source(self.read(host.with_files({location.drop_in: None}), location))
        table: Table = {"runtime_path": new.path, "runtime_type": source.get("runtime_type") or "oci"}
        table |= {key: source[key] for key in _COPIED if source.get(key)}  # false and empty are CRI-O's own defaults
        steps = [Put((*_RUNTIMES, new.name), table)]
        if new.default:
            steps.insert(0, Put(("crio", "runtime", "default_runtime"), new.name))
        lacking = spec_dirs.missing(host, registry.spec_dirs)
        if new.cdi and lacking:
            steps.insert(0, Put(("crio", "runtime", "cdi_spec_dirs"), [*registry.spec_dirs, *lacking]))
        edit = Edit(location.drop_in, "toml", tuple(steps), head=_HEAD)
        wanted = [step.keys for step in steps if step.keys[:-1] == _SETTINGS]
        later = host.with_files(apply([edit], {edit.path: host.read(edit.path)}))
        unused = [*toml_layers.outranked(toml_layers.read(later, _files(later, location), _MAPS), edit.path, wanted)]
        unused += checks.given(location, {keys[-1] for keys in wanted})
        if unused:
            raise CdiError(unused)
        return [edit]

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What is wrong with a runtime: files that do not count, and keys that make CRI-O drop it. See `Engine`."""
        hooks = _list(table_at(registry.document, _SETTINGS), "hooks_dir", _HOOKS)
        findings = [
            *checks.other_files(location, _option(location.daemon, "--config", "-c"), _CONFIG),
            *checks.unused(host, location, registry, name),
            *checks.copies(registry),
            *checks.missing_default(registry),
            *checks.ignored(host, registry, name),
            *oci_hooks.doubles(oci_hooks.read(host, hooks), ""),
        ]
        if name in registry.runtimes:
            findings += self._pods(host, location, registry, name)
        findings += checks.missing_monitors(host, registry)
        if not self.resolves_annotations(location, registry):
            findings.append(checks.cdi_off(location))
        return findings

    def runtime_keys(self, location: Location, name: str) -> Sequence[Keys]:
        """One table. See `Engine`."""
        return [(*_RUNTIMES, name)]

    def program_fault(self, host: Host, location: Location, registry: Registry, runtime: Runtime) -> str:
        """By its path, which is never searched in PATH; without a path by its name; or the default's. See `Engine`."""
        default = registry.runtimes.get(registry.default)
        if default and runtime.table.get("inherit_default_runtime"):
            runtime = default
        if not runtime.path or runtime.path.startswith("/"):
            return runtime_programs.fault(host, location, runtime.path or runtime.name)
        directory = location.daemon.cwd if location.daemon else "/"
        if host.exists(posixpath.join(directory, runtime.path)):
            return ""
        where = f"CRI-O looks for it in its working directory {directory}, not in PATH"
        return f"{runtime.path}, which is no absolute path: {where}"

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """The same in every version. See `Engine`."""
        return "let a device plugin ask, or another client of the CRI by an annotation of the container (cdi.k8s.io/…)"

    def resolves_annotations(self, location: Location, registry: Registry) -> bool:
        """Always, since it has CDI: an empty list of directories makes every name unknown. See `Engine`."""
        return not location.version or location.version >= _HAS_CDI

    def spec_dirs_line(self, location: Location, registry: Registry, directories: Sequence[str]) -> str:
        """A key of [crio.runtime]. See `Engine`."""
        listed = ", ".join(f'"{path}"' for path in directories)
        return f"cdi_spec_dirs = [{listed}] below [crio.runtime]"

    def pod_annotation(self, host: Host, registry: Registry, handler: str, key: str) -> str:
        """It arrives, and is a request only where shim's configuration allows it. See `Engine`."""
        copied = "CRI-O copies an annotation of a Pod into each of its containers"
        if sources.settings_or_defaults(host).pod_annotations == ANY:
            return f'{copied}, and each of them asks by it, since sources.pod-annotations is "any"'
        return f"{copied}, where it is no request"

    def _pods(self, host: Host, location: Location, registry: Registry, name: str) -> Iterator[Finding]:
        """Whether the authors of Pods can ask, and the requests of the table that do not count where they cannot."""
        settings = sources.settings_or_defaults(host)
        if settings.pod_annotations == ANY:
            ways = self.ways_to_ask(location, registry, name)
            yield sources.open_to("pod-annotations", "Pod", "an annotation of its own", ways, settings.path)
        else:
            yield from checks.default_annotations(registry.runtimes[name], settings.annotation_prefixes)

    def state_directory(self, runtime: Runtime) -> str:
        """The key runtime_root. See `Engine`."""
        return str(runtime.table.get("runtime_root") or "")

    def containers(self, host: Host) -> list[Container]:
        """The containers whose conmon was started by CRI-O."""
        return running.of_conmon(host, "cri-o")

    def under_launchers(self, host: Host) -> Iterator[in_use.Container]:
        """Those whose conmon calls nothing at the end: CRI-O waits for a file. See `Engine`."""
        return in_use.of_monitors(
            host, self.name, self.end_containers, lambda monitor: not monitor.option("--exit-command")
        )


def _option(daemon: Daemon | None, *names: str) -> str:
    value = daemon.option(*names) if daemon else ""
    is_path = names[0] in {"--config", "--config-dir"}
    return posixpath.join(daemon.cwd, value) if daemon and value and is_path else value


def _files(host: Host, location: Location) -> list[str]:
    """The main file, then every file below the directory, in the order of a walk: each directory's names by bytes."""
    directory = posixpath.dirname(location.drop_in)
    below = [path for depth in ("*", "*/*", "*/*/*") for path in host.glob(f"{directory}/{depth}")]
    return [location.config, *sorted(below, key=lambda path: path.encode().split(b"/"))]


def _list(table: Table, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(texts(table[key])) if isinstance(table.get(key), list) else default


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _runtimes(
    host: Host, location: Location, layers: list[Layer], settings: Table, built_in: str
) -> dict[str, Runtime]:
    manager = _option(location.daemon, "--cgroup-manager") or settings.get("cgroup_manager")
    is_systemd = (manager or "systemd") == "systemd"
    tables = table_at(settings, ("runtimes",))
    default = settings.get("default_runtime") or built_in
    if built_in not in tables and (default == built_in or not runtime_programs.fault(host, location, built_in)):
        # without its program CRI-O drops it, unless it is the default
        tables = {built_in: _built_in(built_in, is_systemd=is_systemd), **tables}
    runtimes = {}
    for name, table in tables.items():
        if isinstance(table, dict):
            layer = toml_layers.last(layers, (*_RUNTIMES, name))
            path, kind = str(table.get("runtime_path") or ""), str(table.get("runtime_type") or "")
            file, line = (layer.path, layer.line((*_RUNTIMES, name))) if layer else ("", 0)
            runtimes[name] = Runtime(name, path, kind, is_systemd, table, file, line)
    return {**runtimes, **_given(location.daemon, is_systemd=is_systemd)}


def _given(daemon: Daemon | None, *, is_systemd: bool) -> dict[str, Runtime]:
    """The runtimes of the option --runtimes, which replace those of the files: NAME:PATH:ROOT, and up to four more."""
    runtimes = {}
    for word in ",".join(daemon.options("--runtimes") if daemon else ()).split(","):
        name, *values = word.split(":")
        keys = ("runtime_path", "runtime_root", "runtime_type", "privileged_without_host_devices")
        table: Table = {"runtime_type": "oci", **dict(zip((*keys, "runtime_config_path"), values, strict=False))}
        table["privileged_without_host_devices"] = table.get("privileged_without_host_devices") == "true"
        if len(values) >= 2:  # fewer are refused by CRI-O, which then does not run
            path, kind = str(table["runtime_path"]), str(table["runtime_type"])
            runtimes[name] = Runtime(name, path, kind, is_systemd, table, option="--runtimes")
    return runtimes


def _program(host: Host, location: Location, runtime: Runtime | None, name: str) -> str:
    """The program of a runtime: its path, or its name searched in the daemon's PATH."""
    return host.find(runtime.path or name, path=location.daemon.path if location.daemon else "") if runtime else ""


def _source(registry: Registry) -> Table:
    """The table from which keys are copied: that of the default runtime, unless it starts virtual machines."""
    for name in (registry.default, "crun", "runc"):
        if name in registry.runtimes and registry.runtimes[name].type != "vm":
            return registry.runtimes[name].table
    return _built_in("crun", is_systemd=True)


def _built_in(name: str, *, is_systemd: bool) -> Table:
    """The table of CRI-O's own default runtime, for which no file has one.

    Arguments:
        name: crun, or runc for a CRI-O before 1.31.
        is_systemd: whether systemd manages cgroups, whose slice for monitors is that of the system then.
    """
    return {
        "runtime_type": "oci",
        "runtime_root": f"/run/{name}",
        "allowed_annotations": ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"],
        "monitor_env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        **({"monitor_cgroup": "system.slice"} if is_systemd else {}),
        # crun needs less than the 12 MiB that other runtimes get: a limit of 4 MiB is refused without it
        **({"container_min_memory": "500KiB"} if name == "crun" else {}),
    }


ENGINE = Crio()
