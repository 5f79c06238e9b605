"""Directories of OCI hooks: JSON files by which podman and CRI-O add hooks to a container's config.json by themselves.

They matter twice here. podman's precreate stage gives `shim hook precreate` the whole config.json, so shim can inject
without a runtime of its own. And a vendor's older toolkit leaves a file here whose hook injects into every container,
in addition to what shim injects.

A file counts when its name ends in .json; one of the same name in a later directory replaces it.

Source: oci-hooks(5), https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shim.base.findings import Finding
from shim.cdi.annotations import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.host.host import Host

# Programs of vendors that inject devices from a hook: the beginnings of their names
_VENDORS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-cli", "nvidia-ctk")


@dataclass(frozen=True)
class HookFile:
    """A file of a directory of hooks.

    Attributes:
        path: the file.
        program: path of the program.
        arguments: its argument list, the first is its name.
        stages: at which it runs.
        patterns: regular expressions of annotation keys; it runs where each has a match among the keys.
    """

    path: str
    program: str
    arguments: tuple[str, ...]
    stages: tuple[str, ...]
    patterns: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it is shim's hook of podman's precreate stage."""
        return self.arguments[1:3] == ("hook", "precreate") and "precreate" in self.stages

    @property
    def is_vendors(self) -> bool:
        """Whether it injects a vendor's devices."""
        return self.program.rpartition("/")[2].startswith(_VENDORS)

    def matches(self, key: str) -> bool:
        """Whether the engine runs it for a container whose only annotation has this key."""
        try:
            return all(re.search(pattern, key) for pattern in self.patterns)
        except re.error:  # Go's expressions are not all Python's
            return True


def read(host: Host, directories: Iterable[str]) -> list[HookFile]:
    """The files of these directories, the most important directory last. Files that are no hooks are left out.

    Raises:
        CdiError: ENGINE_CONFIG_UNREADABLE.
    """
    paths = {path.rpartition("/")[2]: path for directory in directories for path in host.glob(f"{directory}/*.json")}
    files = [_parsed(path, host.read(path) or b"") for path in sorted(paths.values())]
    return [file for file in files if file]


def precreate(launcher: str, prefixes: Iterable[str]) -> str:
    """The text of the file with which podman calls shim for every container that asks for a device.

    Arguments:
        launcher: absolute path of the launcher.
        prefixes: the beginnings of annotation keys that are requests; none where annotations are switched off.
    """
    hook = {"path": launcher, "args": [launcher.rpartition("/")[2], "hook", "precreate"], "timeout": 10}
    # podman demands a match of every pattern of `when`, so all prefixes are in one
    quoted = [re.escape(prefix).replace("\\.", "[.]") for prefix in prefixes or (PREFIX,)]
    when = {"annotations": {f"^({'|'.join(quoted)})" if len(quoted) > 1 else f"^{quoted[0]}": ".*"}}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": when, "stages": ["precreate"]}, indent=2) + "\n"


def missing(files: Iterable[HookFile], prefixes: Iterable[str]) -> list[Finding]:
    """RUNTIME_ANNOTATIONS, for each hook of shim that podman does not run for every annotation that is a request.

    Arguments:
        files: the hooks that the engine runs.
        prefixes: the beginnings of annotation keys that are requests.
    """
    findings = []
    for file in files:
        lacking = [prefix for prefix in prefixes if file.is_ours and not file.matches(f"{prefix}x")]
        if lacking:
            text = (
                f"podman runs this hook only for annotations that match {' and '.join(file.patterns)}: a container "
                f"that asks by {' or '.join(f'{prefix}…' for prefix in lacking)} starts without its device"
            )
            remedy = "run `shim runtime configure --engine podman --hook` again"
            findings.append(Finding("RUNTIME_ANNOTATIONS", text, remedy, path=file.path))
    return findings


def doubles(files: Iterable[HookFile], runtime: str) -> list[Finding]:
    """What would be injected twice.

    Arguments:
        files: the hooks that the engine runs.
        runtime: the name under which shim is a runtime of the engine, "" when it is none.
    """
    findings = []
    for file in files:
        if file.is_ours and runtime:
            text = f"this hook calls shim, which is the runtime {runtime} as well: shim runs twice for a container"
            remedy = "keep one of the two: remove this file, or the runtime (`shim runtime remove --engine podman`)"
            findings.append(Finding("HOOK_DOUBLE", text, remedy, path=file.path))
        if file.is_vendors:
            text = f"this hook runs {file.program}, which injects a vendor's devices in addition to those of CDI specs"
            findings.append(Finding("HOOK_DOUBLE", text, path=file.path))
    return findings


def _parsed(path: str, data: bytes) -> HookFile | None:
    try:
        document: Any = json.loads(data)
        hook = document["hook"]
        stages, when = document.get("stages") or [], document.get("when") or {}
        arguments = tuple(map(str, hook.get("args") or []))
        patterns = tuple(map(str, when.get("annotations") or {}))
        return HookFile(path, str(hook["path"]), arguments, tuple(map(str, stages)), patterns)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # the engine itself reports what is wrong with it, and starts no container
