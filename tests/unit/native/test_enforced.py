"""Creates where grants are enforced: what the launcher does by itself, and what it leaves to Python."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.native.repeat_host import CONFIG, LINK, NAME, SETTLED, Host, own_interpreter

from shim.cdi import directories
from shim.grants.store import Store

DEVICE = "v.example/repeat=0"
SETTINGS = Path("/etc/shim/config.toml")
NODE = {"path": "/dev/x", "type": "c", "major": 240, "minor": 9}


class Enforced:
    """A host where grants are enforced, and the device of the host's spec is granted to repo-a."""

    def __init__(self, host: Host) -> None:
        self.host = host
        SETTINGS.write_text('[grants]\nenforce = true\ndefault-subject = "repo-a"\n')
        os.mknod(host.directory / "card", 0o20666, os.makedev(240, 9))
        spec = json.loads(host.spec.read_text())
        nodes = [{"path": "/dev/x", "hostPath": str(host.directory / "card")}]
        spec["devices"].append({"name": "card", "containerEdits": {"deviceNodes": nodes}})
        host.spec.write_text(json.dumps(spec))
        self.grant("repo-a")
        host.create()  # it leaves the needles, by which the launcher knows that grants are enforced

    def grant(self, subject: str, device: str = DEVICE) -> None:
        Store().add(subject, [device], lambda: directories.read(["/etc/cdi"]))
        time.sleep(SETTLED)

    def create(self, *, asks: bool = False, **linux: Any) -> subprocess.CompletedProcess[str]:
        """A create that the test looks at by its exit status and its message."""
        bundle = self.host.directory / f"plain{time.monotonic_ns()}"
        (bundle / "rootfs").mkdir(parents=True)
        config = copy.deepcopy(CONFIG)
        config["linux"].update(linux)
        config["annotations"] = {"cdi.k8s.io/x": DEVICE} if asks else {}
        (bundle / "config.json").write_text(json.dumps(config))
        words = [NAME, "--root", "/run/repeat", "create", "--bundle", str(bundle), bundle.name]
        return subprocess.run(
            words, executable=self.host.launcher, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def enforced(host: Host) -> Iterator[Enforced]:
    yield Enforced(host)
    SETTINGS.unlink()
    for path in (*SETTINGS.parent.glob("grants*"), Path("/var/log/shim/audit.jsonl")):
        path.unlink(missing_ok=True)


def test_a_granted_create_is_repeated_while_the_grants_are_unchanged(enforced: Enforced) -> None:
    host = enforced.host
    assert not host.create().is_repeated
    repeated = host.create()
    assert (repeated.is_repeated, repeated.record["subject"]) == (True, "repo-a")
    enforced.grant("repo-b")
    assert not host.create().is_repeated, "the grants have changed"
    assert host.create().is_repeated
    Store().revoke("repo-a", [DEVICE])
    done = enforced.create(asks=True)
    assert done.returncode == 1
    assert f"GRANT_MISSING: {DEVICE} is not granted to repo-a" in done.stderr
    assert f"shim grant add repo-a --device {DEVICE}" in done.stderr


def test_an_exclusive_device_is_reserved_and_not_repeated(enforced: Enforced) -> None:
    Store().add("repo-a", [DEVICE], lambda: directories.read(["/etc/cdi"]), exclusive=True)
    time.sleep(SETTLED)
    assert not enforced.host.create().is_repeated
    done = enforced.create(asks=True)
    assert done.returncode == 1
    assert f"GRANT_HELD: {DEVICE} is granted exclusively, and the container c2 has it" in done.stderr


def test_a_create_with_devices_of_its_own_is_not_repeated(enforced: Enforced) -> None:
    host = enforced.host
    config = copy.deepcopy(CONFIG)
    config["linux"]["devices"] = [{**NODE, "minor": 77}]  # of no CDI device
    assert host.repeat().is_repeated
    assert not host.create(config=config).is_repeated
    assert not host.create(config=config).is_repeated
    assert enforced.create(asks=True, devices=[NODE]).returncode == 1


def test_what_was_decided_without_enforcement_is_not_repeated_with_it(enforced: Enforced) -> None:
    text = SETTINGS.read_text()
    SETTINGS.write_text("")
    time.sleep(SETTLED)
    enforced.host.create()
    assert enforced.host.repeat().is_repeated
    SETTINGS.write_text(text)
    time.sleep(SETTLED)
    assert not enforced.host.create().is_repeated


RULE = {"allow": True, "type": "c", "major": 240, "minor": 9, "access": "rw"}
REFUSED = "GRANT_MISSING: v.example/repeat=card is not granted to repo-a (c 240:9 is in the update)"


def update(host: Host, *rules: dict[str, Any], way: str = "file") -> subprocess.CompletedProcess[str]:
    """An update of a container without a record; the low-level runtime prints what it reads on standard input."""
    reader, file = host.directory / "reader", host.directory / "resources.json"
    reader.write_text("#!/bin/sh\nexec cat\n")
    reader.chmod(0o755)
    LINK.unlink()
    LINK.symlink_to(reader)
    file.write_text(json.dumps({"devices": [*CONFIG["linux"]["resources"]["devices"], *rules]}))
    words = [NAME, "update", "--resources", "-" if way == "input" else str(file), "c9"]
    with file.open() as given:
        return subprocess.run(
            words, executable=host.launcher, stdin=given, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.mark.parametrize("way", ["file", "input"])
def test_an_update_that_opens_what_is_not_granted_is_refused(enforced: Enforced, installed: Path, way: str) -> None:
    host, text = enforced.host, Path(enforced.host.directory / "resources.json")
    assert update(host, way=way).returncode == 0
    done = update(host, RULE, way=way)
    assert done.returncode == 1
    assert REFUSED in done.stderr
    line = json.loads(Path("/var/log/shim.log").read_text().splitlines()[-1])
    assert (line["verb"], line["outcome"], line["findings"][0]["id"]) == ("update", "failed", "GRANT_MISSING")
    enforced.grant("repo-a", "v.example/repeat=card")
    done = update(host, RULE, way=way)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == text.read_text(), "the low-level runtime reads all of it"
    Store().revoke("repo-a", ["v.example/repeat=card"])
    interpreter = own_interpreter(host, installed)
    assert update(host, RULE, way=way).returncode == 1
    interpreter.unlink()
    assert update(host, RULE, way=way).returncode == 1
    done = update(host, way=way)
    assert (done.returncode, done.stdout) == (0, text.read_text()), "nothing to judge, so no Python"


def test_without_python_what_has_no_device_starts_and_what_has_one_does_not(
    enforced: Enforced, installed: Path
) -> None:
    interpreter = own_interpreter(enforced.host, installed)
    assert enforced.create().returncode == 0
    assert enforced.create(devices=[NODE]).returncode == 1
    enforced.grant("repo-a", "v.example/repeat=card")
    assert enforced.create(devices=[NODE]).returncode == 0
    interpreter.unlink()
    assert enforced.create().returncode == 0
    assert enforced.create(devices=[NODE]).returncode == 1
    assert enforced.create(resources={}).returncode == 1


@pytest.mark.parametrize(
    ("table", "is_repeated"),
    [
        (f'[grants.runtimes]\n{NAME} = "repo-a"', True),
        ('[grants.bundles]\n"/none/*" = "repo-b"', False),
        ('[grants.cgroups]\n"/none/*" = "repo-b"', False),
        ('[grants.pod-namespaces]\nnone = "repo-b"', False),
        ('[grants.namespaces]\nnone = "repo-b"', True),
    ],
)
def test_a_create_is_repeated_where_the_next_one_has_the_same_subject(
    enforced: Enforced, table: str, *, is_repeated: bool
) -> None:
    """Bundle, cgroup and Pod differ from create to create, and are in no question of the launcher's."""
    SETTINGS.write_text(f"{SETTINGS.read_text()}{table}\n")
    time.sleep(SETTLED)
    enforced.host.create()
    assert enforced.host.repeat().is_repeated is is_repeated
