"""Location: which configuration file counts, and its settings. HOT.

The first of these that exists counts, alone:

    $SHIM_CONFIG                                  must exist where it is named
    $XDG_CONFIG_HOME/shim/config.toml             rootless only, and only if that directory is the caller's; where the
                                                  variable is not set: $HOME/.config/shim/config.toml
    /etc/shim/config.toml
    /etc/nvidia-container-runtime/config.toml     of NVIDIA's toolkit: only its explicit lines about sources

shim.config.reader reads the file; it is loaded only when a file exists.
"""

from __future__ import annotations

import posix

from shim.config.settings import Settings
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.host.look import Look
    from shim.host.trust import Trust

SYSTEM_FILE = "/etc/shim/config.toml"
VENDOR_FILE = "/etc/nvidia-container-runtime/config.toml"


def candidates(environ: dict[bytes, bytes] | None = None, look: Look = posix) -> tuple[str, ...]:
    """The paths that may be the configuration, in order: an index depends on the existence of each of them.

    Arguments:
        environ: the environment as bytes, for tests; the process's own when not given.
        look: its `stat` is used; module posix by default.
    """
    variables = posix.environ if environ is None else environ
    named = _text(variables.get(b"SHIM_CONFIG"))
    if named:
        return (named,)
    own = own_file(variables)
    if own and _is_mine(own.rpartition("/")[0], look):
        return (own, SYSTEM_FILE, VENDOR_FILE)
    return (SYSTEM_FILE, VENDOR_FILE)


def own_file(environ: dict[bytes, bytes] | None = None) -> str:
    """The path of the configuration of a user without root, which may be missing; "" for the host's root.

    Arguments: as for `candidates`.
    """
    home = "" if identity.is_rootful() else identity.user_directory(b"XDG_CONFIG_HOME", ".config", environ)
    return f"{home}/shim/config.toml" if home else ""


def find(environ: dict[bytes, bytes] | None = None, look: Look = posix) -> str:
    """The path of the file that counts, "" when there is none; what $SHIM_CONFIG names counts even if it is missing.

    Arguments: as for `candidates`.
    """
    paths = candidates(environ, look)
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        if _exists(path, look):
            return path
    return ""


def load(path: str = "", trust: Trust | None = None, look: Look = posix) -> Settings:
    """The settings of this machine and user.

    Arguments:
        path: the file; by default that of find().
        trust: checks the file; by default for the user of this process.
        look: its `stat` is used when no file is given; module posix by default.
    Raises:
        CdiError: SETTINGS or SETTINGS_UNTRUSTED; see shim.config.reader.read.
    """
    path = path or find(look=look)
    if not path:
        return Settings()
    # late: TOML costs 10 ms, and most machines have no configuration file
    from shim.config import reader

    return reader.read(path, trust).settings


def index_path(path: str, look: Look = posix) -> str:
    """The path of the index that belongs to a configuration; "" when there is no directory for it.

    Arguments:
        path: the first of `candidates`, whether or not it exists. The index has all of them among its inputs, so two
            paths of the same short name cost only time.
        look: its `stat` is used; module posix by default.
    """
    directory = identity.run_dir(look=look)
    if not directory:
        return ""
    return f"{directory}/index" if path == SYSTEM_FILE else f"{directory}/index-{identity.short_name(path)}"


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "surrogateescape")


def _is_mine(directory: str, look: Look) -> bool:
    try:
        return look.stat(directory).st_uid == posix.geteuid()
    except (OSError, ValueError):
        return False


def _exists(path: str, look: Look) -> bool:
    try:
        look.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # it may exist: reading it then reports the error
    return True
