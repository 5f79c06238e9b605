"""Rules: devices that need no code. A file of rules says which nodes of a host are devices, and of what kind.

    files (reader.py) ──> Rule ──> matches (match.py) ──> DraftDevices

A rule has a glob of device nodes, or of directories below /sys, and conditions on sysfs attributes; each match is a
device. Names, nodes and all else are templates, filled in from the match. The specs of all rules of one kind are one
spec. Only what a file of the administrator asks for is discovered: the files that come with shim are examples, which
are switched on by a copy or a link in /etc/shim/rules.d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.edits import READ_ONLY, Edits
from shim.discover.model import Device, Discovery, Draft, DraftDevice
from shim.discover.rules.match import Match, expand, matches
from shim.discover.rules.reader import read
from shim.host.tree import Tree

if TYPE_CHECKING:
    from shim.discover.model import Wish
    from shim.discover.rules.model import Additions, Rule
    from shim.host.host import Host

VENDOR = "rules"


def is_present(host: Host, wish: Wish) -> bool:
    """Whether there is a file of rules."""
    tree = Tree(host)
    return any(name.endswith(".toml") for directory in wish.rules_dirs for name in tree.names(directory))


def discover(host: Host, wish: Wish) -> Discovery:
    """The devices that rules match.

    Findings: RULE_INVALID for a file that is refused, DISCOVERY_DEVICE for a match that lacks a name or a node,
    DISCOVERY_PART for a rule that matches nothing.
    """
    tree = Tree(host)
    rules, findings = read(host, wish.rules_dirs)
    drafts: dict[str, Draft] = {}
    devices: list[Device] = []
    for rule in rules:
        draft = drafts.setdefault(rule.kind, Draft(rule.kind, can_have_all=rule.has_all))
        found = list(matches(rule, tree))
        if not found:
            text = f"nothing of this host matches the rule {rule.number} ({rule.match})"
            remedy = "load the driver, plug in the device, or remove the rule"
            findings.append(Finding("DISCOVERY_PART", text, remedy, path=rule.path, line=rule.line))
        drafted = [entry for entry in (_draft(rule, match, tree, findings) for match in found) if entry]
        if drafted:
            common = Edits()
            missing = _add(common, rule.common, Match(rule, "", 0, tree), tree)
            if missing:
                text = f"no device of {rule.kind} is written, since all of them need it: {missing}"
                findings.append(Finding("DISCOVERY_DEVICE", text, path=rule.path, line=rule.line))
                continue
            draft.common.add(common)
        drafts[rule.kind] = Draft(
            rule.kind,
            draft.common,
            (*draft.devices, *(entry for entry, _ in drafted)),
            draft.can_have_all and rule.has_all,
        )
        devices += [device for _, device in drafted]
    return Discovery(VENDOR, tuple(drafts.values()), tuple(devices), tuple(findings))


def _draft(rule: Rule, match: Match, tree: Tree, findings: list[Finding]) -> tuple[DraftDevice, Device] | None:
    """A match as a device of a spec and of the inventory; None, and a finding, for one that lacks something."""
    names = [name for name in dict.fromkeys(match.name(template) for template in rule.names) if name]
    edits = Edits()
    missing = _add(edits, rule.additions, match, tree)
    cause = missing or ("" if names else f"none of the names {list(rule.names)} can be filled in")
    if cause:
        text = f"{match.path} is left out of {rule.kind}: {cause}"
        findings.append(Finding("DISCOVERY_DEVICE", text, path=rule.path, line=rule.line))
        return None
    inventory = Device(
        names[0],
        VENDOR,
        model=match.text(rule.model) or "",
        pci_address=match.pci_address(),
        numa_node=match.numa_node(),
        cdi_names=tuple(f"{rule.kind}={name}" for name in names),
        nodes=tuple(node.host_path for node in edits.nodes.values()),
    )
    return DraftDevice(tuple(names), edits, (match.path,)), inventory


def _add(edits: Edits, additions: Additions, match: Match, tree: Tree) -> str:
    """Add what a rule adds for a match; what is missing, "" for nothing."""
    for template, is_optional in additions.nodes:
        pattern = match.text(template, is_pattern=True)
        added = [edits.add_node(tree, path) for path in (expand(tree, pattern) if pattern else [])]
        if not is_optional and not any(added):
            return f"{pattern or template} is no device node"
    for mount in additions.mounts:
        source, target = match.text(mount.source), match.text(mount.target)
        if source and target and tree.resolve(source):
            edits.add_mount(tree, source, target, mount.options or READ_ONLY)
        elif not mount.is_optional:
            return f"{source or mount.source} is missing, which is to be mounted"
    for name, template in additions.env:
        value = match.text(template)
        if value is None:
            return f"the variable {name} cannot be filled in from {template!r}"
        edits.env.setdefault(name, value)
    for link, target in additions.links:
        texts = match.text(link), match.text(target)
        if texts[0] and texts[1]:
            edits.add_link(texts[0], texts[1])
    for folder in additions.folders:
        edits.add_folder(folder)
    edits.foreign_hooks += [dict(hook) for hook in additions.hooks]
    return ""
