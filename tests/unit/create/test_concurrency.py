"""A thousand creates while specs are replaced and the index is made anew: none of them sees a wrong answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# In a /run of its own. The spec says its number; what a create injected must lie between the number that the spec had
# before it began and the one that it had after it ended.
DRIVER = """
import json, os, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

main, creates = sys.argv[1], int(sys.argv[2])
SPEC = "/run/cdi/gpu.json"

def replace(number):
    document = {"cdiVersion": "0.6.0", "kind": "acme.example/gpu", "devices": [
        {"name": str(n), "containerEdits": {"env": [f"NUMBER={number}"]}} for n in range(40)]}
    with open("/run/cdi/.new", "w") as file:
        json.dump(document, file)
    os.rename("/run/cdi/.new", SPEC)

def number():
    with open(SPEC) as file:
        return int(json.load(file)["devices"][0]["containerEdits"]["env"][0].removeprefix("NUMBER="))

def create(n):
    bundle = f"/run/b/{n}"
    os.mkdir(bundle)
    with open(f"{bundle}/config.json", "w") as file:
        json.dump({"annotations": {"cdi.k8s.io/x": f"acme.example/gpu={n % 40}"}}, file)
    words = ["low=/bin/true", "name=shim", "self=/x/shim", "verb=create", f"id={n}", f"bundle={bundle}", "--", "true"]
    before = number()
    done = subprocess.run([sys.executable, "-I", "-S", "-B", main, "create", *words], capture_output=True, text=True)
    after = number()
    with open(f"{bundle}/config.json") as file:
        env = json.load(file).get("process", {}).get("env", [])
    seen = [int(entry.removeprefix("NUMBER=")) for entry in env]
    good = done.returncode == 0 and len(seen) == 1 and before <= seen[0] <= after
    return "" if good else f"create {n}: status {done.returncode}, {before} <= {seen} <= {after}: {done.stderr}"

os.mkdir("/run/cdi")
os.mkdir("/run/b")
replace(0)
ended = False
indexes = set()

def change():
    count = 0
    while not ended:
        count += 1
        replace(count)
        time.sleep(0.02 if count % 3 else 0.5)  # long enough for an index now and then
        if os.path.exists("/run/shim/index"):
            indexes.add(os.stat("/run/shim/index").st_mtime_ns)

writer = threading.Thread(target=change)
writer.start()
with ThreadPoolExecutor(4) as pool:
    wrong = [text for text in pool.map(create, range(creates)) if text]
ended = True
writer.join()
print(json.dumps({"wrong": wrong[:5], "indexes": len(indexes)}))
"""


@pytest.mark.rootful
def test_creates_during_rebuilds_see_what_was_true_meanwhile(modules: Path) -> None:
    script = 'mount -t tmpfs tmpfs /var/log && mount -t tmpfs -o mode=0755 tmpfs /run && exec "$@"'
    inside = [sys.executable, "-c", DRIVER, str(modules / "shim" / "__main__.py"), "1000"]
    command = ["unshare", "--mount", "env", "-u", "SHIM_CONFIG", "sh", "-c", script, "sh", *inside]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert told["indexes"] > 5, "the control: the index was made anew again and again"
