"""Folding: create does itself what hooks of a plan would do while the container starts. HOT, loaded late.

A hook costs a process in each start, and under crun it comes too late for a read-only root. The work is the same, done
by the same C (shim.hooks.core) on the same tree, some milliseconds earlier; only that nothing is mounted yet. So the
files that the plan mounts are read on the host, in the places where they will be, and where the work would reach below
any other mount of config.json it is left to the hook. The entry of a hook that was done is not put into config.json; of
an entry with several hooks the rest stays.

Left to the hook as well: a root that is empty or not there (virtual machines bring their own); a low-level runtime
other than runc and crun, which may do anything with a bundle; a cache behind an unfolded hook that may make libraries;
device-node modification, where the host's driver asks for it, as it covers a file of the container's /proc; and
whatever fails here for any reason, since the hook may be luckier and says itself what is wrong.

A root that cannot be written, though nothing but a read-only file system is in the way, gets its cache as a file of
the bundle, mounted over the one that is there.

Nothing that stands in config.json already is removed or done: its hooks belong to whoever put them there.
"""

from __future__ import annotations

import errno
import posix

from shim.base.paths import clean
from shim.cdi import edits
from shim.config.settings import KNOWN, OFF
from shim.hooks import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.plan import Plan
    from shim.create.invocation import Invocation
    from shim.create.question import Question
    from shim.create.world import World

    Json = dict[str, Any]

# In the order in which one process does them
_NAMES = (
    "create-symlinks",
    "enable-cuda-compat",
    "update-ldcache",
    "disable-device-node-modification",
    "update-application-profile",
)
_MAKES_NO_LIBRARIES = {"chmod", *_NAMES[2:]}
_STAGES = ("prestart", "createRuntime", "createContainer")  # as they run; later ones run in a container that is made
_VENDOR_PROGRAMS = ("nvidia-cdi-hook", "nvidia-ctk")
_RUNTIMES = ("runc", "crun")
_WITHOUT_LINKS = ("tmpfs", "devpts", "mqueue", "proc", "sysfs", "cgroup", "cgroup2")  # on the way to a mount point
_CACHE, _BESIDE = "/etc/ld.so.cache", "shim-ld.so.cache"
_S_IFMT, _S_IFDIR, _S_IFREG = 0o170000, 0o040000, 0o100000


# --- which hooks are known ------------------------------------------------------------------------------------------


def read(item: Json, launcher: str, world: World, which: str) -> core.HookCall | None:
    """What a hook asks for, if it is one that can be done here.

    Arguments:
        item: a hook of a plan or of config.json.
        launcher: path of our program. It goes by the first word of `args`, the vendor's programs by their path.
        world: answers what lies at a path.
        which: whose hooks, see Settings.fold.
    """
    path, args = item["path"], item.get("args") or [item["path"]]
    if which == OFF or not all(isinstance(word, str) for word in args):
        return None
    if world.is_same_file(path, launcher):
        call = core.read_hook(args)
    elif which == KNOWN and path.rpartition("/")[2] in _VENDOR_PROGRAMS:
        call = core.read_hook([path, *args[1:]])
    else:
        return None
    return call if call and call.is_plain else None


def is_foldable(item: Json, question: Question, world: World, which: str) -> bool:
    """Whether a hook of a plan is one whose work can be done here, as far as the hook itself says; see read()."""
    words = read(item, question.launcher, world, which) if item["hookName"] in _STAGES else None
    return words is not None and not set(_NAMES).isdisjoint(words.names.values())


def obstacle(config: Json, low: str) -> str:
    """What keeps every hook of a container from being done here, "" for nothing.

    Arguments:
        config: the config.json.
        low: path of the low-level runtime.
    """
    name = low.rpartition("/")[2]
    for letter in "-._":
        name = name.partition(letter)[0]
    if name not in _RUNTIMES:
        return f"{low} is neither runc nor crun"
    root = config.get("root")
    path = root.get("path") if isinstance(root, dict) else None
    return "" if path and isinstance(path, str) else "config.json names no root"


def without(edited: Json, config: Json, plan: Plan, launcher: str, world: World) -> Json:
    """The config without the plan's known hooks: for a checkpoint, whose container has been started long ago."""
    for stage, item in new(plan, config):
        if read(item, launcher, world, KNOWN):
            edited = _replaced(edited, config, stage, item, None)
    return edited


# --- the work -------------------------------------------------------------------------------------------------------


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
    hooks = [(stage, item, read(item, call.launcher, world, which)) for stage, item in new(plan, config)]
    if not any(words for _, _, words in hooks) or obstacle(edited, call.low):
        return edited, []
    try:
        container = Container(edited, plan, call, world, rootful)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # the runtime says what is wrong with a config
        return edited, []
    done: list[Json] = []
    result = edited
    for stage in _STAGES:
        for item in _hooks(config, stage):
            is_ours = any(words and _is_rest_of(item, one, words) for _, one, words in hooks)
            container.is_complete &= is_ours or _is_harmless(item, stage, call.launcher, world)
        for item, words in [(item, words) for stage_of, item, words in hooks if stage_of == stage]:
            if words is None:
                container.is_complete = False
                continue
            names = container.do(words)
            if names:
                result = _replaced(result, config, stage, item, _rest(item, words, names))
                done.append({"hookName": stage, "path": item["path"], "args": item.get("args"), "names": names})
    return container.with_cache(result), done


def _is_harmless(item: Json, stage: str, launcher: str, world: World) -> bool:
    """Whether a hook that config.json has leaves the container's libraries as they are.

    Those of an engine in the earlier stages set networks up.
    """
    words = read(item, launcher, world, KNOWN)
    if words is None:
        return stage != "createContainer"
    return _MAKES_NO_LIBRARIES.issuperset(words.names.values())


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

    def do(self, words: core.HookCall) -> list[str]:
        """Do what a hook asks for, as far as it is possible; the names of what was done."""
        asked, done = set(words.names.values()), []
        for name in [name for name in _NAMES if name in asked]:
            if name == "update-ldcache" and not self.is_complete:
                continue
            try:
                self._run(name, words)
                done.append(name)
            except (OSError, ValueError) as error:  # the hook will say it
                # where nothing can be written, a hook makes no libraries either
                is_hopeless = isinstance(error, OSError) and error.errno == errno.EROFS
                self.is_complete &= is_hopeless or name in _MAKES_NO_LIBRARIES
        self.is_complete &= _MAKES_NO_LIBRARIES.issuperset(asked.difference(_NAMES))
        return done

    def _run(self, name: str, words: core.HookCall) -> None:
        if name == "update-ldcache":
            try:
                self._call(name, words, self._sources, self._covers)
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise
                self._write_beside(words)
        elif name == "update-application-profile":
            nodes = [(path, path) for path in self._nodes if path.startswith("/dev/nvidia")]
            if nodes:
                self._call(name, words, nodes, self._covers)
        else:
            # whose files are mounted later can be neither replaced by a link nor chosen from
            self._call(name, words, [], [*self._covers, *self._files])

    def _call(
        self,
        name: str,
        words: core.HookCall,
        sources: list[tuple[str, str]],
        covers: list[tuple[str, str, bool]],
        elsewhere: int = 0,
    ) -> None:
        core.run_hook(
            name,
            self._root,
            folders=words.folders,
            links=words.links,
            sources=sources,
            covers=covers,
            compat=words.compat,
            driver=words.driver,
            cuda=words.cuda,
            owner=self._owner,
            elsewhere=elsewhere,
        )

    def _write_beside(self, words: core.HookCall) -> None:
        """Put the cache into the bundle. Raises OSError."""
        temporary = f"{self._beside}.{posix.getpid()}"
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
        fd = posix.open(temporary, flags, 0o600)
        try:
            try:
                self._call("update-ldcache", words, self._sources, self._covers, fd)
                posix.fchown(fd, *self._owner)
                posix.fchmod(fd, 0o644)
                self._set_label(fd)
            finally:
                posix.close(fd)
            posix.rename(temporary, self._beside)
        except OSError:
            posix.unlink(temporary)
            raise
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
        edits.put_mounts(result, [entry])
        return result


def _owner(config: Json, world: World, rootful: bool) -> tuple[int, int]:
    """Ids on the host of the container's root. Raises ValueError when it has none."""
    if rootful and not edits.has_user_namespace(config):
        return 0, 0
    from shim.create import userns  # late: few containers have one

    uid, gid = (userns.Ids(config, kind, world).container.outside(0) for kind in ("uid", "gid"))
    if uid is None or gid is None:
        raise ValueError("the container's root is nobody on the host")
    return uid, gid


def _is_bind(mount: Json) -> bool:
    options = mount.get("options") or ()
    return mount.get("type") == "bind" or "bind" in options or "rbind" in options


def _kind(path: str) -> int:
    try:
        return posix.stat(path).st_mode & _S_IFMT
    except (OSError, ValueError):
        return 0


# --- config.json ----------------------------------------------------------------------------------------------------


def _hooks(config: Json, stage: str) -> list[Json]:
    section = config.get("hooks")
    entries = section.get(stage) if isinstance(section, dict) else None
    return [entry for entry in entries or () if isinstance(entry, dict) and isinstance(entry.get("path"), str)]


def _is_same(one: Json, other: Json) -> bool:
    return bool(one["path"] == other["path"] and (one.get("args") or []) == (other.get("args") or []))


def new(plan: Plan, config: Json) -> list[tuple[str, Json]]:
    """The plan's hooks of stages before the container is made that config.json does not have, each once."""
    found: list[tuple[str, Json]] = []
    for origin in plan.origins:
        for item in origin["edits"].get("hooks") or ():
            stage = item["hookName"]
            there = [*_hooks(config, stage), *(one for stage_of, one in found if stage_of == stage)]
            if stage in _STAGES and not any(_is_same(one, item) for one in there):
                found.append((stage, item))
    return found


def _rest(item: Json, words: core.HookCall, done: list[str]) -> Json | None:
    """The hook with the names that are not done, None where all are."""
    places = {place for place, name in words.names.items() if name in done}
    if len(places) == len(words.names):
        return None
    return {**item, "args": [word for place, word in enumerate(item["args"]) if place not in places]}


def _is_rest_of(item: Json, whole: Json, words: core.HookCall) -> bool:
    """Whether a hook of config.json is what an earlier create left of a hook of the plan."""
    names = set(words.names.values())
    of_item, of_whole = ([word for word in one.get("args") or () if word not in names] for one in (item, whole))
    return bool(item["path"] == whole["path"] and of_item == of_whole)


def _replaced(edited: Json, config: Json, stage: str, item: Json, rest: Json | None) -> Json:
    """The config with `rest` in the place of a hook of the plan; what was made for the hook alone goes with it."""
    entries = []
    for entry in edited["hooks"][stage]:
        if not isinstance(entry, dict) or "path" not in entry or not _is_same(entry, item):
            entries.append(entry)
        elif rest and not any(_is_same(one, rest) for one in _hooks(config, stage)):
            entries.append(edits.hook(rest))
    hooks = {**edited["hooks"], stage: entries}
    if not entries and stage not in (config.get("hooks") or {}):
        del hooks[stage]
    if hooks or "hooks" in config:
        return {**edited, "hooks": hooks}
    return {member: value for member, value in edited.items() if member != "hooks"}
