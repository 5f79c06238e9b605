"""RuntimeClass and Pod: what is wrong with them on a node, and what is written."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import CdiError, Finding
from shim.engines import manifest
from shim.engines.model import Registry, Runtime
from shim.engines.table import ENGINES
from shim.engines.texts.values import Table
from shim.host.host import Host

NODE = Host("/nonexistent", daemons=[])
CLASS = """apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata:
  name: shim
handler: shim
"""
POD = """apiVersion: v1
kind: Pod
metadata:
  name: example
  annotations:
    cdi.k8s.io/example: vendor.com/device=one
spec:
  runtimeClassName: shim
  containers:
  - name: one
    image: busybox
"""


def registry(*names: str, pod_annotations: list[str] | None = None) -> Registry:
    table: Table = {"pod_annotations": [*pod_annotations]} if pod_annotations else {}
    runtimes = {name: Runtime(name, table=table) for name in names or ("runc", "shim")}
    return Registry(runtimes=runtimes, default="runc")


def check(text: str, engine: str = "containerd", of: Registry | None = None) -> list[Finding]:
    return manifest.check(text, NODE, ENGINES[engine], of or registry(), "rc.yaml")


def told(text: str, engine: str = "containerd", of: Registry | None = None) -> list[tuple[str, int]]:
    return [(one.id, one.line) for one in check(text, engine, of)]


LAUGHS = "a: &a [1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefgh")
)

# --- against the engine -----------------------------------------------------------------------------------------------


def test_a_class_whose_handler_the_engine_has_is_in_order() -> None:
    assert told(CLASS) == []


@pytest.mark.parametrize("engine", ["containerd", "crio", "docker"])
def test_a_handler_that_the_engine_lacks_is_told_with_those_that_it_has(engine: str) -> None:
    (found,) = check(CLASS, engine, registry("runc", "shim-2", "nvidia"))
    assert (found.id, found.path, found.line) == ("HANDLER_MISSING", "rc.yaml", 5)
    assert "there are shim-2, nvidia, runc" in found.text


def test_podman_is_no_engine_of_a_kubelet() -> None:
    assert told(CLASS, "podman", registry("crun")) == []


def test_all_objects_of_several_documents_and_of_lists_are_looked_at() -> None:
    second = "apiVersion: v1\nkind: List\nitems:\n- " + CLASS.replace("\n", "\n  ").replace(
        "handler: shim", "handler: a"
    )
    text = f"# a comment\n---\n{CLASS}---\n{second}\n---\n---\nkind: ConfigMap\n"
    assert told(text) == [("HANDLER_MISSING", 16)]


def test_json_is_yaml() -> None:
    text = '{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",\n "metadata": {"name": "x"},\n "handler": "x"}'
    assert told(text) == [("HANDLER_MISSING", 3)]


# --- faults of a RuntimeClass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("node.k8s.io/v1", "node.k8s.io/v1beta1", 1, "no longer since 1.25"),
        ("node.k8s.io/v1", "v1", 1, "apiVersion of a RuntimeClass is v1"),
        ("handler: shim", "handlers: shim", 5, "has no field handlers"),
        ("handler: shim", "spec:\n  runtimeHandler: shim", 5, "has no field spec"),
        ("handler: shim", "handler: Shim_1", 5, "no DNS label"),
        ("handler: shim", f"handler: {'a' * 64}", 5, "no DNS label"),
        ("handler: shim", "handler: 5", 5, "no DNS label"),
        ("name: shim", "name: Shim", 4, "metadata.name is 'Shim'"),
        ("  name: shim", "  namespace: x", 3, "metadata.name is missing"),
        ("handler: shim", "handler: shim\noverhead:\n  cpu: 10m", 6, "overhead holds podFixed"),
        (
            "handler: shim",
            "handler: shim\noverhead:\n  podFixed:\n    cpu: 10mm",
            8,
            "overhead of cpu is no quantity: 10mm",
        ),
        ("handler: shim", "handler: shim\noverhead:\n  podFixed:\n    memory: -1", 8, "no quantity"),
        ("handler: shim", "handler: shim\nscheduling:\n  nodeSelectors: {}", 6, "scheduling holds nodeSelector"),
        ("handler: shim", "handler: shim\nscheduling:\n  nodeSelector:\n    gpu: true", 7, "each with a text"),
        ("handler: shim", "handler: shim\nscheduling:\n  tolerations:\n    key: x", 7, "tolerations is a list"),
        ("handler: shim", "handler: shim\nscheduling:\n  tolerations:\n  - key: x\n  - oops", 9, "is a table"),
    ],
)
def test_what_kubernetes_would_refuse_is_told_with_its_line(old: str, new: str, line: int, says: str) -> None:
    found = [one for one in check(CLASS.replace(old, new, 1)) if one.id == "MANIFEST_INVALID"]
    assert says in found[0].text
    assert found[0].line == line
    assert found[0].remedy


@pytest.mark.parametrize(
    ("toleration", "says"),
    [
        ("{key: x, operator: Exists}", ""),
        ("{operator: Exists}", ""),
        ("{key: x, value: y, effect: NoExecute, tolerationSeconds: 60}", ""),
        ("{key: x, operator: Exists, value: y}", "has no value"),
        ("{value: y}", "without a key"),
        ("{key: x, effect: noschedule}", "there are NoSchedule, PreferNoSchedule, NoExecute"),
        ("{key: x, operator: In}", "no operator In"),
        ("{key: x, seconds: 1}", "no field seconds"),
        ("{key: x, effect: NoSchedule, tolerationSeconds: 1}", "goes with the effect NoExecute"),
    ],
)
def test_tolerations(toleration: str, says: str) -> None:
    found = check(f"{CLASS}scheduling:\n  tolerations:\n  - {toleration}\n")
    assert [(one.id, one.line) for one in found] == ([("MANIFEST_INVALID", 8)] if says else [])
    assert all(says in one.text for one in found)


@pytest.mark.parametrize("quantity", ["0", "10m", "1.5", ".5", "16Mi", "1e3", "2E", '"1"', "3."])
def test_quantities(quantity: str) -> None:
    assert told(f"{CLASS}overhead:\n  podFixed:\n    cpu: {quantity}\n") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("kind: RuntimeClass\n  handler: [", 2),
        ("kind: RuntimeClass\nhandler: a\nhandler: b\n", 3),
        ("- 1\n", 1),
        ("kind: RuntimeClass\n? [a]\n: 1\n", 2),
        ("a: &a\n  b: *a\n", 1),
        (LAUGHS, 0),
        ("kind: !!int x\n", 1),
        ("kind: \t\x01", 0),
        ("[" * 2000, 0),
        (f"kind: {'[' * 60}{']' * 60}", 1),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, line: int) -> None:
    with pytest.raises(CdiError) as caught:
        check(text)
    (found,) = caught.value.findings
    assert found.id == "MANIFEST_INVALID"
    assert line in {0, found.line}


@pytest.mark.parametrize(("text", "says"), [("", "but nothing"), ("kind: ConfigMap\n---\nkind: [x]\n", "ConfigMap")])
def test_a_check_that_checks_nothing_says_so(text: str, says: str) -> None:
    (found,) = check(text)
    assert (found.id, says in found.text) == ("MANIFEST_INVALID", True)


@given(st.text(max_size=60))
def test_no_text_ends_in_anything_but_findings(text: str) -> None:
    try:
        found = check(text)
    except CdiError as error:
        found = error.findings
    assert found


# --- Pods -------------------------------------------------------------------------------------------------------------

PLAIN = POD.replace("  annotations:\n    cdi.k8s.io/example: vendor.com/device=one\n", "")


def test_a_pod_with_its_class_is_in_order() -> None:
    assert told(f"{CLASS}---\n{PLAIN}") == []


def test_a_class_that_is_not_in_the_manifest_was_not_looked_at() -> None:
    (found,) = check(PLAIN)
    assert (found.id, found.level, found.line) == ("CLASS_ELSEWHERE", "NOTE", 6)
    assert found.remedy == "kubectl get runtimeclass shim -o yaml | shim runtime verify --manifest -"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("apiVersion: v1", "apiVersion: v2", 1),
        ("runtimeClassName: shim", "runtimeClassName: Shim", 6),
        ("runtimeClassName: shim", "runtimeClassName: [shim]", 6),
    ],
)
def test_faults_of_a_pod(old: str, new: str, line: int) -> None:
    assert ("MANIFEST_INVALID", line) in told(f"{PLAIN.replace(old, new)}---\n{CLASS}")


@pytest.mark.parametrize(
    ("engine", "passed", "says"),
    [
        ("containerd", None, "passes no annotation of a Pod on to its containers"),
        ("containerd", ["cdi.k8s.io/*"], "through to each container and to the sandbox"),
        ("containerd", ["cdi.k8s.io/ex*"], "through to each container and to the sandbox"),
        ("containerd", ["other/*", "*"], "passes no annotation"),
        ("crio", None, "into each of its containers, where it is no request"),
        ("docker", None, "passes no annotation"),
    ],
)
def test_what_arrives_of_an_annotation_of_a_pod_is_told(engine: str, passed: list[str] | None, says: str) -> None:
    (found,) = check(f"{CLASS}---\n{POD}", engine, registry(pod_annotations=passed))
    assert (found.id, found.line) == ("POD_ANNOTATION", 12)
    assert says in found.text
    assert "device plugin" in found.remedy


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[cdi]\nannotation-prefixes = ["acme.com/"]\n', ""),
        ('[sources]\npod-annotations = "off"\n', "where it is no request"),
        ('[sources]\npod-annotations = "any"\n', "each of them asks by it"),
    ],
)
def test_the_configuration_of_shim_decides_what_an_annotation_of_a_pod_is(text: str, says: str) -> None:
    node = NODE.with_files({"/etc/shim/config.toml": text.encode()})
    found = manifest.check(f"{CLASS}---\n{POD}", node, ENGINES["crio"], registry())
    assert len(found) == bool(says)
    assert all(says in one.text for one in found)


def test_podman_hands_them_on() -> None:
    assert told(f"{CLASS}---\n{POD}", "podman") == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", "spec template"),
        ("DaemonSet", "spec template"),
        ("Job", "spec template"),
        ("CronJob", "spec jobTemplate spec template"),
        ("PodTemplate", "template"),
    ],
)
def test_the_pod_of_a_workload_is_looked_at(kind: str, path: str) -> None:
    pod: dict[str, Any] = {"metadata": {"annotations": {"cdi.k8s.io/x": "a.b/c=d"}}, "spec": {"containers": []}}
    for key in reversed(path.split()):
        pod = {key: pod}
    text = yaml.safe_dump({"kind": kind, **pod}, sort_keys=False)
    line = 1 + text[: text.index("cdi.k8s.io")].count("\n")
    assert told(text) == [("POD_ANNOTATION", line)]


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_class_is_written_with_what_was_asked_for() -> None:
    text = manifest.runtime_class(
        "gpu", "shim", {"gpu": "true"}, [manifest.toleration("gpu=yes:NoSchedule")], {"cpu": "10m"}
    )
    assert yaml.safe_load(text) == {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gpu"},
        "handler": "shim",
        "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {
            "nodeSelector": {"gpu": "true"},
            "tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        },
    }
    assert text.startswith("# Pods with `runtimeClassName: gpu` run under the runtime shim")
    assert told(text) == []


def test_the_smallest_class_has_no_empty_fields() -> None:
    assert [
        line for line in manifest.runtime_class("shim", "shim").splitlines() if line[0] != "#"
    ] == CLASS.splitlines()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Shim", "shim"), "metadata.name"),
        (("my.shim", "shim"), "no DNS label"),  # of a name that Kubernetes takes, we take those that work everywhere
        (("shim", ""), "handler"),
        (("shim", "a b"), "handler"),
        (("shim", "shim", None, (), {"cpu": "much"}), "no quantity: much"),
        (("shim", "shim", None, [{"key": "x", "effect": "No"}]), "there is no effect No"),
    ],
)
def test_what_kubernetes_would_refuse_is_not_written(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        manifest.runtime_class(*arguments)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        ("gpu:NoExecute", {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
        ("a.b/gpu=", {"key": "a.b/gpu", "operator": "Equal", "value": ""}),
        ("gpu=x:NoSchedule", {"key": "gpu", "operator": "Equal", "value": "x", "effect": "NoSchedule"}),
    ],
)
def test_a_toleration_is_written_as_a_word(word: str, expected: dict[str, str]) -> None:
    assert manifest.toleration(word) == expected


@pytest.mark.parametrize("word", ["", "=x", ":NoSchedule", "gpu:Never", "gpu:"])
def test_a_word_that_is_no_toleration_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="is no toleration"):
        manifest.toleration(word)


def test_the_example_asks_through_a_device_plugin() -> None:
    text = manifest.example_pod("shim", resource="vendor.com/device")
    pod = yaml.safe_load(text)
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"vendor.com/device": 1}}
    assert pod["spec"]["runtimeClassName"] == "shim"
    assert "annotations" not in pod["metadata"]
    assert "Annotations of the Pod itself ask for nothing" in text
    assert told(f"{CLASS}---\n{text}") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"runtime_class": "Shim"}, "spec.runtimeClassName"),
        ({"runtime_class": "shim", "name": "Example"}, "metadata.name"),
        ({"runtime_class": "shim", "resource": "gpu"}, "VENDOR/NAME"),
    ],
)
def test_an_example_that_would_not_work_is_not_written(arguments: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        manifest.example_pod(**arguments)


def test_what_is_written_is_the_same_each_time() -> None:
    assert manifest.runtime_class("a", "b") == manifest.runtime_class("a", "b")
    assert manifest.example_pod("a", "b.c/d") == manifest.example_pod("a", "b.c/d")
