"""Where Python begins: started by the launcher as `PY -I -S -B shim/__main__.py create|precreate|netdevices|cli …`."""

# the builtin half of `signal`, which costs 5 ms because of enum
import _signal  # type: ignore[import-not-found]  # typeshed knows `signal` only
import marshal
import sys
from _frozen_importlib_external import MAGIC_NUMBER  # importlib.util's, without its cost
from _imp import source_hash

TOP = __file__[: -len("/shim/__main__.py")]
PARTS = {"create": "shim.create", "precreate": "shim.create.precreate", "netdevices": "shim.hooks.netdevices"}


def load_hot() -> None:
    """Load the modules of a create from one file, see packaging/hot.py; without it everything works as well."""
    try:
        with open(f"{TOP}/shim/hot", "rb") as file:
            data = memoryview(file.read())
    except OSError:
        return
    if data[:4] != MAGIC_NUMBER or data[4:12] != source_hash(0, data[12:]):  # marshal trusts its input
        return
    table, loader = marshal.loads(data[12:])
    try:
        exec(loader, {"TABLE": table, "TOP": TOP, "sys": sys})
    except Exception:
        for name in table:
            sys.modules.pop(name, None)


def let_interrupts_through() -> None:
    """End at SIGINT as the low-level runtime would, without a traceback: the launcher has held it since its start."""
    del sys.argv[2]
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])


if __name__ == "__main__":
    if sys.argv[2:3] == ["sigint=held"]:
        let_interrupts_through()
    sys.path.insert(0, TOP)  # `site` never runs
    part = PARTS.get(sys.argv[1], "shim.cli")
    try:
        if part == "shim.create":
            load_hot()
        __import__(part)
        sys.modules[part].main(sys.argv[2:])
    except Exception as error:
        from shim import broken

        broken.end(sys.argv[1], sys.argv[2:], error)

# The launcher takes this file for cut off unless it ends so:
# end
