"""Who may ask: the table of docs/create.md, cell by cell, with config.json as each engine writes it.

A cell is an engine and a way to ask. Its verdict is the last word in the documented cell. Engines that can be had here
do the same for real: tests/engines/test_origins.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.create.callers import ID, SANDBOX, recorded

from shim.base.findings import CdiError
from shim.config.settings import ANY, Settings
from shim.create import image_requests, request
from shim.create.annotation_origin import PODMAN, PODMAN_UNKNOWN
from shim.create.annotation_requests import find
from shim.create.engine_annotations import OWN

NAME = "vendor.test/class=dev0"
KEY = "cdi.k8s.io/x"
VARIABLE = "NVIDIA_VISIBLE_DEVICES=all"
MOUNT = {"destination": "/var/run/nvidia-container-devices/all", "source": "/dev/null", "options": ["bind"]}
CRIO_CALL = {"CRI_O_EXTERNAL": "1"}

COUNTS, REFUSED, IGNORED, OFF, NOT_THERE = "counts", "refused", "ignored", "off", "not there"

Json = dict[str, Any]
Ask = Callable[[Json], None]  # changes a config.json as the engine does for one way to ask


class Engine:
    """How an engine calls, and what it writes into each config.json.

    Attributes:
        annotations: of a recorded create, or of what its source writes.
        caller: the process that calls.
    """

    def __init__(
        self,
        annotations: dict[str, Any],
        environ: dict[str, str] | None = None,
        podman: tuple[str, str, str] | None = None,
    ) -> None:
        """Take the environment of the call, and of podman what shim.create.podman_caller finds."""
        self.annotations = annotations
        self._environ, self._podman = environ or {}, podman

    def environ(self, name: str) -> str:
        """A variable of the call."""
        return self._environ.get(name, "")

    def podman(self, stage: str) -> tuple[str, str, str]:
        """The given answer."""
        assert self._podman, f"this engine is not podman, and has no stage {stage}"
        return self._podman

    def config(self, *asks: Ask) -> Json:
        """A config.json in which these ways to ask are used."""
        config = {"annotations": dict(self.annotations), "process": {"env": ["PATH=/bin"]}, "mounts": []}
        for ask in asks:
            ask(config)
        return config


def wanted(engine: Engine, config: Json, *devices: str, **settings: str) -> dict[str, str]:
    """What a create would inject: qualified name -> source."""
    chosen = Settings()
    for name, value in settings.items():
        setattr(chosen, name, value)
    asked = find(config, ID, chosen, engine, precreate=False)
    assert not asked.is_sandbox
    assert {finding.id for finding in asked.findings} <= {"REQUEST_IGNORED"}
    found = request.ask(asked.requests, devices, chosen.annotation_prefixes, chosen.default_kind)
    return {**found, **image_requests.ask(config, chosen, found).requests}


OLD = (PODMAN_UNKNOWN, "/usr/bin/podman is podman 4.3.1", "the ways that remain")
NEW = (PODMAN, "/usr/bin/podman is recorded as podman 5.4.2", "")

ENGINES = {
    "containerd, by the kubelet": Engine(recorded("containerd", "2.1", "CRI StartContainer")),
    "containerd, with `pod_annotations`": Engine(recorded("containerd", "1.6", "CRI StartContainer")),
    "containerd, by `ctr`": Engine(recorded("containerd", "1.6", "ctr run")),
    "nerdctl 1": Engine({"nerdctl/name": "x", "nerdctl/namespace": "default", "io.containerd.image.config": "y"}),
    "nerdctl 2": Engine({"nerdctl/name": "x", "nerdctl/namespace": "default"}),
    "docker before 24": Engine(recorded("docker", "20.10", "docker run")),
    "docker 24 and later": Engine(recorded("docker", "26.1", "docker run")),
    "podman before 4.6, or unknown": Engine(recorded("podman", "4.3", "podman run"), podman=OLD),
    "podman 4.6 and later, recorded": Engine(recorded("podman", "5.4", "podman run"), podman=NEW),
    "buildah, `podman build`": Engine(recorded("buildah", "1.28", "buildah run")),
    "CRI-O": Engine(recorded("cri-o", "1.36", "CRI CreateContainer"), CRIO_CALL),
    "a person, another program": Engine({}),
}


def annotation(config: Json, key: str = KEY) -> None:
    """A client, the kubelet or an image: the key stands beside the engine's own."""
    config["annotations"][key] = NAME


def nerdctl_label(config: Json) -> None:
    annotation(config, "cdi.k8s.io/nerdctl/x")


def of_container_under_crio(config: Json) -> None:
    """CRI-O writes the container's own twice."""
    annotation(config)
    config["annotations"][OWN] = json.dumps({**json.loads(config["annotations"][OWN]), KEY: NAME})


def variable(config: Json) -> None:
    config["process"]["env"].append(VARIABLE)


def mount(config: Json) -> None:
    config["mounts"].append(MOUNT)


# --device reaches the launcher's command line: tests/unit/native/test_grammar.py
def device(config: Json) -> None:
    config["device"] = NAME


COLUMNS = (
    "annotation",
    "label",
    "annotation of the image's manifest",
    "label of the image",
    "variable",
    "mount",
    "`--device`",
    "annotation of the Pod",
)


def row(*cells: Ask | None) -> tuple[Ask | None, ...]:
    """What an engine does to config.json for each column; None: nothing."""
    annotation, label, manifest, image_label, device, pod = cells
    return (annotation, label, manifest, image_label, variable, mount, device, pod)


WAYS: dict[str, tuple[Ask | None, ...]] = {
    "containerd, by the kubelet": row(annotation, None, None, None, None, None),
    "containerd, with `pod_annotations`": row(annotation, None, None, None, None, annotation),
    "containerd, by `ctr`": row(annotation, annotation, None, None, None, None),
    "nerdctl 1": row(annotation, annotation, None, None, None, None),
    "nerdctl 2": row(annotation, nerdctl_label, None, nerdctl_label, None, None),
    "docker before 24": row(None, None, None, None, device, None),
    "docker 24 and later": row(annotation, None, None, None, device, None),
    "podman before 4.6, or unknown": row(annotation, None, annotation, None, device, None),
    "podman 4.6 and later, recorded": row(annotation, None, None, None, device, None),
    "buildah, `podman build`": row(None, None, None, None, device, None),
    "CRI-O": row(of_container_under_crio, annotation, None, None, None, annotation),
    "a person, another program": row(annotation, None, None, None, device, None),
}


def documented() -> dict[tuple[str, str], str]:
    """The table of docs/create.md: (engine, way) -> cell."""
    text = (Path(__file__).parents[3] / "docs/create.md").read_text()
    rows = re.findall(r"^\| (.*) \|$", text.partition("## Who may ask")[2].partition("\n## ")[0], re.MULTILINE)
    head, *body = [line.split(" | ") for line in rows if "---" not in line]
    return {(cells[0], column): cell for cells in body for column, cell in zip(head[1:], cells[1:], strict=True)}


TABLE = documented()
CELLS = {(engine, column): ask for engine, asks in WAYS.items() for column, ask in zip(COLUMNS, asks, strict=True)}


def test_the_documented_table_is_the_tested_one() -> None:
    assert list(TABLE) == list(CELLS)


@pytest.mark.parametrize("cell", CELLS, ids=" / ".join)
def test_the_cell_holds(cell: tuple[str, str]) -> None:
    engine, ask = ENGINES[cell[0]], CELLS[cell]
    words = TABLE[cell].removesuffix(" (POD_REQUESTS)")
    verdict = next(word for word in (COUNTS, REFUSED, IGNORED, OFF, NOT_THERE) if words.endswith(word))
    if ask is None:
        assert verdict == NOT_THERE
        assert wanted(engine, engine.config()) == {}
        return
    config = engine.config(ask)
    devices = [config.pop("device")] if ask is device else []
    if verdict == REFUSED:
        with pytest.raises(CdiError) as caught:
            wanted(engine, config, *devices)
        assert [finding.id for finding in caught.value.findings] == ["REQUEST_ORIGIN"]
    elif verdict == COUNTS:
        assert list(wanted(engine, config, *devices)) == [NAME]
    else:
        assert verdict in {OFF, IGNORED}
        assert wanted(engine, config, *devices) == {}
        switched_on = {"environment": ANY, "mounts": ANY, "pod_annotations": ANY}
        assert len(wanted(engine, config, *devices, **switched_on)) == 1, "it would ask"


# --- forged ---------------------------------------------------------------------------------------------------------


def test_an_image_of_an_old_podman_cannot_pass_for_crio() -> None:
    """Every key that CRI-O writes, with the request among the container's own: found by use, A1 and A2."""
    forged = {**ENGINES["CRI-O"].config(of_container_under_crio)["annotations"]}
    engine = ENGINES["podman before 4.6, or unknown"]
    config = engine.config(lambda config: config["annotations"].update({**forged, **engine.annotations}))
    with pytest.raises(CdiError, match="the image may have written it"):
        wanted(engine, config)
    assert list(wanted(ENGINES["CRI-O"], config)) == [NAME], "positive control: in a call of CRI-O's it counts"


def test_an_image_cannot_hide_podman_from_us() -> None:
    """podman keeps what an image has under its key, and adds the key otherwise: it is there in any case."""
    engine = ENGINES["podman before 4.6, or unknown"]
    for value in ("cri-o", "containerd", "", None):
        config = engine.config(annotation)
        config["annotations"]["io.container.manager"] = value
        with pytest.raises(CdiError, match="the image may have written it"):
            wanted(engine, config)


@pytest.mark.parametrize("podman", ["podman before 4.6, or unknown", "podman 4.6 and later, recorded"])
def test_an_image_that_says_it_is_a_sandbox_takes_no_device_away(podman: str) -> None:
    """Found by use, F3: the user's own request was dropped without a word."""
    engine = ENGINES[podman]
    forged = {
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-id": SANDBOX,
        "io.kubernetes.cri-o.ContainerType": "sandbox",
        "io.kubernetes.cri-o.SandboxID": SANDBOX,
        "io.kubernetes.container.name": "POD",
    }
    config = engine.config(lambda config: config["annotations"].update(forged))
    assert list(wanted(engine, config, NAME)) == [NAME]


def test_a_pod_cannot_pass_its_requests_off_as_its_containers() -> None:
    """It may write the key of the container's own as well: CRI-O writes that key after those of the Pod."""
    engine = ENGINES["CRI-O"]
    forged = {KEY: NAME, OWN: json.dumps({KEY: NAME}), "io.kubernetes.cri-o.ContainerType": "sandbox"}
    pod_first = {**forged, **engine.annotations}
    config = engine.config(lambda config: config.update(annotations={**pod_first}))
    assert config["annotations"][KEY] == NAME
    assert wanted(engine, config) == {}


def test_a_pod_cannot_pass_its_sandbox_off_as_a_container() -> None:
    """CRI-O writes a Pod's annotations over type, id and own annotations of the sandbox, and labels over all."""
    sandbox = recorded("cri-o", "1.36", "CRI RunPodSandbox")
    forged = {
        KEY: NAME,
        OWN: json.dumps({KEY: NAME}),
        "io.kubernetes.cri-o.ContainerType": "container",
        "io.kubernetes.cri-o.SandboxID": SANDBOX,
    }
    config = {"annotations": {**sandbox, **forged}}
    engine = Engine({}, CRIO_CALL)
    assert find(config, ID, Settings(), engine, precreate=False).is_sandbox
    del config["annotations"]["io.kubernetes.container.name"]
    assert list(wanted(engine, config)) == [NAME], "positive control: nothing else tells it from a container"


def test_a_pod_of_containerd_gains_nothing_by_crios_keys() -> None:
    engine = ENGINES["containerd, with `pod_annotations`"]
    forged = {"io.kubernetes.cri-o.ContainerType": "sandbox", "io.kubernetes.cri-o.SandboxID": ID}
    config = engine.config(annotation, lambda config: config["annotations"].update(forged))
    assert list(wanted(engine, config)) == [NAME], "the container's own request is not dropped"


def test_under_containerd_the_key_of_podman_makes_a_container_fail_and_no_device() -> None:
    """An image's never gets there. A client may set it by hand; it asks for trouble, and gets an explanation."""
    engine = Engine(ENGINES["containerd, by `ctr`"].annotations, podman=OLD)
    assert (
        wanted(engine, engine.config(lambda config: config["annotations"].update({"io.container.manager": "x"}))) == {}
    )
    with pytest.raises(CdiError, match="the image may have written it"):
        wanted(
            engine,
            engine.config(annotation, lambda config: config["annotations"].update({"io.container.manager": "x"})),
        )


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_a_device_option_counts_whatever_an_image_or_a_pod_forges(engine: Engine) -> None:
    """No image and no Pod can write it. What is refused is an annotation that asks, not --device beside it."""
    forged = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri-o.ContainerType": "sandbox"}
    config = engine.config(lambda config: config["annotations"].update(forged))
    assert list(wanted(engine, config, NAME)) == [NAME]
