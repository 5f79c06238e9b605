"""Put the modules of the create path into one file: `hot.py TOP OUTPUT`, run by the build.

Loading twenty modules one by one costs as much as half a start of the interpreter, most of it for finding and opening
files. So the build compiles them into one file that shim/__main__.py runs in place of looking for them: a table of
code, and the importer that answers for it. Docstrings and assertions go, as under -OO, and annotations too: nobody
reads them there, and each costs a tuple at every start. The file begins with the magic number of the interpreter that
wrote it; with another interpreter, or without the file, the modules are loaded as usual.
"""

from __future__ import annotations

import ast
import marshal
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

# What a warm create loads, as tests/create/test_imports.py checks
MODULES = (
    "shim",
    "shim.cdi",
    "shim.cdi.annotations",
    "shim.cdi.edits",
    "shim.cdi.fastjson",
    "shim.cdi.findings",
    "shim.cdi.index",
    "shim.cdi.names",
    "shim.cdi.paths",
    "shim.cdi.plan",
    "shim.create",
    "shim.create.become",
    "shim.create.bundle",
    "shim.create.known",
    "shim.create.log",
    "shim.create.present",
    "shim.create.record",
    "shim.create.report",
    "shim.create.request",
    "shim.create.rules",
    "shim.create.settings",
    "shim.create.verdict",
    "shim.host",
    "shim.host.identity",
    "shim.host.nodes",
    "shim.host.replace",
    "shim.host.trust",
)

# Runs with TABLE (name -> path below the module directory, is it a package, code), the module directory as TOP, and sys
LOADER = """
from _frozen_importlib import ModuleSpec

class HotModules:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in TABLE:
            return None
        place, is_package, code = TABLE[name]
        spec = ModuleSpec(name, HotModules, origin=f"{TOP}/{place}", is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations.append(spec.origin.rpartition("/")[0])
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(TABLE[module.__name__][2], module.__dict__)

sys.meta_path.insert(0, HotModules)
"""


class _Bare(ast.NodeTransformer):
    """Takes annotations out of functions and assignments, and what was needed for them only."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function without annotations of its arguments and of its result."""
        node.returns = None
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if one is not None:
                one.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """An annotated assignment as a plain one; a mere declaration disappears."""
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """`from __future__ import annotations` costs the import of a module."""
        return None if node.module == "__future__" else node


def compiled(source: str, name: str) -> CodeType:
    """The code of a module, without docstrings, assertions and annotations; lines as in the source."""
    tree = ast.fix_missing_locations(_Bare().visit(ast.parse(source, name)))
    return compile(tree, name, "exec", dont_inherit=True, optimize=2)


def table(top: Path) -> dict[str, tuple[str, bool, CodeType]]:
    """MODULES as code.

    Arguments:
        top: the directory that holds the package `shim`.
    """
    found = {}
    for name in MODULES:
        path = top / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        place = str(file.relative_to(top))
        found[name] = (place, path.is_dir(), compiled(file.read_text(encoding="utf-8"), place))
    return found


def main() -> None:
    """Write the file."""
    top, output = map(Path, sys.argv[1:])
    loader = compile(LOADER, "hot", "exec", dont_inherit=True, optimize=2)
    output.write_bytes(MAGIC_NUMBER + marshal.dumps((table(top), loader)))


if __name__ == "__main__":
    main()
