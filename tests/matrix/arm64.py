"""`make test-arm64`: shim for arm64, cross-built, and run by qemu in a root of Debian 13; prints a line for each step.

The root is unpacked, and no maintainer script of it is run. A program of arm64 is executed by qemu-user of the same
Debian, as binfmt_misc prescribes in a user namespace of this run alone (namespaces.py). Older versions of qemu do not
know openat2, by which hooks open every path: then nothing would be written, and comparisons of empty trees would pass.
So that is tested first.

Not run is what needs more of the machine than a user namespace: device nodes, engines, pods (tests/engines, kubernetes,
security, install, bench). What qemu-user itself cannot do is listed, test by test with its reason, in emulation.py; the
list is printed at the end with counts, and a test that is skipped for any other reason is a failure. A test that does
not end within emulation.LIMIT fails, and so does the run after LIMIT; then all that it started is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from matrix import emulation, roots
from matrix.__main__ import TESTED, counted
from matrix.roots import Machine

TOP = Path(__file__).parent.parent.parent
LOG = TOP / "build/matrix/arm64.log"
LIMIT = 5400  # seconds for all
SUITE = "trixie"
PACKAGES = (
    *("base-files", "bash", "coreutils", "curl", "dash", "diffutils", "findutils", "gcc", "git", "grep", "gzip"),
    *(
        "busybox-static",
        "hostname",
        "iproute2",
        "libc-bin",
        "libc6-dev",
        "libcap2",
        "linux-libc-dev",
        "mawk",
        "mount",
        "musl",
        "musl-dev",
    ),
    *(
        "procps",
        "python3",
        "python3-cffi-backend",
        "python3-dev",
        "python3-hypothesis",
        "python3-prctl",
        "python3-pytest",
    ),
    *("python3-venv", "python3-yaml", "sed", "strace", "tar", "util-linux"),
)
COMPILED = ("yaml", "_cffi_backend*.so", "prctl.py", "_prctl*.so")  # of Debian; the rest is of this environment
PLAIN = ("cffi", "click", "markdown_it", "mdurl", "pycparser", "pygments", "pynvml.py", "pyroute2", "rich")
COMPILER = "aarch64-linux-gnu-gcc"
MUSL = Path("/usr/lib/x86_64-linux-musl/musl-gcc.specs")
# magic and mask of an ELF file for EM_AARCH64; F: the interpreter is opened now, P: argv[0] is kept
BINFMT = (
    r":shim-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:@QEMU@:FP"
)
# Each group is a process of its own, beside the others
TESTS = (
    ("tests/unit/native",),
    ("tests/unit/hooks", "tests/unit/cdi", "tests/unit/base", "tests/unit/host"),
    ("tests/conformance",),
)
# Programs of this machine's architecture, which need no qemu: tests of the grammar read the help of these runtimes; and
# qemu has a second thread, with which no process may enter a mount namespace or make a user namespace
NATIVE = ("runc", "crun", "nsenter", "unshare")
PROGRAM = """#!/bin/sh
libraries=/x86/lib/x86_64-linux-gnu
exec $libraries/ld-linux-x86-64.so.2 --argv0 @NAME@ --library-path $libraries /x86/usr/bin/@NAME@ "$@"
"""
OPENAT2 = """
import ctypes, os, struct
how = ctypes.create_string_buffer(struct.pack("QQQ", 0x200000, 0, 0x10), 24)
call = ctypes.CDLL(None, use_errno=True).syscall
fd = call(ctypes.c_long(437), ctypes.c_long(-100), b"/usr/bin/python3", how, ctypes.c_long(24))
assert fd >= 0, os.strerror(ctypes.get_errno())
print(os.readlink(f"/proc/self/fd/{fd}"))
"""


def unpacked(name: str, architecture: str, packages: tuple[str, ...]) -> Path:
    """Packages of the suite, unpacked, which appear complete or not at all."""
    directory = Path(os.environ.get("ROOTS") or "/var/tmp/shim-roots") / f"{SUITE}-{name}"
    if not directory.is_dir():
        fresh = directory.with_name(f"{directory.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        directory.parent.mkdir(parents=True, exist_ok=True)
        words = ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture}"]
        words += [f"--include={','.join(packages)}", "--aptopt=Acquire::Check-Valid-Until false"]
        subprocess.run([*words, SUITE, fresh, roots.mirror()], check=True)
        _complete(fresh)
        fresh.rename(directory)
    return directory


def _complete(root: Path) -> None:
    """What maintainer scripts would have made, as far as it is needed."""
    for name in ("bin", "sbin", "lib"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for name, target in (("sh", "dash"), ("awk", "mawk"), ("cc", "gcc")):
        if (root / f"usr/bin/{target}").exists() and not (root / f"usr/bin/{name}").exists():
            (root / f"usr/bin/{name}").symlink_to(target)
    for name in ("proc", "sys", "dev", "run", "tmp", "root"):
        (root / name).mkdir(exist_ok=True)
    if not (root / "etc/passwd").exists():
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
        (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")


def cross_build(root: Path, scratch: Path) -> Path:
    """Build launcher and C core against the libraries of the root; the build directory."""
    tools = scratch / "tools"
    tools.mkdir(parents=True)
    specs = MUSL.read_text().replace("/usr/lib/x86_64-linux-musl", f"{root}/usr/lib/aarch64-linux-musl")
    specs = specs.replace("/usr/include/x86_64-linux-musl", f"{root}/usr/include/aarch64-linux-musl")
    (tools / "musl.specs").write_text(specs.replace("ld-musl-x86_64", "ld-musl-aarch64"))
    headers = f"{root}/usr/include/aarch64-linux-gnu"
    (tools / "musl-gcc").write_text(f'#!/bin/sh\nexec {COMPILER} "$@" -specs {tools}/musl.specs -idirafter {headers}\n')
    (tools / "musl-gcc").chmod(0o755)
    # the headers of Python are this machine's, but for the one of the architecture
    (own,) = Path(headers).glob("python3.*/pyconfig.h")
    python = scratch / f"include/aarch64-linux-gnu/python3.{sys.version_info[1]}"
    python.mkdir(parents=True)
    shutil.copy(own, python)
    words = [COMPILER, f"--sysroot={root}", f"-B{root}/usr/lib/aarch64-linux-gnu", f"-I{scratch}/include"]
    machine = "system = 'linux'\ncpu_family = 'aarch64'\ncpu = 'aarch64'\nendian = 'little'\n"
    (scratch / "cross.ini").write_text(
        f"[binaries]\nc = {words}\nstrip = 'aarch64-linux-gnu-strip'\n[host_machine]\n{machine}"
    )
    environment = {**os.environ, "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    build = scratch / "build"
    setup: list[str | Path] = [
        "meson",
        "setup",
        "--cross-file",
        scratch / "cross.ini",
        "--buildtype=release",
        build,
        TOP,
    ]
    ninja: list[str | Path] = ["ninja", "-C", build]
    for command in (setup, ninja):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return build


class Arm64(Machine):
    """A root of arm64 in use, whose programs qemu executes."""

    enter = (sys.executable, "-I", str(Path(__file__).with_name("namespaces.py")))
    overlay = ",userxattr"

    def __init__(self, root: Path, qemu: Path) -> None:
        tests = roots.make("bookworm", "tests", TESTED)
        super().__init__(root, {str(tests): "/x86"})
        for name in ("bin", "lib", "sbin"):  # a maintainer script would make them
            (self.upper / "usr/local" / name).mkdir(parents=True, exist_ok=True)
        (self.upper / "usr/bin").mkdir(exist_ok=True)
        for name in NATIVE:
            path = self.upper / "usr/bin" / name
            path.write_text(PROGRAM.replace("@NAME@", name))
            path.chmod(0o755)
        entry = BINFMT.replace("@QEMU@", str(qemu / "usr/bin/qemu-aarch64"))
        files = "proc/sys/fs/binfmt_misc"  # of the root: a file system that is mounted nowhere loses its entries
        self.prologue = f"mount -t binfmt_misc binfmt_misc {files}; printf %s '{entry}' >{files}/register"


def install(machine: Machine, build: Path) -> None:
    """An environment in /opt/shim, as pip would make it, and the source in /src."""
    machine.ok("/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", "/opt/shim")
    (modules,) = (machine.upper / "opt/shim/lib").glob("python3.*/site-packages")
    shutil.copytree(TOP / "shim", modules / "shim", ignore=shutil.ignore_patterns("__pycache__", "_core*"))
    shutil.copy(build / "native/_core.abi3.so", modules / "shim/hooks")
    shutil.copy(TOP / "docs/findings.md", modules / "shim/cli")
    shutil.copy(build / "native/shim", machine.upper / "opt/shim/bin/shim")
    (here,) = {Path(path) for path in sys.path if path.endswith("site-packages")}
    debian = machine.root / "usr/lib/python3/dist-packages"
    for directory, patterns in ((here, (*PLAIN, "cdi_shim-*.dist-info")), (debian, COMPILED)):
        for pattern in patterns:
            for path in directory.glob(pattern):
                to = modules / path.name
                shutil.copytree(path, to) if path.is_dir() else shutil.copy(path, to)
    source = machine.upper / "src"
    source.mkdir()
    files = subprocess.run(["git", "-C", TOP, "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-C", source, "-x"], input=files, check=True)
    where = f"/{modules.relative_to(machine.upper)}"
    python = "/opt/shim/bin/python"
    machine.ok(python, "-X", "no_debug_ranges", "/src/packaging/hot.py", where, f"{where}/shim/hot")
    machine.ok("ldconfig")


def created(machine: Machine) -> str:
    """A create with a device, and a runtime that prints its arguments; the environment of the container."""
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "example.com/test",
        "devices": [{"name": "one", "containerEdits": {"env": ["SHIM_TEST=one"]}}],
    }
    config = {"process": {"env": ["A=1"]}, "root": {"path": "rootfs"}}
    for path, text in (
        ("etc/cdi/test.json", json.dumps(spec)),
        ("bundle/config.json", json.dumps(config)),
        ("usr/local/bin/stub", '#!/bin/sh\necho "reached: $*"\n'),
    ):
        file = machine.upper / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    machine.ok("mkdir", "-p", "/etc/shim/low-level")
    machine.ok("ln", "-s", "/usr/local/bin/stub", "/etc/shim/low-level/shim")
    done = machine.ok("/opt/shim/bin/shim", "create", "--device", "example.com/test=one", "--bundle", "/bundle", "c1")
    variables: list[str] = json.loads((machine.upper / "bundle/config.json").read_text())["process"]["env"]
    if done != "reached: create --bundle /bundle c1\n" or variables != ["A=1", "SHIM_TEST=one"]:
        raise RuntimeError(f"create: {done}, {variables}")
    return " ".join(variables)


def answered(machine: Machine) -> str:
    """Call what a user calls, with the spec and the bundle of `created`; the commands, for the line that is printed.

    Raises RuntimeError: another exit status than expected, a traceback, or no expected word.
    """
    library = next((machine.root / "usr/lib/aarch64-linux-gnu").glob("libz.so.1.*"))
    for name in ("ours", "reference"):
        machine.copy(library, f"/{name}/usr/lib/{library.name}")
        (machine.upper / name / "etc").mkdir()
    for words, statuses, expected in (
        ("/opt/shim/bin/shim cdi list", (0,), "example.com/test=one"),
        ("/opt/shim/bin/shim cdi validate /etc/cdi/test.json", (0,), "test.json"),
        ("/opt/shim/bin/shim explain --bundle /bundle --device example.com/test=one", (0,), "SHIM_TEST"),
        ("/opt/shim/bin/shim doctor", (0, 1), "cdi"),
        ("/opt/shim/bin/shim device list", (0,), ""),
        ("/opt/shim/bin/shim hook update-ldcache --root /ours", (0,), ""),
        ("ldconfig -r /reference", (0,), ""),
        ("cmp /ours/etc/ld.so.cache /reference/etc/ld.so.cache", (0,), ""),
        ("ldconfig -r /ours -p", (0,), "libz.so.1 (libc6,AArch64) => /usr/lib/libz.so.1"),
    ):
        done = machine.run(*words.split())
        if done.returncode not in statuses or "Traceback" in done.stdout or expected not in done.stdout:
            raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout}")
    return "cdi list, cdi validate, explain, doctor, device list, hook update-ldcache (the same file as by ldconfig)"


def tested(machine: Machine, groups: tuple[tuple[str, ...], ...]) -> list[str]:
    """Run tests, each group in a process of its own, and print what was not run.

    Arguments:
        machine: with what `install` put there.
        groups: paths of tests.
    Returns:
        the counts of the last line of pytest for each group, "failed" among them where some did.
    """
    (modules,) = (machine.upper / "opt/shim/lib").glob("python3.*/site-packages")
    shutil.copy(emulation.__file__, modules / "shim_emulation.py")
    pytest = "/opt/shim/bin/python -P -m pytest -q -p shim_emulation -p no:cacheprovider --tb=short"
    outputs = [f"output{number}" for number in range(len(groups))]  # files, so that a run that hangs can be looked at
    script = "".join(
        f"( {pytest} {shlex.join(paths)} >{output} 2>&1; echo $? >{output}.status ) & "
        for paths, output in zip(groups, outputs, strict=True)
    )
    try:
        machine.ok("sh", "-c", f"{script}wait", cwd="/src")
    finally:
        printed = [(machine.upper / "src" / output).read_text("utf-8", "replace") for output in outputs]
        LOG.write_text("\n".join(printed), encoding="utf-8")
    reasons: Counter[str] = Counter()
    for number, reason in re.findall(r"^not run: (\d+) tests: (.*)", "\n".join(printed), re.MULTILINE):
        reasons[reason] += int(number)
    for reason, count in reasons.most_common():
        print(f"not run: {count} tests: {reason}")
    for line in re.findall(r"^(?:error: |FAILED |ERROR ).*", "\n".join(printed), re.MULTILINE):
        print(line)
    statuses = [int((machine.upper / "src" / f"{output}.status").read_text()) for output in outputs]
    return [counted(text, status) for text, status in zip(printed, statuses, strict=True)]


def too_late(*_: object) -> None:
    """The run has taken too long."""
    raise TimeoutError(f"no end after {LIMIT // 60} minutes")


def main() -> None:
    """Build, install, run; ends with status 1 where something failed."""
    parser = argparse.ArgumentParser(prog="make test-arm64", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="tests")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it mounts and enters a root, which only root can do")
    LOG.parent.mkdir(parents=True, exist_ok=True)
    root, qemu = unpacked("arm64", "arm64", PACKAGES), unpacked("qemu", "amd64", ("qemu-user",))
    started = time.monotonic()
    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(LIMIT)
    with Arm64(root, qemu) as machine:
        print("openat2:", machine.ok("/usr/bin/python3", "-c", OPENAT2).strip(), flush=True)
        build = cross_build(root, machine.scratch / "cross")
        print("launcher:", (build / "native/shim").stat().st_size, "bytes", flush=True)
        install(machine, build)
        print("version:", machine.ok("/opt/shim/bin/shim", "version").splitlines()[0], flush=True)
        print("create:", created(machine), flush=True)
        print("commands:", answered(machine), flush=True)
        groups = (tuple(options.paths),) if options.paths else TESTS
        results = tested(machine, groups)
    for paths, result in zip(groups, results, strict=True):
        print(f"tests: {result}: {' '.join(paths)}")
    print(f"{(time.monotonic() - started) / 60:.1f} minutes in all")
    if re.search("failed|error", " ".join(results)):
        sys.exit(f"something failed: the output is in {LOG}")


if __name__ == "__main__":
    main()
