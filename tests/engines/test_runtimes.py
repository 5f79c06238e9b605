"""Real runc and crun behind the launcher, driven as a person or an engine drives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from engines.harness.device import (
    ALLOWED,
    NAME,
    NODES,
    REFUSED,
    UNKNOWN,
    WITH,
    WITHOUT,
    FakeDevice,
    assert_reason,
    seen,
)
from engines.harness.runtimes import Bundle, Runtime
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

REQUEST = {"cdi.k8s.io/vendor-test_one": NAME}
BAD_REQUEST = {"cdi.k8s.io/vendor-test_two": UNKNOWN}


def test_the_low_level_runtime_is_the_one_expected(runtime: Runtime) -> None:
    assert runtime("--version").ok().startswith(f"{runtime.name} version")


def test_run_with_device_gives_the_container_the_whole_device(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    bundle = Bundle(sandbox, "run-device", device.probe)
    ran = runtime("run", "--device", NAME, "--bundle", bundle.directory, bundle.id)
    assert seen(ran.ok()) == WITH
    state = device.hook_state()
    assert state is not None
    assert state["id"] == bundle.id


def test_b12_the_next_run_begins_from_the_config_that_was_there(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    """In the foreground, by real runc and crun, whose state is gone when the run has ended."""
    bundle = Bundle(sandbox, "run-again", device.probe)
    _, _, before = bundle.identity()
    for words, expected in ((["--device", NAME], WITH), ([], WITHOUT), (["--device", NAME], WITH), ([], WITHOUT)):
        assert seen(runtime("run", *words, "--bundle", bundle.directory, bundle.id).ok()) == expected
    assert bundle.file.read_bytes() == before
    assert sorted(path.name for path in bundle.directory.iterdir()) == ["config.json", "rootfs"]


def test_create_and_start_with_an_annotation_give_the_container_the_whole_device(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    bundle = Bundle(sandbox, "create-annotation", device.probe, annotations=REQUEST)
    ran = runtime.start_and_wait(bundle, "--bundle", bundle.directory)
    assert seen(ran.ok()) == WITH
    state = device.hook_state()
    assert state is not None
    assert state["id"] == bundle.id


def test_create_with_device_is_the_same_as_with_an_annotation(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    bundle = Bundle(sandbox, "create-device", device.probe)
    assert seen(runtime.start_and_wait(bundle, f"--device={NAME}", "--bundle", bundle.directory).ok()) == WITH


def test_a_spec_in_run_serves_too(runtime: Runtime, sandbox: Sandbox, device: FakeDevice) -> None:
    sandbox_etc, sandbox_run = sandbox.scratch / "etc-cdi/vendor.json", sandbox.scratch / "run-cdi/vendor.json"
    sandbox_etc.rename(sandbox_run)
    bundle = Bundle(sandbox, "run-cdi", device.probe, annotations=REQUEST)
    assert seen(runtime("run", "--bundle", bundle.directory, bundle.id).ok()) == WITH


def test_a_container_that_asks_for_nothing_gets_nothing_and_its_config_is_not_touched(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    bundle = Bundle(sandbox, "no-request", device.probe, annotations={"unrelated": NAME})
    before = bundle.identity()
    assert seen(runtime.start_and_wait(bundle, "--bundle", bundle.directory).ok()) == WITHOUT
    assert bundle.identity() == before
    assert device.hook_state() is None


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, REFUSED, id="the same numbers are refused without a request"),
        pytest.param(REQUEST, ALLOWED, id="and allowed with one"),
    ],
)
def test_device_rules_decide_about_a_node_made_inside(
    runtime: Runtime, sandbox: Sandbox, annotations: dict[str, str], expected: str
) -> None:
    """The positive control of the probe: a node alone opens nothing, the injected rule does."""
    major, minor = NODES["gate"]
    script = f"mknod /dev/own c {major} {minor} && echo gate=$( (: < /dev/own) 2>&1)"
    bundle = Bundle(sandbox, f"own-node-{len(annotations)}", script, annotations=annotations)
    assert seen(runtime("run", "--bundle", bundle.directory, bundle.id).ok()) == {"gate": expected}


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("verb", ["create", "run"])
@pytest.mark.parametrize("way", ["annotation", "device"])
def test_an_unknown_device_leaves_no_container_and_says_why_in_one_line_each(
    runtime: Runtime, sandbox: Sandbox, form: str, verb: str, way: str
) -> None:
    bundle = Bundle(
        sandbox, f"unknown-{form}-{verb}-{way}", "true", annotations=BAD_REQUEST if way == "annotation" else {}
    )
    before, log = bundle.identity(), bundle.directory / "log"
    options = ["--device", UNKNOWN] if way == "device" else []
    ran = runtime("--log", log, "--log-format", form, verb, *options, "--bundle", bundle.directory, bundle.id)

    assert ran.status == 1
    assert runtime.status(bundle.id) is None
    assert bundle.id not in runtime.containers()
    assert bundle.identity() == before
    (logged,) = log.read_text(encoding="utf-8").splitlines()
    (told,) = ran.err.splitlines()
    if form == "json":
        entry = json.loads(logged)
        assert entry["level"] == "error"
        assert entry["time"]
        message = entry["msg"]
    else:
        parsed = re.fullmatch(r'time="[^"]+" level=error msg="(.*)"', logged)
        assert parsed, logged
        message = parsed.group(1)
    for text in (message, told):
        assert_reason(text)
        # Engines turn these words into exit status 127 and 126 and a message of their own.
        assert "no such file or directory" not in text
        assert "permission denied" not in text


@pytest.mark.parametrize("low_level", ["crun"], indirect=True)
def test_a_log_with_the_prefix_of_crun_gets_the_reason_too(runtime: Runtime, sandbox: Sandbox) -> None:
    bundle = Bundle(sandbox, "unknown-prefix", "true", annotations=BAD_REQUEST)
    log = bundle.directory / "log"
    assert runtime("--log", f"file:{log}", "create", "--bundle", bundle.directory, bundle.id).status == 1
    assert_reason(log.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        pytest.param("devices: [}\n", 3, id="syntax"),
        pytest.param("devices:\n- name: one\n  containerEdits: {envv: [A=b]}\n", 5, id="unknown member"),
    ],
)
def test_a_refused_spec_is_named_with_line_and_does_no_harm_to_others(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice, broken: str, line: int
) -> None:
    """That a device is unresolvable is what users know already: which file was refused, and where, is the answer."""
    (sandbox.scratch / "etc-cdi/broken.yaml").write_text(
        f"cdiVersion: 0.6.0\nkind: vendor.test/broken\n{broken}", encoding="ascii"
    )
    asking = Bundle(sandbox, f"refused-{line}", "true", annotations={"cdi.k8s.io/a": "vendor.test/broken=one"})
    ran = runtime("create", "--bundle", asking.directory, asking.id)
    assert ran.status == 1
    assert f"/etc/cdi/broken.yaml:{line}: " in ran.err
    assert runtime.status(asking.id) is None

    other = Bundle(sandbox, f"beside-refused-{line}", device.probe, annotations=REQUEST)
    assert seen(runtime("run", "--bundle", other.directory, other.id).ok()) == WITH


def test_an_error_of_the_low_level_runtime_stays_its_own(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    bundle = Bundle(sandbox, "bad-command", device.probe, annotations=REQUEST)
    config = bundle.config()
    config["process"]["args"] = ["/bin/not-there"]
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    log = bundle.directory / "log"
    ran = runtime("--log", log, "--log-format", "json", "create", "--bundle", bundle.directory, bundle.id)
    assert ran.status != 0
    assert "not-there" in log.read_text(encoding="utf-8")
    assert runtime.status(bundle.id) is None
    assert all("shim" not in json.loads(line)["msg"] for line in log.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("asked", [NAME, UNKNOWN])
def test_a_pod_sandbox_is_left_alone(runtime: Runtime, sandbox: Sandbox, device: FakeDevice, asked: str) -> None:
    id = f"sandbox-{asked[-3:]}"
    marker = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": id}
    bundle = Bundle(sandbox, id, device.probe, annotations={**marker, "cdi.k8s.io/pod": asked})
    before = bundle.identity()
    assert seen(runtime.start_and_wait(bundle, "--bundle", bundle.directory).ok()) == WITHOUT
    assert bundle.identity() == before


def test_members_that_nobody_knows_survive_and_mode_and_owner_stay(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    members = {"futureMember": {"deep": [1, 2.5, None, "ä", {"b": True}]}, "domainname": ""}
    bundle = Bundle(sandbox, "unknown-members", device.probe, annotations=REQUEST, members=members)
    config = bundle.config()
    config["process"]["futureMember"] = "kept"
    config["linux"]["futureMember"] = ["kept"]
    bundle.file.write_text(json.dumps(config), encoding="utf-8")
    bundle.file.chmod(0o640)
    assert seen(runtime("run", "--bundle", bundle.directory, bundle.id).ok()) == WITH

    after, status = bundle.config(), bundle.file.stat()
    assert {member: after[member] for member in members} == members
    assert after["process"]["futureMember"] == "kept"
    assert after["linux"]["futureMember"] == ["kept"]
    assert after["annotations"] == REQUEST
    assert status.st_mode & 0o7777 == 0o640
    assert (status.st_uid, status.st_gid) == (0, 0)
    expected = {"config.json", "rootfs"}
    assert {entry.name for entry in bundle.directory.iterdir()} == expected, "no temporary file stays"


def test_the_bundle_is_the_one_named_not_the_current_directory(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    """Under CRI the current directory is the bundle of the pod sandbox, which has a config.json too."""
    other = Bundle(sandbox, "cwd-other", "true", annotations=BAD_REQUEST)
    bundle = Bundle(sandbox, "cwd-named", device.probe, annotations=REQUEST)
    before = other.identity()
    ran = runtime.start_and_wait(bundle, "--bundle", bundle.directory, cwd=other.directory)
    assert seen(ran.ok()) == WITH
    assert other.identity() == before


def test_without_a_bundle_option_the_current_directory_is_the_bundle(
    runtime: Runtime, sandbox: Sandbox, device: FakeDevice
) -> None:
    bundle = Bundle(sandbox, "cwd-bundle", device.probe, annotations=REQUEST)
    assert seen(runtime("run", bundle.id, cwd=bundle.directory).ok()) == WITH


def test_a_second_create_of_the_same_bundle_works(runtime: Runtime, sandbox: Sandbox, device: FakeDevice) -> None:
    bundle = Bundle(sandbox, "twice", device.probe, annotations=REQUEST)
    for _ in range(2):
        assert seen(runtime("run", "--bundle", bundle.directory, bundle.id).ok()) == WITH


def test_other_verbs_reach_the_runtime(runtime: Runtime, sandbox: Sandbox, device: FakeDevice) -> None:
    bundle = Bundle(sandbox, "verbs", "sleep 600", annotations=REQUEST)
    runtime("run", "--detach", "--bundle", bundle.directory, bundle.id).ok()
    assert json.loads(runtime("state", bundle.id).ok())["status"] == "running"
    assert bundle.id in runtime("list", "-q").ok().split()
    assert seen(runtime("exec", bundle.id, "/bin/sh", "-c", device.probe).ok()) == WITH
    runtime("kill", bundle.id, "KILL").ok()
    runtime("delete", "--force", bundle.id).ok()
    assert runtime.status(bundle.id) is None


@pytest.mark.parametrize("link", ["shim-runc", "shim-crun"])
def test_a_link_called_shim_x_runs_x(sandbox: Sandbox, shim: Path, link: str) -> None:
    path = sandbox.host / link
    sandbox.run("ln", "-sf", shim, path).ok()
    assert sandbox.run(path, "--version").ok().startswith(f"{link[5:]} version")


def test_b6_a_driver_on_an_overlay_reaches_a_container_in_a_user_namespace(runtime: Runtime, sandbox: Sandbox) -> None:
    """Its mounts were idmapped, which overlayfs cannot. The control: crun, given the option, fails."""
    mapping = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    places = {name: sandbox.scratch / "overlay" / name for name in ("lower", "upper", "work", "top")}
    if not places["lower"].exists():
        for place in places.values():
            place.mkdir(parents=True)
        (places["lower"] / "marker").write_text("from the overlay\n")
        layers = ",".join(f"{name}dir={places[name]}" for name in ("lower", "upper", "work"))
        sandbox.run("mount", "-t", "overlay", "-o", layers, "overlay", places["top"]).ok()
    mount = {"hostPath": str(places["top"]), "containerPath": "/opt/driver", "options": ["ro", "bind"]}
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "vendor.test/overlay",
        "devices": [{"name": "one", "containerEdits": {"mounts": [mount]}}],
    }
    (sandbox.scratch / "etc-cdi/overlay.json").write_text(json.dumps(spec), encoding="ascii")

    def bundle(name: str, **annotations: str) -> Bundle:
        made = Bundle(sandbox, name, "cat /opt/driver/marker", annotations=annotations)
        config = made.config()
        config["linux"]["namespaces"].append({"type": "user"})
        config["linux"].update(uidMappings=mapping, gidMappings=mapping)
        config["mounts"] = [entry for entry in config["mounts"] if entry["type"] not in ("cgroup", "mqueue", "sysfs")]
        made.file.write_text(json.dumps(config), encoding="utf-8")
        sandbox.run("chown", "-R", "100000:100000", made.directory / "rootfs").ok()
        return made

    asking = bundle("overlay", **{"cdi.k8s.io/x": "vendor.test/overlay=one"})
    ran = runtime("run", "--bundle", asking.directory, asking.id)
    assert ran.ok() == "from the overlay\n"
    added = [entry for entry in asking.config()["mounts"] if entry["destination"] == "/opt/driver"]
    assert [entry["options"] for entry in added] == [["ro", "bind"]]
    if runtime.name == "crun":  # 1.8 knows idmap and not ridmap; runc before 1.2 knows neither
        control = bundle("overlay-idmapped")
        config = control.config()
        config["mounts"].append({**added[0], "options": ["ro", "bind", "idmap"]})
        control.file.write_text(json.dumps(config), encoding="utf-8")
        assert runtime("run", "--bundle", control.directory, control.id).status != 0
