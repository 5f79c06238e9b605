"""The units of systemd that write a spec are recognized by what their files name."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.discover import generators
from shim.host.host import Host

NVIDIA = """\
[Service]
Type=oneshot
Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml
EnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env
ExecStart=/usr/bin/nvidia-ctk cdi generate
"""
SPEC = "/var/run/cdi/nvidia.yaml"


def write(top: Path, **units: str) -> Host:
    for name, text in units.items():
        path = top / "usr/lib/systemd/system" / name.replace("__", "-").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(str(top))


def test_the_units_of_nvidias_toolkit(tmp_path: Path) -> None:
    host = write(
        tmp_path,
        nvidia__cdi__refresh_service=NVIDIA,
        nvidia__cdi__refresh_path="[Path]\nPathChanged=/lib/modules/%v/modules.dep\n",
        docker_service="[Service]\nExecStart=/usr/bin/dockerd\n",
    )
    units = ["nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"]
    assert generators.units_of(host, SPEC, "nvidia.com/gpu") == units
    assert generators.units_of(host, "/run/cdi/nvidia.yaml", "nvidia.com/gpu") == units
    # another file: the unit runs the generator of its vendor
    assert generators.units_of(host, "/etc/cdi/old.yaml", "nvidia.com/gpu") == units
    assert generators.units_of(host, "/etc/cdi/old.yaml", "acme.example/gpu") == []


@pytest.mark.parametrize(
    ("text", "is_writer"),
    [
        ("ExecStart=/usr/bin/gen -o /var/run/cdi/nvidia.yaml", True),
        ("ExecStart=/usr/bin/gen \\\n  -o /run/cdi/nvidia.yaml", True),
        ('ExecStart=/bin/sh -c "gen > /var/run/cdi/nvidia.yaml"', True),
        ("EnvironmentFile=/etc/gen.env", True),
        ("EnvironmentFile=-/etc/missing.env", False),
        ("ExecStart=/usr/bin/gen -o /var/run/cdi/nvidia.yaml.old", False),
        ("ExecStart=/usr/bin/gen -o /var/run/cdi/nvidia-2.yaml", False),
        ("ExecStart=/usr/bin/nvidia-ctk runtime configure", False),
        ("ExecStart=/usr/bin/my-nvidia-ctk cdi generate", False),
    ],
)
def test_a_unit_writes_what_its_files_name(tmp_path: Path, text: str, is_writer: bool) -> None:
    host = write(tmp_path, gen_service=f"[Service]\n{text}\n")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/gen.env").write_text("OUT=/var/run/cdi/nvidia.yaml\n")
    assert generators.units_of(host, SPEC, "nvidia.com/gpu") == ["gen.service"] * is_writer


def test_a_drop_in_counts_and_a_timer_that_names_the_service(tmp_path: Path) -> None:
    host = write(tmp_path, gen_service="[Service]\nExecStart=/usr/bin/gen\n", other_timer="[Timer]\nUnit=gen.service\n")
    drop_in = tmp_path / "etc/systemd/system/gen.service.d/output.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(f"[Service]\nEnvironment=OUT={SPEC}\n")
    assert generators.units_of(host, SPEC, "acme.example/gpu") == ["gen.service", "other.timer"]


def test_a_unit_that_is_masked_writes_nothing(tmp_path: Path) -> None:
    host = write(tmp_path, gen_service=f"[Service]\nExecStart=/usr/bin/gen {SPEC}\n")
    assert generators.units_of(host, SPEC, "acme.example/gpu") == ["gen.service"]
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/gen.service").symlink_to("/dev/null")
    assert generators.units_of(host, SPEC, "acme.example/gpu") == []


def test_the_file_in_the_higher_directory_counts(tmp_path: Path) -> None:
    host = write(tmp_path, gen_service=f"[Service]\nExecStart=/usr/bin/gen {SPEC}\n")
    own = tmp_path / "etc/systemd/system/gen.service"
    own.parent.mkdir(parents=True)
    own.write_text("[Service]\nExecStart=/usr/bin/gen /elsewhere\n")
    assert generators.units_of(host, SPEC, "acme.example/gpu") == []
