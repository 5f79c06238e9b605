"""Reasons of decisions: status and text of each. The only module with the wording of refusals.

A text names what to use instead; its gaps are filled where the refusal is raised. Each message ends with its reason in
brackets, because clients show nothing but the message.
"""

from __future__ import annotations

_MALFORMED = "the request body is malformed: {what}"
_HTTP = "the request is malformed: {what}"

# reason -> (status, text); status 0: an allowed request
REASONS: dict[str, tuple[int, str]] = {
    "ok": (0, ""),
    "ok-judged": (0, ""),
    "ok-granted": (0, ""),
    "ok-start": (0, ""),
    "grant-missing": (
        403,
        "device {names} {is_are} not granted to {subject} (granted: {granted}); ask the operator for: {command}",
    ),
    "grants-unreadable": (
        403,
        "the grants file is unreadable, so no device can be given; tell the operator: shim grant list shows the cause",
    ),
    "device-name-invalid": (
        403,
        "{name} is not a CDI device name; names look like nvidia.com/gpu=0 (list: shim cdi list)",
    ),
    "gpus-request": (403, "GPUs are given by CDI name only; use {use}{missing}"),
    "device-request-options": (403, "a CDI request takes names only; drop count and options"),
    "device-raw-path": (403, "raw device paths are refused ({path}); {instead}"),
    "device-cgroup-rule": (403, "device cgroup rules are refused; ask for a grant of the CDI device instead"),
    "privileged": (
        403,
        "privileged containers reach every device; use --device NAME for devices and --cap-add for single capabilities",
    ),
    "runtime-not-allowed": (
        403,
        "runtime {runtime} is not allowed (allowed: {allowed}); devices come by --device NAME with the default runtime",
    ),
    "env-device": (
        403,
        "{variable} asks for devices outside the grants; remove it (or set it to void) and use --device {name}",
    ),
    "annotation-reserved": (
        403,
        "annotation {key} is an instruction to a runtime and is not on the list (operator: policy annotation_prefixes)",
    ),
    "mount-device-list": (403, "mount target {target} asks the NVIDIA runtime for a device; use --device NAME"),
    "bind-device": (403, "binding {source} is refused; use --device NAME, or --shm-size instead of /dev/shm"),
    "bind-root": (403, "binding {source} would expose {path}; bind the directory that you need"),
    "bind-host-path": (403, "binding {source} is refused ({why})"),
    "bind-propagation": (403, "mount propagation {mode} is refused; use rprivate or rslave"),
    "volume-driver": (403, "volume driver {driver} is refused; only the local driver is allowed"),
    "volume-options": (
        403,
        "local volumes may carry no mount options except those of a listed type ({types}); {what} is refused",
    ),
    "mount-type": (403, "mount type {type} is refused; use bind, volume, tmpfs or image"),
    "cap-add": (403, "capability {capability} can reach devices{when}; allowed: {allowed}"),
    "security-opt": (403, "security option {option} is refused"),
    "system-paths": (
        403,
        "systempaths=unconfined and shortened lists of masked paths are refused: they open the PCI bus files",
    ),
    "host-pid": (403, "the host's process namespace is refused; use a private one"),
    "host-ipc": (
        403,
        "the host's IPC namespace is refused; use a private one, with --shm-size for shared memory"
        " (operator: policy allow ipc-host)",
    ),
    "host-userns": (
        403,
        "the host's user namespace is refused; use the daemon's default (operator: policy allow userns-host)",
    ),
    "cgroup-parent": (403, "cgroups are placed by the operator; drop --cgroup-parent (operator: policy allow {name})"),
    "cgroup-join": (403, "cgroups are placed by the operator; drop the field Cgroup"),
    "exec-privileged": (403, "exec --privileged is refused; exec as root needs no such flag"),
    "start-body": (403, "start takes no body; give the HostConfig to create"),
    "checkpoint": (403, "checkpoints are refused: they read and write host directories"),
    "builder-grpc": (403, "{what}"),
    "plugin": (403, "changing plugins is refused behind the gate: they carry devices and capabilities"),
    "swarm": (403, "swarm is refused behind the gate: its services carry devices; use docker run or docker compose"),
    "cluster-volume": (403, "cluster volumes are refused behind the gate; use a local volume"),
    "debug-endpoint": (403, "debug endpoints are refused behind the gate"),
    "route-unknown": (403, "{method} {path} is not on the gate's list"),
    "json-unknown-field": (403, "field {field} is unknown to this gate{hint}"),
    "json-invalid": (400, _MALFORMED),
    "json-type": (400, _MALFORMED),
    "json-duplicate-key": (400, _MALFORMED),
    "json-key-alias": (400, _MALFORMED),
    "api-version": (400, "API version {version} is refused; versions {lowest} to {highest} are served"),
    "path-form": (400, _HTTP),
    "http-target": (400, _HTTP),
    "http-malformed": (400, _HTTP),
    "http-framing": (400, _HTTP),
    "http-upgrade": (400, _HTTP),
    "http-method": (405, "method {method} is refused; the API uses GET, HEAD, POST, PUT and DELETE"),
    "http-too-large": (413, "the request body has more than {limit} bytes"),
    "http-content-type": (415, "content type {type} is refused for {path}; send application/json"),
    "http-head": (431, "the request head has more than {limit} bytes"),
    "http-version": (505, "only HTTP/1.1 is served"),
    "http-timeout": (408, "the request head did not arrive in {seconds} seconds"),
    "upstream-unreachable": (502, "the Docker daemon does not answer ({what}); let the operator check it"),
    "connections-limit": (503, "the gate serves {limit} connections already; try again later"),
}


class Denied(Exception):  # noqa: N818 - a decision, not a fault
    """A refusal.

    Arguments:
        reason: a key of REASONS.
        gaps: the values of the text's gaps.
    """

    def __init__(self, reason: str, **gaps: object) -> None:
        self.reason = reason
        self.status, text = REASONS[reason]
        self.text = text.format(**gaps)
        self.message = f"{self.text} [{reason}]"
        super().__init__(self.message)
