"""Where Python begins: started by the launcher as `PY -I -S -B shim/__main__.py create|cli|netdevices …`.

`site` never runs, so the module directory is put on the path here; the create path loads nothing of the command line.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__[: -len("/shim/__main__.py")])
    if sys.argv[1] == "create":
        from shim import create

        create.main(sys.argv[2:])
    elif sys.argv[1] == "netdevices":
        from shim.hooks import netdevices

        netdevices.main(sys.argv[2:])
    else:
        from shim import cli

        cli.main(sys.argv[2:])
