"""Placement of an image (packaging/image.py) below a prefix, and its removal.

`make install`, the Debian package and `shim node install` do it. What lies where:

    PREFIX/lib/shim/VERSION-N/    modules and dependencies of one installation, private, never changed afterwards
    PREFIX/lib/shim/launch        two lines: the interpreter, the modules; what the launcher reads
    PREFIX/bin/shim               the launcher; shim-runc and shim-crun are links to it
    PREFIX/share/…, PREFIX/lib/systemd/system/…, PREFIX/lib/udev/rules.d/…, SYSCONFDIR/logrotate.d/shim

Containers are created while this runs. So each installation gets a directory of its own, also when the version is the
same (N counts), is complete and on the disk before anything names it, and then `launch` and the launcher are renamed
into place: a create finds the old or the new one, and both work. `launch` comes first, so a launcher meets modules of
its own age or younger. The installation that was replaced stays until the next one, for processes that began in it,
and for a minute at least, should the next one follow at once.

What lies outside the private directory is recorded in its manifest.json; only that is ever replaced or removed. Nothing
depends on the umask. Standard library only: `make install` runs it under an interpreter that has nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shim.node.placed_files import identity, make_directories, own, prepare, rename, scratch_name, sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Note = Callable[[str], object]

GRACE = 60.0  # seconds that a replaced installation stays at least

LINKS = ("shim-runc", "shim-crun")
MANIFEST = "manifest.json"


class Interpreter(Protocol):
    """A Python that is placed in the private directory of an installation."""

    def program(self, modules: str) -> str:
        """Its path.

        Arguments:
            modules: the private directory, as the installed files see it.
        """

    def bring(self, fresh: Path, modules: str) -> None:
        """Write it.

        Arguments:
            fresh: the private directory before it gets its final name.
            modules: that name, as the installed files see it.
        """

    def check(self, modules: str) -> None:
        """Run it once, with the modules, before anything starts it. Raises Refusal where it does not run."""


class Refusal(Exception):  # noqa: N818 (nothing failed: it is refused)
    """It cannot be done, and nothing was changed.

    Arguments:
        text: the cause.
        remedy: what would help besides force, "" for nothing.
    """

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class Target:
    """Where an installation goes.

    Attributes:
        prefix: as the installed files will see it, absolute.
        stage: DESTDIR, put in front of every path that is written, "" for none.
        library: PREFIX/lib/shim below the stage.
        logrotate: path of the logrotate file, the only configuration file.
    """

    def __init__(self, prefix: str, stage: str = "", sysconfdir: str = "/etc") -> None:
        if not prefix.startswith("/") or not (stage + "/").startswith("/") or sysconfdir[:1] != "/":
            raise Refusal("PREFIX, DESTDIR and SYSCONFDIR must be absolute paths")
        if any(character in prefix for character in "\n\0"):
            raise Refusal("PREFIX cannot be a path with a line break: the file `launch` has one path a line")
        self.prefix = os.path.normpath(prefix)
        self.stage = stage.rstrip("/")
        self.library = self.real(f"{self.prefix}/lib/shim")
        self.logrotate = os.path.normpath(sysconfdir) + "/logrotate.d/shim"

    def real(self, path: str) -> Path:
        """The path to write, for a path that the installed files will see."""
        return Path(self.stage + path)

    def trees(self) -> dict[Path, dict[str, dict[str, str]]]:
        """The installations that are there, with their manifests."""
        manifests = {}
        for manifest in self.library.glob(f"*/{MANIFEST}"):
            manifests[manifest.parent] = json.loads(manifest.read_text(encoding="utf-8"))
        return manifests

    def current(self) -> Path | None:
        """The installation that `launch` names."""
        try:
            return self.real((self.library / "launch").read_text(encoding="utf-8").splitlines()[1])
        except (OSError, IndexError):
            return None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that keeps two installations apart; it goes with the process and leaves no file."""
        fd = os.open(self.library, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


# --- install --------------------------------------------------------------------------------------------------------


def install(
    image: Path,
    target: Target,
    interpreter: str | Interpreter,
    *,
    force: bool = False,
    note: Note = lambda _: None,
) -> Path:
    """Install an image.

    Arguments:
        image: what image.py made.
        target: where it goes.
        interpreter: the Python that the launcher is to start, a path without links; or what brings one along.
        force: also replace files that no earlier installation put there.
        note: called with a sentence about a file that stays as it is.
    Returns:
        the private directory of the installation.
    Raises:
        Refusal: a file of another origin is where one of the image belongs, or the interpreter does not run.
        OSError: a file cannot be written.
    """
    version = json.loads((image / "image.json").read_text(encoding="utf-8"))["version"]
    created = make_directories(target.library)
    try:
        return _install(image, target, interpreter, version, created, force=force, note=note)
    except Refusal:
        remove_empty(created)
        raise


def remove_empty(directories: Iterable[Path]) -> None:
    """Remove the directories that are empty, the deeper ones first."""
    for directory in sorted(directories, reverse=True):
        with contextlib.suppress(OSError):  # not empty, so somebody else uses it by now
            directory.rmdir()


def _install(
    image: Path,
    target: Target,
    interpreter: str | Interpreter,
    version: str,
    created: list[Path],
    *,
    force: bool,
    note: Note,
) -> Path:
    with target.locked():
        trees, before = target.trees(), target.current()
        recorded = {path for manifest in trees.values() for path in manifest["files"]}
        outside = files(image, target)
        for path in outside:
            real = target.real(path)
            if path != target.logrotate and os.path.lexists(real) and path not in recorded and not force:
                raise Refusal(f"{real} is there and was not put there by an installation", "move it away")
        for path in outside:
            created.extend(make_directories(target.real(path).parent))
        directories = {path: "" for manifest in trees.values() for path in manifest["directories"]}
        directories.update({str(path)[len(target.stage) :]: "" for path in created if not is_stage(path, target)})

        keep = keep_logrotate(target, trees)
        kinds = {path: kind for path, (kind, _, _) in outside.items() if path != keep}
        tree = make_tree(image, target, version, {"files": kinds, "directories": directories}, interpreter)
        modules = f"{target.prefix}/lib/shim/{tree.name}"
        program = interpreter if isinstance(interpreter, str) else interpreter.program(modules)
        if not isinstance(interpreter, str):
            try:
                interpreter.check(modules)
            except Refusal:
                shutil.rmtree(tree)
                raise
        launch = f"{program}\n{modules}\n"
        prepare(target.library / "launch", lambda fresh: fresh.write_text(launch, encoding="utf-8"), 0o644)
        for path in kinds:
            prepare(target.real(path), *outside[path][1:])
        sync({tree, *(target.real(path).parent for path in kinds)})

        for real in (target.library / "launch", *map(target.real, kinds)):
            rename(real)
        for path in recorded - set(kinds) - {target.logrotate}:  # an older version had them
            remove(target.real(path), {manifest["files"].get(path) for manifest in trees.values()}, note)
        if keep:
            note(f"{target.real(keep)} was changed here and stays as it is")
        retire(target, tree, before)
    return tree


def is_stage(path: Path, target: Target) -> bool:
    """Whether a directory is DESTDIR or above it: no part of what is installed."""
    return bool(target.stage) and (path == Path(target.stage) or path in Path(target.stage).parents)


def files(image: Path, target: Target) -> dict[str, tuple[str, Callable[[Path], object], int]]:
    """The files outside the private directory, the launcher first: path -> (identity, its writer, mode)."""
    contents: dict[str, tuple[str, Callable[[Path], object], int]] = {}

    def add(path: str, source: Path, mode: int = 0o644) -> None:
        contents[path] = (identity(source), lambda fresh: shutil.copyfile(source, fresh), mode)

    def add_text(path: str, text: str) -> None:
        written = f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"
        contents[path] = (written, lambda fresh: fresh.write_text(text, encoding="utf-8"), 0o644)

    add(f"{target.prefix}/bin/shim", image / "bin/shim", 0o755)
    for name in LINKS:
        contents[f"{target.prefix}/bin/{name}"] = ("link shim", lambda fresh: fresh.symlink_to("shim"), 0o777)
    for source in sorted((image / "share").rglob("*")):
        if source.is_file():
            path = f"{target.prefix}/{source.relative_to(image)}"
            if target.prefix == "/usr":  # where Debian's zsh looks; site-functions is the administrator's
                path = path.replace("/zsh/site-functions/", "/zsh/vendor-completions/")
            add(path, source)
    if os.geteuid() == 0 or target.stage:  # systemd, udev and logrotate are root's, and so is what they start
        for source in sorted((image / "lib").rglob("*")):
            if source.is_file():
                text = source.read_text(encoding="utf-8").replace("@bindir@", f"{target.prefix}/bin")
                add_text(f"{target.prefix}/{source.relative_to(image)}", text)
        add(target.logrotate, image / "etc/logrotate.d/shim")
    return contents


def make_tree(
    image: Path,
    target: Target,
    version: str,
    manifest: dict[str, dict[str, str]],
    interpreter: str | Interpreter = "",
) -> Path:
    """Make a fresh private directory of the modules, and of what is put outside of it.

    It appears complete or not at all; what an installation left that was cut off is removed.
    """
    for old in target.library.glob(".new-*"):
        shutil.rmtree(old)
    pattern = re.compile(re.escape(version) + r"-(\d+)")
    numbers = [int(match[1]) for path in target.library.iterdir() if (match := pattern.fullmatch(path.name))]
    name = f"{version}-{max(numbers, default=0) + 1}"
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.library))
    shutil.copytree(image / "modules", fresh, dirs_exist_ok=True, copy_function=shutil.copyfile)
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    (fresh / MANIFEST).write_text(text, encoding="utf-8")
    for directory, _, names in os.walk(fresh):
        own(Path(directory), 0o755)
        for file in names:
            own(Path(directory, file), 0o644)
    if not isinstance(interpreter, str):
        interpreter.bring(fresh, f"{target.prefix}/lib/shim/{name}")
    return fresh.rename(target.library / name)


def keep_logrotate(target: Target, trees: dict[Path, dict[str, dict[str, str]]]) -> str:
    """The path of the logrotate file if the administrator changed or wrote it: then it is not ours."""
    there = identity(target.real(target.logrotate))
    ours = {manifest["files"].get(target.logrotate) for manifest in trees.values()}
    return target.logrotate if there and there not in ours else ""


def retire(target: Target, tree: Path, before: Path | None) -> None:
    """Remove the installations that no process can use any more: all but the new, the previous and recent ones.

    The time of its manifest says since when an installation is out of use.
    """
    now = time.time()
    trees = target.trees()
    if before in trees and before != tree:
        os.utime(before / MANIFEST)
    for old in trees:
        if old not in {tree, before} and now - (old / MANIFEST).stat().st_mtime > GRACE:
            shutil.rmtree(old)


# --- uninstall ------------------------------------------------------------------------------------------------------


def uninstall(
    target: Target,
    *,
    force: bool = False,
    users: Callable[[Target], list[str]] = lambda _: [],
    note: Note = lambda _: None,
) -> None:
    """Remove what install put there; what was changed since or is not ours stays and is named.

    Arguments:
        target: where it is.
        force: also while it is needed.
        users: lists what needs it, a line each.
        note: called with a sentence about a file that stays.
    Raises:
        Refusal: there is no installation, or it is needed.
        OSError: a file cannot be removed.
    """
    if not target.trees():
        raise Refusal(f"nothing in {target.library} was put there by an installation")
    used = [] if force else users(target)
    if used:
        how = (
            "take it out of engines first (`shim runtime remove`), undo what wrote specs (`shim device setup --undo`), "
            "and let containers end"
        )
        raise Refusal("it is needed:\n  " + "\n  ".join(used), how)
    disable_units(target)
    with target.locked():
        trees = target.trees()
        for path in sorted({path for manifest in trees.values() for path in manifest["files"]}):
            remove(target.real(path), {manifest["files"].get(path) for manifest in trees.values()}, note)
        (target.library / "launch").unlink(missing_ok=True)
        for tree in (*trees, *target.library.glob(".new-*")):
            shutil.rmtree(tree)
        directories = {path for manifest in trees.values() for path in manifest["directories"]}
    remove_empty([target.library, *map(target.real, directories)])
    if target.library.is_dir() and any(target.library.iterdir()):
        note(f"{target.library} stays: it holds files that no installation put there")


def remove(path: Path, ours: set[str | None], note: Note = lambda _: None) -> None:
    """Remove a file if it is still what we put there."""
    scratch_name(path).unlink(missing_ok=True)
    there = identity(path)
    if there in ours:
        path.unlink()
    elif there:
        note(f"{path} was changed since it was installed and stays")


def disable_units(target: Target) -> None:
    """Disable the units of systemd that the administrator enabled: links to nothing would stay."""
    names = [path.name for path in target.real(f"{target.prefix}/lib/systemd/system").glob("shim-*")]
    links = [link for name in names for link in Path("/etc/systemd/system").glob(f"*.wants/{name}")]
    if target.stage or not links or not shutil.which("systemctl"):
        return
    now = ["--now"] if Path("/run/systemd/system").is_dir() else []
    subprocess.run(["systemctl", "disable", *now, *names], check=False, cwd="/")
