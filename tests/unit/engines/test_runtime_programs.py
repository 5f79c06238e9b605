"""Programs of runtimes, looked for as the engine does: by path, or by name in the PATH of its daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.base.findings import Finding
from shim.engines import verify
from shim.engines.table import ENGINES
from shim.host.host import Daemon, Host

HEADER = '[plugins."io.containerd.grpc.v1.cri".containerd'
CONTAINERD = f'version = 2\n{HEADER}.runtimes.x]\nruntime_type = "io.containerd.runc.v2"\n'
# engine -> its daemon, file, a text in which the runtime x, the default, has the program PROGRAM
FILES = {
    "containerd": (
        "containerd",
        "/etc/containerd/config.toml",
        f'{CONTAINERD}{HEADER}.runtimes.x.options]\nBinaryName = "PROGRAM"\n{HEADER}]\ndefault_runtime_name = "x"\n',
    ),
    "docker": (
        "dockerd",
        "/etc/docker/daemon.json",
        '{"default-runtime": "x", "runtimes": {"x": {"path": "PROGRAM"}, "runc-is-here": {"path": "/usr/bin/runc"}}}',
    ),
    "crio": (
        "crio",
        "/etc/crio/crio.conf",
        '[crio.runtime]\ndefault_runtime = "x"\n[crio.runtime.runtimes.x]\nruntime_path = "PROGRAM"\n',
    ),
    "podman": (
        "podman",
        "/etc/containers/containers.conf",
        '[engine]\nruntime = "x"\n[engine.runtimes]\nx = ["PROGRAM"]\n',
    ),
}


def host_with(root: Path, engine: str, program: str, path: str = "") -> Host:
    """A machine with runc in /usr/bin, /usr/local/bin/toy, /opt/bin/tool, and the engine's daemon with this PATH."""
    daemon, file, text = FILES[engine]
    for name in ("usr/bin/runc", f"usr/bin/{daemon}", "usr/local/bin/toy", "opt/bin/tool", "usr/bin/crun"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
        (root / name).chmod(0o755)
    daemons = [Daemon(7, (f"/usr/bin/{daemon}",), 0.0, path=path)] if path else []
    return Host(str(root), {file: text.replace("PROGRAM", program).encode()}, daemons)


def missing(host: Host, engine: str, name: str = "shim") -> list[Finding]:
    """RUNTIME_BINARY_MISSING, as verify has it."""
    of = ENGINES[engine]
    findings = verify.findings(host, of, of.locate(host), name)
    return [finding for finding in findings if finding.id == "RUNTIME_BINARY_MISSING"]


# engine, PATH of the daemon, the program, what is wrong with it
CASES = {
    "docker, nowhere": ("docker", "", "nothing", "nothing, which is missing"),
    "docker, in no directory of dockerd's": (
        "docker",
        "/usr/bin:/bin",
        "toy",
        "toy, which is in no directory of the PATH of the running daemon (process 7): /usr/bin:/bin; there is "
        "/usr/local/bin/toy",
    ),
    "docker, in a directory of dockerd's alone": ("docker", "/usr/bin:/opt/bin", "tool", ""),
    "docker, dockerd does not run": ("docker", "", "toy", ""),
    "docker, by path": ("docker", "/usr/bin", "/usr/local/bin/toy", ""),
    "docker, by a path that is missing": ("docker", "/usr/bin", "/opt/gone", "/opt/gone, which is missing"),
    "containerd, nowhere": ("containerd", "", "nothing", "nothing, which is missing"),
    "containerd, in no directory of its own": (
        "containerd",
        "/usr/bin",
        "toy",
        "toy, which is in no directory of the PATH of the running daemon (process 7): /usr/bin; there is "
        "/usr/local/bin/toy",
    ),
    "containerd, in a directory of its own": ("containerd", "/opt/bin", "tool", ""),
    "containerd, none named": (
        "containerd",
        "/opt/bin",
        "",
        "runc, which is in no directory of the PATH of the running daemon (process 7): /opt/bin; there is "
        "/usr/bin/runc",
    ),
    "CRI-O searches no PATH for a path": (
        "crio",
        "/usr/local/bin",
        "toy",
        "toy, which is no absolute path: CRI-O looks for it in its working directory /, not in PATH",
    ),
    "CRI-O, from its working directory": ("crio", "/usr/bin", "usr/local/bin/toy", ""),
    "CRI-O, none named: by the runtime's name": (
        "crio",
        "/usr/bin",
        "",
        "x, which is in no directory of the PATH of the running daemon (process 7): /usr/bin",
    ),
    "podman searches PATH for the name alone": (
        "podman",
        "",
        "toy",
        "toy, which is no absolute path, and no program x is in PATH",
    ),
    "podman, by path": ("podman", "", "/usr/local/bin/toy", ""),
}


@pytest.mark.parametrize(("engine", "path", "program", "fault"), CASES.values(), ids=CASES)
def test_c2_a_program_that_the_engine_does_not_find_is_reported(
    tmp_path: Path, engine: str, path: str, program: str, fault: str
) -> None:
    """A program by name alone was never looked for, even where it was that of the default runtime."""
    findings = missing(host_with(tmp_path, engine, program, path), engine)
    assert [finding.text for finding in findings] == ([f"the runtime x has the program {fault}"] if fault else [])
    for finding in findings:
        assert finding.path == FILES[engine][1]
        assert finding.remedy.startswith("install the program, or write the right path"), (
            "no configure of ours mends it"
        )


def test_c2_a_runtime_that_inherits_the_default_runtime_has_its_program(tmp_path: Path) -> None:
    """OpenShift's high-performance names no program, and needs none of its own name."""
    host = host_with(tmp_path, "crio", "/usr/bin/runc")
    inherits = b"[crio.runtime.runtimes.high-performance]\ninherit_default_runtime = true\n"
    host = host.with_files({"/etc/crio/crio.conf.d/50.conf": inherits})
    assert not missing(host, "crio")
    alone = host.with_files({"/etc/crio/crio.conf.d/50.conf": inherits.replace(b"true", b"false")})
    assert [finding.line for finding in missing(alone, "crio")] == [1]


def test_c2_a_registration_of_ours_by_name_is_looked_up_as_well(tmp_path: Path) -> None:
    """`"shim": {"path": "shim"}`, written by hand, while /usr/local/bin is not in dockerd's PATH."""
    (found,) = missing(host_with(tmp_path, "docker", "toy", "/usr/bin"), "docker", "x")
    assert "which is in no directory of the PATH" in found.text
    assert found.remedy == "write its absolute path; `shim runtime configure` does"
    assert not missing(host_with(tmp_path, "docker", "toy", "/usr/local/bin"), "docker", "x")
