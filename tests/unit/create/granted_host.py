"""A machine on which grants are enforced, for the tests of what create and update make of that."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import posix
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import Decision, decide
from shim.create.recorded import Recorded, decision_to_json, trace_from_json, trace_to_json
from shim.create.world import World
from shim.grants.store import Store
from shim.hooks._core import ffi, lib

Json = dict[str, Any]

KIND = "acme.example/gpu"
GRANTS, LOG = Path("/etc/shim/grants.json"), Path("/var/log/shim/audit.jsonl")
ID = "4f6c0c2b7d1e"

DENY: Json = {"allow": False, "access": "rwm"}
# The rules of a container under docker (moby, oci/defaults.go) and containerd (pkg/oci/spec_opts.go)
USUAL: list[Json] = [
    DENY,
    *({"allow": True, "type": "c", "major": 1, "minor": minor, "access": "rwm"} for minor in (3, 5, 7, 8, 9)),
    *({"allow": True, "type": "c", "major": 5, "minor": minor, "access": "rwm"} for minor in (0, 1, 2)),
    {"allow": True, "type": "c", "access": "m"},
    {"allow": True, "type": "b", "access": "m"},
    {"allow": True, "type": "c", "major": 136, "access": "rwm"},
]


class Scene:
    """A machine with two cards, of which the first is granted to repo-a, and a create that asks for nothing."""

    def __init__(self, top: Path) -> None:
        self.top, self.bundle = top, top / "run/ns" / ID
        self.settings: Json = {}
        for path in ("dev", "cdi", "empty"):
            (top / path).mkdir()
        self.bundle.mkdir(parents=True)
        for name, minor in (("gpu0", 0), ("gpu1", 1), ("control", 255)):
            os.mknod(top / "dev" / name, 0o020666, os.makedev(240, minor))
        self.write_spec()
        self.config: Any = {
            "ociVersion": "1.0.2",
            "process": {"args": ["sh"], "cwd": "/", "capabilities": {"bounding": ["CAP_MKNOD"]}},
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/etc/hosts", "type": "bind", "source": "/etc/hosts", "options": ["rbind"]},
                {"destination": "/work", "type": "bind", "source": str(top), "options": ["rbind"]},
            ],
            "linux": {
                "resources": {"devices": copy.deepcopy(USUAL)},
                "cgroupsPath": "/repo-a/4f6c",
                "namespaces": [{"type": "mount"}, {"type": "pid"}],
            },
            "annotations": {},
        }

    def node(self, name: str) -> Json:
        return {"path": f"/dev/{name}", "hostPath": f"{self.top}/dev/{name}"}

    def write_spec(self) -> None:
        cards = {"0": ["gpu0"], "1": ["gpu1"], "all": ["gpu0", "gpu1"]}
        devices: list[Json] = [
            {"name": name, "containerEdits": {"deviceNodes": [self.node(node) for node in nodes]}}
            for name, nodes in cards.items()
        ]
        devices.append({"name": "null", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}})
        port = {"netDevices": [{"hostInterfaceName": "eth7", "name": "eth1"}]}
        devices.append({"name": "port", "containerEdits": port})
        common = {"deviceNodes": [self.node("control")]}
        spec = {"cdiVersion": "1.1.0", "kind": KIND, "containerEdits": common, "devices": devices}
        (self.top / "cdi/a.json").write_text(json.dumps(spec))

    def question(
        self, *, verb: str = "create", name: str = "shim", root: str = "", devices: tuple[str, ...] = ()
    ) -> Question:
        (self.bundle / "config.json").write_text(
            self.config if isinstance(self.config, str) else json.dumps(self.config)
        )
        words = [f"low={self.top}/runc", f"name={name}", f"self={self.top}/shim", f"verb={verb}", f"id={ID}"]
        words += [f"bundle={self.bundle}", f"root={root}", *(f"device={KIND}={device}" for device in devices)]
        call = Invocation([*words, "--", "true"])
        return Question(call, Bundle(call.config), rootful=True)

    def decide(self, **options: Any) -> Decision:
        self.configure()
        question = self.question(**options)
        decision = decide(question, World())
        again = decide(question, Recorded(trace_from_json(json.loads(json.dumps(trace_to_json(decision.trace))))))
        assert decision_to_json(again) == json.loads(json.dumps(decision_to_json(decision))), (
            "made again from its trace"
        )
        return decision

    def configure(self) -> None:
        """Write the configuration, with the settings below [grants]."""
        lines = [f'[cdi]\nspec-dirs = ["{self.top}/cdi"]\n[log]\nfile = ""\n[grants]']
        settings = {"enforce": True, "default-subject": "repo-a", **self.settings}
        lines += [f"{name} = {_toml(value)}" for name, value in settings.items()]
        (self.top / "config.toml").write_text("\n".join([*lines, ""]))

    def refusal(self, **options: Any) -> str:
        """The ids and the text of the refusal, "" for none."""
        refusal = self.decide(**options).refusal
        return f"{' '.join(finding.id for finding in refusal.findings)}: {refusal}" if refusal else ""

    def launcher_notices(self) -> bool:
        """Whether the launcher starts Python for this config.json, though it asks for nothing."""
        data = (self.bundle / "config.json").read_bytes()
        call, bundle = ffi.new("struct call *"), ffi.new("char[]", str(self.bundle).encode())
        call.bundle = bundle
        return bool(lib.may_have_hardware(call, ffi.new("char[]", data), len(data)))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {json.dumps(item)}" for name, item in value.items()) + "}"
    return json.dumps(value)


@contextlib.contextmanager
def enforcing(top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The machine in a directory, for the length of a test."""
    scene = Scene(top)
    monkeypatch.setitem(posix.environ, b"SHIM_CONFIG", str(top / "config.toml").encode())
    scene.settings = {"enforce": False}
    scene.decide()
    scene.settings = {}
    grant("repo-a", "0")
    yield scene
    for path in (*GRANTS.parent.glob("grants*"), LOG):
        path.unlink(missing_ok=True)


def grant(subject: str, *names: str) -> None:
    """Grant devices by the last part of their names."""
    Store().add(subject, [f"{KIND}={name}" for name in names], lambda: World().served().whole())
