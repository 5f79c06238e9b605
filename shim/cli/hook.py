"""`shim hook`: only the help of the hooks: the launcher runs hooks itself, or starts their module.

A hook is called by the low-level runtime, by entries from specs. The help is for people who read such an entry, or use
the form with --root, which does the same work on a directory tree without a container.
"""

from __future__ import annotations

from typing import NoReturn

import click

_ROOT = click.Option(["--root"], metavar="DIR", help="Work on this tree, outside of a container's start.")
_STATE = click.Option(
    ["--container-spec"], metavar="FILE", help="Read the container's state from FILE, not from stdin."
)


@click.group(no_args_is_help=True)
def hook() -> None:
    """What runs while a container starts: each alone, or several in one process.

    Low-level runtimes call them, with the container's state on standard input, as specs say; `shim create` does the
    work of most of them itself, so that none has to run. Several run in the order of the work, whatever the order of
    the words. What goes wrong in a container's tree is a
    warning, since a container with a library less is better than none. Called as `nvidia-cdi-hook`, or as `nvidia-ctk
    hook`, shim takes the arguments of those programs.

    \b
    Examples:
      shim hook update-ldcache --root /srv/images/debian
      shim hook create-symlinks update-ldcache --link libx.so.1::/opt/x/libx.so --folder /opt/x < state.json
    """


def _not_here(**_: object) -> NoReturn:
    raise click.UsageError("hooks are run by the launcher: call the program `shim` itself")


def _add(name: str, text: str, *options: click.Parameter) -> None:
    hook.add_command(click.Command(name, callback=_not_here, help=text, params=list(options), no_args_is_help=False))


_add(
    "create-symlinks",
    """Make symbolic links in the container.

    One that is right already is left alone, anything else in its place is replaced, except a directory. Directories
    on the way are made.

    \b
    Example:
      shim hook create-symlinks --link libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so --root /srv/images/debian
    """,
    click.Option(["--link"], multiple=True, metavar="TARGET::LINK", help="The text of the link, and where it is."),
    _ROOT,
    _STATE,
)
_add(
    "update-ldcache",
    """Write /etc/ld.so.cache and the links named by sonames, as the ldconfig of the container's own libc would.

    No program of the container is run. With musl, the list /etc/ld-musl-ARCH.path instead. Without --folder this is
    exactly what `ldconfig -r DIR` makes.

    \b
    Examples:
      shim hook update-ldcache --root /srv/images/debian
      shim hook update-ldcache --root /srv/images/debian --folder /opt/driver/lib
    """,
    click.Option(
        ["--folder"],
        multiple=True,
        metavar="DIR",
        help="Search this directory of the container as well, now and whenever ldconfig is run in it.",
    ),
    click.Option(["--settle"], is_flag=True, help="As if run twice: links that lead through new links are found."),
    click.Option(["--keep-links"], is_flag=True, help="Make and remove no links, like `ldconfig -X`."),
    click.Option(
        ["--generator"], metavar="TEXT", help="Imitate the ldconfig that calls itself so, not that of the container."
    ),
    _ROOT,
    _STATE,
)
_add(
    "enable-cuda-compat",
    """Put the container's own CUDA driver libraries in front, where they are for a newer driver than the host has.

    \b
    Example:
      shim hook enable-cuda-compat --host-driver-version 550.54 --root /srv/images/cuda
    """,
    click.Option(["--host-driver-version"], metavar="VERSION", help="The host's driver; without it nothing is done."),
    click.Option(
        ["--cuda-compat-container-root"],
        metavar="DIR",
        help="Where they are in the container.",
        default="/usr/local/cuda/compat",
        show_default=True,
    ),
    _ROOT,
    _STATE,
)
_add(
    "disable-device-node-modification",
    """Keep NVIDIA's libraries in the container from making device nodes.

    Where the host's /proc/driver/nvidia/params says ModifyDeviceFiles: 1, the container sees a copy that says 0.

    \b
    Example:
      shim hook disable-device-node-modification < state.json
    """,
    _STATE,
)
_add(
    "update-application-profile",
    """Tell NVIDIA's EGL which of the host's GPUs the container has: one bit for each /dev/nvidiaN in it.

    \b
    Example:
      shim hook update-application-profile < state.json
    """,
    _ROOT,
    _STATE,
)
_add(
    "netdevices",
    """Move network interfaces into the container, or back, for runtimes that ignore linux.netDevices.

    `shim create` writes these entries itself where they are needed.

    \b
    Examples:
      shim hook netdevices attach eth5:net0 < state.json
      shim hook netdevices detach eth5:net0 < state.json
    """,
    click.Option(["--netns"], metavar="PATH", help="detach: the namespace, where it has a path."),
    click.Argument(["direction"], metavar="attach|detach"),
    click.Argument(["interfaces"], nargs=-1, required=True, metavar="HOST:NAME…"),
)
_add(
    "precreate",
    """Give devices to containers of podman without being its runtime: config.json on stdin, the edited one on stdout.

    A file in a hooks directory of podman (/usr/share/containers/oci/hooks.d, --hooks-dir) calls it. Podman 4 shows only
    the exit status when a request cannot be met; the reason is in the log of shim.

    \b
    Example of such a file:
      {"version": "1.0.0",
       "hook": {"path": "/usr/local/bin/shim", "args": ["shim", "hook", "precreate"]},
       "when": {"annotations": {"^cdi[.]k8s[.]io/": ".*"}},
       "stages": ["precreate"]}
    """,
)
