"""A refresh writes anew what is stale, as it was generated, and waits for a driver that is not there yet."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.discover import acme

from shim.base.findings import CdiError
from shim.cdi import directories
from shim.discover import generate, inventory, lock, refresh, remembered, shrink, vendors
from shim.discover.model import Wish
from shim.discover.output import Target
from shim.discover.refresh import Outcome
from shim.discover.watch import Watch
from shim.host.host import Host

pytestmark = pytest.mark.usefixtures("only_acme")

WISH = Wish("/usr/local/bin/shim")
SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"
DIRS = ("/etc/cdi", "/var/run/cdi")


def made(host: Host, wish: Wish = WISH, **target: Any) -> None:
    outcome = generate.generate(host, wish, Target(spec_dirs=DIRS, **target), ["auto"])
    assert outcome.written


def again(host: Host, **options: Any) -> Outcome:
    return refresh.refresh(host, DIRS, **options)


def states(outcome: Outcome) -> dict[str, str]:
    return {one.path: one.state for one in outcome.specs}


def ids(outcome: Outcome) -> list[tuple[str, str]]:
    return [(finding.level, finding.id) for finding in outcome.findings]


def names(top: Path) -> list[str]:
    return [device["name"] for device in yaml.safe_load(Path(f"{top}{SPEC}").read_text())["devices"]]


def write(top: Path, path: str, text: str) -> None:
    Path(f"{top}{path}").parent.mkdir(parents=True, exist_ok=True)
    Path(f"{top}{path}").write_text(text)


def test_where_nothing_was_generated_nothing_is_done(host: Host, top: Path) -> None:
    outcome = again(host)
    assert (outcome.state, outcome.specs, outcome.findings) == (refresh.NOTHING, [], [])
    assert not (top / acme.CALLED[1:]).exists()


def test_a_fresh_spec_is_left_alone(host: Host, top: Path) -> None:
    made(host)
    before = Path(f"{top}{SPEC}").stat()
    outcome = again(host)
    assert (outcome.state, states(outcome)) == (refresh.FRESH, {SPEC: refresh.FRESH})
    assert Path(f"{top}{SPEC}").stat().st_ino == before.st_ino


def test_only_what_is_stale_is_written(host: Host, top: Path) -> None:
    made(host)
    made(host, dataclasses.replace(WISH, kind="accel", devices=("0",)))
    accel = "/var/run/cdi/shim-acme.example-accel.yaml"
    acme.node(top, "acme/2", 3)
    outcome = again(host)
    assert states(outcome) == {SPEC: refresh.WRITTEN, accel: refresh.FRESH}
    assert names(top) == ["0", "1", "2", "all", "id-0", "id-1", "id-2"]


def test_the_wish_is_repeated_and_a_vendor_is_asked_once_for_it(host: Host, top: Path) -> None:
    made(host, dataclasses.replace(WISH, has_all=False, names=("uuid",)), engines=("podman=4.1",))
    acme.node(top, "acme/2", 3)
    asked = int((top / acme.CALLED[1:]).read_text())
    assert again(host).state == refresh.WRITTEN
    assert names(top) == ["id-0", "id-1", "id-2"]
    assert int((top / acme.CALLED[1:]).read_text()) == asked + 1


def test_a_spec_that_a_reboot_removed_is_written_again(host: Host, top: Path) -> None:
    made(host)
    before = Path(f"{top}{SPEC}").read_bytes()
    Path(f"{top}{SPEC}").unlink()
    Path(f"{top}/var/run/cdi").rmdir()
    assert again(host).state == refresh.WRITTEN
    assert Path(f"{top}{SPEC}").read_bytes() == before


def test_an_updated_driver_is_followed(host: Host, top: Path) -> None:
    library = top / acme.LIBRARIES[1:] / "libcuda.so.535.1"
    library.write_text("")
    made(host)
    library.rename(library.with_name("libcuda.so.535.2"))
    assert again(host).state == refresh.WRITTEN
    assert "libcuda.so.535.2" in Path(f"{top}{SPEC}").read_text()
    assert "libcuda.so.535.1" not in Path(f"{top}{SPEC}").read_text()


@pytest.mark.parametrize("waits_for", ["the module acme", ""])
def test_a_driver_that_is_not_there_yet_is_waited_for(host: Host, top: Path, waits_for: str) -> None:
    made(host)
    before = Path(f"{top}{SPEC}").read_bytes()
    for name in ("0", "1"):
        (top / "dev/acme" / name).unlink()
    write(top, acme.WAITS, waits_for)
    write(top, acme.BROKEN, "no device answers")
    outcome = again(host)
    assert outcome.state == refresh.WAITING
    assert [(one.state, one.waits_for) for one in outcome.specs] == [(refresh.WAITING, waits_for)]
    assert ids(outcome) == [("WARNING", "DISCOVERY_INCOMPLETE")]
    assert Path(f"{top}{SPEC}").read_bytes() == before


def test_a_device_that_the_host_lost_is_taken_out_with_a_warning(host: Host, top: Path) -> None:
    made(host)
    (top / "dev/acme/1").unlink()
    outcome = again(host)
    assert (outcome.state, ids(outcome)) == (refresh.WRITTEN, [("WARNING", "SPEC_SHRINKS")])
    assert names(top) == ["0", "all", "id-0"]


def test_nothing_is_taken_out_while_the_vendor_reports_an_error(host: Host, top: Path) -> None:
    made(host)
    before = Path(f"{top}{SPEC}").read_bytes()
    (top / "dev/acme/1").unlink()
    write(top, acme.BROKEN, "acme 1 does not answer")
    outcome = again(host)
    assert (outcome.state, states(outcome)) == (refresh.FAILED, {SPEC: "refused"})
    assert ids(outcome) == [("ERROR", "DISCOVERY_INCOMPLETE"), ("ERROR", "SPEC_SHRINKS")]
    assert Path(f"{top}{SPEC}").read_bytes() == before
    assert again(host, may_shrink=True).specs[0].state == refresh.WRITTEN


def test_a_common_node_that_is_gone_is_not_followed(host: Host, top: Path) -> None:
    made(host)
    (top / "dev/acmectl").unlink()
    assert ids(again(host)) == [("ERROR", "SPEC_SHRINKS")]


def test_the_inventory_is_refreshed_too(host: Host, top: Path) -> None:
    def known() -> list[str]:
        listed = inventory.read(host)
        return [device.name for device in listed.devices] if listed else []

    made(host)
    acme.node(top, "acme/2", 3)
    assert known() == ["0", "1"]
    again(host, dry_run=True)
    assert known() == ["0", "1"]
    again(host)
    assert known() == ["0", "1", "2"]
    write(top, acme.WAITS, "the module acme")
    (top / "dev/acme/2").unlink()
    again(host)
    assert known() == ["0", "1", "2"]


def test_a_dry_run_shows_what_would_be_written(host: Host, top: Path) -> None:
    made(host)
    before = Path(f"{top}{SPEC}").read_bytes()
    acme.node(top, "acme/2", 3)
    outcome = again(host, dry_run=True)
    assert (outcome.state, states(outcome)) == (refresh.STALE, {SPEC: refresh.STALE})
    assert Path(f"{top}{SPEC}").read_bytes() == before


def test_a_generator_that_came_back_is_reported(host: Host, top: Path) -> None:
    made(host)
    write(top, "/etc/cdi/acme.yaml", Path(f"{top}{SPEC}").read_text())
    outcome = again(host)
    assert (outcome.state, ids(outcome)) == (refresh.FAILED, [("ERROR", "SPEC_TAKEN")])


def test_a_device_of_the_wish_that_is_gone_is_reported(host: Host, top: Path) -> None:
    made(host, dataclasses.replace(WISH, devices=("1",)))
    (top / "dev/acme/1").unlink()
    outcome = again(host)
    assert (outcome.state, ids(outcome)) == (refresh.FAILED, [("ERROR", "DISCOVERY_WISH")])
    assert Path(f"{top}{SPEC}").exists()


def test_a_vendor_that_this_version_lacks_is_reported(host: Host) -> None:
    made(host)
    (kept,) = remembered.every(host)
    remembered.save(host, dataclasses.replace(kept, vendor="other"))
    assert ids(again(host)) == [("ERROR", "DISCOVERY_WISH")]


def test_the_lock_is_held_while_specs_are_written(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    made(host)
    held: list[str] = []

    def discover(*_: Any) -> Any:
        with pytest.raises(CdiError, match="another process is writing specs"), lock.held(host, 0):
            pass
        held.append("yes")
        return acme.discover(host, WISH)

    monkeypatch.setattr(vendors, "discover", lambda *_: iter([discover()]))
    again(host)
    assert held == ["yes"]


# --- what is followed -------------------------------------------------------------------------------------------------


def document(**devices: tuple[str, ...]) -> dict[str, Any]:
    entries = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}}
        for name, paths in devices.items()
    ]
    return {"kind": "acme.example/gpu", "devices": entries}


GPU, A, B = "/dev/gpu0", "/dev/caps/1", "/dev/caps/2"


@pytest.mark.parametrize(
    ("old", "new", "followed"),
    [
        pytest.param(document(a=(GPU, A), b=(GPU, B)), document(a=(GPU, A)), True, id="an instance is gone"),
        pytest.param(document(x=(GPU, A)), document(y=(GPU, A)), True, id="the same instance has another id"),
        pytest.param(document(x=(GPU, A), a=(GPU, A)), document(a=(GPU, A)), False, id="a name of it is gone"),
        pytest.param(document(a=(GPU, A)), document(a=(GPU,)), False, id="a node of it is gone"),
        pytest.param(document(a=(GPU,), b=(GPU,)), document(m=(GPU, A)), True, id="a GPU is divided"),
        pytest.param(
            document(a=("/dev/dri/card0",), b=("/dev/dri/card0",)),
            document(a=("/dev/dri/card1",)),
            False,
            id="a node was renumbered and a name is gone",
        ),
        pytest.param(
            document(a=("/dev/dri/card0",)), document(a=("/dev/dri/card1",)), True, id="a node was renumbered"
        ),
        pytest.param(document(a=(GPU,), all=(GPU,)), document(a=(GPU,)), False, id="all is gone"),
        pytest.param(document(a=(GPU,)), document(a=(GPU,), b=(A,)), True, id="one more"),
    ],
)
def test_a_loss_is_followed_only_if_the_host_has_it_too(
    old: dict[str, Any], new: dict[str, Any], followed: bool
) -> None:
    assert shrink.is_followed(old, new) is followed


# --- watching ---------------------------------------------------------------------------------------------------------


def change(top: Path, what: str) -> None:
    if what == "a node":
        acme.node(top, "acme9", 9)
    elif what == "the mode of a node":
        (top / "dev/acmectl").chmod(0o600)
    elif what == "a MIG instance":
        (top / "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0").mkdir()
    elif what == "a module":
        (top / "sys/module/acme").mkdir()
    elif what == "a library":
        (top / acme.LIBRARIES[1:] / "libacme.so.2").write_text("")
    elif what == "a rule":
        write(top, "/etc/shim/rules.d/x.toml", "")
    else:
        Path(f"{top}{SPEC}").unlink()


@pytest.mark.parametrize(
    "what", ["a node", "the mode of a node", "a MIG instance", "a module", "a library", "a rule", "the spec"]
)
def test_a_change_is_seen(host: Host, top: Path, what: str) -> None:
    for directory in ("proc/driver/nvidia/capabilities/gpu0/mig/gi1", "sys/module"):
        (top / directory).mkdir(parents=True)
    (top / acme.LIBRARIES[1:] / "libacme.so.1").write_text("")
    made(host)
    watch = Watch(host, lambda _: None)
    assert not watch.wait(5)
    change(top, what)
    assert watch.wait(5)
    assert not watch.wait(5)


@pytest.mark.parametrize("name", ["loop7", "sdb", "pts"])
def test_what_has_nothing_to_do_with_devices_is_no_change(host: Host, top: Path, name: str) -> None:
    made(host)
    watch = Watch(host, lambda _: None)
    acme.node(top, name, 9)
    assert not watch.wait(5)


def test_a_spec_that_was_just_written_is_no_change_and_what_came_meanwhile_is(host: Host, top: Path) -> None:
    made(host)
    watch = Watch(host, lambda _: None)
    acme.node(top, "acme2", 9)
    assert watch.wait(5)
    (top / acme.LIBRARIES[1:] / "libacme.so.2").write_text("")
    again(host)
    watch.forgive([SPEC])
    assert not watch.wait(5)
    again(host)
    acme.node(top, "acme3", 9)
    watch.forgive([SPEC])
    assert watch.wait(5)


def test_many_changes_are_one_and_end_at_some_time(host: Host, top: Path) -> None:
    made(host)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) < 100:
            acme.node(top, f"acme-{len(pauses)}", 9)

    assert Watch(host, pause).wait()
    assert sum(pauses) <= 6


def test_a_change_is_refreshed_within_two_seconds(host: Host, top: Path) -> None:
    made(host)
    watch = Watch(host)
    written: list[float] = []

    def run() -> None:
        watch.wait(20)
        again(host)
        written.append(time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    began = time.monotonic()
    acme.node(top, "acme/2", 3)
    thread.join(30)
    assert "2" in names(top)
    assert written[0] - began < 2


# --- readers ----------------------------------------------------------------------------------------------------------


def reads_during(host: Host, top: Path, count: int) -> int:
    """Refresh again and again, between two states of the host, beside another process that reads; how often it did."""
    made(host)
    context = multiprocessing.get_context("fork")
    done, answer = context.Event(), context.SimpleQueue()

    def read() -> None:
        reads = 0
        faults: list[str] = []
        while not done.is_set() and not faults:
            served = directories.read([f"{top}/var/run/cdi"])
            reads += 1
            if served.findings or len(served.devices()) not in {5, 7}:
                faults = [*map(str, served.findings.values()), *served.devices(), "not what was written"]
        answer.put((reads, faults))

    reader = context.Process(target=read)
    reader.start()
    try:
        for number in range(count):
            if number % 2:
                (top / "dev/acme/2").unlink()
            else:
                acme.node(top, "acme/2", 3)
            assert again(host).state == refresh.WRITTEN
    finally:
        done.set()
        reads, faults = answer.get()
        reader.join()
    assert faults == []
    return int(reads)


def test_a_reader_sees_the_old_spec_or_the_new_one(host: Host, top: Path) -> None:
    assert reads_during(host, top, 500) > 100


@pytest.mark.nightly
def test_a_reader_sees_the_old_spec_or_the_new_one_ten_thousand_times(host: Host, top: Path) -> None:
    assert reads_during(host, top, 10_000) > 2_000
