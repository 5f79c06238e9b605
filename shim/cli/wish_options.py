"""The options of a wish: what devices are discovered, and how they are written (shim.discover.model.Wish)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from shim.cli import completion
from shim.discover import hook_path, vendors
from shim.discover.document import HOOKS
from shim.discover.engine_versions import TABLE as ENGINES
from shim.discover.model import Wish
from shim.engines import launcher

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from shim.cli.completion import Complete

    Command = TypeVar("Command", bound=Callable[..., Any])

_STRATEGIES = click.Choice(["index", "uuid", "type-index"])
_HOOKS = click.Choice([*HOOKS, "all"])


def repeatable(
    name: str, variable: str, metavar: str, text: str, complete: Complete | None = None
) -> Callable[[Command], Command]:
    """An option that may be given more than once.

    Arguments:
        name, variable, metavar: the option, the parameter of the command, and its value in the help.
        text: of the help.
        complete: what shells offer.
    """
    return click.option(name, variable, multiple=True, metavar=metavar, shell_complete=complete, help=text)


def complete_engines(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """The engines of --for, for shells."""
    return [CompletionItem(f"{name}=") for name in ENGINES if name.startswith(incomplete)]


def absolute(path: str) -> str:
    """A path of the command line as an absolute one; "" for none."""
    return str(Path(path).absolute()) if path else ""


def wish_options(command: Command) -> Command:
    """Give a command the options of a wish, and --vendor; `wish` makes the wish of them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wish(
    *,
    strategies: tuple[str, ...],
    no_all: bool,
    numbers: bool,
    network: bool,
    hook: str,
    rules_dirs: tuple[str, ...],
    disabled_hooks: tuple[str, ...],
    enabled_hooks: tuple[str, ...],
    features: tuple[str, ...],
    **same: Any,
) -> Wish:
    """The wish of a command line; options that are named like its members are passed on.

    Raises CdiError: DISCOVERY_WISH.
    """
    if rules_dirs:
        same["rules_dirs"] = tuple(map(absolute, rules_dirs))
    return Wish(
        hook_path=hook_path.checked(hook or _installed()),
        names=strategies,
        has_all=not no_all,
        has_numbers=numbers,
        has_network=network,
        disabled_hooks=frozenset(disabled_hooks),
        enabled_hooks=frozenset(enabled_hooks),
        features=frozenset(features),
        **same,
    )


def _installed() -> str:
    path = launcher.installed()
    if not path:
        raise click.UsageError("the launcher of this installation is not found: name it with --hook-path")
    return path


def complete_vendors(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """The words of --vendor, for shells."""
    return [CompletionItem(name) for name in (vendors.AUTO, *vendors.MODULES) if name.startswith(incomplete)]


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    repeatable(
        "--vendor",
        "wanted",
        "NAME",
        "Whose devices: nvidia, amd, intel, drm, habana, rdma, rules, or auto for all that are there (default). "
        "One that is named reports what is missing of it.",
        complete_vendors,
    ),
    click.option(
        "--mode",
        default="auto",
        metavar="MODE",
        help="NVIDIA: nvml, csv, wsl, management, gds, mofed, gdrcopy, nvswitch or imex; auto takes what the host is.",
    ),
    click.option(
        "--driver-root",
        default="/",
        metavar="DIR",
        shell_complete=completion.folders,
        callback=lambda _context, _parameter, path: absolute(path),
        help="Where the driver's files lie: the root of a driver container.  [default: /]",
    ),
    click.option(
        "--dev-root",
        default="",
        metavar="DIR",
        shell_complete=completion.folders,
        callback=lambda _context, _parameter, path: absolute(path),
        help="Where the device nodes lie; by default the driver root.",
    ),
    repeatable(
        "--library-search-path",
        "library_paths",
        "DIR",
        "Search this directory below the driver root for libraries, in place of the usual ones.",
    ),
    repeatable(
        "--config-search-path",
        "config_paths",
        "DIR",
        "Search this directory below the driver root for configuration files, before the usual ones.",
    ),
    click.option(
        "--device-name-strategy",
        "strategies",
        multiple=True,
        type=_STRATEGIES,
        help="How devices are named; each device has a name of each strategy. By default as the vendor does.",
    ),
    click.option("--no-all", is_flag=True, help="Write no device `all`."),
    repeatable("--device", "devices", "NAME", "Write this device only, by index, UUID, PCI address or name."),
    click.option(
        "--class",
        "kind",
        default="",
        metavar="CLASS|VENDOR/CLASS",
        help="The kind to write, for a host where another file has the usual one.",
    ),
    click.option(
        "--hook-path",
        "hook",
        default="",
        metavar="FILE",
        shell_complete=completion.files,
        help="The program that hooks start; by default the launcher of this installation. nvidia-cdi-hook and "
        "nvidia-ctk get their own form of arguments.",
    ),
    click.option("--disable-hook", "disabled_hooks", multiple=True, type=_HOOKS, help="Leave this hook out."),
    click.option(
        "--enable-hook",
        "enabled_hooks",
        multiple=True,
        type=_HOOKS,
        help="Write this hook although --disable-hook all is given.",
    ),
    repeatable("--feature-flag", "features", "NAME", "Switch an optional feature of the vendor on."),
    repeatable(
        "--csv-file",
        "csv_files",
        "FILE",
        "Tegra: a file that lists what the system has, in place of the usual ones.",
        completion.files,
    ),
    repeatable("--csv-ignore", "csv_ignored", "PATTERN", "Tegra: leave links out that match this pattern."),
    click.option(
        "--csv-compat-root",
        default="",
        metavar="DIR",
        help="Tegra: where images have the libraries of a newer CUDA.  [default: /usr/local/cuda/compat, for Orin "
        "/usr/local/cuda/compat_orin]",
    ),
    click.option(
        "--numbers",
        is_flag=True,
        help="Write the numbers of device nodes, which may change at a reboot; engines look them up where they are "
        "missing.",
    ),
    click.option("--network", is_flag=True, help="RDMA: inject the network interfaces of the adapters, too."),
    repeatable(
        "--rules-dir",
        "rules_dirs",
        "DIR",
        "Read rules from this directory in place of the usual ones; of several the last one wins.",
        completion.folders,
    ),
)
