"""Pods, devices, the plugin and the kubelet, as the cases use them on the node of node.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines.harness.images import BUSYBOX

KIND = "vendor.com/gpu"
NODES = Path("/run/vendor")  # private to the node
SPEC = Path("/etc/cdi/vendor.json")
CONFIG = Path("/etc/shim/node.toml")
MAJOR = 60  # for local use: no driver serves it
ALLOWED = "No such device or address"  # what opening such a node gives where the device rules allow it

# A container prints what it has, then waits for its end
PROBE = """
echo "env=${VENDOR_GPU-absent}"
for n in 0 1 2; do
    [ -c /dev/vendor-gpu$n ] && { (: < /dev/vendor-gpu$n) 2>/tmp/e; read -r line < /tmp/e; echo "gpu$n=${line##*: }"; }
done
echo end
trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done
"""


def scratch() -> Path:
    """The directory of node.py."""
    return Path(os.environ["NODE_DIR"])


def kubectl(*words: str, stdin: str | None = None, fails: bool = False) -> str:
    """Standard output of kubectl; raises RuntimeError where it fails, unless it may."""
    done = subprocess.run(["kubectl", *words], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode and not fails:
        raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
    return done.stdout


def wait(what: str, condition: Callable[[], Any], seconds: float = 90) -> Any:
    """The first true value of a condition; raises TimeoutError with the events of the cluster."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise TimeoutError(f"waited {seconds} s: {what}\n{kubectl('get', 'pods,events', fails=True)}")


# --- devices ----------------------------------------------------------------------------------------------------------


def make_node(number: int) -> None:
    path = NODES / f"gpu{number}"
    NODES.mkdir(exist_ok=True)
    os.mknod(path, 0o20666, os.makedev(MAJOR, number))
    path.chmod(0o666)


def write_spec(numbers: list[int]) -> None:
    """The spec of these devices, replaced as a generator does it."""
    devices = [
        {
            "name": str(number),
            "containerEdits": {
                "env": [f"VENDOR_GPU={number}"],
                "deviceNodes": [{"path": f"/dev/vendor-gpu{number}", "hostPath": f"{NODES}/gpu{number}"}],
            },
        }
        for number in numbers
    ]
    SPEC.parent.mkdir(exist_ok=True)
    fresh = SPEC.with_suffix(".new")
    fresh.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": devices}))
    fresh.rename(SPEC)


def allocatable(resource: str = KIND) -> str:
    node = json.loads(kubectl("get", "node", "node", "-o", "json"))
    return str(node["status"].get("allocatable", {}).get(resource, "absent"))


def wait_for_count(count: int, resource: str = KIND) -> None:
    wait(f"{count} of {resource}", lambda: allocatable(resource) == str(count))


# --- pods -------------------------------------------------------------------------------------------------------------


def create(name: str, devices: int = 1, *, resource: str = KIND, runtime: str = "shim", restart: str = "Never") -> None:
    """Create a pod of one container that asks for devices."""
    container = {
        "name": "only",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", PROBE],
        "resources": {"limits": {resource: devices}} if devices else {},
    }
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": 1, "restartPolicy": restart, "containers": [container]}
    if runtime:
        spec["runtimeClassName"] = runtime
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    kubectl("apply", "-f", "-", stdin=json.dumps(pod))


def delete(*names: str) -> None:
    kubectl("delete", "pod", *names)


def got(name: str) -> dict[str, str]:
    """What the container of a pod has, as it prints it itself."""

    def text() -> str:
        logs = kubectl("logs", name, fails=True)
        return logs if "end\n" in logs else ""

    lines = wait(f"{name} has started", text).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def phase(name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}", fails=True)


def events(name: str) -> str:
    """The events of a pod."""
    form = 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}'
    return kubectl("get", "events", f"--field-selector=involvedObject.name={name}", "-o", form)


def exactly(number: str) -> dict[str, str]:
    """What a container has that was given this device, and no other."""
    return {"env": number, f"gpu{number}": ALLOWED}


# --- processes --------------------------------------------------------------------------------------------------------


class Plugin:
    """`shim node plugin` as a process."""

    def __init__(self) -> None:
        self.log = scratch() / "log/plugin.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            words = [os.environ["SHIM"], "node", "plugin"]
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        status = self._process.wait(30)
        self._process = None
        return status

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


class Kubelet:
    """The kubelet of the node, which can be started again."""

    def __init__(self) -> None:
        self.pid = int((scratch() / "kubelet.pid").read_text())
        self.words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")[:-1]
        self._process: subprocess.Popen[bytes] | None = None

    def end(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        if self._process is not None:
            self._process.wait(30)
        else:  # its parent, node.py, waits for it at the end only: a zombie has no command line
            wait("the kubelet ends", lambda: not Path(f"/proc/{self.pid}/cmdline").read_bytes())

    def start(self) -> None:
        with (scratch() / "log/kubelet.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        self.pid = self._process.pid

    def close(self) -> None:
        """End the process that was started here; another is node.py's to end."""
        if self._process is not None:
            self.end()
