"""From JSON to a canonical value: keys folded as Go folds them, unknown fields out, types as the API has them.

Keys are folded in the structs of `fields`, never in maps such as Labels. Whatever Go would match to a field, and this
module would not, is refused: letters beyond ASCII that fold into it, and two keys that fold into the same field.

Source: foldName of encoding/json.
"""

from __future__ import annotations

from typing import Any

from shim.gate.judge.fields import STRUCTS
from shim.gate.judge.json_strict import is_zero, quoted
from shim.gate.judge.messages import Denied

_TEXT, _FLAG, _NUMBER, _TEXTS, _MAP, _TEXT_MAP = "text", "true or false", "integer", "list of texts", "object", "texts"
# (struct, field) -> the struct of its value, or of the items of its list
_OBJECTS = {
    ("create", "HostConfig"): "HostConfig",
    ("Mount", "BindOptions"): "Mount.BindOptions",
    ("Mount", "VolumeOptions"): "Mount.VolumeOptions",
    ("Mount.VolumeOptions", "DriverConfig"): "Mount.VolumeOptions.DriverConfig",
}
_LISTS = {
    ("HostConfig", "Devices"): "DeviceMapping",
    ("HostConfig", "DeviceRequests"): "DeviceRequest",
    ("HostConfig", "Mounts"): "Mount",
    ("update", "Devices"): "DeviceMapping",
    ("update", "DeviceRequests"): "DeviceRequest",
}
_HOST_TYPES = {
    _TEXT: "Cgroup CgroupParent IpcMode NetworkMode PidMode Runtime UsernsMode VolumeDriver",
    _FLAG: "Privileged",
    _TEXTS: "Binds CapAdd CapDrop Capabilities DeviceCgroupRules MaskedPaths ReadonlyPaths SecurityOpt VolumesFrom",
    _TEXT_MAP: "Annotations Tmpfs",
}
_OTHER_TYPES = {
    _TEXT: "DeviceMapping.PathOnHost DeviceMapping.PathInContainer DeviceMapping.CgroupPermissions DeviceRequest.Driver"
    " Mount.Type Mount.Source Mount.Target Mount.BindOptions.Propagation Mount.VolumeOptions.DriverConfig.Name"
    " update.CgroupParent volume.Driver volume.Name",
    _FLAG: "Mount.ReadOnly exec.Privileged",
    _NUMBER: "DeviceRequest.Count",
    _TEXTS: "DeviceRequest.DeviceIDs create.Env update.DeviceCgroupRules",
    _MAP: "create.Volumes volume.ClusterVolumeSpec",
    _TEXT_MAP: "DeviceRequest.Options Mount.VolumeOptions.DriverConfig.Options volume.DriverOpts",
}
_TYPES: dict[tuple[str, str], str] = {
    **{
        (path.rpartition(".")[0], path.rpartition(".")[2]): type
        for type, paths in _OTHER_TYPES.items()
        for path in paths.split()
    },
    **{("HostConfig", field): type for type, fields in _HOST_TYPES.items() for field in fields.split()},
}
_FOLDED = {struct: {field.lower(): field for field in fields} for struct, fields in STRUCTS.items()}


def canonical(value: Any, struct: str, *, is_stored: bool = False) -> dict[str, Any]:
    """The value of a struct with canonical keys, known fields only, and of the right types.

    Arguments:
        value: as decoded; None is a struct without fields.
        struct: a key of fields.STRUCTS.
        is_stored: the daemon's own, which may have fields that are unknown here.

    Raises Denied: json-type, json-key-alias, json-duplicate-key or json-unknown-field.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _type_refused(struct, "object")
    known = _FOLDED[struct]
    folded: dict[str, str] = {}
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not key.isascii():
            raise Denied("json-key-alias", what=f"the key {quoted(key)} in {struct} is not ASCII")
        name = key.lower()
        if name in folded:
            raise Denied("json-duplicate-key", what=f"{quoted(folded[name])} and {quoted(key)} are the same field")
        folded[name] = key
        if name in known:
            result[known[name]] = _field(item, struct, known[name], is_stored=is_stored)
        elif not is_stored and not is_zero(item):
            belongs = struct == "create" and name in _FOLDED["HostConfig"]
            hint = f"; {_FOLDED['HostConfig'][name]} belongs into HostConfig" if belongs else ""
            raise Denied("json-unknown-field", field=quoted(key), hint=hint)
    return result


def _field(value: Any, struct: str, field: str, *, is_stored: bool) -> Any:
    if value is None:
        return None
    if (struct, field) in _OBJECTS:
        return canonical(value, _OBJECTS[struct, field], is_stored=is_stored)
    if (struct, field) in _LISTS:
        if not isinstance(value, list):
            raise _type_refused(field, "list of objects")
        return [canonical(item, _LISTS[struct, field], is_stored=is_stored) for item in value]
    type = _TYPES.get((struct, field))
    if type is not None and not _is(value, type):
        raise _type_refused(field, type)
    return value


def _is(value: Any, type: str) -> bool:
    if type == _TEXT:
        return isinstance(value, str)
    if type == _FLAG:
        return isinstance(value, bool)
    if type == _NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    if type == _TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if type == _MAP:
        return isinstance(value, dict)
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _type_refused(field: str, type: str) -> Denied:
    return Denied("json-type", what=f"{field} must be: {type}")
