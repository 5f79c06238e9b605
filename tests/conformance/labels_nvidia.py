"""Cases of labels-nvidia.json: a fake host each, the labels that GPU feature discovery wrote for it, and ours.

Options, variables and configuration file are taken as that program takes them, and mean ours: what it does by default
beside that, the node feature interface of a cluster, we do not have. Everything from the management library to the
feature file is the code that is tested.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from unit.native import elves

from shim.base.findings import CdiError
from shim.discover.nvidia import cuda, cuda_child, nvml, nvml_facts_child
from shim.host.host import Host
from shim.node import vendor_config
from shim.node.labels import feature_file, nvidia
from shim.node.labels.request import request
from shim.node.labels.values import LONGEST, cleaned, is_value

from .labels_nvml import LabelsCuda, LabelsNvml
from .runner import difference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shim.base.findings import Finding

    Labels = dict[str, str]

_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_CONFIG = "/etc/shim-vendor-config.yaml"
_OUTPUT = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
_SWITCHES = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
# option -> the variable that stands for it, below GFD_ or alone
_OPTIONS = {
    "mig-strategy": "MIG_STRATEGY",
    "fail-on-init-error": "FAIL_ON_INIT_ERROR",
    "oneshot": "ONESHOT",
    "no-timestamp": "NO_TIMESTAMP",
    "sleep-interval": "SLEEP_INTERVAL",
    "output-file": "OUTPUT_FILE",
    "machine-type-file": "MACHINE_TYPE_FILE",
    "config-file": "CONFIG_FILE",
    "use-node-feature-api": "USE_NODE_FEATURE_API",
    "device-discovery-strategy": "DEVICE_DISCOVERY_STRATEGY",
}
_STAMP = "nvidia.com/gfd.timestamp"
_MODEL = "nvidia.com/gpu.model."
_SUFFIX = re.compile(r"(-MIG-[A-Za-z0-9.-]+?)?(-SHARED)?$")
_STRICT = {"duplicate-key", "trailing-text"}  # of what a text is not
_DRIVER = "nvidia.com/cuda.driver"
_MODE = "nvidia.com/gpu.mode"


def run(case: dict[str, Any], tmpdir: str) -> str | None:
    """None: as expected. Else the id of a deviation, or what differs."""
    given, expected = case["input"], case["expect"]
    build(given, Path(tmpdir))
    host = Host(tmpdir)
    status, labels, findings = outcome(given, host)
    every = expected.get("one_of", [expected])
    verdicts = [_verdict(given, status, labels, findings, one) for one in every]
    return next((verdict for verdict in verdicts if verdict is None), None) if None in verdicts else verdicts[0]


def build(given: dict[str, Any], top: Path) -> None:
    """Make the host of a case below a directory."""
    for path, entry in given["files"].items():
        at = top / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, str):
            at.write_text(entry, encoding="utf-8")
        elif "base64" in entry:
            at.write_bytes(base64.b64decode(entry["base64"]))
        elif "link" in entry:
            at.symlink_to(entry["link"])
        else:
            at.mkdir(exist_ok=True)
    libraries = top / _LIBRARIES.lstrip("/")
    libraries.mkdir(parents=True)
    for name, is_there in ((nvml.SONAME, given["nvml"]["library"]), (cuda.SONAME, given.get("cuda") is not None)):
        if is_there:
            (libraries / name).write_bytes(elves.library(name))
    if given.get("config") is not None:
        (top / _CONFIG.lstrip("/")).write_text(given["config"], encoding="utf-8")
    ids = top / "usr/share/misc/pci.ids"
    ids.parent.mkdir(parents=True)
    ids.write_text("10de  NVIDIA Corporation\n\t20b0  GA100 [A100 SXM4 40GB]\n\t2330  GH100 [H100 SXM5 80GB]\n")


def outcome(given: dict[str, Any], host: Host) -> tuple[int, Labels | None, list[Finding]]:
    """What ours does on a host: exit status, the labels in the output file (None: none is there), findings."""
    options = _options(given)
    output = options.get("output-file")
    findings: list[Finding] = []
    status = 0
    labels: Labels = {}
    with patch.object(nvml, "ask", _nvml(given)), patch.object(cuda, "ask", _cuda(given)):
        try:
            config = vendor_config.VendorConfig()
            if "config-file" in options or given.get("config") is not None:
                config = vendor_config.read(host, options.get("config-file", _CONFIG))
            output = config.output if output is None else output
            written = nvidia.labels(
                host,
                request(
                    config,
                    vendors=("nvidia",),
                    mig_strategy=options.get("mig-strategy"),
                    source=options.get("device-discovery-strategy"),
                    machine_file=options.get("machine-type-file"),
                    may_lack_driver=_switch(options, "fail-on-init-error", is_inverted=True),
                    has_timestamp=_switch(options, "no-timestamp", is_inverted=True),
                ),
            )
            findings += [*config.findings, *written.findings]
            labels = dict(written.values)
        except CdiError as error:
            findings += error.findings
    if any(finding.level == "ERROR" for finding in findings):
        status = 1
    elif output != "":
        feature_file.write(host, output or _OUTPUT, labels)
    if output != "":
        path = host.real(output or _OUTPUT)
        if not path.exists():
            return status, None, findings
        labels = dict(line.split("=", 1) for line in path.read_text().splitlines())
    return status, labels, findings


def _options(given: dict[str, Any]) -> dict[str, str]:
    """The options of a case, also those of its environment."""
    environment = given.get("env") or {}
    options: dict[str, str] = {}
    for name, variable in _OPTIONS.items():
        for word in (f"GFD_{variable}", variable):
            if word in environment:
                options.setdefault(name, environment[word])
    words = list(given["argv"])
    while words:
        name, equals, value = words.pop(0).lstrip("-").partition("=")
        if not equals and name in {"oneshot", "no-timestamp", "fail-on-init-error", "use-node-feature-api"}:
            value = "true"
        elif not equals:
            value = words.pop(0)
        options[name] = value
    return options


def _switch(options: Mapping[str, str], name: str, *, is_inverted: bool = False) -> bool | None:
    return _SWITCHES[options[name].lower()] is not is_inverted if name in options else None


def _nvml(given: dict[str, Any]) -> Callable[..., Any]:
    """NVML as the case has it, in place of the child process."""
    return lambda *_, **__: nvml_facts_child.collect(LabelsNvml(given["nvml"]))


def _cuda(given: dict[str, Any]) -> Callable[..., Any]:
    """libcuda as the case has it, in place of the child process."""
    return lambda *_: cuda_child.collect(LabelsCuda(given["cuda"]))


def _verdict(
    given: dict[str, Any], status: int, labels: Labels | None, findings: list[Finding], expected: dict[str, Any]
) -> str | None:
    """None: as expected. Else the id of the deviation that alone makes the difference, or what differs."""
    theirs = expected["labels"]
    stamped = dict(labels) if labels is not None else None
    if stamped and stamped.get(_STAMP, "").isdecimal():
        stamped[_STAMP] = "*"
    if expected["status"] == 0 and any(finding.rule in _STRICT for finding in findings):
        return "labels-config"
    if expected["status"] == 0 and _is_told(findings, "does not exist (there are"):
        return "unknown-word"
    if (status == 0) != (expected["status"] == 0):
        return _beyond(stamped, findings, expected) if status == 0 else f"status 1: {_texts(findings)}"
    wrong = difference(stamped, theirs)
    if wrong is None or stamped is None or theirs is None:
        return wrong
    return _deviation(given, stamped, theirs, findings) or wrong


def _deviation(given: dict[str, Any], labels: Labels, theirs: Labels, findings: list[Finding]) -> str | None:
    """The deviation by which labels differ, where both wrote some."""
    different = {name for name in labels.keys() | theirs.keys() if labels.get(name) != theirs.get(name)}
    if _options(given).get("device-discovery-strategy") == "vfio":
        lacking = {name for name in different if name not in labels}
        parts = ("gpu.compute.", "gpu.family", "gpu.memory", "cuda.runtime")
        return "labels-vfio" if different == lacking and all(_is_of(name, parts) for name in lacking) else None
    extra = {name for name in different if name.startswith(_MODEL)}
    if all(name in theirs and labels.get(name) == valid(theirs[name]) for name in different):
        return "labels-value"
    domains = {len(gpu["pci"].partition(":")[0].lstrip("0")) > 4 for gpu in given["nvml"]["gpus"]}
    if different == {_MODE} and domains == {True} and labels[_MODE] in {"graphics", "compute"}:
        return "pci-domain"
    names = {gpu["name"] for gpu in given["nvml"]["gpus"]}
    if len(names) > 1 and _is_told(findings, "several models"):
        return _models(given, labels, different, extra)
    return None


def _models(given: dict[str, Any], labels: Labels, different: set[str], extra: set[str]) -> str | None:
    """Whether the models of a node are told apart, and what stands for the node is one of them as a whole."""
    counts = [int(labels[name]) for name in extra if name.endswith(".count")]
    if not extra or sum(counts) != len([gpu for gpu in given["nvml"]["gpus"] if "DGX Display" not in gpu["name"]]):
        return None
    if any(not name.startswith("nvidia.com/gpu.") for name in different - extra):
        return None
    product, count = labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.count"]
    stands_for = [name for name in _names(given) if product.startswith(valid(cleaned(name)))]
    is_whole = count == str(_names(given).count(stands_for[0])) if stands_for else False
    return "labels-models" if is_whole or "-MIG-" in product else None


def _names(given: dict[str, Any]) -> list[str]:
    return [gpu["name"] for gpu in given["nvml"]["gpus"]]


def _is_of(name: str, parts: tuple[str, ...]) -> bool:
    return name.removeprefix("nvidia.com/").startswith(parts)


def valid(text: str) -> str:
    """A value made valid: the model shortened, what marks it kept, and the ends letters or digits."""
    if is_value(text):
        return text
    text = cleaned(text)
    suffix = (_SUFFIX.search(text) or [""])[0]
    head = text[: len(text) - len(suffix)][: LONGEST - len(suffix)].rstrip("-_.")
    return (head + suffix).strip("-_.")


def _beyond(labels: Labels | None, findings: list[Finding], expected: dict[str, Any]) -> str | None:
    """The deviation by which we write labels where the reference ends with an error, dies, or never ends."""
    error = expected.get("error") or ""
    if labels is None:
        return "no error, and no file"
    if not all(is_value(value) for value in labels.values()):
        return f"no valid labels: {labels}"
    if "clientset" in error:
        return "labels-file"
    if "does not match format" in error and _is_told(findings, "not X.Y"):
        return None if any(name.startswith(_DRIVER) for name in labels) else "labels-version"
    if _is_told(findings, "looks like a vGPU"):
        return "labels-vgpu" if not any("vgpu." in name for name in labels) and _has_gpus(labels) else None
    if expected["status"] in {2, None} and "nil pointer" not in error:
        return "labels-vgpu" if labels.get("nvidia.com/vgpu.present", "false") == "false" else f"a vGPU: {labels}"
    if not _has_gpus(labels):
        return f"status 0 without GPUs: {error}"
    if "nil pointer" in error:
        return "labels-class"
    if expected["status"] == 127 or "parent device handle" in error:
        return "labels-library"
    return f"status 0, expected {expected['status']}: {error}"


def _has_gpus(labels: Labels) -> bool:
    return "nvidia.com/gpu.count" in labels


def _is_told(findings: list[Finding], text: str) -> bool:
    return any(text in finding.text for finding in findings)


def _texts(findings: list[Finding]) -> str:
    return "; ".join(str(finding) for finding in findings)
