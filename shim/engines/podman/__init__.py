"""podman: a drop-in of containers.conf, and optionally a hook of its precreate stage.

What podman reads depends on its version and on the calling user (containers_conf). Since a list in a later file
replaces that of an earlier file, our drop-in has whole lists: the items of the other files, and our name.

    runtime_supports_json      podman reads a runtime's error from its log in JSON; without it from standard error
    runtime_supports_nocgroup  --cgroups=disabled is allowed. containers.conf(5) spells it with an s at the end, which
                               has no effect
    runtime_supports_kvm       the same for SELinux's type of virtual machines

Runtimes are in these lists by name. Ours goes into those that hold the name of the runtime behind it: `runc` does not
know `--cgroup-manager disabled`, which podman gives to those of the second list.

Hooks: `hooks_dir` replaces podman's built-in list, /usr/share/containers/oci/hooks.d; /etc/containers/oci/hooks.d is
read only where it is named, with root and without (tried with 4.3 and 5.4, whose manuals have it otherwise).

Source: containers.conf(5), podman(1), and those of containers_conf
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import in_use, launcher, oci_hooks, running, runtime_programs, sources, spec_dirs, toml_layers
from shim.engines.contract import Engine
from shim.engines.model import Edit, KnownContainer, Location, Put, Registry, Runtime
from shim.engines.podman import checks, containers_conf, programs, stored
from shim.engines.podman.containers_conf import MAPS, RUNTIMES, SETTINGS, built_in_lists, is_at_least, items
from shim.engines.texts.editing import apply
from shim.engines.texts.values import table_at, texts
from shim.host.podman_programs import TAKES_NO_IMAGE_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shim.engines.model import NewRuntime
    from shim.engines.running import Container
    from shim.engines.texts.values import Keys, Table, Value
    from shim.engines.toml_layers import Layer
    from shim.host.host import Host

_HOOK = "shim-precreate.json"
_HOOKS = ("/usr/share/containers/oci/hooks.d",)
_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_SEARCHED = ("crun", "runc", "runj", "kata", "runsc", "ocijail")  # for the default runtime, in this order
_DIRECTORIES = (
    *("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/sbin", "/bin", "/run/current-system/sw/bin"),
)
_HEAD = "# podman's runtime that gives containers the CDI devices they ask for. Written by `shim runtime configure`.\n"


class Podman(Engine):
    """podman, by a drop-in or a hook."""

    name = "podman"
    program = "podman"
    unread = "it does not read this file; of several drop-ins with one name podman 6 reads the last"
    has_hooks = True
    has_runtime_classes = False
    finds_runtimes_by_name = True
    end_containers = "`podman stop` each"
    manager = "libpod"
    usual_files = (
        *("/usr/share/containers/containers.conf", "/etc/containers/containers.conf"),
        *("/etc/containers/containers.conf.d/*", "/etc/containers/oci/hooks.d/*"),
    )

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find the containers.conf of the calling user: the system's for root, else the user's own.

        Arguments: as of `Engine.locate`; a main file elsewhere must be named to podman by CONTAINERS_CONF.
        Raises:
            CdiError: DROP_IN_UNUSED when podman would not read a drop-in that was named.
        """
        program = host.find("podman")
        version = host.version(program)
        own = containers_conf.own(host)
        usual = own if host.user else containers_conf.ADMIN
        main = config or host.environment.get("CONTAINERS_CONF") or usual
        reads_drop_ins = main in {containers_conf.VENDOR, containers_conf.ADMIN, own} and (
            not version or version >= containers_conf.READS_DROP_INS
        )
        directory = f"{usual if main == containers_conf.VENDOR else main}.d"
        if drop_in and not reads_drop_ins:
            text = f"podman reads no drop-ins here, but {main} alone"
            raise CdiError([Finding("DROP_IN_UNUSED", text, path=drop_in)])
        if drop_in and not (posixpath.dirname(drop_in) == directory and drop_in.endswith(".conf")):
            text = f"podman looks for drop-ins in {directory}, with a name that ends in .conf"
            raise CdiError([Finding("DROP_IN_UNUSED", text, path=drop_in)])
        location = Location(self.name, main, drop_in, program, version, layout="rootless" if host.user else "")
        if reads_drop_ins and not drop_in:
            location = replace(location, drop_in=containers_conf.drop_in(host, location, directory))
        return location

    def read(self, host: Host, location: Location) -> Registry:
        """Read the configuration as podman does.

        Raises:
            CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX.
        """
        layers = toml_layers.read(host, containers_conf.files(host, location), MAPS)
        document = toml_layers.merge(layers, MAPS)
        settings = table_at(document, SETTINGS)
        manager = settings.get("cgroup_manager")
        directories = [*_SPEC_DIRS]
        if is_at_least(location, containers_conf.READS_SPEC_DIRS):
            directories = items(layers, "cdi_spec_dirs", _SPEC_DIRS)
        registry = Registry(
            runtimes=_runtimes(host, layers, document, manager == "systemd" if manager else None),
            cdi=is_at_least(location, containers_conf.HAS_CDI) and bool(directories),
            spec_dirs=tuple(directories),
            document=document,
            files=[layer.path for layer in layers],
        )
        written = settings.get("runtime")
        written = written if isinstance(written, str) else ""
        registry.default = written or next((name for name in _SEARCHED if name in registry.runtimes), "")
        default = registry.runtimes.get(registry.default)
        registry.low_level = host.find(default.path) if default else host.find(written) if written else ""
        hooks = oci_hooks.read(host, items(layers, "hooks_dir", _HOOKS))
        registry.hook = next((hook.path for hook in hooks if hook.is_ours), "")
        appends = not location.version or location.version >= containers_conf.APPENDS
        registry.findings = [*checks.mistyped(layers, appends=appends), *checks.dead(layers)]
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """The keys that register a runtime, in a drop-in or, where podman reads none, in the main file.

        The versions of the podman programs are recorded as well: they decide whether annotations count.

        Raises:
            CdiError: DROP_IN_UNUSED when a later file sets the default runtime or CDI's directories.
        """
        lists = _lists_with(host, location, new.name, new.low_level)
        steps = [Put(("engine", key), [*names]) for key, names in lists.items()]
        if new.default:
            steps.insert(0, Put(("engine", "runtime"), new.name))
        lacking = spec_dirs.missing(host, registry.spec_dirs)
        if new.cdi and lacking and is_at_least(location, containers_conf.READS_SPEC_DIRS):
            steps.append(Put(("engine", "cdi_spec_dirs"), [*registry.spec_dirs, *lacking]))
        steps.append(Put((*RUNTIMES, new.name), [new.path]))
        edit = Edit(location.drop_in or location.config, "toml", tuple(steps), head=_HEAD)
        wanted = [step.keys for step in steps if step.keys in {("engine", "runtime"), ("engine", "cdi_spec_dirs")}]
        later = host.with_files(apply([edit], {edit.path: host.read(edit.path)}))
        layers = toml_layers.read(later, containers_conf.files(later, location), MAPS)
        if unused := [*toml_layers.outranked(layers, edit.path, wanted)]:
            raise CdiError(unused)
        return [edit, *programs.record(host)]

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What is wrong with a runtime: lists without it, files that do not count, hooks. See `Engine`."""
        layers = toml_layers.read(host, registry.files, MAPS)
        hooks = oci_hooks.read(host, items(layers, "hooks_dir", _HOOKS))
        is_registered = name in registry.runtimes and registry.runtimes[name].file != ""
        usual = {containers_conf.VENDOR, containers_conf.ADMIN, containers_conf.own(host)}
        result = [
            *checks.other_file(host, location, usual),
            *checks.unused(host, location, registry, name),
            *checks.missing_default(host, registry),
            *oci_hooks.doubles(hooks, name if is_registered else ""),
            *oci_hooks.missing(hooks, sources.prefixes(host)),
            *programs.faults(host, name if is_registered else "", hooks),
        ]
        if is_registered:
            expected = _lists_with(host, location, name, launcher.low_level_of(host, registry.runtimes[name].path))
            present = {key: items(layers, key, names) for key, names in built_in_lists(location).items()}
            lists = {key: (expected.get(key, []), names) for key, names in present.items()}
            result += checks.lost_names(layers, lists, name)
        if registry.cdi is False:
            result.append(checks.cdi_off(location, registry))
        return result

    def runtime_keys(self, location: Location, name: str) -> Sequence[Keys]:
        """One key. See `Engine`."""
        return [(*RUNTIMES, name)]

    def hook_edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """The precreate hook, which needs no other runtime; its directory in containers.conf if it is not there.

        Arguments: as of `Engine.edits`; of `new` the path alone counts.
        Raises:
            CdiError: PODMAN_HOOK under a podman that copies annotations of images.
        """
        programs.refuse_hook(host)
        own = posixpath.dirname(containers_conf.own(host))
        directory = f"{own}/oci/hooks.d" if host.user else "/etc/containers/oci/hooks.d"
        directories = items(toml_layers.read(host, registry.files, MAPS), "hooks_dir", _HOOKS)
        hook = oci_hooks.precreate(new.path, sources.prefixes(host))
        result = [Edit(f"{directory}/{_HOOK}", "text", head=hook), *programs.record(host)]
        if directory not in directories:
            key = Put(("engine", "hooks_dir"), [*directories, directory])
            result.append(Edit(location.drop_in or location.config, "toml", (key,), head=_HEAD))
        return result

    def program_fault(self, host: Host, location: Location, registry: Registry, runtime: Runtime) -> str:
        """By one of its paths, else by the runtime's name in PATH, and never by another name. See `Engine`."""
        if runtime.path.startswith("/"):
            return runtime_programs.fault(host, location, runtime.path)
        return f"{runtime.path}, which is no absolute path, and no program {runtime.name} is in PATH"

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """By annotation, unless this podman takes annotations of images. See `Engine`."""
        if location.version and location.version < TAKES_NO_IMAGE_ANNOTATIONS:
            return f"ask by `podman --runtime {name} --runtime-flag device=KIND=NAME run …`"
        runtime = f"--runtime {name} " * (name in registry.runtimes)
        return f"ask by `podman run {runtime}--annotation cdi.k8s.io/x=KIND=NAME …`"

    def spec_dirs_line(self, location: Location, registry: Registry, directories: Sequence[str]) -> str:
        """A key of [engine]; before 5.5 podman has none. See `Engine`."""
        listed = ", ".join(f'"{path}"' for path in directories)
        has_key = is_at_least(location, containers_conf.READS_SPEC_DIRS)
        return f"cdi_spec_dirs = [{listed}] below [engine] in {location.drop_in or location.config}" if has_key else ""

    def pod_annotation(self, host: Host, registry: Registry, handler: str, key: str) -> str:
        """A request: `podman kube play` is a client, which gives it to each container as its own. See `Engine`."""
        return ""

    def containers(self, host: Host) -> list[Container]:
        """The containers whose conmon was started by podman."""
        return running.of_conmon(host, "libpod")

    def stored_containers(self, host: Host) -> Iterator[KnownContainer]:
        """Those of its storage. See `Engine`."""
        return stored.containers(host, self.name)

    def under_launchers(self, host: Host) -> Iterator[in_use.Container]:
        """Those of every user whose conmon calls podman at the end. See `Engine`."""
        return in_use.of_monitors(
            host, self.name, self.end_containers, lambda monitor: bool(monitor.option("--exit-command"))
        )


def _runtimes(host: Host, layers: list[Layer], document: Table, systemd: bool | None) -> dict[str, Runtime]:
    """The runtimes of the files, and the built-in runtimes that are installed."""
    built_in = {name: _built_in(host, name) for name in _SEARCHED}
    runtimes = {name: Runtime(name, path, systemd_cgroup=systemd) for name, path in built_in.items() if path}
    for name, value in table_at(document, RUNTIMES).items():
        if isinstance(value, list):
            # the first that exists, else the name in PATH
            paths = texts(value)
            there = (path for path in paths if path.startswith("/") and host.exists(path))
            path = next(there, "") or host.find(name) or next(iter(paths), "")
            layer = toml_layers.last(layers, (*RUNTIMES, name))
            file, line = (layer.path, layer.line((*RUNTIMES, name))) if layer else ("", 0)
            candidates: list[Value] = [*paths]
            runtimes[name] = Runtime(name, path, "", systemd, {"paths": candidates}, file, line)
    return runtimes


def _built_in(host: Host, name: str) -> str:
    """The program of a runtime that podman knows without any file, "" when it is missing."""
    return host.find(*(f"{directory}/{name}" for directory in _DIRECTORIES), name)


def _lists_with(host: Host, location: Location, name: str, low_level: str) -> dict[str, list[str]]:
    """The lists in which a runtime should be, with all names that the other files put there.

    Arguments:
        host, location: the machine, and where the configuration is.
        name: the runtime.
        low_level: the runtime behind it; podman's default runtime when that is not known.
    """
    others = toml_layers.read(host, containers_conf.files_of_others(host, location), MAPS)
    default = table_at(toml_layers.merge(others, MAPS), SETTINGS).get("runtime")
    if default == name or not default:
        default = next((runtime for runtime in _SEARCHED if _built_in(host, runtime)), _SEARCHED[0])
    behind = posixpath.basename(low_level or str(default))
    result = {}
    for key, built_in in built_in_lists(location).items():
        names = [item for item in items(others, key, built_in) if item != name]
        if behind in names:
            result[key] = [*names, name]
    return result


ENGINE = Podman()
