"""Grants at create: which containers are refused, by names and by the hardware in config.json."""

from __future__ import annotations

import copy
import json
import os
import posix
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from unit.grants.grant_scene import forked

from shim.base.findings import CdiError
from shim.create import grants_rule, holders
from shim.create.bundle import Bundle
from shim.create.invocation import Invocation
from shim.create.question import Question
from shim.create.recipe import Decision, decide
from shim.create.recorded import Recorded, decision_to_json, trace_from_json, trace_to_json
from shim.create.world import World
from shim.grants.store import Store
from shim.hooks._core import ffi, lib

Json = dict[str, Any]

KIND = "acme.example/gpu"
GRANTS, LOG = Path("/etc/shim/grants.json"), Path("/var/log/shim/audit.jsonl")
ID = "4f6c0c2b7d1e"

DENY: Json = {"allow": False, "access": "rwm"}
# The rules of a container under docker (moby, oci/defaults.go) and containerd (pkg/oci/spec_opts.go)
USUAL: list[Json] = [
    DENY,
    *({"allow": True, "type": "c", "major": 1, "minor": minor, "access": "rwm"} for minor in (3, 5, 7, 8, 9)),
    *({"allow": True, "type": "c", "major": 5, "minor": minor, "access": "rwm"} for minor in (0, 1, 2)),
    {"allow": True, "type": "c", "access": "m"},
    {"allow": True, "type": "b", "access": "m"},
    {"allow": True, "type": "c", "major": 136, "access": "rwm"},
]


class Scene:
    """A machine with two cards, of which the first is granted to repo-a, and a create that asks for nothing."""

    def __init__(self, top: Path) -> None:
        self.top, self.bundle = top, top / "run/ns" / ID
        self.settings: Json = {}
        for path in ("dev", "cdi", "empty"):
            (top / path).mkdir()
        self.bundle.mkdir(parents=True)
        for name, minor in (("gpu0", 0), ("gpu1", 1), ("control", 255)):
            os.mknod(top / "dev" / name, 0o020666, os.makedev(240, minor))
        self.write_spec()
        self.config: Any = {
            "ociVersion": "1.0.2",
            "process": {"args": ["sh"], "cwd": "/", "capabilities": {"bounding": ["CAP_MKNOD"]}},
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/etc/hosts", "type": "bind", "source": "/etc/hosts", "options": ["rbind"]},
                {"destination": "/work", "type": "bind", "source": str(top), "options": ["rbind"]},
            ],
            "linux": {"resources": {"devices": copy.deepcopy(USUAL)}, "cgroupsPath": "/repo-a/4f6c"},
            "annotations": {},
        }

    def node(self, name: str) -> Json:
        return {"path": f"/dev/{name}", "hostPath": f"{self.top}/dev/{name}"}

    def write_spec(self) -> None:
        cards = {"0": ["gpu0"], "1": ["gpu1"], "all": ["gpu0", "gpu1"]}
        devices: list[Json] = [
            {"name": name, "containerEdits": {"deviceNodes": [self.node(node) for node in nodes]}}
            for name, nodes in cards.items()
        ]
        devices.append({"name": "null", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}})
        port = {"netDevices": [{"hostInterfaceName": "eth7", "name": "eth1"}]}
        devices.append({"name": "port", "containerEdits": port})
        common = {"deviceNodes": [self.node("control")]}
        spec = {"cdiVersion": "1.1.0", "kind": KIND, "containerEdits": common, "devices": devices}
        (self.top / "cdi/a.json").write_text(json.dumps(spec))

    def question(
        self, *, verb: str = "create", name: str = "shim", root: str = "", devices: tuple[str, ...] = ()
    ) -> Question:
        (self.bundle / "config.json").write_text(
            self.config if isinstance(self.config, str) else json.dumps(self.config)
        )
        words = [f"low={self.top}/runc", f"name={name}", f"self={self.top}/shim", f"verb={verb}", f"id={ID}"]
        words += [f"bundle={self.bundle}", f"root={root}", *(f"device={KIND}={device}" for device in devices)]
        call = Invocation([*words, "--", "true"])
        return Question(call, Bundle(call.config), rootful=True)

    def decide(self, **options: Any) -> Decision:
        lines = [f'[cdi]\nspec-dirs = ["{self.top}/cdi"]\n[log]\nfile = ""\n[grants]']
        settings = {"enforce": True, "default-subject": "repo-a", **self.settings}
        lines += [f"{name} = {_toml(value)}" for name, value in settings.items()]
        (self.top / "config.toml").write_text("\n".join([*lines, ""]))
        question = self.question(**options)
        decision = decide(question, World())
        again = decide(question, Recorded(trace_from_json(json.loads(json.dumps(trace_to_json(decision.trace))))))
        assert decision_to_json(again) == json.loads(json.dumps(decision_to_json(decision))), (
            "made again from its trace"
        )
        return decision

    def refusal(self, **options: Any) -> str:
        """The ids and the text of the refusal, "" for none."""
        refusal = self.decide(**options).refusal
        return f"{' '.join(finding.id for finding in refusal.findings)}: {refusal}" if refusal else ""

    def launcher_notices(self) -> bool:
        """Whether the launcher starts Python for this config.json, though it asks for nothing."""
        data = (self.bundle / "config.json").read_bytes()
        call, bundle = ffi.new("struct call *"), ffi.new("char[]", str(self.bundle).encode())
        call.bundle = bundle
        return bool(lib.may_have_hardware(call, ffi.new("char[]", data), len(data)))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {json.dumps(item)}" for name, item in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def scene(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(trusted_path)
    monkeypatch.setitem(posix.environ, b"SHIM_CONFIG", str(trusted_path / "config.toml").encode())
    scene.settings = {"enforce": False}
    scene.decide()
    scene.settings = {}
    grant("repo-a", "0")
    yield scene
    for path in (*GRANTS.parent.glob("grants*"), LOG):
        path.unlink(missing_ok=True)


def grant(subject: str, *names: str) -> None:
    Store().add(subject, [f"{KIND}={name}" for name in names], lambda: World().served().whole())


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
    assert grants_rule.matches(pattern, text) is expected


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
        pytest.param(both(CLOSED, rules({**DENY, "access": "w"}), mount("TOP/dev")), ONE, id="a denial to write"),
        pytest.param(
            lambda scene: scene.config["linux"].update(netDevices={"eth7": {}}),
            f"{KIND}=port is not granted",
            id="an interface",
        ),
        pytest.param(annotated("org.systemd.property.DeviceAllow"), "can open devices", id="a property of the unit"),
        pytest.param(annotated("org.systemd.property.TimeoutStopUSec"), "", id="another property"),
        pytest.param(annotated("krun.gpu_flags"), "can open devices", id="a VM with a GPU"),
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
            _, allowing = grants_rule._allowing([DENY, rule])
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

    def __init__(self, scene: Scene, id: str, *names: str) -> None:
        self.bundle, self.state = scene.top / "bundles" / id, scene.top / "root" / id
        self.bundle.mkdir(parents=True)
        decision = scene.decide(devices=names)
        assert decision.refusal is None
        words = [f"low={scene.top}/runc", "name=shim", f"self={scene.top}/shim", "verb=create", f"id={id}"]
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
    Path("/run/shim/holders").write_text("{")
    assert create.reserve() == "GRANTS_BUSY"


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
