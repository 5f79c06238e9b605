"""Grants at create: which containers are refused, by names and by the hardware in config.json."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from unit.create.granted_host import DENY, GRANTS, KIND, USUAL, Scene, enforcing, grant
from unit.grants.grant_scene import forked

from shim.base.findings import CdiError
from shim.create import grants_hardware, grants_subject, holders
from shim.create.invocation import Invocation
from shim.create.world import World
from shim.grants.store import Store

Json = dict[str, Any]


@pytest.fixture
def scene(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with enforcing(trusted_path, monkeypatch) as scene:
        yield scene


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_device_that_is_granted_is_given(scene: Scene) -> None:
    decision = scene.decide(devices=("0",))
    assert decision.refusal is None
    assert decision.plan is not None


def test_a_device_that_is_not_granted_is_refused_with_the_command(scene: Scene) -> None:
    refusal = scene.decide(devices=("0", "all")).refusal
    assert refusal
    (finding,) = refusal.findings
    assert finding.id == "GRANT_MISSING"
    assert finding.text == f"{KIND}=all is not granted to repo-a; granted: {KIND}=0"
    assert finding.remedy == f"`shim grant add repo-a --device {KIND}=all`"


def test_without_enforcement_grants_do_not_count(scene: Scene) -> None:
    scene.settings = {"enforce": False}
    assert scene.refusal(devices=("1",)) == ""
    scene.config["linux"]["devices"] = [{"path": "/dev/x", "type": "c", "major": 240, "minor": 1}]
    assert scene.refusal() == ""


def test_a_grant_and_its_end_count_at_the_next_create(scene: Scene) -> None:
    assert scene.refusal(devices=("1",)).startswith("GRANT_MISSING")
    grant("repo-a", "1")
    assert scene.refusal(devices=("1",)) == ""
    Store().revoke("repo-a", [f"{KIND}=1"])
    assert scene.refusal(devices=("1",)).startswith("GRANT_MISSING")


def test_grants_that_cannot_be_read_give_nothing(scene: Scene) -> None:
    GRANTS.write_text("{")
    assert scene.refusal(devices=("0",)).startswith("GRANTS_UNREADABLE")
    assert scene.refusal() == "", "what asks for nothing starts"
    scene.config["linux"]["devices"] = [{"path": "/dev/x", "type": "c", "major": 240, "minor": 0}]
    assert scene.refusal().startswith("GRANTS_UNREADABLE")


def test_a_name_that_no_spec_serves_any_more_is_unknown(scene: Scene) -> None:
    grant("repo-a", "port")
    (scene.top / "cdi/a.json").write_text((scene.top / "cdi/a.json").read_text().replace('"port"', '"other"'))
    assert scene.refusal(devices=("port",)).startswith("DEVICE_UNKNOWN")


# --- subjects ---------------------------------------------------------------------------------------------------------

ELSEWHERE = {"default-subject": "nobody"}


@pytest.mark.parametrize(
    ("settings", "options", "granted"),
    [
        pytest.param({"runtimes": {"shim-a": "repo-a"}}, {"name": "shim-a"}, True, id="runtime"),
        pytest.param({"runtimes": {"shim-a": "repo-a"}}, {"name": "shim-b"}, False, id="another runtime"),
        pytest.param({"bundles": {"*/run/ns/*": "repo-a"}}, {}, True, id="bundle"),
        pytest.param({"bundles": {"/run/ns/*": "repo-a"}}, {}, False, id="another bundle"),
        pytest.param({"cgroups": {"/repo-a/*": "repo-a"}}, {}, True, id="cgroup"),
        pytest.param({"cgroups": {"/repo-b/*": "repo-a"}}, {}, False, id="another cgroup"),
        pytest.param({"namespaces": {"ci": "repo-a"}}, {"root": "/run/containerd/runc/ci"}, True, id="namespace"),
        pytest.param({"pod-namespaces": {"team": "repo-a"}}, {"root": "/run/containerd/runc/k8s.io"}, True, id="pod"),
        pytest.param(
            {"pod-namespaces": {"team": "repo-a"}}, {"root": "/run/runc/moby"}, False, id="a pod's annotation elsewhere"
        ),
        pytest.param(
            {"pod-namespaces": {"other": "repo-a"}}, {"root": "/run/containerd/runc/k8s.io"}, False, id="another pod"
        ),
        pytest.param(
            {"pod-namespaces": {"team": "repo-b"}, "namespaces": {"k8s.io": "repo-a"}},
            {"root": "/run/containerd/runc/k8s.io"},
            False,
            id="the pod counts before the namespace of all pods",
        ),
        pytest.param(
            {"namespaces": {"ci": "repo-a"}}, {"root": "/run/containerd/runc/x"}, False, id="another namespace"
        ),
        pytest.param(
            {"runtimes": {"shim-b": "repo-b"}, "bundles": {"*": "repo-a"}},
            {"name": "shim-b"},
            False,
            id="the first counts",
        ),
    ],
)
def test_where_a_subject_comes_from(scene: Scene, settings: Json, options: Json, *, granted: bool) -> None:
    scene.settings = {**ELSEWHERE, **settings}
    scene.config["annotations"]["io.kubernetes.cri.sandbox-namespace"] = "team"
    assert scene.refusal(devices=("0",), **options).startswith("" if granted else "GRANT_MISSING")
    assert bool(scene.refusal(devices=("0",), **options)) is not granted


def test_without_a_subject_nothing_is_granted(scene: Scene) -> None:
    scene.settings = {"default-subject": ""}
    assert "no subject is known for this container" in scene.refusal(devices=("0",))
    assert scene.refusal() == ""


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/b/c", False),
        ("/a/*", "/a/b/c", True),
        ("/a/*", "/b/a/", False),
        ("*", "", True),
        ("*/a/*/b", "/x/a/y/b", True),
        ("*/a/*/b", "/x/a/b", False),
        ("a*a", "a", False),
        ("a*b*b", "ab", False),
        ("a*b*b", "abb", True),
    ],
)
def test_patterns(pattern: str, text: str, *, expected: bool) -> None:
    assert grants_subject.matches(pattern, text) is expected


# --- hardware ---------------------------------------------------------------------------------------------------------


def device(kind: str = "c", minor: int = 1, major: int = 240) -> Callable[[Scene], None]:
    entry = {"path": "/dev/x", "type": kind, "major": major, "minor": minor}
    return lambda scene: scene.config["linux"].update(devices=[entry])


def mount(source: str, **members: Any) -> Callable[[Scene], None]:
    def add(scene: Scene) -> None:
        (scene.top / "link").symlink_to(scene.top / "dev/gpu1")
        entry = {"destination": "/x", "type": "bind", "source": source.replace("TOP", str(scene.top)), **members}
        scene.config["mounts"].append(entry)

    return add


def rules(*listed: Json) -> Callable[[Scene], None]:
    return lambda scene: scene.config["linux"]["resources"].update(devices=list(listed))


def usual_and(**rule: Any) -> Callable[[Scene], None]:
    return rules(*USUAL, {"allow": True, **rule})


def both(*changes: Callable[[Scene], None]) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        for one in changes:
            one(scene)

    return change


def annotated(name: str) -> Callable[[Scene], None]:
    return lambda scene: scene.config["annotations"].update({name: "x"})


def hooked(
    *variables: str, path: str = "/usr/bin/nvidia-container-runtime-hook", args: list[str] | None = None
) -> Callable[[Scene], None]:
    def add(scene: Scene) -> None:
        scene.config["hooks"] = {"prestart": [{"path": path, "args": [path, *(args or ["prestart"])]}]}
        scene.config["process"]["env"] = ["PATH=/bin", *variables]

    return add


def overlay(layers: str) -> Callable[[Scene], None]:
    def add(scene: Scene) -> None:
        options = [f"lowerdir={layers}".replace("TOP", str(scene.top)), "ro"]
        scene.config["mounts"].append({"destination": "/x", "type": "overlay", "source": "overlay", "options": options})

    return add


def rooted(path: str) -> Callable[[Scene], None]:
    return lambda scene: scene.config["root"].update(path=path)


def capable(*names: str) -> Callable[[Scene], None]:
    return lambda scene: scene.config["process"].update(capabilities={"bounding": list(names)})


def namespaces(*types: str) -> Callable[[Scene], None]:
    return lambda scene: scene.config["linux"].update(namespaces=[{"type": type} for type in types])


def without_capabilities(scene: Scene) -> None:
    scene.config["process"]["capabilities"] = {"bounding": ["CAP_CHOWN"]}


def without_directories(scene: Scene) -> None:
    scene.config["mounts"] = []


def twice(scene: Scene) -> None:
    scene.config = json.dumps(scene.config)[:-1] + ', "linux": {}}'


def misspelt(scene: Scene) -> None:
    scene.config["Linux"] = {"devices": []}


CLOSED = both(without_capabilities, without_directories)
ONE = f"{KIND}=1 is not granted"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(device(), ONE, id="a node"),
        pytest.param(device("u"), ONE, id="a node of the older name"),
        pytest.param(device(major=4096 + 240), ONE, id="a node by a number that the kernel cuts"),
        pytest.param(device(major=(1 << 32) + 240, minor=(1 << 20) + 1), ONE, id="by numbers that runc cuts"),
        pytest.param(device(minor=0), "", id="a node of a granted device"),
        pytest.param(device(minor=255), "", id="a node that all devices of the spec have"),
        pytest.param(device(minor=77), "", id="a node of no CDI device"),
        pytest.param(device("b"), "", id="a block device of the same numbers"),
        pytest.param(device(major=1, minor=3), "", id="a node that every container has"),
        pytest.param(mount("TOP/dev/gpu1"), ONE, id="a mount of a node"),
        pytest.param(mount("TOP/dev/../dev//gpu1"), ONE, id="by another text"),
        pytest.param(mount("TOP/link"), ONE, id="by a link"),
        pytest.param(mount("../../../dev/gpu1"), ONE, id="relative to the bundle"),
        pytest.param(mount("TOP/dev/gpu1", type="ext4"), ONE, id="of another type"),
        pytest.param(mount("TOP/dev/gpu0"), "", id="of a granted device"),
        pytest.param(mount("", Source="/dev/x"), "grants are enforced", id="with a name in other letters"),
        pytest.param(mount("TOP/dev"), "", id="of a directory, behind the device cgroup"),
        pytest.param(mount("/dev/null"), "", id="of null"),
        pytest.param(mount("TOP/gone"), "", id="of nothing"),
        pytest.param(usual_and(type="c", major=240, minor=1, access="rw"), ONE, id="a rule"),
        pytest.param(usual_and(type="c", major=240, minor=1, access="r"), ONE, id="a rule to read"),
        pytest.param(usual_and(type="c", major=240, minor=1, access="m"), "", id="a rule to make"),
        pytest.param(usual_and(type="c", major=240, minor=1), ONE, id="a rule without access"),
        pytest.param(usual_and(type="c", major=240, access="rw"), ONE, id="a rule for a driver"),
        pytest.param(usual_and(type="c", major=240, minor=-1, access="rw"), ONE, id="the same with -1"),
        pytest.param(usual_and(type="c", access="rw"), ONE, id="a rule for all of a type"),
        pytest.param(usual_and(access="rw"), ONE, id="a rule for all"),
        pytest.param(usual_and(type="all", access="rw"), ONE, id="a rule for all by its first letter"),
        pytest.param(usual_and(type="char", major=240, access="rw"), ONE, id="a rule for a type by its first letter"),
        pytest.param(usual_and(type="c", major=(1 << 32) + 240, access="rw"), ONE, id="by a number that crun cuts"),
        pytest.param(usual_and(type="c", major=-2, access="rw"), ONE, id="a rule with a negative number"),
        pytest.param(rules(*USUAL, {"Allow": True, "access": "rw"}), "grants are enforced", id="in other letters"),
        pytest.param(usual_and(type="a", major=7, access="rw"), ONE, id="a rule for all, with a number"),
        pytest.param(usual_and(type="b", access="rw"), "", id="a rule for block devices"),
        pytest.param(usual_and(type="c", major=240, minor=0, access="rw"), "", id="a rule for a granted device"),
        pytest.param(rules({"allow": True, "access": "rwm"}, *USUAL), "", id="a rule in front of the denial"),
        pytest.param(
            rules(*USUAL, {"allow": True, "access": "rw"}, {"allow": False, "type": "c", "major": 1, "access": "rwm"}),
            ONE,
            id="a rule in front of a denial of a part",
        ),
        pytest.param(both(CLOSED, rules()), "", id="no rules, and no way to a node"),
        pytest.param(both(without_directories, rules()), ONE, id="no rules, and CAP_MKNOD"),
        pytest.param(both(without_capabilities, rules()), ONE, id="no rules, and a directory above"),
        pytest.param(both(CLOSED, rules(), mount("TOP/dev")), ONE, id="no rules, and the directory"),
        pytest.param(both(CLOSED, rules(), mount("/")), ONE, id="no rules, and the host's root"),
        pytest.param(both(CLOSED, rules(), mount("TOP/empty")), "", id="no rules, and another directory"),
        pytest.param(both(CLOSED, rules(), mount("none", type="devtmpfs")), ONE, id="no rules, and devtmpfs"),
        pytest.param(both(CLOSED, rules(), overlay("TOP/empty:TOP/dev")), ONE, id="no rules, and a layer"),
        pytest.param(both(CLOSED, rules(), overlay("TOP/empty")), "", id="no rules, and another layer"),
        pytest.param(both(CLOSED, rules(), rooted("/")), ONE, id="no rules, and the host's root as its own"),
        pytest.param(both(CLOSED, rules(), capable("CAP_SYS_ADMIN")), ONE, id="no rules, and CAP_SYS_ADMIN"),
        pytest.param(both(CLOSED, rules(), namespaces("pid")), ONE, id="no rules, and the mounts of the host"),
        pytest.param(namespaces("pid"), "", id="the mounts of the host, behind the device cgroup"),
        pytest.param(both(CLOSED, rules({**DENY, "access": "w"}), mount("TOP/dev")), ONE, id="a denial to write"),
        pytest.param(
            lambda scene: scene.config["linux"].update(netDevices={"eth7": {}}),
            f"{KIND}=port is not granted",
            id="an interface",
        ),
        pytest.param(annotated("org.systemd.property.DeviceAllow"), "can open devices", id="a property of the unit"),
        pytest.param(annotated("org.systemd.property.TimeoutStopUSec"), "", id="another property"),
        pytest.param(annotated("krun.gpu_flags"), "can open devices", id="a VM with a GPU"),
        pytest.param(hooked("NVIDIA_VISIBLE_DEVICES=0"), "can open devices", id="a hook with a variable"),
        pytest.param(hooked("CUDA_VERSION=12"), "can open devices", id="a hook with an older image"),
        pytest.param(hooked("DOCKER_RESOURCE_GPU=x"), "can open devices", id="a hook with a variable of swarm"),
        pytest.param(
            both(hooked(), mount("/dev/null", destination="/var/run/nvidia-container-devices/0")),
            "can open devices",
            id="a hook with a mount",
        ),
        pytest.param(
            hooked(path="/usr/bin/containerd", args=["oci-hook", "--", "nvidia-container-cli", "--device=0"]),
            "can open devices",
            id="a hook that has the devices in its arguments",
        ),
        pytest.param(hooked("NVIDIA_VISIBLE_DEVICES=void", "CUDA_VERSION=12"), "", id="a hook that is kept from it"),
        pytest.param(hooked(), "", id="a hook that nothing asks"),
        pytest.param(hooked("NVIDIA_VISIBLE_DEVICES=0", path="/usr/bin/other"), "", id="another hook"),
        pytest.param(twice, "grants are enforced", id="a name twice"),
        pytest.param(misspelt, "grants are enforced", id="a name in other letters"),
        pytest.param(lambda _scene: None, "", id="nothing"),
    ],
)
def test_hardware(scene: Scene, change: Callable[[Scene], None], text: str) -> None:
    change(scene)
    refusal = scene.refusal()
    assert text in refusal
    assert bool(refusal) is bool(text)
    if text:
        assert scene.launcher_notices(), "else Python would not be asked"
    config = scene.config
    if isinstance(config, dict) and not refusal.startswith("CONFIG_JSON"):
        grant("repo-a", "1", "port")
        assert scene.refusal() == "" or "can open devices" in text


def test_a_usual_container_is_not_looked_at_in_python(scene: Scene) -> None:
    assert scene.refusal() == ""
    assert not scene.launcher_notices()


@pytest.mark.parametrize("kind", ["c", "b"])
def test_the_nodes_that_every_container_has_are_the_same_in_both_languages(scene: Scene, kind: str) -> None:
    for major in (1, 5, 135, 136, 143, 144, 240):
        for minor in range(12):
            rule = {"allow": True, "type": kind, "major": major, "minor": minor, "access": "rw"}
            rules(DENY, rule)(scene)
            scene.question()
            _, allowing = grants_hardware.allowing([DENY, rule])
            assert scene.launcher_notices() is bool(allowing), (major, minor)


def test_a_sandbox_gets_no_hardware_either(scene: Scene) -> None:
    device()(scene)
    scene.config["annotations"]["io.kubernetes.cri.container-type"] = "sandbox"
    assert ONE in scene.refusal()


def test_hardware_is_named_by_the_device_that_has_the_least(scene: Scene) -> None:
    device()(scene)
    assert f"{KIND}=all" not in scene.refusal()


def test_a_config_json_that_cannot_be_read_is_refused(scene: Scene) -> None:
    scene.config = "{"
    assert scene.refusal().startswith("CONFIG_JSON")


def test_a_broken_configuration_stops_hardware_where_grants_were_enforced(scene: Scene) -> None:
    device(minor=0)(scene)
    scene.settings = {"default-subject": 7}
    assert scene.refusal().startswith("SETTINGS")
    scene.config["linux"]["devices"] = []
    assert scene.refusal() == ""


# --- exclusive grants -------------------------------------------------------------------------------------------------


class Create:
    """A create of a container of its own, which reserves what is exclusive."""

    def __init__(self, scene: Scene, id: str, *names: str, verb: str = "create", low: str = "runc") -> None:
        self.bundle, self.state = scene.top / "bundles" / id, scene.top / "root" / id
        self.bundle.mkdir(parents=True)
        decision = scene.decide(devices=names, verb=verb)
        assert decision.refusal is None
        words = [f"low={scene.top}/{low}", "name=shim", f"self={scene.top}/shim", f"verb={verb}", f"id={id}"]
        call = Invocation([*words, f"bundle={self.bundle}", f"root={scene.top}/root", "--", "true"])
        self._call, self._decision = call, decision

    def reserve(self) -> str:
        """Reserve; the id of the refusal, "" for none."""
        try:
            holders.reserve(self._call, self._decision, World())
        except CdiError as error:
            return error.findings[0].id
        return ""

    def start(self, pid: int, start: int, file: str = "state.json") -> None:
        """Leave the state of a low-level runtime."""
        self.state.mkdir(parents=True, exist_ok=True)
        members = {"init_process_pid": pid, "init_process_start": start, "pid": pid, "process-start-time": start}
        (self.state / file).write_text(json.dumps(members))


def started() -> int:
    """When this process started, in ticks."""
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture
def exclusive(scene: Scene) -> Iterator[Scene]:
    Store().add("repo-a", [f"{KIND}={name}" for name in ("0", "all")], lambda: World().served().whole(), exclusive=True)
    grant("repo-a", "1")
    yield scene
    for path in Path("/run/shim").glob("holders*"):
        path.unlink()


def test_an_exclusive_device_is_for_a_single_container(exclusive: Scene) -> None:
    first, second = Create(exclusive, "c1", "0"), Create(exclusive, "c2", "0")
    assert (first.reserve(), second.reserve(), first.reserve()) == ("", "GRANT_HELD", "")
    assert Create(exclusive, "c3", "all").reserve() == "GRANT_HELD", "it is the same hardware"
    assert Create(exclusive, "c4", "1").reserve() == "", "it is granted shared"
    first.bundle.rmdir()
    assert second.reserve() == ""


@pytest.mark.parametrize("file", ["state.json", "status"])
def test_a_holder_whose_process_is_gone_holds_nothing(exclusive: Scene, file: str) -> None:
    first, second = Create(exclusive, "c1", "0"), Create(exclusive, "c2", "0")
    assert first.reserve() == ""
    first.start(os.getpid(), started(), file)
    assert second.reserve() == "GRANT_HELD"
    first.start(os.getpid(), 1, file)
    assert second.reserve() == "", "another process has that number now"


def test_a_container_that_was_never_started_holds_nothing_for_long(
    exclusive: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Create(exclusive, "c1", "0"), Create(exclusive, "c2", "0")
    assert (first.reserve(), second.reserve()) == ("", "GRANT_HELD")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert second.reserve() == ""


def _status(create: Create) -> int:
    return 0 if create.reserve() == "" else 1


def test_of_many_at_once_a_single_container_gets_it(exclusive: Scene) -> None:
    creates = [Create(exclusive, f"c{number}", "0") for number in range(12)]
    pids = [forked(partial(_status, create)) for create in creates]
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids) == [0] + [1] * 11


def test_reservations_that_cannot_be_read_are_not_overwritten(exclusive: Scene) -> None:
    create = Create(exclusive, "c1", "0")
    assert create.reserve() == ""
    for text in ("{", "{}", "[1]", '[{"id": "c1"}]'):
        Path("/run/shim/holders").write_text(text)
        assert create.reserve() == "GRANTS_BUSY"
        assert Path("/run/shim/holders").read_text() == text


def test_a_holder_of_an_earlier_boot_holds_nothing(exclusive: Scene) -> None:
    """Even where /run outlives it, and a process of this boot has the number and the start of that one."""
    first, second = Create(exclusive, "c1", "0"), Create(exclusive, "c2", "0")
    assert first.reserve() == ""
    first.start(os.getpid(), started())
    assert second.reserve() == "GRANT_HELD"
    file = Path("/run/shim/holders")
    file.write_text(json.dumps([{**holder, "boot": "earlier"} for holder in json.loads(file.read_text())]))
    assert second.reserve() == ""


def test_a_stopped_container_whose_bundle_stays_holds_nothing_for_long(
    exclusive: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman deletes the state of a stopped container, and keeps its bundle."""
    first, second = Create(exclusive, "c1", "0"), Create(exclusive, "c2", "0")
    assert first.reserve() == ""
    first.start(os.getpid(), started())
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert second.reserve() == "GRANT_HELD", "it runs"
    shutil.rmtree(first.state)
    assert first.bundle.exists()
    assert second.reserve() == ""
    assert first.reserve() == "GRANT_HELD", "it is started again"


def test_behind_an_unknown_runtime_a_container_holds_as_long_as_its_bundle_exists(
    exclusive: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Create(exclusive, "c1", "0", low="other"), Create(exclusive, "c2", "0")
    assert first.reserve() == ""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert second.reserve() == "GRANT_HELD"
    first.bundle.rmdir()
    assert second.reserve() == ""


@pytest.mark.parametrize("verb", ["run", "restore"])
def test_run_and_restore_reserve_too(exclusive: Scene, verb: str) -> None:
    first, second = Create(exclusive, "c1", "0", verb=verb), Create(exclusive, "c2", "0", verb=verb)
    assert (first.reserve(), second.reserve()) == ("", "GRANT_HELD")


@pytest.mark.parametrize(
    ("minors", "names"),
    [((0,), ["0"]), ((0, 1), ["0", "all"]), ((1,), []), ((255,), []), ((77,), [])],
    ids=["a card", "both cards", "a card that is granted shared as well", "the node of all devices", "no CDI device"],
)
def test_what_an_engine_injects_by_itself_is_reserved(
    exclusive: Scene, minors: tuple[int, ...], names: list[str]
) -> None:
    nodes = [{"path": f"/dev/x{minor}", "type": "c", "major": 240, "minor": minor} for minor in minors]
    exclusive.config["linux"]["devices"] = nodes
    assert exclusive.decide().exclusive == [f"{KIND}={name}" for name in names]


def test_a_precreate_hook_gives_no_exclusive_device(exclusive: Scene) -> None:
    assert exclusive.refusal(verb="precreate", devices=("0",)).startswith("GRANT_EXCLUSIVE")
    assert exclusive.refusal(verb="precreate", devices=("1",)) == ""
    assert exclusive.refusal(verb="precreate") == ""
    device(minor=0)(exclusive)
    assert exclusive.refusal(verb="precreate").startswith("GRANT_EXCLUSIVE")


# --- restore ----------------------------------------------------------------------------------------------------------


def test_a_restored_container_gets_what_is_granted_whole(scene: Scene) -> None:
    scene.config["annotations"]["cdi.k8s.io/x"] = f"{KIND}=0"
    decision = scene.decide(verb="restore")
    assert decision.refusal is None
    assert decision.edits
    scene.config["annotations"]["cdi.k8s.io/x"] = f"{KIND}=1"
    assert scene.refusal(verb="restore").startswith("GRANT_MISSING")
    scene.settings = {"enforce": False}
    assert scene.refusal(verb="restore").startswith("RESTORE_UNTRUSTED")
