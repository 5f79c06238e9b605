"""Which annotations of a config.json are requests. HOT.

Those whose key has a prefix of the configuration, unless others than the client and the kubelet could have written them
(shim.create.annotation_origin), and none in the sandbox of a pod.
"""

from __future__ import annotations

from shim.base.findings import Finding
from shim.cdi.names import BadName, parse_qualified, quoted
from shim.create.annotation_origin import CLIENT, CRIO, NERDCTL, Caller, of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.config.settings import Settings
    from shim.create.annotation_origin import Host

    Json = dict[str, Any]


class AnnotationRequests:
    """What counts of the annotations of a config.json.

    Attributes:
        requests: the annotations that are requests, and count.
        findings: about requests that do not count.
        is_sandbox: whether this is the sandbox of a pod, which is left alone.
    """

    __slots__ = ("findings", "is_sandbox", "requests")

    def __init__(self, requests: Json, findings: list[Finding], *, is_sandbox: bool = False) -> None:
        self.requests, self.findings, self.is_sandbox = requests, findings, is_sandbox


def find(config: Json, id: str, settings: Settings, host: Host, *, precreate: bool) -> AnnotationRequests:
    """Which annotations of a config.json are requests.

    Arguments:
        config: the decoded config.json.
        id: the container's id, "" when the call has none.
        settings: which keys are requests, and whose annotations count.
        host: answers what is asked about the process that calls.
        precreate: whether this is podman's precreate stage.
    Raises:
        CdiError: REQUEST_ORIGIN, when an annotation asks that an image may have written.
    """
    annotations = config.get("annotations")
    if not isinstance(annotations, dict):
        return AnnotationRequests({}, [])
    caller = Caller(host, precreate=precreate)
    engine = caller.engine(annotations)
    if is_sandbox(annotations, id, crio=engine == CRIO):
        return AnnotationRequests({}, [], is_sandbox=True)
    requests = {key: value for key, value in annotations.items() if key.startswith(settings.annotation_prefixes)}
    near = list(near_requests(annotations, requests, settings.annotation_prefixes).values())
    if not requests or (engine == CLIENT and not any(NERDCTL in key for key in requests)):
        return AnnotationRequests(requests, near)
    from shim.create import engine_annotations  # late: under containerd and docker all of them count

    counting, findings = engine_annotations.judge(requests, annotations, settings, of(annotations, caller))
    return AnnotationRequests(counting, [*findings, *near])


def near_requests(annotations: Json, requests: Json, prefixes: tuple[str, ...]) -> dict[str, Finding]:
    """Annotations that ask for nothing and were probably meant to: the container starts without a device.

    Arguments:
        annotations: all of config.json.
        requests: those that are requests.
        prefixes: a key that begins with one of these is a request.
    Returns:
        key -> a warning.
    """
    folded = tuple(prefix.casefold() for prefix in prefixes)
    stems = tuple(prefix.rstrip("/") for prefix in folded)
    vendors = {name.partition("/")[0] for value in requests.values() for name in str(value).split(",")}
    findings = {}
    for key, value in annotations.items():
        if key in requests or not isinstance(value, str):
            continue
        if "=" in value and stems and key.strip().casefold().startswith(stems):
            text = f"annotation {quoted(key)} is no request: a key of one begins with {' or '.join(prefixes)}"
        elif _is_name(f"{key}={value}") and key.partition("/")[0] in vendors:
            # podman 4.3 cuts the value of --annotation at its commas
            text = (
                f"annotation {quoted(key)} with the value {quoted(value)} is none, though {key}={value} names a device"
            )
        else:
            continue
        findings[key] = Finding("ANNOTATION_NEAR", text)
    return findings


def _is_name(text: str) -> bool:
    try:
        parse_qualified(text)
    except BadName:
        return False
    return True


# containerd and CRI-O: the key of what a container is, and the key of the id of its pod's sandbox
_CONTAINERD = ("io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id")
_CRIO = ("io.kubernetes.cri-o.ContainerType", "io.kubernetes.cri-o.SandboxID")
# CRI-O's name of a sandbox: a label, and CRI-O writes labels last, over what the author of the Pod wrote
_CRIO_NAME, _CRIO_INFRA = "io.kubernetes.container.name", "POD"
SANDBOX_KEYS = (*_CONTAINERD, *_CRIO, _CRIO_NAME)


def is_sandbox(annotations: Json, id: str, *, crio: bool) -> bool:
    """Whether this is a pod's pause container, in which no one works, though it has the annotations of its pod.

    The type alone is no proof, as an image or a Pod may have written it, and the container would lose the device that
    its client asked for. What they cannot know is the id that the engine gives to the container.

    Arguments:
        annotations: all of config.json.
        id: the container's id, "" when the call has none, as in podman's precreate stage: podman has no such pods.
        crio: whether CRI-O calls. In a sandbox of CRI-O its Pod can have replaced both keys, to have its own requests
            count as those of a container.
    """
    if crio and annotations.get(_CRIO_NAME) == _CRIO_INFRA:
        return True
    type_key, id_key = _CRIO if crio else _CONTAINERD
    return bool(id) and annotations.get(type_key) == "sandbox" and annotations.get(id_key) == id
