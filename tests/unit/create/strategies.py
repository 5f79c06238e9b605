"""Random plans and configs that overlap: small alphabets, so that the same path, name or number comes up again."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shim.cdi import edits
from shim.cdi.plan import Plan

Json = dict[str, Any]

PATHS = st.sampled_from(["/a", "/a/", "/a/b", "/dev//gpu0", "/dev/gpu0", "/dev/gpu1"])
NODES = st.fixed_dictionaries(
    {"path": PATHS, "type": st.sampled_from(["b", "c", "p"]), "major": st.integers(1, 2), "minor": st.integers(0, 1)},
    optional={
        "hostPath": PATHS,
        "fileMode": st.sampled_from([0o600, 0o660]),
        "uid": st.integers(0, 1),
        "permissions": st.sampled_from(["r", "rwm", "none"]),
    },
)
MOUNTS = st.fixed_dictionaries(
    {"hostPath": PATHS, "containerPath": PATHS},
    optional={"type": st.just("bind"), "options": st.lists(st.sampled_from(["ro", "bind", "rbind"]), max_size=2)},
)
HOOKS = st.fixed_dictionaries(
    {"hookName": st.sampled_from(["createContainer", "startContainer", "poststop"]), "path": st.just("/bin/true")},
    optional={"args": st.lists(st.sampled_from(["a", "b"]), max_size=2), "env": st.lists(st.just("A=1"), max_size=1)},
)
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "env": st.lists(st.sampled_from(["A=1", "A=2", "B="]), max_size=3),
        "deviceNodes": st.lists(NODES, max_size=3),
        "mounts": st.lists(MOUNTS, max_size=3),
        "hooks": st.lists(HOOKS, max_size=3),
        "additionalGids": st.lists(st.integers(0, 3), max_size=3),
        "intelRdt": st.fixed_dictionaries({}, optional={"closID": st.sampled_from(["c", "d"])}),
        "netDevices": st.lists(
            st.fixed_dictionaries({"hostInterfaceName": st.sampled_from(["e0", "e1"]), "name": st.just("n")}),
            max_size=2,
        ),
    },
)
PLANS = st.lists(BLOCKS, max_size=3).map(
    lambda blocks: Plan(["n"], [{"spec": "/etc/cdi/x.json", "device": None, "edits": block} for block in blocks])
)

CAPABILITIES = {"bounding": ["CAP_CHOWN"], "effective": ["CAP_CHOWN"], "inheritable": []}


def _bare(uid: int, userns: bool, denied: bool) -> Json:
    namespaces = [{"type": "mount"}, *([{"type": "user"}] if userns else [])]
    rules = [{"allow": True, "type": "c", "major": 1, "minor": 0, "access": "rwm"}, {"allow": False, "access": "rwm"}]
    return {
        "ociVersion": "1.2.0",
        "process": {"user": {"uid": uid, "gid": 0}, "env": ["Z=1"], "cwd": "/", "capabilities": CAPABILITIES},
        "linux": {"namespaces": namespaces, "resources": {"devices": rules if denied else []}, "xFuture": [1]},
        "hooks": {"poststop": [{"path": "/old", "xHook": True}]},
        "mounts": [{"destination": "/a/b/c", "source": "deep"}, {"destination": "/a", "source": "/dev/gpu0"}],
    }


BARE = st.builds(_bare, st.integers(0, 1), st.booleans(), st.booleans())
# Some configs have been through an engine that applied a plan of its own.
CONFIGS = st.one_of(BARE, st.builds(edits.apply, PLANS, BARE))
