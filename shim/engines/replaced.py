"""Runtimes of a vendor that shim replaces: their entries go, and come back when shim is removed.

The steps that drop the entries are part of the record of configure, beside those that register shim. So a default
runtime that was the vendor's comes back together with its entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.engines import in_use, vendors
from shim.engines.model import Drop, Edit
from shim.engines.texts import editing, json_edit, template_edit, toml_edit
from shim.engines.texts.values import get

if TYPE_CHECKING:
    from collections.abc import Collection

    from shim.engines.contract import Engine
    from shim.engines.model import Location, Registry
    from shim.engines.texts.values import Table
    from shim.host.host import Host


def names(registry: Registry, maker: str) -> list[str]:
    """The runtimes of an engine whose programs are a vendor's, as shim.engines.vendors.maker has it."""
    return [name for name, runtime in registry.runtimes.items() if vendors.maker(runtime.path or name) == maker]


def edits(host: Host, engine: Engine, location: Location, registry: Registry, replaced: Collection[str]) -> list[Edit]:
    """What removes entries of runtimes from the files of an engine.

    Arguments:
        host, engine, location: the machine, the engine, and where its configuration is.
        registry: the configuration.
        replaced: the runtimes.
    Raises:
        CdiError: CONTAINERS_RUNNING where the engine would lose containers; ENGINE_CONFIG_OWNED for an entry that is in
            none of the files that can be changed.
    """
    result: list[Edit] = []
    for name in replaced:
        runtime = registry.runtimes.get(name)
        if runtime is None:
            continue
        if engine.finds_runtimes_by_name:
            _check_containers(host, engine, name, runtime.path)
        of_name = [
            Edit(path, _form(engine, path), (Drop(keys),))
            for path in registry.files
            for keys in engine.runtime_keys(location, name)
            if get(_document(host, engine, path), keys) is not None
        ]
        if not of_name:
            source = runtime.option or location.layout or "no file that can be changed"
            text = f"the runtime {name} of {engine.name} is registered by {source}, and stays"
            remedy = "it goes when the vendor's toolkit is uninstalled"
            if runtime.option:
                remedy = f"take {runtime.option} out of the command line of {engine.name}"
            raise CdiError([Finding("ENGINE_CONFIG_OWNED", text, remedy, path=runtime.file or location.config)])
        result += of_name
    return result


def _form(engine: Engine, path: str) -> str:
    return "template" if path.endswith(".tmpl") else engine.form


def _document(host: Host, engine: Engine, path: str) -> Table:
    text = editing.decoded(host.read(path), path)
    loads = {"json": json_edit.loads, "template": template_edit.loads, "toml": toml_edit.loads}
    return loads[_form(engine, path)](text, path)


def _check_containers(host: Host, engine: Engine, name: str, path: str) -> None:
    """Refuse while containers run under a program that the engine looks for by the runtime's name at each call."""
    last = path.rpartition("/")[2] or name
    under = [
        in_use.Container(engine.name, container.id, container.program, "", engine.end_containers)
        for container in engine.containers(host)
        if container.program.rpartition("/")[2] == last
    ]
    if under:
        effect = f"without the runtime {name} of {engine.name} their exec, stop and delete would fail"
        raise CdiError([in_use.finding(under, effect, "run this again")])
