"""Generate: discover, make the specs, and write those that nothing stands in the way of."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.discover import hook_path, inventory, lock, output, takeover, vendors
from shim.discover.output import REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shim.discover.model import Device, Discovery, Wish
    from shim.discover.output import SpecFile, Target
    from shim.host.host import Host


@dataclass
class Outcome:
    """What was generated.

    Attributes:
        specs: every spec, written or not.
        written: the paths of those whose files were written.
        devices: every device that was discovered, whether or not it has a spec.
        findings: about the devices, then about the specs.
    """

    specs: list[SpecFile] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


def generate(
    host: Host,
    wish: Wish,
    target: Target,
    wanted: Iterable[str],
    *,
    dry_run: bool = False,
    progress: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Generate the specs of a host.

    Arguments:
        host: the machine.
        wish: what is asked for.
        target: where the specs go.
        wanted: words of --vendor.
        dry_run: whether nothing is written.
        progress: is called with what is being done.
    Raises:
        CdiError: DISCOVERY_WISH for what makes no sense; DISCOVERY_BUSY while another process writes specs.
    """
    words = list(wanted)
    is_written = not dry_run and target.file != "-"
    with lock.held(host) if is_written else contextlib.nullcontext():
        discoveries = list(vendors.discover(host, wish, words, lambda name: progress(f"looking for devices of {name}")))
        outcome = Outcome(findings=[finding for discovery in discoveries for finding in discovery.findings])
        outcome.devices = [device for discovery in discoveries for device in discovery.devices]
        outcome.specs, findings = output.prepare(host, discoveries, wish, target)
        outcome.findings += findings
        if is_written:
            outcome.findings += inventory.update(host, vendors.names(words), discoveries)
        for planned in outcome.specs:
            planned.findings += hook_path.faults(host, wish.hook_path, planned.document)
            if is_written:
                progress(f"writing {planned.path}")
                put(host, planned, wish, target, outcome)
            outcome.findings += planned.findings
    if not outcome.specs and not findings:
        outcome.findings.append(_nothing(words, discoveries))
    return outcome


def put(host: Host, planned: SpecFile, wish: Wish, target: Target, outcome: Outcome) -> None:
    """Move aside what is in the way of a spec, and write it; a failure restores what was there and is noted.

    Arguments:
        host: the machine.
        planned: the spec.
        wish, target: as of `generate`.
        outcome: gets the path of the spec if it is written.
    """
    if planned.state == REFUSED:
        return
    taken = []
    try:
        for path in planned.in_the_way:
            taken.append(takeover.take(host, path, planned.kind, planned.path))
        if output.write(host, planned, wish, target):
            outcome.written.add(planned.path)
    except CdiError as error:
        planned.findings += error.findings
        for record in reversed(taken):
            planned.findings += takeover.restore(host, record)


def _nothing(words: list[str], discoveries: list[Discovery]) -> Finding:
    asked = vendors.names(words)
    waits = [f"{discovery.vendor} waits for {discovery.waits_for}" for discovery in discoveries if discovery.waits_for]
    text = f"no device was discovered; looked for: {', '.join(asked) or 'nothing'}"
    remedy = "" if vendors.AUTO in words else "load the driver's modules and install its packages, then generate again"
    return Finding("DISCOVERY_NOTHING", "; ".join([text, *waits]), remedy)
