"""The containers that docker has written down, running or not: names, and what it keeps of a failed start.

Source: moby, container/container.go (ID, Name) and container/state.go (Error)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.engines import lookup
from shim.engines.model import KnownContainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.host.host import Host

ROOT = "/var/lib/docker"


def containers(host: Host, engine: str, root: str) -> Iterator[KnownContainer]:
    """The containers below docker's data root.

    Arguments:
        host: the machine.
        engine: docker's name.
        root: the data root.
    """
    for file in host.glob(f"{root}/containers/*/config.v2.json"):
        kept = lookup.document(host, file)
        state = kept.get("State")
        error = str(state.get("Error") or "") if isinstance(state, dict) else ""
        yield KnownContainer(engine, str(kept.get("ID", "")), str(kept.get("Name", "")).lstrip("/"), error=error)
