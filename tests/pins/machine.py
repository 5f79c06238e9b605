"""The machine of the cases: a root of its own in which a build is called, and what every call leaves is noted.

    unshare --mount --pid … sh machine.sh …     arranges the root, and starts this file in it
    python3 -I -S /machine.py                   standard library only; a case a line in, what came of it a line out

The root is a tmpfs with the host's libraries and interpreter, the build at /opt/shim, and nothing else of the host: no
configuration, no engine, no process. So a case sees the same machine wherever it runs. After each step the whole root
is compared with what it was before the step; after each case it is put back.

A line in is {"world": [files]} or {"id": …, "files": [files], "steps": [steps]}. A world stays until the next one, and
is left alone long enough for an index of it to count. A file is {"path": …} with one of `text`, `base64`, `link`,
`directory`, `special`, `absent`, `node` ("c 1 3"), and optionally `mode` (octal digits), `owner`, and
`identity`, a file whose identity is filled in, or `inputs` (index or needles), likewise. A step:

    name        of the step
    argv        the command; argv[0] is only the name that the build is called by
    env         NAME=VALUE, in order, duplicates kept; ENVIRONMENT when missing
    cwd         working directory; / when missing
    umask       022 when missing
    stdin       text on standard input; "<pipe>", "<socket>", "<tty>": that; nothing (/dev/null) when missing
    stdout, stderr   "<null>", "<tty>"; caught when missing
    fds         number -> pipe, socket or null: further descriptors
    ignored     signals that the caller ignores
    rootless    as root of a user namespace
    calls       count the system calls
    files       files that are placed before the step
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Signature = tuple[int, ...]
Picture = dict[str, Signature]

LAUNCHER = "/opt/shim/bin/shim"
NOTES = Path("/notes/exec")
COUNT = Path("/notes/calls")
ENVIRONMENT = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "COLUMNS=100", "TERM=dumb"]
OURS = ("/notes", "/proc")
STATES = (Path("/run/shim"), Path("/run/user/shim"))  # root's, and in the cases without root
_SETTLED = 0.15  # seconds: an index of files that changed less than 0.1 s ago does not count
_TIMEOUT = 60


class Variables:
    """An environment with order and duplicates kept, in the shape that subprocess takes for a mapping."""

    def __init__(self, entries: list[str]) -> None:
        self._entries = entries

    def items(self) -> list[tuple[str, str]]:
        """Name and value of each entry."""
        return [(name, value) for name, _, value in (entry.partition("=") for entry in self._entries)]


# --- files ----------------------------------------------------------------------------------------------------------


def place(file: Json) -> None:
    """Make a file, link, directory or device node, with the directories above."""
    path = Path(file["path"])
    if "absent" in file:
        shutil.rmtree(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    if "link" in file:
        path.symlink_to(file["link"])
        return
    if "node" in file:
        kind, major, minor = file["node"].split()
        os.mknod(path, {"c": stat.S_IFCHR, "b": stat.S_IFBLK}[kind], os.makedev(int(major), int(minor)))
    elif "directory" in file:
        path.mkdir(exist_ok=True)
    elif "special" in file:
        os.mknod(path, {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK}[file["special"]])
    elif "base64" in file:
        path.write_bytes(base64.b64decode(file["base64"]))
    else:
        text = file.get("text", "")
        if "identity" in file:
            text = _identified(text, file["identity"])
        elif "inputs" in file:
            text = _index(text) if file["inputs"] == "index" else _needles(text)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    default = "755" if path.is_dir() else "644"
    os.chown(path, file.get("owner", 0), file.get("owner", 0))
    path.chmod(int(file.get("mode", default), 8))


def _identified(text: str, path: str) -> str:
    """A record with the identity of the config.json that lies here, in place of what pins.normal took out."""
    status = os.stat(path)
    for name in ("dev", "ino", "size", "mtime", "ctime"):
        number = getattr(status, f"st_{name}_ns" if name.endswith("time") else f"st_{name}")
        text = text.replace(f'"<{name}>"', str(number))
    return text


def _index(text: str) -> str:
    """An index of 6022cb0 with the identities of its inputs as they are here."""
    preamble, _, rest = text.partition("\n")
    magic, form, _, names, told = preamble.split()
    header, end = json.JSONDecoder().raw_decode(rest)
    for entry in header["inputs"]:
        status = os.stat(entry[0]) if entry[1] else None
        entry[1] = status and [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    for entry in header["ways"]:
        status = os.lstat(entry[0])
        entry[1] = [status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid]
    for _ in range(3):  # the number of digits of the size is a part of the size
        written = json.dumps(header, separators=(",", ":"))
        header["size"] = len(preamble) + 1 + len(written) + len(rest) - end
    return f"{magic} {form} {len(written):08x} {names} {told}\n{written}{rest[end:]}"


def _needles(text: str) -> str:
    """Needles of 6022cb0 with the identities of their inputs as they are here."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("input "):
            path = line.split(" ", 6)[6]
            status = os.stat(path)
            known = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            lines[number] = f"input {' '.join(map(str, known))} {path}"
    return "\n".join(lines)


def is_unseen(path: str) -> bool:
    """Whether a path is no answer of the build: notes of ours, or a file that only saves time (an index, needles).

    Such files may change their form as they like. What they make of a case is seen all the same.
    """
    for state in STATES:
        if path.startswith(f"{state}/"):
            return path != f"{state}/c" and not path.startswith(f"{state}/c/")
    return path.startswith(OURS)


def picture() -> Picture:
    """Every path of the root's own file system that is not is_unseen(), with all by which a change shows."""
    found: Picture = {}
    device = os.lstat("/").st_dev
    waiting = ["/"]
    while waiting:
        directory = waiting.pop()
        for entry in os.scandir(directory):
            status = entry.stat(follow_symlinks=False)
            if status.st_dev != device or is_unseen(entry.path):
                continue
            is_directory = stat.S_ISDIR(status.st_mode)
            found[entry.path] = (
                status.st_mode,
                status.st_uid,
                status.st_gid,
                status.st_ino,
                0 if is_directory else status.st_size,
                0 if is_directory else status.st_mtime_ns,
            )
            if is_directory:
                waiting.append(entry.path)
    return found


def content(path: str) -> str:
    """A path in words: mode and owner, then what is in it."""
    status = os.lstat(path)
    head = f"{stat.filemode(status.st_mode)} {status.st_uid} {status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{head} -> {os.readlink(path)}\n"
    if not stat.S_ISREG(status.st_mode):
        return f"{head}\n"
    data = Path(path).read_bytes()
    try:
        return f"{head}\n{data.decode()}"
    except UnicodeDecodeError:
        return f"{head}\nbase64:{base64.b64encode(data).decode()}"


def changes(before: Picture, after: Picture) -> Json:
    """Path -> what is there now, "gone" where nothing is, for each path that is not as before."""
    found = {path: content(path) for path, signature in after.items() if before.get(path) != signature}
    return {**found, **{path: "gone" for path in before if path not in after}}


class Base:
    """The root as it is between cases."""

    def __init__(self) -> None:
        self.picture = picture()
        self._contents = {
            path: os.fsencode(os.readlink(path)) if stat.S_ISLNK(one[0]) else Path(path).read_bytes()
            for path, one in self.picture.items()
            if stat.S_ISLNK(one[0]) or (stat.S_ISREG(one[0]) and one[4] < 1 << 20)
        }

    def restore(self) -> None:
        """Take away what is new, put back what was changed."""
        now = picture()
        for path in sorted(now, reverse=True):
            if path not in self.picture:
                remove(Path(path))
        for path in sorted(self.picture):
            if now.get(path) != self.picture[path]:
                self._put_back(path)
        if any(path not in now or now[path] != one for path, one in self.picture.items()):
            self.picture = picture()

    def _put_back(self, path: str) -> None:
        mode, uid, gid = self.picture[path][:3]
        if stat.S_ISDIR(mode):
            Path(path).mkdir(exist_ok=True)
        elif stat.S_ISLNK(mode):
            Path(path).unlink(missing_ok=True)
            Path(path).symlink_to(os.fsdecode(self._contents[path]))
            return
        elif path in self._contents:
            Path(path).write_bytes(self._contents[path])
        else:
            raise RuntimeError(f"a case changed {path}, which is no file, link or directory")
        os.chown(path, uid, gid)
        Path(path).chmod(stat.S_IMODE(mode))


def remove(path: Path) -> None:
    """Take a path away; a directory stays while something unseen is in it."""
    if path.is_dir() and not path.is_symlink():
        with contextlib.suppress(OSError):
            path.rmdir()
    else:
        path.unlink()


def forget() -> None:
    """Take away what only saves time, so that the next create begins without it."""
    for entry in (entry for state in STATES for entry in state.glob("*")):
        if entry.name != "c":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


# --- a call ---------------------------------------------------------------------------------------------------------


def _descriptor(kind: str, opened: list[int]) -> int:
    if kind == "null":
        opened.append(os.open("/dev/null", os.O_RDWR))
    elif kind == "pipe":
        opened.extend(os.pipe())
        return opened[-2]
    elif kind == "socket":
        first, second = socket.socketpair()
        opened.extend([first.detach(), second.detach()])
    elif kind == "tty":
        opened.extend(pty.openpty())
    else:
        raise ValueError(f"{kind}: no such descriptor")
    return opened[-1]


def _input(step: Json, opened: list[int]) -> int:
    text = step.get("stdin", "<null>")
    if text.startswith("<") and text != "<pipe>":
        return _descriptor(text[1:-1], opened)
    read, write = os.pipe()  # whoever reads it comes to its end
    os.write(write, text.removeprefix("<pipe>").encode())
    os.close(write)
    opened.append(read)
    return read


def _output(kind: str, opened: list[int]) -> int:
    return subprocess.PIPE if kind == "<caught>" else _descriptor(kind[1:-1], opened)


def call(step: Json) -> Json:
    """Run a step; what came of it, without files."""
    opened: list[int] = []
    kept = {int(number): _descriptor(kind, opened) for number, kind in step.get("fds", {}).items()}
    command = [LAUNCHER, *step["argv"][1:]]
    before = ["/usr/bin/unshare", "--user", "--map-root-user", "--"] if step.get("rootless") else []
    if step.get("calls"):
        before += ["/usr/bin/strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", str(COUNT)]
    command = before + command if before else [step["argv"][0], *command[1:]]

    def arrange() -> None:
        # The numbers asked for may be taken by our own ends: move those out of the way, then to their places.
        moved = {number: os.dup2(fd, 200 + number) for number, fd in kept.items()}
        for number, fd in moved.items():
            os.dup2(fd, number)
            os.close(fd)
        for name in step.get("ignored", ()):
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)

    variables: Any = Variables(step.get("env", ENVIRONMENT))
    done = subprocess.run(
        [os.fsencode(word) for word in command],
        executable=None if before else LAUNCHER,
        stdin=_input(step, opened),
        stdout=_output(step.get("stdout", "<caught>"), opened),
        stderr=_output(step.get("stderr", "<caught>"), opened),
        env=variables,
        cwd=step.get("cwd", "/"),
        umask=step.get("umask", 0o22),
        close_fds=not kept,  # what is ours is O_CLOEXEC; those of `kept` are placed above, after subprocess has closed
        preexec_fn=arrange if kept or step.get("ignored") else None,
        timeout=_TIMEOUT,
        check=False,
    )
    for fd in opened:
        os.close(fd)
    made: Json = {"status": str(done.returncode)}
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text:
            made[name] = text.decode("utf-8", "surrogateescape")
    if NOTES.exists():
        made["exec"] = _exec()
    if COUNT.exists():
        made["calls"] = _counted()
    return made


def _exec() -> str:
    """What the stand-in for the runtime noted."""
    lines = []
    for line in NOTES.read_text().splitlines():
        word, _, digits = line.partition(" ")
        lines.append(f"{word}: {bytes.fromhex(digits).decode('utf-8', 'surrogateescape')}\n")
    NOTES.unlink()
    return "".join(lines)


def _counted() -> str:
    """The table of strace -c, by name: in the order of names, since its own is that of their numbers."""
    rows = [line.split() for line in COUNT.read_text().splitlines()]
    COUNT.unlink()
    return "".join(sorted(f"{row[1]} {row[0]}\n" for row in rows if row[0].isdigit() and row[1] != "total"))


def run(case: Json, base: Base, *, settled: bool) -> list[Json]:
    """The steps of a case, one after the other; what came of each. settled: it lies in a world, whose index stays."""
    made = []
    try:
        for file in case.get("files", ()):
            place(file)
        for step in case["steps"]:
            for file in step.get("files", ()):
                place(file)
            before = picture()
            found = call(step)
            found["files"] = changes(before, picture())
            made.append(found)
    finally:
        if not settled:
            forget()
        base.restore()
    return made


def main() -> None:
    """Serve cases until standard input ends."""
    for number in signal.valid_signals():
        if (
            signal.getsignal(number) == signal.SIG_IGN
        ):  # by whoever started the tests; what is Python's own goes at each exec
            signal.signal(number, signal.SIG_DFL)
    base = Base()
    empty, world = base, []
    for line in sys.stdin:
        asked = json.loads(line)
        if "world" in asked:
            world = asked["world"]
            base = _enter(world, empty)
            continue
        try:
            answer: Json = {"id": asked["id"], "made": run(asked, base, settled=bool(world))}
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
            answer = {"id": asked["id"], "error": repr(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _enter(world: list[Json], empty: Base) -> Base:
    """Leave the world before, make another."""
    forget()
    empty.restore()
    for file in world:
        place(file)
    if world:
        time.sleep(_SETTLED)
    return Base()


if __name__ == "__main__":
    main()
