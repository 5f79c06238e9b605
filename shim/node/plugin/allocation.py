"""Which answer a request of the kubelet gets: a pure function. A refusal's message is shown in the pod's event.

The answer has the names of the specs in one of two forms, and nothing else: no variable and no mount, since what a
device consists of is the spec's business.

- annotation: `cdi.k8s.io/RESOURCE`, which the shim reads, and engines whose own CDI support is on. The key has the
  name of the resource: of two answers with equal keys for one container the kubelet keeps one.
- cdi: CDIDevices of the CRI, which the engine resolves.

Never both: an engine that resolves CDI reads annotations as well, so the second form would give nothing more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.nearest import nearest
from shim.cdi.annotations import PREFIX, value
from shim.node.settings import CDI

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shim.node.plugin.snapshot import ResourceState

_LONGEST_KEY = 63  # letters behind the slash of an annotation's key
_SHOWN = 8
_DIGEST = 10
_LOOK = "`shim node plugin --dry-run` on the node shows all of them"
INVALID, MISSING, FAULTY = "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"


class RefusedError(Exception):
    """A request that is refused.

    Arguments:
        code: the name of gRPC's status code.
        text: cause, what exists instead, remedy.
    """

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


@dataclass(frozen=True)
class Answer:
    """What a container gets.

    Attributes:
        annotations: of the container.
        cdi_devices: qualified names for CDIDevices.
        names: the qualified names, in either form.
    """

    names: tuple[str, ...]
    annotations: Mapping[str, str]
    cdi_devices: tuple[str, ...]


def answers(state: ResourceState, containers: Sequence[Sequence[str]], form: str, prefix: str = PREFIX) -> list[Answer]:
    """The answer to Allocate.

    Arguments:
        state: the resource now.
        containers: the ids for each container.
        form: "cdi" or "annotation".
        prefix: of the annotation's key, ending in a slash.
    Raises:
        RefusedError: an id is unknown or not usable, or the request makes no sense. Then no container gets anything.
    """
    if not containers:
        raise RefusedError(INVALID, f"{state.resource.name}: the request has no container")
    return [_answer(state, ids, form, prefix) for ids in containers]


def key(resource: str, prefix: str = PREFIX) -> str:
    """The key of a resource's annotation; a long name is cut, and its digest keeps it apart.

    Arguments:
        resource: its name, valid for Kubernetes.
        prefix: ending in a slash.
    """
    word = resource.replace("/", "_")
    if len(word) > _LONGEST_KEY:
        digest = hashlib.sha256(word.encode()).hexdigest()[:_DIGEST]
        word = f"{word[: _LONGEST_KEY - _DIGEST - 1]}_{digest}"
    return prefix + word


def check(state: ResourceState, ids: Sequence[str], what: str) -> None:
    """Refuse ids that are unknown or given twice.

    Arguments:
        state: the resource now.
        ids: of one container.
        what: the ids, for messages.
    Raises:
        RefusedError: INVALID_ARGUMENT or NOT_FOUND.
    """
    name = state.resource.name
    twice = [id for index, id in enumerate(ids) if id in ids[:index]]
    if twice:
        raise RefusedError(INVALID, f"{name}: the request has {twice[0]!r} twice in {what}")
    for id in ids:
        if id not in state.ids:
            raise _unknown(state, id)


def _answer(state: ResourceState, ids: Sequence[str], form: str, prefix: str) -> Answer:
    resource = state.resource
    if not ids:
        raise RefusedError(INVALID, f"{resource.name}: the request has a container without devices")
    check(state, ids, "devices_ids")
    if resource.replicas > 1 and len(ids) > 1 and not resource.several_replicas:
        text = (
            f"{resource.name}: a container asks for {len(ids)}, and it is shared: more replicas give a container no "
            f"larger share. Ask for 1, or set several-replicas = true for {resource.name} in node.toml on the node"
        )
        raise RefusedError(INVALID, text)
    units = dict.fromkeys(state.ids[id] for id in ids)
    for unit in units:
        if unit.fault:
            usable = ", ".join(other.unit.device for other in state.healthy()[:_SHOWN]) or "none"
            text = f"{unit.unit.name} cannot be used now: {unit.fault}. Usable units of {resource.name}: {usable}"
            raise RefusedError(FAULTY, text)
    names = tuple(unit.unit.name for unit in units)
    if form == CDI:
        return Answer(names, {}, names)
    return Answer(names, {key(resource.name, prefix): value(names)}, ())


def _unknown(state: ResourceState, id: str) -> RefusedError:
    name, ids = state.resource.name, list(state.ids)
    device = id.partition("::")[0] if id not in state.left_out else id
    if device in state.left_out:
        text = f"{state.resource.kind}={device} is no unit of {name}: {state.left_out[device]}"
        return RefusedError(INVALID, f"{text}. Units: {_listed(ids)}; {_LOOK}")
    near = nearest(id, ids) if len(ids) > _SHOWN else []
    hint = f"nearest of {len(ids)}: {', '.join(near)}" if near else f"there are: {_listed(ids)}"
    return RefusedError(MISSING, f"{name} has no device {id[:200]!r} ({hint}); {_LOOK}")


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return (", ".join(ids[:_SHOWN]) or "none") + more
