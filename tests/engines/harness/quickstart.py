"""The blocks of docs/quickstart.md, and a machine on which they are pasted.

A block runs as it stands, in bash, with PATH and the files of an administrator's machine. What a sandbox lacks is put
beside it:

    systemctl   starts a daemon with its usual configuration, since there is no systemd
    crictl      makes the calls of the CRI that a block makes by it, since Debian has no package of it
    images      busybox is loaded, since there is no network
    apt-get     refuses packages that are not installed: there is nothing from which it could install them
    a GPU       a card of Intel, whose nodes have the numbers of /dev/zero

Files that an administrator has written already keep the engines' own data in the sandbox and need no network.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from . import images
from .sandbox import Result, Sandbox

TOP = Path(__file__).parent.parent.parent.parent
DOCUMENT, README = TOP / "docs/quickstart.md", TOP / "README.md"
BLOCK = re.compile(r"^<!-- block: (\S+) -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = "docker.io/library/busybox:latest"  # what docker and podman make of `busybox`

SYSTEMCTL = """#!/bin/sh
# systemctl restart NAME
case $2 in
containerd) ready="ctr version"; set -- containerd ;;
docker) ready="docker version"; set -- dockerd ;;
*) echo "Unit $2.service not found." >&2; exit 5 ;;
esac
file=/run/test-$1.pid
if [ -e $file ]; then
    kill "$(cat $file)"
    while kill -0 "$(cat $file)" 2>/dev/null; do sleep 0.1; done
fi
setsid "$@" > /run/test-$1.log 2>&1 < /dev/null &
echo $! > $file
for try in $(seq 300); do
    $ready > /dev/null 2>&1 && exit 0
    sleep 0.1
done
tail -n 20 /run/test-$1.log >&2
exit 1
"""

APT_GET = """#!/bin/sh
# apt-get install -y PACKAGE…
[ "$1 $2" = "install -y" ] || exit 5
shift 2
exec dpkg --status "$@" > /dev/null
"""

# A directory in which root can make nodes, with all of /dev in it, comes in the place of /dev
CARD = """
mkdir /run/dev
mount -t tmpfs -o mode=755 tmpfs /run/dev
find /dev -maxdepth 1 ! -type d ! -type s -exec cp -a {} /run/dev \\;
for directory in pts shm mqueue; do
    [ ! -d /dev/$directory ] || { mkdir /run/dev/$directory; mount --bind /dev/$directory /run/dev/$directory; }
done
mkdir -p /run/dev/dri/by-path /run/dev/net
mknod -m 666 /run/dev/dri/card0 c 1 5
mknod -m 666 /run/dev/dri/renderD128 c 1 5
mount --move /run/dev /dev
mount -t tmpfs -o mode=755 tmpfs /sys/bus/pci/devices
card=/sys/bus/pci/devices/0000:00:02.0
mkdir -p $card/drm/card0 $card/drm/renderD128
ln -s ../../../../bus/pci/drivers/i915 $card/driver
echo 0x8086 > $card/vendor
echo 0x9a49 > $card/device
echo 0x030000 > $card/class
"""

INSIDE = "/usr/local/sbin/in-cgroup-namespace"
ENTER = """#!/bin/sh
for top in /sys/fs/cgroup/*/; do echo $$ > "$top/cgroup.procs"; done
exec nsenter --cgroup=/run/cgroup-namespace/ns -- "$@"
"""

CONTAINERD = """
version = 2
root = "SCRATCH/containerd"
[plugins."io.containerd.internal.v1.opt"]
  path = "SCRATCH/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # A pod sandbox asks for a better oom score than a machine without CAP_SYS_RESOURCE may give.
  restrict_oom_score_adj = true
"""

CONTAINERS = """
[containers]
# The defaults ask for more than a machine without CAP_SYS_RESOURCE or a pids controller can give.
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
pids_limit = 0
log_driver = "k8s-file"
netns = "none"
[network]
network_backend = "BACKEND"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
image_copy_tmp_dir = "SCRATCH/tmp"
volume_path = "SCRATCH/podman-volumes"
static_dir = "SCRATCH/podman/libpod"
"""

STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "SCRATCH/podman"\nrunroot = "/run/podman-storage"\n'
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'


def blocks(document: Path = DOCUMENT) -> dict[str, str]:
    """Name -> text of each block, in the order of the document."""
    return dict(BLOCK.findall(document.read_text(encoding="utf-8")))


def give_card(sandbox: Sandbox) -> None:
    """Give the machine a GPU, and an apt-get."""
    sandbox.run("/bin/sh", "-ec", CARD).ok()
    _write(sandbox, "/usr/local/sbin/apt-get", APT_GET, 0o755)


def prepare(sandbox: Sandbox, engine: str, *, is_newer: bool = False) -> None:
    """Make the sandbox a machine on which an engine runs, with the image loaded.

    Arguments:
        engine: containerd, docker or podman.
        is_newer: with the packages of Debian 13.
    """
    _write(sandbox, "/usr/local/sbin/systemctl", SYSTEMCTL, 0o755)
    # Engines make directories of their own names at the top of each hierarchy: here the top is the directory that the
    # sandbox removes, and a cgroup namespace has it as its root, so that the kernel's paths agree with it.
    script = """for top in /sys/fs/cgroup/*/; do
        mkdir -p "$top$0"
        for file in cpuset.cpus cpuset.mems; do [ ! -e "$top$file" ] || cat "$top$file" > "$top$0/$file"; done
        mount --bind "$top$0" "$top"
        echo $$ > "$top/cgroup.procs"
    done
    mkdir /run/cgroup-namespace
    mount --bind --make-private /run/cgroup-namespace /run/cgroup-namespace
    touch /run/cgroup-namespace/ns
    unshare --cgroup=/run/cgroup-namespace/ns true"""
    sandbox.run("/bin/sh", "-c", script, sandbox.cgroup[1:]).ok()
    _write(sandbox, INSIDE, ENTER, 0o755)
    archive = sandbox.scratch / "busybox.tar"
    images.write_image(archive, IMAGE)
    if engine == "containerd":
        pause = sandbox.scratch / "pause.tar"
        images.write_image(pause, images.PAUSE)
        _write(sandbox, "/etc/containerd/config.toml", CONTAINERD.replace("PAUSE", images.PAUSE))
        _write(sandbox, "/usr/local/bin/crictl", f'#!/bin/sh\nexec {sandbox.venv}/bin/python3 {CRICTL} "$@"\n', 0o755)
        sandbox.run(INSIDE, "/usr/local/sbin/systemctl", "restart", "containerd").ok()
        for namespace, file in (("default", archive), ("k8s.io", archive), ("k8s.io", pause)):
            sandbox.run("ctr", "--namespace", namespace, "image", "import", file).ok()
    elif engine == "docker":
        settings = {
            "data-root": f"{sandbox.scratch}/docker",
            "exec-root": f"{sandbox.scratch}/docker-exec",
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "userland-proxy": False,
            "storage-driver": "overlay2",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
        }
        if not is_newer:  # which has no such option
            settings["oom-score-adjust"] = 0  # a better score needs CAP_SYS_RESOURCE
        _write(sandbox, "/etc/docker/daemon.json", json.dumps(settings))
        sandbox.run(INSIDE, "/usr/local/sbin/systemctl", "restart", "docker").ok()
        sandbox.run("docker", "load", "--input", archive).ok()
    else:
        _write(
            sandbox, "/etc/containers/containers.conf", CONTAINERS.replace("BACKEND", "netavark" if is_newer else "cni")
        )
        _write(sandbox, "/etc/containers/storage.conf", STORAGE)
        _write(sandbox, "/etc/containers/policy.json", POLICY)
        sandbox.run(INSIDE, "podman", "load", "--input", archive).ok()


def paste(sandbox: Sandbox, text: str, cwd: str | Path) -> Result:
    """Run the text as bash does where it is pasted, but for that it ends at the first failure."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return sandbox.run(INSIDE, "bash", "-euo", "pipefail", "-c", text, cwd=cwd, env={"PATH": path}, timeout=300)


def _write(sandbox: Sandbox, path: str, text: str, mode: int = 0o644) -> None:
    text = text.replace("SCRATCH", str(sandbox.scratch))
    sandbox.run("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path, stdin=text).ok()


CRICTL = Path(__file__).parent / "crictl.py"
