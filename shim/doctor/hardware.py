"""Module, nodes, library: what the vendors' modules discover now, and whether the specs that shim wrote still fit.

The host is asked once: a dry run of the refresh discovers the devices of each spec that shim wrote, and the vendors
that it leaves out are asked here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.discover import refresh, vendors
from shim.discover.model import Wish
from shim.doctor.model import LIBRARY, MODULE, NODES, SPEC, Check, devices_of
from shim.engines import launcher

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from shim.discover.model import Discovery
    from shim.discover.refresh import Outcome, Refreshed
    from shim.doctor.machine import Machine

_MENDED = {"NODE_UNUSABLE", "MOUNT_MISSING"}
_SHOWN = 2
_LAUNCHER = "/usr/local/bin/shim"
_OF_LIBRARIES = {"DRIVER_MISMATCH", "DISCOVERY_PART"}
# What is loaded, where the vendor's module only reports that its driver is missing
_MODULES = {"nvidia": ("nvidia", "nvidia_uvm")}  # without the second CUDA does not work
_LOADS = {
    "nvidia": "modprobe nvidia && nvidia-modprobe -c 0 -u",
    "amd": "modprobe amdgpu",
    "habana": "modprobe habanalabs",
}


@dataclass
class Hardware:
    """What the host has.

    Attributes:
        discoveries: of each vendor that is present, or of which shim wrote a spec.
        outcome: of the dry run of the refresh.
    """

    discoveries: list[Discovery]
    outcome: Outcome

    @property
    def kinds(self) -> dict[str, str]:
        """Kind -> vendor, of what was discovered and of the specs that shim wrote."""
        found = {draft.kind: one.vendor for one in self.discoveries for draft in one.drafts}
        return found | {one.kind: one.vendor for one in self.outcome.specs}

    def is_wanted(self, vendor: str, served: Collection[str]) -> bool:
        """Whether a vendor's devices are for containers here: it has a spec, or nothing has any yet.

        Arguments:
            vendor: its name.
            served: the kinds that specs serve.
        """
        own = any(one.vendor == vendor for one in self.outcome.specs)
        return own or not served or any(self.vendor_of(kind) == vendor for kind in served)

    def refreshed(self, finding: Finding) -> Finding:
        """SPEC_STALE for what is missing on the host, where a refresh would write the spec without it."""
        stale = next(
            (one for one in self.outcome.specs if one.state == refresh.STALE and one.path == finding.path), None
        )
        if stale is None or stale.spec is None or finding.id not in _MENDED:
            return finding
        new = sorted(_paths(stale.spec.document) - _paths(stale.spec.old or {}))
        now = f", and {' and '.join(new[:_SHOWN])} came" if new else ""
        text = f"{finding.text}: the host has changed since the spec was written{now}"
        return Finding("SPEC_STALE", text, path=finding.path, line=finding.line)

    def vendor_of(self, kind: str) -> str:
        """The vendor whose devices have a kind, "" where it is none of these."""
        domain = kind.partition("/")[0].partition(".")[0]
        names = {one.vendor for one in self.discoveries}
        return self.kinds.get(kind) or (domain if domain in names else "")


def _paths(document: dict[str, Any]) -> set[str]:
    """The paths of the host that a spec names for nodes and mounts."""
    blocks = [document.get("containerEdits"), *(one["containerEdits"] for one in document.get("devices", ()))]
    items = [item for edits in blocks if edits for kind in ("deviceNodes", "mounts") for item in edits.get(kind, ())]
    return {item.get("hostPath") or item["path"] for item in items}


def look(machine: Machine) -> tuple[Hardware, list[Finding]]:
    """Ask every vendor that is present; findings are about what shim keeps of generated specs."""
    host, findings = machine.host, []
    try:
        outcome = refresh.refresh(host, machine.settings.spec_dirs, dry_run=True)
    except CdiError as error:
        outcome, findings = refresh.Outcome(), error.findings
    discoveries = list(outcome.discoveries)
    wish = Wish(launcher.installed() or _LAUNCHER)
    for name in vendors.MODULES:
        if not any(one.vendor == name for one in discoveries) and vendors.module(name).is_present(host, wish):
            try:
                discoveries += vendors.discover(host, wish, [name])
            except CdiError as error:
                findings = [*findings, *error.findings]
    return Hardware(discoveries, outcome), findings


def checks(machine: Machine, hardware: Hardware) -> Iterator[Check]:
    """The checks of module, nodes and library, three for each vendor."""
    served = machine.served.kinds()
    for discovery in {one.vendor: one for one in hardware.discoveries}.values():
        is_wanted = hardware.is_wanted(discovery.vendor, served)
        for check in (*_modules(machine, discovery), *_of_vendor(discovery)):
            yield check if is_wanted else check.softened()


def _of_vendor(discovery: Discovery) -> Iterator[Check]:
    vendor, found = discovery.vendor, discovery.devices
    versions = sorted({device.driver_version for device in found if device.driver_version})
    driver = f"driver {' and '.join(versions)}" if versions else ""
    count = f"{len(found)} device{'s' * (len(found) != 1)}"
    nodes = len({node for device in found for node in device.nodes})
    if discovery.waits_for:
        yield Check(MODULE, vendor, f"{count}, without a driver", [_unloaded(discovery)])
    else:
        yield Check(MODULE, vendor, ", ".join(filter(None, [count, driver])))
    faults: dict[str, list[Finding]] = {NODES: [], LIBRARY: []}
    for finding in discovery.findings:
        faults[LIBRARY if finding.id in _OF_LIBRARIES or "/dev/" not in finding.text else NODES].append(finding)
    yield Check(NODES, vendor, f"{nodes} node{'s' * (nodes != 1)}", faults[NODES], (vendor,))
    mounts = sum(len(draft.common.mounts) for draft in discovery.drafts)
    yield Check(LIBRARY, vendor, f"{mounts} file{'s' * (mounts != 1)} of the driver", faults[LIBRARY], (vendor,))


def _modules(machine: Machine, discovery: Discovery) -> Iterator[Check]:
    """MODULE_MISSING for a further module of a driver whose first module is loaded (proc(5), /proc/modules)."""
    host = machine.host
    loaded = {line.partition(" ")[0] for line in host.text("/proc/modules").splitlines()}
    first, *others = _MODULES.get(discovery.vendor, ("",))
    for name in others if first in loaded else ():
        if name not in loaded and not host.exists(f"/sys/module/{name}"):
            major = (
                "" if name.replace("_", "-") in host.text("/proc/devices") else ", and /proc/devices has no such driver"
            )
            text = f"the module {name} is not loaded, while {first} is{major}"
            finding = Finding("MODULE_MISSING", text, f"modprobe {name}; nvidia-modprobe -u -c 0 makes its nodes")
            yield Check(MODULE, discovery.vendor, "", [finding])


def _unloaded(discovery: Discovery) -> Finding:
    names = [device.pci_address or device.name for device in discovery.devices]
    which = f": {', '.join(names[:3])}{' …' * (len(names) > 3)}" if names else ""
    text = f"there is hardware of {discovery.vendor}{which}, and {discovery.waits_for} is not there"
    loads = _LOADS.get(discovery.vendor, "")
    return Finding("MODULE_MISSING", text, f"{loads}; `dmesg` shows why it does not load" if loads else "")


def unserved(machine: Machine, hardware: Hardware) -> Iterator[Check]:
    """SPEC_ABSENT, for each vendor whose devices no spec serves."""
    there = set(machine.served.kinds())
    refused = tuple(machine.served.findings)
    for discovery in hardware.discoveries:
        kinds = [draft.kind for draft in discovery.drafts]
        own = {one.kind for one in hardware.outcome.specs if one.vendor == discovery.vendor}
        if not kinds or there.intersection(kinds) or own & there:
            continue
        searched = ", ".join(machine.settings.spec_dirs)
        text = f"the host has devices of {discovery.vendor} ({', '.join(kinds)}), and no spec in {searched} serves any"
        remedy = f"shim cdi generate --vendor {discovery.vendor}"
        finding = Finding("SPEC_ABSENT", text, remedy)
        if not hardware.is_wanted(discovery.vendor, there):
            finding = finding.as_warning()
        yield Check(SPEC, f"spec of {discovery.vendor}", "", [finding], (discovery.vendor, *refused))


def freshness(hardware: Hardware) -> Iterator[Check]:
    """Whether each spec that shim wrote is what it would write now, and what would keep a refresh from writing it."""
    known = {(finding.id, finding.text) for one in hardware.discoveries for finding in one.findings}
    rest = [finding for finding in hardware.outcome.findings if (finding.id, finding.text) not in known]
    for one in hardware.outcome.specs:
        own = [finding for finding in rest if one.spec is not None and finding in one.spec.findings]
        rest = [finding for finding in rest if finding not in own]
        after = (one.vendor, one.path, devices_of(one.path))
        yield Check(SPEC, one.path, f"{one.kind}, {one.state}", [*_outdated(one), *own], after)
    every = tuple(subject for one in hardware.outcome.specs for subject in (one.vendor, one.path, devices_of(one.path)))
    if rest:
        yield Check(SPEC, "generated specs", "", rest, every)


def _outdated(one: Refreshed) -> list[Finding]:
    if one.state != refresh.STALE:
        return []
    text = "the host has changed since it was written"
    return [Finding("SPEC_STALE", text, path=one.path).as_warning()]
