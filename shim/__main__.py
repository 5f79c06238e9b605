"""Where Python begins: started by the launcher as `PY -I -S -B shim/__main__.py create|precreate|netdevices|cli …`."""

import marshal
import sys
from _frozen_importlib_external import MAGIC_NUMBER  # importlib.util's, without its cost

TOP = __file__[: -len("/shim/__main__.py")]

if __name__ == "__main__":
    sys.path.insert(0, TOP)  # `site` never runs
    if sys.argv[1] == "create":
        try:
            with open(f"{TOP}/shim/hot", "rb") as file:  # see packaging/hot.py; without it everything works as well
                data = file.read()
            if data.startswith(MAGIC_NUMBER):
                TABLE, loader = marshal.loads(data[len(MAGIC_NUMBER) :])
                exec(loader)
        except (OSError, EOFError, ValueError, TypeError):  # the last three: it is damaged
            pass
    parts = {"create": "shim.create", "precreate": "shim.create.precreate", "netdevices": "shim.hooks.netdevices"}
    part = parts.get(sys.argv[1], "shim.cli")
    try:
        __import__(part)
    except ImportError as error:
        from shim import broken

        broken.tell(sys.argv[2:], error)
        sys.exit(1)
    sys.modules[part].main(sys.argv[2:])
