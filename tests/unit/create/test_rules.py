"""What create demands of requests, configs and specs before it injects anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import Finding
from shim.cdi.plan import Plan
from shim.create import rules
from shim.create.world import World

SPEC = "/etc/cdi/acme.yaml"
PROGRAM = "/bin/true"
LAUNCHER = "/bin/sh"


def _plan(edits: dict[str, Any]) -> Plan:
    return Plan(["acme.example/gpu=0"], [{"spec": SPEC, "device": "0", "edits": edits}])


def _impose(edits: dict[str, Any], launcher: str = LAUNCHER) -> Plan:
    imposed, refused = rules.impose(_plan(edits), launcher, World(), rootful=True, user=0)
    assert refused == []
    return imposed


def _refused(edits: dict[str, Any]) -> Finding:
    _, [finding] = rules.impose(_plan(edits), LAUNCHER, World(), rootful=True, user=0)
    assert finding.path == SPEC
    return finding


def _refusal(edits: dict[str, Any]) -> tuple[str, str]:
    finding = _refused(edits)
    return finding.id, str(finding)


# --- targets and options --------------------------------------------------------------------------------------------

BAD_TARGETS = {
    "relative": "dev/gpu0",
    "empty": "",
    "leading upwards": "/dev/dri/../../etc/x",
    "leading upwards and back": "/opt/../opt/x",
    "ending upwards": "/opt/..",
    "the root": "/",
    "the root by another name": "//./",
    "proc itself": "/proc",
    "a file of proc": "/proc/sys/kernel/core_pattern",
    "proc behind needless slashes": "//proc/./sysrq-trigger",
    "sys itself": "/sys/",
    "a cgroup": "/sys/fs/cgroup",
    "below a permitted path": "/proc/driver/nvidia/params/x",
    "above a permitted path": "/proc/driver/nvidia",
}
GOOD_TARGETS = [
    "/dev/gpu0",
    "/opt//x/",
    "/processes",
    "/system",
    "/proc/driver/nvidia/params",
    "/sys/bus/ap",
    "/etc/..x",
]


@pytest.mark.parametrize("target", BAD_TARGETS.values(), ids=BAD_TARGETS.keys())
def test_a_target_that_is_not_confined_is_refused(target: str) -> None:
    assert _refusal({"mounts": [{"hostPath": "/usr", "containerPath": target}]})[0] == "TARGET_FORBIDDEN"
    assert _refusal({"deviceNodes": [{"path": target, "type": "c"}]})[0] == "TARGET_FORBIDDEN"


@pytest.mark.parametrize("target", GOOD_TARGETS)
def test_other_targets_are_taken_as_they_are(target: str) -> None:
    mount = {"hostPath": "/usr", "containerPath": target, "options": ["bind"]}
    edits = {"mounts": [mount], "deviceNodes": [{"path": target, "type": "c"}]}
    assert _impose(edits).origins[0]["edits"] == edits


@pytest.mark.parametrize("option", ["shared", "rshared", "ro,rshared", "bind,ro", ","])
def test_options_that_reach_the_host_or_hide_others_are_refused(option: str) -> None:
    finding, text = _refusal({"mounts": [{"hostPath": "/usr", "containerPath": "/a", "options": ["ro", option]}]})
    assert finding == "MOUNT_OPTION"
    assert repr(option) in text


@pytest.mark.parametrize(
    "options", [["bind"], ["ro", "rbind", "rprivate", "rslave", "nosuid", "nodev", "noexec", "size=1m"], ["remount"]]
)
def test_other_options_are_taken_as_they_are(options: list[str]) -> None:
    edits = {"mounts": [{"hostPath": "/usr", "containerPath": "/a", "options": options}]}
    assert _impose(edits).origins[0]["edits"] == edits


# Members of a mount -> the options that create gives it
BINDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "neither a type nor options": ({}, ["rbind"]),
    "options that are null": ({"options": None}, ["rbind"]),
    "the type bind alone, as in the CDI README": ({"type": "bind"}, ["rbind"]),
    "the type bind in capital letters, which is no file system either": ({"type": "Bind"}, ["rbind"]),
    "the type none": ({"type": "none", "options": ["ro"]}, ["ro", "rbind"]),
    "other options": ({"options": ["ro", "nosuid"]}, ["ro", "nosuid", "rbind"]),
}


@pytest.mark.parametrize(("members", "options"), BINDS.values(), ids=BINDS.keys())
def test_b1_a_mount_whose_options_do_not_say_bind_is_made_one(members: dict[str, Any], options: list[str]) -> None:
    """Options decide, the type is a dummy: runc failed with "no such device" for 7 of 80 specs that were valid."""
    [origin] = _impose({"mounts": [{"hostPath": "/usr", "containerPath": "/a", **members}]}).origins
    assert origin["edits"]["mounts"][0]["options"] == options


FILE_SYSTEMS: list[dict[str, Any]] = [
    {"hostPath": "tmpfs", "type": "tmpfs", "options": ["size=1m"]},
    {"hostPath": "/dev/loop0", "type": "ext4"},
]


@pytest.mark.parametrize("mount", FILE_SYSTEMS)
def test_a_mount_of_a_file_system_is_none_of_a_path(mount: dict[str, Any]) -> None:
    edits = {"mounts": [{"containerPath": "/a", **mount}]}
    assert _impose(edits).origins[0]["edits"] == edits


@pytest.mark.parametrize("kind", [None, "", "none", "bind"])
def test_a_mount_that_no_runtime_can_make_is_refused(kind: str | None) -> None:
    finding, text = _refusal({"mounts": [{"hostPath": "tmpfs", "containerPath": "/a", "type": kind}]})
    assert finding == "MOUNT_OPTION"
    assert "'tmpfs'" in text


@pytest.mark.parametrize("options", [["ro"], ["bind"], ["ro", "rbind"]])
@pytest.mark.parametrize("path", ["/usr/shim-test-gone", "/etc/passwd/below", "loop"])
def test_b3_a_mount_of_a_path_that_is_missing_is_refused(options: list[str], path: str, tmp_path: Path) -> None:
    """After an update of the driver its libraries have other names: runc's own words then name no spec.

    The controls are the mounts above, whose path exists.
    """
    (tmp_path / "loop").symlink_to("loop")
    path = str(tmp_path / path)  # as it is where it is absolute
    finding, text = _refusal({"mounts": [{"hostPath": path, "containerPath": "/a", "options": options}]})
    assert finding == "MOUNT_MISSING"
    assert text == f"{SPEC}: {path} is missing on the host, which the spec mounts at /a"


def test_a_relative_source_lies_in_the_bundle() -> None:
    edits = {"mounts": [{"hostPath": "data", "containerPath": "/a", "options": ["rbind"]}]}
    assert _impose(edits).origins[0]["edits"] == edits


# --- hooks ----------------------------------------------------------------------------------------------------------


def _hook(**members: Any) -> dict[str, Any]:
    return {"hookName": "createContainer", "path": PROGRAM, **members}


def _hardened(hook: dict[str, Any], launcher: str = LAUNCHER) -> tuple[dict[str, Any], list[str]]:
    plan = _impose({"hooks": [hook]}, launcher)
    hardened: dict[str, Any] = plan.origins[0]["edits"]["hooks"][0]
    return hardened, [finding.id for finding in plan.findings]


ENVIRONMENTS: dict[str, tuple[list[str] | None, list[str]]] = {
    "none": (None, [rules.STANDARD_PATH]),
    "an empty one": ([], [rules.STANDARD_PATH]),
    "a harmless one": (["A=1", "PATH=/x", "B="], ["A=1", "PATH=/x", "B="]),
    "one that loads something": (["LD_PRELOAD=./x", "A=1"], ["A=1"]),
    "one that only loads something": (
        ["LD_AUDIT=x", "GLIBC_TUNABLES=x", "PYTHONPATH=.", "PYTHONSTARTUP=x", "BASH_ENV=x", "ENV=x", "GCONV_PATH=."],
        [rules.STANDARD_PATH],
    ),
    "names that only look like it": (
        ["ENVIRONMENT=x", "OLD_ENV=x", "ld_preload=x"],
        ["ENVIRONMENT=x", "OLD_ENV=x", "ld_preload=x"],
    ),
}


@pytest.mark.rootful
@pytest.mark.parametrize(("env", "wanted"), ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_a_hook_has_an_environment_of_its_own_and_nothing_in_it_that_loads_code(
    env: list[str] | None, wanted: list[str]
) -> None:
    hook = _hook() if env is None else _hook(env=env)
    hardened, findings = _hardened(hook)
    assert hardened["env"] == wanted
    assert findings == (["HOOK_ENVIRONMENT"] if env and wanted != env else [])


@pytest.mark.rootful
@given(st.lists(st.text("ABENVLDPYTHO_", min_size=1).map(lambda name: f"{name}=x"), max_size=5))
def test_no_environment_is_ever_empty(env: list[str]) -> None:
    """runc takes an empty one for none, and none is the image's."""
    assert _hardened(_hook(env=env))[0]["env"]


TIMEOUTS = {
    "a foreign one without": (_hook(), 120),
    "ours without": (_hook(path=LAUNCHER), 10),
    "ours by another name": (_hook(path=os.path.realpath(LAUNCHER)), 10),
    "one that is given": (_hook(timeout=7), 7),
    "ours that is given": (_hook(path=LAUNCHER, timeout=300), 300),
    "zero, which crun takes for ever": (_hook(timeout=0), 120),
    "a negative one": (_hook(timeout=-1), 120),
}


@pytest.mark.rootful
@pytest.mark.parametrize(("hook", "wanted"), TIMEOUTS.values(), ids=TIMEOUTS.keys())
def test_a_hook_has_an_end(hook: dict[str, Any], wanted: int) -> None:
    assert _hardened(hook)[0]["timeout"] == wanted


@pytest.mark.rootful
def test_what_else_a_hook_says_stays() -> None:
    hook = _hook(args=["true", "a"], env=["A=1"], timeout=5)
    assert _hardened(hook)[0] == hook


def test_hooks_that_run_inside_are_left_alone() -> None:
    hook = {"hookName": "startContainer", "path": "/not/on/the/host", "env": ["LD_PRELOAD=x"]}
    assert _hardened(hook) == (hook, [])


@pytest.mark.rootful
@pytest.mark.parametrize("stage", ["prestart", "poststop"])
def test_a_stage_that_no_device_needs_is_injected_with_one_warning(stage: str) -> None:
    plan = _impose({"hooks": [{"hookName": stage, "path": PROGRAM}] * 3})
    assert [finding.id for finding in plan.findings] == ["HOOK_STAGE"]
    assert len(plan.origins[0]["edits"]["hooks"]) == 3


def _hook_file(directory: Path, mode: int = 0o755, owner: int = 0) -> str:
    """A program below a directory of root's own: /tmp, where pytest works, is everybody's."""
    path = directory / "hook"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    os.chown(path, owner, owner)
    return str(path)


@pytest.mark.rootful
def test_a_program_of_root_alone_is_trusted(trusted_path: Path) -> None:
    assert _hardened(_hook(path=_hook_file(trusted_path)))[1] == []


@pytest.mark.rootful
def test_a_link_to_it_is_as_good(trusted_path: Path) -> None:
    link = trusted_path / "link"
    link.symlink_to(_hook_file(trusted_path))
    assert _hardened(_hook(path=str(link)))[1] == []


@pytest.mark.parametrize(
    ("mode", "owner"),
    [
        pytest.param(0o757, 0, id="everybody may write it"),
        pytest.param(0o755, 1000, id="it belongs to somebody else"),
        pytest.param(0o775, 1000, id="both"),
    ],
)
def test_a_program_that_others_may_write_is_refused(trusted_path: Path, mode: int, owner: int) -> None:
    finding, text = _refusal({"hooks": [_hook(path=_hook_file(trusted_path, mode, owner))]})
    assert finding == "HOOK_UNTRUSTED"
    assert "is not trusted" in text


def test_a_program_in_a_directory_of_everybody_is_refused(tmp_path: Path) -> None:
    assert _refusal({"hooks": [_hook(path=_hook_file(tmp_path))]})[0] == "HOOK_UNTRUSTED"


@pytest.mark.rootful
def test_a_trusted_link_into_such_a_directory_is_refused(trusted_path: Path, tmp_path: Path) -> None:
    link = trusted_path / "link"
    link.symlink_to(_hook_file(tmp_path))
    finding, text = _refusal({"hooks": [_hook(path=str(link))]})
    assert finding == "HOOK_UNTRUSTED"
    assert "/tmp can be written by everybody" in text


def test_a_relative_path_is_refused_since_the_image_would_run_as_root() -> None:
    finding, text = _refusal({"hooks": [_hook(path="bin/true")]})
    assert finding == "HOOK_UNTRUSTED"
    assert "not absolute" in text


@pytest.mark.rootful
def test_a_program_that_is_missing_or_none_is_told_so(trusted_path: Path) -> None:
    for path, told in (
        ("/usr/bin/not-there", "is missing"),
        (_hook_file(trusted_path, 0o644), "no program"),
        ("/usr", "no program"),
        ("/usr/bin/\0", "cannot be the name"),
    ):
        finding, text = _refusal({"hooks": [_hook(path=path)]})
        assert finding == "HOOK_MISSING"
        assert told in text
        assert "no such file" not in text.lower()


@pytest.mark.parametrize(
    ("path", "args", "is_ours"),
    [
        ("/usr/no/nvidia-cdi-hook", ["nvidia-cdi-hook", "create-symlinks"], True),
        ("/usr/no/nvidia-ctk", ["nvidia-ctk", "hook", "update-ldcache"], True),
        ("/usr/no/shim", ["shim", "hook", "update-ldcache"], True),
        ("/usr/no/nvidia-ctk", ["nvidia-ctk", "system"], False),
        ("/usr/no/vendor-hook", ["vendor-hook", "create-symlinks"], False),
    ],
)
def test_d4_a_missing_program_whose_work_is_ours_has_a_link_as_its_remedy(
    path: str, args: list[str], is_ours: bool
) -> None:
    """Specs of NVIDIA's toolkit on a machine without it were to be written anew, by the toolkit that is not there."""
    refusal = _refused({"hooks": [_hook(path=path, args=args)]})
    assert refusal.id == "HOOK_MISSING"
    assert (f"ln -s {LAUNCHER} {path}" in refusal.remedy) == is_ours


def test_the_plan_that_was_given_stays_as_it_is() -> None:
    plan = Plan(["n"], [{"spec": SPEC, "device": None, "edits": {"hooks": [_hook(env=["LD_X=1"])]}}])
    before = plan.to_json().copy(), [dict(origin) for origin in plan.origins]
    rules.impose(plan, LAUNCHER, World(), rootful=True, user=0)
    assert plan.origins[0]["edits"] == {"hooks": [_hook(env=["LD_X=1"])]}
    assert before[1] == plan.origins
