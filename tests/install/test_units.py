"""The units of systemd and the rules of udev that are installed: what these programs would refuse fails here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[2]
UNITS = TOP / "packaging/systemd"
# udev(7): keys that are compared, and keys that are assigned
_MATCHED = "ACTION|KERNEL|SUBSYSTEM|TEST"
_ASSIGNED = r"GOTO|LABEL|TAG|RUN|ENV\{SYSTEMD_WANTS\}"
_RULE = re.compile(rf'(?:(?:(?:{_MATCHED})(?:==|!=)|(?:{_ASSIGNED})\+?=)"[^"]*"(?:, |$))+')


@pytest.fixture
def directory(tmp_path: Path, launcher: Path) -> Path:
    """The units as `make install` writes them."""
    for unit in UNITS.glob("shim-*"):
        (tmp_path / unit.name.replace("@", "@repo-a")).write_text(
            unit.read_text().replace("@bindir@", str(launcher.parent))
        )
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "shim-cdi-refresh.service",
        "shim-cdi-refresh.path",
        "shim-gate@repo-a.socket",
        "shim-gate@repo-a.service",
        "shim-node-labels.service",
        "shim-node-plugin.service",
    ],
)
def test_systemd_understands_the_unit(directory: Path, name: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", directory / name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_runs_before_the_engines_and_is_not_enabled_by_itself() -> None:
    text = (UNITS / "shim-cdi-refresh.service").read_text()
    before = " ".join(re.findall("^Before=(.*)$", text, re.MULTILINE)).split()
    assert {"containerd.service", "docker.service", "crio.service", "podman.service", "kubelet.service"} <= set(before)
    assert "\nExecStart=@bindir@/shim cdi refresh\n" in text
    assert "\n[Install]\nWantedBy=multi-user.target" in text


def test_the_rules_of_udev_are_well_formed() -> None:
    lines = (UNITS / "60-shim-cdi.rules").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert [rule for rule in rules if not _RULE.fullmatch(rule)] == []
    labels = re.findall(r'LABEL="(\w+)"', "\n".join(rules))
    assert set(re.findall(r'GOTO="(\w+)"', "\n".join(rules))) == set(labels)
    assert rules[0].startswith('TEST!="/etc/systemd/system/multi-user.target.wants/shim-cdi-refresh.service", GOTO=')


def test_units_name_the_launcher_of_the_prefix(image: Path, tmp_path: Path, installer: ModuleType) -> None:
    target = installer.Target("/opt/x", str(tmp_path))
    installer.install(image, target, "/usr/bin/python3")
    unit = tmp_path / "opt/x/lib/systemd/system/shim-cdi-refresh.service"
    assert "\nExecStart=/opt/x/bin/shim cdi refresh\n" in unit.read_text()
    installer.uninstall(target)
    assert not unit.exists()
