"""The vendors whose devices are discovered: a new one is a module, and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from shim.base.findings import CdiError, Finding
from shim.discover.document import document, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from shim.discover.model import Discovery, Vendor, Wish
    from shim.host.host import Host

# name -> module, in the order in which they are asked; each is loaded when it is asked first
MODULES: dict[str, str] = {
    "nvidia": "shim.discover.nvidia",
    "amd": "shim.discover.amd",
    "intel": "shim.discover.intel",
    "habana": "shim.discover.habana",
    "rdma": "shim.discover.rdma",
    "drm": "shim.discover.drm",
    "rules": "shim.discover.rules",
}
AUTO = "auto"


def names(wanted: Iterable[str]) -> list[str]:
    """The names of vendors' modules that words of --vendor stand for, without repetitions.

    Raises CdiError: DISCOVERY_WISH for a word that is no vendor.
    """
    chosen: dict[str, None] = {}
    for word in wanted:
        if word != AUTO and word not in MODULES:
            text = f"--vendor {word}: no such vendor (there are: {', '.join([AUTO, *MODULES])})"
            raise CdiError([Finding("DISCOVERY_WISH", text)])
        chosen.update(dict.fromkeys(MODULES if word == AUTO else [word]))
    return list(chosen)


def module(name: str) -> Vendor:
    """The module of a vendor, a key of MODULES."""
    return cast("Vendor", import_module(MODULES[name]))


def discover(
    host: Host, wish: Wish, wanted: Iterable[str] = (AUTO,), progress: Callable[[str], object] = lambda _: None
) -> Iterator[Discovery]:
    """What the host has of each vendor that is present.

    Arguments:
        host: the machine.
        wish: what is asked for.
        wanted: words of --vendor. A vendor that is named is asked even when nothing of it is present, so that its
            findings name what is missing.
        progress: is called with each vendor's name before the vendor is asked.
    Raises:
        CdiError: DISCOVERY_WISH.
    """
    asked = list(wanted)
    for name in names(asked):
        vendor = module(name)
        if name in asked or vendor.is_present(host, wish):
            progress(name)
            yield vendor.discover(host, wish)


def documents(discovery: Discovery, wish: Wish) -> list[tuple[str, dict[str, Any]]]:
    """The documents of a discovery, each with the suffix of its file's name.

    Raises CdiError: see shim.discover.document.
    """
    asked = zip(discovery.drafts, narrowed(discovery.drafts, wish), strict=True)
    every = ((draft.suffix, document(draft, own)) for draft, own in asked if own)
    return [(suffix, written) for suffix, written in every if written is not None]
