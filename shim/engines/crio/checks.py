"""Faults in CRI-O's configuration.

CRI-O reports little: a key or table that it does not know is passed over, and a runtime with a fault is dropped with
one line in the journal, after which the kubelet reports a handler that is missing.

Source: https://github.com/cri-o/cri-o, pkg/config/config.go (RuntimeHandler.Validate), pkg/annotations/v2
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines import toml_layers
from shim.engines.model import STOPS_ENGINE
from shim.engines.texts.values import texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from shim.engines.model import Location, Registry, Runtime
    from shim.engines.texts.values import Keys
    from shim.host.host import Host

_RUNTIMES = ("crio", "runtime", "runtimes")
_TEXTS = (
    *("runtime_path", "runtime_type", "runtime_root", "runtime_config_path", "monitor_path", "monitor_cgroup"),
    *("monitor_exec_cgroup", "container_min_memory", "seccomp_profile", "exec_cpu_affinity"),
)
_COPIES = ("~", ".bak", ".old", ".orig", ".save", ".swp", ".rpmnew", ".rpmsave", ".dpkg-old", ".dpkg-dist", ".dpkg-new")
# What allowed_annotations may hold: annotations of CRI-O's own, and these
_ANNOTATIONS = {
    *("io.kubernetes.cri.rdt-class", "io.kubernetes.cri.container-type", "io.containers.trace-syscall"),
    *("bundle", "org.systemd.property.", "org.criu.config", "org.opencontainers.image.stopSignal"),
    *("module.wasm.image/variant", "run.oci."),
}
_OWN_ANNOTATION = re.compile(r"io\.kubernetes\.cri-o\..+|.+\.kubernetes\.cri-o\.io|.+\.crio\.io")
_VM_PROGRAM = re.compile(r"containerd-shim-[a-zA-Z0-9+-]+-v2")
_OF_OTHERS = "correct the value, or take the key out; the runtime is none of shim's"
_OF_DEFAULT = "correct the value, or take the key out; CRI-O names it when it does not start"
_FLAGS = ("privileged_without_host_devices", "inherit_default_runtime", "no_sync_log", "stream_websockets")

TYPES: dict[Keys, Any] = {
    ("crio", "runtime"): dict,
    _RUNTIMES: dict,
    ("crio", "runtime", "default_runtime"): str,
    ("crio", "runtime", "cgroup_manager"): str,
    ("crio", "runtime", "conmon"): str,
    ("crio", "runtime", "cdi_spec_dirs"): toml_layers.LIST,
    ("crio", "runtime", "hooks_dir"): toml_layers.LIST,
    (*_RUNTIMES, "*"): dict,
    (*_RUNTIMES, "*", "monitor_env"): toml_layers.LIST,
    (*_RUNTIMES, "*", "allowed_annotations"): toml_layers.LIST,
    (*_RUNTIMES, "*", "default_annotations"): dict,
    **{(*_RUNTIMES, "*", key): str for key in _TEXTS},
    **{(*_RUNTIMES, "*", key): bool for key in _FLAGS},
}


def dead_tables(layers: Iterable[toml_layers.Layer]) -> Iterator[Finding]:
    """Tables of runtimes, and default runtimes, where CRI-O reads none."""
    for layer in layers:
        for keys in toml_layers.tables_with(layer.document, "runtime_path"):
            if keys[:3] == _RUNTIMES and len(keys) > 4:
                right = f'[crio.runtime.runtimes."{".".join(keys[3:])}"]'
                text = f"[{'.'.join(keys)}]: each dot opens a table here, so that {right} has no runtime_path"
                yield Finding("CONFIG_HEADER_UNQUOTED", text, f"write {right}", path=layer.path, line=layer.line(keys))
            elif keys[:3] != _RUNTIMES or len(keys) < 4:
                right = f"[crio.runtime.runtimes.{keys[-1] if keys else 'NAME'}]"
                text = f"CRI-O passes over [{'.'.join(keys)}]: it reads runtimes in [crio.runtime.runtimes.NAME]"
                yield Finding("CONFIG_DEAD_SECTION", text, f"write {right}", path=layer.path, line=layer.line(keys))
        for keys in toml_layers.tables_with(layer.document, "default_runtime"):
            if keys != _RUNTIMES[:2]:
                here = f"[{'.'.join(keys)}]" if keys else "no table"
                text = f"CRI-O passes over default_runtime in {here}: it reads it in [crio.runtime]"
                line = layer.line((*keys, "default_runtime"))
                yield Finding("CONFIG_DEAD_SECTION", text, "move it to [crio.runtime]", path=layer.path, line=line)


def other_files(location: Location, read: str, usual: str) -> Iterator[Finding]:
    """A main file that CRI-O does not read.

    Arguments:
        location: where the configuration is.
        read: the main file that the daemon was started with, "" for the usual one.
        usual: the usual one.
    """
    if location.daemon and location.config != (read or usual):
        text = f"the running CRI-O (process {location.daemon.pid}) reads {read or usual} instead of this file"
        yield Finding("ENGINE_CONFIG_OTHER", text, path=location.config)


def unused(host: Host, location: Location, registry: Registry, name: str) -> Iterator[Finding]:
    """Files that register a runtime without effect: CRI-O does not read them, or a later file has the same table."""
    keys = (*_RUNTIMES, name)
    directory = location.drop_in.rpartition("/")[0]
    beside = [path for depth in ("*.conf", "*/*.conf") for path in host.glob(f"/etc/crio/{depth}")]
    for layer in toml_layers.setting(host, sorted({*beside} - set(registry.files)), keys, (_RUNTIMES,)):
        text = f"CRI-O does not read this file: its drop-ins are in {directory}"
        yield Finding("DROP_IN_UNUSED", text, f"move it to {directory}", path=layer.path, line=layer.line(keys))
    winner = registry.runtimes.get(name)
    for layer in toml_layers.setting(host, [location.drop_in], keys, (_RUNTIMES,)):
        if winner and winner.file != location.drop_in:
            text = f"{winner.file}, line {winner.line}, comes later and replaces the whole table of {name}"
            remedy = f"remove that table, or give {location.drop_in} a name that sorts behind that file's"
            if winner.option:
                text = f"{winner.option} on the command line of the running CRI-O replaces the whole table of {name}"
                remedy = f"take {name} out of {winner.option} of CRI-O's service"
            yield Finding("DROP_IN_UNUSED", text, remedy, path=location.drop_in, line=layer.line(keys))


def given(location: Location, keys: Collection[str]) -> Iterator[Finding]:
    """DROP_IN_UNUSED, for keys whose option is on the command line of the running CRI-O, which precedes every file.

    Arguments:
        location: where the configuration is.
        keys: of [crio.runtime], that a file is to set.
    """
    for key in sorted(keys):
        option = f"--{key.replace('_', '-')}"
        value = location.daemon.option(option) if location.daemon else ""
        if location.daemon and value:
            text = (
                f"{key} would have no effect here: the running CRI-O (process {location.daemon.pid}) was started with "
                f"{option}={value}"
            )
            remedy = f"take {option} out of the command line of CRI-O's service"
            yield Finding("DROP_IN_UNUSED", text, remedy, path=location.drop_in)


def copies(registry: Registry) -> Iterator[Finding]:
    """Copies that editors and packages leave beside a file: CRI-O reads them like any other, after the file itself."""
    for path in registry.files:
        if path.endswith(_COPIES):
            text = "CRI-O reads every file of the directory, this copy as well"
            yield Finding("ENGINE_CONFIG_OTHER", text, "move it to another directory", path=path)


def missing_default(registry: Registry) -> Iterator[Finding]:
    """A default runtime without a table."""
    if registry.default not in registry.runtimes:
        text = f"default_runtime is {registry.default}, which has no table [crio.runtime.runtimes.{registry.default}]"
        names = registry.near(registry.default)
        yield Finding("HANDLER_MISSING", f"{text}, so that CRI-O does not start; there are {names}")


def ignored(host: Host, registry: Registry, name: str) -> Iterator[Finding]:
    """RUNTIME_IGNORED, for keys of a runtime for which CRI-O drops it, or runs another program than that of shim.

    A WARNING of those that are neither shim's nor the default; without the default runtime CRI-O does not start.
    """
    default, ours = registry.runtimes.get(registry.default), registry.runtimes.get(name)
    if default and default is not ours:
        for cause in (*_dropped(host, default, default), *_misnamed(default)):
            text = f"{cause}; {default.name} is the default runtime, so CRI-O does not start"
            yield Finding("RUNTIME_IGNORED", text, _OF_DEFAULT, path=default.file, line=default.line)
    if ours:
        for cause in (*_replaced(ours), *_dropped(host, ours, default)):
            yield Finding("RUNTIME_IGNORED", cause, path=ours.file, line=ours.line)
    for runtime in registry.runtimes.values():
        if runtime is not default and runtime is not ours:
            for cause in (*_dropped(host, runtime, default), *_misnamed(_origin(runtime, default))):
                text = f"the runtime {runtime.name}: {cause}"
                finding = Finding("RUNTIME_IGNORED", text, _OF_OTHERS, path=runtime.file, line=runtime.line)
                yield finding.as_warning()


def _replaced(runtime: Runtime) -> Iterator[str]:
    """Keys with which another program is run than that at runtime_path."""
    if runtime.type == "vm":
        yield 'runtime_type = "vm" starts virtual machines; the shim is of type "oci"'
    if runtime.table.get("inherit_default_runtime"):
        yield "inherit_default_runtime replaces runtime_path by the default runtime's program"
    if runtime.table.get("platform_runtime_paths"):
        yield "platform_runtime_paths names other programs, which are run instead of runtime_path"


def _origin(runtime: Runtime, default: Runtime | None) -> Runtime:
    """The runtime whose program, type and configuration count: the default one where they are inherited."""
    return default if default and runtime.table.get("inherit_default_runtime") else runtime


def _misnamed(runtime: Runtime) -> Iterator[str]:
    """Why CRI-O drops a runtime for virtual machines by the name of its program."""
    program = (runtime.path or runtime.name).rpartition("/")[2]
    if runtime.type == "vm" and not _VM_PROGRAM.search(program):
        yield f'runtime_type = "vm" goes with a program called containerd-shim-NAME-v2, not {program}: CRI-O drops it'


def _dropped(host: Host, runtime: Runtime, default: Runtime | None) -> Iterator[str]:
    """Keys of which RuntimeHandler.Validate refuses the value: CRI-O drops the runtime, and goes on without it.

    Arguments:
        host: the machine.
        runtime: of CRI-O's configuration.
        default: the default runtime, whose type and configuration another one may inherit.
    """
    table = runtime.table
    origin = _origin(runtime, default)
    kind, config = origin.type or "oci", str(origin.table.get("runtime_config_path") or "")
    if kind not in {"oci", "pod", "vm"}:
        yield f'runtime_type = "{kind}" is unknown to CRI-O, which drops this runtime; that of runc and crun is "oci"'
    if config and kind != "vm":
        yield 'runtime_config_path goes with runtime_type = "vm" alone: CRI-O drops this runtime'
    elif config and not host.exists(config):
        yield f"runtime_config_path {config} is missing: CRI-O drops this runtime"
    if table.get("stream_websockets") and kind != "pod":
        yield 'stream_websockets goes with runtime_type = "pod" alone: CRI-O drops this runtime'
    if table.get("no_sync_log") and kind != "oci":
        yield 'no_sync_log goes with runtime_type = "oci" alone: CRI-O drops this runtime'
    affinity = table.get("exec_cpu_affinity")
    if affinity and affinity != "first":
        yield f'exec_cpu_affinity = "{affinity}" is unknown: "first" and none are, and CRI-O drops this runtime'
    profile = table.get("seccomp_profile")
    if isinstance(profile, str) and profile and not _is_json(host, profile):
        yield f"seccomp_profile {profile} is missing, or no JSON: CRI-O drops this runtime"
    for name in texts(table.get("allowed_annotations")):
        if name not in _ANNOTATIONS and not _OWN_ANNOTATION.fullmatch(name):
            of_cdi = "; annotations of the container need no permission there, and those of a Pod do not count"
            text = f"CRI-O drops a runtime whose allowed_annotations hold {name}, which it does not know"
            yield text + of_cdi * name.startswith("cdi.k8s.io")


def _is_json(host: Host, path: str) -> bool:
    try:
        json.loads(host.read(path) or b"")
    except (CdiError, ValueError, RecursionError):
        return False
    return True


def default_annotations(runtime: Runtime, prefixes: tuple[str, ...]) -> Iterator[Finding]:
    """Annotations that the table gives to Pods, and that ask for devices: they do not count.

    CRI-O adds them to those of the Pod, whose author can replace them (server/sandbox_run_linux.go). As annotations of
    the container itself it writes those of the kubelet alone.
    """
    given = runtime.table.get("default_annotations")
    for key in given if isinstance(given, dict) else ():
        if key.startswith(prefixes):
            text = (
                f"default_annotations of the runtime {runtime.name} holds {key}: CRI-O adds it to the annotations of "
                "the Pod, and those are no requests"
            )
            remedy = "take it out, and let a device plugin ask for the container"
            yield Finding("RUNTIME_ANNOTATIONS", text, remedy, path=runtime.file, line=runtime.line)


def missing_monitors(host: Host, registry: Registry) -> Iterator[Finding]:
    """Monitors that are configured and missing: CRI-O does not start. Each once, since ours is that of the default."""
    first: dict[str, Runtime] = {}
    for runtime in registry.runtimes.values():
        first.setdefault(str(runtime.table.get("monitor_path") or ""), runtime)
    for path, runtime in first.items():
        if path and not host.exists(path):
            conmon = host.find("conmon")
            remedy = f"set monitor_path to {conmon}, or install conmon there" if conmon else "install conmon there"
            text = f"monitor_path {path} is missing: CRI-O does not start"
            yield Finding(
                "RUNTIME_BINARY_MISSING", text, remedy, path=runtime.file, line=runtime.line, rule=STOPS_ENGINE
            )


def cdi_off(location: Location) -> Finding:
    """Why CRI-O gives no CDI devices by itself: it is too old."""
    version = ".".join(map(str, location.version))
    return Finding("CDI_OFF", f"CRI-O {version} has no CDI support; 1.24 is the first that has it")
