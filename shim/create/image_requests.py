"""Compatibility sources: requests that an image can make, as the vendors' runtimes read them. HOT where switched on.

Two sources, read after --device and annotations, in this order:

    mounts         of /dev/null below /var/run/nvidia-container-devices: ID, cdi/VENDOR/CLASS/DEVICE,
                   cdi/VENDOR/CLASS=DEVICE, imex/CHANNEL
    environment    NVIDIA_VISIBLE_DEVICES, AMD_VISIBLE_DEVICES, and what the configuration adds

config.json does not show what comes from the image and what from its user. So both are off unless the configuration
switches them on, and then count for containers that are privileged (CAP_SYS_ADMIN in the bounding set), or for all if
the configuration says "any". A container that may not ask starts without what it asked for, and a warning reports it.

What a value means stands at `_devices`. Two habits of the vendors' runtimes are not taken over. An image with
CUDA_VERSION and without any request does not ask for all devices: it asked for nothing. And the request's own mounts
stay in config.json: programs in the container look at them, and a second create must find the same request.
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.base.paths import clean
from shim.cdi import names
from shim.config.location import SYSTEM_FILE
from shim.config.settings import ANY, MOUNTS_BELOW, OFF, PRIVILEGED, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    Json = dict[str, Any]
    Reader = Callable[[Json, Settings], dict[str, str]]

_IMEX_CLASS = "imex-channel"
_CHANNEL = "channel"
_MOST = 128  # devices of one range: more than create takes from one container anyhow
_TOLD = 4  # names in the text of a finding
_VARIABLE = "variable "
_BETTER = (
    "ask by annotation, or by --device (docker before 24: in the runtimeArgs of a runtime; podman before 4.6: "
    "--runtime-flag device=KIND=NAME)"
)


class ImageRequests:
    """What the sources ask for that an image can write to.

    Attributes:
        requests: qualified name -> source: "variable NAME" or "mount DESTINATION".
        driver_only: names KIND=none: the files of the driver without a device, unless a spec serves a device `none`.
        variables: names of the variables that ask.
        warnings: requests that do not count although their source is on.
    """

    __slots__ = ("driver_only", "requests", "variables", "warnings")

    def __init__(self) -> None:
        self.requests: dict[str, str] = {}
        self.driver_only: list[str] = []
        self.variables: set[str] = set()
        self.warnings: list[Finding] = []

    def without_repeats(self, config: Json) -> Json:
        """The config with one entry of each variable that asks: the last, which was read, and which the edits replace.

        Arguments:
            config: the edited config; not changed, the result shares members with it.

        Specs set such a variable to `void`, for nested runtimes. Of two entries some programs would read the first.
        """
        if not self.variables:
            return config
        process = config["process"]
        last = {str(entry).partition("=")[0]: index for index, entry in enumerate(process["env"])}
        env = []
        for index, entry in enumerate(process["env"]):
            name = str(entry).partition("=")[0]
            if name not in self.variables or last[name] == index:
                env.append(entry)
        return {**config, "process": {**process, "env": env}}


def ask(config: Json, settings: Settings, earlier: Collection[str]) -> ImageRequests:
    """What the sources that are switched on ask for.

    Arguments:
        config: the decoded config.json.
        settings: which sources are on, and for whom.
        earlier: qualified names that other sources ask for; they are not asked for again.
    Raises:
        CdiError: SOURCE_VALUE, when a source that counts holds something that names no device.
    """
    result = ImageRequests()
    for key, read in _SOURCES:
        state = getattr(settings, key)
        if state == OFF or ((earlier or result.requests) and not settings.merge):
            continue
        if state != ANY and not is_privileged(config):
            result.warnings += _unprivileged(config, settings, key, read)
            continue
        for name, source in read(config, settings).items():
            if read is by_variables:
                result.variables.add(source.removeprefix(_VARIABLE))
            if name not in earlier and name not in result.requests:
                result.requests[name] = source
                if name.endswith("=none"):
                    result.driver_only.append(name)
    return result


def ignored_requests(config: Json, settings: Settings) -> list[Finding]:
    """Requests that do not count, for an explanation why a container has no device; create never reports SOURCE_OFF.

    Arguments:
        config: the decoded config.json.
        settings: which sources are on, and for whom.
    Returns:
        SOURCE_OFF or SOURCE_UNPRIVILEGED for each variable, and for the mount list, that asks and does not count.
    """
    findings = []
    for key, read in _SOURCES:
        state = getattr(settings, key)
        if state == OFF:
            why = f'sources.{key} is "{OFF}"'
            remedy = f'{_BETTER}, or set sources.{key} to "{PRIVILEGED}" or "{ANY}" in {SYSTEM_FILE}'
            findings += _ignored(config, settings, read, "SOURCE_OFF", why, remedy)
        elif state == PRIVILEGED and not is_privileged(config):
            findings += _unprivileged(config, settings, key, read)
    others = Settings()
    others.variables = {name: kind for name, kind in others.variables.items() if name not in settings.variables}
    remedy = f"{_BETTER}, or add the variable to sources.variables in {SYSTEM_FILE}"
    return findings + _ignored(config, others, by_variables, "SOURCE_OFF", "sources.variables has it not", remedy)


def is_privileged(config: Json) -> bool:
    """Whether CAP_SYS_ADMIN is in the bounding set of the container's process; nothing else counts."""
    process = config.get("process")
    sets = process.get("capabilities") if isinstance(process, dict) else None
    bounding = sets.get("bounding") if isinstance(sets, dict) else None
    return isinstance(bounding, list) and "CAP_SYS_ADMIN" in bounding


def by_variables(config: Json, settings: Settings) -> dict[str, str]:
    """What the container's environment asks for, whether or not that counts.

    Arguments:
        config: the decoded config.json.
        settings: which variables mean which kind. Variables of a kind do not count where a swarm variable of the same
            kind is set, whatever its value.
    Returns:
        qualified name -> "variable NAME"; the last of several entries of one name counts, as for the vendors' runtimes.
    Raises:
        CdiError: SOURCE_VALUE.
    """
    given = dict(_environment(config))
    swarm = {name: kind for name, kind in settings.swarm_variables.items() if name in given}
    replaced = set(swarm.values())
    asked = swarm | {name: kind for name, kind in settings.variables.items() if kind not in replaced}
    requests: dict[str, str] = {}
    for name, kind in asked.items():
        items = [item.strip() for item in given.get(name, "").split(",")]
        if items == [MOUNTS_BELOW]:  # a device plugin points to the mounts by it
            continue
        if kind.endswith(f"/{_IMEX_CLASS}"):
            items = [item for item in items if item != "all"]  # NVIDIA's runtime takes no `all` from a variable either
        try:
            devices = _devices(items, kind)
        except names.BadName as bad:
            raise _error(f"{_VARIABLE}{name}", bad) from None
        for device in devices:
            requests.setdefault(device, f"{_VARIABLE}{name}")
    return requests


def by_mounts(config: Json, settings: Settings) -> dict[str, str]:
    """What the mount list asks for, whether or not that counts.

    Arguments:
        config: the decoded config.json.
        settings: its default kind is that of a bare id.
    Returns:
        qualified name -> "mount DESTINATION".
    Raises:
        CdiError: SOURCE_VALUE.
    """
    mounts = config.get("mounts")
    destinations: dict[str, str] = {}  # item -> destination
    channels: dict[str, str] = {}
    for mount in mounts if isinstance(mounts, list) else ():
        destination = mount.get("destination") if isinstance(mount, dict) else None
        if not isinstance(destination, str) or mount.get("source") != "/dev/null":
            continue
        path = clean(destination)
        if path.startswith(f"{MOUNTS_BELOW}/"):
            item = path[len(MOUNTS_BELOW) + 1 :]
            form, _, rest = item.partition("/")
            if form == "imex" and rest:
                channels.setdefault(rest, destination)
            elif form == "cdi" and rest:
                kind, _, device = rest.rpartition("/")
                destinations.setdefault(rest if "=" in device else f"{kind}={device}", destination)
            else:
                destinations.setdefault(item, destination)
    kind = settings.default_kind
    requests: dict[str, str] = {}
    for items, of_kind in ((destinations, kind), (channels, f"{kind.partition('/')[0]}/{_IMEX_CLASS}")):
        try:
            # together, since `all`, `none` and `void` change the meaning of the items beside them
            devices = _devices(items, of_kind)
        except names.BadName as bad:
            raise _error(f"a mount below {MOUNTS_BELOW}", bad) from None
        for device, item in devices.items():
            requests.setdefault(device, f"mount {items[item]}")
    return requests


def _environment(config: Json) -> Iterable[tuple[str, str]]:
    process = config.get("process")
    env = process.get("env") if isinstance(process, dict) else None
    for entry in env if isinstance(env, list) else ():
        if isinstance(entry, str):
            name, equals, value = entry.partition("=")
            if equals:
                yield name, value


def _devices(items: Iterable[str], kind: str) -> dict[str, str]:
    """The devices that a list of items names: qualified name -> the item it comes from, in their order.

        void            nothing, whatever stands beside it
        all             the device `all` of the kind, in place of all other items but qualified names
        none            the device `none`, in the same way: the driver's files without a device
        VENDOR/CLASS=X  that device
        3-5             the devices 3, 4 and 5
        MIG-GPU-UUID/GI/CI   the device MIG-GPU-UUID:GI:CI, since no CDI name holds a slash
        channel3        of an imex kind: the device 3
        anything else   the device of that name: an index, a UUID, GPU:MIG, 0x and a unique id

    An empty item is nothing. Raises BadName.
    """
    given = [item for item in items if item]
    if "void" in given:
        return {}
    word = "all" if "all" in given else "none" if "none" in given else ""
    qualified: dict[str, str] = {}
    for item in given:
        if names.split_qualified(item)[0]:
            spelled = [item]
        elif word:
            spelled, item = [f"{kind}={word}"], word  # noqa: PLW2901 - the word speaks for its neighbours
        else:
            spelled = [f"{kind}={device}" for device in _spelled(item, kind)]
        for name in spelled:
            names.parse_qualified(name)
            qualified.setdefault(name, item)
    return qualified


def _spelled(item: str, kind: str) -> Iterable[str]:
    """The names of an item that is none of the words and no qualified name, as a spec spells them."""
    first, dash, last = item.partition("-")
    if dash and _is_number(first) and _is_number(last):
        if not 0 <= int(last) - int(first) < _MOST:
            raise names.BadName("range", f"{names.quoted(item)} is no range of at most {_MOST} devices")
        return map(str, range(int(first), int(last) + 1))
    if kind.endswith(f"/{_IMEX_CLASS}") and _is_number(item.removeprefix(_CHANNEL)):
        return [item.removeprefix(_CHANNEL)]
    parts = item.split("/")
    if item.startswith("MIG-GPU-") and len(parts) == 3 and _is_number(parts[1]) and _is_number(parts[2]):
        return [":".join(parts)]
    return [item]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _error(where: str, bad: names.BadName) -> CdiError:
    return CdiError([Finding("SOURCE_VALUE", f"{where}: {bad}", rule=bad.rule)])


def _unprivileged(config: Json, settings: Settings, key: str, read: Reader) -> list[Finding]:
    why = f'sources.{key} is "{PRIVILEGED}", and CAP_SYS_ADMIN is not in the bounding set of the container'
    remedy = f'{_BETTER}, or set sources.{key} to "{ANY}" in {SYSTEM_FILE}'
    return _ignored(config, settings, read, "SOURCE_UNPRIVILEGED", why, remedy)


def _ignored(config: Json, settings: Settings, read: Reader, id: str, why: str, remedy: str) -> list[Finding]:
    """One finding for each variable that asks, and one for all mounts."""
    try:
        asked = read(config, settings)
    except CdiError as error:  # it would not even be understood
        return [Finding(id, f"{error}; it does not count: {why}", remedy)]
    by_source: dict[str, list[str]] = {}
    for name, source in asked.items():
        by_source.setdefault("the mount list" if read is by_mounts else source, []).append(name)
    return [
        Finding(id, f"{source} asks for {_listed(devices)}, which does not count: {why}", remedy)
        for source, devices in by_source.items()
    ]


def _listed(devices: list[str]) -> str:
    more = f" and {len(devices) - _TOLD} more" if len(devices) > _TOLD else ""
    return ", ".join(devices[:_TOLD]) + more


_SOURCES: tuple[tuple[str, Reader], ...] = (("mounts", by_mounts), ("environment", by_variables))
