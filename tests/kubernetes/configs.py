"""Configuration of the daemons of the node."""

from __future__ import annotations

from typing import Any

NODE = "node"
# Of lo, and not in 127.0.0.0/8: kubelet and apiserver refuse a loopback address as that of a node. It exists in the
# private network namespace only. The range is for tests (RFC 2544).
ADDRESS = "198.18.0.1"
SERVICES, PODS = "198.18.1.0/24", "198.18.2.0/24"

# kubelet writes these six for the whole kernel (setupKernelTunables in pkg/kubelet/cm), but leaves alone what has the
# wanted value. So files that have it are mounted in their place, and the machine's own stay as they are.
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}

# The file of an administrator, to which `shim runtime configure` adds. A sandbox wants an oom_score_adj of -998, which
# a machine without CAP_SYS_RESOURCE does not give.
CONTAINERD = """version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
]

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "@PAUSE@"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""

# ptp needs no kernel module. Without a CNI configuration the node never becomes Ready.
_PTP = {"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": PODS}]]}}
CNI: dict[str, Any] = {"cniVersion": "0.4.0", "name": "node", "plugins": [_PTP]}

# How full the disk of a machine is must not decide a test; no other process is in this network namespace.
_SIGNALS = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": ADDRESS,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "evictionHard": dict.fromkeys(_SIGNALS, "0%"),
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "nodeStatusUpdateFrequency": "2s",
    "clusterDNS": ["198.18.1.10"],
    "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    "oomScoreAdj": 0,
    "resolvConf": "",
}
USERS = {
    "admin": ("admin", "system:masters"),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
    "scheduler": ("system:kube-scheduler", ""),
    "controller-manager": ("system:kube-controller-manager", ""),
}


def kubeconfig(user: str, token: str, certificate: str) -> dict[str, Any]:
    """The file by which a client reaches the API server.

    Arguments:
        user: of USERS.
        token: of this user.
        certificate: path of the server's.
    """
    cluster = {"server": f"https://{ADDRESS}:6443", "certificate-authority": certificate}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": user}}],
        "current-context": "node",
    }


def apiserver(directory: str) -> list[str]:
    """The command line of the API server, with its files in a directory."""
    return [
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        f"--bind-address={ADDRESS}",
        f"--advertise-address={ADDRESS}",
        "--secure-port=6443",
        f"--cert-dir={directory}/apiserver",
        f"--token-auth-file={directory}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory}/service-account.pub",
        f"--service-account-signing-key-file={directory}/service-account.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
    ]


def kubelet(directory: str) -> list[str]:
    """The command line of the kubelet, likewise."""
    return [
        "kubelet",
        f"--config={directory}/kubelet.json",
        f"--kubeconfig={directory}/kubelet.conf",
        "--container-runtime=remote",
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        f"--hostname-override={NODE}",
        f"--node-ip={ADDRESS}",
        f"--cert-dir={directory}/kubelet/pki",
        "--root-dir=/var/lib/kubelet",
    ]
