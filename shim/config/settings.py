"""Settings: the configuration as a plain value. HOT.

Every setting has a default, so a machine needs no file. shim.config.location decides which file counts,
shim.config.keys lists the keys of a file.
"""

from __future__ import annotations

from shim.base.findings import Finding
from shim.base.findings import from_json as finding_from_json
from shim.cdi import DEFAULT_DIRS
from shim.cdi.annotations import PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Which containers a source that an image can write to counts for
OFF = "off"
PRIVILEGED = "privileged"  # containers with CAP_SYS_ADMIN in the bounding set
ANY = "any"  # every container

# What happens to annotations that podman may have copied from an image; ANY: they count
REFUSE = "refuse"  # a container with such a request is not started
IGNORE = "ignore"  # they do not count

# Which hooks create does itself
AUTO = "auto"  # hooks of shim, for containers whose root is read-only when hooks run
OURS = "ours"
KNOWN = "known"  # hooks of VENDOR_PROGRAMS, too

VENDOR_PROGRAMS = ("nvidia-cdi-hook", "nvidia-ctk")  # file names of hook programs whose work shim knows

MOUNTS_BELOW = "/var/run/nvidia-container-devices"


class Settings:
    """The values of the configuration, or the defaults.

    Attributes:
        path: the file that was read, "" when there is none.
        spec_dirs: spec directories, the most important last.
        annotation_prefixes: annotation keys that begin with any of them are requests; (): annotations are no source.
        locked: whether a create refuses what differs from the lock of the specs (shim.create.lock_file).
        default_kind: VENDOR/CLASS of a bare device name.
        environment: OFF, PRIVILEGED or ANY: the containers whose variables are requests.
        mounts: OFF, PRIVILEGED or ANY: the containers whose mounts below MOUNTS_BELOW are requests.
        pod_annotations: OFF or ANY: whether annotations of a Pod are requests of its containers (CRI-O).
        podman_annotations: REFUSE, IGNORE or ANY: what happens to annotations that an image may have written (podman).
        merge: whether all sources count; else only the first that asks, in the order of shim.create.image_requests.
        variables: name -> kind of the devices that its value names.
        swarm_variables: name -> kind; when any of them is set, `variables` of that kind do not count.
        fold: OFF, AUTO, OURS or KNOWN: which hooks create does itself (shim.create.fold).
        enforce: whether a container gets only devices that are granted to its subject (shim.create.grants_rule).
        default_subject: of containers that no table names, "" for none.
        runtimes, bundles, cgroups, pod_namespaces, namespaces: what tells the subject -> the subject, see
            shim.create.grants_subject.
        log_file: "" for no log, None for the usual path of this user (shim.create.log).
        warnings: findings about unknown keys.
    """

    __slots__ = (
        "annotation_prefixes",
        "bundles",
        "cgroups",
        "default_kind",
        "default_subject",
        "enforce",
        "environment",
        "fold",
        "locked",
        "log_file",
        "merge",
        "mounts",
        "namespaces",
        "path",
        "pod_annotations",
        "pod_namespaces",
        "podman_annotations",
        "runtimes",
        "spec_dirs",
        "swarm_variables",
        "variables",
        "warnings",
    )

    def __init__(self) -> None:
        self.path = ""
        self.spec_dirs: tuple[str, ...] = DEFAULT_DIRS
        self.annotation_prefixes: tuple[str, ...] = (PREFIX,)
        self.locked = False
        self.default_kind = "nvidia.com/gpu"
        self.environment = OFF
        self.mounts = OFF
        self.pod_annotations = OFF
        self.podman_annotations = REFUSE
        self.merge = True
        self.variables = {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu", "AMD_VISIBLE_DEVICES": "amd.com/gpu"}
        self.swarm_variables: dict[str, str] = {}
        self.fold = AUTO
        self.enforce = False
        self.default_subject = ""
        self.runtimes: dict[str, str] = {}
        self.bundles: dict[str, str] = {}
        self.cgroups: dict[str, str] = {}
        self.pod_namespaces: dict[str, str] = {}
        self.namespaces: dict[str, str] = {}
        self.log_file: str | None = None
        self.warnings: list[Finding] = []

    def needles(self) -> tuple[str, ...]:
        """Texts: each config.json that asks for a device has at least one of them."""
        needles = list(self.annotation_prefixes)
        if self.environment != OFF:
            needles += [*self.variables, *self.swarm_variables]
        if self.mounts != OFF:
            needles.append(MOUNTS_BELOW.rpartition("/")[2])  # the only part that a path can spell in one way
        return tuple(needles)

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values."""
        value: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        lists = {name: list(value[name]) for name in ("spec_dirs", "annotation_prefixes")}
        return {**value, **lists, "warnings": [finding.to_json() for finding in self.warnings]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Settings:
        """The settings from the value of `to_json`. Raises ValueError for any other value."""
        try:
            settings = cls()
            for name in cls.__slots__:
                setattr(settings, name, value[name])
            settings.spec_dirs = tuple(value["spec_dirs"])
            settings.annotation_prefixes = tuple(value["annotation_prefixes"])
            settings.warnings = [finding_from_json(warning) for warning in value["warnings"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"these are no settings: {error!r}") from error
        return settings
