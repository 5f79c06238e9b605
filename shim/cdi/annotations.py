"""Annotations: how a container's configuration asks for devices, read and written.

A key is PREFIX + anything, its value a list of qualified names joined by commas (CDI SPEC.md, "annotations"; the
writer's rules for the part behind the prefix are those of a Kubernetes label name). HOT: imports only names.
"""

from __future__ import annotations

from shim.cdi.names import BadName, before_last, parse_qualified, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX = "cdi.k8s.io/"
_MAX_NAME = 63  # bytes of the part behind the prefix, as Kubernetes limits it
_ENDS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_INNER = _ENDS | frozenset("_-.")


class BadAnnotation(BadName):
    """An annotation with the prefix of a request, but not in the form of a request.

    Arguments:
        key, value: the annotation.
        number: which entry of the value is wrong, counted from 1; 0 when it is the value as a whole.
        reason: what is wrong with it.
    """

    def __init__(self, key: str, value: object, number: int, reason: str) -> None:
        self.key = key
        self.value = value
        self.number = number
        entry = f"entry {number} of " if number else ""
        super().__init__("invalid-device", f"annotation {quoted(key)}: {entry}{quoted(str(value))}: {reason}")


def parse(annotations: Mapping[str, str] | None, prefixes: Iterable[str] = (PREFIX,)) -> list[tuple[str, list[str]]]:
    """The devices that annotations ask for.

    Arguments:
        annotations: the `annotations` member of config.json, or None.
        prefixes: a key that starts with one of these (case counts) is a request.

    Returns:
        (key, qualified names in the order of the value, repeats kept), sorted by key.

    Raises:
        BadAnnotation: a value is not a comma-separated list of qualified names. Spaces and empty entries are wrong.
    """
    wanted = tuple(prefixes)
    requests = []
    for key in sorted(annotations or ()):
        if key.startswith(wanted):
            value = annotations[key]  # type: ignore[index]  # the loop is empty when there are none
            if not isinstance(value, str):
                raise BadAnnotation(key, value, 0, "the value of an annotation is a string")
            requests.append((key, _devices(key, value)))
    return requests


def _devices(key: str, value: str) -> list[str]:
    devices = value.split(",")
    for number, device in enumerate(devices, 1):
        try:
            parse_qualified(device)
        except BadName as bad:
            reason = str(bad) if device else "an entry is empty; names are joined by single commas"
            raise BadAnnotation(key, value, number, reason) from None
    return devices


def key(plugin: str, device_id: str) -> str:
    """The key under which a plugin asks for the devices of one allocation: PREFIX + plugin + "_" + id.

    Arguments:
        plugin: by custom VENDOR.TYPE, for example "acme.gpu".
        device_id: what makes the key unique; its slashes become underscores.

    Raises:
        BadName: "plugin-empty", "device-id-empty", "name-too-long" (63 bytes), "name-first-char", "name-char",
            "name-last-char".
    """
    if not plugin:
        raise BadName("plugin-empty", "the name of the plugin is empty")
    if not device_id:
        raise BadName("device-id-empty", "the device id is empty")
    name = f"{plugin}_{device_id.replace('/', '_')}"
    size = len(name.encode("utf-8", "replace"))
    if size > _MAX_NAME:
        raise BadName(
            "name-too-long", f"annotation name {quoted(name)} has {size} bytes, at most {_MAX_NAME} are allowed"
        )
    if name[0] not in _ENDS:
        raise BadName("name-first-char", f"annotation name {quoted(name)} must start with a letter or digit")
    if not _INNER.issuperset(before_last(name)):
        raise BadName("name-char", f"annotation name {quoted(name)} may only hold letters, digits, '_', '-' and '.'")
    if name[-1] not in _ENDS:
        raise BadName("name-last-char", f"annotation name {quoted(name)} must end in a letter or digit")
    return PREFIX + name


def value(devices: Iterable[str] | None) -> str:
    """Join qualified names to the value of an annotation; raises BadName for a name that is none."""
    names = list(devices or ())
    for name in names:
        parse_qualified(name)
    return ",".join(names)


def update(
    annotations: Mapping[str, str] | None, plugin: str, device_id: str, devices: Iterable[str] | None
) -> dict[str, str]:
    """A copy of annotations that also asks for devices.

    Raises:
        BadName: see key() and value(); "key-in-use" when there is an annotation under that key already.
    """
    wanted = key(plugin, device_id)
    updated = dict(annotations or {})
    if wanted in updated:
        raise BadName("key-in-use", f"annotation {quoted(wanted)} is in use already")
    updated[wanted] = value(devices)
    return updated
