"""Origin: who could have written the annotations of a config.json, which decides whether they are requests. HOT.

No annotation identifies an engine: an image, or the author of a Pod, can write every key that an engine writes. What
identifies the caller is what neither of them can write: the environment of the call, and the process that calls.

    client           neither of the engines below: containerd, docker, ctr, nerdctl, buildah, or a person. Annotations
                     come from the client or the kubelet
    cri-o            CRI_O_EXTERNAL=1 in the environment of the call; CRI-O sets it for each. Annotations come from the
                     kubelet and from the author of the Pod
    podman           the annotation MANAGER is there, whatever its value: podman puts it into each config.json (and
                     keeps what an image had under it); or the call is the precreate stage, which is podman's own. The
                     program is known, of a version that leaves out the annotations of images: they come from the client
    podman-unknown   the same, with a version that copies them, or one that is not known: the image may have written any

Which annotations count under all but a client is in shim.create.engine_annotations, the whole as a table in
docs/create.md. Source: CRI-O, internal/oci/runtime_oci.go (prepareEnv) and server/sandbox_run_linux.go; podman,
libpod/container_internal_common.go.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    Json = dict[str, Any]

    class Host(Protocol):
        """What is asked of shim.create.world.World."""

        def environ(self, name: str) -> str:
            """A variable of the environment of the call, "" when it is not set."""

        def podman(self, stage: str) -> tuple[str, str, str]:
            """Which podman calls: the members of an Origin, kind, source and remedy."""


CLIENT = "client"
CRIO = "cri-o"
PODMAN = "podman"
PODMAN_UNKNOWN = "podman-unknown"

MANAGER = "io.container.manager"
NERDCTL = "nerdctl/"  # nerdctl 2 copies labels of an image whose key holds it: the one way of an image past a client

_CRIO_VARIABLE = "CRI_O_EXTERNAL"


class Origin:
    """Who could have written the annotations of a config.json.

    Attributes:
        kind: CLIENT, CRIO, PODMAN or PODMAN_UNKNOWN.
        source: what shows it, a clause.
        remedy: of PODMAN_UNKNOWN: how annotations come to count, a clause.
    """

    __slots__ = ("kind", "remedy", "source")

    def __init__(self, kind: str, source: str, remedy: str = "") -> None:
        self.kind = kind
        self.source = source
        self.remedy = remedy


class Caller:
    """The process that calls.

    Arguments:
        host: answers what is asked about it.
        precreate: whether this is podman's precreate stage.
    """

    __slots__ = ("_host", "_precreate")

    def __init__(self, host: Host, *, precreate: bool) -> None:
        self._host = host
        self._precreate = precreate

    def engine(self, annotations: Json) -> str:
        """CRIO by the environment, PODMAN by its annotation or its stage, else CLIENT."""
        if self._precreate:
            return PODMAN
        if self._host.environ(_CRIO_VARIABLE) == "1":
            return CRIO
        return PODMAN if MANAGER in annotations else CLIENT

    def podman(self) -> Origin:
        """Which podman calls: PODMAN or PODMAN_UNKNOWN."""
        return Origin(*self._host.podman("precreate" if self._precreate else "create"))


def of(annotations: Json, caller: Caller) -> Origin:
    """Who could have written the annotations of a config.json.

    Arguments:
        annotations: all of them.
        caller: the process that calls.
    """
    engine = caller.engine(annotations)
    if engine == PODMAN:
        return caller.podman()
    if engine == CRIO:
        return Origin(CRIO, f"{_CRIO_VARIABLE}=1 is in the environment of the call")
    return Origin(
        CLIENT, f"{_CRIO_VARIABLE} is not in the environment of the call, and {MANAGER} not in the annotations"
    )
