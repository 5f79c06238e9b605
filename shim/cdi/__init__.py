"""The Container Device Interface in Python: a library on its own.

    open directories -> resolve names -> plan -> apply

>>> import shim.cdi as cdi
>>> found = cdi.open(["/etc/cdi", "/var/run/cdi"])     # reads every spec, refuses bad ones, keeps going
>>> found.devices()                                     # doctest: +SKIP
['nvidia.com/gpu=0', 'nvidia.com/gpu=all']
>>> plan = cdi.make_plan(["nvidia.com/gpu=0"], found)   # doctest: +SKIP
>>> config = cdi.apply(plan, config)                    # doctest: +SKIP

Only the last two steps depend on each other: a plan is a plain value that can be stored, shown and compared, and
applying it does no I/O. Everything is documented in its module; the names below are the public surface.
The package loads a module when its name is first used, because the create path starts here, too. HOT.
"""

from __future__ import annotations

del annotations  # the feature's name would hide the module of that name from `from shim.cdi import annotations`

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.cdi.directories import Directories, open
    from shim.cdi.edits import apply
    from shim.cdi.findings import CdiError, Finding
    from shim.cdi.names import BadName, parse_qualified
    from shim.cdi.plan import Plan
    from shim.cdi.plan import make as make_plan
    from shim.cdi.spec import Spec, SpecError, faults, parse, read
    from shim.cdi.write import remove as remove_spec
    from shim.cdi.write import write as write_spec

_HOME = {
    "BadName": ("names", "BadName"),
    "CdiError": ("findings", "CdiError"),
    "Directories": ("directories", "Directories"),
    "Finding": ("findings", "Finding"),
    "Plan": ("plan", "Plan"),
    "Spec": ("spec", "Spec"),
    "SpecError": ("spec", "SpecError"),
    "apply": ("edits", "apply"),
    "faults": ("spec", "faults"),
    "make_plan": ("plan", "make"),
    "open": ("directories", "open"),
    "parse": ("spec", "parse"),
    "parse_qualified": ("names", "parse_qualified"),
    "read": ("spec", "read"),
    "remove_spec": ("write", "remove"),
    "write_spec": ("write", "write"),
}

__all__ = [
    "BadName",
    "CdiError",
    "Directories",
    "Finding",
    "Plan",
    "Spec",
    "SpecError",
    "apply",
    "faults",
    "make_plan",
    "open",
    "parse",
    "parse_qualified",
    "read",
    "remove_spec",
    "write_spec",
]


def __getattr__(name: str) -> Any:
    """Load the module in which a public name lives (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'shim.cdi' has no attribute {name!r}")
    module, attribute = _HOME[name]
    return getattr(__import__(f"shim.cdi.{module}", None, None, [attribute]), attribute)


def __dir__() -> list[str]:
    return __all__
