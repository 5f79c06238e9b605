"""What asks for a device by name: device requests, annotations, variables, runtimes; and what asks otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from shim.gate.judge.json_strict import quoted
from shim.gate.judge.messages import Denied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.gate.judge.model import Policy

# A qualified name of the CDI specification, version 1.1.0
_LABEL = r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}/{_LABEL}=[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_CDI_KEY = "cdi.k8s.io/"
_VARIABLE = re.compile(
    r"NVIDIA_VISIBLE_DEVICES|NVIDIA_MIG_CONFIG_DEVICES|NVIDIA_MIG_MONITOR_DEVICES|NVIDIA_IMEX_CHANNELS"
    r"|NVIDIA_(?:GDS|MOFED|NVSWITCH|GDRCOPY)|AMD_VISIBLE_DEVICES|ROCM_VISIBLE_DEVICES|HABANA_VISIBLE_DEVICES"
    r"|ASCEND_VISIBLE_DEVICES|AWS_NEURON_VISIBLE_DEVICES|DOCKER_RESOURCE_[A-Z0-9_]+"
)
_INERT = ("", "void", "none")
_KINDS = {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu=", "AMD_VISIBLE_DEVICES": "amd.com/gpu="}
_MOST_SHOWN = 8


def is_name(name: str) -> bool:
    """Whether a text has the form vendor/class=name."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """The name, which has the form vendor/class=name. Raises Denied: device-name-invalid."""
    if not _NAME.fullmatch(name):
        raise Denied("device-name-invalid", name=quoted(name))
    return name


def of_requests(requests: Iterable[dict[str, Any]], policy: Policy, grants: frozenset[str] | None) -> list[str]:
    """The names of DeviceRequests. Raises Denied: gpus-request, device-request-options or device-name-invalid."""
    names: list[str] = []
    for request in requests:
        if request.get("Driver") != "cdi":
            raise _gpus_refused(request, policy, grants)
        if request.get("Count") or request.get("Options"):
            raise Denied("device-request-options")
        names += map(check_name, request.get("DeviceIDs") or ())
    return names


def check_paths(devices: Iterable[dict[str, Any]], policy: Policy) -> None:
    """Refuse Devices, but for nodes that the policy lists, under their own path. Raises Denied: device-raw-path."""
    for device in devices:
        path = device.get("PathOnHost") or ""
        if path not in policy.device_paths or device.get("PathInContainer") not in (None, "", path):
            raise Denied("device-raw-path", path=quoted(path), instead=_instead(path, policy))


def _instead(path: str, policy: Policy) -> str:
    if _NAME.fullmatch(path):
        return "this client sends the CDI name as a path; Docker CLI 25 or Compose 2.30 is needed"
    names = policy.node_names.get(path, ())
    if names:
        return f"use the CDI name: --device {names[0]}" + "".join(f" or {name}" for name in names[1:_MOST_SHOWN])
    return "use the CDI name: --device VENDOR/CLASS=NAME (shim cdi list shows the names of this host)"


def of_annotations(annotations: dict[str, str], policy: Policy) -> list[str]:
    """The names that annotations ask for.

    Raises Denied: annotation-reserved for a key that is not listed, device-name-invalid.
    """
    names: list[str] = []
    for key, value in annotations.items():
        if not key.startswith(policy.annotation_prefixes):
            raise Denied("annotation-reserved", key=quoted(key))
        if key.startswith(_CDI_KEY):
            names += map(check_name, value.split(","))
    return names


def check_variables(variables: Iterable[str], grants: frozenset[str] | None) -> None:
    """Refuse variables by which a vendor's runtime gives more than is granted. Raises Denied: env-device."""
    for variable in variables:
        name, equals, value = variable.partition("=")
        if not equals or value in _INERT or not _VARIABLE.fullmatch(name):
            continue
        kind = _KINDS.get(name, "")
        asked = [token if "=" in token else kind + token for token in value.split(",")]
        missing = next((token for token in asked if not kind or token not in (grants or ())), None)
        if missing is not None:
            raise Denied("env-device", variable=name, name=missing if _NAME.fullmatch(missing) else "NAME")


def of_runtime(runtime: str, policy: Policy) -> tuple[str, ...]:
    """The names that a runtime's arguments stand for. Raises Denied: runtime-not-allowed."""
    names = policy.runtimes.get(runtime)
    if names is None:
        allowed = ", ".join(sorted(name for name in policy.runtimes if name)) or "the default"
        raise Denied("runtime-not-allowed", runtime=quoted(runtime), allowed=allowed)
    return names


def check_granted(names: Iterable[str], policy: Policy, grants: frozenset[str] | None) -> None:
    """Refuse names that are not granted, exactly as spelled. Raises Denied: grants-unreadable, grant-missing."""
    asked = tuple(dict.fromkeys(names))
    if not asked:
        return
    if grants is None:
        raise Denied("grants-unreadable")
    missing = [name for name in asked if name not in grants]
    if missing:
        raise _grant_missing(missing, policy, grants)


def _grant_missing(missing: list[str], policy: Policy, grants: frozenset[str]) -> Denied:
    return Denied(
        "grant-missing",
        names=", ".join(missing),
        is_are="is" if len(missing) == 1 else "are",
        subject=policy.subject,
        granted=", ".join(sorted(grants)) or "none",
        command=f"shim grant add {policy.subject} {_options(missing)}",
    )


def _options(names: Iterable[str]) -> str:
    return " ".join(f"--device {name}" for name in names)


def _gpus_refused(request: dict[str, Any], policy: Policy, grants: frozenset[str] | None) -> Denied:
    """A request by count or index, with the names that stand for the same: Count -1 is all, n is 0 to n-1."""
    kind = "amd.com/gpu=" if request.get("Driver") == "amd" else "nvidia.com/gpu="
    tokens = list(request.get("DeviceIDs") or ())
    count = request.get("Count") or 0
    if not tokens:
        tokens = ["all"] if count <= 0 else [str(number) for number in range(min(count, _MOST_SHOWN))]
    names = [token if "=" in token else kind + token for token in tokens[:_MOST_SHOWN]]
    names = [name for name in names if _NAME.fullmatch(name)] or [f"{kind}all"]
    use = f"{_options(names)} (compose: devices: [{', '.join(names)}])"
    text = ""
    if grants is not None:
        missing = [name for name in names if name not in grants]
        text = f"; {_grant_missing(missing, policy, grants).text}" if missing else ""
    return Denied("gpus-request", use=use, missing=text)
