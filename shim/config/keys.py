"""The keys of the configuration file and their values, in a table. Cold.

KEYS is used by the reader, `shim config show|default`, the hint for a misspelt key and the test of
docs/configuration.md.
"""

from __future__ import annotations

from shim.base import subjects
from shim.cdi import names
from shim.config.settings import ANY, AUTO, IGNORE, KNOWN, OFF, OURS, PRIVILEGED, REFUSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Key:
    """A key of the configuration file.

    Attributes:
        name: table and key, for example "cdi.spec-dirs".
        attribute: the member of Settings that holds its value.
        form: a description of the values that it may have.
        meaning: one sentence.
    """

    __slots__ = ("_read", "attribute", "form", "meaning", "name")

    def __init__(self, name: str, attribute: str, form: str, meaning: str, read: Callable[[Any], Any]) -> None:
        self.name = name
        self.attribute = attribute
        self.form = form
        self.meaning = meaning
        self._read = read

    def read(self, value: Any) -> Any:
        """The value as Settings holds it. Raises ValueError, whose text is a clause: what the value must be instead."""
        return self._read(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("must be a list of texts that are not empty")
    return tuple(value)


def _directories(value: Any) -> tuple[str, ...]:
    paths = _texts(value)
    for item in paths:
        if not item.startswith("/"):
            raise ValueError(f"must hold absolute paths, {item} is none")
    return paths


def _kind(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text of the form VENDOR/CLASS")
    vendor, klass = names.split_kind(value)
    try:
        names.check_vendor(vendor)
        names.check_class(klass)
    except names.BadName as bad:
        raise ValueError(f"must be of the form VENDOR/CLASS: {bad}") from None
    return value


def _one_of(*words: str) -> Callable[[Any], str]:
    """A reader of a value that is any of these words."""
    quoted = [f'"{word}"' for word in words]

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"must be {', '.join(quoted[:-1])} or {quoted[-1]}")
        return value

    return read


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of VARIABLE = KIND")
    for name, kind in value.items():
        if not name or "=" in name or not name.isprintable():
            raise ValueError(f"holds {names.quoted(name)}, which no variable can be called")
        try:
            _kind(kind)
        except ValueError as error:
            raise ValueError(f"holds {name}, whose value {error}") from None
    return value


def _subject(value: Any) -> str:
    wrong = subjects.objection(value) if isinstance(value, str) else "it must be a text"
    if wrong:
        raise ValueError(f"must be the name of a subject: {wrong}")
    return str(value)


def _subjects(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of PATTERN = SUBJECT")
    for pattern, subject in value.items():
        if not pattern:
            raise ValueError("holds a pattern that is empty")
        try:
            _subject(subject)
        except ValueError as error:
            raise ValueError(f"holds {names.quoted(pattern)}, whose value {error}") from None
    return value


def _log(value: Any) -> str:
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ValueError('must be an absolute path, or "" for no log')
    return value


_source = _one_of(OFF, PRIVILEGED, ANY)
_SOURCE_FORM = f'"{OFF}", "{PRIVILEGED}" (containers with CAP_SYS_ADMIN in the bounding set) or "{ANY}"'
KEYS = (
    Key(
        "cdi.spec-dirs",
        "spec_dirs",
        "list of absolute paths",
        "Spec directories, the most important last.",
        _directories,
    ),
    Key(
        "cdi.annotation-prefixes",
        "annotation_prefixes",
        "list of texts",
        "Annotation keys that begin so are requests; an empty list switches annotations off.",
        _texts,
    ),
    Key(
        "cdi.locked",
        "locked",
        "true or false",
        "Refuse specs, programs of hooks and sources of mounts that are not as `shim cdi lock` wrote them down.",
        _switch,
    ),
    Key("cdi.default-kind", "default_kind", "VENDOR/CLASS", "Kind of a bare name: --device 0, a mount below 0.", _kind),
    Key("sources.environment", "environment", _SOURCE_FORM, "Whose variables are requests.", _source),
    Key(
        "sources.mounts",
        "mounts",
        _SOURCE_FORM,
        "Whose mounts of /dev/null below /var/run/nvidia-container-devices are requests.",
        _source,
    ),
    Key(
        "sources.pod-annotations",
        "pod_annotations",
        f'"{OFF}" or "{ANY}"',
        "Whether annotations of a Pod are requests of each of its containers (CRI-O).",
        _one_of(OFF, ANY),
    ),
    Key(
        "sources.podman-annotations",
        "podman_annotations",
        f'"{REFUSE}", "{IGNORE}" or "{ANY}"',
        "What becomes of annotations that an image may have written (podman before 4.6, or of unknown version).",
        _one_of(REFUSE, IGNORE, ANY),
    ),
    Key(
        "sources.merge",
        "merge",
        "true or false",
        "Hear all sources; false: only the first that asks of --device and annotations, mounts, variables.",
        _switch,
    ),
    Key(
        "sources.variables",
        "variables",
        "table of VARIABLE = KIND",
        "Variables that ask, each with the kind of its indexes and ids.",
        _variables,
    ),
    Key(
        "sources.swarm-variables",
        "swarm_variables",
        "table of VARIABLE = KIND",
        "Where one of these is set, sources.variables of the same kind do not count.",
        _variables,
    ),
    Key(
        "hooks.fold",
        "fold",
        f'"{AUTO}" (hooks of shim where the root is read-only), "{OURS}" (hooks of shim), '
        f'"{KNOWN}" (those of NVIDIA\'s hook programs, too) or "{OFF}"',
        "Whose hooks create does itself, so that none runs while the container starts.",
        _one_of(AUTO, OURS, KNOWN, OFF),
    ),
    Key(
        "grants.enforce",
        "enforce",
        "true or false",
        "Whether a container gets only devices that are granted to its subject (`shim grant`).",
        _switch,
    ),
    Key(
        "grants.default-subject",
        "default_subject",
        'name of a subject, or "" for none',
        "The subject of containers that no table below names.",
        lambda value: value if value == "" else _subject(value),
    ),
    Key(
        "grants.runtimes",
        "runtimes",
        "table of NAME = SUBJECT",
        "The subject by the name by which the engine starts shim, the last part of the path.",
        _subjects,
    ),
    Key(
        "grants.bundles",
        "bundles",
        "table of PATTERN = SUBJECT",
        "The subject by the path of the bundle; * stands for any text.",
        _subjects,
    ),
    Key(
        "grants.cgroups",
        "cgroups",
        "table of PATTERN = SUBJECT",
        "The subject by linux.cgroupsPath; * stands for any text.",
        _subjects,
    ),
    Key(
        "grants.pod-namespaces",
        "pod_namespaces",
        "table of NAMESPACE = SUBJECT",
        "The subject by the Kubernetes namespace of a Pod, under containerd.",
        _subjects,
    ),
    Key(
        "grants.namespaces",
        "namespaces",
        "table of NAMESPACE = SUBJECT",
        "The subject by containerd's namespace, the last part of --root.",
        _subjects,
    ),
    Key("log.file", "log_file", 'absolute path, or "" for no log', "The log of creates that injected or failed.", _log),
)
