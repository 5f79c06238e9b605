"""The kubelet of this machine: its cgroup driver must be that of the runtimes to which its pods are given.

A kubelet below 1.31 takes the driver from its own configuration, `cgroupfs` where nothing is set; a later one asks an
engine that can answer (containerd 2, CRI-O 1.28), and then only the default runtime of the engine counts. Which kubelet
runs is not asked, since that would start a program: with an engine that can answer a difference is a warning.

Source: Kubernetes, KubeletConfiguration v1beta1 (cgroupDriver), flags --config, --config-dir and --cgroup-driver.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.model import Location, Registry
    from shim.host.host import Host

_PROGRAM = "kubelet"
_CONFIG = "/var/lib/kubelet/config.yaml"  # of kubeadm
_KEY = "cgroupDriver"
_DEFAULT = "cgroupfs"
_ANSWERS = {"containerd": (2,), "crio": (1, 28)}  # the first version that tells the kubelet its driver


def checks(host: Host, engine: str, location: Location, registry: Registry, names: list[str]) -> Iterator[Finding]:
    """KUBELET_CGROUPS for each of our runtimes whose cgroup driver is not the kubelet's.

    Arguments:
        host: the machine.
        engine: its name; only engines with a CRI are the kubelet's.
        location: where its configuration is, and its version.
        registry: its runtimes.
        names: those that are shim's.
    """
    if engine not in _ANSWERS:
        return
    driver, origin = driver_of(host)
    for name in names if driver else ():
        runtime = registry.runtimes.get(name)
        if runtime is None or (runtime.systemd_cgroup is None and engine == "crio"):
            continue
        own = "systemd" if runtime.systemd_cgroup else "cgroupfs"
        if own != driver:
            text = f"the kubelet's cgroup driver is {driver} ({origin}), and that of the runtime {name} is {own}"
            remedy = (
                f"set SystemdCgroup = {str(driver == 'systemd').lower()} for {name}, or {_KEY}: {own} of the kubelet"
            )
            finding = Finding("KUBELET_CGROUPS", text, remedy)
            yield finding.as_warning() if location.version >= _ANSWERS[engine] else finding


def driver_of(host: Host) -> tuple[str, str]:
    """The cgroup driver of the kubelet, and what sets it.

    Returns:
        `systemd` or `cgroupfs`, and the file or option; ("", "") where no kubelet runs and none is configured.
    """
    daemon = next(iter(host.daemons(_PROGRAM)), None)
    flag = daemon.option("--cgroup-driver") if daemon else ""
    if flag:
        return flag, f"option --cgroup-driver of process {daemon.pid}" if daemon else ""
    config = (daemon.option("--config") if daemon else "") or _CONFIG
    directory = daemon.option("--config-dir") if daemon else ""
    files = [config, *(sorted(host.glob(f"{directory}/*.conf")) if directory else [])]
    there = [path for path in files if host.exists(path)]
    if not daemon and not there:
        return "", ""
    for path in reversed(there):  # the later file counts
        value = _document(host, path).get(_KEY)
        if isinstance(value, str) and value:
            return value, path
    return _DEFAULT, f"the default, as {config} sets none"


def _document(host: Host, path: str) -> dict[str, Any]:
    """A configuration of the kubelet, YAML or JSON; {} where it cannot be read."""
    import yaml  # late: most machines have no kubelet, and it takes a tenth of the doctor's imports

    try:
        text = (host.read(path) or b"").decode("utf-8", "replace")
        document = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (CdiError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
