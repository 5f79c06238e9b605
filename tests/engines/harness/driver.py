"""A driver as large as a GPU's: thirty libraries, a spec that injects them with hooks, roots that can use them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from . import programs
from .sandbox import Sandbox

KIND = "nvidia.com/gpu"
ANNOTATIONS = {"cdi.k8s.io/driver": f"{KIND}=all"}
SONAMES = [f"libdriver{i}.so.{i % 3}" for i in range(30)]
LINK = "libdriver0.so"  # what create-symlinks makes; ldconfig knows it, since its target begins so
FOLDER = "/opt/driver"
(_MUSL,) = programs.find("/lib/ld-musl-x86_64.so.1")
MUSL_LOADER = Path(_MUSL)

_OPEN = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int opened = 0;
    for (int i = 1; i < argc; i++) {
        if (dlopen(argv[i], RTLD_NOW))
            opened++;
        else
            printf("%s\\n", dlerror());
    }
    printf("opened %d\\n", opened);
    return 0;
}
"""

# Without a libc: the loader opens what it needs and comes here
_START = 'void _start(void) { __asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall"); }\n'


class Driver:
    """The files of the driver, under the names that they have on a host: no soname link among them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.files = sandbox.scratch / "host/driver"
        self.files.mkdir()
        self._build = sandbox.scratch / "build"
        self._build.mkdir()
        (self._build / "driver.c").write_text("int driver(void) { return 1; }\n")
        self._gcc("-fPIC", "-c", "driver.c", "-o", "driver.o")
        for soname in SONAMES:
            self._gcc("-shared", "-nostdlib", f"-Wl,-soname,{soname}", "driver.o", "-o", self.files / f"{soname}.550.1")
        (self._build / "open.c").write_text(_OPEN)
        self._gcc("open.c", "-o", "open")
        (self._build / "start.c").write_text(_START)
        loader = f"-Wl,--dynamic-linker={MUSL_LOADER}"
        needed = sorted(self.files.iterdir())
        self._gcc("-nostdlib", "-pie", "-fPIE", "-Wl,--no-as-needed", loader, "start.c", *needed, "-o", "musl")

    def _gcc(self, *words: str | Path) -> None:
        subprocess.run(["gcc", *words], cwd=self._build, check=True)

    def publish(self, program: Path, words: list[str], *, fold: str = "ours", folder: str = FOLDER) -> None:
        """Write the spec, and the configuration.

        Arguments:
            program: of the hook.
            words: its args.
            fold: whose hooks create does itself.
            folder: where the libraries lie in the container.
        """
        mounts = [
            {
                "hostPath": f"{self._sandbox.host}/driver/{file.name}",
                "containerPath": f"{folder}/{file.name}",
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
            for file in sorted(self.files.iterdir())
        ]
        hooks = [{"hookName": "createContainer", "path": str(program), "args": words}]
        devices = [{"name": "all", "containerEdits": {"env": ["DRIVER=all"]}}]
        edits = {"mounts": mounts, "hooks": hooks}
        spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": devices, "containerEdits": edits}
        (self._sandbox.scratch / "etc-cdi/driver.json").write_text(json.dumps(spec))
        (self._sandbox.scratch / "etc-shim/config.toml").write_text(f'[hooks]\nfold = "{fold}"\n')

    def put_glibc(self, root: Path, *, ldconfig: bool = True) -> None:
        """Give a root the host's libc, the program /bin/open, and ldconfig."""
        shutil.copy(self._build / "open", root / "bin/open")
        told = subprocess.run(["ldd", self._build / "open"], capture_output=True, text=True, check=True).stdout
        for file in re.findall(r"(/\S+) \(0x", told):
            (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / file[1:])
        if ldconfig:
            (root / "sbin").mkdir()
            shutil.copy("/sbin/ldconfig", root / "sbin/ldconfig")
            (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")

    def put_musl(self, root: Path) -> None:
        """Give a root the loader of musl, and the program /bin/musl, which needs every library."""
        shutil.copy(MUSL_LOADER, root / MUSL_LOADER.relative_to("/"))
        shutil.copy(self._build / "musl", root / "bin/musl")

    def folded(self) -> list[str]:
        """What the last create did itself, by its line in the log."""
        line = (self._sandbox.scratch / "log/shim.log").read_text().splitlines()[-1]
        names: list[str] = json.loads(line)["folded"]
        return names


def hook_words(name: str = "shim", folder: str = FOLDER) -> list[str]:
    """The args of a hook that makes a link and the cache."""
    words = ["update-ldcache", "create-symlinks", "--folder", folder, "--link", f"{SONAMES[0]}::{folder}/{LINK}"]
    return [name, "hook", *words] if name != "nvidia-cdi-hook" else [name, *words]


def made(directory: Path) -> dict[str, Any]:
    """What a tree holds, to be compared: mode, owner, and bytes or target of each entry."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        what: Any = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(directory))] = (oct(status.st_mode), status.st_uid, status.st_gid, what)
    return found
