"""Annotations that a runtime of containerd passes on to config.json: those of the kubelet, and those of a Pod's author.

`container_annotations` lets annotations of the container through, which the kubelet sets (a device plugin's answer) or
another client of the CRI. `pod_annotations` lets annotations of the Pod through, which its author writes, into its
sandbox and each of its containers. In config.json the two look the same, so the create path cannot tell them apart:
what `pod_annotations` lets through counts as a request. Therefore no runtime of shim may have a pattern there that
matches a key of ours.

No other key of a runtime's table is a way for a Pod's author: `base_runtime_spec` names a file of the administrator,
and the annotation io.kubernetes.cri.untrusted-workload chooses a runtime, as a RuntimeClass does.

Sources: containerd, docs/cri/config.md; internal/cri/server/container_create.go (1.x: pkg/cri/server)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.engines import launcher, sources
from shim.engines.containerd import config_files, patterns, runtime_tables
from shim.engines.texts.values import texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.engines.containerd.config_files import Merged
    from shim.engines.model import Location, Runtime
    from shim.host.host import Host


def passed_on(host: Host) -> list[str]:
    """The patterns of `container_annotations` that let every annotation through which asks for devices."""
    return [pattern for prefix in sources.prefixes(host) for pattern in patterns.of_prefix(prefix)]


def of_pods(host: Host, location: Location, name: str) -> Iterator[Finding]:
    """POD_REQUESTS, for each pattern by which the author of a Pod can ask a runtime of shim for devices.

    Arguments:
        host, location: the machine, and where its configuration is.
        name: a runtime of shim; others are recognised by their program.
    """
    merged = config_files.merged(host, location)
    prefixes = sources.prefixes(host)
    for runtime in runtime_tables.runtimes(merged).values():
        if runtime.name != name and not launcher.is_launcher(host, _program(host, location, runtime)):
            continue
        for pattern in texts(runtime.table.get("pod_annotations")):
            matching = [prefix for prefix in prefixes if patterns.can_match(pattern, prefix)]
            if matching:
                yield _pod_requests(merged, runtime, pattern, matching[0])


def missing(host: Host, runtime: Runtime) -> Iterator[Finding]:
    """RUNTIME_ANNOTATIONS, where a runtime does not pass on a request of the kubelet's."""
    present = texts(runtime.table.get("container_annotations"))
    lacking = [
        f'"{pattern}"'
        for prefix in sources.prefixes(host)
        for pattern, key in patterns.of_prefix(prefix).items()
        if not any(patterns.matches(other, key) for other in present)
    ]
    if lacking:
        text = (
            f"container_annotations of the runtime {runtime.name} lacks {', '.join(lacking)}: containerd passes on no "
            "such annotation of a container, so that a request by annotation does not arrive"
        )
        remedy = f"set container_annotations = [{', '.join(lacking)}]; `shim runtime configure` does"
        yield Finding("RUNTIME_ANNOTATIONS", text, remedy, path=runtime.file, line=runtime.line)


def _pod_requests(merged: Merged, runtime: Runtime, pattern: str, prefix: str) -> Finding:
    path, line = runtime_tables.position(merged, ("containerd", "runtimes", runtime.name, "pod_annotations"))
    text = (
        f'pod_annotations of the runtime {runtime.name} holds "{pattern}", which matches {prefix}…: whoever may create '
        "a Pod gets any device by an annotation"
    )
    remedy = f'take "{pattern}" out of pod_annotations: container_annotations passes on what the kubelet asks'
    return Finding("POD_REQUESTS", text, remedy, path=path or runtime.file, line=line or runtime.line)


def _program(host: Host, location: Location, runtime: Runtime) -> str:
    """The low-level runtime of a runtime; containerd looks for runc in the daemon's PATH where none is named."""
    named = runtime.path or ("runc" if runtime.type == runtime_tables.TYPE else "")
    return host.find(named, path=location.daemon.path if location.daemon else "")
