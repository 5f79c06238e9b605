"""Imports point one way. What Rust's crates would enforce, this file does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent

# package -> packages of ours that it may import; a path with a dot names one module. Late imports count as well.
MAY_IMPORT = {
    "base": set(),
    "cdi": {"base", "host.identity", "host.look", "host.nodes", "host.trust"},
    "host": {"base", "hooks.core"},
    "config": {"base", "cdi", "host"},
    "hooks": {"base", "host"},
    "create": {"base", "broken", "cdi", "config", "host", "hooks.core"},
    "engines": {"base", "cdi", "config", "hooks.core", "host"},
    "cli": {"base", "cdi", "config", "create", "engines", "host", "hooks.core"},
}
ALWAYS = {""}  # shim itself: the version


def _modules() -> list[tuple[str, Path]]:
    found = [(path.relative_to(TOP / "shim"), path) for path in (TOP / "shim").rglob("*.py")]
    return sorted(
        (str(relative.with_suffix("")).replace("/", ".").removesuffix(".__init__"), path)
        for relative, path in found
        if len(relative.parts) > 1
    )


def _imported(path: Path) -> set[str]:
    """Modules of ours that a file imports, without the leading "shim."."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.update({node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)})
    return {name.removeprefix("shim").lstrip(".") for name in names if name.split(".")[0] == "shim"}


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


def test_modules_stay_short() -> None:
    """Up to 350 lines is the rule, 400 the end; tables of data are no reason, they go into a module of their own."""
    long = {module: len(path.read_text().splitlines()) for module, path in _modules()}
    assert {module: lines for module, lines in long.items() if lines > 400} == {}
