"""The one file that holds the modules of the create path: the same as the files, and not needed."""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import shutil
import subprocess
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

TOP = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """packaging/hot.py."""
    spec = importlib.util.spec_from_file_location("hot", TOP / "packaging" / "hot.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _table(modules: Path) -> dict[str, tuple[str, bool, CodeType]]:
    data = (modules / "shim" / "hot").read_bytes()
    assert data.startswith(importlib.util.MAGIC_NUMBER)
    end = 16 + int.from_bytes(data[12:16], "little")
    table: dict[str, tuple[str, bool, CodeType]] = marshal.loads(data[end:])
    return table


def test_it_holds_what_the_installed_files_say(modules: Path, tmp_path: Path) -> None:
    (tmp_path / "shim").mkdir()
    command = [sys.executable, "-X", "no_debug_ranges", str(TOP / "packaging/hot.py")]
    subprocess.run([*command, modules, tmp_path / "shim/hot"], check=True)
    assert _table(modules) == _table(tmp_path)


def test_the_program_that_is_compiled_at_each_start_stays_short(modules: Path) -> None:
    """54 lines of it took a third of a millisecond of each create."""
    lines = (modules / "shim/__main__.py").read_text().splitlines()
    assert len([line for line in lines[1:] if line and not line.startswith("#")]) < 20


def test_each_module_stands_behind_those_that_it_imports(builder: ModuleType, modules: Path) -> None:
    names = list(builder.table(modules))
    for name, (place, _, _) in builder.table(modules).items():
        tree = ast.parse((modules / place).read_text())
        assert [one for one in builder._imported(tree, names) if names.index(one) > names.index(name)] == []


def test_what_it_makes_are_modules_like_any_other(modules: Path) -> None:
    """Names, files, packages and attributes are those of the import system, and late imports find their way."""
    script = """
import marshal, sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "hot":
    with open(f"{sys.path[0]}/shim/hot", "rb") as file:
        hot = file.read()
    exec(marshal.loads(hot[16:]))
import shim.create, shim.host.trust, shim.start
from shim.cdi import directories
ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "shim"}
for name, module in sorted(ours.items()):
    children = sorted(child for child in vars(module) if f"{name}.{child}" in ours)
    print(name, module.__name__, module.__package__, module.__file__, getattr(module, "__path__", ""), children)
"""
    told = [
        subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", script, modules, how], capture_output=True, text=True, check=True
        ).stdout
        for how in ("hot", "files")
    ]
    assert told[0] == told[1]
    assert "shim.create.rules" in told[0]


def test_code_without_annotations_and_docstrings_does_the_same(builder: ModuleType) -> None:
    source = '''
"""A docstring."""
from __future__ import annotations
from posix import getpid
TYPE_CHECKING = False
if TYPE_CHECKING:
    from nowhere import nothing
class A:
    """Another."""
    __slots__ = ("x",)
    y: int
    z: int = 3
    def f(self, a: int, /, b: str = "b", *c: int, d: float = 1.0, **e: object) -> tuple[object, ...]:
        """One more."""
        there: list[int] = []
        return a, b, c, d, e, there
'''
    found: dict[str, Any] = {}
    exec(builder.compiled(source, "x"), found)
    a = found["A"]()
    assert a.f(1, "2", 3, d=4, g=5) == (1, "2", (3,), 4, {"g": 5}, [])
    assert (found["A"].z, found["A"].__doc__, found["A"].f.__doc__, found["A"].f.__annotations__) == (3, None, None, {})
    assert callable(found["getpid"])
    assert "TYPE_CHECKING" not in found


DAMAGE = {
    "as it is": Path.stat,
    "missing": Path.unlink,
    "of another interpreter": lambda path: path.write_bytes(b"\0\0\r\n" + path.read_bytes()[4:]),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "noise": lambda path: path.write_bytes(path.read_bytes()[:16] + b"noise"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_create_works_with_the_file_and_without(damage: Any, copied: Path, trusted_path: Path) -> None:
    damage(copied / "shim" / "hot")
    spec = {"cdiVersion": "0.6.0", "kind": "acme.example/gpu"}
    spec["devices"] = [{"name": "0", "containerEdits": {"env": ["GPU=0"]}}]  # type: ignore[assignment]  # plain JSON
    (trusted_path / "cdi").mkdir()
    (trusted_path / "cdi" / "x.json").write_text(json.dumps(spec))
    (trusted_path / "c.toml").write_text(f'[cdi]\nspec-dirs = ["{trusted_path}/cdi"]\n')
    (trusted_path / "config.json").write_text("{}")
    main = copied / "shim" / "__main__.py"
    words = ["low=/bin/true", "name=shim", "self=/x", "verb=create", f"bundle={trusted_path}", "--", "true"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", main, "create", "device=acme.example/gpu=0", *words],
        capture_output=True,
        text=True,
        env={"SHIM_CONFIG": str(trusted_path / "c.toml")},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((trusted_path / "config.json").read_text())["process"]["env"] == ["GPU=0"]


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_an_installation_that_is_half_gone_is_told_where_the_engine_looks(
    log_format: str, modules: Path, tmp_path: Path
) -> None:
    """A create that asked ended in a traceback, of which nothing stood in --log: containerd showed no reason."""
    shutil.copytree(
        modules / "shim", tmp_path / "shim", ignore=shutil.ignore_patterns("hot", "rules.py", "__pycache__")
    )
    log = tmp_path / "log"
    words = ["low=/bin/true", f"log={log}", f"log-format={log_format}", "device=a.b/c=d", "--", "true"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", tmp_path / "shim" / "__main__.py", "create", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("shim: SHIM_BROKEN: its modules cannot be loaded: ")
    assert done.stderr.count("\n") == 1
    line = log.read_text()
    assert line.count("\n") == 1
    message = json.loads(line)["msg"] if log_format == "json" else line.partition('msg="')[2].rstrip('"\n')
    assert message == done.stderr.rstrip("\n")
