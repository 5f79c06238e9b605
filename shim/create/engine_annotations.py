"""Which annotations count under CRI-O, podman and nerdctl, where others than client and kubelet may have written some.

Late: under containerd and docker it is not needed.

    CRI-O    copies annotations of the Pod, which its author writes, into each container. Those of the container alone,
             which the kubelet writes, are in the annotation OWN as a JSON object, which CRI-O writes after those of the
             Pod: a request counts where both have it with the same value. (CRI-O's own CDI reads the container's, too.)
    podman   before 4.6 copies annotations of the image's manifest, and nothing marks them off from those of the command
             line: with one that asks, the container is not started.
    nerdctl  2 copies labels of an image whose key holds NERDCTL: likewise.

Source: CRI-O, internal/factory/container/container.go (SpecAddAnnotations); podman, commit 2c0f404826; nerdctl,
pkg/cmd/container/create.go (propagateInternalContainerdLabelsToOCIAnnotations).
"""

from __future__ import annotations

from shim.base import fastjson
from shim.base.findings import CdiError, Finding
from shim.cdi.names import quoted
from shim.config.location import SYSTEM_FILE
from shim.config.settings import ANY, IGNORE, OFF
from shim.create.annotation_origin import CLIENT, CRIO, NERDCTL, PODMAN_UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.config.settings import Settings
    from shim.create.annotation_origin import Origin

    Json = dict[str, Any]

OWN = "io.kubernetes.cri-o.Annotations"

_TOLD = 3  # annotations in a text
_LONGEST = 100  # letters of a value in a text


def judge(asking: Json, given: Json, settings: Settings, origin: Origin) -> tuple[Json, list[Finding]]:
    """The annotations that count, of those that ask, and what is to be reported about the others.

    Arguments:
        asking: annotations that ask.
        given: all annotations of config.json.
        settings: whose annotations count.
        origin: who could have written them.
    Raises:
        CdiError: REQUEST_ORIGIN.
    """
    if origin.kind == CRIO and settings.pod_annotations == OFF:
        return _of_container(asking, given.get(OWN))
    if origin.kind == PODMAN_UNKNOWN and settings.podman_annotations == IGNORE:
        text = f'{_listed(asking)}: sources.podman-annotations is "{IGNORE}", and the image may have written it'
        return {}, [Finding("REQUEST_IGNORED", text)]
    if origin.kind == PODMAN_UNKNOWN and settings.podman_annotations != ANY:
        text = f"{_listed(asking)}: the image may have written it, as podman before 4.6 copies its annotations, and"
        raise CdiError([Finding("REQUEST_ORIGIN", f"{text} {origin.source}", origin.remedy)])
    if origin.kind == CLIENT:
        labels = {key: value for key, value in asking.items() if NERDCTL in key}
        text = f"{_listed(labels)}: the image may have written it, as nerdctl copies its labels under such keys"
        remedy = f"ask by an annotation whose key does not hold {NERDCTL}"
        raise CdiError([Finding("REQUEST_ORIGIN", text, remedy)])
    return asking, []


def _of_container(asking: Json, own: Any) -> tuple[Json, list[Finding]]:
    """The annotations that ask and are the container's own, and what is to be reported about the others.

    Arguments:
        asking: annotations that ask.
        own: the value of OWN.
    Raises:
        CdiError: REQUEST_ORIGIN, when the container's own asks for something else than config.json: what the kubelet
            asked for must not be lost.
    """
    read = _read(own)
    counts, others, replaced = {}, {}, {}
    for key, value in asking.items():
        if key not in read:
            others[key] = value
        elif read[key] == value:
            counts[key] = value
        else:
            replaced[key] = value
    if replaced:
        text = f"{_listed(replaced)}: {OWN}, which has the annotations of the container alone, has another value for it"
        remedy = "let the annotation of the Pod, or the plugin that changes config.json, have another key"
        raise CdiError([Finding("REQUEST_ORIGIN", text, remedy)])
    if not others:
        return counts, []
    what = "the container itself has no such annotation, only its Pod" if read is not _NOTHING else f"{OWN} {_UNREAD}"
    text = f"{_listed(others)}: {what}, and the author of a Pod writes those"
    remedy = (
        "let a device plugin ask, by a resource in the container's limits; or set "
        f'sources.pod-annotations = "{ANY}" in {SYSTEM_FILE}, where every author of a Pod may have every device'
    )
    return counts, [Finding("REQUEST_IGNORED", text, remedy)]


_NOTHING: Json = {}
_UNREAD = "is no JSON object, so nothing is known of the container's own annotations"


def _read(own: Any) -> Json:
    """The object in OWN; _NOTHING for what CRI-O would not write: no text, no JSON object, a name twice."""
    try:
        found, replaced = fastjson.loads_noting(own) if isinstance(own, str) else (None, [])
    except ValueError:
        return _NOTHING
    return found if isinstance(found, dict) and not replaced else _NOTHING


def _listed(annotations: Json) -> str:
    """Annotations in the words of a finding: `annotation KEY asks for VALUE`."""
    listed = [f"annotation {quoted(key)[1:-1]} asks for {_short(value)}" for key, value in annotations.items()]
    more = f" and {len(listed) - _TOLD} more" if len(listed) > _TOLD else ""
    return ", ".join(listed[:_TOLD]) + more


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
