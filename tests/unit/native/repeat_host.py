"""A host on which the installed launcher makes creates that are decided once and then repeated, and what they leave."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shim.create import record_files

Json = dict[str, Any]

SETTLED = 0.15  # seconds after which a file counts as settled
NAME = "shim-repeat"
SPECS, LINK = Path("/etc/cdi"), Path("/etc/shim/low-level") / NAME
DIRECTORY = Path("/run/shim")
_NO_ID = 0xFFFFFFFF
# An access list by which another user may write (acl(5)): user rwx, uid 9 rw-, group r-x, mask rwx, others r-x
ACCESS_LIST = struct.pack("<I" + "HHI" * 5, 2, 1, 7, _NO_ID, 2, 6, 9, 4, 5, _NO_ID, 16, 7, _NO_ID, 32, 5, _NO_ID)


class Host:
    """A spec with a node, a mount, a hook and variables, and a launcher whose low-level runtime does nothing."""

    def __init__(self, directory: Path, launcher: Path) -> None:
        self.directory = directory
        self.launcher = launcher
        self.node, self.source, self.hook = (directory / name for name in ("node", "source", "hook"))
        self.spec = SPECS / "repeat.json"
        self._count = 0
        os.mknod(self.node, 0o20666, os.makedev(1, 3))
        self.source.mkdir()
        shutil.copy("/bin/true", self.hook)
        LINK.parent.mkdir(parents=True, exist_ok=True)
        LINK.symlink_to("/bin/true")
        SPECS.mkdir(exist_ok=True)
        self.write_spec()

    def write_spec(self, value: str = "void", env: list[str] | None = None, nodes: list[Json] | None = None) -> None:
        """Write the spec, and wait until it has settled."""
        edits = {
            "env": env or [f"NVIDIA_VISIBLE_DEVICES={value}", "EXTRA=1"],
            "deviceNodes": nodes or [{"path": "/dev/repeat", "hostPath": str(self.node)}],
            "mounts": [{"hostPath": str(self.source), "containerPath": "/opt/repeat", "options": ["ro", "rbind"]}],
            "hooks": [{"hookName": "createContainer", "path": str(self.hook), "args": ["hook", "x"]}],
            "additionalGids": [44],
        }
        spec = {"cdiVersion": "0.7.0", "kind": "v.example/repeat", "devices": [{"name": "0", "containerEdits": edits}]}
        self.spec.write_text(json.dumps(spec))
        time.sleep(SETTLED)

    def create(self, *options: str, verb: str = "create", config: Json | None = None, **env: str) -> Container:
        """A create of a new bundle, in which an annotation with a key of its own asks."""
        self._count += 1
        bundle = self.directory / f"bundle{self._count}"
        (bundle / "rootfs").mkdir(parents=True)
        config = CONFIG if config is None else config
        annotations = config.get("annotations", {f"cdi.k8s.io/plugin_{self._count}": "v.example/repeat=0"})
        text = json.dumps({**config, "annotations": annotations})
        (bundle / "config.json").write_text(text)
        id = f"c{self._count}"
        words = [NAME, "--root", "/run/repeat", verb, *options, "--bundle", str(bundle), id]
        environment = {"PATH": os.environ["PATH"], **env}
        subprocess.run(words, executable=self.launcher, env=environment, check=True, timeout=60)
        return Container(bundle, id)

    def exec(self, container: Container, process: Json, mode: int = 0o644, owner: int = 0) -> None:
        """An exec into a container, with a process file."""
        file = self.directory / "process.json"
        file.write_text(json.dumps(process))
        file.chmod(mode)
        os.chown(file, owner, -1)
        words = [NAME, "--root", "/run/repeat", "exec", "--process", str(file), container.record["id"]]
        subprocess.run(words, executable=self.launcher, check=True, timeout=60)

    def process(self) -> Json:
        """The process file as it is now."""
        found: Json = json.loads((self.directory / "process.json").read_text())
        return found

    def update_by_file(self, container: Container, data: bytes) -> bytes:
        """The resources in a file after an update of a container."""
        file = self.directory / "resources.json"
        file.write_bytes(data)
        self._update(container, str(file))
        return file.read_bytes()

    def update_by_input(self, container: Container, data: bytes) -> bytes:
        """What the low-level runtime reads from standard input in an update."""
        reader = self.directory / "reader"
        reader.write_text("#!/bin/sh\nexec cat\n")
        reader.chmod(0o755)
        LINK.unlink()
        LINK.symlink_to(reader)
        return self._update(container, "-", data)

    def _update(self, container: Container, resources: str, data: bytes = b"") -> bytes:
        words = [NAME, "--root", "/run/repeat", "update", "--resources", resources, container.record["id"]]
        done = subprocess.run(
            words, executable=self.launcher, input=data, stdout=subprocess.PIPE, check=True, timeout=60
        )
        return done.stdout

    def repeat(self, **options: Any) -> Container:
        """The create that follows another one of the same question."""
        self.create(**options)
        return self.create(**options)


class Container:
    """What a create has left."""

    def __init__(self, bundle: Path, id: str) -> None:
        key = record_files.key(NAME, "/run/repeat", id)
        self.config: Json = json.loads((bundle / "config.json").read_text())
        lines = (DIRECTORY / "c" / key).read_text().splitlines()
        self.life, self.record = json.loads(lines[0]), json.loads(lines[1])
        self.is_repeated = self.record.pop("repeated", False)
        logged = Path("/var/log/shim.log").read_text().splitlines()
        self.line: Json = json.loads(logged[-1])


CONFIG: Json = {
    "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"]},
    "root": {"path": "rootfs"},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "namespaces": [{"type": "mount"}, {"type": "pid"}],
    },
}


def own_interpreter(host: Host, installed: Path) -> Path:
    """Let the launcher use an interpreter that a test can take away."""
    interpreter = installed.parent / "python3"
    interpreter.symlink_to(Path(sys.executable).resolve())
    launch = installed.parents[1] / "lib/shim/launch"
    launch.write_text("\n".join((str(interpreter), launch.read_text().splitlines()[1], "")))
    host.launcher = installed
    time.sleep(SETTLED)
    return interpreter
