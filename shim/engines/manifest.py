"""RuntimeClass and Pod: check them against an engine, and write them.

A RuntimeClass names a handler, which is the name of a runtime in the engine of each node. Nothing in a cluster compares
the two before a Pod is refused by the kubelet of the node that it came to.

How a request reaches shim. The kubelet gives an engine two sets of annotations: those of each container, which come
from the answer of a device plugin, and those of the Pod, which its author writes. The first are requests; containerd
passes them on where container_annotations allows it, which `shim runtime configure` writes, CRI-O always. The second
are none: containerd passes them on where pod_annotations allows it, which verify calls an error, CRI-O always, and
there a create ignores them. A device plugin that answers with CDI devices instead of annotations needs the engine's own
CDI.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/runtime-class-v1/,
https://kubernetes.io/docs/concepts/containers/runtime-class/,
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from shim.base.nearest import nearest
from shim.engines import manifest_yaml, sources
from shim.engines.manifest_yaml import Object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shim.base.findings import Finding
    from shim.engines.contract import Engine
    from shim.engines.model import Registry
    from shim.host.host import Host

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUANTITY = re.compile(r"[+]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[mkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS = ("apiVersion", "kind", "metadata", "handler", "overhead", "scheduling")
# Path to the Pod of a workload
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"), ("spec", "template")),
    **dict.fromkeys(("ReplicationController", "Job"), ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def check(text: str, host: Host, engine: Engine, registry: Registry, file: str = "") -> list[Finding]:
    """What is wrong with the RuntimeClasses and Pods of a manifest, on a node with this engine.

    Arguments:
        text: YAML or JSON of one or several objects; those of other kinds are passed over.
        host: the node.
        engine: the node's.
        registry: the engine's configuration.
        file: name of the manifest, for findings.
    Raises:
        CdiError: MANIFEST_INVALID when it is no manifest.
    """
    objects = manifest_yaml.read(text, file)
    classes = {str(item.get("metadata", "name")): item for item in objects if item.get("kind") == "RuntimeClass"}
    findings: list[Finding] = []
    for item in objects:
        kind = str(item.get("kind"))
        if kind == "RuntimeClass":
            findings += [*_class(item), *_names(item), *_handler(item, engine, registry)]
        elif kind in _TEMPLATES:
            findings += _pod(item.below(*_TEMPLATES[kind]), classes, host, engine, registry)
    if not any(item.get("kind") == "RuntimeClass" or str(item.get("kind")) in _TEMPLATES for item in objects):
        kinds = ", ".join(sorted({str(item.get("kind")) for item in objects})) or "nothing"
        text = f"no RuntimeClass and no Pod is in it, but {kinds}"
        findings.append(Object({}, file).finding("MANIFEST_INVALID", text))
    return findings


def runtime_class(
    name: str,
    handler: str,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    overhead: Mapping[str, str] | None = None,
) -> str:
    """The manifest of a RuntimeClass, for `kubectl apply -f`.

    Arguments:
        name: of the class, by which Pods choose it.
        handler: name of the runtime in the engine of every node.
        node_selector: labels that a node must have.
        tolerations: taints that its Pods tolerate, in Kubernetes' form (`toleration` reads a word).
        overhead: what a Pod of this class costs besides its containers: resource -> quantity.
    Raises:
        ValueError: Kubernetes would not take it, with the cause.
    """
    document: dict[str, Any] = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
    }
    if overhead:
        document["overhead"] = {"podFixed": dict(overhead)}
    if node_selector or tolerations:
        selector = {"nodeSelector": dict(node_selector)} if node_selector else {}
        tolerated = {"tolerations": [dict(item) for item in tolerations]} if tolerations else {}
        document["scheduling"] = {**selector, **tolerated}
    item = Object(document)
    # a name that is a handler, too, is checked once, as a label: stricter than Kubernetes is about names
    handlers = _label(item, "handler") if handler != name else ()
    _refuse([*_label(item, "metadata", "name"), *handlers, *_class(item)])
    comment = (
        f"# Pods with `runtimeClassName: {name}` run under the runtime {handler} of the engine of their node.\n"
        "# Every node on which they can be scheduled must have it (`shim runtime configure` there).\n"
    )
    return comment + _text(document)


def example_pod(runtime_class: str, resource: str = "", name: str = "shim-example", image: str = "busybox") -> str:
    """The manifest of a Pod that gets a device, and prints what is in its /dev.

    Arguments:
        runtime_class: name of the RuntimeClass.
        resource: what a device plugin offers, VENDOR/NAME; "" for a Pod that asks for nothing.
        name: of the Pod.
        image: with a shell.
    Raises:
        ValueError: Kubernetes would not take it, with the cause.
    """
    container: dict[str, Any] = {"name": "example", "image": image, "command": ["ls", "-l", "/dev"]}
    if resource:
        container["resources"] = {"limits": {resource: 1}}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"runtimeClassName": runtime_class, "restartPolicy": "Never", "containers": [container]},
    }
    pod = Object(document)
    _refuse([*_label(pod, "metadata", "name"), *_name(pod, "spec", "runtimeClassName")])
    if resource and not re.fullmatch(rf"{_SUBDOMAIN.pattern}/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", resource):
        raise ValueError(f"{resource} is no resource of a device plugin: it is named VENDOR/NAME")
    return (_WITH_PLUGIN if resource else _WITHOUT) + _text(document)


def toleration(word: str) -> dict[str, str]:
    """A toleration from KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, the form that `kubectl taint` has for taints.

    Raises:
        ValueError: it has another form.
    """
    rest, _, effect = word.partition(":")
    key, equals, value = rest.partition("=")
    if not key or (":" in word and effect not in _EFFECTS):
        raise ValueError(f"{word} is no toleration: it is KEY[=VALUE][:EFFECT], EFFECT one of {', '.join(_EFFECTS)}")
    operator = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **operator, **({"effect": effect} if effect else {})}


_WITH_PLUGIN = (
    "# A device plugin gives the device: it answers the kubelet with annotations cdi.k8s.io/… for this container,\n"
    "# which the engine passes on to the runtime. Annotations of the Pod itself ask for nothing: whoever may create a\n"
    "# Pod writes them. A plugin that answers with CDI devices needs the engine's own CDI instead.\n"
)
_WITHOUT = "# It asks for no device, and so runs as it would under the usual runtime.\n"


# --- RuntimeClass -----------------------------------------------------------------------------------------------------


def _class(item: Object) -> Iterator[Finding]:
    """What is wrong with a RuntimeClass besides its two names."""
    version = item.get("apiVersion")
    if version != "node.k8s.io/v1":
        gone = ", which Kubernetes has no longer since 1.25" if str(version).startswith("node.k8s.io/v1") else ""
        text = f"apiVersion of a RuntimeClass is {version}{gone}"
        yield item.finding("MANIFEST_INVALID", text, "apiVersion", remedy="write node.k8s.io/v1")
    for field in item.document.keys() - set(_FIELDS):
        near = nearest(field, _FIELDS)
        remedy = "write `handler: NAME` at the top" if field == "spec" else f"did you mean {near[0]}?" if near else ""
        yield item.finding("MANIFEST_INVALID", f"a RuntimeClass has no field {field}", field, remedy=remedy)
    if item.get("overhead") is not None:
        yield from _overhead(item)
    if item.get("scheduling") is not None:
        yield from _scheduling(item)


def _names(item: Object) -> Iterator[Finding]:
    yield from _name(item, "metadata", "name")
    yield from _label(item, "handler")


def _handler(item: Object, engine: Engine, registry: Registry) -> Iterator[Finding]:
    """A handler that is no runtime of the engine."""
    handler = item.get("handler")
    if isinstance(handler, str) and handler not in registry.runtimes and engine.has_runtime_classes:
        text = f"{engine.name} has no runtime {handler}, so that Pods of this class are refused"
        yield item.finding("HANDLER_MISSING", f"{text}; there are {registry.near(handler)}", "handler")


def _overhead(item: Object) -> Iterator[Finding]:
    fixed = item.get("overhead", "podFixed")
    if not isinstance(fixed, dict):
        text = "overhead holds podFixed, with a quantity for each resource"
        yield item.finding(
            "MANIFEST_INVALID", text, "overhead", remedy="for example podFixed: {cpu: 10m, memory: 16Mi}"
        )
        return
    for resource, quantity in fixed.items():
        is_number = isinstance(quantity, int | float) and not isinstance(quantity, bool) and quantity >= 0
        if not is_number and not (isinstance(quantity, str) and _QUANTITY.fullmatch(quantity)):
            text = f"overhead of {resource} is no quantity: {quantity}"
            path = ("overhead", "podFixed", resource)
            yield item.finding("MANIFEST_INVALID", text, *path, remedy="quantities are 10m, 0.5, 16Mi, 1Gi")


def _scheduling(item: Object) -> Iterator[Finding]:
    selector, tolerations = item.get("scheduling", "nodeSelector"), item.get("scheduling", "tolerations")
    scheduling = item.get("scheduling")
    if not isinstance(scheduling, dict) or not {"nodeSelector", "tolerations"} >= scheduling.keys():
        text = "scheduling holds nodeSelector and tolerations, nothing else"
        yield item.finding("MANIFEST_INVALID", text, "scheduling")
        return
    if selector is not None and not (isinstance(selector, dict) and all(isinstance(x, str) for x in selector.values())):
        text = "nodeSelector is a table of labels, each with a text"
        remedy = 'put the value into quotes: "true"'
        yield item.finding("MANIFEST_INVALID", text, "scheduling", "nodeSelector", remedy=remedy)
    if tolerations is not None and not isinstance(tolerations, list):
        yield item.finding("MANIFEST_INVALID", "tolerations is a list", "scheduling", "tolerations")
        return
    for number, toleration in enumerate(tolerations or ()):
        if fault := _tolerations_fault(toleration):
            yield item.finding("MANIFEST_INVALID", fault, "scheduling", "tolerations", number)


def _tolerations_fault(item: Any) -> str:
    if not isinstance(item, dict):
        return "a toleration is a table"
    operator = item.get("operator", "Equal")
    if unknown := sorted(map(str, item.keys() - set(_TOLERATION))):
        return f"a toleration has no field {unknown[0]}; it has {', '.join(_TOLERATION)}"
    if operator not in {"Exists", "Equal", "Lt", "Gt"}:
        return f"a toleration has no operator {operator}; there are Exists, Equal, Lt and Gt"
    if item.get("effect", "") not in {"", *_EFFECTS}:
        return f"there is no effect {item['effect']}; there are {', '.join(_EFFECTS)}"
    if operator == "Exists" and item.get("value"):
        return "a toleration with the operator Exists has no value"
    if not item.get("key") and operator != "Exists":
        return "a toleration without a key has the operator Exists"
    if "tolerationSeconds" in item and item.get("effect") != "NoExecute":
        return "tolerationSeconds goes with the effect NoExecute"
    return ""


# --- Pod --------------------------------------------------------------------------------------------------------------


def _pod(
    pod: Object, classes: Mapping[str, Object], host: Host, engine: Engine, registry: Registry
) -> Iterator[Finding]:
    name = pod.get("spec", "runtimeClassName")
    if pod.get("kind") == "Pod" and pod.get("apiVersion") != "v1":
        text = f"apiVersion of a Pod is {pod.get('apiVersion')}"
        yield pod.finding("MANIFEST_INVALID", text, "apiVersion", remedy="write v1")
    if name is not None:
        yield from (faults := list(_name(pod, "spec", "runtimeClassName")))
        if faults:
            return
        if name not in classes:
            text = f"the RuntimeClass {name} is not in this manifest, so its handler was not checked"
            remedy = f"kubectl get runtimeclass {name} -o yaml | shim runtime verify --manifest -"
            yield pod.finding("CLASS_ELSEWHERE", text, "spec", "runtimeClassName", remedy=remedy)
    handler = classes[name].get("handler") if name in classes else registry.default if name is None else name
    annotations = pod.get("metadata", "annotations")
    remedy = "let a device plugin ask, by a resource in the container's limits (`shim runtime class` writes an example)"
    for key in annotations if isinstance(annotations, dict) else ():
        if not key.startswith(sources.prefixes(host)):
            continue
        text = engine.pod_annotation(host, registry, str(handler), key)
        if text:
            yield pod.finding("POD_ANNOTATION", f"{key}: {text}", "metadata", "annotations", key, remedy=remedy)


# --- both -------------------------------------------------------------------------------------------------------------


def _name(item: Object, *path: str) -> Iterator[Finding]:
    value = item.get(*path)
    if value is None:
        yield item.finding("MANIFEST_INVALID", f"{'.'.join(path)} is missing", *path, remedy="add it")
    elif not isinstance(value, str) or len(value) > 253 or not _SUBDOMAIN.fullmatch(value):
        text = f"{'.'.join(path)} is {value!r}, which is no name: small letters and digits, - and . inside"
        yield item.finding("MANIFEST_INVALID", text, *path, remedy="choose another name")


def _label(item: Object, *path: str) -> Iterator[Finding]:
    value = item.get(*path)
    if value is None:
        yield item.finding("MANIFEST_INVALID", f"{'.'.join(path)} is missing", *path, remedy="add it")
    elif not isinstance(value, str) or not _LABEL.fullmatch(value):
        text = f"{'.'.join(path)} is {value!r}, which is no DNS label: up to 63 small letters and digits, - inside"
        remedy = "choose another name; the engine's runtime needs it too"
        yield item.finding("MANIFEST_INVALID", text, *path, remedy=remedy)


def _refuse(findings: Iterable[Finding]) -> None:
    if texts := list(dict.fromkeys(finding.text for finding in findings)):
        raise ValueError("; ".join(texts))


def _text(document: dict[str, Any]) -> str:
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000))
