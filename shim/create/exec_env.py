"""exec: the process file of an engine gets the variables of the container's devices. Loaded for exec only.

An engine describes what to exec in a file (`exec --process FILE`), with the environment from its own records. The
launcher comes here only when the container has a record. A variable is set where it is absent or still has the value
that it had before us; so a value that the user gave to `exec -e` wins.

Without a process file nothing is to be done: runc and crun begin with the process of config.json then, which has the
variables, and put the variables of `exec --env` over it.

Whatever is odd about record or file, the file stays as it is, and exec goes on: it may be the probe on which a healthy
container's life depends.
"""

from __future__ import annotations

from shim.create import record_files, record_reader
from shim.create.bundle import edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.create.invocation import Invocation


def complete(call: Invocation, directory: str = "") -> None:
    """Complete the environment in the process file of an exec.

    Arguments:
        call: the call; its process file, and what names its record.
        directory: that of the records, found out when not given.
    """
    try:
        directory = directory or record_files.directory()
        entry = record_reader.read(directory, call) if directory and call.key and call.process else None
        if entry and entry["env"]:
            edit(call.process, lambda process: _completed(process, entry["env"]))
    except Exception:  # noqa: S110  # see above; not even a defect of ours may stop it
        pass


def _completed(process: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The process with the variables in it; unchanged when its environment is no list of texts."""
    given = process.get("env") or []
    if not isinstance(given, list) or not all(isinstance(entry, str) for entry in given):
        return process
    env = list(given)
    indexes = {entry.partition("=")[0]: index for index, entry in enumerate(env)}
    for name, (new, old) in changes.items():
        entry = f"{name}={new}"
        if name not in indexes:
            env.append(entry)
        elif old is not None and env[indexes[name]] == f"{name}={old}":
            env[indexes[name]] = entry
    return {**process, "env": env} if env != given else process
