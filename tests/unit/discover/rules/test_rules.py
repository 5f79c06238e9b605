"""Rules: what a file may hold, what its mistakes are answered with, and what matches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shim.discover import rules, vendors
from shim.discover.model import Discovery, Wish
from shim.discover.rules.match import expand
from shim.host.host import Host
from shim.host.tree import Tree

WISH = Wish("/usr/local/bin/shim")
EXAMPLES = Path(__file__).parents[4] / "packaging/rules.d"


class Machine:
    """A fake host: nodes, sysfs attributes, files of rules."""

    def __init__(self, top: Path) -> None:
        self.top = top
        (top / "etc/shim/rules.d").mkdir(parents=True)
        self._minor = 0

    def rule(self, text: str, name: str = "a.toml") -> None:
        (self.top / "etc/shim/rules.d" / name).write_text(text)

    def file(self, path: str, text: str = "") -> None:
        (self.top / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path.lstrip("/")).write_text(text)

    def link(self, path: str, target: str) -> None:
        (self.top / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path.lstrip("/")).symlink_to(target)

    def node(self, path: str, device: str = "", mode: int = 0o660) -> None:
        """A character device; `device` is its directory in /sys."""
        self._minor += 1
        real = self.top / path.lstrip("/")
        real.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(real, 0o020000 | mode, os.makedev(240, self._minor))
        real.chmod(mode)
        if device:
            (self.top / device.lstrip("/")).mkdir(parents=True, exist_ok=True)
            self.link(f"/sys/dev/char/240:{self._minor}", "../../.." + device)

    def discover(self) -> Discovery:
        return rules.discover(Host(str(self.top)), WISH)

    def documents(self) -> list[dict[str, Any]]:
        return [document for _, document in vendors.documents(self.discover(), WISH)]


@pytest.fixture
def machine(trusted_path: Path) -> Machine:
    return Machine(trusted_path)


BASIC = '[[device]]\nkind = "acme.example/card"\nmatch = "/dev/card*"\n'


def test_each_node_that_matches_is_a_device(machine: Machine) -> None:
    machine.rule(BASIC)
    for name in ("card10", "card2", "other"):
        machine.node(f"/dev/{name}")
    machine.file("/dev/card3")  # no device node
    (document,) = machine.documents()
    assert document["kind"] == "acme.example/card"
    assert [device["name"] for device in document["devices"]] == ["all", "card2", "card10"]
    assert document["devices"][1]["containerEdits"] == {"deviceNodes": [{"path": "/dev/card2", "fileMode": 0o660}]}


def test_names_are_templates_and_those_that_do_not_apply_are_left_out(machine: Machine) -> None:
    machine.rule(BASIC + 'names = ["{index}", "n{number}", "{alias:/dev/by-id}", "{attr:serial}", "{{x}}{name}"]\n')
    machine.node("/dev/card7", "/sys/devices/pci0000:00/0000:03:00.0/card7")
    machine.node("/dev/card8")
    machine.link("/dev/by-id/Acme Card\u00e9", "../card8")
    machine.file("/sys/devices/pci0000:00/0000:03:00.0/card7/serial", "S*1\n")
    first, second = machine.discover().drafts[0].devices
    assert first.names == ("0", "n7", "S_1", "x_card7")
    assert second.names == ("1", "n8", "Acme_Card", "x_card8")


def test_conditions_are_on_attributes_and_on_links(machine: Machine) -> None:
    machine.rule(BASIC + '[device.where]\n"device/idVendor" = ["04*", "10c4"]\n"device/driver" = "usb"\n')
    for number, (vendor, driver) in enumerate([("0403", "usb"), ("10c4", "usb"), ("dead", "usb"), ("0403", "pci")]):
        machine.node(f"/dev/card{number}", f"/sys/devices/{number}")
        machine.file(f"/sys/devices/{number}/device/idVendor", f"{vendor}\n")
        machine.link(f"/sys/devices/{number}/device/driver", f"../../../bus/{driver}")
    machine.node("/dev/card9")  # without a directory in /sys
    assert [device.names for device in machine.discover().drafts[0].devices] == [("card0",), ("card1",)]


def test_a_rule_adds_all_kinds_of_edits(machine: Machine) -> None:
    machine.rule(
        BASIC
        + """
nodes = ["{path}", "/dev/extra{number}*", "/dev/absent?"]
mounts = [{source = "/opt/{name}", target = "/opt/card"}, {source = "/opt/none", optional = true}]
env = {CARD = "{path}"}
links = {"/dev/the-card" = "{name}"}
folders = ["/opt/card/lib"]
hooks = [{path = "/usr/bin/x", args = ["x", "y"], env = ["A=b"], timeout = 3}]
[device.common]
nodes = ["/dev/control"]
"""
    )
    for name in ("card0", "extra0a", "extra0b", "control"):
        machine.node(f"/dev/{name}", mode=0o666)
    machine.file("/opt/card0/x")
    (document,) = machine.documents()
    assert document["containerEdits"] == {"deviceNodes": [{"path": "/dev/control"}]}
    edits = document["devices"][1]["containerEdits"]
    assert [node["path"] for node in edits["deviceNodes"]] == ["/dev/card0", "/dev/extra0a", "/dev/extra0b"]
    assert [(mount["hostPath"], mount["containerPath"]) for mount in edits["mounts"]] == [("/opt/card0", "/opt/card")]
    assert edits["env"] == ["CARD=/dev/card0"]
    ours, foreign = edits["hooks"]
    assert ours["args"][2:] == [
        *("create-symlinks", "update-ldcache"),
        *("--link", "card0::/dev/the-card", "--folder", "/opt/card/lib"),
    ]
    assert foreign == {
        "hookName": "createContainer",
        "path": "/usr/bin/x",
        "args": ["x", "y"],
        "env": ["A=b"],
        "timeout": 3,
    }


def test_rules_of_one_kind_are_one_spec(machine: Machine) -> None:
    machine.rule(BASIC + BASIC.replace("card*", "disk*"), "b.toml")
    machine.rule(BASIC.replace("card*", "tape*") + "all = false\n", "a.toml")
    for name in ("card0", "disk0", "tape0"):
        machine.node(f"/dev/{name}")
    (document,) = machine.documents()
    assert [device["name"] for device in document["devices"]] == ["card0", "disk0", "tape0"]


@pytest.mark.parametrize(
    ("extra", "cause"),
    [
        ('nodes = ["/dev/absent"]', "/dev/absent is no device node"),
        ('mounts = [{source = "/absent"}]', "/absent is missing, which is to be mounted"),
        ('env = {A = "{attr:absent}"}', "the variable A cannot be filled in from '{attr:absent}'"),
        ('names = ["{alias:/dev/by-id}"]', "none of the names ['{alias:/dev/by-id}'] can be filled in"),
    ],
)
def test_a_match_that_lacks_something_is_left_out_with_its_cause(machine: Machine, extra: str, cause: str) -> None:
    machine.rule(f"# a comment\n{BASIC}{extra}\n")
    machine.node("/dev/card0")
    discovery = machine.discover()
    assert discovery.drafts[0].devices == ()
    (finding,) = discovery.findings
    assert (finding.id, finding.path, finding.line) == ("DISCOVERY_DEVICE", "/etc/shim/rules.d/a.toml", 2)
    assert cause in finding.text


def test_what_all_devices_need_and_the_host_lacks_is_named(machine: Machine) -> None:
    machine.rule(BASIC + '[device.common]\nnodes = ["/dev/control"]\n')
    machine.node("/dev/card0")
    discovery = machine.discover()
    assert discovery.drafts[0].devices == ()
    assert "all of them need it: /dev/control is no device node" in discovery.findings[0].text


def test_a_rule_without_a_match_is_named(machine: Machine) -> None:
    machine.rule(BASIC)
    (finding,) = machine.discover().findings
    assert (finding.id, finding.line) == ("DISCOVERY_PART", 1)


MISTAKES: dict[str, tuple[str, int, str]] = {
    "no TOML": ("[[device]\n", 1, "it is not valid TOML"),
    "no UTF-8": ("\udcff", 0, "it is not valid TOML"),
    "another table": ("[[devise]]\n", 1, "devise: a file of rules holds [[device]] tables and nothing else"),
    "a device that is no list": ("[device]\nkind = 'a.b/c'\n", 1, "device: a file of rules holds"),
    "a misspelt key": (BASIC + 'name = "x"\n', 4, "name: there is no such key (did you mean names?)"),
    "no kind": ('[[device]]\nmatch = "/dev/x"\n', 1, "kind: it is missing"),
    "a bad kind": ('[[device]]\nmatch = "/dev/x"\nkind = "card"\n', 3, "kind: "),
    "a match elsewhere": ('[[device]]\nkind = "a.b/c"\nmatch = "/etc/*"\n', 3, "is neither below /dev nor below /sys"),
    "a match in /sys without nodes": ('[[device]]\nkind = "a.b/c"\nmatch = "/sys/x"\n', 1, "nodes: a rule that"),
    "names that are a number": (BASIC + "names = 3\n", 4, "names: 3 is no list of texts"),
    "no names": (BASIC + "names = []\n", 4, "names: it is empty"),
    "an unknown field": (BASIC + 'names = ["{nmae}"]\n', 4, "has a field that does not exist (there are {name}"),
    "a field without its argument": (BASIC + 'names = ["{attr}"]\n', 4, "{attr} needs an argument"),
    "a field with an argument": (BASIC + 'names = ["{name:x}"]\n', 4, "{name:x} has no argument"),
    "a relative node": (BASIC + 'nodes = ["dev/x"]\n', 4, "'dev/x' is no absolute path without .."),
    "a path with ..": (BASIC + 'nodes = ["/dev/../x"]\n', 4, "is no absolute path without .."),
    "a mount that is a text": (BASIC + 'mounts = ["/x"]\n', 4, "mounts: a mount is a table with source and target"),
    "a mount's misspelt key": (BASIC + 'mounts = [{sorce = "/x"}]\n', 4, "mounts.sorce: there is no such key"),
    "an unknown stage": (BASIC + 'hooks = [{stage = "start", path = "/x"}]\n', 4, "'start' is none of createRuntime"),
    "a timeout of no seconds": (BASIC + 'hooks = [{path = "/x", timeout = 0}]\n', 4, "0 is no number of seconds"),
    "all as a text": (BASIC + 'all = "no"\n', 4, "all: 'no' is neither true nor false"),
    "the second rule": (BASIC + "\n" + BASIC + "env = 1\n", 8, "env: 1 is no table of texts"),
    "a condition that is a number": (BASIC + '[device.where]\n"device/x" = 1\n', 5, "where.device/x: 1 is no list"),
    "a key of common": (BASIC + '[device.common]\nkind = "a.b/c"\n', 5, "common.kind: there is no such key"),
}


@pytest.mark.parametrize(("text", "line", "cause"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_file_line_and_key(machine: Machine, text: str, line: int, cause: str) -> None:
    (machine.top / "etc/shim/rules.d/a.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    machine.rule(BASIC, "b.toml")
    machine.node("/dev/card0")
    discovery = machine.discover()
    finding = discovery.findings[0]
    assert (finding.id, finding.path) == ("RULE_INVALID", "/etc/shim/rules.d/a.toml")
    assert finding.line == line
    assert cause in finding.text
    assert [device.names for device in discovery.drafts[0].devices] == [("card0",)], "the other file counts"


def test_a_file_that_others_can_write_does_not_count(machine: Machine) -> None:
    machine.rule(BASIC)
    machine.node("/dev/card0")
    (machine.top / "etc/shim/rules.d/a.toml").chmod(0o666)
    discovery = machine.discover()
    assert discovery.drafts == ()
    assert "is not trusted: " in discovery.findings[0].text


def test_a_later_directory_replaces_and_switches_off(machine: Machine) -> None:
    host = Host(str(machine.top))
    machine.file("/lib/rules/a.toml", BASIC)
    machine.file("/lib/rules/b.toml", BASIC)
    machine.file("/lib/rules/.hidden.toml", "no TOML")
    machine.rule("", "a.toml")
    machine.link("/etc/shim/rules.d/b.toml", "/dev/null")
    machine.file("/dev/null")
    wish = Wish("/x", rules_dirs=("/lib/rules", "/etc/shim/rules.d"))
    assert rules.discover(host, wish) == Discovery("rules")
    assert len(rules.discover(host, Wish("/x", rules_dirs=("/lib/rules",))).findings) == 2


def test_a_host_without_rules_has_no_such_devices(machine: Machine) -> None:
    assert not rules.is_present(Host(str(machine.top)), WISH)
    machine.rule("")
    assert rules.is_present(Host(str(machine.top)), WISH)


def test_what_a_device_calls_itself_is_no_pattern(machine: Machine) -> None:
    """The name of a link comes from the device: a USB device chooses its serial number itself."""
    machine.rule(BASIC + 'nodes = ["{path}", "/dev/x-{alias:/dev/by-id}"]\n')
    machine.node("/dev/card0")
    machine.node("/dev/x-secret")
    machine.node("/dev/x-[*]")
    machine.link("/dev/by-id/[*]", "../card0")
    (device,) = machine.discover().drafts[0].devices
    assert list(device.edits.nodes) == ["/dev/card0", "/dev/x-[*]"]


def test_a_pattern_stays_within_the_host(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    machine.link("/dev/up", str(tmp_path))
    machine.file("/dev/.hidden/x")
    machine.file("/dev/shown/x")
    assert expand(Tree(Host(str(machine.top))), "/dev/*/*") == ["/dev/shown/x"]


# --- the examples -----------------------------------------------------------------------------------------------------


def _xrt(machine: Machine) -> None:
    for number, driver in ((128, "i915"), (129, "xocl")):
        machine.node(
            f"/dev/dri/renderD{number}", f"/sys/devices/pci0000:00/0000:0{number - 125}:00.1/drm/renderD{number}"
        )
        machine.link(
            f"/sys/devices/pci0000:00/0000:0{number - 125}:00.1/drm/renderD{number}/device",
            f"../../../0000:0{number - 125}:00.1",
        )
        machine.link(f"/sys/devices/pci0000:00/0000:0{number - 125}:00.1/driver", f"../../../bus/pci/drivers/{driver}")


def _opae(machine: Machine) -> None:
    machine.node("/dev/dfl-port.0")
    machine.node("/dev/dfl-fme.0")


def _vfio(machine: Machine) -> None:
    machine.node("/dev/vfio/vfio")
    machine.node("/dev/vfio/14", mode=0o600)
    device = "/sys/devices/pci0000:00/0000:05:00.0"
    machine.file(f"{device}/vendor", "0x10de\n")
    machine.file(f"{device}/device", "0x2684\n")
    machine.link(f"{device}/iommu_group", "../../../kernel/iommu_groups/14")
    machine.link("/sys/bus/pci/drivers/vfio-pci/0000:05:00.0", f"../../../../..{device}")


def _serial(machine: Machine) -> None:
    port = "/sys/devices/pci0000:00/usb1/1-1/1-1:1.0/ttyUSB0"
    machine.node("/dev/ttyUSB0", f"{port}/tty/ttyUSB0")
    machine.link(f"{port}/tty/ttyUSB0/device", "../../../ttyUSB0")
    machine.file("/sys/devices/pci0000:00/usb1/1-1/product", "FT232R USB UART\n")
    machine.link("/dev/serial/by-id/usb-FTDI_FT232R_A50285BI-if00-port0", "../../ttyUSB0")
    modem = "/sys/devices/pci0000:00/usb1/1-2/1-2:1.0"
    machine.node("/dev/ttyACM0", f"{modem}/tty/ttyACM0")
    machine.link(f"{modem}/tty/ttyACM0/device", "../../../1-2:1.0")
    machine.file("/sys/devices/pci0000:00/usb1/1-2/product", "Modem\n")


def _v4l2(machine: Machine) -> None:
    machine.node("/dev/video0", "/sys/devices/usb1/video4linux/video0")
    machine.file("/sys/devices/usb1/video4linux/video0/name", "Webcam\n")
    machine.link("/dev/v4l/by-id/usb-Acme_Cam-video-index0", "../../video0")
    machine.link("/dev/v4l/by-path/pci-0000:00:14.0-usb-0:1-video-index0", "../../video0")


def _accel(machine: Machine) -> None:
    device = "/sys/devices/pci0000:00/0000:00:0b.0"
    machine.node("/dev/accel/accel0", f"{device}/accel/accel0")
    machine.link(f"{device}/accel/accel0/device", "../../../0000:00:0b.0")
    machine.file("/sys/bus/pci/devices/0000:00:0b.0/numa_node", "1\n")


def _tpm(machine: Machine) -> None:
    machine.node("/dev/tpm0")
    machine.node("/dev/tpmrm0")


def _kvm(machine: Machine) -> None:
    machine.node("/dev/kvm")
    machine.node("/dev/vhost-net")


# file -> what makes the host, kind, device -> its nodes, further nodes for all, models
SHIPPED: dict[str, tuple[Any, str, dict[str, list[str]], list[str], list[str]]] = {
    "fpga-xrt": (
        _xrt,
        "xilinx.com/fpga",
        {"0": ["/dev/dri/renderD129"], "0000:04:00.1": ["/dev/dri/renderD129"], "all": ["/dev/dri/renderD129"]},
        [],
        [""],
    ),
    "fpga-opae": (
        _opae,
        "intel.com/fpga",
        {name: ["/dev/dfl-port.0"] for name in ("0", "all", "dfl-port.0")},
        [],
        [""],
    ),
    "vfio": (
        _vfio,
        "linux/vfio",
        {name: ["/dev/vfio/14"] for name in ("0000:05:00.0", "all")},
        ["/dev/vfio/vfio"],
        ["0x10de:0x2684"],
    ),
    "usb-serial": (
        _serial,
        "linux/serial",
        {
            "all": ["/dev/ttyACM0", "/dev/ttyUSB0"],
            "ttyACM0": ["/dev/ttyACM0"],
            "ttyUSB0": ["/dev/ttyUSB0"],
            "usb-FTDI_FT232R_A50285BI-if00-port0": ["/dev/ttyUSB0"],
        },
        [],
        ["FT232R USB UART", "Modem"],
    ),
    "v4l2": (
        _v4l2,
        "linux/video",
        {
            name: ["/dev/video0"]
            for name in (
                *("all", "pci-0000:00:14.0-usb-0:1-video-index0"),
                *("usb-Acme_Cam-video-index0", "video0"),
            )
        },
        [],
        ["Webcam"],
    ),
    "npu-accel": (
        _accel,
        "linux/accel",
        {name: ["/dev/accel/accel0"] for name in ("0000:00:0b.0", "accel0", "all")},
        [],
        [""],
    ),
    "tpm": (_tpm, "linux/tpm", {"0": ["/dev/tpmrm0"]}, [], [""]),
    "kvm": (_kvm, "linux/kvm", {"kvm": ["/dev/kvm", "/dev/vhost-net"]}, [], [""]),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_rule_finds_its_devices(machine: Machine, name: str) -> None:
    prepare, kind, devices, common, models = SHIPPED[name]
    machine.rule((EXAMPLES / f"{name}.toml").read_text())
    prepare(machine)
    discovery = machine.discover()
    (document,) = [document for _, document in vendors.documents(discovery, WISH)]
    assert document["kind"] == kind
    nodes = {
        device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]]
        for device in document["devices"]
    }
    assert nodes == devices
    assert [node["path"] for node in document.get("containerEdits", {}).get("deviceNodes", [])] == common
    assert [device.model for device in discovery.devices] == models
    assert [finding.id for finding in discovery.findings] == []


def test_every_shipped_rule_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == set(SHIPPED)


def test_the_inventory_has_address_and_numa_node(machine: Machine) -> None:
    machine.rule((EXAMPLES / "npu-accel.toml").read_text())
    _accel(machine)
    (device,) = machine.discover().devices
    assert (device.name, device.pci_address, device.numa_node) == ("accel0", "0000:00:0b.0", 1)
    assert device.cdi_names == ("linux/accel=accel0", "linux/accel=0000:00:0b.0")
