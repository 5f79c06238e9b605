"""A container by the name that its users know, looked up where engines write it. Only read.

    engine              a running container                                    one that does not run
    ------------------  -----------------------------------------------------  --------------------------------------
    docker              the shim's bundle has the id; the name is in           the same file
                        containers/ID/config.v2.json of docker's data root
    podman, CRI-O       conmon has id, name and bundle on its command line     overlay-containers/containers.json
    containerd, CRI     the shim's bundle has the id; names are annotations    -
    nerdctl             of config.json

Sources: conmon(8); containerd, core/runtime/v2, Bundle; moby, container/container.go (Name, State); containers/storage,
containers.go (KnownContainer.Names)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError
from shim.base.paths import parent
from shim.engines.in_use import SHIMS
from shim.engines.model import EVERY_OTHER, KnownContainer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shim.engines.contract import Engine
    from shim.host.host import Daemon, Host

    Json = dict[str, Any]

# Annotations with namespace, Pod and container, outermost first; a name is the end of such a tuple, joined by "/".
NAMES = (
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"),
    ("nerdctl/namespace", "nerdctl/name"),
)


def find(host: Host, word: str, engines: Iterable[Engine]) -> list[KnownContainer]:
    """The containers that a word means: by the whole id or name, else by the beginning of the id.

    Arguments:
        host: the machine.
        word: an id, the beginning of an id, or a name: NAME, POD/NAME or NAMESPACE/POD/NAME.
        engines: that are asked.
    """
    every = known(host, engines)
    whole = [one for one in every if one.id == word or (one.name and f"/{one.name}".endswith(f"/{word}"))]
    return whole or [one for one in every if one.id.startswith(word)]


def known(host: Host, engines: Iterable[Engine]) -> list[KnownContainer]:
    """Every container that is found, those that run first; each id once."""
    found: dict[str, KnownContainer] = {}
    asked = list(engines)
    stored = {one.id: one for engine in asked for one in engine.stored_containers(host)}
    for one in (*_of_shims(host, asked), *_of_monitors(host, asked)):
        other = stored.get(one.id)
        name = one.name or (other.name if other else "")
        found.setdefault(
            one.id, KnownContainer(one.engine, one.id, name, one.bundle, one.program, one.pid, "", one.config)
        )
    for id, one in stored.items():
        found.setdefault(id, one)
    return list(found.values())


def _of_shims(host: Host, engines: Sequence[Engine]) -> Iterator[KnownContainer]:
    shims = [shim for name in SHIMS for shim in host.daemons(name, of_every_user=True)]
    for tasks, shim in {parent(shim.cwd): shim for shim in shims}.items():
        namespace = shim.option("-namespace")
        own = (one.name for one in engines if namespace in one.shim_namespaces)
        engine = next(own, next((one.name for one in engines if EVERY_OTHER in one.shim_namespaces), ""))
        for file in host.glob(f"{tasks}/*/config.json"):
            bundle = parent(file)
            config = document(host, file)
            program = host.find(host.text(f"{bundle}/runtime") or "runc", path=shim.path)
            pid = _pid(host, f"{bundle}/init.pid")
            name = _label(config)
            yield KnownContainer(engine, bundle.rpartition("/")[2], name, bundle, program, pid, config=config)


def _of_monitors(host: Host, engines: Sequence[Engine]) -> Iterator[KnownContainer]:
    for monitor in host.daemons("conmon", of_every_user=True):
        bundle, id = monitor.option("-b", "--bundle"), monitor.option("-c", "--cid")
        if not bundle.startswith("/") or not id or monitor.option("--exec-process-spec"):
            continue
        config = document(host, f"{bundle}/config.json")
        annotations = config.get("annotations")
        manager = annotations.get("io.container.manager") if isinstance(annotations, dict) else ""
        name = _label(config) or monitor.option("-n", "--name")
        engine = next((one.name for one in engines if one.manager and one.manager == manager), "")
        pid = _pid(host, monitor.option("-p", "--container-pidfile"))
        yield KnownContainer(engine, id, name, bundle, _program(host, monitor), pid, config=config)


def _program(host: Host, monitor: Daemon) -> str:
    return host.find(monitor.option("-r", "--runtime"), path=monitor.path)


def document(host: Host, path: str) -> Json:
    """A JSON object in a file, {} where there is none."""
    value = decoded(host, path)
    return value if isinstance(value, dict) else {}


def decoded(host: Host, path: str) -> Any:
    """What a JSON file holds, None where there is none."""
    try:
        return json.loads(host.read(path) or b"null")
    except (CdiError, ValueError, RecursionError):
        return None


def _pid(host: Host, path: str) -> int:
    text = host.text(path) if path else ""
    return int(text) if text.isdecimal() and host.exists(f"/proc/{text}") else 0


def _label(config: Json) -> str:
    annotations = config.get("annotations")
    if not isinstance(annotations, dict):
        return ""
    rows: list[list[str]] = [
        [annotations[key] for key in keys if isinstance(annotations.get(key), str)] for keys in NAMES
    ]
    longest = max(rows, key=len)
    return "/".join(longest)
