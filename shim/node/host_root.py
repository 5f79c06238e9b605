"""A function that runs in the root of a host, which is mounted in a container: every path in it is the host's own.

A child process of this process changes its root (chroot(2)) and calls the function, so links of the host, absolute ones
such as /var/run too, lead where they lead on the host; the engines' programs can be asked for their version; and no
code needs to know of two roots. The working directory stays outside of the new root, at the top of the image: paths
without a leading slash are the image's, and modules that are imported late are found by them.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import pkgutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec

    Result = TypeVar("Result")

# Imported before the root changes: extension modules, whose libraries are not found afterwards, and what engines need
_PACKAGES = ("shim.base", "shim.cdi", "shim.config", "shim.discover", "shim.engines", "shim.host")
_MODULES = ("ctypes", "tempfile", "hashlib", "subprocess", "shutil", "yaml", "shim.hooks.core", "encodings.idna")


def call(root: str, function: Callable[[Path], Result]) -> Result:
    """Call a function in a root.

    Arguments:
        root: the directory that holds the host's files; "/" for this machine itself.
        function: called with the top of the image, and in a child process; its result is pickled.
    Returns:
        its result.
    Raises:
        CdiError: NODE_HOST_ROOT; what the function raises.
    """
    _check(root)
    _preload()
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _in_child(root, function, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if not data:
        text = (
            f"the process in the host's root ended with status {os.waitstatus_to_exitcode(status)}, without an answer"
        )
        raise CdiError([Finding("INTERNAL", text, path=root)])
    result, findings = pickle.loads(data)  # noqa: S301 (our own child wrote it)
    if findings:
        raise CdiError(findings)
    return result  # type: ignore[no-any-return] # what pickle loads is Any


class _Finder:
    """Finds modules by paths without a leading slash, below the working directory.

    The usual finder cannot: it asks for the name of the working directory, which has none in the new root.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, _target: object = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        tail = name.rpartition(".")[2]
        for entry in sys.path if path is None else path:
            start = f"{entry.lstrip('/') or '.'}/{tail}"
            if Path(start, "__init__.py").is_file():
                return spec_from_file_location(name, f"{start}/__init__.py", submodule_search_locations=[start])
            for suffix in (".py", *EXTENSION_SUFFIXES):
                if Path(start + suffix).is_file():
                    return spec_from_file_location(name, start + suffix)
        return None


def _check(root: str) -> None:
    """Refuse a directory that is no root of a host. Raises CdiError: NODE_HOST_ROOT."""
    if not (Path(root) / "etc").is_dir():
        text = "it is no root of a host: there is no /etc in it"
        raise CdiError([Finding("NODE_HOST_ROOT", text, path=root)])
    if os.geteuid() != 0:
        text = f"user {os.geteuid()} cannot install below it"
        raise CdiError([Finding("NODE_HOST_ROOT", text, "run it as root: runAsUser: 0", path=root)])


def _preload() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    identity.is_rootful()  # read once in a process, from /proc, which the host's root may lack


def _in_child(root: str, function: Callable[[Path], Any], writer: int) -> NoReturn:
    """Change the root, call, write the result and end; no handler of the parent's runs at the end."""
    answer: tuple[Any, list[Finding]]
    try:
        gc.disable()
        try:
            answer = function(_enter(root)), []
        except CdiError as error:
            answer = None, error.findings
        except OSError as error:
            text = f"it cannot be written: {reason(error)}"
            finding = Finding("NODE_HOST_ROOT", text, path=os.fsdecode(error.filename or root))
            answer = None, [finding]
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(answer, stream)
        sys.stdout.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _enter(root: str) -> Path:
    """Change the root, unless it is that of this process; the top of the image, as seen from there."""
    if Path(root).samefile("/"):
        return Path("/")
    os.chdir("/")
    try:
        os.chroot(root)
    except PermissionError:
        text = "this process may not change its root to it"
        remedy = "give the container the capability SYS_CHROOT"
        raise CdiError([Finding("NODE_HOST_ROOT", text, remedy, path=root)]) from None
    sys.meta_path[:] = [*(finder for finder in sys.meta_path if finder is not PathFinder), _Finder()]
    sys.dont_write_bytecode = True
    # systemctl does nothing in a root other than that of process 1 unless it is told to, and here it is the host's
    os.environ["SYSTEMD_IGNORE_CHROOT"] = "1"
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return Path()
