"""podman, rootful or as the sandbox's unprivileged user, with every path of its own below the scratch directory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from shim.host import podman_programs

from . import images, programs
from .registration import Configure
from .sandbox import USER, Result, Sandbox

CONTAINERS_CONF = """
[containers]
# The defaults ask for more than a machine without CAP_SYS_RESOURCE or a pids controller can give.
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
pids_limit = 0
log_driver = "k8s-file"
[network]
network_backend = "cni"
network_config_dir = "DIRECTORY/net"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
conmon_env_vars = ENVIRONMENT
tmp_dir = "DIRECTORY/tmp"
static_dir = "DIRECTORY/root/libpod"
volume_path = "DIRECTORY/volumes"
image_copy_tmp_dir = "DIRECTORY/copy"
"""

STORAGE_CONF = """
[storage]
driver = "overlay"
graphroot = "DIRECTORY/root"
runroot = "DIRECTORY/run"
rootless_storage_path = "DIRECTORY/root"
"""


class Podman:
    """One podman with its own storage and the busybox image loaded.

    Arguments:
        configure: edits containers.conf before the engine starts; without it the engine knows no runtime `shim`.
        rootless: run podman as the sandbox's unprivileged user.
        runtime_env: variables that the runtime gets; podman 4.3 hands on hardly any of the user's.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        configure: Configure | None = None,
        *,
        rootless: bool = False,
        runtime_env: Mapping[str, str] | None = None,
    ) -> None:
        self._podman, _ = programs.find("podman", "conmon")
        self._sandbox = sandbox
        self.rootless = rootless
        self._user = USER if rootless else None
        self.directory = Path(tempfile.mkdtemp(prefix="p", dir=sandbox.scratch))
        self._directory_for_owner()
        environment = json.dumps([f"{name}={value}" for name, value in (runtime_env or {}).items()])
        values = {"DIRECTORY": str(self.directory), "ENVIRONMENT": environment}
        self._write("containers.conf", CONTAINERS_CONF, values)
        if configure:
            configure(self.directory / "containers.conf")
        self._write("storage.conf", STORAGE_CONF, values)
        self._write("registries.conf", "unqualified-search-registries = []\n", {})
        self._write("home/.config/containers/policy.json", '{"default": [{"type": "insecureAcceptAnything"}]}', {})
        # cgroups of a rootless podman need a delegated v2 hierarchy; on v1 it uses none.
        self._options = ["--network=none"] if rootless else ["--network=none", f"--cgroup-parent={sandbox.cgroup}"]
        archive = self.directory / "busybox.tar"
        images.write_image(archive, images.BUSYBOX)
        self("load", "--input", archive).ok()

    def _directory_for_owner(self) -> None:
        for name in ("", "home", "run", "tmp", "copy", "xdg", "net"):
            path = self.directory / name
            self._sandbox.run("install", "-d", "-m", "700", *(["-o", self._user] if self._user else []), path).ok()

    def _write(self, name: str, text: str, values: dict[str, str]) -> None:
        for word, value in values.items():
            text = text.replace(word, value)
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="ascii")

    def environment(self) -> dict[str, str]:
        """The variables by which podman finds its files."""
        directory = self.directory
        return {
            "CONTAINERS_CONF": f"{directory}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{directory}/storage.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{directory}/registries.conf",
            "HOME": f"{directory}/home",
            "TMPDIR": f"{directory}/copy",
            "XDG_RUNTIME_DIR": f"{directory}/xdg",
        }

    def __call__(self, *arguments: str | Path, stdin: str = "") -> Result:
        """Call podman."""
        return self._sandbox.run(self._podman, *arguments, user=self._user, env=self.environment(), stdin=stdin)

    def record(self, version: str) -> None:
        """Record the program as if it had that version, "" for no record at all; it stays so for the whole sandbox.

        Annotations count from podman 4.6 on, and here is an older one, which copies those of images. A test that needs
        a container whose client has asked, whatever the way, records a later version.
        """
        status = Path(self._podman).stat()
        numbers = tuple(map(int, version.split("."))) if version else ()
        text = f"{podman_programs.Program(status, numbers, self._podman)}\n" if version else ""
        script = 'mkdir -p "${0%/*}" && rm -f "$0" && if [ -n "$1" ]; then cat > "$0"; fi'
        self._sandbox.run("/bin/sh", "-c", script, podman_programs.SYSTEM_FILE, version, stdin=text).ok()

    def run(
        self,
        *options: str | Path,
        script: str,
        runtime: str | Path = "shim",
        flags: Sequence[str] = (),
        image: str = images.BUSYBOX,
        hooks: Path | None = None,
        stdin: str = "",
        verb: str = "run",
    ) -> Result:
        """`podman run`, or `podman create`, of the shell script in a new container.

        Arguments:
            options: of `podman run`.
            script: what the container does.
            runtime: the OCI runtime, by name or path; "" for podman's default.
            flags: values of --runtime-flag.
            image: the image of the container.
            hooks: the directory of hooks instead of the system's.
            stdin: what the container reads with `--interactive`.
            verb: "run" or "create".
        """
        chosen = [f"--runtime={runtime}"] if runtime else []
        chosen += [] if hooks is None else [f"--hooks-dir={hooks}"]
        chosen += [f"--runtime-flag={flag}" for flag in flags]
        return self(*chosen, verb, *self._options, *options, image, "/bin/sh", "-c", script, stdin=stdin)

    def records(self) -> set[str]:
        """The containers that got something, as the launcher has noted them for exec."""
        place = self.directory / "xdg/shim/c" if self.rootless else "/run/shim/c"
        return set(self._sandbox.run("ls", place).out.split())

    def close(self) -> None:
        """Remove every container."""
        self("rm", "--all", "--force", "--time=0").ok()
