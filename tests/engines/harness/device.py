"""The one device of the engine tests, its CDI spec, and the probe that a container runs to say what it got.

`zero` has the numbers of /dev/zero, so that reading shows that the node is the right one. `gate` has numbers of the
range for local use, which no driver serves: opening it answers "No such device or address" when the container's device
rules allow it and "Operation not permitted" when not. So the tests see the rule, whatever drivers the kernel has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .sandbox import Sandbox

KIND = "vendor.test/fake"
NAME = f"{KIND}=one"
UNKNOWN = f"{KIND}=two"

NODES = {"zero": ("1", "5"), "gate": ("60", "7")}
NODE_DIRECTORY = "/run/shim-tests-nodes"  # in the sandbox's own /run

ALLOWED = "No such device or address"
REFUSED = "Operation not permitted"

PROBE = """
echo "env=${SHIM_TEST-absent}"
echo "mount=$(cat /opt/shim/marker 2>/dev/null || echo absent)"
for node in ZERO GATE; do [ -c $node ] || echo "${node##*/}=absent"; done
[ -c ZERO ] && echo "zero=$(head -c 4 ZERO | od -An -tx1 | tr -d ' ')"
[ -c GATE ] && echo "gate=$( (: < GATE) 2>&1)"
true
"""

WITH = {"env": "one", "mount": "from the host", "zero": "00000000", "gate": ALLOWED}
WITHOUT = dict.fromkeys(WITH, "absent")

HOOK = """#!/bin/sh
{ echo "$SHIM_TEST_HOOK"; /bin/cat; } > "$1"
echo >> "$1-calls"
"""


class FakeDevice:
    """The device of a sandbox: nodes, mount source, hook and spec.

    Arguments:
        same_path: nodes appear in the container under the path that they have on the host. In a user namespace
            low-level runtimes bind-mount the nodes, and then take the container's path for the host's.
    """

    def __init__(self, sandbox: Sandbox, *, same_path: bool = False) -> None:
        self._sandbox = sandbox
        self._directory = NODE_DIRECTORY if same_path else "/dev/shim"
        self._hook_output = sandbox.scratch / "tmp/hook-output"
        self._hook_calls = sandbox.scratch / "tmp/hook-output-calls"
        for file in (self._hook_output, self._hook_calls):
            file.unlink(missing_ok=True)
        host = sandbox.scratch / "host"
        if not (host / "hook").exists():
            (host / "data").mkdir()
            (host / "data/marker").write_text("from the host\n", encoding="ascii")
            (host / "hook").write_text(HOOK, encoding="ascii")
            (host / "hook").chmod(0o755)
            sandbox.run("mkdir", NODE_DIRECTORY).ok()
            for name, (major, minor) in NODES.items():
                sandbox.run("mknod", "-m", "666", f"{NODE_DIRECTORY}/{name}", "c", major, minor).ok()

    def spec(self) -> dict[str, Any]:
        """The CDI spec as a document."""
        nodes = [{"path": f"{self._directory}/{name}", "hostPath": f"{NODE_DIRECTORY}/{name}"} for name in NODES]
        data = {
            "hostPath": f"{self._sandbox.host}/data",
            "containerPath": "/opt/shim",
            "options": ["ro", "nosuid", "nodev", "bind"],
        }
        hook = {
            "hookName": "createContainer",
            "path": f"{self._sandbox.host}/hook",
            "args": ["hook", str(self._hook_output)],
            "env": ["SHIM_TEST_HOOK=called"],
        }
        edits = {"env": ["SHIM_TEST=one"], "deviceNodes": nodes, "mounts": [data], "hooks": [hook]}
        # podman 4.3's own CDI reads no newer version
        return {"cdiVersion": "0.5.0", "kind": KIND, "devices": [{"name": "one", "containerEdits": edits}]}

    def publish(self, directory: str = "etc-cdi") -> Path:
        """Write the spec to /etc/cdi ("etc-cdi") or /var/run/cdi ("run-cdi"); the file as seen from outside."""
        file = self._sandbox.scratch / directory / "vendor.json"
        file.write_text(json.dumps(self.spec()), encoding="ascii")
        return file

    @property
    def probe(self) -> str:
        """The shell script that a container runs to say what it got; its output is for seen()."""
        return PROBE.replace("ZERO", f"{self._directory}/zero").replace("GATE", f"{self._directory}/gate")

    def hook_state(self) -> dict[str, Any] | None:
        """The state that the hook was given by the runtime; None if the hook did not run with its environment."""
        if not self._hook_output.exists():
            return None
        word, _, state = self._hook_output.read_text(encoding="utf-8").partition("\n")
        decoded: dict[str, Any] = json.loads(state)
        return decoded if word == "called" else None

    def hook_calls(self) -> int:
        """How often the hook has run: once in each start of a container, unless something has put it in twice."""
        return self._hook_calls.stat().st_size if self._hook_calls.exists() else 0

    def config(self) -> dict[str, Any]:
        """The config.json of the container for which the hook ran last, as long as there is one."""
        state = self.hook_state()
        assert state is not None, "no container was given the device"
        decoded: dict[str, Any] = json.loads(Path(state["bundle"], "config.json").read_bytes())
        return decoded


def repeated(config: Mapping[str, Any]) -> list[str]:
    """What a config.json holds more than once: variables by name, nodes, mounts, hooks, device rules.

    Of the rules those behind the last denial count: docker denies again what it has allowed in between.
    """
    linux = config["linux"]
    rules = linux["resources"].get("devices", [])
    decided = max((number for number, rule in enumerate(rules) if not rule["allow"]), default=-1) + 1
    found = [variable.partition("=")[0] for variable in config["process"]["env"]]
    found += [node["path"] for node in linux.get("devices", [])]
    found += [json.dumps(rule, sort_keys=True) for rule in rules[decided:]]
    found += [mount["destination"] for mount in config["mounts"]]
    found += [json.dumps([stage, hook]) for stage, hooks in config.get("hooks", {}).items() for hook in hooks]
    return [entry for entry, times in Counter(found).items() if times > 1]


def seen(output: str) -> dict[str, str]:
    """The answers of a probe: WITH, WITHOUT, or what went wrong instead."""
    answers = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    for name in answers.keys() & {"gate"}:
        answers[name] = answers[name].rpartition(": ")[2]
    return answers


def assert_reason(text: str) -> None:
    """Assert that a message about UNKNOWN names what was asked, where it was looked for, and what there is."""
    for word in (UNKNOWN, "/etc/cdi", "/var/run/cdi", NAME):
        assert word in text, f"{word} is not in: {text}"
