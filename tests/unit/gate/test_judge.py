"""The judgement: its tables, its messages, and what the vectors do not have."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from shim.gate.judge import REASONS, Decision, Policy, Request, decide, fields, json_strict, messages, routes, target

TOP = Path(__file__).parent.parent.parent
TABLE = json.loads((TOP / "data/gate-fields.json").read_text())
VECTORS = json.loads((TOP / "conformance/vectors/gate.json").read_text())
JSON = (("host", "d"), ("content-type", "application/json"))


def ask(
    target: str = "/v1.47/containers/create",
    body: Any = None,
    *,
    method: str = "POST",
    policy: Policy | None = None,
    grants: frozenset[str] | None = frozenset(),
    stored: dict[str, Any] | None = None,
    headers: tuple[tuple[str, str], ...] = JSON,
) -> Decision:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    request = Request(method, target, headers, data, len(data))
    return decide(request, policy or Policy("repo-a"), grants, (stored or {}).get, lambda path: path)


def create(host: dict[str, Any], **more: Any) -> Decision:
    return ask(body={"Image": "a", "HostConfig": host}, **more)


@pytest.mark.parametrize(("depth", "reason"), [(500, ""), (501, "json-invalid")])
@pytest.mark.parametrize("kind", ["[{}]", '{{"a": {}}}'], ids=["lists", "objects"])
def test_the_limit_of_nesting_is_the_same_with_every_python(kind: str, depth: int, reason: str) -> None:
    """Python up to 3.11 refused 1,000, 3.13 some 10,000, 3.14 what fits on the stack."""
    text = "1"
    for _ in range(depth):
        text = kind.format(text)
    if reason:
        with pytest.raises(messages.Denied) as caught:
            json_strict.parse(text.encode())
        assert caught.value.reason == reason
    else:
        assert json_strict.parse(text.encode()) == json.loads(text)
    assert json_strict.parse(f"[{','.join(['[]'] * 5000)}]".encode()) == [[]] * 5000, "many are not deep"


def test_the_judgement_imports_nothing_but_the_standard_library() -> None:
    import shim.gate.judge

    for path in Path(shim.gate.judge.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.startswith("shim.gate.judge") or name.partition(".")[0] in sys.stdlib_module_names, path


def test_the_fields_are_those_of_the_api() -> None:
    expected = {
        struct: {name: row[2] if row[1] == "deny-nonzero" else row[1] for name, row in members.items()}
        for struct, members in TABLE["structs"].items()
        if struct != "commit"  # its body is passed on whole
    }
    assert expected == fields.STRUCTS


def test_the_routes_are_those_of_the_api() -> None:
    assert [list(route) for route in routes.ROUTES] == TABLE["routes"]


def test_the_policy_begins_with_the_limits_of_the_table() -> None:
    paths, limits, policy = TABLE["paths"], TABLE["limits"], Policy()
    assert list(policy.never) == [path for path in paths["never"] if path.startswith("/")]
    assert list(policy.readonly) == paths["read_only"]
    assert list(policy.annotation_prefixes) == TABLE["annotations"]["allowed_prefixes"]
    assert policy.body_limit == limits["judged_body_bytes"]
    assert "{}.{}".format(*policy.min_api) == limits["api_min"]
    assert limits["target_bytes"] == target.MAX_TARGET


# made by the server alone, which has tests of its own
OF_THE_SERVER = {"http-head", "http-version", "http-timeout", "upstream-unreachable", "connections-limit"}


def test_every_reason_has_a_vector_or_a_test_here() -> None:
    tested = Path(__file__).read_text()
    named = {case["expect"]["reason"] for case in VECTORS}
    assert {reason for reason in REASONS if reason not in named and tested.count(f'"{reason}"') < 1} == set()


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        pytest.param({"Cgroup": "container:x"}, "cgroup-join", id="another container's cgroup"),
        pytest.param({"PidMode": "container:operators"}, "host-pid", id="joins a container of the host's processes"),
        pytest.param(
            {"CapAdd": ["cap_net_admin"], "NetworkMode": "container:operators"},
            "cap-add",
            id="joins the host's network",
        ),
        pytest.param({"IpcMode": "container:operators"}, "host-ipc", id="joins the host's IPC"),
        pytest.param({"Devices": [None]}, "device-raw-path", id="null is an empty device"),
        pytest.param({"DeviceRequests": [None]}, "gpus-request", id="null is a request without driver"),
        pytest.param({"Binds": ["a/b:/x"]}, "bind-host-path", id="relative"),
        pytest.param({"Binds": ["/a:/b:ro:rw"]}, "bind-host-path", id="four fields"),
        pytest.param({"Binds": ["/srv/x:/run/../run/nvidia-container-devices/all"]}, "mount-device-list", id="dots"),
        pytest.param({"Binds": ["x:run/nvidia-container-devices/all"]}, "mount-device-list", id="without a slash"),
        pytest.param({"Mounts": [{"Type": "bind", "Source": "x", "Target": "/x"}]}, "bind-host-path", id="no path"),
        pytest.param({"Mounts": [{"Type": "volume", "Source": "/dev", "Target": "/x"}]}, "bind-host-path", id="volume"),
        pytest.param({"SecurityOpt": ["systempaths=unconfined"]}, "security-opt", id="an option of clients"),
        pytest.param({"Privileged": 1}, "json-type", id="1 is no bool"),
        pytest.param({"Binds": "/dev:/x"}, "json-type", id="a text is no list"),
        pytest.param({"CapAdd": [["ALL"]]}, "json-type", id="a list of lists"),
        pytest.param({"Annotations": {"cdi.k8s.io/x": None}}, "json-type", id="null in a map"),
    ],
)
def test_a_host_config_is_refused(host: dict[str, Any], reason: str) -> None:
    operators = {"HostConfig": {"PidMode": "host", "IpcMode": "host", "NetworkMode": "host"}}
    decision = create(host, stored={"operators": operators})
    assert (decision.is_allowed, decision.reason) == (False, reason)


@pytest.mark.parametrize(
    "host",
    [
        pytest.param({"SecurityOpt": ["label:disable", "seccomp=unconfined", "no-new-privileges"]}, id="options"),
        pytest.param({"SecurityOpt": ["writable-cgroups=false"]}, id="what is false anyway"),
        pytest.param({"Binds": ["data:/data", "/data"]}, id="volumes"),
        pytest.param({"GroupAdd": ["video"], "OomKillDisable": None, "Init": True}, id="harmless"),
        pytest.param({"PidMode": "container:mine", "CapAdd": ["CAP_SYS_PTRACE"]}, id="joins a private namespace"),
    ],
)
def test_a_host_config_passes(host: dict[str, Any]) -> None:
    assert create(host).reason == "ok-judged"


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("POST", "/v1.47/containers/c/restart?checkpoint=x", None, "checkpoint"),
        ("POST", "/v1.57/containers/create", {"Image": "a"}, "api-version"),
        ("POST", "/v1.041/containers/create", {"Image": "a"}, "api-version"),
        ("POST", "/v1.47/build?version=3", None, "builder-grpc"),
        ("POST", "/v1.47/build?securityopt=%5B%22x%22%5D", None, "security-opt"),
        ("POST", "/v1.47/containers/create", b"null", "json-type"),
        ("POST", "/v1.47/containers/create", b'{"Image":"a","HostConfig":{"ShmSize":1e999}}', "json-invalid"),
        ("POST", "/v1.47/networks/create", b'{"Name":"a","Name":"b"}', "json-duplicate-key"),
        ("POST", "/v1.47/exec/e/start", {"Detach": False, "Privileged": True}, "json-unknown-field"),
        ("POST", "/v1.47/containers/c/update", {"DeviceRequests": [{"Driver": "cdi"}]}, "gpus-request"),
        ("POST", "/v1.47/images/a/../b/push", None, "path-form"),
        ("GET", "/v1.47/libpod/info", None, "route-unknown"),
        ("POST", "/v1.47/containers/c/kill?signal=%zz", None, "http-target"),
    ],
)
def test_an_endpoint_refuses(method: str, path: str, body: Any, reason: str) -> None:
    assert ask(path, body, method=method).reason == reason


def test_a_form_is_refused_on_every_route_since_go_reads_it_as_a_query() -> None:
    form = (("host", "d"), ("content-type", "application/x-www-form-urlencoded"))
    assert ask("/v1.47/containers/c/start", headers=form).reason == "http-content-type"


def test_a_query_is_encoded_anew() -> None:
    decision = ask("/v1.41/containers/c/start?detachKeys=a%2cb+c&t")
    assert decision.admission is not None
    assert decision.admission.target == "/v1.41/containers/c/start?detachKeys=a%2Cb%20c&t="


def test_a_runtime_is_judged_by_the_devices_that_its_arguments_stand_for() -> None:
    policy = Policy("repo-a", runtimes={"": (), "shim-gpu0": ("nvidia.com/gpu=0",)})
    given: dict[str, Any] = {"host": {"Runtime": "shim-gpu0"}, "policy": policy}
    assert create(**given).reason == "grant-missing"
    assert create(**given, grants=frozenset({"nvidia.com/gpu=0"})).reason == "ok-granted"
    assert create(**given, grants=None).reason == "grants-unreadable"


def test_the_message_of_gpus_names_the_devices_and_the_grants_that_are_missing() -> None:
    host = {"DeviceRequests": [{"Driver": "nvidia", "Count": 2, "Capabilities": [["gpu"]]}]}
    decision = create(host, grants=frozenset({"nvidia.com/gpu=0"}))
    assert decision.message == (
        "GPUs are given by CDI name only; use --device nvidia.com/gpu=0 --device nvidia.com/gpu=1 (compose: devices:"
        " [nvidia.com/gpu=0, nvidia.com/gpu=1]); device nvidia.com/gpu=1 is not granted to repo-a (granted:"
        " nvidia.com/gpu=0); ask the operator for: shim grant add repo-a --device nvidia.com/gpu=1 [gpus-request]"
    )


def test_the_message_of_a_raw_path_names_the_device_of_the_specs() -> None:
    policy = Policy(node_names={"/dev/dri/renderD128": ("drm/gpu=0",)})
    decision = create({"Devices": [{"PathOnHost": "/dev/dri/renderD128"}]}, policy=policy)
    assert "use the CDI name: --device drm/gpu=0 [device-raw-path]" in decision.message
    decision = create({"Devices": [{"PathOnHost": "nvidia.com/gpu=all"}]})
    assert "Docker CLI 25 or Compose 2.30" in decision.message


def test_a_message_holds_no_control_characters_of_a_client() -> None:
    decision = create({"Binds": ["/dev/\x1b[2J\n:/x"]})
    assert decision.message.isprintable()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(harden_env=True), {"Env": ["NVIDIA_VISIBLE_DEVICES=void"]}),
        (Policy(harden_mknod=True), {"HostConfig": {"CapDrop": ["MKNOD"]}}),
        (Policy(default_runtime="runc"), {"HostConfig": {"Runtime": "runc"}}),
    ],
)
def test_a_policy_can_rewrite_a_create(policy: Policy, expected: dict[str, Any]) -> None:
    decision = ask(body={"Image": "a"}, policy=policy)
    assert json.loads(decision.body or b"") == {"Image": "a", **expected}


def test_hardening_keeps_what_was_asked_for() -> None:
    body = {"Image": "a", "Env": ["NVIDIA_VISIBLE_DEVICES=void"], "HostConfig": {"CapAdd": ["MKNOD"]}}
    decision = ask(body=body, policy=Policy(harden_env=True, harden_mknod=True))
    assert json.loads(decision.body or b"") == body


def test_variables_of_a_stored_container_count_where_its_runtime_reads_them() -> None:
    stored = {"c": {"HostConfig": {"Runtime": "live"}, "Config": {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}}}
    policy = Policy(runtimes={"live": ()}, env_live_runtimes=frozenset({"live"}))
    assert ask("/v1.47/containers/c/start", stored=stored, policy=policy).reason == "env-device"
    assert ask("/v1.47/containers/c/start", stored=stored, policy=Policy(runtimes={"live": ()})).reason == "ok-start"


def test_a_container_that_the_daemon_does_not_know_is_left_to_its_answer() -> None:
    assert ask("/v1.47/containers/c/start").reason == "ok-start"


def test_builds_can_be_off() -> None:
    decision = ask("/v1.47/build", policy=Policy(builder="deny"))
    assert decision.reason == "builder-grpc"
    assert "builds are off" in decision.message


def test_sources_with_links_that_cannot_be_resolved_are_refused() -> None:
    def broken(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    body = json.dumps({"Image": "a", "HostConfig": {"Binds": ["/srv/x:/x"]}}).encode()
    request = Request("POST", "/containers/create", JSON, body, len(body))
    assert decide(request, Policy(), frozenset(), lambda _: None, broken).reason == "bind-host-path"
