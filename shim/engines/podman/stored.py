"""The containers that podman's storage has written down, running or not.

Source: containers/storage, containers.go (ID, Names)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.paths import parent
from shim.engines import lookup
from shim.engines.model import KnownContainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.host.host import Host

_ROOT = "/var/lib/containers/storage"
_OF_USERS = ".local/share/containers/storage"


def containers(host: Host, engine: str) -> Iterator[KnownContainer]:
    """The containers of root's storage, and of the storage of this user.

    Arguments:
        host: the machine.
        engine: podman's name.
    """
    for top in (_ROOT, f"{host.environment.get('HOME', '')}/{_OF_USERS}"):
        for file in host.glob(f"{top}/overlay-containers/containers.json"):
            listed = lookup.decoded(host, file)
            for entry in listed if isinstance(listed, list) else ():
                if isinstance(entry, dict) and isinstance(entry.get("id"), str):
                    bundle = f"{parent(file)}/{entry['id']}/userdata"
                    config = lookup.document(host, f"{bundle}/config.json")
                    name = str(next(iter(entry.get("names") or ()), ""))
                    yield KnownContainer(engine, entry["id"], name, bundle if config else "", config=config)
