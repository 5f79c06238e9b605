"""One broken link at a time: each gives its finding, and no other ERROR; a healthy machine gives none."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from unit.discover import acme
from unit.doctor.hosts import DAEMON, KIND, LIBRARY, SPEC, Patient, errors, ids

from shim.base.findings import ERROR, NOTE, TABLE, WARNING
from shim.host.host import Daemon, Host

Harm = Callable[[Patient], object]


def test_a_healthy_machine_has_nothing_wrong(patient: Patient) -> None:
    report = patient.examine()
    assert ids(report) <= {"SOURCE_OFF", "CDI_OFF"}
    assert {check.link for check in report.checks} >= {"module", "nodes", "library", "spec", "directory", "result"}
    assert {check.link for check in report.checks} >= {"registration", "default", "request"}
    assert report.to_json()["ok"] is True


def _no_nodes(patient: Patient) -> None:
    for name in ("0", "1"):
        patient.path(f"/dev/acme/{name}").unlink()
    patient.write(acme.WAITS, "the module acme")


def _renumber(patient: Patient) -> None:
    patient.edits(deviceNodes=[{"path": "/dev/acme/0", "major": 239, "minor": 1, "type": "c"}])


def _access_list(patient: Patient) -> None:
    entries = ((1, 6, 0xFFFFFFFF), (2, 7, 1000), (4, 4, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
    packed = b"".join(
        tag.to_bytes(2, "little") + may.to_bytes(2, "little") + id.to_bytes(4, "little") for tag, may, id in entries
    )
    os.setxattr(patient.path(SPEC), "system.posix_acl_access", b"\2\0\0\0" + packed)


def _hook(path: str) -> Harm:
    return lambda patient: patient.edits(hooks=[{"hookName": "createContainer", "path": path}])


def _weak_hook(patient: Patient) -> None:
    patient.program("/opt/hook")
    patient.path("/opt/hook").chmod(0o777)
    _hook("/opt/hook")(patient)


def _node_that_is_a_file(patient: Patient) -> None:
    patient.path("/dev/acme/0").unlink()
    patient.write("/dev/acme/0", "")


def _same_device_twice(patient: Patient) -> None:
    patient.write("/var/run/cdi/copy.yaml", patient.path(SPEC).read_text().replace(KIND, "v.example/b"))
    patient.write("/var/run/cdi/copy2.yaml", patient.path(SPEC).read_text().replace(KIND, "v.example/b"))


def _daemon_changed(patient: Patient) -> None:
    patient.options = {"daemons": [Daemon(7, ("/usr/bin/dockerd",), 1.0)]}


def _closed(patient: Patient) -> None:
    patient.path("/dev/acme/1").chmod(0o660)
    patient.options |= {"user": 1000, "environment": {"HOME": "/home/user"}}
    patient.write("/home/user/.config/docker/daemon.json", patient.path(DAEMON).read_text())


def _hide(patient: Patient) -> None:
    patient.options = {"daemons": [Daemon(7, ("/usr/bin/dockerd",), 9e9)]}
    patient.link("/proc/self/ns/mnt", "mnt:[1]")
    patient.link("/proc/7/ns/mnt", "mnt:[2]")
    patient.path("/proc/7/root/etc").mkdir(parents=True)


def _context(patient: Patient) -> None:
    patient.write("/root/.docker/config.json", '{"currentContext": "desktop-linux"}')
    patient.options["environment"] = {"HOME": "/root"}


def _old_engine(patient: Patient) -> None:
    patient.version = (25, 0)
    patient.spec("/etc/cdi/o.json", cdiVersion="1.0.0")
    patient.replace(DAEMON, '{"runtimes"', '{"features": {"cdi": true}, "runtimes"')


def _without_specs(patient: Patient) -> None:
    patient.path(SPEC).unlink()
    for path in patient.path("/var/lib/shim/generated").iterdir():
        path.unlink()


def _other_runtime(patient: Patient) -> None:
    patient.program("/opt/crun")
    patient.relink("/etc/shim/low-level/shim", "/opt/crun")


def _selinux(patient: Patient) -> None:
    patient.write("/sys/fs/selinux/enforce", "1")
    patient.write("/sys/fs/selinux/booleans/container_use_devices", "0 0")


def _two_directories(patient: Patient) -> None:
    patient.spec("/etc/cdi/o.json")
    patient.spec("/var/run/cdi/o.json")


# What is wrong -> how it comes about, and the finding with its level
BROKEN: dict[str, tuple[Harm, str, str]] = {
    "the module is not loaded": (_no_nodes, "MODULE_MISSING", ERROR),
    "a device does not answer": (lambda p: p.write(acme.BROKEN, "acme 1: no answer"), "DISCOVERY_INCOMPLETE", ERROR),
    "a node is gone": (lambda p: p.path("/dev/acmectl").unlink(), "NODE_UNUSABLE", ERROR),
    "a node is a file": (_node_that_is_a_file, "NODE_UNUSABLE", ERROR),
    "a node has another number": (_renumber, "DEVNUM_STALE", WARNING),
    "a device came": (lambda p: acme.node(p.top, "acme/2", 3), "SPEC_STALE", WARNING),
    "the driver was updated": (lambda p: p.move(LIBRARY, f"{acme.LIBRARIES}/libcuda.so.535.2"), "SPEC_STALE", ERROR),
    "a library is gone": (lambda p: p.path(LIBRARY).unlink(), "MOUNT_MISSING", ERROR),
    "no spec was written": (_without_specs, "SPEC_ABSENT", ERROR),
    "a spec was removed": (lambda p: p.path(SPEC).unlink(), "SPEC_ABSENT", ERROR),
    "a spec is cut off": (lambda p: p.write(SPEC, "cdiVersion: [\n"), "SPEC_SYNTAX", ERROR),
    "a spec is no spec": (lambda p: p.replace(SPEC, "kind:", "sort:"), "SPEC_INVALID", ERROR),
    "a spec has a wrong version": (lambda p: p.spec("/etc/cdi/o.json", cdiVersion="0.6"), "SPEC_INVALID", ERROR),
    "a spec is a FIFO": (lambda p: os.mkfifo(p.path("/var/run/cdi/x.json")), "SPEC_UNREADABLE", ERROR),
    "a spec leads nowhere": (lambda p: p.link("/etc/cdi/x.json", "/gone"), "SPEC_UNREADABLE", ERROR),
    "a spec is for root alone": (lambda p: p.path(SPEC).chmod(0o600), "SPEC_PRIVATE", WARNING),
    "a spec ends in .yml": (lambda p: p.spec("/etc/cdi/x.yml"), "SPEC_NAME", WARNING),
    "everybody can write a spec": (lambda p: p.path(SPEC).chmod(0o666), "SPEC_UNTRUSTED", ERROR),
    "a spec belongs to a user": (lambda p: os.chown(p.path(SPEC), 1000, 0), "SPEC_UNTRUSTED", ERROR),
    "a user can write a spec by its access list": (_access_list, "SPEC_UNTRUSTED", ERROR),
    "everybody can write a directory": (lambda p: p.path("/var/run/cdi").chmod(0o777), "SPEC_UNTRUSTED", ERROR),
    "a directory is a file": (lambda p: p.write("/etc/cdi", ""), "SPEC_DIR_UNREADABLE", ERROR),
    "two specs have a device": (_same_device_twice, "SPEC_CONFLICT", ERROR),
    "another generator has the kind": (
        lambda p: p.write("/etc/cdi/acme.yaml", p.path(SPEC).read_text()),
        "SPEC_TAKEN",
        ERROR,
    ),
    "a hook's program is gone": (_hook("/opt/gone"), "HOOK_MISSING", ERROR),
    "everybody can write a hook's program": (_weak_hook, "HOOK_UNTRUSTED", ERROR),
    "a target is in /proc": (
        lambda p: p.edits(mounts=[{"hostPath": "/etc", "containerPath": "/proc/x", "options": ["bind"]}]),
        "TARGET_FORBIDDEN",
        ERROR,
    ),
    "a mount goes back to the host": (
        lambda p: p.edits(mounts=[{"hostPath": "/etc", "containerPath": "/x", "options": ["bind", "rshared"]}]),
        "MOUNT_OPTION",
        ERROR,
    ),
    "a hook runs at a stage that is gone": (
        lambda p: p.edits(hooks=[{"hookName": "prestart", "path": "/usr/bin/runc"}]),
        "HOOK_STAGE",
        WARNING,
    ),
    "the runtime is not registered": (lambda p: p.write(DAEMON, "{}"), "HANDLER_MISSING", ERROR),
    "the engine's file is cut off": (lambda p: p.write(DAEMON, "{"), "ENGINE_CONFIG_SYNTAX", ERROR),
    "the launcher is gone": (
        lambda p: p.write(DAEMON, '{"runtimes": {"shim": {"path": "/opt/shim"}}}'),
        "RUNTIME_BINARY_MISSING",
        ERROR,
    ),
    "everybody can write the launcher": (
        lambda p: p.path("/usr/local/bin/shim").chmod(0o777),
        "LAUNCHER_UNTRUSTED",
        ERROR,
    ),
    "the low-level link leads nowhere": (
        lambda p: p.relink("/etc/shim/low-level/shim", "/opt/runc"),
        "LOWLEVEL_MISSING",
        ERROR,
    ),
    "the low-level link leads to another runtime": (
        _other_runtime,
        "LOWLEVEL_MISMATCH",
        WARNING,
    ),
    "everybody can write the engine's file": (lambda p: p.path(DAEMON).chmod(0o666), "CONFIG_UNTRUSTED", WARNING),
    "shim is the default by hand": (
        lambda p: p.replace(DAEMON, '{"runtimes"', '{"default-runtime": "shim", "runtimes"'),
        "RUNTIME_DEFAULT",
        WARNING,
    ),
    "the engine was not restarted": (_daemon_changed, "RESTART_NEEDED", WARNING),
    "the configuration is cut off": (lambda p: p.write("/etc/shim/config.toml", "[cdi\n"), "SETTINGS", ERROR),
    "the configuration has an unknown key": (
        lambda p: p.write("/etc/shim/config.toml", "[cdi]\ncolour = 1\n"),
        "SETTINGS_UNKNOWN_KEY",
        WARNING,
    ),
    "images may ask": (
        lambda p: p.write("/etc/shim/config.toml", '[sources]\nenvironment = "any"\n'),
        "SOURCE_ANY",
        WARNING,
    ),
    "the engine reads another directory": (
        lambda p: p.replace(DAEMON, '{"runtimes"', '{"features": {"cdi": true}, "cdi-spec-dirs": ["/x"], "runtimes"'),
        "SPEC_DIRS_DIFFER",
        WARNING,
    ),
    "SELinux forbids devices": (
        _selinux,
        "SELINUX_DEVICES",
        WARNING,
    ),
    "a file of a lower directory is hidden": (
        _two_directories,
        "SPEC_SHADOWED",
        NOTE,
    ),
    "the engine sees other files": (_hide, "SPEC_DIR_HIDDEN", ERROR),
    "docker talks to another machine": (
        lambda p: p.options.update(environment={"DOCKER_HOST": "tcp://other:2376"}),
        "DOCKER_CONTEXT",
        NOTE,
    ),
    "docker has another context": (_context, "DOCKER_CONTEXT", NOTE),
    "the engine's CDI reads no such version": (_old_engine, "SPEC_TOO_NEW", WARNING),
    "the interpreter is gone": (
        lambda p: p.write("/usr/local/lib/shim/launch", "/opt/python3\n/usr/local/lib/shim/1-1\n"),
        "SHIM_BROKEN",
        ERROR,
    ),
    "a user may not open a node": (_closed, "NODE_DENIED", ERROR),
    "systemd finds no node": (lambda p: p.path("/run/systemd/system").mkdir(parents=True), "DEVCHAR_MISSING", WARNING),
    "NVIDIA's toolkit makes no rules": (
        lambda p: p.write("/etc/nvidia-container-runtime/config.toml", "[nvidia-container-cli]\nno-cgroups = true\n"),
        "CGROUPS_OFF",
        WARNING,
    ),
}


@pytest.mark.parametrize(("harm", "id", "level"), BROKEN.values(), ids=BROKEN)
def test_a_broken_link_has_its_finding(patient: Patient, harm: Harm, id: str, level: str) -> None:
    harm(patient)
    report = patient.examine()
    shown = [(finding.level, finding.id, str(finding)) for finding in report.findings]
    assert errors(report) == ({id} if level == ERROR else set()), shown
    assert (level, id) in [(finding.level, finding.id) for finding in report.findings], shown
    assert all(finding.remedy for finding in report.findings)
    assert not any(str(patient.top) in str(finding) for finding in report.findings), shown


def test_a_daemon_of_another_user_cannot_be_looked_into(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    _hide(patient)
    exists = Host.exists

    def closed(host: Host, path: str) -> bool:
        if "/root/" in path:
            raise PermissionError(13, "Permission denied", path)
        return exists(host, path)

    monkeypatch.setattr(Host, "exists", closed)
    assert errors(patient.examine()) == set()


def test_there_are_many() -> None:
    assert len(BROKEN) >= 40
    assert {id for _, id, _ in BROKEN.values()} <= set(TABLE)
