"""The host as the daemon sees it: links of its mount namespace, runtimes of its configuration, nodes of the specs."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from shim.gate import upstream
from shim.host.sockets import connect, peer

PODMAN = "podman answers there, which has CDI names in other fields: a start could not be judged"
_MOST_LINKS = 40


def resolve(path: str, root: str = "") -> str:
    """A path with its links resolved below a root directory, as far as it exists.

    Arguments:
        path: absolute.
        root: the directory whose tree is meant, for example /proc/PID/root; "" for this process's own.

    Raises OSError: a directory may not be searched, or the links are a circle.
    """
    done, rest, links = "/", path.split("/"), 0
    rest.reverse()
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = posixpath.dirname(done)
            continue
        candidate = posixpath.join(done, name)
        try:
            target = os.readlink(root + candidate)
        except FileNotFoundError:
            return posixpath.normpath("/".join([candidate, *reversed(rest)]))
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            done = candidate
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(40, "Too many levels of symbolic links", path)
        if target.startswith("/"):
            done = "/"
        rest += reversed(target.split("/"))
    return done


def is_podman(version: Mapping[str, Any]) -> bool:
    """Whether an answer to `GET /version` is that of podman."""
    parts = version.get("Components") or ()
    return any("podman" in str(part.get("Name", "")).lower() for part in parts if isinstance(part, dict))


_NO_LINK = frozenset({20, 22})  # ENOTDIR below a file, EINVAL: no link


class View:
    """The daemon's view of the host's paths.

    Arguments:
        socket_path: of the daemon. The process that listens there is the daemon, or systemd for it.
        pid_file: of the daemon, read where systemd listens.
    """

    def __init__(self, socket_path: str, pid_file: str) -> None:
        self._socket = socket_path
        self._pid_file = pid_file

    def realpath(self, path: str) -> str:
        """A path as the daemon resolves it now.

        Raises OSError: the daemon cannot be reached, its root may not be entered, or a directory not be searched.
        """
        return resolve(path, self.root())

    def root(self) -> str:
        """The daemon's root directory; "" for this process's own, where systemd listens and no daemon runs."""
        with connect(self._socket) as connection:
            pid, _, _ = peer(connection)
        if pid <= 1:
            try:
                with open(self._pid_file, encoding="ascii") as file:
                    pid = int(file.read(16))
            except (FileNotFoundError, ValueError):
                return ""
        root = f"/proc/{pid}/root"
        os.stat(f"{root}/proc")
        return root


class Runtimes(Mapping[str, tuple[str, ...]]):
    """Runtime -> the devices that it stands for: those of the policy, else the shim's runtimes of the daemon.

    The daemon is asked each time, because its configuration may be loaded again. A runtime of another program than the
    shim, or with other arguments than `--device`, is not allowed by this.

    Arguments:
        listed: of the policy.
        socket_path: of the daemon.
    """

    def __init__(self, listed: Mapping[str, tuple[str, ...]], socket_path: str) -> None:
        self._listed = dict(listed)
        self._socket = socket_path

    def __getitem__(self, name: str) -> tuple[str, ...]:
        if name in self._listed:
            return self._listed[name]
        return self._of_daemon()[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._listed, **self._of_daemon()})

    def __len__(self) -> int:
        return len({**self._listed, **self._of_daemon()})

    def _of_daemon(self) -> dict[str, tuple[str, ...]]:
        try:
            info = upstream.ask(self._socket, "/info") or {}
        except OSError:
            return {}
        return of_info(info)


def of_info(info: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The shim's runtimes that have devices in their arguments, of the daemon's `GET /info`.

    Arguments:
        info: the decoded answer.
    """
    runtimes = info.get("Runtimes")
    found: dict[str, tuple[str, ...]] = {}
    for name, runtime in runtimes.items() if isinstance(runtimes, dict) else ():
        devices = _devices(runtime) if isinstance(runtime, dict) else None
        if devices:
            found[str(name)] = devices
    return found


def _devices(runtime: dict[str, Any]) -> tuple[str, ...] | None:
    program = posixpath.basename(str(runtime.get("path") or ""))
    if program != "shim" and not program.startswith("shim-"):
        return None
    words = runtime.get("runtimeArgs") or []
    names: list[str] = []
    rest = iter(words if isinstance(words, list) else [])
    for word in rest:
        if word == "--device":
            names.append(str(next(rest, "")))
        elif isinstance(word, str) and word.startswith("--device="):
            names.append(word.removeprefix("--device="))
        else:
            return None
    return tuple(names)
