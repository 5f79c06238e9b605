"""What `shim node install` and `uninstall` are to do, as on the command line."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "/usr/local"
AUTO, NONE = "auto", "none"


@dataclass(frozen=True)
class Wish:
    """What is wanted.

    Attributes:
        host_root: directory with the host's files.
        prefix: where the installation goes, as the host sees it.
        image: directory of the image with the files for a host.
        engine: an engine, AUTO for every engine of the host, NONE for files alone.
        name: of the runtime in the engine.
        low_level: runtime behind shim, "" for what the engine uses now.
        as_default: make it the engine's default runtime.
        cdi: switch on the engine's own CDI.
        restart: restart engines whose configuration changed.
        setup: discover the devices, and write their specs.
        units: enable the units of systemd that keep specs fresh; with `setup` only.
        force: also replace files of another origin; of uninstall: also while containers need the launcher.
        dry_run: determine what would be done, and do nothing.
    """

    host_root: str = "/"
    prefix: str = PREFIX
    image: str = ""
    engine: str = AUTO
    name: str = "shim"
    low_level: str = ""
    as_default: bool = False
    cdi: bool = False
    restart: bool = False
    setup: bool = False
    units: bool = True
    force: bool = False
    dry_run: bool = False

    @property
    def launcher(self) -> str:
        """The launcher's path on the host."""
        return f"{self.prefix}/bin/shim"
