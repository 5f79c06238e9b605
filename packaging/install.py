"""Install an image (image.py), and remove it again: `make install` and `make uninstall`; see shim/node/placement.py.

Standard library only: it runs under the interpreter that the launcher will start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # -I leaves it out

from shim.node.placement import Refusal, Target, install, uninstall


def fail(text: str) -> NoReturn:
    """End with a message."""
    sys.exit(f"shim: {text}")


def users(target: Target) -> list[str]:
    """Users of the launcher, a line each: lines of engines' files, specs, and containers that run under it.

    The installed command knows them. Where it is missing nothing can need it; below DESTDIR no engine runs.
    """
    launcher = f"{target.prefix}/bin/shim"
    if target.stage or not os.path.lexists(launcher):
        return []
    words = [launcher, "runtime", "in-use", "--path", launcher, "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
        mentions = [*report["lines"], *report.get("specs", ())]
        lines = [f"{line['path']}:{line['line']}: {line['text']}" for line in mentions]
        lines += [f"{file['path']} was moved aside, to {file['kept']}" for file in report.get("movedAside", ())]
        containers = [
            f"{container['engine']} container {container['id']} ({container['evidence']})"
            for container in report["containers"]
        ]
    except (ValueError, LookupError, TypeError):
        reason = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        fail(f"{launcher} cannot tell whether an engine or a container needs it; say FORCE=1 to remove it:\n  {reason}")
    return [*lines, *(container.lstrip() for container in containers)]


def find_interpreter(image: Path) -> str:
    """The Python that runs this, without links: it is what the modules were compiled for, and what users must reach.

    An upgrade of the distribution lets /usr/bin/python3 mean another version; the launcher then says that Python is
    gone, which is better than modules of one version in another.
    """
    interpreter = os.path.realpath(sys.executable)
    wanted = json.loads((image / "image.json").read_text(encoding="utf-8"))["soabi"]
    if wanted != sysconfig.get_config_var("SOABI"):
        fail(f"the modules were built for {wanted}, {interpreter} is another Python: `make clean`, then again")
    if os.geteuid() == 0:
        for path in (Path(interpreter), *Path(interpreter).parents):
            if not path.stat().st_mode & 0o001:
                fail(f"{interpreter} cannot be started by every user, because of {path}: choose another PYTHON")
    return interpreter


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["install", "uninstall"])
    parser.add_argument("--image", type=Path, default=Path("build/image"))
    parser.add_argument("--prefix", default="/usr/local")
    parser.add_argument("--destdir", default="")
    parser.add_argument("--sysconfdir", default="/etc")
    parser.add_argument("--force", action="store_true")
    options = parser.parse_args()
    try:
        target = Target(options.prefix, options.destdir, options.sysconfdir)
        if options.action == "install":
            tree = install(options.image, target, find_interpreter(options.image), force=options.force, note=print)
            print(f"installed {target.real(target.prefix + '/bin/shim')}, modules in {tree}")
        else:
            uninstall(target, force=options.force, users=users, note=print)
    except Refusal as refusal:
        fail(f"{refusal}\n{refusal.remedy}, or say FORCE=1" if refusal.remedy else str(refusal))
    except OSError as error:
        fail(f"{error.filename or ''}: {error.strerror}")


if __name__ == "__main__":
    main()
