"""Install an image (image.py), and remove it again: `make install` and `make uninstall`.

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
depends on the umask. Standard library only: it runs under the interpreter that the launcher will start.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE = 60.0  # seconds that a replaced installation stays at least

LINKS = ("shim-runc", "shim-crun")
MANIFEST = "manifest.json"


def fail(text: str) -> NoReturn:
    """End with a message."""
    sys.exit(f"shim: {text}")


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
            fail("PREFIX, DESTDIR and SYSCONFDIR must be absolute paths")
        if any(character in prefix for character in "\n\0"):
            fail("PREFIX cannot be a path with a line break: the file `launch` has one path a line")
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


# --- single files ---------------------------------------------------------------------------------------------------


def own(path: Path, mode: int) -> None:
    """Set a path's mode, and root as owner if we are root, whatever umask or a set-group-id directory changed."""
    if os.geteuid() == 0:
        os.chown(path, 0, 0, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(mode)


def make_directories(path: Path) -> list[Path]:
    """Create a directory and its missing parents; returns the new directories."""
    missing = [parent for parent in (path, *path.parents) if not parent.is_dir()][::-1]
    for directory in missing:
        directory.mkdir()
        own(directory, 0o755)
    return missing


def scratch_name(path: Path) -> Path:
    """The name of a file before it is renamed to its final name."""
    return path.with_name(f".{path.name}.new")


def prepare(path: Path, make: Callable[[Path], object], mode: int) -> None:
    """Make a file or link under its scratch name; what an installation left there that was cut off is overwritten."""
    fresh = scratch_name(path)
    fresh.unlink(missing_ok=True)
    make(fresh)
    own(fresh, mode)


def rename(path: Path) -> None:
    """Rename a prepared file to its final name."""
    scratch_name(path).rename(path)


def identity(path: Path) -> str:
    """The content of a path: the target of a link, the hash of a file, "" if it is missing."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" if path.is_file() else ""


def sync(directories: set[Path]) -> None:
    """Write out the file systems of directories: a loss of power must not leave a name without its contents."""
    chosen = {directory.stat().st_dev: str(directory) for directory in directories}
    subprocess.run(["sync", "--file-system", *chosen.values()], check=True)


# --- install --------------------------------------------------------------------------------------------------------


def install(image: Path, target: Target, interpreter: str, *, force: bool = False) -> Path:
    """Install an image.

    Arguments:
        image: what image.py made.
        interpreter: the Python that the launcher is to start, a path without links.
        force: also replace files that no earlier installation put there.
    Returns:
        the private directory of the installation.
    """
    version = json.loads((image / "image.json").read_text(encoding="utf-8"))["version"]
    created = make_directories(target.library)
    with target.locked():
        trees, before = target.trees(), target.current()
        recorded = {path for manifest in trees.values() for path in manifest["files"]}
        outside = files(image, target)
        for path in outside:
            real = target.real(path)
            if path != target.logrotate and os.path.lexists(real) and path not in recorded and not force:
                fail(f"{real} is there and was not put there by `make install`: move it away, or say FORCE=1")
        for path in outside:
            created += make_directories(target.real(path).parent)
        directories = {path: "" for manifest in trees.values() for path in manifest["directories"]}
        directories.update({str(path)[len(target.stage) :]: "" for path in created if not is_stage(path, target)})

        keep = keep_logrotate(target, trees)
        kinds = {path: kind for path, (kind, _, _) in outside.items() if path != keep}
        tree = make_tree(image, target, version, {"files": kinds, "directories": directories})
        launch = f"{interpreter}\n{target.prefix}/lib/shim/{tree.name}\n"
        prepare(target.library / "launch", lambda fresh: fresh.write_text(launch, encoding="utf-8"), 0o644)
        for path in kinds:
            prepare(target.real(path), *outside[path][1:])
        sync({tree, *(target.real(path).parent for path in kinds)})

        for real in (target.library / "launch", *map(target.real, kinds)):
            rename(real)
        for path in recorded - set(kinds) - {target.logrotate}:  # an older version had them
            remove(target.real(path), {manifest["files"].get(path) for manifest in trees.values()})
        if keep:
            print(f"{target.real(keep)} was changed here and stays as it is")
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


def make_tree(image: Path, target: Target, version: str, manifest: dict[str, dict[str, str]]) -> Path:
    """Make a fresh private directory of the modules, and of what is put outside of it.

    It appears complete or not at all; what an installation left that was cut off is removed.
    """
    for old in target.library.glob(".new-*"):
        shutil.rmtree(old)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target.library))
    shutil.copytree(image / "modules", fresh, dirs_exist_ok=True, copy_function=shutil.copyfile)
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    (fresh / MANIFEST).write_text(text, encoding="utf-8")
    for directory, _, names in os.walk(fresh):
        own(Path(directory), 0o755)
        for name in names:
            own(Path(directory, name), 0o644)
    pattern = re.compile(re.escape(version) + r"-(\d+)")
    numbers = [int(match[1]) for path in target.library.iterdir() if (match := pattern.fullmatch(path.name))]
    return fresh.rename(target.library / f"{version}-{max(numbers, default=0) + 1}")


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


def uninstall(target: Target, *, force: bool = False) -> None:
    """Remove what install put there; what was changed since or is not ours stays and is named."""
    if not target.trees():
        fail(f"nothing in {target.library} was put there by `make install`")
    used = [] if force else users(target)
    if used:
        how = (
            "take it out of engines first (`shim runtime remove`), undo what wrote specs (`shim device setup --undo`), "
            "and let containers end, or say FORCE=1"
        )
        fail(f"it is needed; {how}:\n  " + "\n  ".join(used))
    disable_units(target)
    with target.locked():
        trees = target.trees()
        for path in sorted({path for manifest in trees.values() for path in manifest["files"]}):
            remove(target.real(path), {manifest["files"].get(path) for manifest in trees.values()})
        (target.library / "launch").unlink(missing_ok=True)
        for tree in (*trees, *target.library.glob(".new-*")):
            shutil.rmtree(tree)
        directories = {path for manifest in trees.values() for path in manifest["directories"]}
    for directory in (
        target.library,
        *(target.real(path) for path in sorted(directories, reverse=True)),
    ):  # the deeper ones first
        with contextlib.suppress(OSError):  # not empty, so somebody else uses it by now
            directory.rmdir()
    if target.library.is_dir() and any(target.library.iterdir()):
        print(f"{target.library} stays: it holds files that `make install` did not put there")


def remove(path: Path, ours: set[str | None]) -> None:
    """Remove a file if it is still what we put there."""
    scratch_name(path).unlink(missing_ok=True)
    there = identity(path)
    if there in ours:
        path.unlink()
    elif there:
        print(f"{path} was changed since it was installed and stays")


def disable_units(target: Target) -> None:
    """Disable the units of systemd that the administrator enabled: links to nothing would stay."""
    names = [path.name for path in target.real(f"{target.prefix}/lib/systemd/system").glob("shim-*")]
    links = [link for name in names for link in Path("/etc/systemd/system").glob(f"*.wants/{name}")]
    if target.stage or not links or not shutil.which("systemctl"):
        return
    now = ["--now"] if Path("/run/systemd/system").is_dir() else []
    subprocess.run(["systemctl", "disable", *now, *names], check=False)


def users(target: Target) -> list[str]:
    """Users of the launcher, a line each: lines of engines' files, specs, and containers that run under it.

    The installed command knows them. Where it is missing nothing can need it; below DESTDIR no engine runs.
    """
    launcher = f"{target.prefix}/bin/shim"
    if target.stage or not os.path.lexists(launcher):
        return []
    words = [launcher, "runtime", "in-use", "--path", launcher, "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
        mentions = [*report["lines"], *report.get("specs", ())]
        lines = [f"{line['path']}:{line['line']}: {line['text']}" for line in mentions]
        lines += [f"{file['path']} was moved aside, to {file['kept']}" for file in report.get("movedAside", ())]
        containers = [
            f"{container['engine']} container {container['id']} ({container['evidence']})"
            for container in report["containers"]
        ]
    except (ValueError, LookupError, TypeError):
        reason = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        fail(f"{launcher} cannot tell whether an engine or a container needs it; say FORCE=1 to remove it:\n  {reason}")
    return [*lines, *(container.lstrip() for container in containers)]


# --- the command line -----------------------------------------------------------------------------------------------


def find_interpreter(image: Path) -> str:
    """The Python that runs this, without links: it is what the modules were compiled for, and what users must reach.

    An upgrade of the distribution lets /usr/bin/python3 mean another version; the launcher then says that Python is
    gone, which is better than modules of one version in another.
    """
    interpreter = os.path.realpath(sys.executable)
    wanted = json.loads((image / "image.json").read_text(encoding="utf-8"))["soabi"]
    if wanted != sysconfig.get_config_var("SOABI"):
        fail(f"the modules were built for {wanted}, {interpreter} is another Python: `make clean`, then again")
    if os.geteuid() == 0:
        for path in (Path(interpreter), *Path(interpreter).parents):
            if not path.stat().st_mode & 0o001:
                fail(f"{interpreter} cannot be started by every user, because of {path}: choose another PYTHON")
    return interpreter


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["install", "uninstall"])
    parser.add_argument("--image", type=Path, default=Path("build/image"))
    parser.add_argument("--prefix", default="/usr/local")
    parser.add_argument("--destdir", default="")
    parser.add_argument("--sysconfdir", default="/etc")
    parser.add_argument("--force", action="store_true")
    options = parser.parse_args()
    target = Target(options.prefix, options.destdir, options.sysconfdir)
    try:
        if options.action == "install":
            tree = install(options.image, target, find_interpreter(options.image), force=options.force)
            print(f"installed {target.real(target.prefix + '/bin/shim')}, modules in {tree}")
        else:
            uninstall(target, force=options.force)
    except OSError as error:
        fail(f"{error.filename or ''}: {error.strerror}")


if __name__ == "__main__":
    main()
