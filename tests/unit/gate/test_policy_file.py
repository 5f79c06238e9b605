"""Policies: keys, faults, and what always stays protected."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.gate import policy_file
from shim.gate.judge import Policy


def test_a_missing_file_is_the_default(tmp_path: Path) -> None:
    assert policy_file.read(f"{tmp_path}/x.toml", "repo-a") == Policy("repo-a")


def test_every_key_is_read() -> None:
    text = b"""
min_api = "1.44"
bind_roots = ["/srv/repo/"]
never = ["/srv/secret"]
readonly = ["/opt"]
self_socket = "/run/shim-gate/repo-a.sock"
device_paths = ["/dev/fuse"]
annotation_prefixes = ["com.example."]
volume_types = ["tmpfs", "nfs"]
allow = ["ipc-host"]
builder = "daemon"
body_limit = 65536
harden_env = true
harden_mknod = true
default_runtime = "runc"
env_live_runtimes = ["nvidia"]
[runtimes]
shim-gpu0 = ["nvidia.com/gpu=0"]
"""
    policy = policy_file.parse(text, "repo-a")
    assert policy.min_api == (1, 44)
    assert policy.bind_roots == ("/srv/repo",)
    assert policy.never == (*Policy().never, "/srv/secret"), "what is protected can only grow"
    assert policy.runtimes["shim-gpu0"] == ("nvidia.com/gpu=0",)
    assert policy.runtimes["runc"] == ()
    assert policy.volume_types == {"tmpfs", "nfs"}
    assert set(policy_file.KEYS) <= {line.partition(b" =")[0].decode() for line in text.splitlines()} | {"runtimes"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subject = 'x'", "subject is no key of a policy"),
        ("builder = 'buildkit'", "builder must be one of classic, daemon, deny"),
        ("volume_types = ['none']", "volume_types must be a list of cifs, nfs, nfs4, tmpfs"),
        ("bind_roots = ['srv']", "bind_roots must be a list of absolute paths"),
        ("min_api = '1.24'", "min_api must be a version of the API"),
        ("harden_env = 1", "harden_env must be true or false"),
        ("body_limit = true", "body_limit must be a number of bytes"),
        ("allow = 'ipc-host'", "allow must be a list of texts"),
        ("runtimes = {x = ['all']}", "runtimes must be a table of runtimes"),
        ("default_runtime = 1", "default_runtime must be a text"),
        ("x = ", "it is not TOML"),
    ],
)
def test_a_fault_is_named(text: str, message: str) -> None:
    with pytest.raises(CdiError) as caught:
        policy_file.parse(text.encode(), "repo-a", "/p.toml")
    finding = caught.value.findings[0]
    assert finding.id == "GATE_POLICY"
    assert str(finding).startswith(f"/p.toml: {message}")


def test_all_faults_are_reported() -> None:
    with pytest.raises(CdiError) as caught:
        policy_file.parse(b"a = 1\nb = 2", "repo-a")
    assert len(caught.value.findings) == 2


@pytest.mark.parametrize("subject", ["", "-a", "a/b", "a b", "a" * 129])
def test_a_subject_is_a_plain_name(subject: str) -> None:
    with pytest.raises(CdiError, match="is not the name of a subject"):
        policy_file.read("/nowhere", subject)


def test_a_file_that_cannot_be_read_stops_the_gate(tmp_path: Path) -> None:
    with pytest.raises(CdiError, match="it cannot be read"):
        policy_file.read(str(tmp_path), "repo-a")
