"""The calls that engines made (tests/data/engine-traces.json): passed on, and once more with a device asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .scenes import LOGS, LOW_LEVEL, config, dump, spec, text

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
FILE = Path(__file__).parent.parent / "data/engine-traces.json"
DEVICE = "acme.example/gpu=0"
SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [
        {
            "name": "0",
            "containerEdits": {"env": ["GPU=0"], "deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/zero"}]},
        }
    ],
}
PLACEHOLDERS = {
    "<SCRATCH>": "/s",
    "<TMPDIR>": "/s/tmp",
    "<USER-CWD>": "/home/user",
    "<ID64>": "0123456789abcdef" * 4,
    "<N>": "7",
    "<RAND>": "r4nd0m",
    "<BUILDKIT-ID>": "bk1d",
    "<RUNTIME>": "shim",
}
VALUES = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "xterm", "PWD": "/"}
CWD = {"root /": "/", "<USER-CWD>": "/home/user", "ANOTHER container's bundle (the sandbox's)": "/s/another"}


def _filled(value: Any) -> Any:
    text_ = json.dumps(value)
    for name, instead in PLACEHOLDERS.items():
        text_ = text_.replace(name, instead)
    return json.loads(text_)


def _option(argv: list[str], *names: str) -> str:
    for at, word in enumerate(argv[:-1]):
        if word in names:
            return argv[at + 1]
        if word.partition("=")[0] in names and "=" in word:
            return word.partition("=")[2]
    return ""


def _config(bundle: Json, *, asking: bool) -> Json:
    """A config.json with what the trace says of it."""
    annotations = dict(bundle["annotations"])
    if asking:
        annotations["cdi.k8s.io/pin"] = DEVICE
        if "io.kubernetes.cri-o.Annotations" in annotations:  # CRI-O: the container's own stand there, too
            annotations["io.kubernetes.cri-o.Annotations"] = dump({"cdi.k8s.io/pin": DEVICE})
    ranges = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    users = {"uidMappings": ranges, "gidMappings": ranges} if bundle["userns"] else {}
    kinds = ["pid", "mount", *(["user"] if bundle["userns"] else [])]
    return {
        "ociVersion": bundle["ociVersion"],
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/bin"], "cwd": "/"},
        "root": {"path": bundle["root_path"]},
        "annotations": annotations,
        "linux": {"cgroupsPath": bundle["cgroupsPath"], "namespaces": [{"type": kind} for kind in kinds], **users},
    }


def _case(number: int, trace: Json) -> Json:
    trace = _filled(trace)
    argv = trace["argv"]
    bundle = _option(argv, "--bundle", "-b") or "/s/bundle"
    cwd = CWD.get(trace["cwd"], trace["cwd"] if trace["cwd"].startswith("/") else bundle)
    files: list[Json] = [{"path": place, "directory": True} for place in (cwd, bundle, "/s/tmp") if place != "/"]
    for option in ("--log", "--pid-file"):
        if _option(argv, option):
            files.append({"path": str(Path(_option(argv, option)).parent), "directory": True})
    process = _option(argv, "--process", "-p")
    if process:
        files.append(text(process, dump({"args": ["true"], "env": ["PATH=/bin", "A=1"], "cwd": "/"})))
    step = {
        "argv": argv,
        "env": [f"{name}={trace['env_values'].get(name, VALUES.get(name, '1'))}" for name in trace["env_keys"]],
        "cwd": cwd,
        "umask": int(trace["umask"], 8),
        "stdin": f"<{trace['stdin']}>",
        "fds": trace["extra_fds"],
    }
    steps = [{"name": "pass", **step}]
    if "bundle" in trace:
        steps[0]["files"] = [config(_config(trace["bundle"], asking=False), f"{bundle}/config.json")]
        asking = [config(_config(trace["bundle"], asking=True), f"{bundle}/config.json")]
        steps.append({"name": "device", **step, "files": asking})
    name = re.sub(r"[^a-z0-9.-]+", "-", f"{trace['engine']}-{trace['version']}-{trace['subcommand']}")
    return {"id": f"traces/{number:03}-{name}", "files": files, "steps": steps}


def cases() -> Iterator[Json]:
    """Each call, without those that are made several times alike."""
    yield {"world": [LOGS, LOW_LEVEL, spec("/etc/cdi/acme.json", SPEC)], "name": "traces"}
    known = set()
    for number, trace in enumerate(json.loads(FILE.read_text())):
        case = _case(number, trace)
        alike = dump([case["files"], case["steps"]])
        if alike not in known:
            known.add(alike)
            yield case
