"""Which podman program calls, and whether it is known to leave out the annotations of images. Late.

Podman starts the runtime through conmon, which gets podman's own path for the command that it runs when the container
has ended: `--exit-command PATH`. In the precreate stage podman itself is the parent process. In both cases the file's
identity is looked up in what `shim runtime configure` recorded (shim.host.podman_programs).

An image can change conmon's command line only by labels that the client puts into a log tag (`--log-tag`): one word,
so it can be `--exit-command` but not the path behind it.

Source: podman, libpod/oci_conmon_common.go (createOCIContainer), libpod/container_internal.go (setupOCIHooks).
"""

from __future__ import annotations

import posix

from shim.create.annotation_origin import PODMAN, PODMAN_UNKNOWN, Origin
from shim.host import identity
from shim.host import podman_programs as programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shim.create.world_types import Reading
    from shim.host.look import FileStatus
    from shim.host.podman_programs import Program

_CONFIGURE = "`shim runtime configure --engine podman`"
_IGNORE = 'or set sources.podman-annotations = "ignore"'
_OWN_DEVICE = "ask with podman's own --device KIND=NAME"
_FLAG = "or with podman --runtime-flag device=KIND=NAME run …"


def find(world: Reading, *, precreate: bool, environ: Mapping[bytes, bytes], proc: str = "/proc") -> Origin:
    """The podman that calls.

    Arguments:
        world: answers what lies at a path.
        precreate: whether the parent process is podman itself, not conmon.
        environ: the environment of the call: a user without root has a record below a directory that it names.
        proc: where proc(5) is, for tests.
    Returns:
        an Origin of kind PODMAN or PODMAN_UNKNOWN.
    """
    parent = f"{proc}/{posix.getppid()}"
    try:
        path, status = _program(parent, world) if precreate else _by_conmon(parent, world)
    except (OSError, ValueError):
        # another engine, a person, or a program between conmon and the launcher
        return Origin(
            PODMAN_UNKNOWN,
            f"{_name(parent, world)}, which calls, does not say which podman it belongs to",
            ways(precreate=precreate),
        )
    if precreate and not environ.get(b"HOME"):
        environ = _environment(parent, world)  # podman hands none to its hooks
    records = programs.records(rootful=identity.is_rootful(), environ=dict(environ))
    return judge(path, status, records, ways(precreate=precreate), world)


def ways(*, precreate: bool) -> str:
    """How to ask where annotations do not count, for a remedy: not by an option for a runtime that is not shim."""
    return f"{_OWN_DEVICE}; {_IGNORE}" if precreate else f"{_OWN_DEVICE} {_FLAG}; {_IGNORE}"


def judge(path: str, status: FileStatus, records: Iterable[str], otherwise: str, world: Reading) -> Origin:
    """What is known about a program.

    Arguments:
        path: where it is.
        status: of its file.
        records: the records to look in.
        otherwise: how to ask in another way, for the remedy.
        world: answers what lies at a path.
    """
    trust = world.trust(rootful=identity.is_rootful(), user=posix.geteuid())
    known: list[Program] = [program for file in records for program in programs.read(file, world, trust)]
    for program in known:
        if program.is_file(status):
            version = programs.version_text(program.version)
            if program.version >= programs.TAKES_NO_IMAGE_ANNOTATIONS:
                return Origin(PODMAN, f"{path} is recorded as podman {version}")
            return Origin(PODMAN_UNKNOWN, f"{path} is podman {version}", f"{otherwise}; or install podman 4.6 or later")
    if any(program.path == path for program in known):
        return Origin(
            PODMAN_UNKNOWN,
            f"{path} is another file than the one whose version is recorded",
            f"run {_CONFIGURE} again, as after each upgrade of podman; else {otherwise}",
        )
    return Origin(
        PODMAN_UNKNOWN,
        f"the version of {path} is not recorded",
        f"with podman 4.6 or later run {_CONFIGURE}; else {otherwise}",
    )


def _by_conmon(parent: str, world: Reading) -> tuple[str, FileStatus]:
    """The podman that started conmon. Raises OSError or ValueError when the process names none."""
    words = [*world.content(f"{parent}/cmdline").split(b"\0"), b""]  # a process may have written over its own
    path = words[words.index(b"--exit-command") + 1]
    if not path.startswith(b"/"):
        raise ValueError("no absolute path")
    program = path.decode("utf-8", "surrogateescape")
    return program, world.stat(program)


def _program(process: str, world: Reading) -> tuple[str, FileStatus]:
    """The program of a process: the very file that runs, even if another one has its path now. Raises OSError."""
    status = world.stat(f"{process}/exe")
    return world.readlink(f"{process}/exe").removesuffix(" (deleted)"), status


def _name(process: str, world: Reading) -> str:
    """What to call a process in a text."""
    try:
        return f"the process {world.content(f'{process}/comm').decode('utf-8', 'replace').strip()}"
    except OSError:
        return "a process that cannot be seen"


def _environment(process: str, world: Reading) -> dict[bytes, bytes]:
    try:
        entries = world.content(f"{process}/environ").split(b"\0")
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition(b"=") for entry in entries)}
