"""The subject of a container: to whom its devices must be granted. Late: only where grants are enforced.

It comes from what the operator controls, never from an image or from labels; the first of these that names one: the
name by which the engine starts shim, the path of the bundle, the cgroup, the Kubernetes namespace of the Pod,
containerd's namespace, the default.

The Pod's namespace is the only annotation that counts: containerd's CRI writes it itself, over whatever a Pod asks for.
Clients of other engines can set any annotation, so it counts in containerd's namespace of the CRI alone.

Source: containerd, pkg/cri/server/container_create.go (buildContainerSpec) and pkg/cri/annotations.
"""

from __future__ import annotations

from shim.base.paths import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.config.settings import Settings
    from shim.create.question import Question


_CRI = "k8s.io"  # containerd's namespace of all Pods
_POD_NAMESPACE = "io.kubernetes.cri.sandbox-namespace"


def subject_of(question: Question, settings: Settings) -> str:
    """The subject of a container, "" where nothing names one.

    Arguments:
        question: the create.
        settings: with the tables of subjects.
    """
    linux = question.config.get("linux")
    cgroup = linux.get("cgroupsPath") if isinstance(linux, dict) else None
    namespace = question.root.rstrip("/").rpartition("/")[2]
    return (
        settings.runtimes.get(question.name, "")
        or _by_pattern(settings.bundles, clean(question.bundle) if question.bundle.startswith("/") else "")
        or _by_pattern(settings.cgroups, cgroup if isinstance(cgroup, str) else "")
        or _by_pod(settings.pod_namespaces, question.config.get("annotations") if namespace == _CRI else None)
        or settings.namespaces.get(namespace, "")
        or settings.default_subject
    )


def hangs_on_the_call(question: Question, settings: Settings) -> bool:
    """Whether the subject comes from what differs between two creates of the same question: bundle, cgroup or Pod."""
    if settings.runtimes.get(question.name):
        return False
    return bool(settings.bundles or settings.cgroups or settings.pod_namespaces)


def _by_pod(namespaces: dict[str, str], annotations: Any) -> str:
    name = annotations.get(_POD_NAMESPACE) if isinstance(annotations, dict) else None
    return namespaces.get(name, "") if isinstance(name, str) else ""


def _by_pattern(patterns: dict[str, str], text: str) -> str:
    return next((subject for pattern, subject in patterns.items() if text and matches(pattern, text)), "")


def matches(pattern: str, text: str) -> bool:
    """Whether a text has the form of a pattern, in which * stands for any text, also with slashes."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first) or len(text) < len(first) + len(rest[-1]) or not text.endswith(rest[-1]):
        return False
    at, end = len(first), len(text) - len(rest[-1])
    for part in rest[:-1]:
        index = text.find(part, at, end)
        if index < 0:
            return False
        at = index + len(part)
    return True
