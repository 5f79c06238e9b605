"""S04, S05, S11, S15 to S17: what a hook's process does and cannot be made to do, whatever its image is."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from security import evilroot
from security.stage import SHIM, Stage
from unit.native.elves import library
from unit.native.trees import build, picture

HOOKS = list(evilroot.WORDS)
EVERY_HOOK = [*HOOKS, *(word for hook in HOOKS for word in evilroot.WORDS[hook])]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def write_bundle(bundle: Path, root: Path) -> bytes:
    """The state of a container with this root."""
    bundle.mkdir(exist_ok=True)
    (bundle / "config.json").write_text(json.dumps({"root": {"path": str(root)}}))
    return json.dumps({"ociVersion": "1.0.2", "id": "c", "pid": 1, "bundle": str(bundle)}).encode()


# --- S04: no other root, no other namespace, no other program ---

FORBIDDEN = ["execve", "execveat", "chroot", "pivot_root", "setns", "unshare", "fork", "vfork", "clone", "clone3"]
FORBIDDEN += ["socket", "connect", "ptrace", "mount", "umount2", "fchdir"]


def calls(trace: Path, command: list[str | Path], stdin: bytes) -> list[str]:
    """The system calls of FORBIDDEN that a command makes after its start; a thread of its own process is none."""
    strace: list[str | Path] = [
        "strace",
        "-f",
        "-qq",
        "-o",
        trace,
        "-e",
        f"trace={','.join(FORBIDDEN)}",
        "-e",
        "signal=none",
    ]
    subprocess.run([*strace, *command], input=stdin, capture_output=True, timeout=120, check=False)
    seen = [re.sub(r"^\d+ +", "", line) for line in trace.read_text().splitlines()]
    seen = [line for line in seen if "resumed>" not in line and "+++" not in line]
    return [line for line in seen[1:] if "CLONE_THREAD" not in line]


@pytest.mark.parametrize("hooks", [*([hook] for hook in HOOKS), HOOKS], ids=lambda hooks: f"{len(hooks)}-{hooks[0]}")
@pytest.mark.parametrize("as_a_person", [False, True])
def test_a_hook_stays_where_it_is_and_runs_nothing(tmp_path: Path, hooks: list[str], as_a_person: bool) -> None:
    root = build(tmp_path / "root", {**evilroot.IMAGE, "sbin/ldconfig": "#!/bin/sh\n", "bin/sh": "", "evil.so": ""})
    for i in range(100):  # enough for a second thread
        (root / f"usr/lib/libn{i}.so.1.1").write_bytes(library(f"libn{i}.so.1"))
    for path in ("sbin/ldconfig", "bin/sh"):
        (root / path).chmod(0o755)
    state = write_bundle(tmp_path / "bundle", root)
    words = [*hooks, *(word for hook in hooks for word in evilroot.WORDS[hook])]
    command: list[str | Path] = [SHIM, "hook", *words, *(["--root", str(root)] if as_a_person else [])]
    assert calls(tmp_path / "trace", command, state) == []


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (["chroot", "ROOT", "/sbin/ldconfig"], "chroot"),
        (["unshare", "-m", "true"], "unshare"),
        (["sh", "-c", "/bin/true; true"], "execve"),
        (["nsenter", "--uts=/proc/self/ns/uts", "true"], "setns"),
    ],
)
def test_the_trace_sees_who_does_otherwise(tmp_path: Path, command: list[str], call: str) -> None:
    """The control."""
    root = build(tmp_path / "root", {})
    words: list[str | Path] = [word.replace("ROOT", str(root)) for word in command]
    assert any(line.startswith(call) for line in calls(tmp_path / "trace", words, b""))


@pytest.mark.parametrize("hooks", [["update-ldcache"], ["disable-device-node-modification", "update-ldcache"]])
def test_the_right_to_mount_is_gone_before_an_image_s_files_are_read(tmp_path: Path, hooks: list[str]) -> None:
    """A call of several hooks has the rights of each only as long as that one runs."""
    root = build(tmp_path / "root", evilroot.IMAGE)
    state = write_bundle(tmp_path / "bundle", root)
    strace = ["strace", "-f", "-o", f"{tmp_path}/trace", "-e", "trace=capset,openat2", "-e", "signal=none"]
    subprocess.run([*strace, SHIM, "hook", *hooks], input=state, capture_output=True, timeout=120, check=True)
    lines = (tmp_path / "trace").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if "ld.so" in line or "libc.so" in line)
    rights = [line for line in lines[:first] if "capset" in line]
    assert len(rights) == len(hooks)
    assert "CAP_DAC_OVERRIDE" in rights[-1]
    assert "CAP_SYS_ADMIN" not in rights[-1]
    assert ("CAP_SYS_ADMIN" in rights[0]) == (len(hooks) == 2)


CAP_CHOWN = 1 << 0


@pytest.mark.parametrize("no_new_privileges", [True, False])
def test_a_program_that_a_hook_started_would_have_no_more_rights_than_the_hook(no_new_privileges: bool) -> None:
    """So the bounding set need not be dropped, which took eighty system calls of each hook.

    The control: without no_new_privs root's next program has the whole bounding set.
    """
    libc = ctypes.CDLL(None)

    def give_up() -> None:
        if no_new_privileges:
            libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS of linux/prctl.h
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
        libc.capset(header, (ctypes.c_uint32 * 6)(CAP_CHOWN, CAP_CHOWN, 0, 0, 0, 0))

    status = subprocess.run(
        ["cat", "/proc/self/status"],
        preexec_fn=give_up,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {words[0]: int(words[1], 16) for words in map(str.split, status.splitlines()) if words[0].startswith("Cap")}
    assert found["CapBnd:"] > CAP_CHOWN
    assert (found["CapPrm:"] == CAP_CHOWN) == no_new_privileges


def test_a_hook_gives_up_its_rights_in_a_few_system_calls(tmp_path: Path) -> None:
    state = write_bundle(tmp_path / "bundle", build(tmp_path / "root", evilroot.IMAGE))
    strace = ["strace", "-f", "-qq", "-o", f"{tmp_path}/trace", "-e", "trace=prctl,capget,capset", "-e", "signal=none"]
    subprocess.run([*strace, SHIM, "hook", "update-ldcache"], input=state, capture_output=True, timeout=120, check=True)
    done = [line.split()[1].partition("(")[0] for line in (tmp_path / "trace").read_text().splitlines()]
    assert done == ["prctl", "prctl", "capget", "capset"]  # not to be traced, no_new_privs


# --- S05: the image's own ldconfig ---


def spoil_ldconfig(root: Path, canary: Path) -> list[Path]:
    """Every program by which somebody could want to make a cache: each writes a canary, and calls a listener."""
    made = []
    script = f"#!/bin/sh\n: > {canary}/$$\nexec 3<>/dev/tcp/127.0.0.1/9 || true\n"
    for path in ("sbin/ldconfig", "sbin/ldconfig.real", "usr/sbin/ldconfig", "bin/sh", "lib64/ld-linux-x86-64.so.2"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(script)
        (root / path).chmod(0o755)
        made.append(root / path)
    return made


def test_the_image_s_ldconfig_is_not_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.mkdir()
    root = build(tmp_path / "root", evilroot.IMAGE)
    programs = spoil_ldconfig(root, canary)
    state = write_bundle(tmp_path / "bundle", root)
    done = subprocess.run([SHIM, "hook", *EVERY_HOOK], input=state, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(canary.iterdir()) == []
    for program in programs:  # the control: each is seen when somebody runs it
        subprocess.run([program], capture_output=True, check=False)
    assert len(list(canary.iterdir())) == len(programs)


# --- S11: volumes ---

VOLUMES = ["usr/lib", "etc", "etc/ld.so.conf.d", "opt/gpu", "dev", "usr/local/cuda/compat"]


def with_volume(tmp_path: Path, place: str, command: str) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Run a command while a directory of another container is mounted in an image; whether that directory changed."""
    root = build(tmp_path / "root", evilroot.IMAGE)
    volume = tmp_path / "volume"
    (root / place).rename(volume)
    (root / place).mkdir()
    (volume / "libv.so.1").symlink_to("none")  # stale: whoever cleans up takes it away
    (tmp_path / "state").write_bytes(write_bundle(tmp_path / "bundle", root))
    before = picture(volume)
    script = f"mount --make-rprivate / && mount --bind {volume} {root}/{place} && {command} < {tmp_path}/state"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    return done, picture(volume) != before


@pytest.mark.parametrize("place", VOLUMES)
def test_a_volume_is_not_written_into(tmp_path: Path, place: str) -> None:
    done, changed = with_volume(tmp_path, place, f"{SHIM} hook {' '.join(EVERY_HOOK)}")
    assert (done.returncode, changed) == (0, False)
    lines = done.stderr.splitlines()
    assert all(line.endswith("another file system is mounted there") for line in lines)
    assert bool(lines) == (place not in {"usr/lib", "usr/local/cuda/compat"})  # there only links are left out


@pytest.mark.parametrize("place", VOLUMES)
def test_who_joins_paths_writes_into_a_volume(tmp_path: Path, place: str) -> None:
    """The control."""
    _, changed = with_volume(tmp_path, place, f"touch {tmp_path}/root/{place}/written")
    assert changed


# --- S15, S16, S17: /proc and what covers a file of it ---

PARAMS = "Mobile: 1\nModifyDeviceFiles: 1\n"


def cover(tmp_path: Path, arrange: str, mask: str) -> tuple[str, str]:
    """Cover the driver's parameters of a container; what it says, and where the mount over the parameters is from.

    Arguments:
        arrange: shell commands that make the container's /proc, as PROC.
        mask: the command that covers, with the state on stdin.
    """
    root = build(tmp_path / "root", {"proc": None, "dev": None, "etc": None})
    (root / "dev/null").symlink_to("/etc/image-s-choice")
    (root / "etc/image-s-choice").write_text("ModifyDeviceFiles: 7\n")
    (tmp_path / "state").write_bytes(write_bundle(tmp_path / "bundle", root))
    proc = root / "proc"
    script = f"""
        mount --make-rprivate /
        mount -t tmpfs tmpfs {proc}
        mkdir -p {proc}/driver/nvidia
        echo image > {proc}/driver/nvidia/params
        {arrange.replace("PROC", str(proc))}
        mount -t tmpfs tmpfs /proc/driver
        mkdir /proc/driver/nvidia
        printf '{PARAMS}' > /proc/driver/nvidia/params
        {mask.replace("ROOT", str(root))} < {tmp_path}/state >&2
        tail -n 1 /proc/self/mountinfo | cut -d ' ' -f 4,5,6
    """
    command = ["unshare", "-m", "sh", "-ec", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, done.stdout.strip()


MASK = f"{SHIM} hook disable-device-node-modification"
KERNEL_S = "mount --bind /proc/version PROC/driver/nvidia/params"
NAIVE_MASK = "mount --bind -o ro $(readlink -f ROOT/dev/null | sed 's,^/etc,ROOT/etc,') ROOT/proc/driver/nvidia/params"


def test_what_covers_is_a_file_of_the_host(tmp_path: Path) -> None:
    """Not the container's /dev/null, which its image made a link (CVE-2025-31133)."""
    said, mounted = cover(tmp_path, KERNEL_S, MASK)
    source, target, options = mounted.split()
    assert said == ""
    assert source.endswith(f"{tmp_path}/bundle/shim-nvidia-params")
    assert target == f"{tmp_path}/root/proc/driver/nvidia/params"
    assert options.startswith("ro,nosuid,nodev,noexec")
    made = (tmp_path / "bundle/shim-nvidia-params").stat()
    assert (made.st_uid, made.st_mode & 0o777) == (0, 0o444)


def test_a_container_s_null_would_have_covered(tmp_path: Path) -> None:
    """The control: the careless way mounts what the image chose."""
    _, mounted = cover(tmp_path, KERNEL_S, NAIVE_MASK)
    assert mounted.split()[0].endswith("/etc/image-s-choice")


@pytest.mark.parametrize(
    ("name", "arrange"),
    [
        ("a tmpfs with the files of a proc", ":"),
        ("a link to a harmless file of the kernel", "ln -sf /proc/version PROC/driver/nvidia/params"),
        ("a link up", "rm -r PROC/driver; ln -s ../../../../../../../../../proc/driver PROC/driver"),
        ("a link by way of a process", "rm -r PROC/driver; ln -s /proc/self/root/proc/driver PROC/driver"),
        ("a directory", "rm PROC/driver/nvidia/params; mkdir PROC/driver/nvidia/params"),
        ("a FIFO", "rm PROC/driver/nvidia/params; mkfifo PROC/driver/nvidia/params"),
        (
            "a directory of the kernel",
            "rm PROC/driver/nvidia/params; mkdir PROC/driver/nvidia/params;"
            " mount --bind /proc/sys/kernel PROC/driver/nvidia/params",
        ),
        ("nothing", "rm -r PROC/driver"),
    ],
)
def test_a_proc_that_is_not_the_kernel_s_is_left_alone(tmp_path: Path, name: str, arrange: str) -> None:
    said, mounted = cover(tmp_path, arrange, MASK)
    assert "shim-nvidia-params" not in mounted, name
    assert not (tmp_path / "bundle/shim-nvidia-params").exists()
    quiet = {"nothing", "a link by way of a process"}  # within the image these lead nowhere
    assert ("is not the kernel's, so it is not covered" in said) == (name not in quiet)


# --- the process itself ---


@pytest.mark.parametrize("program", ["hook", "sleep"])
def test_nobody_looks_into_a_hook(program: str) -> None:
    """Its capabilities are few, so a neighbour in a shared pid namespace could have more: the kernel lets none near it.

    The control is a process of the same user that says nothing about itself.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        place = Path(directory)
        place.chmod(0o755)
        (place / "shim").write_bytes(SHIM.read_bytes())
        (place / "shim").chmod(0o755)
        command = [f"{place}/shim", "hook", "update-ldcache"] if program == "hook" else ["sleep", "60"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, user=12345, group=12345)
        look = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "readlink", f"/proc/{child.pid}/root"]
        seen = "/"
        for _ in range(500 if program == "hook" else 1):  # it waits for its state; at first it may not have begun
            if seen:
                seen = subprocess.run(look, capture_output=True, text=True, check=False).stdout.strip()
        assert child.poll() is None
        child.kill()
        child.communicate()
    assert seen == ("/" if program == "sleep" else "")
