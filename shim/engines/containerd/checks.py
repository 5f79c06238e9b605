"""Faults in containerd's configuration: sections that are not read, values of a wrong type, lost runtimes.

containerd passes over a section that it does not know without an error, or with a line in its log. So people paste a
table of another version, and it has no effect.

Sources: containerd, RELEASES.md (daemon configuration), docs/cri/config.md, docs/PLUGINS.md; CONFIG_DEAD_SECTION and
RUNTIME_LOST were measured with `containerd config dump`.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines.containerd import config_files, distributions
from shim.engines.model import STOPS_ENGINE
from shim.engines.texts import toml_edit
from shim.engines.texts.toml_scan import statements
from shim.engines.texts.values import table_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.containerd.config_files import File, Merged
    from shim.engines.model import Location, Registry, Runtime
    from shim.engines.texts.values import Keys, Table, Value
    from shim.host.host import Host

# Plugins by their names of version 1
_OF_VERSION_1 = {
    "cri": "io.containerd.grpc.v1.cri",
    "linux": "io.containerd.runtime.v1.linux",
    "opt": "io.containerd.internal.v1.opt",
    "restart": "io.containerd.internal.v1.restart",
    "tracing": "io.containerd.internal.v1.tracing",
    "scheduler": "io.containerd.gc.v1.scheduler",
    "bolt": "io.containerd.metadata.v1.bolt",
    "cgroups": "io.containerd.monitor.v1.cgroups",
    "task": "io.containerd.runtime.v2.task",
    "btrfs": "io.containerd.snapshotter.v1.btrfs",
    "devmapper": "io.containerd.snapshotter.v1.devmapper",
    "native": "io.containerd.snapshotter.v1.native",
    "overlayfs": "io.containerd.snapshotter.v1.overlayfs",
    "zfs": "io.containerd.snapshotter.v1.zfs",
    "diff-service": "io.containerd.service.v1.diff-service",
    "tasks-service": "io.containerd.service.v1.tasks-service",
}
# The keys of io.containerd.grpc.v1.cri in version 3, and those that moved to the plugin for images
_SERVER = {"disable_tcp_service", "stream_server_address", "stream_server_port", "stream_idle_timeout"}
_SERVER |= {"enable_tls_streaming", "x509_key_pair_streaming"}
_OF_IMAGES = {"registry", "image_decryption", "max_concurrent_downloads", "image_pull_progress_timeout"}
_CRI = (*config_files.CRI.values(), config_files.IMAGES)

_TYPES: dict[str, type] = {
    **dict.fromkeys(("SystemdCgroup", "NoPivotRoot", "NoNewKeyring", "enable_cdi", "enable_selinux"), bool),
    **dict.fromkeys(("privileged_without_host_devices", "systemd_cgroup", "cgroup_writable"), bool),
    **dict.fromkeys(("container_annotations", "pod_annotations", "cdi_spec_dirs"), list),
    **dict.fromkeys(("runtime_type", "default_runtime_name", "BinaryName", "snapshotter"), str),
}
# An unquoted name with dots in a header, as people paste it: [plugins.io.containerd.grpc.v1.cri.containerd]
_UNQUOTED = re.compile(r"\bio\.containerd\.[a-z0-9]+\.v\d+(\.[a-z0-9-]+)?")
_NAMES = {bool: "true or false, without quotes", list: "a list of texts, in brackets", str: "a text, in quotes"}
_RUNTIMES = ("containerd", "runtimes")


def unread(location: Location, merged: Merged) -> Iterator[Finding]:
    """Files of a version that this containerd does not take: ENGINE_CONFIG_VERSION."""
    containerd = f"containerd {'.'.join(map(str, location.version[:2]))}"
    for file in merged.files:
        line = toml_edit.line_of(file.text, ("version",))
        known = 2 if location.version < (2,) else 3 if location.version < (2, 3) else config_files.LATEST
        if location.version and file.version > known:
            text = f"it states version {file.version}, which {containerd} does not know; {known} is its latest"
            remedy = f"write it in version {known}; `containerd config default` shows how"
            yield Finding("ENGINE_CONFIG_VERSION", text, remedy, path=file.path, line=line)
        elif (2,) <= location.version < (2, 3) and file.version == 1:
            text = f"it states version 1, of which {containerd} drops all tables about runtimes"
            remedy = "`containerd config migrate` prints it in version 3"
            yield Finding("ENGINE_CONFIG_VERSION", text, remedy, path=file.path, line=line)


def disabled(merged: Merged) -> Iterator[Finding]:
    """CRI_DISABLED, for each file that switches the CRI plugin off."""
    for file in merged.files:
        listed = file.document.get("disabled_plugins")
        for name in [plugin for plugin in _CRI if isinstance(listed, list) and plugin in listed]:
            text = f'disabled_plugins holds "{name}": no runtime is read, and Kubernetes gets no answer'
            line = toml_edit.line_of(file.text, ("disabled_plugins",))
            remedy = f'take "{name}" out of disabled_plugins, then restart containerd'
            yield Finding("CRI_DISABLED", text, remedy, path=file.path, line=line)


def other(host: Host, location: Location) -> Iterator[Finding]:
    """A file that the running containerd does not read."""
    files = {daemon.pid: distributions.config_of(daemon) for daemon in distributions.daemons(host)}
    if files and not location.layout and location.config not in files.values():
        pid, file = next(iter(files.items()))
        text = f"containerd (process {pid}) reads {file}, not this file"
        yield Finding("ENGINE_CONFIG_OTHER", text, path=location.config)


def unquoted(file: File) -> Iterator[Finding]:
    """A header in which the name of a plugin lacks its quotes, so that each dot opens a table."""
    for statement in statements(file.text):
        header = file.text[statement.value : statement.stop]
        name = _UNQUOTED.search(header) if statement.is_header else None
        if name and '"' not in header and "'" not in header:
            quoted = header.replace(name[0], f'"{name[0]}"', 1)
            line = file.text.count("\n", 0, statement.value) + 1
            text = f"{header} opens a table at each dot, and containerd reads none of them; it should be {quoted}"
            yield Finding("CONFIG_HEADER_UNQUOTED", text, path=file.path, line=line)
            return


def dead(file: File, merged: Merged, location: Location) -> Iterator[Finding]:
    """Tables of plugins under a name that this version of the file does not have."""
    own = file.version if location.version >= (2, 3) else merged.version
    for name in table_at(file.document, ("plugins",)):
        for key, right in _right_names(file, name, own, merged.modern):
            keys = ("plugins", name, key) if key else ("plugins", name)
            line = toml_edit.line_of(file.text, keys)
            rule = ""
            text = f"[{_header(*keys)}] has no effect: in version {max(own, 1)} of the file it is [{_header(*right)}]"
            if not file.version and own < 2:
                text += "; a file that states no version is of version 1"
            elif name in _OF_VERSION_1 and not merged.modern:
                text, rule = f"{text}; containerd 1.x does not start with it", STOPS_ENGINE
            yield Finding("CONFIG_DEAD_SECTION", text, path=file.path, line=line, rule=rule)


def _right_names(file: File, name: str, version: int, modern: bool) -> Iterator[tuple[str, Keys]]:
    """For a plugin's table that is not read, the key in it ("" for all of it) and the keys of the right table."""
    short = {long: short for short, long in _OF_VERSION_1.items()}
    if version < 2:
        if not modern and (name in short or name.startswith("io.containerd.cri.v1.")):
            yield "", ("plugins", short.get(name, "cri"))
    elif name in _OF_VERSION_1:
        yield "", ("plugins", config_files.cri(version) if name == "cri" else _OF_VERSION_1[name])
    elif version == 2 and name.startswith("io.containerd.cri.v1.") and not modern:
        yield "", ("plugins", config_files.CRI[2])
    elif version > 2 and name == config_files.CRI[2]:
        for key in table_at(file.document, ("plugins", name)):
            if key not in _SERVER:
                yield key, _of_version_3(key)


def _of_version_3(key: str) -> Keys:
    if key == "sandbox_image":
        return "plugins", config_files.IMAGES, "pinned_images"
    return "plugins", config_files.IMAGES if key in _OF_IMAGES else config_files.CRI[3], key


def types(file: File, merged: Merged) -> Iterator[Finding]:
    """Values of a type that containerd does not take."""
    for key in ("imports", "disabled_plugins", "required_plugins"):
        yield from _type(file, (key,), file.document.get(key), list)
    for name in config_files.CRI.values() if merged.modern else (merged.cri,):
        for keys, value in _leaves(("plugins", name), file.plugin(name)):
            if keys[-1] in _TYPES:
                yield from _type(file, keys, value, _TYPES[keys[-1]])


def _type(file: File, keys: Keys, value: Value, expected: type) -> Iterator[Finding]:
    is_mixed = isinstance(value, list) and any(not isinstance(item, str) for item in value)
    if value is not None and (type(value) is not expected or is_mixed):
        text = f"{keys[-1]} is {_shown(value)}; it must be {_NAMES[expected]}"
        rule = "" if "options" in keys else STOPS_ENGINE  # options are decoded for the containers of that runtime only
        yield Finding("CONFIG_TYPE", text, path=file.path, line=toml_edit.line_of(file.text, keys), rule=rule)


def _leaves(keys: Keys, table: Table) -> Iterator[tuple[Keys, Value]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves((*keys, key), value)
        else:
            yield (*keys, key), value


def without_type(runtime: Runtime) -> Iterator[Finding]:
    """A runtime that containerd cannot start."""
    if runtime.file and not runtime.type:
        text = f"the runtime {runtime.name} has no runtime_type, so that no container can be started with it"
        yield Finding("RUNTIME_TYPE_MISSING", text, path=runtime.file, line=runtime.line)


def unused(host: Host, location: Location, merged: Merged) -> Iterator[Finding]:
    """Files that look like drop-ins, register a runtime, and are not read, unless a missing import is the cause."""
    if merged.findings:
        return
    here = posixpath.dirname(location.config)
    patterns = [f"{here}/conf.d/*.toml", f"{here}/config.d/*.toml", f"{here}/{distributions.DROP_IN}"]
    if location.drop_in and not distributions.is_template(location):
        patterns.append(f"{posixpath.dirname(location.drop_in)}/*.toml")
    read = {file.path for file in merged.files}
    for path in sorted({path for pattern in patterns for path in host.glob(pattern)} - read):
        try:
            file = config_files.file_at(host, path)
        except CdiError:
            continue  # a file that is not read may be broken
        plugins = [file.plugin(name) for name in config_files.CRI.values()] if file else []
        names = sorted({name for plugin in plugins for name in table_at(plugin, _RUNTIMES)})
        if names:
            text = f"no file that containerd reads imports it, so that its runtimes are not there: {', '.join(names)}"
            remedy = "let the main file import it, or run `shim runtime configure` again"
            yield Finding("DROP_IN_UNUSED", text, remedy, path=path)


def lost(merged: Merged, registry: Registry) -> Iterator[Finding]:
    """Runtimes that containerd 1.x does not see, since a later file has the CRI section as well."""
    holders = [file for file in merged.files if merged.cri in table_at(file.document, ("plugins",))]
    for file in holders[:-1]:
        names = sorted(table_at(file.plugin(merged.cri), _RUNTIMES).keys() - registry.runtimes.keys())
        if names:
            text = (
                f"its runtimes are not there: {', '.join(names)}. containerd 1.x takes the whole CRI section from "
                f"{holders[-1].path}, which is read after it"
            )
            line = toml_edit.line_of(file.text, ("plugins", merged.cri, *_RUNTIMES, names[0]))
            remedy = f"move all CRI settings into {holders[-1].path}, or all into this file"
            yield Finding("RUNTIME_LOST", text, remedy, path=file.path, line=line)


def cgroups(registry: Registry, runtime: Runtime) -> Iterator[Finding]:
    """A runtime of ours that uses other cgroups than the default runtime."""
    other = registry.runtimes.get(registry.default)
    if other and other.name != runtime.name and bool(runtime.systemd_cgroup) != bool(other.systemd_cgroup):
        text = (
            f"SystemdCgroup of the runtime {runtime.name} is {_shown(bool(runtime.systemd_cgroup))}, and that of the "
            f"default runtime {other.name} is {_shown(bool(other.systemd_cgroup))}"
        )
        yield Finding("RUNTIME_CGROUPS", text, path=runtime.file, line=runtime.line)


def cdi(location: Location, merged: Merged, registry: Registry) -> Iterator[Finding]:
    """CDI support of containerd itself, where it is off or has no effect."""
    if registry.cdi is not False:
        return
    if location.version and location.version < (1, 7):
        text = f"containerd {'.'.join(map(str, location.version))} has no CDI support of its own"
        remedy = "the runtime shim does not need it; containerd 1.7 is the first that has it"
        if table_at(merged.document, ("plugins", merged.cri)).get("enable_cdi"):
            yield Finding("CDI_UNSUPPORTED", f"enable_cdi has no effect: {text}", remedy, path=location.config)
            return
    else:
        section = f"[{_header('plugins', merged.ours)}]"
        fate = "starts without them" if () < location.version < (2, 3) else "is refused (since containerd 2.3)"
        text = (
            f"containerd's own CDI support is off: enable_cdi is not true in {section}. A container for which the "
            f"kubelet asks by CDI devices, and not by annotations, {fate}"
        )
        remedy = "`shim runtime configure --enable-cdi` sets it; requests by annotation do not need it"
    yield Finding("CDI_OFF", text, remedy, path=location.config)


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'the text "{value}"' if isinstance(value, str) else f"the value {value}"


def _header(*keys: str) -> str:
    return ".".join(f'"{key}"' if "." in key else key for key in keys)
