"""The program that hooks of generated specs name: every engine starts it as root, for as long as the spec is there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean

if TYPE_CHECKING:
    from typing import Any

    from shim.host.host import Host

# PREFIX/lib/shim/VERSION-N goes with the next installation
_PRIVATE = re.compile(r"/lib/shim/[^/]+/")


def checked(path: str) -> str:
    """A path of --hook-path.

    Raises CdiError: DISCOVERY_WISH where it is not absolute, or lies in the private directory of one installation.
    """
    if not path.startswith("/"):
        raise _wish(f"--hook-path {path}: it is not an absolute path")
    if _PRIVATE.search(path):
        raise _wish(f"--hook-path {path}: the next installation of shim removes that directory")
    return clean(path)


def faults(host: Host, path: str, document: dict[str, Any]) -> list[Finding]:
    """Why a spec's hooks could not be started: HOOK_MISSING or HOOK_UNTRUSTED; none where it names no such hook.

    Arguments:
        host: the machine.
        path: of the program.
        document: of the spec.
    """
    holders = [document.get("containerEdits"), *(device["containerEdits"] for device in document["devices"])]
    if not any(hook["path"] == path for edits in holders for hook in (edits or {}).get("hooks", ())):
        return []
    if not host.find(path):
        text = f"{path}, which the hooks of {document['kind']} would start, is missing, or cannot be executed"
        return [Finding("HOOK_MISSING", text, "name the launcher with --hook-path; `make install` makes it")]
    objection = host.objection(path)
    if objection:
        text = (
            f"{path}, which the hooks of {document['kind']} would start as root, can be changed by others: {objection}"
        )
        return [Finding("HOOK_UNTRUSTED", text)]
    return []


def _wish(text: str) -> CdiError:
    remedy = "name the stable path of the launcher, such as /usr/local/bin/shim"
    return CdiError([Finding("DISCOVERY_WISH", text, remedy)])
