"""Where Python begins: the launcher starts `PY -I -S -B shim/__main__.py PART …`. Short: it is compiled each time."""

import marshal
import sys
from _frozen_importlib_external import MAGIC_NUMBER  # importlib.util's, without its cost
from _imp import source_hash

sys.path.insert(0, __file__[: -len("/shim/__main__.py")])  # `site` never runs
try:
    with open(f"{sys.path[0]}/shim/hot", "rb", 0) as file:  # see packaging/hot.py; without it everything works as well
        hot = memoryview(file.read()) if sys.argv[1] == "create" else b""
except OSError:
    hot = b""
try:
    if hot[:4] == MAGIC_NUMBER and hot[4:12] == source_hash(0, hot[12:]):  # marshal trusts its input
        exec(marshal.loads(hot[16:]))
    from shim import start

    start.main(sys.argv[1], sys.argv[2:])
except Exception as error:
    from shim import broken

    broken.end(sys.argv[1], sys.argv[2:], error)

# The launcher takes this file for cut off unless it ends so:
# end
