"""Requests that the engine's present runtime, a vendor's, takes and shim does not: to know before moving to shim.

A vendor's runtime takes variables of every image by default; shim takes them where its configuration allows it. Nothing
fails where a request does not count: the container starts without its device. So `shim runtime configure` reports which
requests will no longer count, and how many of the containers that run now ask in that way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.config.location import SYSTEM_FILE
from shim.config.settings import ANY, MOUNTS_BELOW, OFF, PRIVILEGED, Settings
from shim.engines import sources, vendors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shim.engines.model import Registry
    from shim.engines.running import Container
    from shim.engines.vendors import Policy
    from shim.host.host import Host

_WHOSE = {OFF: "no container", PRIVILEGED: "containers with CAP_SYS_ADMIN", ANY: "every container"}
_ORDER = (OFF, PRIVILEGED, ANY)
_REPLACED = ("nvidia-cdi-hook", "nvidia-ctk")  # hooks of the specs that the vendor's runtime applies
_SHOWN = 4  # ids in a text


@dataclass
class LostRequests:
    """Requests of one kind that count now, and will not under shim.

    Attributes:
        source: "environment", "mounts", "annotations" or "old-images".
        what: the requests, a clause.
        taken_from: OFF, PRIVILEGED or ANY: the containers from which the vendor's runtime takes them.
        counts_for: the same of shim.
        remedy: how such containers get their devices under shim, a clause.
        path, line: where the vendor's configuration sets it; "" and 0 where it is the default.
        containers: ids of the containers that run now and ask so.
    """

    source: str
    what: str
    taken_from: str
    counts_for: str
    remedy: str
    path: str = ""
    line: int = 0
    containers: list[str] = field(default_factory=list)

    def finding(self, program: str) -> Finding:
        """VENDOR_REQUESTS, for people."""
        shown = ", ".join(id[:12] for id in self.containers[:_SHOWN])
        more = f" and {len(self.containers) - _SHOWN} more" if len(self.containers) > _SHOWN else ""
        count = len(self.containers)
        now = f"{count} that {'runs' if count == 1 else 'run'} now: {shown}{more}" if count else "none that runs now"
        text = (
            f"{program} takes {self.what} as a request, from {_WHOSE[self.taken_from]}; shim takes it from "
            f"{_WHOSE[self.counts_for]}. Containers that ask so: {now}"
        )
        return Finding("VENDOR_REQUESTS", text, self.remedy, path=self.path, line=self.line)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "source": self.source,
            "taken_from": self.taken_from,
            "counts_for": self.counts_for,
            "containers": self.containers,
        }


def compare(
    host: Host, containers: Sequence[Container], registry: Registry, ways: str, program: str = ""
) -> list[LostRequests]:
    """What will no longer count once containers of an engine come to shim.

    Arguments:
        host: the machine.
        containers: of the engine, those that run.
        registry: the engine's present configuration.
        ways: how people ask shim under this engine, a clause.
        program: the vendor's program that they come from; that of the default runtime when not given.
    Returns:
        an empty list where the default runtime is none of a vendor.
    """
    program = program or vendors.program(registry)
    if not program:
        return []
    settings = sources.settings_or_defaults(host)
    policy = vendors.policy(host, program)
    result = []
    for lost, asks in _kinds(policy, settings, ways):
        if _ORDER.index(lost.counts_for) < _ORDER.index(lost.taken_from):
            lost.path = policy.file if lost.line else ""
            lost.containers = [
                container.id for container in containers if asks(container) and _is_lost(lost, container)
            ]
            result.append(lost)
    return result


def _is_lost(lost: LostRequests, container: Container) -> bool:
    was_taken, counts = (
        level == ANY or (level == PRIVILEGED and container.is_privileged)
        for level in (lost.taken_from, lost.counts_for)
    )
    return was_taken and not counts


def _kinds(policy: Policy, settings: Settings, ways: str) -> Iterator[tuple[LostRequests, Callable[[Container], bool]]]:
    names = (*policy.preferred, *policy.variables)
    is_known = any(name in settings.variables or name in settings.swarm_variables for name in names)

    def allow(key: str, level: str) -> str:
        return f'{ways}; or write {key} = "{level}" below [sources] in {SYSTEM_FILE}'

    yield (
        LostRequests(
            "environment",
            f"the variable {' or '.join(names)}",
            policy.environment,
            settings.environment if is_known else OFF,
            allow("environment", policy.environment),
            line=policy.lines.get("environment", 0),
        ),
        lambda container: _asks_by_variable(container, policy),
    )
    yield (
        LostRequests(
            "mounts",
            f"a mount below {MOUNTS_BELOW}",
            policy.mounts,
            settings.mounts,
            allow("mounts", policy.mounts),
            line=policy.lines.get("mounts", 0),
        ),
        _asks_by_mount,
    )
    lost = tuple(prefix for prefix in policy.prefixes if not prefix.startswith(settings.annotation_prefixes))
    yield (
        LostRequests(
            "annotations",
            f"an annotation that begins with {' or '.join(lost)}",
            ANY if lost else OFF,
            OFF,
            f"add {' and '.join(lost)} to annotation-prefixes below [cdi] in {SYSTEM_FILE}, then configure again",
            line=policy.lines.get("prefixes", 0),
        ),
        lambda container: _asks_by_annotation(container, lost),
    )
    yield (
        LostRequests(
            "old-images",
            "an image with CUDA_VERSION, but without NVIDIA_REQUIRE_CUDA and NVIDIA_VISIBLE_DEVICES,",
            policy.environment if policy.takes_old_images else OFF,
            OFF,
            ways,
        ),
        _is_of_old_image,
    )


def _asks_by_variable(container: Container, policy: Policy) -> bool:
    variables = container.environment
    names = [name for name in policy.preferred if name in variables] or policy.variables
    items = [item.strip() for name in names for item in variables.get(name, "").split(",")]
    items = [item for item in items if item and item != MOUNTS_BELOW]  # that path refers to the mounts
    return _is_served(container) if "void" in items else bool(items)


def _is_served(container: Container) -> bool:
    """Whether the vendor's runtime gave it devices of CDI specs, which write `void` over the variable that asked."""
    hooks = container.config.get("hooks")
    stage = hooks.get("createContainer") if isinstance(hooks, dict) else None
    paths = (hook.get("path") for hook in stage or () if isinstance(hook, dict))
    return any(isinstance(path, str) and path.rpartition("/")[2] in _REPLACED for path in paths)


def _asks_by_mount(container: Container) -> bool:
    mounts = container.config.get("mounts")
    items: Iterable[Any] = mounts if isinstance(mounts, list) else ()
    destinations = (mount.get("destination") for mount in items if isinstance(mount, dict))
    return any(isinstance(path, str) and path.startswith(f"{MOUNTS_BELOW}/") for path in destinations)


def _asks_by_annotation(container: Container, prefixes: tuple[str, ...]) -> bool:
    return any(key.startswith(prefixes) for key in container.annotations)


def _is_of_old_image(container: Container) -> bool:
    variables = container.environment
    asks = "NVIDIA_VISIBLE_DEVICES" in variables or variables.get("NVIDIA_REQUIRE_CUDA")
    return bool(variables.get("CUDA_VERSION")) and not asks
