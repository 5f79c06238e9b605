"""The command line of nvidia-ctk as a wish: what was asked of the reference is asked of our discovery."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from shim.discover import document
from shim.discover.model import Wish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.host.host import Host

# Option -> variable of the environment that stands in for it. Lists are separated by commas in both.
_GENERATE = "NVIDIA_CTK_CDI_GENERATE"
_LISTS = {
    "--device-id": "DEVICE_IDS",
    "--device-name-strategy": "DEVICE_NAME_STRATEGIES",
    "--feature-flag": "FEATURE_FLAGS",
    "--library-search-path": "LIBRARY_SEARCH_PATHS",
    "--config-search-path": "CONFIG_SEARCH_PATHS",
    "--disable-hook": "DISABLED_HOOKS",
    "--enable-hook": "ENABLED_HOOKS",
    "--csv.file": "CSV_FILES",
    "--csv.ignore-pattern": "CSV_IGNORE_PATTERNS",
}
_TEXTS = {
    "--mode": f"{_GENERATE}_MODE",
    "--driver-root": "NVIDIA_CTK_DRIVER_ROOT",
    "--dev-root": "NVIDIA_CTK_DEV_ROOT",
    "--nvidia-cdi-hook-path": "NVIDIA_CTK_CDI_HOOK_PATH",
    "--vendor": f"{_GENERATE}_VENDOR",
    "--class": f"{_GENERATE}_CLASS",
    "--format": f"{_GENERATE}_OUTPUT_FORMAT",
    "--output": "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH",
    "--ldconfig-path": f"{_GENERATE}_LDCONFIG_PATH",
    "--csv.compat-container-root": f"{_GENERATE}_CSV_CONTAINER_COMPAT_ROOT",
}
_ALIASES = {
    "--discovery-mode": "--mode",
    "--nvidia-ctk-path": "--nvidia-cdi-hook-path",
    "--cdi-vendor": "--vendor",
    "--cdi-class": "--class",
    **dict.fromkeys(("--device", "--devices", "--device-ids"), "--device-id"),
    "--device-name-strategies": "--device-name-strategy",
    "--feature-flags": "--feature-flag",
    "--library-search-paths": "--library-search-path",
    "--disable-hooks": "--disable-hook",
    "--enable-hooks": "--enable-hook",
    "--csv.files": "--csv.file",
    "--csv.ignore-patterns": "--csv.ignore-pattern",
}
_NO_ALL = "--no-all-device"
_CONFIGURATION = "/etc/nvidia-container-runtime/config.toml"
_HOOK = "/usr/bin/nvidia-cdi-hook"
FORMATS = ("yaml", "json")
HOOKS = frozenset([*document.HOOKS, "all"])


class UsageError(Exception):
    """No command line."""


def wish_of(argv: list[str], environment: Mapping[str, str], host: Host) -> tuple[Wish, dict[str, str]]:
    """A command line as a wish, and the values of options that a wish does not have: --format, --output.

    Raises UsageError: an option that does not exist, a format that does not exist.
    """
    texts = {option: environment[name] for option, name in _TEXTS.items() if environment.get(name)}
    lists = {
        option: environment[f"{_GENERATE}_{name}"].split(",")
        for option, name in _LISTS.items()
        if environment.get(f"{_GENERATE}_{name}")
    }
    has_all = environment.get(f"{_GENERATE}_NO_ALL_DEVICE", "") != "true"
    given: dict[str, list[str]] = {}
    ahead = list(reversed(argv))
    while ahead:
        word, equals, value = ahead.pop().partition("=")
        option = _ALIASES.get(word, word)
        if option == _NO_ALL:
            has_all = value == "false"
        elif option in _TEXTS:
            texts[option] = value if equals else ahead.pop()
        elif option in _LISTS:
            given.setdefault(option, []).extend((value if equals else ahead.pop()).split(","))
        else:
            raise UsageError(f"{word}: no such option")
    lists.update(given)
    if texts.get("--format", "yaml") not in FORMATS:
        raise UsageError(f"--format {texts['--format']}")
    for option in ("--disable-hook", "--enable-hook"):
        for name in lists.get(option, ()):
            if name not in HOOKS:
                raise UsageError(f"{option} {name}: no such hook")
    return _wish(texts, lists, host, environment, has_all=has_all), texts


def _wish(
    texts: dict[str, str], lists: dict[str, list[str]], host: Host, environment: Mapping[str, str], *, has_all: bool
) -> Wish:
    def each(option: str) -> tuple[str, ...]:
        return tuple(lists.get(option, ()))

    vendor, klass = texts.get("--vendor", ""), texts.get("--class", "gpu")
    is_usual = "--vendor" not in texts and "--class" not in texts
    return Wish(
        texts.get("--nvidia-cdi-hook-path", _HOOK),
        mode=texts.get("--mode", "auto"),
        driver_root=posixpath.join("/", texts.get("--driver-root") or _configured_root(host, environment)),
        dev_root=texts.get("--dev-root", ""),
        library_paths=each("--library-search-path"),
        config_paths=each("--config-search-path"),
        kind="" if is_usual else f"{vendor or 'nvidia.com'}/{klass}",
        names=each("--device-name-strategy"),
        has_all=has_all,
        devices=each("--device-id"),
        disabled_hooks=frozenset(each("--disable-hook")),
        enabled_hooks=frozenset(each("--enable-hook")),
        features=frozenset(each("--feature-flag")),
        csv_files=each("--csv.file"),
        csv_ignored=each("--csv.ignore-pattern"),
        csv_compat_root=texts.get("--csv.compat-container-root", ""),
    )


def _configured_root(host: Host, environment: Mapping[str, str]) -> str:
    """The driver root that the reference's own configuration names; a broken one counts as none, as it does there."""
    text = host.text(environment.get("NVIDIA_CTK_CONFIG", _CONFIGURATION))
    match = re.search(r'^root *= *"([^"\n]+)" *$', text, re.MULTILINE)
    return match[1] if match else "/"
