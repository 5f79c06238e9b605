"""Locked: refuses what differs from the lock of the specs, where the configuration asks for that. Late.

Each file is asked about through the World, so that a repeated create compares identities alone, as with any other file
of a decision.
"""

from __future__ import annotations

from shim.base.findings import Finding
from shim.base.paths import reason
from shim.cdi import edits
from shim.create import lock_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.cdi.plan import Plan
    from shim.config.settings import Settings
    from shim.create.world import World

_EINVAL = 22  # of the World, for what cannot be decoded
_INSIDE = "startContainer"  # the stage of hooks that are programs of the image


def objections(plan: Plan, settings: Settings, world: World, *, rootful: bool, user: int) -> list[Finding]:
    """What of a plan is not as it was locked.

    Arguments:
        plan: as it would be injected.
        settings: the configuration.
        world: answers what is there.
        rootful: whether we are the host's root (shim.host.identity).
        user: our effective uid.
    Returns:
        SPEC_UNLOCKED for the lock itself, or for each spec, program and source of a mount that differs.
    """
    lock = lock_file.path_of(settings.path)
    items = dict(_files(plan))
    try:
        objection = world.trust(rootful=rootful, user=user).objection(lock)
        if objection:
            return [_finding(f"the lock {lock} is not trusted: {objection}")]
        world.stat(lock)  # for the launcher, which compares it before it repeats the decision
        entries = world.locked(lock, list(items))
    except OSError as error:
        why = "it is damaged" if error.errno == _EINVAL else reason(error)
        return [_finding(f"the specs are to be locked, and the lock {lock} cannot be used: {why}")]
    findings = []
    for (path, (what, spec)), entry in zip(items.items(), entries, strict=True):
        difference = f"is not in the lock {lock}" if entry is None else lock_file.difference(path, entry, world)
        if difference:
            findings.append(_finding(f"{what} {path} {difference}", spec))
    return findings


def _files(plan: Plan) -> Iterator[tuple[str, tuple[str, str]]]:
    """(path, (what it is, the spec that names it)) of each file that a plan hangs on."""
    for origin in plan.origins:
        spec, block = origin["spec"], origin["edits"]
        yield spec, ("the spec", spec)
        for hook in block.get("hooks") or ():
            if hook["hookName"] != _INSIDE:
                yield hook["path"], ("the program", spec)
        for mount in block.get("mounts") or ():
            if mount["hostPath"].startswith("/") and edits.is_bind(mount.get("options") or ()):
                yield mount["hostPath"], ("the source", spec)


def _finding(text: str, spec: str = "") -> Finding:
    return Finding("SPEC_UNLOCKED", text, path=spec)
