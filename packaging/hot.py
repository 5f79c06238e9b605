"""Put the modules of the create path into one file: `hot.py TOP OUTPUT`, run by the build.

Loading twenty modules one by one costs as much as half a start of the interpreter, most of it for finding and opening
files. So the build compiles them into one file that shim/__main__.py runs in place of looking for them: a table of
code, and the lines that make modules of it. Docstrings and assertions go, as under -OO, and annotations too: nobody
reads them there, and each costs a tuple at every start. The file begins with the magic number of the interpreter that
wrote it and a hash of what follows (0.04 ms of a load of 0.7 ms): marshal trusts its input, and one flipped bit ended
in SIGSEGV once in 60. Then comes the length of the code that loads the rest. With another interpreter, a damaged file
or none, the modules are loaded as usual.
"""

from __future__ import annotations

import _imp
import ast
import marshal
import sys
from collections.abc import Collection
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

# What a warm create loads, by which tests/unit/create/test_imports.py judges every create
MODULES = (
    "shim",
    "shim.base",
    "shim.base.execute",
    "shim.base.fastjson",
    "shim.base.findings",
    "shim.base.paths",
    "shim.base.replace",
    "shim.cdi",
    "shim.cdi.annotations",
    "shim.cdi.edits",
    "shim.cdi.index",
    "shim.cdi.names",
    "shim.cdi.plan",
    "shim.config",
    "shim.config.location",
    "shim.config.settings",
    "shim.create",
    "shim.create.annotation_origin",
    "shim.create.annotation_requests",
    "shim.create.answers",
    "shim.create.bundle",
    "shim.create.changes",
    "shim.create.invocation",
    "shim.create.log",
    "shim.create.merge",
    "shim.create.mounts",
    "shim.create.outcome",
    "shim.create.question",
    "shim.create.recipe",
    "shim.create.record",
    "shim.create.record_files",
    "shim.create.request",
    "shim.create.rules",
    "shim.create.world",
    "shim.host",
    "shim.host.file_identity",
    "shim.host.identity",
    "shim.host.nodes",
    "shim.host.trust",
    "shim.start",
)

# Runs with sys, marshal, and hot: the file. Behind this code stands a table: name -> path below the module directory,
# which is first in sys.path; is it a package; code. The collector is off before that is loaded: the process ends soon,
# and what it makes is bounded by the size of config.json. The import system is not asked: it would spend more on each
# module than running it takes. All modules exist before the first of them runs, and each runs behind those that it
# imports. So is _json loaded: searching for it through sys.path takes twice as long as loading it.
LOADER = """
import gc

gc.disable()
TABLE = marshal.loads(hot[16 + int.from_bytes(hot[12:16], "little"):])

def json_scanner():
    if "_json" in sys.builtin_module_names:
        return
    from _frozen_importlib import ModuleSpec, _load
    from _frozen_importlib_external import ExtensionFileLoader
    from _imp import extension_suffixes
    path = f"{sys.path[-1]}/_json{extension_suffixes()[0]}"
    try:
        _load(ModuleSpec("_json", ExtensionFileLoader("_json", path), origin=path))
    except ImportError:
        pass  # it lies elsewhere, and is searched for

json_scanner()
try:
    for name, (place, is_package, _) in TABLE.items():
        module = sys.modules[name] = type(sys)(name)
        module.__file__ = f"{sys.path[0]}/{place}"
        module.__package__ = name.rpartition(".")[0]
        if is_package:
            module.__package__ = name
            module.__path__ = [module.__file__.rpartition("/")[0]]
    for name in TABLE:
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
    for name, (_, _, code) in TABLE.items():
        exec(code, sys.modules[name].__dict__)
except Exception:
    for name in TABLE:
        sys.modules.pop(name, None)
"""


class _Bare(ast.NodeTransformer):
    """Takes annotations out of functions and assignments, and what was needed for them only."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function without annotations of its arguments and of its result."""
        node.returns = None
        arguments = node.args
        for argument in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ):
            if argument is not None:
                argument.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """An annotated assignment as a plain one; a mere declaration disappears."""
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """`if TYPE_CHECKING:` is never true; its imports would be names and code of every module."""
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """`TYPE_CHECKING = False` has no reader then."""
        return None if ast.unparse(node) == "TYPE_CHECKING = False" else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """`from __future__ import annotations` costs the import of a module."""
        return None if node.module == "__future__" else node


def compiled(source: str, name: str) -> CodeType:
    """The code of a module, without docstrings, assertions and annotations; lines as in the source."""
    tree = ast.fix_missing_locations(_Bare().visit(ast.parse(source, name)))
    return compile(tree, name, "exec", dont_inherit=True, optimize=2)


def table(top: Path) -> dict[str, tuple[str, bool, CodeType]]:
    """MODULES as code, each behind those that it imports.

    Arguments:
        top: the directory that holds the package `shim`.
    """
    sources: dict[str, tuple[str, bool, str]] = {}
    for name in MODULES:
        path = top / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        sources[name] = (str(file.relative_to(top)), path.is_dir(), file.read_text(encoding="utf-8"))
    found: dict[str, tuple[str, bool, CodeType]] = {}

    def add(name: str) -> None:
        place, is_package, source = sources[name]
        for needed in _imported(ast.parse(source), sources.keys()):
            if needed not in found:
                add(needed)
        found[name] = (place, is_package, compiled(source, place))

    for name in MODULES:
        if name not in found:
            add(name)
    return found


def _imported(tree: ast.Module, ours: Collection[str]) -> list[str]:
    """Those of `ours` that a module imports when it runs: late imports and those for type checkers are not meant."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name for name in modules if name in ours] or [node.module]
    return [name for name in names if name in ours]


def main() -> None:
    """Write the file."""
    top, output = map(Path, sys.argv[1:])
    loader = compile(LOADER, "hot", "exec", dont_inherit=True, optimize=2)
    code = marshal.dumps(loader)
    data = len(code).to_bytes(4, "little") + code + marshal.dumps(table(top))
    output.write_bytes(MAGIC_NUMBER + _imp.source_hash(0, data) + data)


if __name__ == "__main__":
    main()
