"""Refresh: the specs that shim wrote, written anew where the host has changed, in the way in which they were generated.

Nothing is decided by times of files: what the host has now is discovered, and a spec is written where that gives
another text. A driver that is not there yet, as at boot, is no failure: its spec stays, and the next change of the host
brings another refresh. A spec loses devices only if the host has lost them (shim.discover.shrink.is_followed) and the
vendor's module reports no error.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from shim.base.findings import ERROR, CdiError, Finding
from shim.discover import hook_path, inventory, lock, output, remembered, shrink, vendors
from shim.discover.output import REFUSED, UNCHANGED, SpecFile, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Literal

    from shim.discover.model import Discovery, Wish
    from shim.discover.remembered import Remembered
    from shim.host.host import Host

FRESH, WRITTEN, STALE, WAITING = "fresh", "written", "stale", "waiting for the driver"
NOTHING, FAILED = "nothing generated", "failed"


@dataclass
class Refreshed:
    """What became of a spec.

    Attributes:
        path: of the spec.
        vendor: of its devices.
        kind: of the spec.
        state: FRESH; WRITTEN, or STALE where a dry run would write it; WAITING; REFUSED.
        waits_for: what is not there yet, "" where that is not known.
        spec: as it would be now; None where nothing was discovered.
    """

    path: str
    vendor: str
    kind: str
    state: str
    waits_for: str = ""
    spec: SpecFile | None = None


@dataclass
class Outcome:
    """What a refresh came to.

    Attributes:
        specs: every spec that shim wrote.
        findings: about the devices, then about the specs.
        discoveries: what the host has of each vendor, once for each wish.
    """

    specs: list[Refreshed] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    discoveries: list[Discovery] = field(default_factory=list)

    @property
    def state(self) -> str:
        """The worst state of all, or NOTHING."""
        if any(finding.level == ERROR for finding in self.findings):
            return FAILED
        states = {refreshed.state for refreshed in self.specs}
        return next((state for state in (WAITING, STALE, WRITTEN, FRESH) if state in states), NOTHING)


def refresh(
    host: Host,
    spec_dirs: Iterable[str],
    *,
    only: Collection[str] | None = None,
    may_shrink: bool = False,
    dry_run: bool = False,
    progress: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Write the specs anew that are stale.

    Arguments:
        host: the machine.
        spec_dirs: the directories in which specs are read.
        only: paths of the specs that are meant; by default all.
        may_shrink: whether a spec may lose what the host still has.
        dry_run: whether nothing is written.
        progress: is called with what is being done.
    Raises:
        CdiError: DISCOVERY_STATE, DISCOVERY_BUSY.
    """
    outcome = Outcome()
    if not remembered.every(host):
        return outcome  # no lock either: there is nothing for which a create could wait
    with contextlib.nullcontext() if dry_run else lock.held(host):
        every = remembered.every(host)
        discoveries: dict[tuple[str, Wish], Discovery | None] = {}
        for kept in every:
            if only is not None and kept.path not in only:
                continue
            key = (kept.vendor, kept.wish)
            if key not in discoveries:
                progress(f"looking for devices of {kept.vendor}")
                discoveries[key] = _discovery(host, kept, outcome)
            discovery = discoveries[key]
            if discovery is not None:
                target = Target(
                    file=kept.path,
                    format=cast('Literal["yaml", "json"]', kept.format),
                    engines=kept.engines,
                    spec_dirs=tuple(spec_dirs),
                    may_shrink=True,  # decided below
                )
                ours = [other.path for other in every if other.vendor == kept.vendor]
                done = _refresh(host, kept, discovery, target, ours, outcome, may_shrink=may_shrink, dry_run=dry_run)
                outcome.specs.append(done)
        if not dry_run:
            # two wishes of a vendor discover the same devices, or one of them none
            listed = [discovery for discovery in discoveries.values() if discovery is not None]
            latest = {
                discovery.vendor: discovery
                for discovery in sorted(listed, key=lambda discovery: len(discovery.devices))
            }
            outcome.findings += inventory.update(host, set(latest), latest.values())
    return outcome


def _discovery(host: Host, kept: Remembered, outcome: Outcome) -> Discovery | None:
    """What the host has of a vendor; None where it cannot be asked for that any more, with a finding."""
    try:
        (discovery,) = vendors.discover(host, kept.wish, [kept.vendor])
    except CdiError as error:
        outcome.findings += error.findings
        return None
    outcome.discoveries.append(discovery)
    if discovery.drafts and not discovery.waits_for:
        outcome.findings += discovery.findings
    else:  # waiting is no failure
        outcome.findings += [
            finding.as_warning() if finding.level == ERROR else finding for finding in discovery.findings
        ]
    return discovery


def _refresh(
    host: Host,
    kept: Remembered,
    discovery: Discovery,
    target: Target,
    ours: list[str],
    outcome: Outcome,
    *,
    may_shrink: bool,
    dry_run: bool,
) -> Refreshed:
    done = Refreshed(kept.path, kept.vendor, kept.kind, WAITING, discovery.waits_for)
    drafts = tuple(
        draft for draft in discovery.drafts if draft.kind_in(kept.wish) == kept.kind and draft.suffix == kept.suffix
    )
    if discovery.waits_for or not drafts:
        return done
    try:
        only = dataclasses.replace(discovery, drafts=drafts)
        specs, findings = output.prepare(host, [only], kept.wish, target, ours)
    except CdiError as error:
        specs, findings = [], error.findings
    outcome.findings += findings
    if not specs:
        done.state = REFUSED if findings else WAITING
        return done
    done.spec = planned = specs[0]
    planned.findings += hook_path.faults(host, kept.wish.hook_path, planned.document)
    if planned.losses and not may_shrink:
        is_whole = not any(finding.level == ERROR for finding in discovery.findings)
        is_followed = is_whole and shrink.is_followed(cast("dict[str, Any]", planned.old), planned.document)
        planned.findings.append(output.shrinks(planned).as_warning() if is_followed else output.shrinks(planned))
    try:
        if not dry_run and output.write(host, planned, kept.wish, target):
            done.state = WRITTEN
        else:
            done.state = {UNCHANGED: FRESH, REFUSED: REFUSED}.get(planned.state, STALE)
    except CdiError as error:
        planned.findings += error.findings
        done.state = REFUSED
    outcome.findings += planned.findings
    return done
