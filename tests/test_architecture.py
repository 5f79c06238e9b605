"""Imports point one way, and no files depend on each other in a circle: what Rust's crates would enforce."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent

# package -> packages of ours that it may import; a path with a dot names one module. Late imports count as well.
MAY_IMPORT = {
    "base": set(),
    "cdi": {"base", "host.file_identity", "host.identity", "host.look", "host.nodes", "host.trust"},
    "host": {"base"},
    "config": {"base", "cdi", "host"},
    "hooks": {"base", "host"},
    "create": {"base", "broken", "cdi", "config", "grants.overlap", "grants.reader", "host", "hooks.core"},
    "engines": {"base", "cdi", "config", "create.record_files", "create.record_reader", "hooks.core", "host"},
    "discover": {"base", "cdi", "config", "hooks.core", "host"},
    "doctor": {"base", "cdi", "config", "create", "discover", "engines", "grants", "host"},
    "gate": {"base", "cdi", "grants.reader", "host"},
    "grants": {"base", "cdi", "host"},
    "migrate": {"base", "cdi", "config", "discover", "engines", "host"},
    "node": {"base", "cdi", "config", "discover", "engines", "grants", "host"},
    "cli": {
        *("base", "cdi", "config", "create", "discover", "doctor", "engines", "gate", "grants", "host", "hooks.core"),
        *("migrate", "node"),
    },
}
ALWAYS = {""}  # shim itself: the version


def _modules() -> list[tuple[str, Path]]:
    found = [(path.relative_to(TOP / "shim"), path) for path in (TOP / "shim").rglob("*.py")]
    return sorted(
        (str(relative.with_suffix("")).replace("/", ".").removesuffix(".__init__"), path)
        for relative, path in found
        if len(relative.parts) > 1
    )


def _nodes(tree: ast.AST, *, with_types: bool) -> Iterator[ast.AST]:
    """The nodes of a module; without `with_types`, without what only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if with_types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _nodes(node, with_types=with_types)


def _imported(path: Path, *, with_types: bool = True) -> set[str]:
    """What a file imports of ours, at once or late, without the leading "shim."; `a.b` for `from shim.a import b`."""
    names: set[str] = set()
    for node in _nodes(ast.parse(path.read_text()), with_types=with_types):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name.removeprefix("shim").lstrip(".") for name in names if name.split(".")[0] == "shim"}


def _module(name: str, modules: Mapping[str, object]) -> str:
    """The module that a name is, or is in; "" for one of shim itself."""
    return name if name in modules else name.rpartition(".")[0]


@pytest.mark.parametrize(("module", "path"), _modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_point_down(module: str, path: Path) -> None:
    package = module.partition(".")[0]
    allowed = MAY_IMPORT[package] | {package}
    wrong = {
        name
        for name in _imported(path)
        if name not in ALWAYS
        and not any(name == one or name.startswith(f"{one}.") or one.startswith(f"{name}.") for one in allowed)
        and name != "__version__"
    }
    assert wrong == set(), f"{module} may import {sorted(allowed)}"


def test_every_package_has_a_rule() -> None:
    assert {module.split(".")[0] for module, _ in _modules()} == set(MAY_IMPORT)


def test_c_is_called_from_one_module() -> None:
    callers = [module for module, path in _modules() if "_core" in path.read_text() and module != "hooks.core"]
    assert [module for module in callers if "import" in module] == []
    for module, path in _modules():
        if module != "hooks.core":
            assert not any(name.endswith("_core") for name in _imported(path)), module


def test_the_module_that_calls_c_imports_nothing_of_ours() -> None:
    """So any other may import it."""
    assert {name.rpartition(".")[0] for name in _imported(TOP / "shim/hooks/core.py")} == {"hooks._core"}


def test_modules_stay_short() -> None:
    """Up to 350 lines is the rule, 400 the end; tables of data are no reason, they go into a module of their own."""
    files = [path for _, path in _modules()]
    files += [path for directory in ("native", "hooks") for path in (TOP / directory).glob("*.[ch]")]
    lines = {str(path.relative_to(TOP)): len(path.read_text().splitlines()) for path in files}
    assert {"native/launcher.c", "hooks/hook.c"} <= set(lines)
    assert {file: count for file, count in lines.items() if count > 400} == {}


# --- no circles ---------------------------------------------------------------------------------------------------

Graph = dict[str, set[str]]


def circle(graph: Graph) -> list[str]:
    """The files of a circle, the first one also last; none: []."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param({"a": {"b", "c"}, "b": {"c"}, "c": set()}, set(), id="none"),
        pytest.param({"a": {"b"}, "b": {"a"}}, {"a", "b"}, id="two files"),
        pytest.param(
            {"x": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a"}}, {"a", "b", "c"}, id="three, and one before them"
        ),
    ],
)
def test_a_circle_is_found(graph: Graph, expected: set[str]) -> None:
    assert set(circle(graph)) == expected


def test_no_module_imports_itself_by_a_detour() -> None:
    """Late imports count; those for type checkers do not, since they are never run."""
    modules = dict(_modules())
    graph = {
        module: {_module(name, modules) for name in _imported(path, with_types=False)} - {module, ""}
        for module, path in modules.items()
    }
    assert circle(graph) == []


def test_a_late_import_counts_and_one_for_types_does_not(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from shim.cdi import plan\n"
        "def late():\n    from shim.create import fold\n"
    )
    assert _imported(module, with_types=False) == {"create.fold"}
    assert "cdi.plan" in _imported(module)


C_FILES = sorted((*(TOP / "native").glob("*.c"), *(TOP / "hooks").glob("*.c")))


def calls(sources: list[Path], directory: Path) -> Graph:
    """C file -> the files whose functions and variables it uses, by the symbols of the objects."""
    include = [f"-I{TOP / 'native'}", f"-I{TOP / 'hooks'}"]
    definitions = ['-DSHIM_VERSION=""']
    subprocess.run(["cc", "-std=gnu11", "-O0", *include, *definitions, "-c", *sources], cwd=directory, check=True)
    defined: dict[str, str] = {}
    used: Graph = {}
    for source in sources:
        listed = subprocess.run(
            ["nm", "-P", f"{source.stem}.o"], cwd=directory, capture_output=True, text=True, check=True
        )
        used[source.name] = set()
        for name, kind, *_ in map(str.split, listed.stdout.splitlines()):
            if kind == "U":
                used[source.name].add(name)
            elif kind.isupper():
                assert defined.setdefault(name, source.name) == source.name, name
    return {file: {defined[name] for name in names if name in defined} for file, names in used.items()}


def test_no_c_file_calls_itself_by_a_detour(tmp_path: Path) -> None:
    graph = calls(C_FILES, tmp_path)
    assert "root.c" in graph["hook.c"], "the symbols were read"
    assert circle(graph) == []


def test_a_call_back_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int b(void); int a(void) { return b(); }")
    (tmp_path / "b.c").write_text("extern int a; int b(void) { return a; }")
    assert set(circle(calls([tmp_path / "a.c", tmp_path / "b.c"], tmp_path))) == {"a.c", "b.c"}


def test_no_header_includes_itself_by_a_detour() -> None:
    headers = [*(TOP / "native").glob("*.h"), *(TOP / "hooks").glob("*.h")]
    graph = {path.name: set(re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)) for path in headers}
    assert graph["hook.h"] >= {"root.h"}
    assert circle(graph) == []


def test_c_of_the_launcher_uses_nothing_of_the_hooks_but_their_entrance(tmp_path: Path) -> None:
    """native/ has the launcher and what it shares with the hooks: only launcher.c, which starts them, knows hooks/."""
    graph = calls(C_FILES, tmp_path)
    hooks = {path.name for path in C_FILES if path.parent.name == "hooks"}
    used = {path.name: graph[path.name] & hooks for path in C_FILES if path.parent.name == "native"}
    assert {file: names for file, names in used.items() if names} == {"launcher.c": {"hook.c"}}
