"""The launcher that an engine will start as root: where it is, who can change it, and which runtime it executes.

The low-level runtime is that of the engine's present configuration. The launcher reads it from a link,
/etc/shim/low-level/NAME, where NAME is the last part of the path by which the engine starts it (native/lowlevel.c); so
two engines with different runtimes need two such paths: `shim` and a link to it, `shim-crun`, from `make install`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shim.base import files
from shim.base.findings import CdiError, Finding
from shim.base.paths import parent, reason
from shim.engines import vendors
from shim.hooks import core
from shim.host import identity
from shim.host.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from shim.engines.model import Registry
    from shim.host.host import Host

LINKS: str = core.LOW_LEVEL_LINKS


@dataclass(frozen=True)
class Choice:
    """The launcher that configure will register, and the runtime behind it.

    Attributes:
        path: of the launcher, as the engine will start it.
        low_level: the runtime that it executes.
        link: the link to that runtime, "" when none is needed.
        linked: the present target of the link, None when it is missing.
    """

    path: str
    low_level: str
    link: str = ""
    linked: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether the link must be made or changed."""
        return bool(self.link) and self.linked != self.low_level


def installed() -> str:
    """The launcher of this installation, or of this virtual environment; "" when it has none."""
    for above in Path(__file__).parents:
        if (above / "bin/shim").is_file():
            return str(above / "bin/shim")
    return ""


def check(host: Host, path: str) -> None:
    """Refuse a launcher that is missing, or that others than root (rootless: than the user) could change.

    Arguments:
        host: the machine.
        path: absolute path of the launcher.
    Raises:
        CdiError: RUNTIME_BINARY_MISSING, LAUNCHER_UNTRUSTED, SHIM_BROKEN.
    """
    findings = faults(host, path)
    if findings:
        raise CdiError(findings)


def faults(host: Host, path: str) -> list[Finding]:
    """What is wrong with a launcher, of its files the first: see `check`."""
    if not host.find(path):
        return [Finding("RUNTIME_BINARY_MISSING", f"{path} is missing, or cannot be executed", path=path)]
    trust = Trust()
    for what, file in (("the launcher", path), *_parts(host, path)):
        try:
            objection = trust.objection(str(host.real(file)))
        except FileNotFoundError:
            text = f"{what} that {path} needs is missing: {file}; no container that asks for a device starts"
            return [Finding("SHIM_BROKEN", text, "install shim again", path=path)]
        except OSError as error:
            objection = f"{file}: {reason(error)}"
        if objection:
            text = f"{what} that the engine would start as root can be changed by others: {objection}"
            return [Finding("LAUNCHER_UNTRUSTED", text, path=file)]  # the same holds for all files below it
    return []


def _parts(host: Host, path: str) -> Iterator[tuple[str, str]]:
    """What a launcher executes: the interpreter, and each file and directory of the modules (native/python.c)."""
    directory_of_it = Path(os.path.realpath(host.real(path))).parent
    launch = directory_of_it.parent / "lib/shim/launch"
    if launch.is_file():
        yield "the file `launch`", _of_machine(host, str(launch))
        lines = launch.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        interpreter, modules = (*lines, "", "")[:2]
    elif (directory_of_it / "python3").exists():  # a virtual environment
        interpreter = _of_machine(host, str(directory_of_it / "python3"))
        modules = _of_machine(host, _modules_of(directory_of_it.parent))
    else:
        return  # a script or another wrapper: the program that it starts cannot be determined
    yield "the interpreter", interpreter
    yield "the module directory", modules
    for directory, directories, names in os.walk(host.real(modules)):
        for name in (*directories, *names):
            yield "a module", _of_machine(host, f"{directory}/{name}")


def _modules_of(environment: Path) -> str:
    """The directory of the modules in a virtual environment, of the newest Python that has them; "" without any."""
    programs = environment.glob("lib/python3.*/site-packages/shim/__main__.py")
    found = {int(minor): path.parent.parent for path in programs if (minor := path.parts[-4][8:]).isdecimal()}
    return str(found[max(found)]) if found else ""


def _of_machine(host: Host, real: str) -> str:
    """The path by which the machine itself reaches a file, of the path by which this process does."""
    root = os.path.realpath(host.root)
    return real.removeprefix(root) if root != "/" and real.startswith(f"{root}/") else real


def choose(
    host: Host, registry: Registry, path: str, low_level: str, *, fixed: bool, own: Collection[str] = ()
) -> Choice:
    """Decide which launcher an engine gets, and which runtime that executes.

    Arguments:
        host: the machine.
        registry: the engine's configuration.
        path: the launcher.
        low_level: a runtime by name or path, "" for the one that the engine uses now.
        fixed: whether the user named `path`; else a link beside it may be used where its own name is taken.
        own: low-level links that only the present registration needs, so that they may get another target.
    Raises:
        CdiError: LOWLEVEL_MISSING; LOWLEVEL_TAKEN when that name is taken by another runtime.
    """
    runtime = _named(host, path, low_level) if low_level else current(host, registry, path)
    paths = [path] if fixed else [path, f"{parent(path)}/shim-{last_part(runtime)}"]
    for candidate in paths:
        if candidate == path or host.find(candidate):
            choice = _choice(host, candidate, runtime)
            is_free = choice.linked is None or choice.link in own or (low_level and fixed)
            may_link = identity.is_rootful() and is_free
            if may_link or not choice.is_new:
                return choice
    taken = _choice(host, path, runtime)
    if identity.is_rootful():
        text = f"{taken.link} leads to {taken.linked}, but this engine uses {runtime}"
        remedy = f"ln -s shim {paths[-1]} and name it with --path, or choose the runtime with --low-level"
        if fixed:
            remedy = "name another launcher with --path, or choose the runtime with --low-level"
    else:
        text = f"{path} executes {taken.linked or 'nothing'} here, not {runtime}; only root can change that"
        remedy = f"as root: ln -sf {runtime} {taken.link}"
    raise CdiError([Finding("LOWLEVEL_TAKEN", text, remedy, path=taken.link)])


def _choice(host: Host, path: str, runtime: str) -> Choice:
    link = link_of(path)
    linked = host.readlink(link)
    if linked is None and not identity.is_rootful():
        without_link = searched(host, path)
        return Choice(path, runtime, "" if without_link == runtime else link, without_link)
    return Choice(path, runtime, link, linked)


def current(host: Host, registry: Registry, path: str) -> str:
    """The low-level runtime that an engine uses now, behind shim and behind the wrappers of vendors.

    Raises:
        CdiError: LOWLEVEL_MISSING.
    """
    runtime = registry.low_level or _elsewhere(host, registry, path)
    if runtime and host.is_same_file(runtime, path):
        runtime = low_level_of(host, runtime)
    elif vendors.is_program(runtime):
        runtime = _program(host, path, *vendors.low_level_names(host, runtime))
    if not runtime:
        text = f"the program of the engine's runtime {registry.default or 'runc'} is missing"
        remedy = "install runc or crun, or give its path: --low-level /path/to/it"
        raise CdiError([Finding("LOWLEVEL_MISSING", text, remedy)])
    return runtime


def _elsewhere(host: Host, registry: Registry, path: str) -> str:
    """For a default runtime whose program is missing at its path: a program of the same name elsewhere."""
    default = registry.runtimes.get(registry.default)
    if default and vendors.is_program(default.path):
        return default.path
    name = last_part(default.path) if default else ""
    return _program(host, path, name) if name in {"runc", "crun"} else ""


def low_level_of(host: Host, path: str) -> str:
    """The runtime that a launcher executes: the target of its link, else what it finds; "" for none."""
    linked = host.readlink(link_of(path))
    return searched(host, path) if linked is None else linked


def link_of(path: str) -> str:
    """The link to the runtime that a launcher executes."""
    return f"{LINKS}/{last_part(path)}"


def searched(host: Host, path: str, name: str = "") -> str:
    """The runtime that a launcher without a link finds, as native/lowlevel.c searches; "" for none.

    Arguments:
        host: the machine.
        path: the launcher, which the search skips.
        name: by which it would be started, the last part of its path when not given. With the name of a runtime, that
            runtime is searched.
    """
    root = "" if host.root == "/" else host.root
    environment = host.environment.get("PATH", "")
    return core.search_low_level(str(host.real(path)), name or last_part(path), path=environment, root=root)


def _program(host: Host, path: str, *names: str) -> str:
    """The first of these runtimes that is there, by name or path, "" for none; never the launcher at `path`."""
    for name in names:
        is_other = "/" in name or name.startswith("shim")  # the search would take shim for runc
        program = host.find(name) if is_other else searched(host, path, name)
        if program and not host.is_same_file(program, path):
            return program
    return ""


def _named(host: Host, path: str, low_level: str) -> str:
    program = _program(host, path, low_level)
    if not program:
        runtimes = (_program(host, path, "runc"), _program(host, path, "crun"))
        names = ", ".join(filter(None, runtimes)) or "neither runc nor crun"
        text = f"--low-level {low_level}: there is no such runtime; there are {names}"
        raise CdiError([Finding("LOWLEVEL_MISSING", text, "install it, or name another one")])
    return program


def is_launcher(host: Host, path: str) -> bool:
    """Whether a program is the launcher of some installation of shim, by an error id that its file holds."""
    try:
        program = files.read(host.real(path), 4 * 1024 * 1024)
    except (OSError, ValueError):
        return False
    return program.startswith(b"\x7fELF") and b"SHIM_BROKEN" in program


def last_part(path: str) -> str:
    """The last part of a path, by which a launcher finds its low-level link."""
    return path.rpartition("/")[2]
