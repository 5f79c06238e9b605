"""The paths of a spec below another root, and back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.cdi.relocate import CONTAINER, HOST, moved

ROOT = "/run/nvidia/driver"


def document(**edits: Any) -> dict[str, Any]:
    common = {"env": ["A=/usr/lib"]}
    return {
        "cdiVersion": "1.1.0",
        "kind": "acme.example/gpu",
        "devices": [{"name": "0", "containerEdits": edits}],
        "containerEdits": common,
    }


def hook(stage: str, path: str, *args: str) -> dict[str, Any]:
    return {"hookName": stage, "path": path, "args": list(args)}


def edits(made: dict[str, Any]) -> Any:
    return made["devices"][0]["containerEdits"]


def test_the_host_s_paths_move_and_those_of_the_container_stay() -> None:
    made = edits(
        moved(
            document(
                deviceNodes=[{"path": "/dev/a"}, {"path": "/dev/b", "hostPath": "/dev/c"}],
                mounts=[
                    {"hostPath": "/usr/lib/libcuda.so.1", "containerPath": "/usr/lib/libcuda.so.1"},
                    {"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"},
                ],
                hooks=[
                    hook("createContainer", "/usr/bin/hook", "/usr/bin/hook", "--folder", "/usr/lib"),
                    hook("createRuntime", "/usr/bin/hook", "hook", "--log=/var/log/x", "/a::/b"),
                    hook("startContainer", "/usr/bin/inside", "inside", "/usr/lib"),
                ],
            ),
            "/",
            ROOT,
            HOST,
        )
    )
    assert made["deviceNodes"] == [
        {"path": "/dev/a", "hostPath": f"{ROOT}/dev/a"},
        {"path": "/dev/b", "hostPath": f"{ROOT}/dev/c"},
    ]
    assert [mount["hostPath"] for mount in made["mounts"]] == [f"{ROOT}/usr/lib/libcuda.so.1", "tmpfs"]
    assert [mount["containerPath"] for mount in made["mounts"]] == ["/usr/lib/libcuda.so.1", "/x"]
    assert [hook["path"] for hook in made["hooks"]] == [f"{ROOT}/usr/bin/hook"] * 2 + ["/usr/bin/inside"]
    assert [hook["args"] for hook in made["hooks"]] == [
        [f"{ROOT}/usr/bin/hook", "--folder", "/usr/lib"],
        ["hook", f"--log={ROOT}/var/log/x", f"{ROOT}/a::{ROOT}/b"],
        ["inside", "/usr/lib"],
    ]


def test_the_container_s_paths_move_and_those_of_the_host_stay() -> None:
    links = ["hook", "--link", "libcuda.so.1::/usr/lib/libcuda.so", "--link=/usr/lib/x::/usr/lib/y"]
    made = edits(
        moved(
            document(
                deviceNodes=[{"path": "/dev/a"}],
                mounts=[{"hostPath": "/usr/lib/x", "containerPath": "/usr/lib/x"}],
                hooks=[
                    {"hookName": "createContainer", "path": "/usr/lib/hook", "args": links},
                    {"hookName": "startContainer", "path": "/usr/lib/inside"},
                    {"hookName": "poststop", "path": "/usr/lib/hook", "args": ["hook", "/usr/lib"]},
                ],
            ),
            "/usr/lib",
            "/opt",
            CONTAINER,
        )
    )
    assert made["deviceNodes"] == [{"path": "/dev/a"}]
    assert made["mounts"] == [{"hostPath": "/usr/lib/x", "containerPath": "/opt/x"}]
    assert [hook["path"] for hook in made["hooks"]] == ["/usr/lib/hook", "/opt/inside", "/usr/lib/hook"]
    assert made["hooks"][0]["args"] == ["hook", "--link", "libcuda.so.1::/opt/libcuda.so", "--link=/opt/x::/opt/y"]
    assert made["hooks"][2]["args"] == ["hook", "/usr/lib"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/run/nvidia", "/srv"),
        ("/run/nvidia/", "/srv/"),
        ("/run/nvidia/lib", "/srv/lib"),
        ("/run//nvidia/./lib", "/srv/lib"),
        ("/run/nvidia//lib", "/srv//lib"),
        ("/run/x/../nvidia/lib", "/srv/lib"),
        ("/run/nvidia-x", "/run/nvidia-x"),
        ("/run/nvidia/../x", "/run/nvidia/../x"),
        ("/run", "/run"),
        ("run/nvidia", "run/nvidia"),
    ],
)
def test_a_prefix_counts_by_components(path: str, expected: str) -> None:
    made = moved(document(mounts=[{"hostPath": path, "containerPath": "/x"}]), "/run/nvidia/", "/srv", HOST)
    assert edits(made)["mounts"][0]["hostPath"] == expected
    to_root = moved(document(mounts=[{"hostPath": "/srv", "containerPath": "/x"}]), "/srv", "/", HOST)
    assert edits(to_root)["mounts"][0]["hostPath"] == "/"


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/", "/ab", "/dev/gpu0", "rel", "/a/b/c.so.1"])
WORDS = st.one_of(PATHS, st.sampled_from(["--link", "x::/a/b", "/a/b::/a", "--folder=/a/b", "--x=/a::/ab", "y"]))
STAGES = st.sampled_from(["prestart", "createRuntime", "createContainer", "startContainer", "poststop"])
EDITS = st.fixed_dictionaries(
    {
        "deviceNodes": st.lists(
            st.one_of(
                st.fixed_dictionaries({"path": PATHS}),
                st.fixed_dictionaries({"path": st.just("/dev/x"), "hostPath": PATHS}),
            ),
            max_size=3,
        ),
        "mounts": st.lists(st.fixed_dictionaries({"hostPath": PATHS, "containerPath": PATHS}), max_size=3),
        "hooks": st.lists(
            st.fixed_dictionaries({"hookName": STAGES, "path": PATHS}, optional={"args": st.lists(WORDS, min_size=1)}),
            max_size=3,
        ),
    }
)


@given(EDITS, st.sampled_from([HOST, CONTAINER]), st.sampled_from(["/", "/a", "/a/b", "/dev"]))
def test_there_and_back_is_the_same(made: dict[str, Any], relative_to: str, old: str) -> None:
    before = document(**made)
    kept = copy.deepcopy(before)
    assert moved(moved(before, old, "/elsewhere/x", relative_to), "/elsewhere/x", old, relative_to) == before
    assert before == kept, "what was given is not changed"
