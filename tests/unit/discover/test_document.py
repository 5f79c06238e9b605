"""A draft becomes the document of a spec: nothing twice, nothing that changes at a reboot, one hook."""

from __future__ import annotations

import dataclasses
import json

import pytest

from shim.base.findings import CdiError
from shim.cdi import spec
from shim.discover import vendors
from shim.discover.document import document
from shim.discover.edits import DeviceNode, Edits, Mount
from shim.discover.model import Discovery, Draft, DraftDevice, Wish

WISH = Wish("/usr/local/bin/shim")
OPEN, RESTRICTED = 0o666, 0o660


def node(path: str, mode: int = OPEN, gid: int = 0, host_path: str = "") -> DeviceNode:
    return DeviceNode(path, host_path or path, ("c", 195, 3, mode, 0, gid))


def edits(*nodes: DeviceNode) -> Edits:
    return Edits(nodes={one.path: one for one in nodes})


def draft(*devices: DraftDevice, common: Edits | None = None) -> Draft:
    return Draft("acme.example/gpu", common or Edits(), devices)


TWO = (DraftDevice(("2",), edits(node("/dev/gpu2")), ("GPU-b",)), DraftDevice(("10",), edits(node("/dev/gpu10"))))


def test_devices_are_sorted_as_numbers_and_all_has_every_device() -> None:
    made = document(draft(*TWO), WISH)
    assert made == {
        "cdiVersion": "0.5.0",
        "kind": "acme.example/gpu",
        "devices": [
            {"name": "2", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu2"}]}},
            {"name": "10", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu10"}]}},
            {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu2"}, {"path": "/dev/gpu10"}]}},
        ],
    }
    assert spec.faults(json.dumps(made).encode()) == []


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (node("/dev/x"), {"path": "/dev/x"}),
        (node("/dev/x", gid=44), {"path": "/dev/x"}),
        (node("/dev/x", RESTRICTED), {"path": "/dev/x", "fileMode": RESTRICTED}),
        (node("/dev/x", RESTRICTED, 44), {"path": "/dev/x", "fileMode": RESTRICTED, "gid": 44}),
        (node("/dev/x", host_path="/r/dev/x"), {"path": "/dev/x", "hostPath": "/r/dev/x"}),
    ],
)
def test_a_node_has_mode_and_group_only_where_others_are_kept_out(
    given: DeviceNode, written: dict[str, object]
) -> None:
    made = document(draft(DraftDevice(("a",), edits(given))), dataclasses.replace(WISH, has_all=False))
    assert made is not None
    assert made["devices"][0]["containerEdits"]["deviceNodes"] == [written]
    assert made["devices"][0]["containerEdits"].get("additionalGids") == ([44] if "gid" in written else None)


def test_a_group_that_cannot_open_a_node_is_none_of_the_container() -> None:
    made = document(draft(DraftDevice(("a",), edits(node("/dev/x", 0o600, 44), node("/dev/y", 0o440, 45)))), WISH)
    assert made is not None
    assert made["devices"][0]["containerEdits"]["additionalGids"] == [45]


def test_numbers_are_written_when_they_are_asked_for() -> None:
    made = document(draft(DraftDevice(("a",), edits(node("/dev/x")))), dataclasses.replace(WISH, has_numbers=True))
    assert made is not None
    written = made["devices"][0]["containerEdits"]["deviceNodes"]
    assert written == [{"path": "/dev/x", "type": "c", "major": 195, "minor": 3}]


def test_what_is_common_is_not_repeated_in_devices() -> None:
    control = edits(node("/dev/control"))
    control.mounts["/lib/x"] = Mount("/lib/x", "/lib/x")
    made = document(draft(DraftDevice(("a",), edits(node("/dev/control"), node("/dev/a"))), common=control), WISH)
    assert made is not None
    assert [device["containerEdits"]["deviceNodes"] for device in made["devices"]] == [[{"path": "/dev/a"}]] * 2
    assert made["containerEdits"]["deviceNodes"] == [{"path": "/dev/control"}]


def with_hooks() -> Edits:
    made = Edits()
    made.add_link("/usr/lib/libx.so.1", "libx.so.1.2")
    made.add_link("/usr/lib/libx.so.1", "libx.so.9")  # a link has one target: the first
    made.add_folder("/usr/lib")
    made.hooks["enable-cuda-compat"] = ("--host-driver-version=1.2",)
    return made


def test_our_hooks_run_in_one_process_in_the_order_of_the_work() -> None:
    made = document(draft(*TWO, common=with_hooks()), WISH)
    assert made is not None
    (hook,) = made["containerEdits"]["hooks"]
    names = ["create-symlinks", "enable-cuda-compat", "update-ldcache"]
    options = ["--link", "libx.so.1.2::/usr/lib/libx.so.1", "--host-driver-version=1.2", "--folder", "/usr/lib"]
    assert hook["args"] == ["shim", "hook", *names, *options]
    assert hook["timeout"] > 0
    assert [word.partition("=")[0] for word in hook["env"]] == ["PATH"]


@pytest.mark.parametrize(
    ("program", "words"),
    [("/usr/bin/nvidia-cdi-hook", ["nvidia-cdi-hook"]), ("/usr/bin/nvidia-ctk", ["nvidia-ctk", "hook"])],
)
def test_the_vendors_programs_do_one_task_each(program: str, words: list[str]) -> None:
    made = document(draft(*TWO, common=with_hooks()), dataclasses.replace(WISH, hook_path=program))
    assert made is not None
    assert [hook["args"] for hook in made["containerEdits"]["hooks"]] == [
        [*words, "create-symlinks", "--link", "libx.so.1.2::/usr/lib/libx.so.1"],
        [*words, "enable-cuda-compat", "--host-driver-version=1.2"],
        [*words, "update-ldcache", "--folder", "/usr/lib"],
    ]


@pytest.mark.parametrize(
    ("disabled", "enabled", "kept"),
    [
        ({"all"}, set(), []),
        ({"update-ldcache"}, set(), ["create-symlinks", "enable-cuda-compat"]),
        ({"all"}, {"update-ldcache"}, ["update-ldcache"]),
    ],
)
def test_hooks_are_left_out_by_name(disabled: set[str], enabled: set[str], kept: list[str]) -> None:
    wish = Wish("/usr/bin/nvidia-cdi-hook", disabled_hooks=frozenset(disabled), enabled_hooks=frozenset(enabled))
    made = document(draft(*TWO, common=with_hooks()), wish)
    assert made is not None
    assert [hook["args"][1] for hook in made.get("containerEdits", {}).get("hooks", [])] == kept


@pytest.mark.parametrize("word", ["10", "GPU-b", "all"])
def test_a_device_is_selected_by_any_of_its_names_and_ids(word: str) -> None:
    made = document(draft(*TWO), dataclasses.replace(WISH, devices=(word,)))
    assert made is not None
    names = {"10": ["10", "all"], "GPU-b": ["2", "all"], "all": ["2", "10", "all"]}[word]
    assert [device["name"] for device in made["devices"]] == names


@pytest.mark.parametrize(
    ("devices", "wish", "id", "text"),
    [
        (TWO, Wish("/x", devices=("11",)), "DISCOVERY_WISH", "no such device of acme.example/gpu (there are: 10"),
        ((TWO[0], TWO[0]), WISH, "DISCOVERY_NAME", "two devices are named acme.example/gpu=2"),
        ((DraftDevice(("all",), Edits()),), WISH, "DISCOVERY_NAME", "two devices are named acme.example/gpu=all"),
        ((DraftDevice(("a b",), Edits()),), WISH, "DISCOVERY_NAME", "acme.example/gpu=a b is no name"),
        (TWO, Wish("/x", kind="-/gpu"), "DISCOVERY_NAME", "-/gpu=2 is no name"),
    ],
)
def test_a_wish_without_sense_is_refused(devices: tuple[DraftDevice, ...], wish: Wish, id: str, text: str) -> None:
    with pytest.raises(CdiError) as caught:
        document(draft(*devices), wish)
    assert caught.value.findings[0].id == id
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "written"), [("", "a.b/gpu"), ("mig", "a.b/mig"), ("other.example/x", "other.example/x")]
)
def test_the_kind_is_chosen_by_class_or_whole(kind: str, written: str) -> None:
    assert Wish("/x", kind=kind).kind_of("a.b/gpu") == written


def test_without_a_device_there_is_no_document() -> None:
    assert document(draft(), WISH) is None


def test_an_unknown_vendor_is_refused_with_what_there_is() -> None:
    with pytest.raises(CdiError, match=r"--vendor nvidai: no such vendor \(there are: auto"):
        vendors.names(["nvidai"])


def test_a_device_need_be_in_one_of_several_specs_only() -> None:
    side = Draft("acme.example/side", Edits(), (DraftDevice(("s",), edits(node("/dev/s"))),), keeps_kind=True)
    discovery = Discovery("acme", (draft(*TWO), side))

    def kinds(*devices: str, kind: str = "") -> list[str]:
        wish = dataclasses.replace(WISH, devices=devices, kind=kind)
        return [written["kind"] for _, written in vendors.documents(discovery, wish)]

    assert kinds() == kinds("all") == kinds("s", "10") == ["acme.example/gpu", "acme.example/side"]
    assert kinds("s") == ["acme.example/side"]
    assert kinds("GPU-b") == ["acme.example/gpu"]
    assert kinds(kind="other") == ["acme.example/other", "acme.example/side"]
    with pytest.raises(CdiError, match=r"--device 11: no such device"):
        kinds("s", "11")
    with pytest.raises(CdiError, match=r"--device 11: no such device"):
        kinds("all", "11")
