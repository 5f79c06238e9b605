"""containerd: a runtime is a table of its CRI plugin; where that table goes depends on how the daemon merges files.

* containerd 1.x takes a plugin's whole table from one file. Our table goes into that file: the main one, or the
  imported file that has the CRI section now. A list of runtimes replaces the built-in list there, so `runc` is written
  as well when the file registers no runtime at all.
* containerd 2.x merges key by key. Our keys go into a file of their own, of the same version as the rest, in a
  directory that is imported. From 2.2 on `containerd config default` prints an import of conf.d, but the daemon imports
  only what the main file names; so an import is added wherever there is none.
* k3s, rke2, k0s and microk8s write the file themselves: `distributions`.

Sources: containerd, docs/cri/config.md, docs/man/containerd-config.toml.5.md, and those of the modules of this package.
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import in_use, running, runtime_programs, spec_dirs
from shim.engines.containerd import (
    annotation_lists,
    checks,
    config_dump,
    config_files,
    distributions,
    patterns,
    runtime_tables,
)
from shim.engines.contract import Engine
from shim.engines.model import EVERY_OTHER, Add, Edit, Location, Put
from shim.engines.texts import template_edit, toml_edit
from shim.engines.texts.editing import apply, decoded
from shim.engines.texts.values import get, table_at, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shim.engines.containerd.config_files import Merged
    from shim.engines.model import NewRuntime, Registry, Runtime
    from shim.engines.running import Container
    from shim.engines.texts.values import Keys
    from shim.host.host import Host

_RESTARTS = {
    "k3s": "systemctl restart k3s (on an agent: k3s-agent)",
    "rke2": "systemctl restart rke2-server (on an agent: rke2-agent)",
    "k0s": "k0s stop && k0s start",
    "snap": "microk8s stop && microk8s start",
}
# The first k3s and rke2 whose templates may extend a base: minor version of Kubernetes -> patch
_BASE_SINCE = {24: 17, 25: 13, 26: 8, 27: 5}

_MARK = "# Written by `shim runtime configure`; `shim runtime remove` takes it away.\n"


class Containerd(Engine):
    """containerd, by a table in one of its files."""

    name = "containerd"
    program = "containerd"
    unread = "no file that it reads imports this one"
    end_containers = "kubectl drain this node, or `ctr task kill` and `ctr task delete` each"
    shim_namespaces = (EVERY_OTHER,)
    usual_files = (
        *("/etc/containerd/config.toml", "/etc/containerd/conf.d/*"),
        "/var/lib/rancher/*/agent/etc/containerd/config*.toml*",
    )

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find containerd's configuration. See `Engine`.

        Raises:
            CdiError: ENGINE_CONFIG_OWNED for a named file that is written again at each start; what
                `config_files.file_at` raises, since the version and imports of the main file decide where our keys go.
        """
        daemons = distributions.daemons(host)
        matching = (daemon for daemon in daemons if not config or distributions.config_of(daemon) == config)
        daemon = next(matching, None)
        path = config or (distributions.config_of(daemon) if daemon else distributions.default_file(host))
        layout = distributions.layout_of(host, path)
        if config:
            distributions.refuse_owned(path, layout)
        path = distributions.source_of(path, layout)
        program = distributions.program_of(host, daemon, layout)
        version = host.version(program)
        if config and not daemon and not distributions.takes(host, path, version):
            program, version = "", ()  # it is meant for another machine, or for a later containerd
        location = Location(self.name, path, drop_in, program, version, daemon, layout)
        return location if drop_in else replace(location, drop_in=distributions.drop_in_of(host, location))

    def read(self, host: Host, location: Location) -> Registry:
        """Read the configuration as containerd does. See `Engine`.

        Where no file has the table of the default runtime, it is taken from `containerd config dump`.

        Raises:
            CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX, ENGINE_CONFIG_VERSION.
        """
        merged = config_files.merged(host, location)
        registry = runtime_tables.registry(host, location, merged)
        registry.findings += [*merged.findings, *checks.unread(location, merged)]
        built_in = registry.runtimes.get(registry.default)
        if built_in and not built_in.file:
            dumped = config_dump.preview(host, location, {})
            if dumped and registry.default in dumped.runtimes:
                registry.runtimes[registry.default] = dumped.runtimes[registry.default]
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, new: NewRuntime) -> list[Edit]:
        """What registers a runtime in containerd. See `Engine`.

        Raises:
            CdiError: CRI_DISABLED; ENGINE_CONFIG_UNREADABLE for an import that is missing; ENGINE_CONFIG_VERSION for a
                file that this containerd does not take; RUNTIME_LOST for a drop-in that would cost containerd 1.x its
                other runtimes; ENGINE_CONFIG_OWNED, ENGINE_CONFIG_SHAPE for a template that cannot take the keys;
                DROP_IN_UNUSED when a later file would win; POD_REQUESTS where authors of Pods could ask a runtime of
                ours for devices.
        """
        merged = config_files.merged(host, location)
        _refuse(location, merged, registry, new)
        steps = _steps(host, location, merged, registry, new)
        if distributions.is_template(location):
            result = [_template(host, location, steps)]
        else:
            path = location.drop_in if merged.modern or location.layout == "k0s" else _home(location, merged)
            result = _in_file(host, location, merged, path or location.config, steps)
        later = host.with_files(apply(result, {edit.path: host.read(edit.path) for edit in result}))
        _check_effect(config_files.merged(later, location), result, steps)
        _check_pods(host, later, location, new.name)
        return result

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> list[Finding]:
        """What is wrong with a runtime in containerd's configuration. See `Engine`."""
        merged = config_files.merged(host, location)
        findings = [*checks.other(host, location)]
        for file in merged.files:
            findings += [*checks.unquoted(file), *checks.dead(file, merged, location), *checks.types(file, merged)]
        findings += [
            *checks.disabled(merged),
            *checks.unused(host, location, merged),
            *checks.lost(merged, registry),
        ]
        for runtime in registry.runtimes.values():
            findings += checks.without_type(runtime)
        if name in registry.runtimes:
            runtime = registry.runtimes[name]
            findings += [*annotation_lists.missing(host, runtime), *checks.cgroups(registry, runtime)]
        findings += annotation_lists.of_pods(host, location, name)
        return [*findings, *checks.cdi(location, merged, registry)]

    def runtime_keys(self, location: Location, name: str) -> Sequence[Keys]:
        """A table of the CRI plugin, under its name of each version; k3s and rke2 add vendors' runtimes themselves."""
        if location.layout in {"k3s", "rke2"}:
            return ()
        return [("plugins", cri, "containerd", "runtimes", name) for cri in config_files.CRI.values()]

    def preview(self, host: Host, location: Location, changes: Mapping[str, bytes | None]) -> Registry | None:
        """The output of `containerd config dump` for changed files. See `Engine`."""
        return config_dump.preview(host, location, changes)

    def program_fault(self, host: Host, location: Location, registry: Registry, runtime: Runtime) -> str:
        """Of a runtime of runc's type that names no program it is runc. See `Engine`."""
        is_used = bool(runtime.file) or runtime.name == registry.default
        named = runtime.path or ("runc" if runtime.type in runtime_tables.TYPES and is_used else "")
        return runtime_programs.fault(host, location, named)

    def restart_command(self, location: Location) -> str:
        """The command that restarts containerd, which is that of the distribution of Kubernetes around it."""
        return _RESTARTS.get(location.layout, "systemctl restart containerd")

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """The same in every version. See `Engine`."""
        return "let a device plugin ask, or another client of the CRI by an annotation of the container (cdi.k8s.io/…)"

    def resolves_annotations(self, location: Location, registry: Registry) -> bool:
        """Where its CDI support is on. See `Engine`."""
        return bool(registry.cdi)

    def spec_dirs_line(self, location: Location, registry: Registry, directories: Sequence[str]) -> str:
        """A key of the CRI plugin, in the section of the file's version. See `Engine`."""
        listed = ", ".join(f'"{path}"' for path in directories)
        section = config_files.cri(registry.config_version)
        return f"cdi_spec_dirs = [{listed}] below [plugins.{json.dumps(section) if '.' in section else section}]"

    def pod_annotation(self, host: Host, registry: Registry, handler: str, key: str) -> str:
        """It arrives where pod_annotations lets it through. See `Engine`."""
        runtime = registry.runtimes.get(handler)
        passed_on = texts(runtime.table.get("pod_annotations")) if runtime else []
        if any(patterns.matches(pattern, key) for pattern in passed_on):
            return (
                f"pod_annotations of {handler} lets it through to each container and to the sandbox of the Pod, where "
                "it looks like a request of the kubelet's (POD_REQUESTS)"
            )
        return super().pod_annotation(host, registry, handler, key)

    def containers(self, host: Host) -> list[Container]:
        """The containers whose shims are in any namespace of containerd but docker's."""
        return running.of_shims(host, _is_own)

    def under_launchers(self, host: Host) -> Iterator[in_use.Container]:
        """Those in the same namespaces. See `Engine`."""
        return in_use.of_shims(host, self.name, self.end_containers, _is_own)


def _is_own(namespace: str) -> bool:
    return namespace not in {"moby", "plugins.moby"}


def _refuse(location: Location, merged: Merged, registry: Registry, new: NewRuntime) -> None:
    findings = [*checks.disabled(merged), *checks.unread(location, merged), *merged.findings]
    if findings:
        raise CdiError(findings)
    older = registry.runtimes.get("default")
    if new.default and older and not merged.modern and registry.default == "default":
        text = "default_runtime names the default runtime, in a form that takes precedence over default_runtime_name"
        remedy = 'write it as containerd.runtimes.NAME, with default_runtime_name = "NAME"'
        raise CdiError([Finding("ENGINE_CONFIG_SHAPE", text, remedy, path=older.file, line=older.line)])


def _steps(host: Host, location: Location, merged: Merged, registry: Registry, new: NewRuntime) -> list[Put]:
    section = ("plugins", merged.ours)
    runtimes = (*section, "containerd", "runtimes")
    steps = []
    if new.cdi and not registry.cdi:
        steps.append(Put((*section, "enable_cdi"), True))
    lacking = spec_dirs.missing(host, registry.spec_dirs)
    if new.cdi and lacking and runtime_tables.has_cdi(location):
        steps.append(Put((*section, "cdi_spec_dirs"), [*registry.spec_dirs, *lacking]))
    if new.default and registry.default != new.name:
        steps.append(Put((*section, "containerd", "default_runtime_name"), new.name))
    is_base = bool(location.layout) and not config_files.is_whole_template(host, location)
    if not merged.modern and not is_base and not _registers_any(merged):
        steps += [
            Put((*runtimes, "runc", *keys), value) for keys, value in runtime_tables.set_keys(registry.runtimes["runc"])
        ]
    return [
        *steps,
        Put((*runtimes, new.name), runtime_tables.new_table(registry, new, annotation_lists.passed_on(host))),
    ]


def _registers_any(merged: Merged) -> bool:
    return bool(table_at(merged.document, ("plugins", merged.cri, "containerd", "runtimes")))


def _home(location: Location, merged: Merged) -> str:
    """The file from which containerd 1.x takes the CRI section."""
    holders = [file.path for file in merged.files if merged.cri in table_at(file.document, ("plugins",))]
    home = holders[-1] if holders else location.drop_in or location.config
    if location.drop_in and location.drop_in != home:
        text = (
            f"containerd 1.x takes the CRI section from one file: this one would replace the whole section of {home}, "
            "runtimes included"
        )
        remedy = f"leave --drop-in out: the runtime is then written into {home}"
        raise CdiError([Finding("RUNTIME_LOST", text, remedy, path=location.drop_in)])
    return home


def _in_file(host: Host, location: Location, merged: Merged, path: str, steps: list[Put]) -> list[Edit]:
    head = f"version = {merged.version}\n"
    if path == location.config:
        return [Edit(path, "toml", tuple(steps), head)]
    present = config_files.file_at(host, path)
    if present and present.version not in {0, merged.version}:
        text = f"it is of version {present.version}, and the other files are of version {merged.version}"
        line = toml_edit.line_of(present.text, ("version",))
        remedy = "name another file with --drop-in, or write all of them in one version"
        raise CdiError([Finding("ENGINE_CONFIG_VERSION", text, remedy, path=path, line=line)])
    if present and not present.version and merged.modern:
        steps = [Put(("version",), merged.version), *steps]
    return [Edit(path, "toml", tuple(steps), _MARK + head), *_imports(host, location, merged, path)]


def _imports(host: Host, location: Location, merged: Merged, path: str) -> list[Edit]:
    """The edit by which the main file imports another file; none, when a file does already."""
    imports = [pattern for file in merged.files for pattern in config_files.patterns(file, location)]
    if location.layout == "k0s" or any(config_files.covers(pattern, path) for pattern in imports):
        return []
    directory, name = posixpath.split(path)
    others = [other for other in host.glob(f"{directory}/*.toml") if other not in {path, location.config}]
    # a pattern, since containerd does not start when a file is missing that is imported by its name; and none that
    # matches files which are not imported so far
    pattern = f"{directory}/*.toml" if not others else f"{directory}/{name.removesuffix('.toml')}*.toml"
    return [Edit(location.config, "toml", (Add(("imports",), (pattern,)),), f"version = {merged.version}\n")]


def _template(host: Host, location: Location, steps: list[Put]) -> Edit:
    """Our table in a template that extends the base, and no other key, since the base has the other headers already.

    A template that is a whole configuration takes every key.
    """
    if config_files.is_whole_template(host, location):
        return Edit(location.drop_in, "template", tuple(steps))
    *others, ours = steps
    for step in others:
        key = step.keys[-1]
        remedy = f"use a {location.layout} whose containerd has it on"
        if key == "default_runtime_name":
            remedy = f"`default-runtime: {step.value}` in /etc/rancher/{location.layout}/config.yaml sets it"
        text = f"{key} cannot be added to the configuration that {location.layout} writes"
        raise CdiError([Finding("ENGINE_CONFIG_OWNED", text, remedy, path=location.config)])
    data = host.read(location.drop_in)
    _refuse_base(host, location)
    text = decoded(data, location.drop_in) if data is not None else template_edit.BASE
    try:
        template_edit.loads(text, location.drop_in)
    except CdiError as error:
        lines = toml_edit.table(ours.keys, table_at({"": ours.value}, ("",)))
        remedy = f"add these lines to it, and restart {location.layout}:\n{lines}"
        faults = [Finding(fault.id, fault.text, remedy, path=fault.path, line=fault.line) for fault in error.findings]
        raise CdiError(faults) from None
    return Edit(location.drop_in, "template", (ours,), _MARK + template_edit.BASE)


def _refuse_base(host: Host, location: Location) -> None:
    version = host.version(host.find(location.layout))
    major, minor, patch = (*version, 0, 0, 0)[:3]
    if version and (major, minor) < (1, 28) and patch < _BASE_SINCE.get(minor, patch + 1):
        text = f"{location.layout} {'.'.join(map(str, version))} has no base that a template could extend"
        remedy = f"use {location.layout} 1.28 or later"
        raise CdiError([Finding("ENGINE_CONFIG_OWNED", text, remedy, path=location.config)])


def _check_effect(later: Merged, result: list[Edit], steps: list[Put]) -> None:
    """Refuse a default runtime, or CDI switched on, where a file that is read later decides otherwise."""
    plugin = table_at(later.document, ("plugins", later.cri))
    for step in steps:
        keys = step.keys[2:]
        if isinstance(step.value, dict) or "runtimes" in keys or get(plugin, keys) == step.value:
            continue
        file, line = runtime_tables.position(later, keys)
        text = f"it sets {keys[-1]} to {str(get(plugin, keys)).lower()}, and is read after {result[0].path}"
        if keys[-1] == "default_runtime_name":
            text = f"it makes {runtime_tables.default(later)} the default runtime, and is read after {result[0].path}"
        remedy = f"name a file that is read later with --drop-in, or take {keys[-1]} out of this one"
        raise CdiError([Finding("DROP_IN_UNUSED", text, remedy, path=file, line=line)])


def _check_pods(host: Host, later: Host, location: Location, name: str) -> None:
    """Refuse to register beside a pattern that would let the authors of Pods ask for devices.

    containerd 2.x merges tables key by key, so `pod_annotations` of another file stays in our table.

    Arguments:
        host, later: the machine as it is, and as it would be.
        location: where the configuration is.
        name: of the new runtime.
    """
    faults = list(annotation_lists.of_pods(later, location, name))
    present = {fault.text: fault for fault in annotation_lists.of_pods(host, location, name)}
    if faults:
        raise CdiError([present.get(fault.text, fault) for fault in faults])  # with the lines of the present files


ENGINE = Containerd()
