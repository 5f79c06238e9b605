"""The policy of a subject: /etc/shim/gate.d/SUBJECT.toml. Without the file the defaults hold, which are the strictest.

Source of the keys: docs/gate.md.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shim.base import subjects
from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.gate.judge.devices import is_name
from shim.gate.judge.model import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECTORY = "/etc/shim/gate.d"
_BUILDERS = ("classic", "daemon", "deny")
_SWITCHES = frozenset({"ipc-host", "userns-host", "cgroup-parent"})
_VOLUME_TYPES = frozenset({"tmpfs", "nfs", "nfs4", "cifs"})
_VERSION = re.compile(r"1\.([0-9]{2})")
_LOWEST = 40


def check_subject(subject: str) -> str:
    """The name of a subject. Raises CdiError: GATE_POLICY."""
    fault = subjects.objection(subject)
    if fault:
        raise CdiError([Finding("GATE_POLICY", f"{subject!r} is not the name of a subject: {fault}", "correct it")])
    return subject


def read(path: str, subject: str) -> Policy:
    """The policy of a subject, from a file that may be missing.

    Arguments:
        path: of the file.
        subject: whose policy it is.

    Raises CdiError: GATE_POLICY, one for each fault.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return Policy(check_subject(subject))
    except OSError as error:
        raise CdiError([Finding("GATE_POLICY", f"it cannot be read: {reason(error)}", path=path)]) from None
    return parse(content, subject, path)


def parse(content: bytes, subject: str, path: str = "") -> Policy:
    """The policy that a file's content is. Raises CdiError: GATE_POLICY, one for each fault."""
    # late: a subject without a policy file needs no parser in memory
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except ValueError as error:
        raise CdiError([Finding("GATE_POLICY", f"it is not TOML: {error}", path=path)]) from None
    findings: list[Finding] = []
    values: dict[str, Any] = {}
    for key, value in document.items():
        form = KEYS.get(key)
        if form is None:
            text = f"{key} is no key of a policy; keys are {', '.join(sorted(KEYS))}"
            findings.append(Finding("GATE_POLICY", text, path=path))
            continue
        try:
            values[key] = form(value)
        except (TypeError, ValueError) as error:
            findings.append(Finding("GATE_POLICY", f"{key} must be {error}", path=path))
    if findings:
        raise CdiError(findings)
    policy = Policy(check_subject(subject))
    protected = tuple(dict.fromkeys((*policy.never, *values.pop("never", ()))))
    return replace(policy, **values, never=protected)


def _names(value: Any, allowed: frozenset[str] | None = None) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise TypeError("a list of texts")
    if allowed is not None and not allowed.issuperset(value):
        raise ValueError(f"a list of {', '.join(sorted(allowed))}")
    return value


def _paths(value: Any) -> tuple[str, ...]:
    paths = _names(value)
    if not all(path.startswith("/") for path in paths):
        raise ValueError("a list of absolute paths")
    return tuple(path.rstrip("/") or "/" for path in paths)


def _choice(*allowed: str) -> Callable[[Any], str]:
    def checked(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return str(value)

    return checked


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1024 <= value <= 64 << 20:
        raise TypeError("a number of bytes from 1024 to 67108864")
    return value


def _runtimes(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise TypeError("a table of runtimes, each with a list of CDI names")
    runtimes = {name: tuple(_names(names)) for name, names in value.items()}
    if not all(map(is_name, (name for names in runtimes.values() for name in names))):
        raise ValueError("a table of runtimes, each with a list of CDI names such as nvidia.com/gpu=0")
    return {**Policy().runtimes, **runtimes}


def _api(value: Any) -> tuple[int, int]:
    match = _VERSION.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) < _LOWEST:
        raise ValueError(f'a version of the API such as "1.44", at least 1.{_LOWEST}')
    return 1, int(match[1])


# key -> reads its value, or raises with what it takes
KEYS: dict[str, Callable[[Any], Any]] = {
    "min_api": _api,
    "runtimes": _runtimes,
    "env_live_runtimes": lambda value: frozenset(_names(value)),
    "bind_roots": _paths,
    "never": _paths,
    "readonly": _paths,
    "self_socket": _text,
    "device_paths": lambda value: frozenset(_paths(value)),
    "annotation_prefixes": lambda value: tuple(_names(value)),
    "volume_types": lambda value: frozenset(_names(value, _VOLUME_TYPES)),
    "allow": lambda value: frozenset(_names(value, _SWITCHES)),
    "builder": _choice(*_BUILDERS),
    "body_limit": _size,
    "harden_env": _flag,
    "harden_mknod": _flag,
    "default_runtime": _text,
}
