"""What a gate refuses of docker's commands, with what docker prints of it."""

from __future__ import annotations

# options of `docker run`, and the message
RUN: list[tuple[list[str], str]] = [
    (["--privileged"], "use --device NAME for devices and --cap-add for single capabilities [privileged]"),
    (["--device=/dev/null"], "raw device paths are refused"),
    (["--device=/dev/null"], "[device-raw-path]"),
    (["--device-cgroup-rule=c 1:3 rwm"], "ask for a grant of the CDI device instead [device-cgroup-rule]"),
    (["--gpus=all"], "use --device nvidia.com/gpu=all (compose: devices: [nvidia.com/gpu=all])"),
    (["--gpus=all"], "shim grant add repo-a --device nvidia.com/gpu=all [gpus-request]"),
    (["--gpus=driver=cdi,count=2"], "drop count and options [device-request-options]"),
    (["--gpus=driver=cdi,device=zero"], '"zero" is not a CDI device name'),
    (["--gpus=driver=cdi,device=a.b/c=d"], "shim grant add repo-a --device a.b/c=d [grant-missing]"),
    (["--runtime=nvidia"], 'runtime "nvidia" is not allowed (allowed: asks'),
    (["--env=NVIDIA_VISIBLE_DEVICES=all"], "set it to void) and use --device nvidia.com/gpu=all [env-device]"),
    (["--volume=/srv:/var/run/nvidia-container-devices/all"], "[mount-device-list]"),
    (["--volume=/dev:/x"], "or --shm-size instead of /dev/shm [bind-device]"),
    (["--volume=/:/x"], "bind the directory that you need [bind-root]"),
    (["--volume=/etc:/x"], "read-only is allowed: add :ro) [bind-host-path]"),
    (["--volume=/run/docker.sock:/x"], "policy self_socket gives the gate's own) [bind-host-path]"),
    (["--volume=/srv:/x:rshared"], "use rprivate or rslave [bind-propagation]"),
    (["--volume-driver=other", "--volume=v:/x"], "only the local driver is allowed [volume-driver]"),
    (["--mount=type=npipe,source=x,target=/x"], "use bind, volume, tmpfs or image [mount-type]"),
    (["--cap-add=SYS_ADMIN"], 'SYS_ADMIN" can reach devices; allowed: AUDIT_WRITE, '),
    (["--security-opt=writable-cgroups=true"], 'security option "writable-cgroups=true" is refused [security-opt]'),
    (["--security-opt=systempaths=unconfined"], "they open the PCI bus files [system-paths]"),
    (["--pid=host"], "[host-pid]"),
    (["--ipc=host"], "with --shm-size for shared memory (operator: policy allow ipc-host) [host-ipc]"),
    (["--userns=host"], "[host-userns]"),
    (["--cgroup-parent=/x"], "drop --cgroup-parent (operator: policy allow cgroup-parent) [cgroup-parent]"),
]

# another command, and the message; some need the container `running`
COMMANDS: list[tuple[list[str], str]] = [
    (["exec", "--privileged", "running", "true"], "exec as root needs no such flag [exec-privileged]"),
    (["volume", "create", "-d", "other", "v"], "[volume-driver]"),
    (["volume", "create", "-o", "type=none", "-o", "o=bind", "-o", "device=/dev", "v"], "[volume-options]"),
    (["swarm", "init"], "use docker run or docker compose [swarm]"),
    (["plugin", "disable", "x"], "[plugin]"),
    (["plugin", "rm", "x"], "[plugin]"),
    (["config", "create", "x", "/etc/hostname"], "[swarm]"),
]

# as COMMANDS, of a daemon with experimental features that is the manager of a swarm
OF_A_MANAGER: list[tuple[list[str], str]] = [
    (["checkpoint", "create", "running", "c"], "they read and write host directories [checkpoint]"),
    (["checkpoint", "ls", "running"], "[checkpoint]"),
    (["checkpoint", "rm", "running", "c"], "[checkpoint]"),
    (["start", "--checkpoint=c", "running"], "[checkpoint]"),
    (["volume", "create", "--driver=local", "--type=block", "v"], "use a local volume [cluster-volume]"),
    (["service", "create", "busybox"], "[swarm]"),
    (["swarm", "update", "--autolock"], "[swarm]"),
    (["swarm", "unlock-key"], "GET /swarm/unlockkey is not on the gate's list [route-unknown]"),
]

# what no command of docker sends: method, target, body, and the message
REQUESTS: list[tuple[str, str, str, str]] = [
    ("POST", "/containers/create", '{"Image":"x","HostConfig":{"Cgroup":"container:y"}}', "[cgroup-join]"),
    ("POST", "/containers/create", '{"Image":"x","Privileged":true}', "belongs into HostConfig [json-unknown-field]"),
    ("POST", "/containers/running/start", '{"Privileged":true}', "give the HostConfig to create [start-body]"),
    ("PUT", "/v1.42/volumes/v?version=1", '{"Spec":{}}', "[cluster-volume]"),
    ("GET", "/debug/vars", "", "[debug-endpoint]"),
    ("GET", "/containers/../debug/vars", "", "[path-form]"),
    ("POST", "/containers/create", '{"Image":"x","Image":"y"}', "[json-duplicate-key]"),
]


def named(value: object) -> str:
    """The options in the name of a test, without the message."""
    return " ".join(value) if isinstance(value, list) else ""
