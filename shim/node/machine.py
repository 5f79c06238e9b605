"""The host as a process in its root sees it, and what is done to it by programs: engines restarted, shim itself run."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.node.wish import Wish

_AGENT = re.compile(r"systemctl restart \S+ \(on an agent: (\S+)\)")
_TIMEOUT = 300.0  # seconds for a program of the host: the discovery of devices asks drivers


def host(*, dry_run: bool = False) -> Host:
    """The host. Where its /proc is not mounted in its root it has no processes: engines are found by their files."""
    real = Host() if Path("/proc/self/stat").exists() else Host(daemons=())
    return real.rehearsal() if dry_run else real


def restart(command: str) -> Finding | None:
    """Restart an engine.

    Arguments:
        command: as of Engine.restart_command; k3s and rke2 have another unit on an agent, which is tried next.
    Returns:
        NODE_RESTART where it fails.
    """
    refusal = ""
    for words in _alternatives(command):
        refusal = next(filter(None, (_refusal(part.split()) for part in words.split("&&"))), "")
        if not refusal:
            return None
    return Finding("NODE_RESTART", f"`{command}` failed: {refusal}", f"on the host: {command}")


def _alternatives(command: str) -> Iterator[str]:
    yield command.partition(" (")[0]
    if agent := _AGENT.match(command):
        yield f"systemctl restart {agent[1]}"


def _refusal(words: list[str]) -> str:
    """The last line of what a program that fails writes; "" when it succeeds."""
    try:
        done = subprocess.run(words, input="", capture_output=True, text=True, timeout=_TIMEOUT, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return reason(error) if isinstance(error, OSError) else f"no end after {_TIMEOUT:.0f} s"
    return (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1] if done.returncode else ""


def ask_shim(launcher: str, *words: str) -> dict[str, Any]:
    """Run a command of the shim that is installed on the host, with `-o json`.

    Returns:
        its document.
    Raises:
        CdiError: NODE_SETUP, where it ends without one.
    """
    try:
        done = subprocess.run(
            [launcher, *words, "-o", "json"],
            input="",  # /dev/null may be missing
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            cwd="/",
        )
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        cause = reason(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, ValueError):
            cause = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        command = f"{launcher} {' '.join(words)}"
        raise CdiError([Finding("NODE_SETUP", f"`{command}` failed: {cause}", f"on the host: {command}")]) from None


def start(wish: Wish, *words: str) -> subprocess.Popen[bytes]:
    """Start the shim that is installed on the host, in the host's root, from a process outside of it."""

    def enter() -> None:
        os.chroot(wish.host_root)
        os.chdir("/")

    return subprocess.Popen([wish.launcher, *words], stdin=subprocess.DEVNULL, preexec_fn=enter)  # noqa: PLW1509 (one thread)
