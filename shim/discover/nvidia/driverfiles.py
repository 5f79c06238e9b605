"""The driver's files beside its libraries: programs, configuration and data, sockets of its daemons.

Each table has the paths of the container; a file that is missing is left out, since no driver has them all.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from shim.base.findings import Finding
from shim.discover.edits import SOCKET
from shim.discover.nvidia.search import below_root
from shim.host.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shim.discover.edits import Edits

_PROGRAM_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
    "nvidia-xconfig",
)
_EXECUTABLE = 0o111

# Directories of configuration and data, in the order in which a file is looked up
_CONFIGURATION = ("/etc", "/usr/local/share", "/usr/share", "/run/opengl-driver/share")
# Vulkan's loader reads /etc as well as /usr/share; a driver container has such files in its root, too
_IN_ETC = (
    "OpenCL/vendors/nvidia.icd",
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_icd.{machine}.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
)
_IN_SHARE = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "egl/egl_external_platform.d/20_nvidia_xcb.json",
    "egl/egl_external_platform.d/20_nvidia_xlib.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
)
_VULKAN = "vulkan/"

# Library -> files of which loaders need one to know it, and what does not work without
_NEEDED = {
    "libEGL_nvidia": (("glvnd/egl_vendor.d/10_nvidia.json",), "EGL"),
    "libGLX_nvidia": (("vulkan/icd.d/nvidia_icd.json", "vulkan/icd.d/nvidia_icd.{machine}.json"), "Vulkan"),
    "libnvidia-opencl": (("OpenCL/vendors/nvidia.icd",), "OpenCL"),
}

_RUN = ("/run", "/var/run")
_DAEMONS = ("nvidia-persistenced/socket", "nvidia-fabricmanager/socket")
_MPS = "/tmp/nvidia-mps"  # noqa: S108 - the directory that the daemon of MPS makes


def add_programs(edits: Edits, tree: Tree) -> list[Finding]:
    """Add the driver's programs that are there; a finding when nvidia-smi is not."""
    for name in _PROGRAMS:
        paths = (f"{directory}/{name}" for directory in _PROGRAM_DIRECTORIES)
        path = next((path for path in paths if _is_program(tree, path)), None)
        if path is not None:
            edits.add_mount(tree, path)
    if any(path.endswith("/nvidia-smi") for path in edits.mounts):
        return []
    text = f"there is no program nvidia-smi in {', '.join(tree.host_path(path) for path in _PROGRAM_DIRECTORIES)}"
    return [Finding("DISCOVERY_PART", text, "install the package that has nvidia-smi, then generate again")]


def add_configuration(edits: Edits, tree: Tree, paths: Iterable[str], machine: str) -> None:
    """Add configuration and data files.

    Arguments:
        edits: get the mounts.
        tree: the driver's files.
        paths: directories that are searched first.
        machine: as uname(2) names it.
    """
    directories = (*(below_root(tree, path) for path in paths), *_CONFIGURATION)
    for target, names in (("/etc", _IN_ETC), ("/usr/share", _IN_SHARE)):
        for template in names:
            name = template.format(machine=machine)
            above = (*directories, "") if name.startswith(_VULKAN) else directories
            candidates = (f"{directory.rstrip('/')}/{name}" for directory in above)
            path = next((path for path in candidates if tree.is_file(path)), None)
            if path is not None:
                edits.add_mount(tree, path, f"{target}/{name}")


def unknown_to_loaders(edits: Edits, names: Iterable[str], machine: str) -> list[Finding]:
    """Findings for libraries that no loader knows, since the file that names them is missing.

    Arguments:
        edits: with configuration files.
        names: of the libraries that are mounted.
        machine: as uname(2) names it.
    """
    findings = []
    stems = {name.partition(".so.")[0] for name in names}
    for stem, (files, interface) in _NEEDED.items():
        endings = tuple(f"/{file.format(machine=machine)}" for file in files)
        if stem in stems and not any(path.endswith(endings) for path in edits.mounts):
            text = f"{stem} is there, but no {files[0]}: {interface} will not see the GPU"
            remedy = "install the driver's packages for it, or name the file's directory: --config-search-path DIR"
            findings.append(Finding("DISCOVERY_PART", text, remedy))
    return findings


def add_sockets(edits: Edits, tree: Tree) -> list[Finding]:
    """Add the sockets of the driver's daemons, which run within the driver's root or on the machine itself."""
    trees = [tree] if tree.root == "/" else [tree, Tree(tree.host)]
    for name in _DAEMONS:
        where = [(source, f"{run}/{name}") for source in trees for run in _RUN]
        at = next(((source, path) for source, path in where if source.is_socket(path)), None)
        if at is not None:
            edits.add_mount(*at, options=SOCKET)
    findings = []
    for source in trees:
        status = source.lstat(_MPS)
        if status is None:
            continue
        # everybody can write the directory above: another user's directory can become a link to anywhere
        if not stat.S_ISLNK(status.st_mode) and status.st_uid in {0, source.host.user}:
            edits.add_mount(source, _MPS, options=SOCKET)
            break
        kind = "a link" if stat.S_ISLNK(status.st_mode) else f"of user {status.st_uid}"
        text = (
            f"{source.host_path(_MPS)} was left out: it is {kind}, so another user can lead containers elsewhere by it"
        )
        findings.append(Finding("DISCOVERY_PART", text, "start nvidia-cuda-mps-control as root, then generate again"))
    return findings


def _is_program(tree: Tree, path: str) -> bool:
    status = tree.status(path)
    return status is not None and stat.S_ISREG(status.st_mode) and bool(status.st_mode & _EXECUTABLE)
