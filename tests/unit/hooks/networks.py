"""Throw-away network namespaces for the tests of the netDevices hook, and the hook itself as a runtime would start it.

Two of them stand for the host and for a container. Each is held by a process of its own and vanishes with it, and with
it everything that is in it. The interfaces are veth pairs, which every kernel with containers has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import shim

MAIN = Path(shim.__file__).with_name("__main__.py")
HOOK = [sys.executable, "-I", "-S", "-B", str(MAIN), "netdevices"]
TAG = "shim-host-name-"


class Network:
    """A network namespace with lo up.

    Arguments:
        owner: options of `unshare` that make the user namespace it belongs to.
    """

    def __init__(self, *owner: str) -> None:
        self._holder = subprocess.Popen(["unshare", *owner, "--net", "sleep", "1000"])
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 30
        while self._link() in {"", own} and time.monotonic() < deadline:
            time.sleep(0.005)
        self.ip("link set lo up")

    def _link(self) -> str:
        try:
            return os.readlink(self.path)
        except OSError:
            return ""

    @property
    def pid(self) -> int:
        return self._holder.pid

    @property
    def path(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    def end(self) -> None:
        self._holder.kill()
        self._holder.wait()

    def inside(self, *command: str) -> list[str]:
        return ["nsenter", f"--net={self.path}", *command]

    def run(self, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.inside(*command), text=True, capture_output=True, check=False, timeout=120, **more)

    def ip(self, words: str) -> str:
        done = self.run("ip", *words.split())
        assert done.returncode == 0, f"ip {words}: {done.stderr}"
        return done.stdout

    def links(self) -> dict[str, dict[str, Any]]:
        """Interfaces by name, as `ip -j` has them; altnames and flags as sets.

        Without what the kernel says of the carrier, since it comes a moment after the interface is up.
        """
        found = {link["ifname"]: link for link in json.loads(self.ip("-j -d link show"))}
        for link in found.values():
            link["altnames"] = set(link.get("altnames", ()))
            link["flags"] = set(link["flags"]) - {"LOWER_UP", "NO-CARRIER"}
        return found

    def names(self) -> set[str]:
        return set(self.links()) - {"lo"}

    def addresses(self, name: str) -> list[str]:
        """ADDRESS/PREFIX of an interface, link-local ones of IPv6 left out, sorted."""
        infos = json.loads(self.ip(f"-j addr show dev {name}"))[0]["addr_info"]
        return sorted(f"{info['local']}/{info['prefixlen']}" for info in infos if not info["local"].startswith("fe80"))


class Hook:
    """The hook between two networks, for one container with its bundle."""

    def __init__(self, host: Network, container: Network, bundle: Path) -> None:
        self.host = host
        self.container = container
        self.bundle = bundle

    def state(self, **members: Any) -> str:
        state = {"ociVersion": "1.0.2", "id": "c1", "status": "creating", "bundle": str(self.bundle)}
        return json.dumps({**state, "pid": self.container.pid, **members})

    def run(
        self, *words: str, state: str | None = None, before: tuple[str, ...] = (), **more: Any
    ) -> subprocess.CompletedProcess[str]:
        return self.host.run(*before, *HOOK, *words, input=self.state() if state is None else state, **more)

    def attach(self, *pairs: str) -> None:
        done = self.run("attach", *pairs)
        assert (done.returncode, done.stderr) == (0, "")

    def detach(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("detach", *words, state=self.state(pid=0, status="stopped"))

    def detach_with_path(self, *pairs: str) -> subprocess.CompletedProcess[str]:
        return self.detach(f"--netns={self.container.path}", *pairs)

    def records(self) -> list[str]:
        return sorted(path.name for path in self.bundle.iterdir())
