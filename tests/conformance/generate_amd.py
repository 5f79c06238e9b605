"""Cases of generate-amd.json: what amd-ctk did on fake hosts with AMD GPUs.

Compared is what corresponds: of `cdi generate` what a container gets of each device; of `cdi list` and `gpu list` the
lines, made of our inventory; of `cdi validate` whether the file has what a fresh spec has. The commands of gpu-tracker
have no counterpart.

Groups of restricted nodes are left out, as amd-ctk leaves them out, by the feature that is meant for it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from shim.base.findings import ERROR
from shim.cdi import spec
from shim.discover import amd, generate, vendors
from shim.discover.model import Wish
from shim.discover.output import Target

from . import trees
from .scene import difference

if TYPE_CHECKING:
    from shim.host.host import Host

_USUAL = "/etc/cdi/amd.json"  # without --output
WISH = Wish("/usr/bin/shim", features=frozenset({"no-additional-gids-for-device-nodes"}))

_WIDE_DOMAIN = re.compile(r"/[0-9a-f]{5,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_GPU_LINE = re.compile(r"(\d+)\s+(\S+)\s+(\S+)\s*")


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else the id of a deviation, or what differs."""
    tree, argv, expected = case["input"]["tree"], case["input"]["argv"], case["expect"]
    if argv[0] == "gpu-tracker":
        return "no-tracker"
    host = trees.build(tree, tmpdir)
    if argv == ["gpu", "list"]:
        return _gpu_list(host, expected)
    if argv == ["cdi", "list"]:
        return _cdi_list(host, expected, tree)
    if argv[:2] == ["cdi", "validate"]:
        return _validate(host, argv, case["input"], expected)
    return _generate(host, argv, expected, tree)


def document(host: Host) -> dict[str, Any] | None:
    """The spec of a host; None when there is nothing to write."""
    documents = vendors.documents(amd.discover(host, WISH), WISH)
    return documents[0][1] if documents else None


def _generate(host: Host, argv: list[str], expected: dict[str, Any], tree: dict[str, Any]) -> str | None:
    path = next((word.partition("=")[2] for word in argv if word.startswith("--output=")), _USUAL)
    if "is a directory" in expected.get("error", ""):
        host.real(path).mkdir()  # one of the reference's surroundings, not of the tree
    outcome = generate.generate(host, WISH, Target(file=path), ["amd"])
    if expected["status"]:
        is_error = any(finding.level == ERROR for finding in outcome.findings)
        return None if is_error and not outcome.written else f"no failure, but the reference's: {expected['error']}"
    text = host.read(path) if outcome.written else None
    written = spec.parse(text).document if text else None
    theirs = trees.container(expected["spec"], host)
    ours = trees.container(written, host) if written else {}
    if written and written["kind"] != expected["spec"]["kind"]:
        return f"a spec of {written['kind']}"
    wrong = difference(ours, theirs)
    reported = {finding.path for finding in outcome.findings}
    return wrong and (_deviation(ours, theirs, tree, reported) or wrong)


def _deviation(ours: dict[str, Any], theirs: dict[str, Any], tree: dict[str, Any], reported: set[str]) -> str | None:
    """The deviation that alone makes the difference."""
    if not ours and set(theirs) == {"all"} and set(theirs["all"]["nodes"]) == {"/dev/kfd"}:
        return "all-of-none"
    if ours == trees.existing(theirs, is_needed=lambda path: "/renderD" in path):
        return "node-missing" if trees.absent(theirs, _is_reported) <= reported else None
    wide = any(_WIDE_DOMAIN.search(path) for path in tree)
    return "pci-domain" if wide and _without_wide(tree, ours) == theirs["all"]["nodes"].keys() else None


def _is_reported(path: str) -> bool:
    """Whether a node that is missing is to be reported: the kernel has nodes of these names only."""
    return re.fullmatch(r"/dev/(kfd|dri/card\d+|dri/renderD\d+)", path) is not None


def _without_wide(tree: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """The nodes of `all` but for those of GPUs in a domain of more than four digits."""
    wide = {path for path in tree if re.search(r"/[0-9a-f]{5,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]/drm/", path)}
    names = {path.partition("/drm/")[2].partition("/")[0] for path in wide}
    return {path for path in ours["all"]["nodes"] if path.rpartition("/")[2] not in names}


def _gpu_list(host: Host, expected: dict[str, Any]) -> str | None:
    """The table of `gpu list`: index, unique id, render node."""
    rows = [match.groups() for line in expected["stdout"].splitlines() if (match := _GPU_LINE.fullmatch(line))]
    ours = [(device.name, device.uuid or "N/A", _render(device.nodes)) for device in _served(host)]
    if ours == rows:
        return None
    if ours == [(name, "N/A" if uuid == "0x0" else uuid, node) for name, uuid, node in rows]:
        return "unique-id-zero"
    return f"{ours} instead of {rows}"


def _cdi_list(host: Host, expected: dict[str, Any], tree: dict[str, Any]) -> str | None:
    """The lines of `cdi list`: each name with its render node, `all` before them."""
    lines = [line.strip() for line in expected["stdout"].splitlines()[1:] if line.strip()]
    written = document(host)
    ours = [f"{written['kind']}=all"] if written else []
    for device in _served(host):
        ours += [f"amd.com/gpu={device.name}", _render(device.nodes)]
    if ours == lines:
        return None
    if not lines and any(_WIDE_DOMAIN.search(path) for path in tree):
        return "pci-domain"
    there = [line for line in lines if not line.startswith("/") or line in tree]
    return "node-missing" if [line for line in ours if line] == there else f"{ours} instead of {lines}"


def _served(host: Host) -> list[Any]:
    return [device for device in amd.discover(host, WISH).devices if device.name.isdecimal()]


def _render(nodes: tuple[str, ...]) -> str:
    return next((node for node in nodes if "/renderD" in node), "")


def _validate(host: Host, argv: list[str], given: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Whether a file has what a fresh spec has; that is what `generate` before it wrote, or a file of the tree."""
    path = argv[2].partition("=")[2]
    fresh = document(host)
    written = document(host) if "before" in given else None
    if written is None:
        faults = spec.faults(given["tree"][path].encode())
        if expected["status"]:
            return None if faults else "a broken file was taken"
        written = json.loads(given["tree"][path])
    is_valid = fresh is not None and trees.container(written, host) == trees.container(fresh, host)
    return None if is_valid == ("is valid" in expected["stdout"]) else f"valid: {is_valid}"
