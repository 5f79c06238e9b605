"""podman: a drop-in of containers.conf, and optionally a hook of its precreate stage.

What podman reads depends on its version and on who calls it (`_files`). A list in a later file replaces the list of an
earlier one; the attribute {append = true}, by which it would be added, exists since 4.8, and older programs that read
the same file (buildah, for one) refuse it. So our drop-in holds whole lists: what the other files say, and our name.

    runtime_supports_json      podman reads a runtime's error from its log in JSON; without it from standard error
    runtime_supports_nocgroup  --cgroups=disabled is allowed. containers.conf(5) spells it with an s at the end, which
                               has no effect
    runtime_supports_kvm       the same for SELinux's type of virtual machines

Runtimes are in these lists by name. Ours goes into those that hold the name of the runtime behind it: `runc` knows no
`--cgroup-manager disabled`, which podman gives to those of the second list.

Hooks: `hooks_dir` replaces podman's built-in list, /usr/share/containers/oci/hooks.d; /etc/containers/oci/hooks.d is
read only where it is named, with root and without (tried with 4.3 and 5.4, whose manuals say otherwise).

Source: containers.conf(5), podman(1), https://github.com/containers/common, pkg/config/{config,default,new}.go,
internal/attributedstring; https://github.com/containers/container-libs, storage/pkg/configfile (podman 6)
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.engines import launcher, oci_hooks, running, toml_layers
from shim.engines.contract import Engine
from shim.engines.model import Edit, Location, Put, Registry, Runtime
from shim.engines.podman import checks, programs
from shim.engines.texts import toml_edit
from shim.host.podman_programs import TAKES_NO_IMAGE_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.engines.model import Wanted
    from shim.engines.running import Container
    from shim.host.host import Host

_VENDOR, _ADMIN = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
_DROP_IN = "99-shim.conf"
_HOOK = "shim-precreate.json"
_HOOKS = ("/usr/share/containers/oci/hooks.d",)
_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_RUNTIMES = ("engine", "runtimes")
_MAPS = (_RUNTIMES,)
_SEARCHED = ("crun", "runc", "runj", "kata", "runsc", "ocijail")  # for the default runtime, in this order
_DIRECTORIES = (
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",
)
# First versions that …
_READS_DROP_INS = (3, 3)
_HAS_CDI = (4, 1)
_READS_OVERRIDE = (4, 5)
_APPENDS = (4, 8)
_READS_ROOTS_OWN = (5, 0)
_READS_SPEC_DIRS = (5, 5)
_READS_ONE_MAIN_FILE = (6, 0)
# The lists that hold names of runtimes, with what is in them when no file says anything
LISTS = {
    "runtime_supports_json": ("crun", "runc", "kata", "runsc", "youki", "krun"),
    "runtime_supports_nocgroup": ("crun", "krun"),
    "runtime_supports_kvm": ("kata", "kata-runtime", "kata-qemu", "kata-fc", "krun"),
}
_HEAD = "# podman's runtime that gives containers the CDI devices they ask for. Written by `shim runtime configure`.\n"


class Podman(Engine):
    """podman, by a drop-in or a hook."""

    name = "podman"
    program = "podman"
    has_hooks = True
    has_runtime_classes = False

    def locate(self, host: Host, config: str = "", drop_in: str = "") -> Location:
        """Find the containers.conf of who asks: the system's for root, else one's own.

        Arguments: as of `model.Engine.locate`; a main file elsewhere is one that CONTAINERS_CONF names for podman.
        Raises:
            CdiError: DROP_IN_UNUSED when podman would not read a drop-in that was named.
        """
        program = host.find("podman")
        version = host.version(program)
        own = _own(host) if host.user else _ADMIN
        main = config or host.environment.get("CONTAINERS_CONF") or own
        reads_drop_ins = main in {_VENDOR, _ADMIN, _own(host)} and (not version or version >= _READS_DROP_INS)
        directory = f"{own if main == _VENDOR else main}.d"
        if drop_in and not (reads_drop_ins and posixpath.dirname(drop_in) == directory and drop_in.endswith(".conf")):
            where = (
                f"{directory}, with a name that ends in .conf" if reads_drop_ins else f"no place: it reads {main} alone"
            )
            raise CdiError([Finding("DROP_IN_UNUSED", f"podman looks for drop-ins in {where}", path=drop_in)])
        drop_in = drop_in or (f"{directory}/{_DROP_IN}" if reads_drop_ins else "")
        return Location(self.name, main, drop_in, program, version, layout="rootless" if host.user else "")

    def read(self, host: Host, location: Location) -> Registry:
        """Read the configuration as podman does.

        Raises:
            CdiError: ENGINE_CONFIG_UNREADABLE, ENGINE_CONFIG_SYNTAX.
        """
        found = toml_layers.read(host, _files(host, location), _MAPS)
        document = toml_layers.merge(found, _MAPS)
        engine = _table(document, ("engine",))
        manager = engine.get("cgroup_manager")
        spec_dirs = (
            names(found, "cdi_spec_dirs", _SPEC_DIRS) if _is_at_least(location, _READS_SPEC_DIRS) else [*_SPEC_DIRS]
        )
        registry = Registry(
            runtimes=_runtimes(host, found, document, manager == "systemd" if manager else None),
            cdi=_is_at_least(location, _HAS_CDI) and bool(spec_dirs),
            spec_dirs=tuple(spec_dirs),
            document=document,
            files=[one.path for one in found],
        )
        written = engine["runtime"] if isinstance(engine.get("runtime"), str) else ""
        registry.default = written or next((name for name in _SEARCHED if name in registry.runtimes), "")
        default = registry.runtimes.get(registry.default)
        registry.low_level = host.find(default.path) if default else host.find(written) if written else ""
        appends = not location.version or location.version >= _APPENDS
        hooks = oci_hooks.read(host, names(found, "hooks_dir", _HOOKS))
        registry.hook = next((hook.path for hook in hooks if hook.is_ours), "")
        registry.findings = [*checks.mistyped(found, appends=appends), *checks.dead(found)]
        return registry

    def edits(self, host: Host, location: Location, registry: Registry, wanted: Wanted) -> list[Edit]:
        """The keys that register a runtime, in a drop-in or, where podman reads none, in the main file.

        The versions of the podman programs are recorded as well: they decide whether annotations count.
        """
        steps = [
            Put(("engine", key), value) for key, value in _lists(host, location, wanted.name, wanted.low_level).items()
        ]
        if wanted.default:
            steps.insert(0, Put(("engine", "runtime"), wanted.name))
        if wanted.cdi and not registry.spec_dirs:
            steps.append(Put(("engine", "cdi_spec_dirs"), [*_SPEC_DIRS]))
        steps.append(Put((*_RUNTIMES, wanted.name), [wanted.path]))
        return [Edit(location.drop_in or location.config, "toml", tuple(steps), head=_HEAD), *programs.record(host)]

    def faults(self, host: Host, location: Location, registry: Registry, name: str) -> Sequence[Finding]:
        """What is wrong with a runtime in this configuration: lists without it, files that do not count, hooks."""
        found = toml_layers.read(host, registry.files, _MAPS)
        hooks = oci_hooks.read(host, names(found, "hooks_dir", _HOOKS))
        is_there = name in registry.runtimes and registry.runtimes[name].file != ""
        result = [
            *checks.other_file(host, location, {_VENDOR, _ADMIN, _own(host)}),
            *checks.unused(host, location, registry, name),
            *checks.missing_default(host, registry),
            *oci_hooks.doubles(hooks, name if is_there else ""),
            *programs.faults(host, name if is_there else "", hooks),
        ]
        if is_there:
            wanted = _lists(host, location, name, launcher.becomes(host, registry.runtimes[name].path))
            result += checks.lost_names(found, {key: (wanted.get(key, []), names(found, key)) for key in LISTS}, name)
        if registry.cdi is False:
            result.append(checks.cdi_off(location, registry))
        return result

    def hook_edits(self, host: Host, location: Location, registry: Registry, wanted: Wanted) -> list[Edit]:
        """The precreate hook, which needs no other runtime; its directory in containers.conf if it is not there.

        Arguments: as of `model.Engine.edits`; of `wanted` the path alone counts.
        Raises:
            CdiError: PODMAN_HOOK under a podman that copies annotations of images.
        """
        programs.refuse_hook(host)
        directory = _hooks_directory(host)
        there = names(toml_layers.read(host, registry.files, _MAPS), "hooks_dir", _HOOKS)
        result = [Edit(f"{directory}/{_HOOK}", "text", head=oci_hooks.precreate(wanted.path)), *programs.record(host)]
        if directory not in there:
            key = Put(("engine", "hooks_dir"), [*there, directory])
            result.append(Edit(location.drop_in or location.config, "toml", (key,), head=_HEAD))
        return result

    def ways_to_ask(self, location: Location, registry: Registry, name: str) -> str:
        """How a container asks for devices: by annotation where this podman does not take annotations of images."""
        if location.version and location.version < TAKES_NO_IMAGE_ANNOTATIONS:
            return f"ask by `podman --runtime {name} --runtime-flag device=KIND=NAME run …`"
        runtime = f"--runtime {name} " * (name in registry.runtimes)
        return f"ask by `podman run {runtime}--annotation cdi.k8s.io/x=KIND=NAME …`"

    def pod_annotation(self, host: Host, registry: Registry, handler: str, key: str) -> str:
        """`podman kube play` is a client, which gives them to each container as its own."""
        return ""

    def containers(self, host: Host) -> list[Container]:
        """The containers whose conmon was started by podman."""
        return running.of_conmon(host, "libpod")


def names(found: Iterable[toml_layers.Layer], key: str, default: Sequence[str] | None = None) -> list[str]:
    """What a list of texts of [engine] comes to.

    Arguments:
        found: the files, in order.
        key: the list's name.
        default: its content when no file has it; of LISTS when not given.
    """
    items, appends = list(LISTS[key] if default is None else default), False
    for layer in found:
        value = _table(layer.document, ("engine",)).get(key)
        if isinstance(value, list):
            for one in value:
                appends = bool(one.get("append", appends)) if isinstance(one, dict) else appends
            items = [*(items if appends else []), *(one for one in value if isinstance(one, str))]
    return items


def _is_at_least(location: Location, version: tuple[int, int]) -> bool:
    """Whether podman is that new. One whose version is unknown reads as 4 and 5 do, and has what 4.1 has."""
    return location.version >= version if location.version else version <= _HAS_CDI


def _own(host: Host) -> str:
    """The containers.conf of who asks."""
    home = host.environment.get("HOME") or ("/root" if not host.user else "/")
    return posixpath.join(host.environment.get("XDG_CONFIG_HOME") or f"{home}/.config", "containers/containers.conf")


def _hooks_directory(host: Host) -> str:
    return f"{posixpath.dirname(_own(host))}/oci/hooks.d" if host.user else "/etc/containers/oci/hooks.d"


def _files(host: Host, location: Location, without: str = "") -> list[str]:
    """The files that podman decodes, in this order, whether they exist or not."""
    override = host.environment.get("CONTAINERS_CONF_OVERRIDE") if _is_at_least(location, _READS_OVERRIDE) else ""
    own = [_own(host)] if host.user or _is_at_least(location, _READS_ROOTS_OWN) else []
    mains = [_VENDOR, _ADMIN, *own]
    if location.config not in mains:
        found = [location.config]
    elif _is_at_least(location, _READS_ONE_MAIN_FILE):
        found = [*[path for path in mains if host.exists(path)][-1:], *_sorted_drop_ins(host, own)]
    else:
        found = [_VENDOR]
        for main in mains[1:]:
            found += [main, *host.glob(f"{main}.d/*.conf")]
    return [path for path in [*found, *([override] if override else [])] if path != without]


def _sorted_drop_ins(host: Host, own: list[str]) -> list[str]:
    """From podman 6 on: by file name, whatever the directory; of two with one name the later directory's counts."""
    kind = [f"rootless.conf.d/{host.user}", "rootless.conf.d"] if host.user else ["rootful.conf.d"]
    directories = []
    for main in (_VENDOR, _ADMIN):
        directories += [*(f"{main.removesuffix('conf')}{one}" for one in kind), f"{main}.d"]
    directories += [f"{main}.d" for main in own]
    chosen = {posixpath.basename(path): path for one in directories for path in host.glob(f"{one}/*.conf")}
    return [chosen[name] for name in sorted(chosen)]


def _table(document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    found = toml_edit.get(document, keys)
    return found if isinstance(found, dict) else {}


def _runtimes(
    host: Host, found: list[toml_layers.Layer], document: dict[str, Any], systemd: bool | None
) -> dict[str, Runtime]:
    """Those of the files, and those of the built-in ones that are installed."""
    built_in = {name: _built_in(host, name) for name in _SEARCHED}
    runtimes = {name: Runtime(name, path, systemd_cgroup=systemd) for name, path in built_in.items() if path}
    for name, paths in _table(document, _RUNTIMES).items():
        if isinstance(paths, list):
            # the first that exists, else the name in PATH
            candidates = [str(path) for path in paths]
            path = next(filter(host.exists, candidates), "") or host.find(name) or next(iter(candidates), "")
            layer = toml_layers.last(found, (*_RUNTIMES, name))
            file, line = (layer.path, layer.line((*_RUNTIMES, name))) if layer else ("", 0)
            runtimes[name] = Runtime(name, path, "", systemd, {"paths": candidates}, file, line)
    return runtimes


def _built_in(host: Host, name: str) -> str:
    """The program of a runtime that podman knows without any file, "" when it is missing."""
    return host.find(*(f"{directory}/{name}" for directory in _DIRECTORIES), name)


def _lists(host: Host, location: Location, name: str, low_level: str) -> dict[str, list[str]]:
    """The lists in which a runtime should be, with all that the other files have put there.

    Arguments:
        name: the runtime.
        low_level: what is behind it; where that is not known, podman's default runtime.
    """
    without_us = toml_layers.read(host, _files(host, location, without=location.drop_in), _MAPS)
    default = _table(toml_layers.merge(without_us, _MAPS), ("engine",)).get("runtime")
    if default == name or not default:
        default = next((one for one in _SEARCHED if _built_in(host, one)), _SEARCHED[0])
    behind = posixpath.basename(low_level or str(default))
    result = {}
    for key in LISTS:
        there = [one for one in names(without_us, key) if one != name]
        if behind in there:
            result[key] = [*there, name]
    return result


ENGINE = Podman()
