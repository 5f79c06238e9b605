"""The Container Device Interface in Python: a library on its own.

    open directories -> resolve names -> plan -> apply

`write` checks a spec and renames it into its directory; `open` reads all specs of a directory:

>>> import tempfile
>>> import shim.cdi as cdi
>>> directory = tempfile.mkdtemp()
>>> node = {"path": "/dev/gpu0", "hostPath": "/dev/null"}
>>> path = cdi.write(
...     {
...         "cdiVersion": "0.6.0",
...         "kind": "acme.example/gpu",
...         "containerEdits": {"env": ["ACME_DRIVER=1.2"]},
...         "devices": [{"name": "0", "containerEdits": {"deviceNodes": [node]}}],
...     },
...     directory,
... )

`open` takes several directories, the last with the highest priority. No content of a file makes it raise: a file that
is refused has findings, each with its line and a remedy, and the other files are served.

>>> devices = cdi.open([directory])          # by default /etc/cdi and /var/run/cdi
>>> devices.devices()
['acme.example/gpu=0']
>>> devices.findings
{}

A plan holds the edits of a request, each with its file. Device nodes are completed from the host here, so that this is
the last step with I/O. A plan consists of plain values: `to_json` and `from_json` store and restore it.

>>> plan = cdi.make_plan(["acme.example/gpu=0"], devices)
>>> [origin["device"] for origin in plan.origins]      # None: the edits that the file has for all its devices
[None, '0']

Applying it to an OCI config.json gives a new config; members that the library does not know stay unchanged.

>>> config = cdi.apply(plan, {"ociVersion": "1.2.0", "x-mine": True, "process": {"cwd": "/", "args": ["sh"]}})
>>> config["process"]["env"]
['ACME_DRIVER=1.2']
>>> config["linux"]["devices"][0]["path"], config["linux"]["devices"][0]["minor"]
('/dev/gpu0', 3)

A name that no spec serves raises an error, which names all probable causes in one line:

>>> cdi.make_plan(["acme.example/gpu=1"], devices)     # doctest: +ELLIPSIS
Traceback (most recent call last):
shim.cdi.plan.UnresolvedError: unresolvable device acme.example/gpu=1: ... (nearest: acme.example/gpu=0); searched ...
>>> cdi.remove("acme.example-gpu", directory)
True

All errors are CdiError and carry findings. The names below are the public surface; each is documented in its module.
The package loads a module when a name of it is first used, because the create path imports this package, too. HOT.
"""

# No `from __future__ import annotations` here: it would hide the module of that name in this package.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.base.findings import CdiError, Finding
    from shim.cdi.cached import open
    from shim.cdi.directories import Directories
    from shim.cdi.edits import apply
    from shim.cdi.names import BadName, parse_qualified
    from shim.cdi.plan import NodeError, Plan, UnresolvedError
    from shim.cdi.plan import make as make_plan
    from shim.cdi.spec import Spec, SpecError, faults, parse, read
    from shim.cdi.store import remove, write

# Spec directories by default, the most important last (CDI specification, "Spec directories")
DEFAULT_DIRS = ("/etc/cdi", "/var/run/cdi")

_HOME = {
    "BadName": ("shim.cdi.names", "BadName"),
    "CdiError": ("shim.base.findings", "CdiError"),
    "Directories": ("shim.cdi.directories", "Directories"),
    "Finding": ("shim.base.findings", "Finding"),
    "NodeError": ("shim.cdi.plan", "NodeError"),
    "Plan": ("shim.cdi.plan", "Plan"),
    "Spec": ("shim.cdi.spec", "Spec"),
    "SpecError": ("shim.cdi.spec", "SpecError"),
    "UnresolvedError": ("shim.cdi.plan", "UnresolvedError"),
    "apply": ("shim.cdi.edits", "apply"),
    "faults": ("shim.cdi.spec", "faults"),
    "make_plan": ("shim.cdi.plan", "make"),
    "open": ("shim.cdi.cached", "open"),
    "parse": ("shim.cdi.spec", "parse"),
    "parse_qualified": ("shim.cdi.names", "parse_qualified"),
    "read": ("shim.cdi.spec", "read"),
    "remove": ("shim.cdi.store", "remove"),
    "write": ("shim.cdi.store", "write"),
}

__all__ = [
    "BadName",
    "CdiError",
    "Directories",
    "Finding",
    "NodeError",
    "Plan",
    "Spec",
    "SpecError",
    "UnresolvedError",
    "apply",
    "faults",
    "make_plan",
    "open",
    "parse",
    "parse_qualified",
    "read",
    "remove",
    "write",
]


def __getattr__(name: str) -> "Any":
    """Load the module in which a public name lives (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'shim.cdi' has no attribute {name!r}")
    module, attribute = _HOME[name]
    return getattr(__import__(module, None, None, [attribute]), attribute)


def __dir__() -> list[str]:
    return __all__
