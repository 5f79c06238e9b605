"""How often a create comes back to a module that it has left: who follows one from `main` to exec reads as many pages.

Counted are the calls from one module of shim to another, by sys.setprofile; the same two modules one after the other
count once. Apart are the leaves, which anything may call: shim.base and shim.host, and the World, which answers all
questions about the host. A call counts as a return when its module was entered before.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null"}]}}],
    "containerEdits": {
        "env": ["GPU=1"],
        "mounts": [
            {"hostPath": "/etc", "containerPath": path, "options": ["rbind", "ro"]} for path in ("/opt/a", "/opt/b")
        ],
        "hooks": [{"hookName": "createContainer", "path": "/bin/true", "args": ["true"]}],
    },
}

FOLLOW = """
import posix, sys

def module(frame):
    path = frame.f_code.co_filename
    name = f"/{path}".rpartition("/shim/")[2] if "/shim/" in f"/{path}" else ""
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

def counts(frame):
    name = module(frame)
    return bool(name) and not name.startswith(("base", "host", "__main__")) and name != "create.world"

calls = []
def follow(frame, event, _):
    if event != "call" or frame.f_code.co_name in {"<module>", "__del__"} or not counts(frame):
        return
    caller = frame.f_back
    while caller and not counts(caller):
        caller = caller.f_back
    pair = (module(caller) if caller else "", module(frame))
    if pair[0] != pair[1] and (not calls or calls[-1] != pair):
        calls.append(pair)

def execve(*_):
    sys.setprofile(None)
    print("\\n".join(f"{caller} {called}" for caller, called in calls), flush=True)
    posix._exit(0)

posix.execve = execve
sys.argv = sys.argv[1:]
program = compile(open(sys.argv[0]).read(), sys.argv[0], "exec")
sys.setprofile(follow)
exec(program, {"__name__": "__main__", "__file__": sys.argv[0]})
"""


@pytest.mark.rootful
def test_a_create_seldom_comes_back_to_a_module_that_it_has_left(modules: Path, trusted_path: Path) -> None:
    """11 times in 6022cb0, counted in the same way."""
    (trusted_path / "cdi").mkdir()
    (trusted_path / "cdi/x.json").write_text(json.dumps(SPEC))
    (trusted_path / "c.toml").write_text(f'[cdi]\nspec-dirs = ["{trusted_path}/cdi"]\n[log]\nfile = ""\n')
    bundle = {"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}, "mounts": [{"destination": "/proc"}]}
    words = ["low=/bin/true", "name=shim", "self=/x", "verb=create", f"bundle={trusted_path}", "id=x", "--", "true"]
    environment = {"SHIM_CONFIG": str(trusted_path / "c.toml"), "XDG_RUNTIME_DIR": "/nowhere"}
    time.sleep(0.3)  # an index is written only when the specs have been at rest for a while
    for _ in ("cold", "warm"):
        (trusted_path / "config.json").write_text(json.dumps(bundle))
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", FOLLOW, modules / "shim/__main__.py", "create", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    calls = [tuple(line.split(" ")) for line in done.stdout.splitlines()]
    entered = [called for _, called in calls]
    assert {"create", "create.recipe", "create.rules", "create.merge", "create.bundle", "cdi.plan"} <= set(entered)
    assert not {"create.unindexed", "cdi.directories"} & set(entered), "it was no warm create"
    returns = [call for index, call in enumerate(calls) if call[1] in entered[:index]]
    assert len(returns) <= 10, returns
