"""The node's configuration: /etc/shim/node.toml. Without the file every kind is a resource of its own name.

It is a file of its own because it configures a service: a fault in it stops that service, and no container. An unknown
key is a fault, since a key that is misspelt would give devices away in another way than its author meant.

Source of the keys: docs/configuration.md.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from shim.base import files, remedies, subjects
from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.base.paths import reason
from shim.cdi import names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE = "/etc/shim/node.toml"
AUTO, CDI, ANNOTATION = "auto", "cdi", "annotation"
SPREAD, PACKED = "spread", "packed"
ALL = "all"
MOST_REPLICAS = 1000
_LARGEST = 1024 * 1024

# Nodes through which every device of a driver is used; they tell nothing about which device it is
CONTROL_NODES = (
    "/dev/kfd",
    "/dev/infiniband/rdma_cm",
    "/dev/vfio/vfio",
    *(f"/dev/nvidia{name}" for name in ("ctl", "-modeset", "-uvm", "-uvm-tools")),
    *("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
)
# A name of an extended resource: the domain is a DNS subdomain, and "requests." in front of it must still be one
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_DOMAIN = 253 - len("requests.")
_LONGEST_WORD = 63


@dataclass(frozen=True)
class Resource:
    """An extended resource, as it is configured.

    Attributes:
        kind: whose devices it has.
        name: by which pods ask for it.
        devices: patterns of the names that may be units.
        without: patterns of names that are none.
        replicas: how many containers share a unit; 1: none do.
        several_replicas: whether a container may have more than one replica.
        allocation: which replicas are preferred: "spread" over the units, or "packed".
    """

    kind: str
    name: str
    devices: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    replicas: int = 1
    several_replicas: bool = False
    allocation: str = SPREAD

    def objection(self, device: str) -> str:
        """Why a device name of the kind may be no unit, by the configuration; "" for nothing."""
        if not any(fnmatchcase(device, pattern) for pattern in self.devices):
            return f"`devices` of the resource has no pattern for it ({', '.join(self.devices) or 'none at all'})"
        left_out = [pattern for pattern in self.without if fnmatchcase(device, pattern)]
        return f"`except` of the resource has {left_out[0]!r}" if left_out else ""


@dataclass(frozen=True)
class Settings:
    """The configuration of a node.

    Attributes:
        path: of the file, "" where there is none.
        kinds: patterns of the kinds that are resources of their own name, where no resource is configured for them.
        resources: those that are configured, in the order of the file.
        form: of the answer to Allocate: "auto", "cdi" or "annotation".
        subject: to which pods belong in the grants: what is exclusively granted to it is handed out.
        control_nodes: paths that do not tell which device it is.
    """

    path: str = ""
    kinds: tuple[str, ...] = ("*",)
    resources: tuple[Resource, ...] = ()
    form: str = AUTO
    subject: str = ""
    control_nodes: frozenset[str] = field(default_factory=lambda: frozenset(CONTROL_NODES))

    def of_kind(self, kind: str) -> list[Resource]:
        """The resources that have devices of a kind; none where it is not served."""
        configured = [resource for resource in self.resources if resource.kind == kind]
        if configured or not any(fnmatchcase(kind, pattern) for pattern in self.kinds):
            return configured
        return [Resource(kind, kind)]


def name_objection(name: str) -> str:
    """Why Kubernetes takes no extended resource of a name, "" when it does.

    Source: Kubernetes, pkg/apis/core/v1/helper, IsExtendedResourceName.
    """
    domain, slash, word = name.partition("/")
    if not slash:
        return "it has no domain: DOMAIN/NAME"
    if len(domain) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(domain):
        return "its domain must be lower-case letters, digits, dots and dashes"
    if len(word) > _LONGEST_WORD or not _WORD.fullmatch(word):
        return f"behind the slash must be at most {_LONGEST_WORD} letters, digits, dots, dashes or underscores"
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests."):
        return "its domain belongs to Kubernetes"
    return ""


def read(path: str = FILE, *, is_named: bool = False) -> Settings:
    """The configuration of this node.

    Arguments:
        path: of the file.
        is_named: whether the file must exist, since it was named.
    Raises:
        CdiError: NODE_CONFIG, one for each fault.
    """
    try:
        data = files.read(path, _LARGEST)
        return parse(data.decode("utf-8"), path)
    except FileNotFoundError as error:
        if not is_named:
            return Settings()
        raise _error(path, f"it cannot be read: {reason(error)}", remedies.to_read(error)) from None
    except UnicodeDecodeError as error:
        raise _error(path, f"it is not valid TOML: {error}") from None
    except OSError as error:
        raise _error(path, f"it cannot be read: {reason(error)}", remedies.to_read(error)) from None


def parse(text: str, path: str = "") -> Settings:
    """The configuration that a text is. Raises CdiError: NODE_CONFIG, one for each fault."""
    if sys.version_info >= (3, 11):
        import tomllib  # late, like the next: most nodes have no such file
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(path, f"it is not valid TOML: {error}") from None
    faults: list[str] = []
    tables = document.pop("resource", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        faults.append("resource must be written as [[resource]], once for each resource")
        tables = []
    resources = [_resource(table, f"resource[{index}]", faults) for index, table in enumerate(tables)]
    values = _values(document, _KEYS, "", faults)
    named: set[str] = set()
    for resource in filter(None, resources):
        if resource.name in named:
            faults.append(f"two resources have the name {resource.name}")
        named.add(resource.name)
    if faults:
        raise CdiError([Finding("NODE_CONFIG", fault, path=path) for fault in faults])
    settings = Settings(path, resources=tuple(filter(None, resources)))
    nodes = settings.control_nodes | values.pop("control_nodes", frozenset())
    return replace(settings, **values, control_nodes=nodes)


def _resource(table: dict[str, Any], where: str, faults: list[str]) -> Resource | None:
    if "kind" not in table:
        faults.append(f"{where} has no kind")
        return None
    before = len(faults)
    values = _values(table, _RESOURCE_KEYS, f"{where}.", faults)
    if len(faults) > before:
        return None
    values.setdefault("name", values["kind"])
    objection = name_objection(values["name"])
    if objection:
        faults.append(f"{where}: {values['name']!r} is no name of a resource: {objection}; `name` gives it another")
        return None
    return Resource(**values)


def _values(
    table: dict[str, Any], keys: Mapping[str, tuple[str, Callable[[Any], Any]]], where: str, faults: list[str]
) -> dict[str, Any]:
    """The values of a table, by the names of their attributes; faults are added to the list."""
    values = {}
    for key, value in table.items():
        if key not in keys:
            near = nearest(key, keys, 1)
            hint = f"the nearest is {near[0]}" if near else f"keys are {', '.join(sorted(keys))}"
            faults.append(f"{where}{key} means nothing here; {hint}")
            continue
        attribute, form = keys[key]
        try:
            values[attribute] = form(value)
        except ValueError as error:
            faults.append(f"{where}{key} must be {error}")
    return values


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("a list of texts")
    return tuple(value)


def _paths(value: Any) -> frozenset[str]:
    paths = _texts(value)
    if not all(path.startswith("/") for path in paths):
        raise ValueError("a list of absolute paths")
    return frozenset(paths)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def _kind(value: Any) -> str:
    vendor, klass = names.split_kind(_text(value))
    try:
        names.check_vendor(vendor)
        names.check_class(klass)
    except names.BadName as error:
        raise ValueError(f"VENDOR/CLASS: {error}") from None
    return str(value)


def _subject(value: Any) -> str:
    objection = subjects.objection(_text(value))
    if objection:
        raise ValueError(f"the name of a subject: {objection}")
    return str(value)


def _choice(*allowed: str) -> Callable[[Any], str]:
    def checked(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return str(value)

    return checked


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_REPLICAS:
        raise ValueError(f"a number from 1 to {MOST_REPLICAS}")
    return value


# key -> attribute, and what reads the value or raises with what it takes
_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "kinds": ("kinds", _texts),
    "form": ("form", _choice(AUTO, CDI, ANNOTATION)),
    "subject": ("subject", _subject),
    "control-nodes": ("control_nodes", _paths),
}
_RESOURCE_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "kind": ("kind", _kind),
    "name": ("name", _text),
    "devices": ("devices", _texts),
    "except": ("without", _texts),
    "replicas": ("replicas", _count),
    "several-replicas": ("several_replicas", _flag),
    "allocation": ("allocation", _choice(SPREAD, PACKED)),
}


def _error(path: str, text: str, remedy: str = "") -> CdiError:
    return CdiError([Finding("NODE_CONFIG", text, remedy, path=path)])
