"""The request for labels that options and NVIDIA's configuration file make: an option goes before the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.node.labels.model import MACHINE, MIG_STRATEGIES, SOURCES, Request
from shim.node.labels.sharing import Sharing

if TYPE_CHECKING:
    from shim.node.vendor_config import VendorConfig


def request(
    config: VendorConfig,
    *,
    vendors: tuple[str, ...] = (),
    mig_strategy: str | None = None,
    source: str | None = None,
    machine_file: str | None = None,
    may_lack_driver: bool | None = None,
    has_timestamp: bool | None = None,
    sharing: Sharing | None = None,
    driver_root: str = "/",
) -> Request:
    """The request.

    Arguments:
        config: the file, or an empty configuration.
        vendors, mig_strategy, source, machine_file, may_lack_driver, has_timestamp: of options, members of Request;
            None where an option is not given.
        sharing: as the device plugin of shim has it, which counts where the file has none.
        driver_root: the root in which the driver's files lie.
    Raises:
        CdiError: VENDOR_CONFIG for a word of the file that does not exist.
    """
    fails = not may_lack_driver if may_lack_driver is not None else config.fail_on_init_error
    stamps = has_timestamp if has_timestamp is not None else not config.no_timestamp
    return Request(
        vendors or ("auto",),
        _word("flags.migStrategy", mig_strategy, config.mig_strategy, MIG_STRATEGIES),
        _word("flags.deviceDiscoveryStrategy", source, config.source, SOURCES),
        fails is False,
        stamps,
        next((path for path in (machine_file, config.machine_file) if path is not None), MACHINE),
        config.sharing or sharing or Sharing(),
        driver_root,
    )


def _word(key: str, option: str | None, configured: str | None, words: tuple[str, ...]) -> str:
    word = option if option is not None else configured if configured is not None else words[0]
    if word not in words:
        raise CdiError([Finding("VENDOR_CONFIG", f"{key}: {word!r} does not exist (there are: {', '.join(words)})")])
    return word
