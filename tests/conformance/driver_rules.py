"""Named rules for the driver's files: each accepts a difference only when the files of the host bear it out."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shim.discover.nvidia.libraries import EXPLICIT
from shim.host import elf
from shim.host.tree import Tree

from . import wishes

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.base.findings import Finding

    from .effects import Effects

    # device, group, key, our value, their value
    Difference = tuple[str, str, str, Any, Any]

_MACHINE = "x86_64"  # of all vectors
_DIRECTORIES = "NVIDIA_CTK_LIBCUDA_DIR"
_CUSTOM_FIRMWARE = "/sys/module/firmware_class/parameters/path"
_SHARE = ("/usr/share/", "/usr/local/share/")


@dataclass(frozen=True)
class Scene:
    """What a difference is judged by.

    Attributes:
        host: the machine.
        root: the driver's root as it was given.
        features: that were asked for.
        environment: of the command.
        ours: device -> effects of what we write.
    """

    host: Tree
    root: str
    features: frozenset[str]
    environment: dict[str, str]
    ours: dict[str, Effects]

    def is_library(self, path: str) -> bool:
        """Whether a file of the machine is a library for it."""
        file = self.host.open(path)
        if file is None:
            return False
        with file:
            try:
                return elf.read(file).fits(_MACHINE)
            except elf.NotAnElfError:
                return False

    def soname(self, path: str) -> str:
        """DT_SONAME of a library of the machine."""
        file = self.host.open(path)
        if file is None:
            return ""
        with file:
            return elf.read(file).soname


def scene(given: dict[str, Any], host: Tree, ours: dict[str, Effects]) -> Scene:
    """The scene of a case."""
    environment = given.get("env") or {}
    try:
        wish, texts = wishes.wish_of(given["argv"], environment, host.host)
    except wishes.UsageError:
        return Scene(host, "/", frozenset(), environment, ours)
    return Scene(host, texts.get("--driver-root", wish.driver_root), wish.features, environment, ours)


def rule_of(scene: Scene, difference: Difference) -> str | None:
    """The id of the deviation that explains a difference; None when none does."""
    return next((id for id, explains in _RULES.items() if explains(scene, *difference)), None)


def _library_names(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A link that we make and they do not: DT_SONAME of a library, or a name that is a link on the host."""
    effects = scene.ours.get(device)
    if effects is None or group != "link" or wanted is not None or posixpath.dirname(key) not in effects["folder"]:
        return False
    target = mine
    while target in effects["link"] and target != effects["link"][target]:
        target = effects["link"][target]
    if target not in effects["mount"]:
        return False
    source = effects["mount"][target][0]
    if posixpath.basename(key) == scene.soname(source):
        return True
    return bool(Tree(scene.host.host, scene.root).resolve(key) == target)


def _no_library(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A file that they mount as a library and that is none."""
    is_named = group == "mount" and mine is None and ".so." in posixpath.basename(key)
    return is_named and not scene.is_library(wanted[0])


def _libcuda_directories(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """Directories in the variable that have neither libcuda nor libnvidia-ml."""
    if group != "env" or key != _DIRECTORIES or mine is None or wanted is None:
        return False
    mounts = scene.ours[device]["mount"]
    stems = ("libcuda.so.", "libnvidia-ml.so.")
    homes = {posixpath.dirname(path) for path in mounts if posixpath.basename(path).startswith(stems)}
    return set(mine.split(":")) == homes == set(wanted.split(":")) & homes


def _daemon_sockets(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A daemon's socket that they do not see: a directory, or one of the machine beside a driver's root."""
    if group != "mount" or wanted is not None:
        return False
    if key == "/tmp/nvidia-mps":
        return scene.host.is_directory(mine[0])
    return scene.host.is_socket(mine[0]) and scene.root != "/" and mine[0] == key


def _firmware(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A firmware file of the path that the kernel was given, or one that the kernel takes from elsewhere."""
    name = posixpath.basename(key)
    if group != "mount" or not name.startswith("gsp"):
        return False
    if mine is None:
        return any(posixpath.basename(path) == name for path in scene.ours[device]["mount"])
    custom = scene.host.text(_CUSTOM_FIRMWARE)
    return wanted is None and bool(custom) and mine[0].startswith(f"{custom.rstrip('/')}/")


def _explicit(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A library of the feature whose version has a single number."""
    stem, _, version = posixpath.basename(key).partition(".so.")
    is_wanted = "enable-explicit-driver-libraries" in scene.features and stem in EXPLICIT
    return group == "mount" and wanted is None and is_wanted and version.isdigit() and scene.is_library(mine[0])


def _data_directories(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """A file that they look up by a variable of the caller's environment."""
    given = [path.rstrip("/") + "/" for path in scene.environment.get("XDG_DATA_DIRS", "").split(":") if path]
    if group != "mount" or not given:
        return False
    is_theirs = wanted is None or wanted[0].startswith(tuple(given))
    return is_theirs and (mine is None or mine[0].startswith(_SHARE))


def _resolved_root(scene: Scene, device: str, group: str, key: str, mine: Any, wanted: Any) -> bool:
    """What they lose or name by the machine's path when the root is not written as the kernel would."""
    root = Tree(scene.host.host, posixpath.join("/", scene.root)).root
    if scene.root == root or device not in scene.ours:
        return False
    spellings = tuple(text.rstrip("/") for text in (scene.root, posixpath.normpath(scene.root), root) if text != "/")
    if mine is None:
        return key.startswith(spellings)
    if wanted is not None:
        texts = [posixpath.join("/", text) for text in (_path(mine), _path(wanted))]
        if group == "env":
            # cut off with a slash at the root's end, it becomes relative
            return any(wanted in {spelling + mine, mine.lstrip("/")} for spelling in spellings)
        return scene.host.resolve(texts[0]) == scene.host.resolve(texts[1]) is not None
    if group in {"mount", "node"}:
        return _path(mine) == root + key and scene.host.lstat(_path(mine)) is not None
    effects = scene.ours[device]
    if group == "link":
        return mine in effects["mount"] or mine in effects["link"]
    return group == "folder" and any(posixpath.dirname(path) == key for path in effects["mount"])


def _path(value: Any) -> str:
    return str(value if isinstance(value, str) else value[0])


def found_driver(scene: Scene, error: str) -> str | None:
    """The rule for a driver that they do not find: each of our devices has a libcuda that is a library of the host."""
    if "not found" not in error.lower().replace("_", " ") or not scene.ours:
        return None
    for effects in scene.ours.values():
        paths = [
            value[0] for key, value in effects["mount"].items() if posixpath.basename(key).startswith("libcuda.so.")
        ]
        if not any(scene.is_library(path) for path in paths):
            return None
    return "driver-directories"


def missing_driver(scene: Scene, errors: list[Finding]) -> str | None:
    """The rule for a driver that lacks libcuda of its version, which we report and they do not."""
    is_missing = all(error.id in {"DISCOVERY_INCOMPLETE", "DRIVER_MISMATCH"} for error in errors)
    about = any("libcuda.so." in error.text for error in errors)
    mounts = [path for effects in scene.ours.values() for path in effects["mount"]]
    has_cuda = any(posixpath.basename(path).startswith("libcuda.so.") for path in mounts)
    return "required-missing" if is_missing and about and len(errors) == 1 and not has_cuda else None


_RULES: dict[str, Callable[..., bool]] = {
    "library-names": _library_names,
    "no-library": _no_library,
    "libcuda-directories": _libcuda_directories,
    "daemon-sockets": _daemon_sockets,
    "firmware-path": _firmware,
    "explicit-libraries": _explicit,
    "data-directories": _data_directories,
    "resolved-root": _resolved_root,
}
