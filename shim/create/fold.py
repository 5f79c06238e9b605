"""Folding: create does itself what hooks of a plan would do while the container starts. HOT, late.

A hook costs a process in each start, and under crun it comes too late for a read-only root. The work is the same, done
by the same C (shim.hooks.core) on the same tree, some milliseconds earlier; only that nothing is mounted yet. So the
files that the plan mounts are read on the host, in the places where they will be, and where the work would reach below
any other mount of config.json it is left to the hook. The hooks of one entry are done in the order in which one process
runs them.

Left to the hook as well: a root that is empty or not there (virtual machines bring their own); a low-level runtime
other than runc and crun, which may do anything with a bundle; a cache behind an unfolded hook that may make libraries;
device-node modification, where the host's driver asks for it, as it covers a file of the container's /proc; and
whatever fails here for any reason: the hook still runs, and reports the error itself.

A root that cannot be written, though nothing but a read-only file system is in the way, gets its cache as a file of
the bundle, mounted over the one that is there.
"""

from __future__ import annotations

import errno
import posix

from shim.base.paths import clean
from shim.base.replace import put
from shim.cdi import edits
from shim.config.settings import KNOWN
from shim.create import known_hooks, mounts
from shim.create.hook_entries import is_rest_of, replaced, rest
from shim.hooks import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.plan import Plan
    from shim.create.invocation import Invocation
    from shim.create.world import World

    Json = dict[str, Any]

_CACHE, _BESIDE = "/etc/ld.so.cache", "shim-ld.so.cache"
_WITHOUT_LINKS = ("tmpfs", "devpts", "mqueue", "proc", "sysfs", "cgroup", "cgroup2")  # on the way to a mount point
_S_IFMT, _S_IFDIR, _S_IFREG = 0o170000, 0o040000, 0o100000


def fold(
    edited: Json, config: Json, plan: Plan, call: Invocation, world: World, which: str, *, rootful: bool
) -> tuple[Json, list[Json]]:
    """Do the hooks of a plan that can be done now.

    Arguments:
        edited: the config with the plan; not changed.
        config: the config without it.
        plan: what was injected.
        call: the create.
        world: answers what lies at a path.
        which: whose hooks, see Settings.fold.
        rootful: whether we are the host's root (shim.host.identity).
    Returns:
        the config for the low-level runtime, and for each hook that was done hookName, path, args and the names done.
    """
    new = [
        (stage, item, known_hooks.read(item, call.launcher, world, which))
        for stage, item in known_hooks.new(plan, config)
    ]
    if not any(words for _, _, words in new) or known_hooks.obstacle(edited, call.low):
        return edited, []
    try:
        container = Container(edited, plan, call, world, rootful)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # the runtime reports what is wrong with a config
        return edited, []
    done: list[Json] = []
    result = edited
    for stage in known_hooks.STAGES:
        for entry in known_hooks.entries(config, stage):
            is_ours = any(words and is_rest_of(entry, item, words) for _, item, words in new)
            container.is_complete &= is_ours or _is_harmless(entry, stage, call.launcher, world)
        for item, words in [(item, words) for stage_of, item, words in new if stage_of == stage]:
            if words is None:
                container.is_complete = False
                continue
            names = container.do(words)
            if names:
                result = replaced(result, config, stage, item, rest(item, words, names))
                done.append({"hookName": stage, "path": item["path"], "args": item.get("args"), "names": names})
    return container.with_cache(result), done


def _is_harmless(entry: Json, stage: str, launcher: str, world: World) -> bool:
    """Whether a hook that config.json has leaves the container's libraries as they are.

    Those of an engine in the earlier stages set networks up.
    """
    words = known_hooks.read(entry, launcher, world, KNOWN)
    if words is None:
        return stage != "createContainer"
    return known_hooks.make_no_libraries(words.names.values())


class Container:
    """A container that is about to be made, and the hooks' work on its root.

    Attributes:
        is_complete: nothing that may make libraries was left to a hook, so that a cache can be made.
    """

    __slots__ = (
        "_beside",
        "_bundle",
        "_covers",
        "_files",
        "_is_beside",
        "_label",
        "_nodes",
        "_owner",
        "_root",
        "_sources",
        "is_complete",
    )

    def __init__(self, config: Json, plan: Plan, call: Invocation, world: World, rootful: bool) -> None:
        """Find the root, its owner, and what will be mounted.

        Raises:
            ValueError: the container's root has no id on the host. KeyError and the like: the config is none.
        """
        self.is_complete = True
        bundle = call.bundle if call.bundle.startswith("/") else f"{posix.getcwd()}/{call.bundle}"
        path = config["root"]["path"]
        self._root = path if path.startswith("/") else f"{bundle}/{path}"
        self._owner = _owner(config, world, rootful)
        self._bundle, self._beside, self._is_beside = bundle, f"{bundle}/{_BESIDE}", False
        linux = config.get("linux") or {}
        self._label = linux.get("mountLabel") or ""
        self._nodes = [str(node.get("path")) for node in linux.get("devices") or ()]
        self._sources: list[tuple[str, str]] = []
        self._covers: list[tuple[str, str, bool]] = []
        self._files: list[tuple[str, str, bool]] = []
        mine = {
            (clean(mount["containerPath"]), mount["hostPath"])
            for origin in plan.origins
            for mount in origin["edits"].get("mounts") or ()
        }
        for mount in config.get("mounts") or ():
            self._take_mount(mount, mine)

    def _take_mount(self, mount: Json, mine: set[tuple[str, str]]) -> None:
        path, source = clean("/" + mount["destination"]), mount.get("source") or ""
        if source == self._beside:
            return
        if path.startswith("/dev/"):
            self._nodes.append(path)
        kind = _kind(source) if (path, source) in mine and _is_bind(mount) else 0
        name = path.rpartition("/")[2]
        if kind == _S_IFREG and ".so" in name and not path.startswith("/etc/"):
            self._sources.append((path, source))
            self._files.append((path, source, False))
            return
        is_lent = kind == _S_IFDIR and "/glibc-hwcaps/" not in f"{path}/"
        if is_lent:
            self._sources.append((path, source))
        self._covers.append((path, self._contents(mount, source), is_lent))

    def _contents(self, mount: Json, source: str) -> str:
        """What is mounted: a path on this host, "" for a file system that has no links when it is mounted."""
        is_copied = "tmpcopyup" in (mount.get("options") or ())  # runc fills a tmpfs with what the image has there
        if mount.get("type") in _WITHOUT_LINKS and not _is_bind(mount) and not is_copied:
            return ""
        return source if source.startswith("/") else f"{self._bundle}/{source}"

    def do(self, call: core.HookCall) -> list[str]:
        """Do what a hook asks for, as far as it is possible; the names of what was done."""
        done: list[str] = []
        hooks = known_hooks.early(call)
        for hook in hooks:
            if hook.before == core.LIBRARIES and not self.is_complete:
                continue
            try:
                self._run(hook, call)
                done.append(hook.name)
            except OSError as error:  # the hook will run, and report it
                # where nothing can be written, a hook makes no libraries either
                self.is_complete &= error.errno == errno.EROFS or not hook.makes_libraries
        others = set(call.names.values()).difference(hook.name for hook in hooks)
        self.is_complete &= known_hooks.make_no_libraries(others)
        return done

    def _run(self, hook: core.Hook, call: core.HookCall) -> None:
        """Do the work of one hook. Raises OSError."""
        if hook.before == core.LIBRARIES:
            try:
                call.run(hook.name, self._root, sources=self._sources, covers=self._covers, owner=self._owner)
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise
                self._write_beside(hook, call)
        elif hook.before == core.NODES:
            nodes = [(path, path) for path in self._nodes]
            if nodes:
                call.run(hook.name, self._root, sources=nodes, covers=self._covers, owner=self._owner)
        else:
            # files that are mounted later can be neither replaced by a link nor chosen from
            call.run(hook.name, self._root, covers=[*self._covers, *self._files], owner=self._owner)

    def _write_beside(self, hook: core.Hook, call: core.HookCall) -> None:
        """Put the cache into the bundle. Raises OSError."""

        def fill(fd: int) -> None:
            lent, covers = self._sources, self._covers
            call.run(hook.name, self._root, sources=lent, covers=covers, owner=self._owner, elsewhere=fd)
            posix.fchown(fd, *self._owner)
            self._set_label(fd)

        put(self._beside, fill, mode=0o644)
        self._is_beside = True

    def _set_label(self, fd: int) -> None:
        """Give the cache the label of the container's mounts, where the host has labels."""
        if not self._label:
            return
        try:
            posix.setxattr(fd, "security.selinux", self._label.encode() + b"\0")
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise

    def with_cache(self, config: Json) -> Json:
        """The config in which the container sees the cache that lies in the bundle; the given one where none does."""
        if not self._is_beside:
            return config
        result = dict(config)
        options = ["bind", "ro", "nosuid", "nodev", "noexec", "rprivate"]
        entry = {"destination": _CACHE, "source": self._beside, "type": "bind", "options": options}
        result["mounts"] = mounts.placed(edits.without_first(result, "mounts", "destination", [entry]), [entry])
        return result


def _owner(config: Json, world: World, rootful: bool) -> tuple[int, int]:
    """Ids on the host of the container's root. Raises ValueError when it has none."""
    if rootful and not edits.has_user_namespace(config):
        return 0, 0
    from shim.create import userns  # late: few containers have one

    uid, gid = (userns.Ids(config, kind, world).container.outside(0) for kind in ("uid", "gid"))
    if uid is None or gid is None:
        raise ValueError("the container's root has no id on the host")
    return uid, gid


def _is_bind(mount: Json) -> bool:
    options = mount.get("options") or ()
    return mount.get("type") == "bind" or "bind" in options or "rbind" in options


def _kind(path: str) -> int:
    try:
        return posix.stat(path).st_mode & _S_IFMT
    except (OSError, ValueError):
        return 0
