"""The configuration, as far as create needs it. HOT; the TOML reader is loaded only where a file exists.

/etc/shim/config.toml, or the file named by $SHIM_CONFIG; rootless $XDG_CONFIG_HOME/shim/config.toml comes first.
Without a file everything has a default, so a machine needs none.
"""

from __future__ import annotations

import posix
import sys

from shim.cdi.annotations import PREFIX
from shim.cdi.findings import CdiError, Finding
from shim.cdi.findings import from_json as finding_from_json
from shim.cdi.paths import DEFAULT_DIRS
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SYSTEM_FILE = "/etc/shim/config.toml"


class Settings:
    """What the configuration says, or the defaults.

    Attributes:
        path: the file that was read, "" when there is none.
        spec_dirs: spec directories, the most important last.
        annotation_prefixes: annotation keys that begin so are requests.
        default_kind: VENDOR/CLASS of a bare device name.
        log_file: "" for no log, None for the usual place (shim.create.log).
        warnings: findings about keys that mean nothing.
    """

    __slots__ = ("annotation_prefixes", "default_kind", "log_file", "path", "spec_dirs", "warnings")

    def __init__(self) -> None:
        self.path = ""
        self.spec_dirs: tuple[str, ...] = DEFAULT_DIRS
        self.annotation_prefixes: tuple[str, ...] = (PREFIX,)
        self.default_kind = "nvidia.com/gpu"
        self.log_file: str | None = None
        self.warnings: list[Finding] = []

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values."""
        value: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return {**value, "warnings": [finding.to_json() for finding in self.warnings]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Settings:
        """The settings that to_json gave."""
        settings = cls()
        settings.path = value["path"]
        settings.spec_dirs = tuple(value["spec_dirs"])
        settings.annotation_prefixes = tuple(value["annotation_prefixes"])
        settings.default_kind = value["default_kind"]
        settings.log_file = value["log_file"]
        settings.warnings = [finding_from_json(one) for one in value["warnings"]]
        return settings


def find(environ: dict[bytes, bytes] | None = None) -> str:
    """The path of the configuration file, whether or not it exists.

    Arguments:
        environ: the environment as bytes, for tests; the process's own when not given.
    """
    variables = posix.environ if environ is None else environ
    named = variables.get(b"SHIM_CONFIG")
    if named:
        return named.decode("utf-8", "surrogateescape")
    if not identity.is_rootful():
        home = variables.get(b"XDG_CONFIG_HOME")
        if home:
            own = home.decode("utf-8", "surrogateescape") + "/shim/config.toml"
            if _exists(own):
                return own
    return SYSTEM_FILE


def load(path: str = "") -> Settings:
    """Read the configuration.

    Arguments:
        path: the file; by default that of find().
    Raises:
        CdiError: SETTINGS, when the file exists but cannot be read, is no TOML, or holds a value of a wrong type.
    """
    settings = Settings()
    path = path or find()
    if not _exists(path):
        return settings
    settings.path = path
    document = _parse(path)
    cdi = document.pop("cdi", {})
    if not isinstance(cdi, dict):
        raise _error(path, "[cdi] must be a table")
    settings.spec_dirs = _paths(path, cdi, "spec-dirs", settings.spec_dirs)
    settings.annotation_prefixes = _strings(path, cdi, "annotation-prefixes", settings.annotation_prefixes)
    kind = cdi.pop("default-kind", settings.default_kind)
    if not isinstance(kind, str) or kind.count("/") != 1:
        raise _error(path, "cdi.default-kind must be a text of the form VENDOR/CLASS")
    settings.default_kind = kind
    log = document.pop("log", {})
    if not isinstance(log, dict):
        raise _error(path, "[log] must be a table")
    settings.log_file = log.pop("file", None)
    if not isinstance(settings.log_file, str | None) or (settings.log_file or "/")[0] != "/":
        raise _error(path, 'log.file must be an absolute path, or "" for no log')
    for key in [*document, *(f"log.{key}" for key in log), *(f"cdi.{key}" for key in cdi)]:
        text = f"the key {key} means nothing here"
        settings.warnings.append(Finding("SETTINGS_UNKNOWN_KEY", text, path=path))
    return settings


def _exists(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def _parse(path: str) -> dict[str, Any]:
    # late: costs 10 ms, and most machines have no configuration file
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise _error(path, f"it cannot be read (errno {error.errno})") from None
    except ValueError as error:
        raise _error(path, f"it is not valid TOML: {error}") from None


def _strings(path: str, table: dict[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = table.pop(key, list(default))
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _error(path, f"cdi.{key} must be a list of texts that are not empty")
    return tuple(value)


def _paths(path: str, table: dict[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = _strings(path, table, key, default)
    for item in value:
        if not item.startswith("/"):
            raise _error(path, f"cdi.{key} must hold absolute paths, {item} is none")
    return value


def _error(path: str, text: str) -> CdiError:
    return CdiError([Finding("SETTINGS", text, path=path)])
