"""The podman programs of this host: which of them copy annotations of images, and the record of their versions.

Podman before 4.6 copies the annotations of an image's manifest into a container's config.json, where nothing tells them
from those of the command line. So the create path lets annotations of a podman count only where its version is recorded
(shim.host.podman_programs), and `shim runtime configure` records it, since a create starts no process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.config.settings import ANY, IGNORE, REFUSE
from shim.engines import sources
from shim.engines.model import Edit
from shim.host import identity, podman_programs
from shim.host.podman_programs import TAKES_NO_IMAGE_ANNOTATIONS, Program, version_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shim.engines.oci_hooks import HookFile
    from shim.host.host import Host

# What becomes of a container with an annotation that does not count, by sources.podman-annotations
_FATE = {REFUSE: "is not started", IGNORE: "starts without its device"}
_HAS_DEVICE = (4, 1)  # `podman run --device VENDOR/CLASS=NAME`


def installed(host: Host) -> list[Program]:
    """The podman programs of a host whose version is known, except those whose path no line of a record can hold."""
    programs = []
    for path in filter(str.isprintable, host.every("podman")):
        status = host.status(path)  # before its version is read, so that a program replaced meanwhile differs
        version = host.version(path)
        if status and version:
            programs.append(Program(status, version, path))
    return programs


def record(host: Host) -> list[Edit]:
    """The edit that records the versions of all podman programs; none where no version is known."""
    file, programs = _files(host)[0], installed(host)
    if not programs:
        return []
    paths = {program.path for program in programs}
    recorded = [program for program in _recorded(host, file) if program.path not in paths]
    others = [program for program in recorded if _is_there(host, program)]
    return [Edit(file, "text", head=podman_programs.text([*others, *programs]))]


def refuse_hook(host: Host) -> None:
    """Refuse a precreate hook under a podman that copies annotations of images. Raises CdiError: PODMAN_HOOK."""
    state = sources.settings_or_defaults(host).podman_annotations
    wrong = [
        _unsafe_hook(program, state) for program in installed(host) if program.version < TAKES_NO_IMAGE_ANNOTATIONS
    ]
    if wrong:
        raise CdiError(wrong)


def faults(host: Host, name: str, hooks: Sequence[HookFile]) -> Iterator[Finding]:
    """Programs under which annotations do not count, and those that configure has not seen.

    Arguments:
        host: the machine.
        name: of the runtime, "" when none is registered.
        hooks: the OCI hooks that podman runs.
    """
    ours = [hook.path for hook in hooks if hook.is_ours]
    state = sources.settings_or_defaults(host).podman_annotations
    recorded = [program for file in _files(host) for program in _recorded(host, file)]
    for program in installed(host) if name or ours else ():
        if program.version < TAKES_NO_IMAGE_ANNOTATIONS:
            yield from (_unsafe_hook(program, state, path) for path in ours)
            yield from [_image_annotations(host, program, state, name)] if name else []
        elif state != ANY and str(program) not in map(str, recorded):
            before = next((former for former in recorded if former.path == program.path), None)
            yield _not_recorded(program, before, state, name)


def _image_annotations(host: Host, program: Program, state: str, name: str) -> Finding:
    own = "podman's own `--device KIND=NAME`, or " if program.version >= _HAS_DEVICE else ""
    ways = f"ask by {own}`podman --runtime {name} --runtime-flag device=KIND=NAME run …`"
    if state == ANY:
        path = sources.settings_or_defaults(host).path
        return sources.open_to("podman-annotations", "image", f"an annotation, under {_called(program)}", ways, path)
    text = (
        f"{_called(program)} copies the annotations of an image into config.json, so requests by annotation do not "
        f"count there: a container that carries one {_FATE[state]}"
    )
    return Finding("PODMAN_ANNOTATIONS", text, f"{ways}; podman 4.6 copies none")


def _unsafe_hook(program: Program, state: str, path: str = "") -> Finding:
    text = (
        f"{_called(program)} copies the annotations of an image into config.json; a precreate hook is asked by "
        f"annotations alone, so {'every image can ask by it' if state == ANY else 'it gives no device'} there"
    )
    return Finding("PODMAN_HOOK", text, path=path)


def _not_recorded(program: Program, before: Program | None, state: str, name: str) -> Finding:
    was = f"podman {version_text(before.version)} was recorded there" if before else "it is not recorded"
    text = (
        f"{program.path} is podman {version_text(program.version)} now, and {was}: until it is recorded, a container "
        f"that asks by annotation {_FATE[state]}"
    )
    options = " --hook" * (not name) + f" --name {name}" * (name not in {"", "shim"})
    return Finding("PODMAN_CHANGED", text, f"run `shim runtime configure --engine podman{options}` again")


def _called(program: Program) -> str:
    return f"podman {version_text(program.version)} ({program.path})"


def _files(host: Host) -> tuple[str, ...]:
    """The records that count for the calling user, first that which configure writes."""
    if identity.is_rootful() and not host.user:
        return (podman_programs.SYSTEM_FILE,)
    own = podman_programs.user_file({os.fsencode(k): os.fsencode(v) for k, v in host.environment.items()})
    return (own, podman_programs.SYSTEM_FILE) if own else (podman_programs.SYSTEM_FILE,)


def _recorded(host: Host, file: str) -> list[Program]:
    if host.is_overlaid(file):
        return podman_programs.parse((host.read(file) or b"").decode("utf-8", "surrogateescape"))
    return podman_programs.read(str(host.real(file)))


def _is_there(host: Host, program: Program) -> bool:
    status = host.status(program.path)
    return status is not None and program.is_file(status)
