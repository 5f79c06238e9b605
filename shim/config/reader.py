"""Configuration files: reading them, and deciding whether they count. Cold: loaded only where there is one.

A file counts only if trusted (shim.host.trust). A file that is not trusted, cannot be read or has invalid values is an
error, not a reason to use the defaults: they could allow what the file forbids. In a create that error stops only
containers that ask for a device.

The file of NVIDIA's toolkit is read for its explicit values alone, so that a machine which changes over to shim accepts
no request that it did not accept before: the toolkit's defaults, which accept requests of every image, do not count,
only lines that are in the file; and as in the toolkit only the first source that asks counts. Other keys are ignored.
"""

from __future__ import annotations

import posix
import sys

from shim.base.findings import CdiError, Finding
from shim.base.nearest import nearest
from shim.base.paths import reason
from shim.cdi import names
from shim.config.keys import KEYS
from shim.config.settings import ANY, OFF, PRIVILEGED, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from shim.config.keys import Key
    from shim.host.trust import Trust

DEFAULT = "default"
MAX_SIZE = 1024 * 1024
_SHORTEST = 3  # letters: a shorter word is near to everything
_S_IFMT, _S_IFREG = 0o170000, 0o100000
_VENDOR_ENDING = "/nvidia-container-runtime/config.toml"


class ConfigurationError(CdiError):
    """A configuration file that is refused.

    Attributes:
        settings: from its valid values; None when the file cannot be read or is not trusted.
    """

    settings: Settings | None = None


class Configuration:
    """A configuration file that was read.

    Attributes:
        settings: what counts.
        origins: name of each key -> the file that sets its value, or DEFAULT.
    """

    __slots__ = ("origins", "settings")

    def __init__(self, path: str = "") -> None:
        self.settings = Settings()
        self.settings.path = path
        self.origins = {key.name: DEFAULT for key in KEYS}

    def take(self, name: str, value: Any) -> None:
        """Set a key to a value of Settings' own form."""
        key = next(key for key in KEYS if key.name == name)
        setattr(self.settings, key.attribute, value)
        self.origins[name] = self.settings.path


def read(path: str, trust: Trust | None = None) -> Configuration:
    """Read a configuration file.

    Arguments:
        path: the file, absolute. A file called nvidia-container-runtime/config.toml is read as NVIDIA's.
        trust: checks the file; by default for the user of this process.
    Raises:
        ConfigurationError: SETTINGS_UNTRUSTED; SETTINGS for a file that is missing, cannot be read, is no TOML, or
            has invalid values, with a finding for each of them.
    """
    if not path.startswith("/"):
        raise _error(path, "the path of the configuration file must be absolute")
    _check_trust(path, trust)
    return parse(path, read_text(path))


def parse(path: str, text: str) -> Configuration:
    """The settings in the text of a configuration file, without a check of its owner.

    Arguments:
        path: the file, by which NVIDIA's is recognised; for findings.
        text: its content.
    Raises:
        CdiError: SETTINGS, as `read`.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(path, f"it is not valid TOML: {error}", _line_of(error)) from None
    configuration = Configuration(path)
    take = _take_vendor if path.endswith(_VENDOR_ENDING) else _take
    faults = list(take(configuration, document, text))
    if faults:
        refusal = ConfigurationError(faults)
        refusal.settings = configuration.settings
        raise refusal
    return configuration


def _check_trust(path: str, trust: Trust | None) -> None:
    if trust is None:
        from shim.host.trust import Trust  # late: not needed when there is no file

        trust = Trust()
    try:
        objection = trust.objection(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if objection:
        raise ConfigurationError(
            [Finding("SETTINGS_UNTRUSTED", f"the configuration is not trusted: {objection}", path=path)]
        )


def read_text(path: str) -> str:
    """The content of a configuration file, without a check of its owner. Raises CdiError: SETTINGS."""
    try:
        # O_NONBLOCK: a FIFO instead of the file must not block the engine
        fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC | posix.O_NOCTTY)
        try:
            status = posix.fstat(fd)
            if status.st_mode & _S_IFMT != _S_IFREG:
                raise _error(path, "the configuration is not a regular file")
            if status.st_size > MAX_SIZE:
                raise _error(path, "the configuration has more than 1 MiB")
            return posix.read(fd, MAX_SIZE).decode("utf-8")
        finally:
            posix.close(fd)
    except UnicodeDecodeError as error:
        raise _error(path, f"it is not valid TOML: {error}") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _take(configuration: Configuration, document: dict[str, Any], text: str) -> Iterator[Finding]:
    """Take in a file of ours; yields the faults of its values. Unknown keys become warnings of the settings."""
    known = {key.name: key for key in KEYS}
    tables = {name.partition(".")[0] for name in known}
    for top, members in document.items():
        if top not in tables:
            configuration.settings.warnings.append(_unknown(configuration, top, known, text))
        elif not isinstance(members, dict):
            yield _fault(configuration.settings.path, text, top, "must be a table")
        else:
            for member, value in members.items():
                name = f"{top}.{member}"
                if name not in known:
                    configuration.settings.warnings.append(_unknown(configuration, name, known, text))
                    continue
                try:
                    configuration.take(name, known[name].read(value))
                except ValueError as error:
                    yield _fault(configuration.settings.path, text, name, str(error))


def _unknown(configuration: Configuration, name: str, known: dict[str, Key], text: str) -> Finding:
    hint = f"; did you mean {near}?" if (near := _nearest(name, known)) else ""
    message = f"the key {names.quoted(name)[1:-1]} means nothing here{hint}"
    return Finding("SETTINGS_UNKNOWN_KEY", message, path=configuration.settings.path, line=_line(text, name))


def _nearest(name: str, known: dict[str, Key]) -> str:
    """The key that was probably meant: of that name in another table, else with the nearest spelling."""
    last = name.rpartition(".")[2]
    elsewhere = [key for key in known if key.rpartition(".")[2] == last]
    tables = dict.fromkeys(key.partition(".")[0] for key in known)
    near = nearest(name, [*known, *tables], 1) if len(name) > _SHORTEST else []
    return next(iter([*elsewhere, *near]), "")


# NVIDIA's key -> ours, for those that mean the same
_SHARED = {
    "spec-dirs": "cdi.spec-dirs",
    "default-kind": "cdi.default-kind",
    "annotation-prefixes": "cdi.annotation-prefixes",
}
_ENVIRONMENT = "accept-nvidia-visible-devices-envvar-when-unprivileged"
_MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"
_SWARM = "swarm-resource"


def _take_vendor(configuration: Configuration, document: dict[str, Any], text: str) -> Iterator[Finding]:
    """Take the explicit values of a file of NVIDIA's toolkit; yields the faults of those lines.

    accept-…-envvar-when-unprivileged: with true requests of every container count, with false of those with
    CAP_SYS_ADMIN. The other accept line, for mounts, has no rule about privileges. swarm-resource can only reduce what
    the toolkit accepts.
    """
    known = {key.name: key for key in KEYS}
    path = configuration.settings.path
    table: Any = document
    for part in ("nvidia-container-runtime", "modes", "cdi"):
        table = table.get(part, {}) if isinstance(table, dict) else {}
    for theirs, ours in _SHARED.items():
        if isinstance(table, dict) and theirs in table:
            try:
                configuration.take(ours, known[ours].read(table[theirs]))
            except ValueError as error:
                yield _fault(path, text, theirs, str(error))
    for theirs, ours, meant in (
        (_ENVIRONMENT, "sources.environment", {True: ANY, False: PRIVILEGED}),
        (_MOUNTS, "sources.mounts", {True: ANY, False: OFF}),
    ):
        if theirs in document:
            if isinstance(document[theirs], bool):
                configuration.take(ours, meant[document[theirs]])
            else:
                yield _fault(path, text, theirs, "must be true or false")
    kind = configuration.settings.default_kind
    configuration.take("sources.variables", {"NVIDIA_VISIBLE_DEVICES": kind})
    configuration.take("sources.merge", False)
    swarm = document.get(_SWARM, "")
    if not isinstance(swarm, str):
        yield _fault(path, text, _SWARM, "must be a text")
    elif swarm:
        configuration.take("sources.swarm-variables", {name.strip(): kind for name in swarm.split(",") if name.strip()})


def _fault(path: str, text: str, name: str, what: str) -> Finding:
    return Finding("SETTINGS", f"{name} {what}", path=path, line=_line(text, name))


def _line(text: str, name: str) -> int:
    """The number of the first line that begins with a key, or with a table of its name; 0 when none does."""
    last = name.rpartition(".")[2]
    for number, line in enumerate(text.splitlines(), 1):
        left = line.partition("=")[0].strip(" \t[]")
        if left in (name, last, f'"{last}"'):
            return number
    return 0


def _line_of(error: Exception) -> int:
    """The line that a message of the TOML reader names, "… (at line 3, column 5)"; 0 when it names none."""
    digits = str(error).rpartition("(at line ")[2].partition(",")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _unreadable(path: str, error: OSError | ValueError) -> ConfigurationError:
    from shim.base import remedies  # late: only where it is refused

    remedy = remedies.to_read(error, path) or "check owner, mode and type of the file"
    text = f"the configuration file cannot be read: {reason(error)}"
    return ConfigurationError([Finding("SETTINGS", text, remedy, path=path)])


def _error(path: str, text: str, line: int = 0) -> ConfigurationError:
    return ConfigurationError([Finding("SETTINGS", text, path=path, line=line)])
