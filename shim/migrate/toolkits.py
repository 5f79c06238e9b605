"""What the container toolkits of vendors leave on a machine.

Sources: https://github.com/NVIDIA/nvidia-container-toolkit, deployments/systemd and packaging;
https://github.com/ROCm/container-toolkit, cmd/amd-ctk and internal/gpu-tracker
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shim.base.findings import CdiError, Finding
from shim.config.location import VENDOR_FILE
from shim.engines.texts import editing, toml_edit
from shim.engines.texts.values import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shim.host.host import Host


_HOOK = (
    "by this file podman and CRI-O start the vendor's hook for containers, which injects devices beside those of CDI "
    "names",
    "remove it, and let containers ask shim: `shim runtime configure`",
)


@dataclass(frozen=True)
class Toolkit:
    """A vendor's toolkit.

    Attributes:
        name: of the vendor, as in shim.discover.vendors.
        maker: of its runtime, as in shim.engines.vendors.
        domain: the vendor of its kinds; further kinds end with it.
        kind: of the spec that its units write.
        spec: the path of that spec.
        programs: that show that it is installed.
        left: path -> what it holds that shim does not take over, and what can be done.
    """

    name: str
    maker: str
    domain: str
    kind: str
    spec: str
    programs: tuple[str, ...]
    left: dict[str, tuple[str, str]]

    def owns_kind(self, kind: str) -> bool:
        """Whether a kind is the vendor's: nvidia.com/gpu, management.nvidia.com/gpu."""
        vendor = kind.partition("/")[0]
        return vendor == self.domain or vendor.endswith(f".{self.domain}")


TOOLKITS = {
    "nvidia": Toolkit(
        "nvidia",
        "NVIDIA",
        "nvidia.com",
        "nvidia.com/gpu",
        "/var/run/cdi/nvidia.yaml",
        ("nvidia-ctk", "nvidia-container-runtime"),
        {
            "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env": (
                "it has settings of the unit that writes the vendor's spec, which shim does not take over",
                "give their values to `shim cdi generate` as options, if they matter",
            ),
            "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json": _HOOK,
            "/etc/containers/oci/hooks.d/oci-nvidia-hook.json": _HOOK,
        },
    ),
    "amd": Toolkit(
        "amd",
        "AMD",
        "amd.com",
        "amd.com/gpu",
        "/etc/cdi/amd.json",
        ("amd-ctk", "amd-container-runtime"),
        {
            "/var/log/gpu-tracker.json": (
                "it has the GPUs that `amd-ctk gpu-tracker` reserves, which shim does not take over: under shim "
                "several containers get a GPU that is exclusive there",
                "`amd-ctk gpu-tracker status` shows them",
            )
        },
    ),
}


def leftovers(host: Host, toolkit: Toolkit) -> Iterator[Finding]:
    """MIGRATE_LEFT, for each file of a toolkit that holds something which is not taken over."""
    for path, (text, remedy) in toolkit.left.items():
        try:
            lines = (host.read(path) or b"").splitlines()
        except CdiError:
            continue
        if any(line.strip() and not line.lstrip().startswith(b"#") for line in lines):
            yield Finding("MIGRATE_LEFT", text, remedy, path=path)


def driver_root(host: Host, toolkit: Toolkit) -> str:
    """The driver root in the configuration of a toolkit, "/" where it has none."""
    if toolkit.name != "nvidia":
        return "/"
    try:
        document = toml_edit.loads(editing.decoded(host.read(VENDOR_FILE), VENDOR_FILE), VENDOR_FILE)
    except CdiError:
        return "/"  # the configuration is reported where its sources are read
    root = get(document, ("nvidia-container-cli", "root"))
    return root if isinstance(root, str) and root.startswith("/") else "/"
