"""`shim device list`: from the inventory, or from the host."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shim.base.findings import CdiError
from shim.cli import device as command
from shim.discover import inventory
from shim.discover.model import Device
from shim.grants import reader
from shim.host.host import Host

List = Callable[..., Result]

DEVICES = (
    Device("0", "nvidia", "NVIDIA H100", "570.86.10", 81920 << 20, "0000:17:00.0", 1, "native", "GPU-x",
           ("acme.example/gpu=0", "acme.example/gpu=GPU-x", "acme.example/gpu=more"), ("/dev/nvidia0",)),
    Device("1", "nvidia", uuid="GPU-y", cdi_names=("acme.example/gpu=1",)),
)  # fmt: skip
SERVED = ["acme.example/gpu=0", "acme.example/gpu=GPU-x", "acme.example/gpu=more", "other.example/x=1"]


@pytest.fixture
def listed(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> List:
    """Run the command on a fake host."""
    host = Host(str(trusted_path))

    class Specs:
        def devices(self) -> list[str]:
            return SERVED

    monkeypatch.setattr(command, "Host", lambda: host)
    monkeypatch.setattr(command, "open_dirs", lambda _: Specs())

    def run(*words: str, known: Any = DEVICES, age: float = 7300.0) -> Result:
        if known is not None:
            inventory.write(host, inventory.Inventory(known, time.time() - age))
        return CliRunner().invoke(command.list_devices, words)

    return run


def test_the_table_has_model_memory_and_the_names_that_are_served(listed: List) -> None:
    result = listed()
    header, first, second = result.stdout.splitlines()
    assert header.split() == ["DEVICE", "VENDOR", "MODEL", "DRIVER", "MEMORY", "PCI", "NUMA", "NAMES"]
    assert first.split("  ")[-1].strip() == "acme.example/gpu=0, acme.example/gpu=GPU-x, and 1 more"
    assert "80 GiB" in first and "0000:17:00.0" in first
    assert second.split() == ["1", "nvidia"], "a device without a spec has no name that can be asked for"
    assert result.stderr == "2 devices; the inventory is 2 h old\n"


def test_wide_has_every_column(listed: List) -> None:
    first = listed("-o", "wide").stdout.splitlines()[1]
    assert all(text in first for text in ("acme.example/gpu=more", "native", "GPU-x", "/dev/nvidia0"))


def test_names_alone(listed: List) -> None:
    assert listed("-o", "name").stdout.split() == SERVED[:3]


def test_json_has_everything(listed: List) -> None:
    document = json.loads(listed("-o", "json").stdout)
    assert document["fresh"] is False
    assert document["devices"][0] == {
        "name": "0", "vendor": "nvidia", "model": "NVIDIA H100", "driverVersion": "570.86.10",
        "memoryBytes": 81920 << 20, "pciAddress": "0000:17:00.0", "numaNode": 1, "platform": "native", "uuid": "GPU-x",
        "cdiNames": list(DEVICES[0].cdi_names), "deviceNodes": ["/dev/nvidia0"], "servedNames": SERVED[:3],
        "grants": [],
    }  # fmt: skip


def test_grants_are_shown_with_the_device_whatever_name_they_use(listed: List, trusted_path: Path) -> None:
    grant = {"subject": "repo-a", "device": "acme.example/gpu=GPU-x", "exclusive": True}
    file = trusted_path / reader.FILE.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({"version": 1, "serial": 1, "grants": [{**grant, "since": "x", "by": "uid:0", "id": "1"}]})
    )
    assert json.loads(listed("-o", "json").stdout)["devices"][0]["grants"] == [grant]
    header, first, second = listed().stdout.splitlines()
    assert header.endswith("GRANTED TO")
    assert first.rstrip().endswith("repo-a")
    assert "repo-a" not in second


def test_grants_that_others_could_have_written_are_a_warning(listed: List, trusted_path: Path) -> None:
    file = trusted_path / reader.FILE.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    file.chmod(0o666)
    result = listed()
    assert result.exit_code == 0
    assert "GRANTS_UNREADABLE" in result.stderr
    assert "GRANTED" not in result.stdout


@pytest.mark.parametrize("words", [(), ("--fresh",)])
def test_without_an_inventory_the_host_is_looked_at(listed: List, words: tuple[str, ...]) -> None:
    result = listed(*words, known=None if not words else DEVICES)
    assert result.exit_code == 0
    assert result.stderr.endswith("0 devices; the host was looked at now\n")


def test_a_damaged_inventory_is_an_error(listed: List, trusted_path: Path) -> None:
    listed()
    (trusted_path / inventory.path().lstrip("/")).write_text("{")
    error = listed(known=None).exception
    assert isinstance(error, CdiError)
    assert error.findings[0].id == "DISCOVERY_STATE"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (86400 * 3, "3 d")])
def test_ages_are_short(listed: List, seconds: float, text: str) -> None:
    assert f"the inventory is {text} old" in listed(age=seconds).stderr
